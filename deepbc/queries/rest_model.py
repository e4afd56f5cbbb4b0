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

__all__ = ["Normal", "RestModel", "Tangent"]

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

    def minimum(self) -> Tensor:
        """The least cost of any step, with shape `(*choices,)`; NaN where there is no number."""
        if not self.gradient.shape[-1]:
            return self.constant
        if self.gradient.shape[-1] == 1:
            return self.constant - (self.gradient.square() / self.hessian.squeeze(-1)).squeeze(-1)

        solved: Tensor = torch.linalg.solve_ex(self.hessian, self.gradient.unsqueeze(-1))[0].squeeze(-1)

        return self.constant - (self.gradient * solved).sum(-1)


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
        still = {*roles.fixed, *roles.settled}
        #: Whether all that moves is affine, so that the model is exact, or a lower bound.
        self.exact = all(self.scm.mechanisms[name].affine for name in roles.names if name not in still)

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
        x, by_noise, by_parents = _predict(self.scm.mechanisms[name], u, joined)
        jacobian = _through(by_parents, parents)
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
            return rest.new_zeros(len(rest))

        return torch.where(law.region(x, x, joined).excess(rest).amax(-1) > 0, torch.inf, 0.0).to(rest)

    def imply(self, name: str, x: Tensor, row: Tensor, parents: Mapping[str, Tangent]) -> Normal:
        """What the noise costs that a value implies while its parents move; as in `settle`."""
        rest, joined = self.question.u[name][row], self._joined(name, row, parents)
        u, by_parents = _imply(self.scm.mechanisms[name], x, joined, rest)
        jacobian = _through(by_parents, parents)
        assert jacobian is not None  # noqa: S101 # a parent moves
        residual, weight = u - rest, self._weight(name)
        squared, gradient = residual.square().sum(-1), (jacobian.mT @ residual.unsqueeze(-1)).squeeze(-1)
        if isinstance(self.scm.mechanisms[name], Atomic) and residual.shape[-1] > 1:
            length = squared.sqrt().clamp_min(torch.finfo(squared.dtype).tiny).unsqueeze(-1)
            jacobian = (gradient / length).unsqueeze(-2)

        return Normal(weight * squared, weight * gradient, weight * jacobian.mT @ jacobian)

    def _joined(self, name: str, row: Tensor, parents: Mapping[str, Tangent]) -> Tensor:
        return concat_last([each.x for each in parents.values()], self.question.x[name][row][:, :0])

    def _weight(self, name: str) -> float:
        return max(self.distance.weight(name), MIN_WEIGHT)


def _before(sizes: Mapping[str, int], one: str, other: str) -> bool:
    order = list(sizes)

    return order.index(one) < order.index(other)


def _through(by_parents: Tensor, parents: Mapping[str, Tangent]) -> Tensor | None:
    """The derivatives `(combinations, outputs, free)` that come through the parents that move; None if none does."""
    total, start = None, 0
    for each in parents.values():
        end = start + each.x.shape[-1]
        if each.jacobian is not None:
            part = by_parents[..., start:end] @ each.jacobian
            total = part if total is None else total + part
        start = end

    return total


def _predict(law: Mechanism, u: Tensor, parents: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Values and their Jacobians by noise and parents."""
    if law.value_dim == 1 and law.noise_dim <= 1:
        x, by_noise, by_parents = law.predict_and_jacobian(u, parents)
        return x, by_noise.unsqueeze(-2), by_parents.unsqueeze(-2)

    x, (by_noise, by_parents) = value_and_jacobian(law.predict, u, parents)

    return x, by_noise, by_parents


def _imply(law: Mechanism, x: Tensor, parents: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """Implied noises and their Jacobian by the parents."""
    if isinstance(law, Atomic):
        return law.nearest_and_jacobian(x, parents, rest)

    z = law.reduce(x)
    if law.value_dim == 1 and law.noise_dim <= 1:
        u, by_parents = law.abduct_and_jacobian(z, parents)
        return u, by_parents.unsqueeze(-2)

    u, (by_parents,) = value_and_jacobian(lambda parents: law.abduct_reduced(z, parents), parents)

    return u, by_parents
