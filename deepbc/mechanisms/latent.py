"""How a latent law of numbers learns from what shows of its values: rounded, or cut at floor and ceiling."""

__all__ = ["Loss", "TrainLatent"]

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from deepbc.training.trainer import Learner, Train

# The loss of a latent law on values that show, or on such as would show, and parents; with shape `(rows,)`.
Loss = Callable[[Learner, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class TrainLatent:
    """Trains a latent law by the loss of what shows.

    Args:
        train: Trains any learner.
        loss: The loss.
    """

    train: Train
    loss: Loss

    def __call__(self, learner: Learner, stage: str, *, everything: bool = False) -> Tensor:
        return self.train(_Latent(learner, self.loss), stage, everything=everything)


class _Latent(Learner):
    """A latent law with the loss of what shows."""

    def __init__(self, learner: Learner, loss: Loss) -> None:
        super().__init__()
        self.learner, self.loss_of, self.posterior = learner, loss, learner.posterior

    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        return self.loss_of(self.learner, x, parents)
