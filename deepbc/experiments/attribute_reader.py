"""Networks that read numbers from an image; they learn from real images and take no part in the fit of a model."""

__all__ = ["AttributeReader", "train_reader"]

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from deepbc import __version__
from deepbc.nn.conv import Reader, start
from deepbc.numerics.seeding import generator
from deepbc.progress import progress
from deepbc.training.checkpoint import Checkpoint, fingerprint
from deepbc.training.distributed import shared
from deepbc.training.trainer import Learner, Split, Trainer, Training

WHITE, WIDTH, CHUNK = 255.0, 32, 512


class AttributeReader(Learner):
    """Creates a network that reads numbers from images, given other numbers.

    Args:
        shape: The channels, height and width of an image.
        names: What it reads.
        given: What it is given.
    """

    eval_chunk = CHUNK

    mean: Tensor
    sd: Tensor

    def __init__(self, shape: tuple[int, int, int], names: Sequence[str], given: Sequence[str]) -> None:
        super().__init__()
        self.shape, self.names, self.given = shape, tuple(names), tuple(given)
        with torch.random.fork_rng(devices=[]):
            # A network needs something to look at, even where nothing is given.
            self.network = Reader(shape, max(1, len(given)), len(names), WIDTH)
        for each in ("mean", "sd"):
            self.register_buffer(each, torch.zeros(len(names) + len(given), dtype=torch.float64))

    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        """The squared error; the first of the `parents`, in standard deviations, are to be read, the others given."""
        read, given = parents.split([len(self.names), len(self.given)], dim=-1)

        errors: Tensor = (self.scores(x, given) - read).square()

        return errors.mean(-1)

    def scores(self, x: Tensor, given: Tensor) -> Tensor:
        """Reads the numbers of each image `(batch, value)` in standard deviations, with shape `(batch, names)`."""
        weight = self.network.last.weight
        condition = given if self.given else x.new_zeros(len(x), 1)
        outputs: Tensor = self.network(x.to(weight).reshape(-1, *self.shape) / WHITE, condition.to(weight))

        return outputs

    @torch.no_grad()
    def read(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Reads the numbers of images in their own units, each with shape `(rows,)`; `values` hold the given ones."""
        count = len(self.names)
        x = values["image"].flatten(1)
        given = torch.stack([values[name] for name in self.given], dim=-1) if self.given else torch.zeros(len(x), 0)
        z = (given - self.mean[count:]) / self.sd[count:]
        scores = torch.cat([self.scores(*part) for part in zip(x.split(CHUNK), z.split(CHUNK), strict=True)])
        numbers = self.mean[:count] + self.sd[:count] * scores.double()

        return dict(zip(self.names, numbers.unbind(-1), strict=True))

    def of(self, name: str) -> nn.Module:
        """What reads one of the numbers from rows of pixels `(batch, value)`, as `(batch, 1)`; it is given nothing."""
        return _One(self, self.names.index(name))


class _One(nn.Module):
    def __init__(self, reader: AttributeReader, place: int) -> None:
        super().__init__()
        self.reader, self.place = reader, place

    def forward(self, x: Tensor) -> Tensor:
        k = self.place
        score = self.reader.scores(x, x[:, :0])[:, k : k + 1]

        return self.reader.mean[k] + self.reader.sd[k] * score.double()


def train_reader(
    data: Mapping[str, Tensor],
    names: Sequence[str],
    training: Training,
    seed: int,
    fits: Path,
    *,
    given: Sequence[str] = (),
) -> AttributeReader:
    """Trains a reader on real images, or takes it from an earlier run with the same data and settings.

    Args:
        data: Columns, among them `image`.
        names: What to read.
        training: How to train.
        seed: Where all random numbers come from.
        fits: The folder in which the state is kept.
        given: What the reader is given.
    """
    image = data["image"].flatten(1)
    columns_of = (*names, *given)
    columns = torch.stack([data[name] for name in columns_of], dim=-1)
    channels, height, width = data["image"].shape[1:] if data["image"].ndim == 4 else (1, *data["image"].shape[1:])
    reader = AttributeReader((channels, height, width), names, given)
    reader.mean, reader.sd = columns.mean(0), columns.std(0)
    start(reader, generator(seed, "judge", *columns_of))

    order = torch.randperm(len(image), generator=generator(seed, "judge", "split"))
    held, kept = order.tensor_split([round(training.validation * len(image))])
    key = fingerprint([__version__, list(names), list(given), asdict(training), seed], [image, columns])
    label = "-and-".join(names)
    checkpoint = Checkpoint(fits / f"judge-of-{label}-{key[:8]}", key)
    with progress(f"reader of {', '.join(names)}", training.epochs, None) as shown:

        def on_epoch(stage: str, epoch: int, loss: float) -> None:
            shown.describe(f"epoch {epoch}, held-out {loss:.4f}")
            shown.advance()

        rows = Split(image, (columns - reader.mean) / reader.sd, kept, held)
        Trainer(training, rows, names[0], seed, shared(), checkpoint, on_epoch)(reader, "judge")
    reader.requires_grad_(False)

    return reader
