r"""How far two noises are apart.

A distance :math:`d_i(u'_i, u_i)` says what it costs to move the noise of a variable from :math:`u_i` to :math:`u'_i`.
It is least, and zero, where nothing moves; the backtracking conditional is :math:`p(u' \mid u) \propto \exp(-d(u', u))`
(eq. 3 of the paper). A model has one distance and one weight for each variable:

.. math:: d(u', u) = \sum_i w_i \, d_i(u'_i, u_i).

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), section 2.3.
"""

__all__ = ["Absolute", "Distance", "Distances", "Power", "Squared", "read_distance"]

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from deepbc._validation import NUMBERS, check_between, pick
from deepbc.errors import SettingError

# Moves below this have the curvature of this one, where a power above 2 has next to none.
LEAST_MOVE = 0.05
# The step of a difference of gradients.
PROBE = 1e-4
# A gamma variable is below this, and is found by so many bisections.
MOST_POWER, BISECTIONS = 64.0, 64
# A gradient of this size this close to rest is a kink.
KINK, NEAR_REST = 1e-3, 1e-7
# So far out a distance is to have grown, to this at least.
FAR, GROWN = 1e6, 20.0


class Distance(ABC):
    r"""The cost :math:`d(u', u)` of moving the noise of one variable.

    To add a distance, in any module of your own:

    1. Subclass `deepbc.Distance` and write `_value`. It is convex in :math:`u'`, and zero where nothing moves.
    2. Write `_gradient` and `_curvature` too where they are known; by default they come from autograd and differences.
    3. Pass it as `distance=`, or by variable: `distance={"x": MyDistance()}`. `deepbc.testing.check_distance` tests it.

    A function `(u_star, u) -> cost` is a distance, too, without a class.
    """

    # The weight of each named variable; 1 for the others.
    weights: Mapping[str, float] = {}
    # Promises that the cost is exactly the squared Euclidean one, so that solvers need not ask for its derivatives.
    squared: ClassVar[bool] = False
    # Whether `draw` knows the density exp(-cost).
    drawable: ClassVar[bool] = False

    def value(self, u_star: Tensor, u: Tensor) -> Tensor:
        r"""Computes the cost.

        Args:
            u_star: Counterfactual noise :math:`u^*`, with shape `(*batch, noise)`.
            u: Factual noise :math:`u`, with shape `(*batch, noise)`.

        Returns:
            The cost, with shape `(*batch,)`.
        """
        return self._value(u_star, u)

    def gradient(self, u_star: Tensor, u: Tensor) -> Tensor:
        """Computes the derivative of the cost by `u_star`, with shape `(*batch, noise)`."""
        return self._gradient(u_star, u)

    def curvature(self, u_star: Tensor, u: Tensor) -> Tensor:
        """Computes a second derivative by each component of `u_star`, or more, with shape `(*batch, noise)`."""
        return self._curvature(u_star, u)

    def has_kink(self, u: Tensor) -> bool:
        """Whether the cost rises at once when noise begins to move, so that a noise may rest at its kink."""
        return bool((self._gradient(u + NEAR_REST, u).abs() > KINK).any())

    def draw(self, uniform: Tensor, weight: float) -> Tensor:
        r"""Draws moves from the density :math:`\propto \exp(-w d)`, from uniform numbers of any shape."""
        raise NotImplementedError

    def check_rest(self, u: Tensor, where: str) -> None:
        """Checks that the cost is zero, and least, where nothing moves; `u` has shape `(rows, noise)`."""
        cost = self._value(u, u)
        if not bool((cost.abs() <= 1e-9).all()):
            raise SettingError(f"{where}: expected a cost of 0 where nothing moves, got {cost.flatten()[0].item():g}.")
        for step in (-1.0, -0.01, 0.01, 1.0):
            each = self._value(u + step, u)
            if not bool((each >= -1e-12).all() & each.isfinite().all()):
                raise SettingError(
                    f"{where}: expected finite costs of at least 0, got {each.min().item():g}. It must be least where "
                    f"nothing moves."
                )

    def check_proper(self, u: Tensor, where: str) -> None:
        """Checks that the cost grows, so that `exp(-cost)` can be a density; `u` has shape `(rows, noise)`."""
        for step in (-FAR, FAR):
            cost = self._value(u + step, u)
            if (cost < GROWN).any():
                raise SettingError(
                    f"{where}: expected a cost that grows without end, so that exp(-cost) is a density, got "
                    f"{cost.min():g} far out. Samples need one; `backtrack` finds the most likely world without."
                )

    @abstractmethod
    def _value(self, u_star: Tensor, u: Tensor) -> Tensor: ...

    def _gradient(self, u_star: Tensor, u: Tensor) -> Tensor:
        with torch.enable_grad():
            point = u_star.detach().requires_grad_()
            cost = self._value(point, u)
            if not cost.requires_grad:
                raise SettingError(f"{self!r}: expected a cost that autograd can follow. Write it with torch.")
            return torch.autograd.grad(cost.sum(), point, materialize_grads=True)[0]

    def _curvature(self, u_star: Tensor, u: Tensor) -> Tensor:
        columns = []
        for k in range(u.shape[-1]):
            step = torch.zeros_like(u[..., :1]).expand_as(u).clone()
            step[..., k] = PROBE
            rise = self._gradient(u_star + step, u) - self._gradient(u_star - step, u)
            columns.append(rise[..., k] / (2 * PROBE))

        return torch.stack(columns, dim=-1).clamp_min(0.0)


class Power(Distance):
    r"""Creates the distance :math:`w_i \sum_k |u'_{ik} - u_{ik}|^p`.

    Args:
        p: The power, at least 1.
        weights: The weight of each named variable; 1 for the others, 0 for noise that moves for free.

    Example:
        >>> Power(4)
        Power(4)
    """

    drawable = True

    def __init__(self, p: float, weights: Mapping[str, float] | None = None) -> None:
        check_between(p, 1.0, math.inf, "Power p", closed=True)
        self.p = p
        self.weights = _read_weights(weights or {})

    def draw(self, uniform: Tensor, weight: float) -> Tensor:
        side = 2 * uniform - 1
        # The power of the size of a move is a gamma variable, whose quantile is found by bisection.
        share, shape = side.abs(), torch.full_like(uniform, 1 / self.p)
        low, high = torch.zeros_like(uniform), torch.full_like(uniform, MOST_POWER)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            below = torch.special.gammainc(shape, middle) < share
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)

        return side.sign() * (high / weight) ** (1 / self.p)

    def has_kink(self, u: Tensor) -> bool:
        return self.p == 1

    def check_rest(self, u: Tensor, where: str) -> None:
        """A power is zero at rest and nowhere less."""

    def _value(self, u_star: Tensor, u: Tensor) -> Tensor:
        return (u_star - u).abs().pow(self.p).sum(-1)

    def _gradient(self, u_star: Tensor, u: Tensor) -> Tensor:
        move = u_star - u

        return self.p * move.sign() * move.abs().pow(self.p - 1)

    def _curvature(self, u_star: Tensor, u: Tensor) -> Tensor:
        # A power above 2 has no curvature at rest and one below 2 an infinite one; either stops a step.
        move = (u_star - u).abs().clamp_min(LEAST_MOVE if self.p > 2 else NEAR_REST)

        return self.p * max(self.p - 1, 1.0) * move.pow(self.p - 2)

    def __repr__(self) -> str:
        return f"Power({self.p}{f', {dict(self.weights)}' if self.weights else ''})"


class _Fixed(Power):
    """A power that has a name."""

    power: ClassVar[float]

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        super().__init__(self.power, weights)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.weights) or ''})"


class Squared(_Fixed):
    r"""Creates the squared distance :math:`w_i \lVert u'_i - u_i \rVert^2`, the paper's default.

    Args:
        weights: The weight of each named variable; 1 for the others, 0 for noise that moves for free.

    Example:
        >>> Squared({"thickness": 5.0})
        Squared({'thickness': 5.0})
    """

    power = 2.0
    squared = True

    def draw(self, uniform: Tensor, weight: float) -> Tensor:
        move: Tensor = torch.special.ndtri(uniform)

        return move / math.sqrt(2 * weight)

    def _value(self, u_star: Tensor, u: Tensor) -> Tensor:
        return (u_star - u).square().sum(-1)

    def _gradient(self, u_star: Tensor, u: Tensor) -> Tensor:
        return 2 * (u_star - u)

    def _curvature(self, u_star: Tensor, u: Tensor) -> Tensor:
        return torch.full_like(u_star, 2.0)


class Absolute(_Fixed):
    r"""Creates the absolute distance :math:`w_i \lVert u'_i - u_i \rVert_1`, which moves few noises.

    Args:
        weights: The weight of each named variable; 1 for the others, 0 for noise that moves for free.

    Example:
        >>> Absolute()
        Absolute()
    """

    power = 1.0

    def draw(self, uniform: Tensor, weight: float) -> Tensor:
        side = 2 * uniform - 1

        return -side.sign() * torch.log1p(-side.abs()) / weight


class _Custom(Distance):
    """The user's own function of two noises."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.function = function

    def _value(self, u_star: Tensor, u: Tensor) -> Tensor:
        cost: object = self.function(u_star, u)
        if not isinstance(cost, Tensor) or cost.shape != u_star.shape[:-1]:
            came = tuple(cost.shape) if isinstance(cost, Tensor) else type(cost).__name__
            raise SettingError(
                f"{self!r}: expected a tensor of shape {tuple(u_star.shape[:-1])} for noise of shape "
                f"{tuple(u_star.shape)}, got {came}. Sum over the last axis."
            )

        return cost

    def __repr__(self) -> str:
        return f"distance {getattr(self.function, '__name__', self.function)!r}"


@dataclass(frozen=True, slots=True)
class Distances:
    """The distance and the weight of every variable of a model.

    Args:
        others: The distance of all variables that are not named.
        named: The distances of those that are.
    """

    others: Distance
    named: Mapping[str, Distance]

    @property
    def squared(self) -> bool:
        """Whether all are squared."""
        return all(each.squared for each in (self.others, *self.named.values()))

    def of(self, name: str) -> Distance:
        """The distance of one variable, without its weight."""
        return self.named.get(name, self.others)

    def weight(self, name: str) -> float:
        """The weight of a variable."""
        return self.of(name).weights.get(name, 1.0)

    def moved(self, name: str, u_star: Tensor, u: Tensor) -> Tensor:
        r"""Computes what one variable's noise carries, :math:`w_i d_i(u^*_i, u_i)`, with shape `(*batch,)`."""
        return self.weight(name) * self.of(name).value(u_star, u)


def read_distance(distance: Any, names: Collection[str]) -> Distances:
    """Reads a distance: none is squared, a mapping names one for each variable, a function is the user's own."""
    if isinstance(distance, Mapping):
        read = Distances(Squared(), {pick(name, names, "distance"): _read_one(each) for name, each in distance.items()})
    else:
        read = Distances(_read_one(distance), {})
    for each in (read.others, *read.named.values()):
        for name in each.weights:
            pick(name, names, "distance weights")

    return read


def _read_one(distance: Any) -> Distance:
    if distance is None:
        return Squared()
    if isinstance(distance, Distance):
        return distance
    if callable(distance) and not isinstance(distance, type):
        return _Custom(distance)

    made = f" Write {distance.__name__}()." if isinstance(distance, type) else ""
    raise SettingError(
        f"distance: expected a Distance, a mapping from variables to distances or a function (u_star, u) -> cost, got "
        f"{distance!r}.{made}"
    )


def _read_weights(weights: Mapping[str, float]) -> dict[str, float]:
    """Returns the weights as plain numbers."""
    if not isinstance(weights, Mapping):
        raise SettingError(f"distance weights: expected a mapping such as {{'x': 2.0}}, got {weights!r}.")
    for name, weight in weights.items():
        if not isinstance(weight, NUMBERS) or not 0 <= weight < math.inf:
            raise SettingError(f"distance weight of {name!r}: expected a finite number of at least 0, got {weight!r}.")

    return {name: float(weight) for name, weight in weights.items()}
