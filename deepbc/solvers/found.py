"""What a walk through a problem found."""

__all__ = ["ROUNDING", "Found"]

from dataclasses import dataclass, fields

import torch
from torch import Tensor

# A row that is better by less than this, or misses by less, is no other one.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Found:
    """What a walk found, one a row.

    Args:
        noises: The free and implied noises, with shape `(rows, noises)`.
        still: Which of them were held at rest.
        ends: Which end of each constraint was held: -1 the lower, 1 the upper, 0 none.
        multipliers: The force on each constraint, with shape `(rows, constraints)`.
        cost: The cost, with shape `(rows,)`.
        missed: How far the constraints are missed in all, with shape `(rows,)`.
        status: How the row ended.
        doubtful: Whether there may well be a lower valley than that of the row.
    """

    noises: Tensor
    still: Tensor
    ends: Tensor
    multipliers: Tensor
    cost: Tensor
    missed: Tensor
    status: Tensor
    doubtful: Tensor

    def take(self, rows: Tensor | slice) -> "Found":
        """Takes the given rows."""
        return Found(*(getattr(self, each.name)[rows] for each in fields(self)))

    def put(self, rows: Tensor, other: "Found") -> None:
        """Puts other rows in the place of the given ones."""
        for each in fields(self):
            getattr(self, each.name)[rows] = getattr(other, each.name)

    def improve(self, rows: Tensor, other: "Found") -> None:
        """Puts other rows in the place of the given ones where they are clearly better."""
        rank = self.take(rows).rank()
        better = other.rank() < rank - ROUNDING * (1 + rank).nan_to_num(posinf=0.0)
        self.put(rows[better], other.take(better))

    def rank(self) -> Tensor:
        """A number that is lower for a better row: first what holds, then what costs less."""
        met = self.missed <= ROUNDING
        rank = torch.where(met, self.cost, 1e6 * (1 + self.missed) + self.cost)

        return rank.nan_to_num(nan=torch.inf)
