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

__all__ = ["Model", "dot"]

from dataclasses import dataclass

import torch
from torch import Tensor

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
            system = (self.jacobian.square() * self.inverse.unsqueeze(-2)).sum(-1) + self.compliance
            return right / torch.where(system > 0, system, 1.0) * (system > 0)

        system = (self.jacobian * self.inverse.unsqueeze(-2)) @ self.jacobian.mT + torch.diag_embed(self.compliance)
        # In units of the diagonal, where a little is added so that constraints that repeat each other have a solution.
        scale = system.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(system.dtype).tiny).rsqrt()
        scaled = system * scale.unsqueeze(-1) * scale.unsqueeze(-2)
        scaled.diagonal(dim1=-2, dim2=-1).add_(RIDGE)
        solved: Tensor = torch.linalg.solve_ex(scaled, (right * scale).unsqueeze(-1))[0].squeeze(-1)

        return solved * scale


def dot(one: Tensor, two: Tensor) -> Tensor:
    """Multiplies and sums over the last axis."""
    return (one * two).sum(-1)


def _apply(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix * vector.unsqueeze(-2)).sum(-1)
