r"""The optimisation problem that a solver is given: nonlinear least-cost with two-sided constraints, nothing causal.

The free coordinates :math:`v` are noises. They imply further noises :math:`g(v)`, which are charged as well, and
values :math:`c(v)`, which must lie between two bounds:

.. math:: \min_v \; d([v, g(v)], [u, u_g]) \quad \text{subject to} \quad l \le c(v) \le h.

A noise that must not move is fixed at rest: a free one keeps its value, an implied one becomes an equality constraint.
"""

__all__ = ["ConstraintMap", "Cost", "Point", "Problem", "Slopes", "Solution", "SolverStatus", "Term"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from deepbc.distances import Distance, Power
from deepbc.numerics.batched import concat_last, join, select

# Weight 0 means the limit from above, the minimum-norm one of the optimal solutions; it also bounds curvatures below.
MIN_WEIGHT = 1e-9
# The slope of a cost at its kink is taken so far from it, and its curvature no nearer than that.
KINK_MARGIN, BESIDE_KINK = 1e-7, 1e-3
# No noise is sought farther from rest than so many standard deviations, and one that moves for free than so many.
MAX_RADIUS, FREE_RADIUS = 6.0, 60.0

# Computes the implied noises `(rows, implied)` and the constrained values `(rows, constraints)` from the free
# coordinates `(rows, free)` and what else is given, row by row.
ConstraintMap = Callable[[Tensor, Any], tuple[Tensor, Tensor]]

# Computes the implied noises and their Jacobian `(rows, implied, free)`, where no value is constrained.
Slopes = Callable[[Tensor, Any], tuple[Tensor, Tensor]]


class SolverStatus(IntEnum):
    """How the solution of a row ended."""

    CONVERGED = 0
    MAX_STEPS = 1
    INFEASIBLE = 2
    NON_FINITE = 3
    ZERO_GRADIENT = 4
    INCOMPLETE_SEARCH = 5


@dataclass(frozen=True, slots=True)
class Term:
    """The cost of one variable's noise: its distance, weight and dimension."""

    distance: Distance
    weight: float
    dim: int


class Cost:
    r"""Creates the cost of moving all noises, the free ones first and then the implied.

    A cost that rises at once when a noise begins to move has a kink at rest. It is split into a smooth part and the
    kinks, :math:`d = s + \sum_j \kappa_j |m_j|` with moves :math:`m`; gradient and curvature are those of :math:`s`.

    Args:
        terms: The terms, in the order of the noises.
        rest: The noises at rest, with shape `(rows, noises)`.
    """

    def __init__(self, terms: Sequence[Term], rest: Tensor) -> None:
        self.terms = tuple(terms)
        dims = torch.tensor([term.dim for term in terms], dtype=torch.long)
        self.group = torch.arange(len(terms)).repeat_interleave(dims).to(rest.device)
        weights = torch.tensor([term.weight for term in terms], dtype=rest.dtype, device=rest.device)
        self.weights = weights[self.group]
        # The unit of the cost, to which tolerances are relative: the least positive weight.
        self.scale = min((term.weight for term in terms if term.weight), default=1.0)
        # Where all weights are 0, all are alike.
        floor = MIN_WEIGHT * self.scale if any(term.weight for term in terms) else 1.0
        self.floored = torch.where(self.weights > 0, self.weights, floor)
        self.squared = all(term.distance.squared for term in terms)
        parts = zip(self.terms, self.split(rest), strict=True)
        kinks = [not self.squared and term.distance.has_kink(part) for term, part in parts]
        self.kinked = torch.tensor(kinks, dtype=torch.bool, device=rest.device)[self.group]

    def split(self, noises: Tensor) -> tuple[Tensor, ...]:
        """Splits noises by term."""
        return noises.split([term.dim for term in self.terms], dim=-1) if self.terms else ()

    def value(self, noises: Tensor, rest: Tensor) -> Tensor:
        """Computes the cost, with shape `(rows,)`."""
        if self.squared:
            return (noises - rest).square() @ self.floored

        parts = zip(self.terms, self.split(noises), self.split(rest), self.split(self.floored), strict=True)

        return sum((w[0] * term.distance.value(z, u) for term, z, u, w in parts), torch.zeros_like(noises[:, 0]))

    def kinks(self, rest: Tensor) -> Tensor:
        r"""Computes the weights :math:`\kappa` of the kinks, zero where there is none, with shape `(rows, noises)`."""
        return self.kinked * self.floored * self._each(Distance.gradient, rest + KINK_MARGIN, rest).abs()

    def gradient(self, noises: Tensor, rest: Tensor) -> Tensor:
        """Computes the gradient of the smooth part, with shape `(rows, noises)`."""
        move = noises - rest
        if self.squared:
            return 2 * self.floored * move

        slope = self.floored * self._each(Distance.gradient, noises, rest)

        return slope - self.kinks(rest) * move.sign() if self.kinked.any() else slope

    def curvature(self, noises: Tensor, rest: Tensor) -> Tensor:
        """Computes the diagonal of the Hessian of the smooth part, with shape `(rows, noises)`."""
        if self.squared:
            return (2 * self.floored).expand_as(noises)

        # Differences are taken beside a kink, not across it.
        move = noises - rest
        beside = torch.where(move < 0, -1.0, 1.0) * move.abs().clamp_min(BESIDE_KINK)
        curvature = self._each(Distance.curvature, torch.where(self.kinked, rest + beside, noises), rest)
        straight = torch.tensor([isinstance(term.distance, Power) and term.distance.p == 1 for term in self.terms])

        return self.floored * torch.where(straight.to(rest.device)[self.group], 0.0, curvature)

    def radius(self, cost: Tensor) -> Tensor:
        """How far each noise alone can move for a cost `(rows,)`, within limits, with shape `(rows, noises)`."""
        powers = [term.distance.p if isinstance(term.distance, Power) else torch.inf for term in self.terms]
        power = torch.tensor(powers, dtype=cost.dtype, device=cost.device)[self.group]
        reach = (cost.unsqueeze(-1) / self.floored) ** (1 / power)

        reach = torch.where(power.isinf(), MAX_RADIUS, reach.nan_to_num(nan=MAX_RADIUS).clamp(max=MAX_RADIUS))

        return torch.where(self.weights > 0, reach, FREE_RADIUS)

    def _each(self, what: Callable[[Distance, Tensor, Tensor], Tensor], noises: Tensor, rest: Tensor) -> Tensor:
        parts = zip(self.terms, self.split(noises), self.split(rest), strict=True)

        return torch.cat([noises[:, :0], *(what(term.distance, z, u) for term, z, u in parts)], dim=-1)


@dataclass(frozen=True, slots=True)
class Point:
    r"""A problem evaluated at free coordinates :math:`v`.

    Args:
        noises: The free and the implied noises :math:`[v, g(v)]`, with shape `(rows, noises)`.
        values: The constrained values :math:`c(v)`, with shape `(rows, constraints)`.
        jacobian: The derivatives of :math:`[g, c]` by :math:`v`, with shape `(rows, implied + constraints, free)`.
    """

    noises: Tensor
    values: Tensor
    jacobian: Tensor

    def where(self, rows: Tensor, other: "Point") -> "Point":
        """Takes the rows of a mask from this point and the rest from another."""
        return Point(
            torch.where(rows[:, None], self.noises, other.noises),
            torch.where(rows[:, None], self.values, other.values),
            torch.where(rows[:, None, None], self.jacobian, other.jacobian),
        )

    def select(self, rows: Tensor) -> "Point":
        """Takes the given rows."""
        return select(self, rows)

    def join(self, other: "Point") -> "Point":
        """Appends the rows of another point."""
        return join([self, other])


@dataclass(frozen=True, slots=True)
class Problem:
    r"""A batch of problems, one a row.

    Args:
        rest: The noises that cost nothing, free ones first, with shape `(rows, noises)`.
        movable: Which noises may move, with shape `(rows, noises)`.
        lower: The lower bounds :math:`l` of the constrained values, with shape `(rows, constraints)`.
        upper: The upper bounds :math:`h`; equal to the lower ones for an equality constraint.
        given: What else the law needs: any record of tensors of shape `(rows, ...)`.
        law: The map from :math:`v` to :math:`g(v)` and :math:`c(v)`.
        cost: The cost :math:`d`.
        free: The number of free coordinates.
        slopes: The law with an analytic Jacobian, where no value is constrained; None differentiates it.
        cutoff: The cost from which a solution is of no use, with shape `(rows,)`; None solves all rows to the end.
    """

    rest: Tensor
    movable: Tensor
    lower: Tensor
    upper: Tensor
    given: Any
    law: ConstraintMap
    cost: Cost
    free: int
    slopes: Slopes | None = None
    cutoff: Tensor | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.rest)

    @property
    def start(self) -> Tensor:
        """The free coordinates at rest, with shape `(rows, free)`."""
        return self.rest[:, : self.free]

    @property
    def implied(self) -> int:
        """The number of implied noises."""
        return self.rest.shape[-1] - self.free

    def select(self, rows: Tensor | slice) -> "Problem":
        """Takes the given rows."""
        return select(self, rows)

    def join(self, other: "Problem") -> "Problem":
        """Appends the rows of another problem of the same kind."""
        return join([self, other])

    def with_movable(self, movable: Tensor) -> "Problem":
        """Returns the same problem with other noises movable."""
        return replace(self, movable=movable)

    def evaluate(self, v: Tensor) -> Point:
        """Evaluates the problem without its Jacobian."""
        with torch.no_grad():
            implied, values = self.law(v, self.given)

        return Point(concat_last([v, implied], v), values, v.new_zeros(len(v), 0, self.free))

    def linearize(self, v: Tensor) -> Point:
        """Evaluates the problem with its Jacobian."""
        if self.slopes is not None:
            with torch.no_grad():
                implied, jacobian = self.slopes(v, self.given)
            return Point(concat_last([v, implied], v), v[:, :0], jacobian)

        with torch.enable_grad():
            v = v.detach().requires_grad_()
            implied, values = self.law(v, self.given)
            jacobian = _jacobian(concat_last([implied, values], implied), v)

        return Point(concat_last([v, implied], v).detach(), values.detach(), jacobian)


@dataclass(frozen=True, slots=True)
class Solution:
    """The result of a solver.

    Args:
        noises: The free and implied noises, with shape `(rows, noises)`; a fixed one is exactly as it was.
        status: The `SolverStatus` of each row, with shape `(rows,)`.
        certainty: One minus the probability that a lower minimum was missed, with shape `(rows,)`; None where a solver
            looks for no other minimum than the one that it reaches.
    """

    noises: Tensor
    status: Tensor
    certainty: Tensor | None = None

    def where(self, rows: Tensor, other: "Solution") -> "Solution":
        """Takes the rows of a mask from this solution and the rest from another."""
        mine, theirs = (
            torch.ones_like(rows, dtype=torch.double) if each.certainty is None else each.certainty
            for each in (self, other)
        )

        return Solution(
            torch.where(rows[:, None], self.noises, other.noises),
            torch.where(rows, self.status, other.status),
            torch.where(rows, mine, theirs),
        )


def _jacobian(outputs: Tensor, v: Tensor) -> Tensor:
    """Computes the Jacobian `(rows, outputs, free)` of outputs `(rows, outputs)` by coordinates of the same row."""
    rows, count = outputs.shape
    free = v.shape[-1]
    if not outputs.requires_grad or not count or not free:
        return outputs.new_zeros(rows, count, free)

    if count <= free + 1:
        parts = [
            torch.autograd.grad(outputs[:, k].sum(), v, retain_graph=k + 1 < count, materialize_grads=True)[0]
            for k in range(count)
        ]
        return torch.stack(parts, dim=-2)

    # Fewer coordinates than outputs: forward mode by double backward, the vector-Jacobian product being linear.
    weights = torch.zeros_like(outputs).requires_grad_()
    backward = torch.autograd.grad(outputs, v, weights, create_graph=True, materialize_grads=True)[0]
    if not backward.requires_grad:
        # No output depends on any coordinate.
        return outputs.new_zeros(rows, count, free)
    columns = [
        torch.autograd.grad(backward[:, j].sum(), weights, retain_graph=j + 1 < free, materialize_grads=True)[0]
        for j in range(free)
    ]

    return torch.stack(columns, dim=-1)
