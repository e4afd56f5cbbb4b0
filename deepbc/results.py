"""What comes back: the answer to a counterfactual question, its status, and the report of a fit."""

__all__ = [
    "CONVERGED",
    "NEARLY",
    "Counterfactual",
    "Curve",
    "Diagnostics",
    "FitReport",
    "Status",
    "VariableFit",
    "infeasible",
    "not_converged",
]

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from deepbc._checks import pick
from deepbc.frames import frame
from deepbc.graph import CausalGraph
from deepbc.levels import Levels
from deepbc.plots import Drawing, plot_counterfactual, plot_fit, plot_samples
from deepbc.world import World

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

FAR = 4.0


class Status(str):
    """How an answer ended: `converged`, `infeasible` or `not converged`, with a sentence and a remedy.

    It compares as its word, so that `cf.status == "converged"` is a mask of rows.

    Example:
        >>> CONVERGED == "converged"
        True
    """

    __slots__ = ("reason", "remedy")

    reason: str
    remedy: str

    def __new__(cls, word: str, reason: str, remedy: str) -> Self:
        status = super().__new__(cls, word)
        status.reason, status.remedy = reason, remedy
        return status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.reason, self.remedy)

    def explain(self) -> str:
        """Says the status with its sentence and its remedy."""
        return f"{self}: {self.reason} {self.remedy}".strip()


CONVERGED = Status("converged", "The antecedent holds and the answer is a solution.", "")


NEARLY = Status("converged", "The antecedent holds up to what the penalty allows; `error` says how nearly.", "")


def infeasible(reason: str, remedy: str) -> Status:
    """Creates the status of a question that has no answer."""
    return Status("infeasible", reason, remedy)


def not_converged(reason: str, remedy: str) -> Status:
    """Creates the status of an answer that is only the best one found."""
    return Status("not converged", reason, remedy)


@dataclass(frozen=True, slots=True, eq=False)
class Diagnostics:
    """Whether the samples of a row are to be trusted.

    Args:
        r_hat: How much the chains of a row disagree (the rank-normalised split R-hat), with shape `(*rows,)`; near 1
            where they tell of one density.
        effective: How many independent samples those of a row are worth, with shape `(*rows,)`.
        acceptance: The part of the proposals that was taken, with shape `(*rows,)`.
    """

    r_hat: Tensor
    effective: Tensor
    acceptance: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Counterfactual:
    r"""The answer to a counterfactual question, with its evidence.

    Args:
        graph: The causal graph.
        values: Counterfactual values :math:`x^*` by variable, in the data's own units, with shape `(*batch, *shape)`;
            labels of text as an array of objects.
        noise: Counterfactual noise :math:`u^*` by variable.
        factual: The factual world.
        antecedent: What was asked for, by variable: values, or an interval.
        moved: The distance that each variable's noise carries, with shape `(*batch,)`: the explanation.
        distance: The total distance, with shape `(*batch,)`.
        error: How far a fresh prediction from the noise misses the antecedent, in standard deviations of the variable,
            with shape `(*batch,)`.
        farthest: The largest noise among those that moved, in standard deviations, with shape `(*batch,)`.
        clipped: The number of pixels that a law cut to their range by more than a grey level, with shape `(*batch,)`;
            0 but for an image that keeps what its decoder misses.
        status: The status of each row; a single one for a single row.
        batch: The batch shape. Samples have an axis in front, which `factual`, `antecedent`, `status` and `diagnostics`
            lack.
        diagnostics: What a sampler says of each row; None where there are no samples.
    """

    graph: CausalGraph
    values: Mapping[str, Any]
    noise: Mapping[str, Tensor]
    factual: World
    antecedent: Mapping[str, Any]
    moved: Mapping[str, Tensor]
    distance: Tensor
    error: Tensor
    farthest: Tensor
    clipped: Tensor
    status: Any
    batch: torch.Size
    diagnostics: Diagnostics | None = None

    @property
    def extrapolates(self) -> Tensor:
        """Whether a row rests on noise beyond 4 standard deviations, of which data show next to nothing."""
        return self.farthest > FAR

    def to_frame(self) -> "pandas.DataFrame":
        """Writes the answer as a data frame: values, factual values, what moved, distance, error, farthest and status.

        Images are left out. Samples have an index of sample and row, and the columns of `diagnostics` as well. Where a
        variable has the name of one of the other columns, that column gets the prefix `answer`.
        """
        columns: dict[str, Any] = dict(self.values)
        kinds = dict(self.factual.kinds)
        for name, column in self._evidence().items():
            kind = self.factual.kinds.get(name.removeprefix("factual ")) if name.startswith("factual ") else None
            while name in columns:
                name = f"answer {name}"
            columns[name] = column
            kinds |= {name: kind} if kind else {}
        names = ("sample", "row") if self.diagnostics and len(self.batch) == 2 else None

        return frame(columns, self.batch, names, kinds)

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Draws factual against counterfactual values, which noise carried the change, and the graph coloured by it.

        What was asked about has a star and a ring; a row that does not hold has crosses. Samples are drawn as the
        marginals of each variable: of the first rows, beside the factual value.

        Args:
            path: The file to write, if any.
        """
        queries = self.batch[1:] if self.diagnostics else self.batch
        rows, samples = queries.numel(), self.batch[: len(self.batch) - len(queries)]
        before = {name: _flat(each, rows, tuple(each.shape[len(queries) :])) for name, each in self._numbers("before")}
        caption = f"{rows:,} {'row' if rows == 1 else 'rows'}: {self._ends()}{self._far()}"
        drawing = Drawing(
            graph=self.graph,
            before=before,
            after={name: each.reshape(*samples, *before[name].shape) for name, each in self._numbers("after")},
            labels={name: [str(item) for item in each.items] for name, each in self._levels().items()},
            moved={name: each.reshape(*samples, rows) for name, each in self.moved.items()},
            asked=tuple(self.antecedent),
            held=torch.from_numpy(np.asarray(np.asarray(self.status).reshape(rows) == CONVERGED, dtype=bool)),
            caption=f"{self.batch[0]:,} samples, {caption}" if self.diagnostics else caption,
        )

        return plot_samples(drawing, path) if self.diagnostics else plot_counterfactual(drawing, path)

    def _levels(self) -> dict[str, Levels]:
        return {name: kind.levels for name, kind in self.factual.kinds.items() if kind.levels}

    def _numbers(self, when: str) -> Iterator[tuple[str, Tensor]]:
        """The values before or after, labels as codes."""
        levels = self._levels()
        for name, each in (self.factual.values if when == "before" else self.values).items():
            yield name, levels[name].codes(each, name) if name in levels else each

    def _evidence(self) -> dict[str, Any]:
        # Each sample has the factual values of its row.
        columns: dict[str, Any] = {
            f"factual {name}": np.broadcast_to(np.asarray(each), tuple(self.values[name].shape))
            for name, each in self.factual.values.items()
        }
        columns |= {f"moved {name}": column for name, column in self.moved.items()}
        columns |= {"distance": self.distance, "error": self.error, "farthest": self.farthest}
        if self.diagnostics:
            said = {"r_hat": self.diagnostics.r_hat, "effective": self.diagnostics.effective}
            columns |= {name: each.expand(self.batch) for name, each in said.items()}

        return columns | {"status": self._statuses()}

    def _statuses(self) -> "np.ndarray[Any, Any]":
        return np.broadcast_to(np.asarray(self.status, dtype=object), tuple(self.batch))

    def _ends(self) -> str:
        words, counts = np.unique(np.asarray(self.status, dtype=str), return_counts=True)

        return ", ".join(f"{count:,} {word}" for word, count in zip(words, counts, strict=True)) or "no rows"

    def _far(self) -> str:
        count = int(self.extrapolates.sum())

        return f"; {count:,} beyond {FAR:g} sd of noise" if count else ""

    def __repr__(self) -> str:
        asked = ", ".join(self.antecedent)
        samples = f"samples: {self.batch[0]}; " if self.diagnostics else ""
        rows = tuple(self.batch[1:] if self.diagnostics else self.batch)
        return f"Counterfactual(antecedent: {asked}; {samples}rows: {rows}; {self._ends()})"


@dataclass(frozen=True, slots=True)
class Curve:
    """The mean loss after each epoch, on the rows learned from and on those held out, and the seconds it took."""

    train: tuple[float, ...]
    held_out: tuple[float, ...]
    seconds: float


def _flat(values: Tensor, rows: int, shape: tuple[int, ...]) -> Tensor:
    """Brings values to the shape `(rows, components)`; images stay images."""
    return values.reshape(rows, *(shape if len(shape) > 1 else (math.prod(shape),)))


@dataclass(frozen=True, slots=True)
class VariableFit:
    """The fit of one variable.

    Args:
        name: The variable.
        type: What it is: real, bounded, integer, category, ordered, vector or image.
        mechanism: The kind of its mechanism.
        nll: The mean held-out negative log-likelihood, in nats and the data's own units.
        rows: The number of held-out rows.
        curves: The learning curve of each stage of the training.
        seconds: The time it took.
        notes: What the fit decided.
        learned: The number of rows learned from; 0 where a model saved long ago does not say.
    """

    name: str
    type: str
    mechanism: str
    nll: float
    rows: int
    curves: Mapping[str, Curve]
    seconds: float
    notes: tuple[str, ...]
    learned: int = 0

    @property
    def epochs(self) -> int:
        """The number of epochs of all stages."""
        return sum(len(curve.train) for curve in self.curves.values())


@dataclass(frozen=True, slots=True)
class FitReport:
    """The report of a fit: one entry per fitted variable, in the order of the graph."""

    variables: tuple[VariableFit, ...]

    @property
    def nll(self) -> float:
        """The held-out negative log-likelihood of all fitted variables together, in nats and original units.

        A variable that has no density, whose own `nll` is NaN, adds nothing.
        """
        return sum(variable.nll for variable in self.variables if not math.isnan(variable.nll))

    @property
    def seconds(self) -> float:
        """The time the fit took."""
        return sum(variable.seconds for variable in self.variables)

    def to_frame(self) -> "pandas.DataFrame":
        """Writes the report as a data frame, one row per variable."""
        fields = ("type", "mechanism", "nll", "rows", "epochs", "seconds")
        columns = {"variable": [variable.name for variable in self.variables]}
        columns |= {field: [getattr(variable, field) for variable in self.variables] for field in fields}
        columns["notes"] = ["; ".join(variable.notes) for variable in self.variables]

        return frame(columns, torch.Size([len(self.variables)]))

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Draws the learning curves; writes the file if named."""
        curves = {
            variable.name: {stage: (curve.train, curve.held_out) for stage, curve in variable.curves.items()}
            for variable in self.variables
        }
        return plot_fit(curves, path)

    def __iter__(self) -> Iterator[VariableFit]:
        return iter(self.variables)

    def __getitem__(self, name: str) -> VariableFit:
        known = {variable.name: variable for variable in self.variables}
        return known[pick(name, known, "fit report")]

    def __repr__(self) -> str:
        parts = ", ".join(f"{variable.name}: {variable.nll:.4f}" for variable in self.variables)
        return f"FitReport(held-out nll in nats: {parts}; {self.seconds:.1f} s)"
