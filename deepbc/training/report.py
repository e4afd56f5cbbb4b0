"""The report of a fit: what each law learned, how well, and what was decided on the way."""

__all__ = ["ColumnSummary", "Curve", "FitReport", "VariableFit"]

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from deepbc._validation import pick
from deepbc.data.frames import DataFrame, frame
from deepbc.plots import Figure, plot_fit


@dataclass(frozen=True, slots=True)
class Curve:
    """The mean loss after each epoch, on the rows learned from and on those held out, and the seconds it took."""

    train: tuple[float, ...]
    held_out: tuple[float, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """What a fit took the column of a variable for, before it learned anything.

    Args:
        type: What it is: real, bounded, integer, grid, censored, category, ordered, vector or image.
        origin: Where the type comes from: it was declared, inferred from the column, is that of the chosen law, or is
            the one it had before.
        values: The range and examples of its numbers, or its levels and the share of rows of each.
        rows: The number of rows.
        warnings: What is odd about the column, in plain words, with what to do.
    """

    type: str
    origin: str
    values: str
    rows: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VariableFit:
    """The fit of one variable.

    Args:
        name: The variable.
        type: What it is: real, bounded, integer, grid, censored, category, ordered, vector or image.
        mechanism: The kind of its mechanism.
        nll: The mean held-out negative log-likelihood, in nats and the data's own units.
        rows: The number of held-out rows.
        curves: The learning curve of each stage of the training.
        seconds: The time it took.
        notes: What the fit decided.
        learned: The number of rows learned from; 0 where a model saved long ago does not say.
        column: What its column was taken for; None where a model saved long ago does not say.
        misfits: How its law is known to misfit the data, each a clause; none where nothing is known.
        r2: The share of the variance of held-out rows that its mean explains; None of a category, and without causes.
        auc: The area under the receiver operating characteristic, of a category with causes.
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
    column: ColumnSummary | None = None
    misfits: tuple[str, ...] = ()
    r2: float | None = None
    auc: float | None = None

    @property
    def skill(self) -> str:
        """How well its causes tell it, in a word and a figure."""
        if self.r2 is not None:
            return f"R2 {self.r2:.3f}"

        return "" if self.auc is None else f"AUC {self.auc:.3f}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about its data, in plain words, with what to do."""
        return self.column.warnings if self.column else ()

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
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the data of all variables, in plain words, with what to do."""
        return tuple(warning for variable in self.variables for warning in variable.warnings)

    @property
    def seconds(self) -> float:
        """The time the fit took."""
        return sum(variable.seconds for variable in self.variables)

    def to_frame(self) -> DataFrame:
        """Writes the report as a data frame, one row per variable."""
        fields = ("type", "mechanism", "nll", "rows", "epochs", "seconds")
        columns: dict[str, Any] = {"variable": [variable.name for variable in self.variables]}
        columns |= {field: [getattr(variable, field) for variable in self.variables] for field in fields}
        for field in ("r2", "auc"):
            figures = [getattr(variable, field) for variable in self.variables]
            columns[field] = [math.nan if each is None else each for each in figures]
        columns["notes"] = ["; ".join(variable.notes) for variable in self.variables]
        told = [variable.column or ColumnSummary(variable.type, "", "", 0) for variable in self.variables]
        columns |= {"origin": [each.origin for each in told], "values": [each.values for each in told]}
        columns["warnings"] = [" ".join(each.warnings) for each in told]

        return frame(columns, torch.Size([len(self.variables)]))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
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
