r"""What a solver sees: noises that may move, what moving them costs, and what must hold. Nothing causal.

The free coordinates :math:`v` are noises. They imply further noises :math:`g(v)`, which are charged as well, and
values :math:`c(v)`, which must lie between two ends:

.. math:: \min_v \; d([v, g(v)], [u, u_g]) \quad \text{subject to} \quad l \le c(v) \le h.

A noise that must not move is held at rest: a free one stays, an implied one becomes a constraint.
"""

__all__ = ["Cost", "Law", "Point", "Problem", "Slopes", "Solution", "SolverStatus", "Term"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import torch
from torch import Tensor

from deepbc.data.variables import concat_last
from deepbc.distances import Distance, Power, Squared

# Weight 0 means the limit from above: among the least costly answers the least move.
LEAST_WEIGHT = 1e-9
NEAR_REST = 1e-9

# Computes the implied noises `(rows, implied)` and the constrained values `(rows, constraints)` from the free
# coordinates `(rows, free)` and what else is given, row by row.
Law = Callable[[Tensor, Mapping[str, Tensor]], tuple[Tensor, Tensor]]


# Computes the implied noises and their derivatives `(rows, implied, free)`, where nothing else counts.
Slopes = Callable[[Tensor, Mapping[str, Tensor]], tuple[Tensor, Tensor]]


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
    """The noise of one variable: its distance, weight and dimension."""

    distance: Distance
    weight: float
    dim: int


class Cost:
    """Creates the cost of moving all noises, the free ones first and then the implied.

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
        # The least weight that counts: what is much or little is so beside it, however dear other noises are.
        self.scale = min((term.weight for term in terms if term.weight), default=1.0)
        # Where all noises move for free, all are alike.
        floor = LEAST_WEIGHT * self.scale if any(term.weight for term in terms) else 1.0
        self.floored = torch.where(self.weights > 0, self.weights, floor)
        self._doubled = 2 * self.floored
        self.quadratic = all(isinstance(term.distance, Squared) for term in terms)
        parts = zip(self.terms, self.split(rest), strict=True)
        kinks = [not self.quadratic and term.distance.kinked(part) for term, part in parts]
        rough = [isinstance(term.distance, Power) and term.distance.p < 2 for term in terms]
        self.kinked = torch.tensor(kinks, dtype=torch.bool, device=rest.device)[self.group]
        self.rough = bool(self.kinked.any()) or any(rough)

    def split(self, noises: Tensor) -> tuple[Tensor, ...]:
        """Splits noises by term."""
        return noises.split([term.dim for term in self.terms], dim=-1) if self.terms else ()

    def value(self, noises: Tensor, rest: Tensor, smooth: float = 0.0) -> Tensor:
        """Computes the cost, with shape `(rows,)`; `smooth` rounds off the kinks."""
        if self.quadratic:
            return (noises - rest).square() @ self.floored

        rounded = self._rounded(noises, rest, smooth)
        parts = zip(self.terms, self.split(rounded), self.split(rest), self.split(self.floored), strict=True)

        return sum((w[0] * term.distance._moved(z, u) for term, z, u, w in parts), torch.zeros_like(noises[:, 0]))

    def slope(self, noises: Tensor, rest: Tensor, smooth: float = 0.0) -> Tensor:
        """Computes the derivative of the cost by each noise, with shape `(rows, noises)`."""
        if self.quadratic:
            return self._doubled * (noises - rest)

        move = noises - rest
        slope = self._each(Distance.slope, self._rounded(noises, rest, smooth), rest)
        if smooth:
            slope = torch.where(
                self.kinked, slope.abs() * move / torch.hypot(move, torch.full_like(move, smooth)), slope
            )

        return self.floored * slope

    def curvature(self, noises: Tensor, rest: Tensor, smooth: float = 0.0) -> Tensor:
        """Computes an upper estimate of the second derivative by each noise, with shape `(rows, noises)`."""
        if self.quadratic:
            return self._doubled.expand_as(noises)

        move = noises - rest
        floor = torch.where(move < 0, -1.0, 1.0) * move.abs().clamp_min(smooth)
        curvature = self._each(Distance.curvature, rest + floor, rest)
        slope = self._each(Distance.slope, self._rounded(noises, rest, smooth), rest).abs()
        # At a kink the curvature of the parabola that touches the cost from above.
        parabola = slope / torch.hypot(move, torch.full_like(move, max(smooth, NEAR_REST)))

        return self.floored * torch.where(self.kinked, parabola, curvature).clamp_min(LEAST_WEIGHT)

    def compliance(self, noises: Tensor, rest: Tensor, smooth: float = 0.0) -> Tensor:
        """Computes the inverse of the curvature, with shape `(rows, noises)`."""
        if self.quadratic:
            return self._doubled.reciprocal().expand_as(noises)

        return self.curvature(noises, rest, smooth).reciprocal()

    def _rounded(self, noises: Tensor, rest: Tensor, smooth: float) -> Tensor:
        """Brings kinked noises nearer to rest, by the smoothing at most, so that the cost is smooth there."""
        move = noises - rest
        near = (torch.hypot(move, torch.full_like(move, smooth)) - smooth).clamp_min(NEAR_REST)
        side = torch.where(move < 0, -1.0, 1.0)

        return torch.where(self.kinked, rest + side * near, noises) if smooth else noises

    def _each(self, what: Callable[[Distance, Tensor, Tensor], Tensor], noises: Tensor, rest: Tensor) -> Tensor:
        parts = zip(self.terms, self.split(noises), self.split(rest), strict=True)

        return torch.cat([noises[:, :0], *(what(term.distance, z, u) for term, z, u in parts)], dim=-1)


@dataclass(frozen=True, slots=True)
class Point:
    r"""A point of a problem.

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
        return Point(self.noises[rows], self.values[rows], self.jacobian[rows])

    def join(self, other: "Point") -> "Point":
        """Takes the rows of another point in."""
        pairs = ((self.noises, other.noises), (self.values, other.values), (self.jacobian, other.jacobian))

        return Point(*(torch.cat(pair) for pair in pairs))


@dataclass(frozen=True, slots=True)
class Problem:
    r"""A batch of problems, one a row.

    Args:
        rest: The noises that cost nothing, free ones first, with shape `(rows, noises)`.
        movable: Which noises may move, with shape `(rows, noises)`.
        lower: The lower ends of the constrained values, with shape `(rows, constraints)`.
        upper: The upper ends; equal to the lower ones where a value is asked for.
        given: What else the law needs, each with shape `(rows, ...)`.
        law: What the free coordinates imply.
        cost: What moving costs.
        free: The number of free coordinates.
        slopes: The law with its derivatives, where no value is constrained and it knows them; else they are derived.
    """

    rest: Tensor
    movable: Tensor
    lower: Tensor
    upper: Tensor
    given: Mapping[str, Tensor]
    law: Law
    cost: Cost
    free: int
    slopes: Slopes | None = None

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

    def select(self, rows: Tensor) -> "Problem":
        """Takes the given rows."""
        return replace(
            self,
            rest=self.rest[rows],
            movable=self.movable[rows],
            lower=self.lower[rows],
            upper=self.upper[rows],
            given={name: each[rows] for name, each in self.given.items()},
        )

    def join(self, other: "Problem") -> "Problem":
        """Takes the rows of another problem of the same kind in."""
        return replace(
            self,
            rest=torch.cat([self.rest, other.rest]),
            movable=torch.cat([self.movable, other.movable]),
            lower=torch.cat([self.lower, other.lower]),
            upper=torch.cat([self.upper, other.upper]),
            given={name: torch.cat([each, other.given[name]]) for name, each in self.given.items()},
        )

    def holding(self, movable: Tensor) -> "Problem":
        """The same problem with other noises movable."""
        return replace(self, movable=movable)

    def look(self, v: Tensor) -> Point:
        """Computes a point without its derivatives."""
        with torch.no_grad():
            implied, values = self.law(v, self.given)

        return Point(concat_last([v, implied], v), values, v.new_zeros(len(v), 0, self.free))

    def linearize(self, v: Tensor) -> Point:
        """Computes a point with its derivatives."""
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
    """Where a solver ended.

    Args:
        noises: The free and implied noises, with shape `(rows, noises)`; one that rests is exactly as it was.
        status: How each row ended, with shape `(rows,)`.
    """

    noises: Tensor
    status: Tensor

    def where(self, rows: Tensor, other: "Solution") -> "Solution":
        """Takes the rows of a mask from this solution and the rest from another."""
        return Solution(
            torch.where(rows[:, None], self.noises, other.noises),
            torch.where(rows, self.status, other.status),
        )


def _jacobian(outputs: Tensor, v: Tensor) -> Tensor:
    """Derives outputs `(rows, outputs)` by coordinates `(rows, free)` of the same row, as `(rows, outputs, free)`."""
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

    # Fewer coordinates than outputs: derive the backward pass, which is linear in its weights, once per coordinate.
    weights = torch.zeros_like(outputs).requires_grad_()
    backward = torch.autograd.grad(outputs, v, weights, create_graph=True, materialize_grads=True)[0]
    columns = [
        torch.autograd.grad(backward[:, j].sum(), weights, retain_graph=j + 1 < free, materialize_grads=True)[0]
        for j in range(free)
    ]

    return torch.stack(columns, dim=-1)
