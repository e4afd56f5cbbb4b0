"""Networks that read numbers from an image; they learn from real images and take no part in the fit of a model."""

__all__ = ["Judge", "train_judge"]

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


class Judge(Learner):
    """Creates a network that reads numbers from images, beside other numbers that it is told.

    Args:
        shape: The channels, height and width of an image.
        names: What it reads.
        told: What it is told.
    """

    judged = CHUNK

    mean: Tensor
    sd: Tensor

    def __init__(self, shape: tuple[int, int, int], names: Sequence[str], told: Sequence[str]) -> None:
        super().__init__()
        self.shape, self.names, self.told = shape, tuple(names), tuple(told)
        with torch.random.fork_rng(devices=[]):
            # A network needs something to look at, even where nothing is told.
            self.network = Reader(shape, max(1, len(told)), len(names), WIDTH)
        for each in ("mean", "sd"):
            self.register_buffer(each, torch.zeros(len(names) + len(told), dtype=torch.float64))

    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        """The squared error; the first of the `parents`, in standard deviations, are to be read, the others told."""
        read, told = parents.split([len(self.names), len(self.told)], dim=-1)

        errors: Tensor = (self.scores(x, told) - read).square()

        return errors.mean(-1)

    def scores(self, x: Tensor, told: Tensor) -> Tensor:
        """Reads the numbers of each image `(batch, value)` in standard deviations, with shape `(batch, names)`."""
        weight = self.network.last.weight
        seen = told if self.told else x.new_zeros(len(x), 1)
        outputs: Tensor = self.network(x.to(weight).reshape(-1, *self.shape) / WHITE, seen.to(weight))

        return outputs

    @torch.no_grad()
    def read(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Reads the numbers of images in their own units, each with shape `(rows,)`, beside columns that are told."""
        count = len(self.names)
        x = values["image"].flatten(1)
        told = torch.stack([values[name] for name in self.told], dim=-1) if self.told else torch.zeros(len(x), 0)
        z = (told - self.mean[count:]) / self.sd[count:]
        scores = torch.cat([self.scores(*part) for part in zip(x.split(CHUNK), z.split(CHUNK), strict=True)])
        numbers = self.mean[:count] + self.sd[:count] * scores.double()

        return dict(zip(self.names, numbers.unbind(-1), strict=True))

    def reader(self, name: str) -> nn.Module:
        """What reads one of the numbers from rows of pixels `(batch, value)`, as `(batch, 1)`; it is told nothing."""
        return _Reader(self, self.names.index(name))


class _Reader(nn.Module):
    def __init__(self, judge: Judge, place: int) -> None:
        super().__init__()
        self.judge, self.place = judge, place

    def forward(self, x: Tensor) -> Tensor:
        k = self.place
        score = self.judge.scores(x, x[:, :0])[:, k : k + 1]

        return self.judge.mean[k] + self.judge.sd[k] * score.double()


def train_judge(
    data: Mapping[str, Tensor],
    names: Sequence[str],
    training: Training,
    seed: int,
    fits: Path,
    *,
    told: Sequence[str] = (),
) -> Judge:
    """Trains a judge on real images, or takes it from an earlier run with the same data and settings.

    Args:
        data: Columns, among them `image`.
        names: What to read.
        training: How to train.
        seed: Where all random numbers come from.
        fits: The folder in which the state is kept.
        told: What the judge is told.
    """
    image = data["image"].flatten(1)
    known = (*names, *told)
    columns = torch.stack([data[name] for name in known], dim=-1)
    channels, height, width = data["image"].shape[1:] if data["image"].ndim == 4 else (1, *data["image"].shape[1:])
    judge = Judge((channels, height, width), names, told)
    judge.mean, judge.sd = columns.mean(0), columns.std(0)
    start(judge, generator(seed, "judge", *known))

    order = torch.randperm(len(image), generator=generator(seed, "judge", "split"))
    held, kept = order.tensor_split([round(training.validation * len(image))])
    key = fingerprint([__version__, list(names), list(told), asdict(training), seed], [image, columns])
    label = "-and-".join(names)
    checkpoint = Checkpoint(fits / f"judge-of-{label}-{key[:8]}", key)
    with progress(f"judge of {', '.join(names)}", training.epochs, None) as shown:

        def tell(stage: str, epoch: int, loss: float) -> None:
            shown.tell(f"epoch {epoch}, held-out {loss:.4f}")
            shown.advance()

        rows = Split(image, (columns - judge.mean) / judge.sd, kept, held)
        Trainer(training, rows, names[0], seed, shared(), checkpoint, tell)(judge, "judge")
    judge.requires_grad_(False)

    return judge
