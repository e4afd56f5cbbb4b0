r"""The model of a problem at a point that a step is based on: a convex quadratic plus piecewise linear terms.

Near a point :math:`v` with moves :math:`\delta` the merit, that is the cost plus :math:`\nu` times the violation, is

.. math:: d(v) + g^\top \delta + \tfrac{1}{2} \delta^\top J^\top D J \delta
          + \sum_j \kappa_j \bigl(\operatorname{dist}(t_j + A_j \delta, [l_j, h_j])
          - \operatorname{dist}(t_j, [l_j, h_j])\bigr),

with the Gauss-Newton Hessian of the smooth part of the cost, and for :math:`t` the noises whose cost has a kink, with
the weights of their kinks, and with weight :math:`\nu` what is constrained: values and implied noises that are fixed.
"""

__all__ = ["LocalModel", "elastic_noises"]

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.solvers.problem import Point, Problem
from deepbc.solvers.quadratic_program import Conditions, apply, distance_outside


def elastic_noises(problem: Problem) -> Tensor:
    """The noises among the conditions: those whose cost has a kink, and implied ones that are fixed in some row."""
    held = problem.cost.kinked.clone()
    held[problem.free :] |= ~problem.movable[:, problem.free :].all(0)

    return held.nonzero().squeeze(-1)


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model of each of several runs.

    Args:
        point: The point.
        cost: The whole cost, with shape `(runs,)`.
        gradient: The gradient of the smooth part by the free coordinates, with shape `(runs, free)`.
        hessian: Its Gauss-Newton Hessian, with shape `(runs, free, free)`.
        pull: The derivative of the smooth part by the implied noises, with shape `(runs, implied)`.
        conditions: Kinks, fixed implied noises and constrained values; the weight of a constraint is infinite.
    """

    point: Point
    cost: Tensor
    gradient: Tensor
    hessian: Tensor
    pull: Tensor
    conditions: Conditions

    @classmethod
    def of(cls, problem: Problem, point: Point, held: Tensor) -> "LocalModel":
        """Models a problem at a point with its Jacobian; `held` are its elastic noises."""
        free, cost, noises, rest = problem.free, problem.cost, point.noises, problem.rest
        slope, bend = cost.gradient(noises, rest), cost.curvature(noises, rest)
        implied, movable = point.jacobian[:, : problem.implied], problem.movable[:, :free]
        gradient = slope[:, :free] + apply(implied.mT, slope[:, free:])
        hessian = (implied * bend[:, free:].unsqueeze(-1)).mT @ implied + torch.diag_embed(bend[:, :free])
        both = movable.unsqueeze(-1) & movable.unsqueeze(-2)
        hessian = torch.where(both, hessian, torch.eye(free, dtype=hessian.dtype, device=hessian.device))

        return cls(
            point=point,
            cost=cost.value(noises, rest),
            gradient=movable * gradient,
            hessian=hessian,
            pull=slope[:, free:],
            conditions=_conditions(problem, point, held),
        )

    def weighted(self, penalty: Tensor) -> Conditions:
        """The conditions with a penalty, `(runs,)`, for the weight of the constraints."""
        own = self.conditions

        return replace(own, weight=torch.where(own.weight.isinf(), penalty.unsqueeze(-1), own.weight))

    @property
    def violation(self) -> Tensor:
        """The l1 norm of the violation of the constraints, with shape `(runs,)`."""
        return self._outside().sum(-1)

    @property
    def largest_violation(self) -> Tensor:
        """The largest violation, with shape `(runs,)`."""
        outside = self._outside()

        return outside.amax(-1) if outside.shape[-1] else outside.sum(-1)

    def _outside(self) -> Tensor:
        own = self.conditions
        outside = distance_outside(own.value, own.lower, own.upper)

        return torch.where(own.weight.isinf(), outside, 0.0)

    def finite(self) -> Tensor:
        """Whether the model consists of numbers, with shape `(runs,)`."""
        total = self.cost + self.gradient.sum(-1) + self.hessian.sum((-1, -2)) + self.conditions.value.sum(-1)

        return (total + self.conditions.jacobian.sum((-1, -2))).isfinite()


def _conditions(problem: Problem, point: Point, held: Tensor) -> Conditions:
    free, like = problem.free, point.noises
    move = (point.noises - problem.rest)[:, held]
    own = torch.eye(free, dtype=like.dtype, device=like.device).expand(len(like), -1, -1)
    noises = torch.cat([own, point.jacobian[:, : problem.implied]], -2)[:, held]
    jacobian = torch.cat([noises, point.jacobian[:, problem.implied :]], -2)
    fixed = ~problem.movable[:, held] & (held >= free)
    kinks = problem.cost.kinks(problem.rest)[:, held] if len(held) else move

    return Conditions(
        value=torch.cat([move, point.values], -1),
        lower=torch.cat([torch.zeros_like(move), problem.lower], -1),
        upper=torch.cat([torch.zeros_like(move), problem.upper], -1),
        weight=torch.cat([torch.where(fixed, torch.inf, kinks), torch.full_like(point.values, torch.inf)], -1),
        jacobian=jacobian * problem.movable[:, None, :free],
    )
