"""Predictors that read a number from an image; they learn from real images and take no part in the fit of a model."""

__all__ = ["Judge", "train_judge"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from deepbc import __version__
from deepbc.checkpoint import Checkpoint, fingerprint
from deepbc.nn.conv import Reader, start
from deepbc.progress import progress
from deepbc.seeds import generator
from deepbc.sharing import shared
from deepbc.training import Learner, Loop, Rows, Training

WHITE, WIDTH, CHUNK = 255.0, 32, 512


class Judge(Learner):
    """Creates a network that reads a number from grey images, beside other numbers that it is told.

    Args:
        side: The height and width of the images.
        told: How many numbers it is told.
    """

    judged = CHUNK

    def __init__(self, side: int, told: int) -> None:
        super().__init__()
        self.side = side
        with torch.random.fork_rng(devices=[]):
            # A network needs something to look at, even where nothing is told.
            self.network = Reader((1, side, side), max(1, told), 1, WIDTH)

    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        """The squared error; of `parents`, in standard deviations, the first is to be read and the others are told."""
        return (self.read(x, parents[:, 1:]) - parents[:, 0]).square()

    def read(self, image: Tensor, told: Tensor) -> Tensor:
        """Reads the number of each image, in standard deviations, with shape `(rows,)`."""
        seen = told.float() if told.shape[-1] else torch.zeros(len(image), 1)
        outputs: Tensor = self.network(image.reshape(-1, 1, self.side, self.side).float() / WHITE, seen)

        return outputs[:, 0]


def train_judge(
    data: Mapping[str, Tensor], names: Sequence[str], training: Training, seed: int, fits: Path
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Trains a judge on real images, or takes it from an earlier run with the same data and settings.

    Args:
        data: Columns, among them `image`.
        names: What to read, and what is told.
        training: How to train.
        seed: Where all random numbers come from.
        fits: The folder in which the state is kept.

    Returns:
        What reads the number from the images of other columns, in its own units.
    """
    image = data["image"].flatten(1)
    columns = torch.stack([data[name] for name in names], dim=-1)
    mean, sd = columns.mean(0), columns.std(0)
    judge = Judge(data["image"].shape[-1], len(names) - 1)
    start(judge, generator(seed, "judge", *names))

    order = torch.randperm(len(image), generator=generator(seed, "judge", "split"))
    held, kept = order.tensor_split([round(training.validation * len(image))])
    key = fingerprint([__version__, list(names), asdict(training), seed], [image, columns])
    checkpoint = Checkpoint(fits / f"judge-of-{names[0]}-{key[:8]}", key)
    with progress(f"judge of {names[0]}", training.epochs, None) as shown:

        def tell(stage: str, epoch: int, loss: float) -> None:
            shown.tell(f"epoch {epoch}, held-out {loss:.4f}")
            shown.advance()

        rows = Rows(image, (columns - mean) / sd, kept, held)
        Loop(training, rows, names[0], seed, shared(), checkpoint, tell)(judge, "judge")

    @torch.no_grad()
    def read(values: Mapping[str, Tensor]) -> Tensor:
        z = (torch.stack([values[name] for name in names], dim=-1) - mean) / sd
        parts = zip(values["image"].flatten(1).split(CHUNK), z[:, 1:].split(CHUNK), strict=True)
        return mean[0] + sd[0] * torch.cat([judge.read(*part) for part in parts]).double()

    return read
