r"""The Gauss-Newton step, in the space of what is implied or constrained, which is small.

With :math:`Q` the inverse curvature of the free coordinates (zero where one is held), :math:`p` their slopes, :math:`K`
the Jacobian of implied noises and constrained values, :math:`r` their residuals and :math:`C` the inverse curvature of
the implied noises (zero for what must hold), the step that minimises the quadratic model is

.. math:: (K Q K^\top + C) \mu = r - K Q p, \qquad \delta = -Q (p + K^\top \mu).

For squared distances it is the step of the paper with :math:`1 / \lambda` replaced by :math:`C`. No matrix has the size
of the noise.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), eq. 11.
"""

__all__ = ["Model", "dot", "held_of", "settled", "slopes_of", "solve_scaled", "total"]

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from deepbc.solvers.problem import Point, Problem

RIDGE = 1e-13


@dataclass(frozen=True, slots=True)
class Model:
    r"""A quadratic model of a problem at a point.

    Args:
        slopes: The slopes :math:`p` of the free coordinates, with shape `(rows, free)`.
        inverse: Their inverse curvature :math:`Q`, with that shape.
        jacobian: The Jacobian :math:`K`, with shape `(rows, outputs, free)`.
        residual: The residuals :math:`r`, with shape `(rows, outputs)`.
        compliance: The inverse curvature :math:`C`, with that shape.
    """

    slopes: Tensor
    inverse: Tensor
    jacobian: Tensor
    residual: Tensor
    compliance: Tensor

    def step(self) -> tuple[Tensor, Tensor]:
        r"""Computes the step :math:`\delta` `(rows, free)` and the multipliers :math:`\mu` `(rows, outputs)`."""
        multipliers = self._solve(self.residual - _apply(self.jacobian, self.inverse * self.slopes))
        pull = self.slopes + _apply(self.jacobian.mT, multipliers)

        return -self.inverse * pull, multipliers

    def select(self, rows: Tensor) -> "Model":
        """Takes the given rows."""
        return Model(*(getattr(self, each.name)[rows] for each in fields(self)))

    def restore(self, missed: Tensor) -> Tensor:
        """Computes the least step, `(rows, free)`, that makes up for what is missed, `(rows, outputs)`."""
        hard = (self.compliance == 0).unsqueeze(-1)
        held = Model(self.slopes, self.inverse, self.jacobian * hard, missed, torch.where(hard[..., 0], 0.0, 1.0))

        return -self.inverse * _apply(held.jacobian.mT, held._solve(missed))

    def size(self, step: Tensor) -> Tensor:
        """The square of a step's length in the curvature of the model, with shape `(rows,)`: twice what it may save."""
        along = _apply(self.jacobian, step)
        stiff = torch.where(self.inverse > 0, 1 / self.inverse, 0.0)
        soft = torch.where(self.compliance > 0, 1 / self.compliance, 0.0)

        return dot(step.square(), stiff) + dot(along.square(), soft)

    def undo(self, slopes: Tensor) -> Tensor:
        """Applies the inverse of the model's curvature to slopes of shape `(rows, free)`."""
        moved = self.inverse * slopes

        return moved - self.inverse * _apply(self.jacobian.mT, self._solve(_apply(self.jacobian, moved)))

    def _solve(self, right: Tensor) -> Tensor:
        if not right.shape[-1]:
            return right
        if right.shape[-1] == 1:
            system = dot(self.jacobian.square(), self.inverse.unsqueeze(-2)) + self.compliance
            return torch.where(system > 0, right / system, 0.0)

        system = (self.jacobian * self.inverse.unsqueeze(-2)) @ self.jacobian.mT + torch.diag_embed(self.compliance)
        return solve_scaled(system, right)


def solve_scaled(system: Tensor, right: Tensor) -> Tensor:
    """Solves small symmetric systems `(rows, outputs, outputs)` for right sides `(rows, outputs)`."""
    # In units of the diagonal, where a little is added so that constraints that repeat each other have a solution.
    scale = system.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(system.dtype).tiny).rsqrt()
    scaled = system * scale.unsqueeze(-1) * scale.unsqueeze(-2)
    scaled.diagonal(dim1=-2, dim2=-1).add_(RIDGE)
    solved: Tensor = torch.linalg.solve_ex(scaled, (right * scale).unsqueeze(-1))[0].squeeze(-1)

    return solved * scale


def settled(problem: Problem) -> bool:
    """Whether nothing but the cost counts: no constraint, and every implied noise may move."""
    return not problem.lower.shape[-1] and bool(problem.movable[:, problem.free :].all())


def slopes_of(problem: Problem, point: Point, smooth: float) -> tuple[Model, Tensor]:
    """Models the cost at a point where nothing else counts.

    Returns:
        The model, and the gradient of the cost by the free coordinates `(rows, free)`.
    """
    free, cost = problem.free, problem.cost
    slope = cost.slope(point.noises, problem.rest, smooth)
    inverse = cost.compliance(point.noises, problem.rest, smooth)
    movable, own = problem.movable[:, :free], slope[:, :free]
    pull, compliance = slope[:, free:], inverse[:, free:]
    gradient = movable * (own + _apply(point.jacobian.mT, pull))

    return Model(own, movable * inverse[:, :free], point.jacobian, pull * compliance, compliance), gradient


def held_of(problem: Problem, point: Point, ends: Tensor, smooth: float) -> tuple[Model, Tensor, Tensor]:
    """Models a problem at a point, with the given ends of constraints held.

    Returns:
        The model, the gradient of the cost by the free coordinates `(rows, free)`, and what is missed by each implied
        noise or constraint that must hold `(rows, outputs)`.
    """
    free = problem.free
    moves, held = problem.movable[:, free:], ends != 0
    # A constraint that is not held has no part in the step.
    part = torch.cat([torch.ones_like(moves), held], dim=-1)
    jacobian = point.jacobian * part.unsqueeze(-1)
    plain, gradient = slopes_of(
        problem, replace(point, jacobian=jacobian[:, : problem.implied] * moves.unsqueeze(-1)), smooth
    )
    over = torch.where(held, point.values - torch.where(ends > 0, problem.upper, problem.lower), 0.0)
    missed = torch.cat([torch.where(moves, 0.0, (point.noises - problem.rest)[:, free:]), over], dim=-1)
    residual = torch.cat([torch.where(moves, plain.residual, missed[:, : problem.implied]), over], dim=-1)
    compliance = torch.cat([torch.where(moves, plain.compliance, 0.0), (~held).to(over.dtype)], dim=-1)

    return replace(plain, jacobian=jacobian, residual=residual, compliance=compliance), gradient, missed


def dot(one: Tensor, two: Tensor) -> Tensor:
    """Multiplies and sums over the last axis."""
    return total(one * two)


def total(rows: Tensor) -> Tensor:
    """Sums over the last axis."""
    # Many a question has few causes. A sum of one is no small part of a step, and sums of few are slow unless they are
    # products with a vector.
    return rows.squeeze(-1) if rows.shape[-1] == 1 else rows @ rows.new_ones(rows.shape[-1])


def _apply(matrix: Tensor, vector: Tensor) -> Tensor:
    return dot(matrix, vector.unsqueeze(-2))
