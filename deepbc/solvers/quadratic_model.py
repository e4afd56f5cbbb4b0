r"""The Gauss-Newton quadratic model and its minimiser by the dual (range-space) method, with small systems only.

With :math:`Q` the inverse curvature of the free coordinates (zero where one is fixed), :math:`p` their own cost
gradient, :math:`K` the Jacobian of implied noises and constrained values, :math:`r` their residuals and :math:`C` the
inverse curvature of the implied noises (zero for a constraint), the step that minimises the quadratic model is

.. math:: (K Q K^\top + C) \mu = r - K Q p, \qquad \delta = -Q (p + K^\top \mu).

For squared distances it is the step of the paper with :math:`1 / \lambda` replaced by :math:`C`. No matrix has the size
of the noise.

References:
    Numerical Optimization (Nocedal and Wright, 2006), sections 10.3 and 16.2.
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), eq. 11.
"""

__all__ = [
    "QuadraticModel",
    "SolverState",
    "constrained_model",
    "dot",
    "is_unconstrained",
    "row_sum",
    "solve_scaled",
    "unconstrained_model",
]

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from deepbc.numerics.batched import select
from deepbc.solvers.problem import Point, Problem

# Tikhonov term of a system with unit diagonal, so that linearly dependent constraints have a solution.
RIDGE = 1e-13
# A cost is lower only by more than this part, and constraints are violated only by more than this.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class SolverState:
    """The state of a local minimisation at its end, one a row.

    Args:
        noises: The free and implied noises, with shape `(rows, noises)`.
        fixed: Which of them were fixed at rest.
        active_set: Which bound of each constraint is active: -1 the lower, 1 the upper, 0 none.
        multipliers: The Lagrange multipliers, with shape `(rows, constraints)`.
        cost: The cost, with shape `(rows,)`.
        violation: The l1 norm of the constraint violation, with shape `(rows,)`.
        status: The `SolverStatus`.
        needs_restart: Whether the multi-start criteria suggest a lower local minimum.
    """

    noises: Tensor
    fixed: Tensor
    active_set: Tensor
    multipliers: Tensor
    cost: Tensor
    violation: Tensor
    status: Tensor
    needs_restart: Tensor

    def take(self, rows: Tensor | slice) -> "SolverState":
        """Takes the given rows."""
        return select(self, rows)

    def put(self, rows: Tensor, other: "SolverState") -> None:
        """Replaces the given rows."""
        for each in fields(self):
            getattr(self, each.name)[rows] = getattr(other, each.name)

    def improve(self, rows: Tensor, other: "SolverState") -> None:
        """Replaces the given rows where others are clearly better."""
        rank = self.take(rows).rank()
        better = other.rank() < rank - ROUNDING * (1 + rank).nan_to_num(posinf=0.0)
        self.put(rows[better], other.take(better))

    def rank(self) -> Tensor:
        """A number that is lower for a better row: first feasibility, then cost."""
        feasible = self.violation <= ROUNDING
        rank = torch.where(feasible, self.cost, 1e6 * (1 + self.violation) + self.cost)

        return rank.nan_to_num(nan=torch.inf)


@dataclass(frozen=True, slots=True)
class QuadraticModel:
    r"""A quadratic model of a problem at a point.

    Args:
        direct_gradient: The gradient :math:`p` of the cost of the free coordinates alone, with shape `(rows, free)`.
        free_inverse: Their inverse curvature :math:`Q`, with that shape.
        jacobian: The Jacobian :math:`K`, with shape `(rows, outputs, free)`.
        residual: The residuals :math:`r`, with shape `(rows, outputs)`.
        inverse_curvature: The inverse curvature :math:`C` of the outputs, with that shape.
    """

    direct_gradient: Tensor
    free_inverse: Tensor
    jacobian: Tensor
    residual: Tensor
    inverse_curvature: Tensor

    def step(self) -> tuple[Tensor, Tensor]:
        r"""Computes the step :math:`\delta` `(rows, free)` and the multipliers :math:`\mu` `(rows, outputs)`."""
        multipliers = self._solve_dual(self.residual - _apply(self.jacobian, self.free_inverse * self.direct_gradient))

        return -self.free_inverse * (self.direct_gradient + _apply(self.jacobian.mT, multipliers)), multipliers

    def select(self, rows: Tensor) -> "QuadraticModel":
        """Takes the given rows."""
        return select(self, rows)

    def second_order_correction(self, violation: Tensor) -> Tensor:
        """Computes the least step `(rows, free)` that cancels a violation `(rows, outputs)` to first order."""
        hard = (self.inverse_curvature == 0).unsqueeze(-1)
        active = replace(self, jacobian=self.jacobian * hard, inverse_curvature=torch.where(hard[..., 0], 0.0, 1.0))

        return -self.free_inverse * _apply(active.jacobian.mT, active._solve_dual(violation))

    def squared_norm(self, step: Tensor) -> Tensor:
        """The squared norm of a step in the model's Hessian, `(rows,)`: twice the decrease that the model predicts."""
        along = _apply(self.jacobian, step)
        stiff = torch.where(self.free_inverse > 0, 1 / self.free_inverse, 0.0)
        soft = torch.where(self.inverse_curvature > 0, 1 / self.inverse_curvature, 0.0)

        return dot(step.square(), stiff) + dot(along.square(), soft)

    def solve(self, gradient: Tensor) -> Tensor:
        """Applies the inverse of the model's Hessian to a gradient `(rows, free)`."""
        moved = self.free_inverse * gradient

        return moved - self.free_inverse * _apply(self.jacobian.mT, self._solve_dual(_apply(self.jacobian, moved)))

    def _solve_dual(self, right: Tensor) -> Tensor:
        if not right.shape[-1]:
            return right
        if right.shape[-1] == 1:
            system = dot(self.jacobian.square(), self.free_inverse.unsqueeze(-2)) + self.inverse_curvature
            return torch.where(system > 0, right / system, 0.0)

        system = (self.jacobian * self.free_inverse.unsqueeze(-2)) @ self.jacobian.mT
        system = system + torch.diag_embed(self.inverse_curvature)
        return solve_scaled(system, right)


def solve_scaled(system: Tensor, right: Tensor) -> Tensor:
    """Solves small symmetric systems `(rows, outputs, outputs)` for right sides `(rows, outputs)`."""
    # Jacobi preconditioning.
    scale = system.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(system.dtype).tiny).rsqrt()
    scaled = system * scale.unsqueeze(-1) * scale.unsqueeze(-2)
    scaled.diagonal(dim1=-2, dim2=-1).add_(RIDGE)
    solved: Tensor = torch.linalg.solve_ex(scaled, (right * scale).unsqueeze(-1))[0].squeeze(-1)

    return solved * scale


def is_unconstrained(problem: Problem) -> bool:
    """Whether there is no constraint: no constrained value, and every implied noise may move."""
    return not problem.lower.shape[-1] and bool(problem.movable[:, problem.free :].all())


def unconstrained_model(problem: Problem, point: Point, smoothing: float) -> tuple[QuadraticModel, Tensor]:
    """Models an unconstrained problem at a point.

    Returns:
        The model, and the gradient of the cost by the free coordinates `(rows, free)`.
    """
    free, cost = problem.free, problem.cost
    direct, implied = cost.gradient(point.noises, problem.rest, smoothing).tensor_split([free], dim=-1)
    inverse, inverse_curvature = cost.inverse_curvature(point.noises, problem.rest, smoothing).tensor_split(
        [free], dim=-1
    )
    movable = problem.movable[:, :free]
    gradient = movable * (direct + _apply(point.jacobian.mT, implied))
    residual = implied * inverse_curvature

    return QuadraticModel(direct, movable * inverse, point.jacobian, residual, inverse_curvature), gradient


def constrained_model(
    problem: Problem, point: Point, active_set: Tensor, smoothing: float
) -> tuple[QuadraticModel, Tensor, Tensor]:
    """Models a problem at a point, with the bounds of the active set as equality constraints.

    Returns:
        The model, the gradient of the cost by the free coordinates `(rows, free)`, and the violation by each fixed
        implied noise or active constraint `(rows, outputs)`.
    """
    free = problem.free
    moves, active = problem.movable[:, free:], active_set != 0
    # An inactive constraint has no part in the step.
    part = torch.cat([torch.ones_like(moves), active], dim=-1)
    jacobian = point.jacobian * part.unsqueeze(-1)
    plain, gradient = unconstrained_model(
        problem, replace(point, jacobian=jacobian[:, : problem.implied] * moves.unsqueeze(-1)), smoothing
    )
    over = torch.where(active, point.values - torch.where(active_set > 0, problem.upper, problem.lower), 0.0)
    violation = torch.cat([torch.where(moves, 0.0, (point.noises - problem.rest)[:, free:]), over], dim=-1)
    residual = torch.cat([torch.where(moves, plain.residual, violation[:, : problem.implied]), over], dim=-1)
    inverse_curvature = torch.cat([torch.where(moves, plain.inverse_curvature, 0.0), (~active).to(over.dtype)], dim=-1)

    return (
        replace(plain, jacobian=jacobian, residual=residual, inverse_curvature=inverse_curvature),
        gradient,
        violation,
    )


def dot(one: Tensor, two: Tensor) -> Tensor:
    """Multiplies and sums over the last axis."""
    return row_sum(one * two)


def row_sum(rows: Tensor) -> Tensor:
    """Sums over the last axis."""
    # For short rows the reduction dominates a step; a product with a vector of ones is faster.
    return rows.squeeze(-1) if rows.shape[-1] == 1 else rows @ rows.new_ones(rows.shape[-1])


def _apply(matrix: Tensor, vector: Tensor) -> Tensor:
    return dot(matrix, vector.unsqueeze(-2))
