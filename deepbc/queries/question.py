"""What is asked: of which factual worlds, and a value or an interval for each variable of the antecedent."""

__all__ = ["Asked", "Question", "read_question"]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepbc._checks import check_batches, check_finite, check_order, pick
from deepbc.data import read, read_column
from deepbc.errors import DataError
from deepbc.intervals import Interval
from deepbc.scm import SCM
from deepbc.variables import flatten

# Intervals are drawn in by so many standard deviations, so that rounding cannot leave them.
HAIR = 1e-6


@dataclass(frozen=True, slots=True)
class Asked:
    """The ends between which a variable is asked to lie, with shape `(rows, value)`; a value has both in one.

    Args:
        lower: The lower end.
        upper: The upper end.
        interval: Whether it is an interval.
    """

    lower: Tensor
    upper: Tensor
    interval: bool

    def missed(self, x: Tensor) -> Tensor:
        """How far each component lies outside, with the shape of the values."""
        return torch.maximum(self.lower - x, x - self.upper).clamp_min(0.0)

    def repeat(self, count: int) -> "Asked":
        """Repeats all rows so many times, one after the other."""
        return Asked(self.lower.repeat(count, 1), self.upper.repeat(count, 1), self.interval)

    def select(self, rows: Tensor) -> "Asked":
        """Takes the given rows."""
        return Asked(self.lower[rows], self.upper[rows], self.interval)

    def finite(self) -> "Asked":
        """The same with the other end in the place of an infinite one."""
        lower = torch.where(self.lower.isfinite(), self.lower, self.upper)

        return Asked(lower, torch.where(self.upper.isfinite(), self.upper, self.lower), self.interval)

    def drawn_in(self, sd: Tensor) -> "Asked":
        """Draws an interval in by a hair, at most to its middle."""
        hair = torch.minimum(HAIR * sd.expand_as(self.lower), (self.upper - self.lower) / 2)

        return Asked(self.lower + hair, self.upper - hair, True)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, row by row.

    Args:
        x: Factual values by variable, with shape `(rows, value)`.
        u: Factual noise by variable, with shape `(rows, noise)`.
        asked: The antecedent.
        batch: The batch shape of the answer.
    """

    x: Mapping[str, Tensor]
    u: Mapping[str, Tensor]
    asked: Mapping[str, Asked]
    batch: torch.Size


def read_question(scm: SCM, factual: Any, antecedent: Any) -> Question:
    """Reads and checks a question.

    An antecedent outside the bounds of its variable is no error here: the answer says that it cannot be reached.
    """
    x, u = scm.factual_rows(factual)
    columns = antecedent if isinstance(antecedent, Mapping) else read(antecedent, "antecedent", tuple(scm.graph))
    if not len(columns):
        raise DataError("antecedent: expected at least one variable, got none. Write for example {'x': 3.0}.")

    names = [pick(name, tuple(scm.graph), "antecedent") for name in columns]
    asked = {name: _read_one(scm, name, columns[name]) for name in names}
    shapes = {name: rows.shape[:-1] for name, rows in x.items()}
    batch = check_batches({**shapes, **{f"antecedent {name}": each.lower.shape[:-1] for name, each in asked.items()}})

    def flat(rows: Tensor) -> Tensor:
        return rows.expand(*batch, -1).reshape(batch.numel(), rows.shape[-1])

    return Question(
        {name: flat(rows) for name, rows in x.items()},
        {name: flat(rows) for name, rows in u.items()},
        {name: Asked(flat(each.lower), flat(each.upper), each.interval) for name, each in asked.items()},
        batch,
    )


def _read_one(scm: SCM, name: str, asked: Any) -> Asked:
    where = f"antecedent {name!r}"
    if not isinstance(asked, Interval):
        value = _end(scm, name, asked, where)
        check_finite(value, where)
        return Asked(value, value, False)

    if scm.variables[name].dim > 1:
        raise DataError(f"{where}: {asked!r} asks for an interval of a vector. Ask for a value of each component.")

    lower = _end(scm, name, -math.inf if asked.lower is None else asked.lower, where)
    upper = _end(scm, name, math.inf if asked.upper is None else asked.upper, where)
    for end, given in ((lower, asked.lower), (upper, asked.upper)):
        if given is not None:
            check_finite(end, where)
    lower, upper = torch.broadcast_tensors(lower, upper)
    check_order(lower, upper, where)

    return Asked(lower, upper, True)


def _end(scm: SCM, name: str, end: Any, where: str) -> Tensor:
    return flatten(read_column(end, where), scm.variables[name].shape, where).to(device=scm.device, dtype=scm.dtype)
