r"""The quadratic model at rest of the cost of a choice of discrete values, built variable by variable.

With the noises that are sought at rest, each variable has a value and, by the chain rule, a derivative by the step
:math:`\delta` of all of them. A variable whose value is given implies a noise, which to first order is
:math:`r + J \delta` from rest. So a choice costs about

.. math:: \min_\delta \; \sum_j w_j \delta_j^2 + \sum_i w_i \lVert r_i + J_i \delta \rVert^2
          = c - g^\top H^{-1} g, \qquad H = W + \sum_i w_i J_i^\top J_i,\; g = \sum_i w_i J_i^\top r_i,\;
          c = \sum_i w_i \lVert r_i \rVert^2 ,

and each variable adds a term to :math:`c, g` and :math:`H`: the normal equations are accumulated, and the minimum over
the variables so far never falls as others are added. What is constrained beside is left out, so it is a lower estimate.
The noise of a class has one region to reach, whose distance :math:`\rho = \lVert r \rVert` counts as a single residual
with the slope :math:`r^\top J / \rho`: a tangent of a convex function lies below it, those of its parts may not.

References:
    Numerical Optimization (Nocedal and Wright, 2006), section 10.3: Gauss-Newton.
"""

__all__ = ["Normal", "RestModel", "Sides", "Tangent"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.distances import Distances
from deepbc.mechanisms import Atomic, Mechanism
from deepbc.mechanisms.derivatives import value_and_jacobian
from deepbc.numerics.batched import concat_last
from deepbc.queries.question import Question
from deepbc.queries.roles import Roles
from deepbc.queries.search_model import in_noise_precision, relaxed
from deepbc.scm import SCM
from deepbc.solvers.problem import MIN_WEIGHT

# The weight of a noise that may not move, and by how much it is taken to have moved where no parent does.
PENALTY, FROZEN = 1e6, 1e-4


@dataclass(frozen=True, slots=True)
class Tangent:
    """Values of a variable with their derivatives by the noises that are sought.

    Args:
        x: Values, with shape `(combinations, value)`.
        jacobian: Derivatives, with shape `(combinations, value, free)`; None where it cannot move.
    """

    x: Tensor
    jacobian: Tensor | None


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal equations: the cost :math:`c + 2 g^T d + d^T H d` of a step, one a choice.

    Args:
        constant: :math:`c`, with shape `(*choices,)`.
        gradient: :math:`g`, with shape `(*choices, free)`.
        hessian: :math:`H`, with shape `(*choices, free, free)`.
    """

    constant: Tensor
    gradient: Tensor
    hessian: Tensor

    def plus(self, other: "Normal") -> "Normal":
        """Adds the cost of another, choice by choice."""
        return Normal(self.constant + other.constant, self.gradient + other.gradient, self.hessian + other.hessian)

    def expand(self, choices: int) -> "Normal":
        """The same for so many choices, where it is one that stands for all."""
        parts = (self.constant, self.gradient, self.hessian)

        return Normal(*(each.expand(choices, *each.shape[1:]) for each in parts))

    def minimum(self) -> Tensor:
        """The least cost of any step, with shape `(*choices,)`; NaN where there is no number."""
        if not self.gradient.shape[-1]:
            return self.constant

        return self.constant - (self.gradient * self._solve(self.gradient.unsqueeze(-1)).squeeze(-1)).sum(-1)

    def minimum_within(self, sides: "Sides") -> Tensor:
        """The least cost of a step that meets any one of some sides, the dearest: less than what all of them cost."""
        step = -self._solve(self.gradient.unsqueeze(-1))
        outside = (sides.excess + (sides.slope @ step).squeeze(-1)).clamp_min(0.0)
        compliance = (sides.slope * self._solve(sides.slope.mT).mT).sum(-1)
        rise = torch.where(outside > 0, outside.square() / compliance, 0.0).amax(-1)

        return self.minimum() + rise

    def _solve(self, sides: Tensor) -> Tensor:
        """Solves with the Hessian, for `(*choices, free, sides)`."""
        if self.gradient.shape[-1] == 1:
            return sides / self.hessian

        solved: Tensor = torch.linalg.solve_ex(self.hessian, sides)[0]

        return solved


@dataclass(frozen=True, slots=True)
class Sides:
    r"""The sides of regions that noises at rest may not leave: :math:`e + E \delta \le 0`.

    Args:
        excess: How far they are outside at rest, with shape `(choices, sides)`.
        slope: The derivatives of that by a step, with shape `(choices, sides, free)`.
    """

    excess: Tensor
    slope: Tensor

    def and_others(self, other: "Sides | None") -> "Sides":
        """Adds other sides of the same choices."""
        if other is None:
            return self

        return Sides(torch.cat([self.excess, other.excess], -1), torch.cat([self.slope, other.slope], -2))


class RestModel:
    """Creates the model of a question.

    Args:
        scm: The model.
        question: The question.
        roles: The part of each variable, with those to choose among the ones whose value is met.
        distance: How far two noises are apart.
        relax: The discrete variables that are relaxed.
    """

    def __init__(
        self, scm: SCM, question: Question, roles: Roles, distance: Distances, relax: Sequence[str] = ()
    ) -> None:
        self.scm = relaxed(in_noise_precision(scm, roles.names), relax)
        self.question, self.roles, self.distance = question, roles, distance
        self.sizes = {name: self.scm.mechanisms[name].free_noise_dim for name in roles.free}
        self.free = sum(self.sizes.values())
        moving = [name for name in roles.names if name not in {*roles.fixed, *roles.settled}]
        confined = [name for name in roles.met if name not in roles.scope and self._parents_move(name)]
        #: Whether noises that may not move are implied by parents that do, all of it by affine functions: then these
        #: take part as constraints, and noises of classes and whole numbers, which shift by kinks, do not.
        self.confined = bool(confined) and all(self._affine(name) for name in moving)
        #: Whether all that moves is affine, so that the model is exact, or a lower bound.
        self.exact = self.confined or all(self.scm.mechanisms[name].affine for name in moving)

    def empty(self) -> Normal:
        """The cost of the noises that are sought alone, for one choice that stands for all."""
        like = self.question.x[next(iter(self.question.x))]
        weights = [like.new_full((size,), self._weight(name)) for name, size in self.sizes.items()]
        own = torch.diag(concat_last(weights, like.new_zeros(0)))

        return Normal(like.new_zeros(1), like.new_zeros(1, self.free), own.unsqueeze(0))

    def predict(self, name: str, row: Tensor, parents: Mapping[str, Tangent]) -> Tangent:
        """The tangent of a variable whose noise is at rest.

        Args:
            name: The variable.
            row: The row of the question, with shape `(combinations,)`.
            parents: The tangents of its parents.
        """
        u, joined = self.question.u[name][row], self._joined(name, row, parents)
        x, by_noise, by_moving = _predict(self.scm.mechanisms[name], u, joined, _moving(parents))
        jacobian = _through(by_moving, parents)
        if name in self.sizes:
            jacobian = x.new_zeros(*x.shape, self.free) if jacobian is None else jacobian
            first = sum(size for each, size in self.sizes.items() if each != name and _before(self.sizes, each, name))
            jacobian[..., first : first + self.sizes[name]] += by_noise[..., : self.sizes[name]]

        return Tangent(x, jacobian)

    def settle(self, name: str, x: Tensor, row: Tensor, parents: Mapping[str, Tangent]) -> Tensor:
        """What the noise costs that a value implies whose parents cannot move; infinite if it may not move itself.

        Args:
            name: The variable.
            x: Its value, with shape `(combinations, value)`.
            row: The row of the question, with shape `(combinations,)`.
            parents: The tangents of its parents.
        """
        law, rest, joined = self.scm.mechanisms[name], self.question.u[name][row], self._joined(name, row, parents)
        if name in self.roles.scope:
            return self.distance.moved(name, law.nearest(x, joined, rest), rest)
        if not isinstance(law, Atomic):
            moved = (law.nearest(x, joined, rest) - rest).abs().amax(-1)
            return torch.where(moved > FROZEN, torch.inf, 0.0).to(rest)

        return torch.where(law.region(x, x, joined).excess(rest).amax(-1) > 0, torch.inf, 0.0).to(rest)

    def reduce(self, name: str, x: Tensor) -> Tensor:
        """What of an implied noise depends on the value alone."""
        law = self.scm.mechanisms[name]

        return x if isinstance(law, Atomic) else law.reduce(x)

    def imply(self, name: str, z: Tensor, row: Tensor, parents: Mapping[str, Tangent]) -> Normal:
        """What the noise costs that a value implies while its parents move, by what `reduce` made of the value.

        One that may not move has the quadratic penalty, whose minimum is below that of the constraint.
        """
        rest, joined = self.question.u[name][row], self._joined(name, row, parents)
        u, by_moving = _imply(self.scm.mechanisms[name], z, joined, rest, _moving(parents))
        jacobian = _through(by_moving, parents)
        assert jacobian is not None  # noqa: S101 # a parent moves
        residual, weight = u - rest, self._weight(name) if name in self.roles.scope else PENALTY
        squared, gradient = residual.square().sum(-1), (jacobian * residual.unsqueeze(-1)).sum(-2)
        if isinstance(self.scm.mechanisms[name], Atomic) and residual.shape[-1] > 1:
            length = squared.sqrt().clamp_min(torch.finfo(squared.dtype).tiny).unsqueeze(-1)
            jacobian = (gradient / length).unsqueeze(-2)

        return Normal(weight * squared, weight * gradient, weight * _product(jacobian.mT, jacobian))

    def confine(self, name: str, x: Tensor, row: Tensor, parents: Mapping[str, Tangent]) -> Sides:
        """The sides of the region of a value of a discrete variable whose noise may not move, while its parents do."""
        law, rest, joined = self.scm.mechanisms[name], self.question.u[name][row], self._joined(name, row, parents)
        assert isinstance(law, Atomic)  # noqa: S101 # its variable is
        excess, (by_parents,) = value_and_jacobian(lambda parents: law.region(x, x, parents).excess(rest), joined)
        slope = _through(by_parents[..., _moving(parents)], parents)
        assert slope is not None  # noqa: S101 # a parent moves

        return Sides(excess, slope)

    def takes_part(self, name: str) -> bool:
        """Whether what the noise costs that a value implies takes part, where a parent of the variable moves."""
        discrete, free = name in self.roles.discrete, name in self.roles.scope

        return self.distance.squared and (not (discrete and self.confined) if free else self.confined)

    def _parents_move(self, name: str) -> bool:
        still = {*self.roles.fixed, *self.roles.met}

        return not still.issuperset(self.scm.graph.parents(name))

    def _affine(self, name: str) -> bool:
        law = self.scm.mechanisms[name]

        return law.shifts if name in self.roles.met else law.affine

    def _joined(self, name: str, row: Tensor, parents: Mapping[str, Tangent]) -> Tensor:
        return concat_last([each.x for each in parents.values()], self.question.x[name][row][:, :0])

    def _weight(self, name: str) -> float:
        return max(self.distance.weight(name), MIN_WEIGHT)


def _before(sizes: Mapping[str, int], one: str, other: str) -> bool:
    order = list(sizes)

    return order.index(one) < order.index(other)


def _moving(parents: Mapping[str, Tangent]) -> list[int]:
    """The components of the parents that move."""
    moves = [each.jacobian is not None for each in parents.values() for _ in range(each.x.shape[-1])]

    return [k for k, moved in enumerate(moves) if moved]


def _through(by_moving: Tensor, parents: Mapping[str, Tangent]) -> Tensor | None:
    """The derivatives `(combinations, outputs, free)` that come through the parents that move; None if none does."""
    jacobians = [each.jacobian for each in parents.values() if each.jacobian is not None]

    return _product(by_moving, torch.cat(jacobians, dim=-2)) if jacobians else None


def _product(one: Tensor, other: Tensor) -> Tensor:
    """The products of many small matrices; those of a column and a row take a tenth of the time this way."""
    return one * other if one.shape[-1] == 1 else one @ other


def _predict(law: Mechanism, u: Tensor, parents: Tensor, moving: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Values and their Jacobians by noise and by the parents that move."""
    if law.value_dim == 1 and law.noise_dim <= 1:
        x, by_noise, by_moving = law.predict_and_jacobian(u, parents, moving)
        return x, by_noise.unsqueeze(-2), by_moving.unsqueeze(-2)

    x, (by_noise, by_parents) = value_and_jacobian(law.predict, u, parents)

    return x, by_noise, by_parents[..., moving]


def _imply(law: Mechanism, z: Tensor, parents: Tensor, rest: Tensor, moving: list[int]) -> tuple[Tensor, Tensor]:
    """Implied noises and their Jacobian by the parents that move."""
    if isinstance(law, Atomic):
        return law.nearest_and_jacobian(z, parents, rest, moving)

    if law.value_dim == 1 and law.noise_dim <= 1:
        u, by_moving = law.abduct_and_jacobian(z, parents, moving)
        return u, by_moving.unsqueeze(-2)

    u, (by_parents,) = value_and_jacobian(lambda parents: law.abduct_reduced(z, parents), parents)

    return u, by_parents[..., moving]
