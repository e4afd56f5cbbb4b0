"""Counterfactual worlds as rows of tensors, before people see them."""

__all__ = ["Columns", "Worlds"]

from collections.abc import Mapping
from dataclasses import dataclass

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
    """

    x: Columns
    u: Columns
    status: Tensor
    certainty: Tensor

    def copy(self) -> "Worlds":
        """A copy that may be changed: what no change reached shares its memory with the question."""
        return map_tensors(torch.clone, self)

    def put(self, rows: Tensor, other: "Worlds") -> None:
        """Puts other rows in the place of the given ones; the worlds are to be a copy."""
        for mine, theirs in ((self.x, other.x), (self.u, other.u)):
            for name, each in mine.items():
                each[rows] = theirs[name]
        self.status[rows] = other.status
        self.certainty[rows] = other.certainty

    def take(self, rows: Tensor) -> "Worlds":
        """Takes the given rows."""
        return select(self, rows)

    def cost(self, rest: Mapping[str, Tensor], distance: Distances) -> Tensor:
        """What the noises cost beside those at rest, with shape `(rows,)`; infinite where a row failed."""
        moved = [distance.moved(name, each, rest[name]) for name, each in self.u.items()]

        return torch.where(self.status == SolverStatus.CONVERGED, torch.stack(moved).sum(0), torch.inf)
