r"""The one training loop: Adam on mini-batches, early stopping on held-out rows, the best weights kept.

What is evaluated and kept is a running average of the weights, which has less noise than the last step's. The loop sees
a module with a loss and rows of data, nothing causal.
"""

__all__ = ["Learner", "Split", "Train", "Trainer", "Training"]

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Protocol

import torch
from torch import Generator, Tensor, nn

from deepbc._validation import check_between, check_count
from deepbc.errors import FitError
from deepbc.numerics.quasi_newton import minimize
from deepbc.numerics.seeding import generator
from deepbc.training.adam import Adam
from deepbc.training.checkpoint import Checkpoint
from deepbc.training.distributed import Share
from deepbc.training.report import Curve

LEAST_FALL = 1e-5
SECONDS_BETWEEN_SAVES = 2.0
# Rows, steps and the least rise of one where the mode of a posterior is sought.
POSTERIOR_ROWS, POSTERIOR_STEPS, LEAST_RISE = 20_000, 60, 1e-3


@dataclass(frozen=True, slots=True)
class Training:
    r"""How a mechanism is trained.

    Args:
        epochs: The most passes over the rows.
        batch: The rows of a mini-batch; None takes a sixteenth of the rows, at least 64 and at most 1,024.
        learning_rate: The first step size of Adam.
        patience: The epochs without a lower held-out loss after which the training stops.
        average: The number of steps over which the weights are averaged; 1 takes them as they are.
        pull: The strength of an L2 penalty toward the start of the weights, in rows of data that it weighs as much as.
        clip: The largest norm of a gradient.
        validation: The share of the rows that is held out.
    """

    epochs: int = 500
    batch: int | None = None
    learning_rate: float = 5e-3
    patience: int = 10
    average: int = 200
    pull: float = 400.0
    clip: float = 5.0
    validation: float = 0.2

    def __post_init__(self) -> None:
        check_count(self.epochs, "Training epochs", least=1)
        check_count(self.patience, "Training patience", least=1)
        check_count(self.average, "Training average", least=1)
        check_between(self.pull, 0.0, math.inf, "Training pull", closed=True)
        check_between(self.learning_rate, 0.0, math.inf, "Training learning_rate")
        check_between(self.clip, 0.0, math.inf, "Training clip")
        check_between(self.validation, 0.0, 1.0, "Training validation")
        if self.batch is not None:
            check_count(self.batch, "Training batch", least=1)

    def batch_of(self, rows: int) -> int:
        """The size of a mini-batch for a number of rows."""
        return self.batch or max(64, min(1024, rows // 16))


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of a fit, to learn from and held out. Columns are left where they are, in memory or on disk.

    Args:
        column: The values of all rows, with shape `(rows, value)`; those of images may be bytes.
        context: The parents of all rows, with shape `(rows, parents)`.
        kept: Which rows to learn from.
        held: Which rows are held out.
        loss: What scores a law on values and parents; its own loss by default.
        latent: Whether the values stand for what does not show, such as numbers before they were rounded.
    """

    column: Tensor
    context: Tensor
    kept: Tensor
    held: Tensor
    loss: "Callable[[Learner, Tensor, Tensor], Tensor]" = field(default=lambda law, x, parents: law.loss(x, parents))
    latent: bool = False

    @property
    def x(self) -> Tensor:
        """The values to learn from."""
        return self.column[self.kept]

    @property
    def parents(self) -> Tensor:
        """The parents to learn from."""
        return self.context[self.kept]

    @property
    def held_x(self) -> Tensor:
        """The values held out."""
        return self.column[self.held]

    @property
    def held_parents(self) -> Tensor:
        """The parents held out."""
        return self.context[self.held]

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The values and the parents of some of all rows."""
        return self.column[rows], self.context[rows]


class Learner(nn.Module, ABC):
    """What the loop trains: a module with one loss a row. It is in training mode only while it learns."""

    # Rows per chunk of an evaluation.
    eval_chunk: ClassVar[int] = 65_536
    # Whether its weights are standard normal a priori, so that few steps on all rows find the mode of their posterior.
    posterior: bool = False

    def begin(self, stream: Generator) -> None:
        """Hook: takes the stream for the random numbers of the loss, before each pass over the rows."""

    def update_statistics(self, rows: Split) -> None:
        """Hook: recomputes statistics from the training rows, before weights are evaluated or kept."""

    @abstractmethod
    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        r"""Computes what training minimises, with shape `(*batch,)`.

        Args:
            x: Values :math:`x`, with shape `(*batch, value)`.
            parents: Parents :math:`x_{pa}`, with shape `(*batch, parents)`.
        """


class Train(Protocol):
    """Trains a learner."""

    def __call__(self, learner: Learner, stage: str, *, everything: bool = False) -> Tensor:
        """Trains a learner and returns its held-out losses, with shape `(rows,)`.

        Args:
            learner: The learner.
            stage: The name of the stage.
            everything: Whether to learn from all rows, those held out too; for a posterior alone.
        """


@dataclass(slots=True)
class Run:
    """The state of a stage between two epochs, beside that of the optimiser."""

    epoch: int = 0
    best: float = math.inf
    waited: int = 0
    seconds: float = 0.0
    done: bool = False
    train: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Trainer:
    r"""The training loop for one variable.

    Args:
        training: The settings.
        rows: The rows to learn from and those held out.
        name: The variable, for errors and seeds.
        seed: Where the order of the rows comes from.
        share: The part of this process.
        checkpoint: Where the state is kept.
        on_epoch: Called with the stage, the epoch and the held-out loss after each epoch.
    """

    training: Training
    rows: Split
    name: str
    seed: int
    share: Share
    checkpoint: Checkpoint
    on_epoch: Callable[[str, int, float], None]
    curves: dict[str, Curve] = field(default_factory=dict)

    def __call__(self, learner: Learner, stage: str, *, everything: bool = False) -> Tensor:
        """Trains the learner to its least held-out loss and returns its held-out losses, with shape `(rows,)`."""
        if learner.posterior:
            rows = torch.cat([self.rows.kept, self.rows.held]) if everything else self.rows.kept
            return self._maximize_posterior(learner, stage, rows)

        pull = self.training.pull / len(self.rows.kept)
        adam = Adam(learner, self.training.learning_rate, pull=pull, horizon=self.training.average)
        run, best_weights = self._resume(adam, stage)
        saved = time.monotonic()

        while not run.done:
            start = time.monotonic()
            run.train.append(self._epoch(learner, adam, stage, run.epoch))
            with adam.averaged():
                learner.update_statistics(self.rows)
                run.held_out.append(self._mean_held_out(learner, stage))
            self._stop_early(adam, run, best_weights)
            run.seconds += time.monotonic() - start
            self.on_epoch(stage, run.epoch, run.held_out[-1])
            if run.done or time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                self._save(adam, run, best_weights, stage)
                saved = time.monotonic()

        adam.weights.copy_(best_weights)
        learner.requires_grad_(False)
        learner.update_statistics(self.rows)
        self.curves[stage] = Curve(tuple(run.train), tuple(run.held_out), run.seconds)

        return self._held_out(learner, stage, self.rows.held)

    def _maximize_posterior(self, learner: Learner, stage: str, rows: Tensor) -> Tensor:
        """Finds the mode of the posterior of the weights by at most so many of the rows."""
        start = time.monotonic()
        some = rows[:POSTERIOR_ROWS]
        x, parents = self.rows.of(some)
        weights = [each for each in learner.parameters() if each.requires_grad]
        share = len(rows) / len(some)

        def negative(theta: Tensor) -> tuple[float, Tensor]:
            _put(weights, theta)
            with torch.enable_grad():
                loss = share * learner.loss(x, parents).sum()
                gradient = torch.autograd.grad(loss, weights)
            total = loss.item() + 0.5 * theta.square().sum().item()
            return total, _flat(gradient) + theta

        found, loss = minimize(negative, _flat(weights), steps=POSTERIOR_STEPS, least_fall=LEAST_RISE)
        _put(weights, found)
        learner.requires_grad_(False)
        held_out = self._held_out(learner, stage, self.rows.held)
        mean = held_out.mean().item()
        self.curves[stage] = Curve((loss / len(rows),), (mean,), time.monotonic() - start)

        return held_out

    def _epoch(self, learner: Learner, adam: Adam, stage: str, epoch: int) -> float:
        """Passes once over the rows, in an order that the seed fixes, and returns the mean loss."""
        kept = self.rows.kept
        rows = len(kept)
        order = kept[torch.randperm(rows, generator=generator(self.seed, self.name, stage, epoch)).to(kept.device)]
        total = torch.zeros((), dtype=torch.float64, device=kept.device)

        learner.train()
        learner.begin(generator(self.seed, self.name, stage, epoch, "loss", self.share.rank))
        for batch in order.split(self.training.batch_of(rows)):
            loss = learner.loss(*self.rows.of(self.share.of(batch))).sum() / len(batch)
            loss.backward()
            self.share.sum(adam.gradient)
            adam.clip(self.training.clip)
            adam.step()
            total += loss.detach() * len(batch)

        return self._finite(self.share.sum(total).item() / rows, epoch)

    def _stop_early(self, adam: Adam, run: Run, best_weights: Tensor) -> None:
        """Keeps the averaged weights if they are the best so far, and stops after too long without."""
        run.epoch += 1
        run.waited += 1
        if run.held_out[-1] < run.best - LEAST_FALL:
            run.best, run.waited = run.held_out[-1], 0
            best_weights.copy_(adam.average)

        run.done = run.waited >= self.training.patience or run.epoch >= self.training.epochs

    def _mean_held_out(self, learner: Learner, stage: str) -> float:
        """The mean held-out loss, over the shares of all processes."""
        total = self._held_out(learner, stage, self.share.of(self.rows.held)).sum().double()

        return self._finite(self.share.sum(total).item() / len(self.rows.held), None)

    def _held_out(self, learner: Learner, stage: str, rows: Tensor) -> Tensor:
        learner.eval()
        # The same random numbers in each epoch, so that losses can be compared.
        learner.begin(generator(self.seed, self.name, stage, "held out", self.share.rank))
        with torch.no_grad():
            return torch.cat([learner.loss(*self.rows.of(chunk)) for chunk in rows.split(learner.eval_chunk)])

    def _finite(self, loss: float, epoch: int | None) -> float:
        if math.isfinite(loss):
            return loss

        part = "held-out loss" if epoch is None else f"loss of epoch {epoch + 1}"
        raise FitError(
            f"Variable {self.name!r}: the {part} turned {loss}. Lower the learning rate, for example "
            f"training=Training(learning_rate={self.training.learning_rate / 10:g}), and look for extreme values."
        )

    def _resume(self, adam: Adam, stage: str) -> tuple[Run, Tensor]:
        """Starts a stage, or takes it up where the checkpoint left it."""
        kept = self.checkpoint.load(self._key(stage))
        if kept is None:
            return Run(), adam.weights.clone()

        numbers, tensors = kept
        state = {**adam.state(), "best_weights": adam.weights.clone()}
        if _types(numbers) != _types({**asdict(Run()), "steps": 0}) or _shapes(tensors) != _shapes(state):
            raise FitError(
                f"Variable {self.name!r}: the checkpoint does not hold the state of its stage {stage!r}. Remove the "
                f"folder to start anew."
            )

        adam.steps = numbers.pop("steps")
        for key, tensor in state.items():
            tensor.copy_(tensors[key])

        return Run(**numbers), state["best_weights"]

    def _save(self, adam: Adam, run: Run, best_weights: Tensor, stage: str) -> None:
        numbers = {**asdict(run), "steps": adam.steps}
        self.checkpoint.save(self._key(stage), numbers, {**adam.state(), "best_weights": best_weights})

    def _key(self, stage: str) -> str:
        return f"{self.name}/{stage}"


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([each.detach().reshape(-1) for each in tensors])


@torch.no_grad()
def _put(weights: Sequence[Tensor], theta: Tensor) -> None:
    for weight, part in zip(weights, theta.split([each.numel() for each in weights]), strict=True):
        weight.copy_(part.view_as(weight))


def _types(numbers: Mapping[str, object]) -> dict[str, type]:
    return {key: type(number) for key, number in numbers.items()}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(tensor.shape) for key, tensor in tensors.items()}
