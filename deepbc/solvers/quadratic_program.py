r"""Small convex quadratic programs with piecewise linear penalties, a batch of them, by a semismooth Newton method.

With a positive definite :math:`H`, intervals :math:`[l_j, h_j]` and weights :math:`\kappa_j`, it minimises

.. math:: g^\top \delta + \tfrac{1}{2} \delta^\top H \delta
          + \sum_j \kappa_j \operatorname{dist}\bigl(t_j + A_j \delta, [l_j, h_j]\bigr).

At the minimum :math:`\delta = -H^{-1} (g + A^\top \lambda)`, where :math:`\lambda_j` is 0 inside its interval,
:math:`\pm \kappa_j` outside of it and between these on an end. With :math:`M = A H^{-1} A^\top` this is an equation of
:math:`\lambda` alone, which Newton's method solves: each step guesses from the last one which of these holds for each
:math:`j` and solves a linear system (the primal-dual active set strategy). Where guesses cycle, coordinate descent on
the dual, which converges, goes before the last step.

References:
    The primal-dual active set strategy as a semismooth Newton method (Hintermueller, Ito and Kunisch, 2002).
    A quadratic programming procedure (Hildreth, 1957): coordinate descent on the dual.
"""

__all__ = ["Conditions", "QuadraticProgram", "apply", "distance_outside"]

from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.batched import select

# Newton steps before a cycle is assumed, and sweeps of coordinate descent that then go before the last step.
NEWTON_STEPS, SWEEPS = 10, 100
# Tikhonov term of a system with unit diagonal, so that linearly dependent conditions have multipliers.
RIDGE = 1e-13


@dataclass(frozen=True, slots=True)
class Conditions:
    r"""The piecewise linear terms of a program.

    Args:
        value: The values :math:`t`, with shape `(rows, conditions)`.
        lower: The lower ends :math:`l`, with that shape.
        upper: The upper ends :math:`h`, with that shape.
        weight: The weights :math:`\kappa`, with that shape.
        jacobian: The derivatives :math:`A`, with shape `(rows, conditions, free)`.
    """

    value: Tensor
    lower: Tensor
    upper: Tensor
    weight: Tensor
    jacobian: Tensor

    def penalty(self, value: Tensor) -> Tensor:
        """The weighted distance of values from their intervals, with shape `(rows,)`."""
        return (self.weight * distance_outside(value, self.lower, self.upper)).sum(-1)


@dataclass(frozen=True, slots=True)
class QuadraticProgram:
    r"""A batch of programs.

    Args:
        factor: The Cholesky factor of :math:`H`, with shape `(rows, free, free)`.
        gradient: The gradient :math:`g`, with shape `(rows, free)`.
        conditions: The piecewise linear terms.
    """

    factor: Tensor
    gradient: Tensor
    conditions: Conditions

    def solve(self, multipliers: Tensor) -> tuple[Tensor, Tensor]:
        r"""Computes the step :math:`\delta` `(rows, free)` and :math:`\lambda`, beginning with given multipliers."""
        newton = self._divide(self.gradient.unsqueeze(-1)).squeeze(-1)
        if not self.conditions.value.shape[-1]:
            return -newton, multipliers

        jacobian = self.conditions.jacobian
        pulled = self._divide(jacobian.mT)
        system, offset = jacobian @ pulled, self.conditions.value - apply(jacobian, newton)
        multipliers = self._solve_dual(system, offset, multipliers)

        return -newton - apply(pulled, multipliers), multipliers

    def _divide(self, right: Tensor) -> Tensor:
        if self.factor.shape[-1] == 1:
            return right / self.factor.square()

        return torch.cholesky_solve(right, self.factor)

    def _solve_dual(self, system: Tensor, offset: Tensor, multipliers: Tensor) -> Tensor:
        compliance = system.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(system.dtype).tiny)
        guess = self._guess(system, offset, multipliers, compliance)
        for _ in range(NEWTON_STEPS):
            multipliers = self._newton(system, offset, compliance, *guess)
            again = self._guess(system, offset, multipliers, compliance)
            cycling = ((again[0] != guess[0]) | (again[1] != guess[1])).any(-1)
            if not cycling.any():
                return multipliers
            guess = again

        rows = cycling.nonzero().squeeze(-1)
        part = QuadraticProgram(self.factor, self.gradient, select(self.conditions, rows))
        system, offset, compliance = system[rows], offset[rows], compliance[rows]
        descended = part._descend(system, offset, multipliers[rows])
        guess = part._guess(system, offset, descended, compliance)
        solved = part._newton(system, offset, compliance, *guess)
        again = part._guess(system, offset, solved, compliance)
        settled = ((again[0] == guess[0]) & (again[1] == guess[1])).all(-1, keepdim=True)

        return multipliers.index_put((rows,), torch.where(settled, solved, descended))

    def _guess(self, system: Tensor, offset: Tensor, multipliers: Tensor, compliance: Tensor) -> tuple[Tensor, ...]:
        """Which condition is at an end (-1 the lower, 1 the upper, 0 none), and the multipliers of the others."""
        own = self.conditions
        # The value that a condition would have without its own multiplier.
        alone = offset - apply(system, multipliers) + compliance * multipliers
        above, below, most = alone - own.upper, own.lower - alone, own.weight * compliance
        end = ((above >= 0) & (above <= most)).long() - ((below > 0) & (below <= most)).long()

        return end, torch.where(above > most, own.weight, torch.where(below > most, -own.weight, 0.0))

    def _newton(self, system: Tensor, offset: Tensor, compliance: Tensor, end: Tensor, given: Tensor) -> Tensor:
        """The multipliers for which conditions at an end are exactly there."""
        own, active = self.conditions, end != 0
        bound = torch.where(end > 0, own.upper, torch.where(end < 0, own.lower, 0.0))
        given = torch.where(active, 0.0, given)
        right = torch.where(active, offset - bound - apply(system, given), 0.0)
        if system.shape[-1] == 1:
            return torch.where(active, right / compliance, given)

        # Jacobi preconditioning.
        scale = torch.where(active, compliance.rsqrt(), 0.0)
        scaled = system * scale.unsqueeze(-1) * scale.unsqueeze(-2)
        scaled = scaled + torch.diag_embed(torch.where(active, RIDGE, 1.0))
        solved: Tensor = torch.linalg.solve_ex(scaled, (right * scale).unsqueeze(-1))[0].squeeze(-1)

        return given + solved * scale

    def _descend(self, system: Tensor, offset: Tensor, multipliers: Tensor) -> Tensor:
        """Minimises the dual in one multiplier after the other."""
        own, multipliers = self.conditions, multipliers.clone()
        compliance = system.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(system.dtype).tiny)
        for _ in range(SWEEPS):
            for j in range(system.shape[-1]):
                alone = offset[:, j] - (system[:, j] * multipliers).sum(-1) + compliance[:, j] * multipliers[:, j]
                outside = alone - torch.maximum(torch.minimum(alone, own.upper[:, j]), own.lower[:, j])
                weight = own.weight[:, j]
                multipliers[:, j] = torch.maximum(torch.minimum(outside / compliance[:, j], weight), -weight)

        return multipliers


def distance_outside(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """How far values lie outside their intervals."""
    return torch.maximum(value - upper, lower - value).clamp_min(0.0)


def apply(matrix: Tensor, vector: Tensor) -> Tensor:
    """Multiplies matrices by vectors, row by row."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)
