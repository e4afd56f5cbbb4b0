"""Counterfactual worlds as rows of tensors, before people see them."""

__all__ = ["Columns", "Worlds"]

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from deepbc.distances import Distances
from deepbc.numerics.batched import map_tensors, select
from deepbc.solvers.problem import SolverStatus

# Rows of tensors by variable, each with shape `(rows, dim)`.
Columns = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Worlds:
    """The counterfactual worlds of rows.

    Args:
        x: Values, with shape `(rows, value)`.
        u: Noise, with shape `(rows, noise)`.
        status: How the solve of each ended, with shape `(rows,)`.
        certainty: One minus the chance that the search left out a nearer world, with shape `(rows,)`.
        drawn: The factual noise that a world counts from, of categories that have more than one.
        chances: The probability of each label of a category, with shape `(rows, labels)`.
    """

    x: Columns
    u: Columns
    status: Tensor
    certainty: Tensor
    drawn: Columns = field(default_factory=dict)
    chances: Columns = field(default_factory=dict)

    @classmethod
    def of(cls, x: Columns, u: Columns) -> "Worlds":
        """Worlds that are answers by construction."""
        status = torch.zeros_like(next(iter(x.values()))[..., 0], dtype=torch.long)

        return cls(x, u, status, torch.ones_like(status, dtype=torch.double))

    @classmethod
    def given_up(cls, x: Mapping[str, Tensor], u: Mapping[str, Tensor]) -> "Worlds":
        """Worlds that stay as they are because their search was given up; they may be changed."""
        worlds = cls.of(dict(x), dict(u)).copy()
        worlds.status.fill_(int(SolverStatus.INCOMPLETE_SEARCH))

        return worlds

    def copy(self) -> "Worlds":
        """A copy that may be changed: what no change reached shares its memory with the question."""
        return map_tensors(torch.clone, self)

    def put(self, rows: Tensor, other: "Worlds") -> None:
        """Puts other rows in the place of the given ones; the worlds are to be a copy."""
        for part in ("x", "u", "drawn", "chances"):
            theirs = getattr(other, part)
            for name, each in getattr(self, part).items():
                each[rows] = theirs[name].to(each.dtype)
        self.status[rows] = other.status
        self.certainty[rows] = other.certainty

    def take(self, rows: Tensor) -> "Worlds":
        """Takes the given rows."""
        return select(self, rows)

    def cost(self, rest: Mapping[str, Tensor], distance: Distances) -> Tensor:
        """What the noises cost beside those at rest, with shape `(rows,)`; infinite where a row failed."""
        moved = [distance.moved(name, each, self.drawn.get(name, rest[name])) for name, each in self.u.items()]

        return torch.where(self.status == SolverStatus.CONVERGED, torch.stack(moved).sum(0), torch.inf)
