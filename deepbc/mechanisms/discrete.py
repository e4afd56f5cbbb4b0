r"""What laws of discrete variables share: a value is a region of the noise.

The law is :math:`x = k` wherever the noise lies in a region :math:`R_k(x_{pa})`. A value alone does not tell the noise;
its abduction is the mean of the noise in the region, which lies in it, so that `predict` gives the value back.
"""

__all__ = ["Discrete"]

import copy
from abc import abstractmethod
from typing import ClassVar, Self

import torch
from torch import Tensor

from deepbc.mechanisms.base import Mechanism
from deepbc.mechanisms.derivatives import value_and_jacobian
from deepbc.mechanisms.regions import Region
from deepbc.nn.mlp_jacobian import ALL, Moving


class Discrete(Mechanism):
    """The law of a category or of whole numbers.

    To add one, set `domain` to `"category"` or `"integer"`, and write `_region`, `_hard`, `_soft`, `_build`, `_fit` and
    `settings`. Where one noise decides, a region is an `Interval`; any other subclasses `Region`. A category of K
    levels is K - 1 indicators, an ordered one its place, whole numbers are themselves (`deepbc.data.categories`).
    """

    discrete: ClassVar[bool] = True
    # Whether values are those of the smooth stand-in, or their derivatives are.
    soft: bool = False
    guided: bool = False

    def region(self, lower: Tensor, upper: Tensor, parents: Tensor) -> Region:
        r"""Finds all noises that lead to values from one to another.

        Args:
            lower: The lowest value, with shape `(*batch, value)`.
            upper: The highest value, with shape `(*batch, value)`; that of a category without order is the same.
            parents: Parents :math:`x_{pa}`, with shape `(*batch, parents)`.
        """
        return self._region(lower, upper, parents)

    def nearest_and_jacobian(
        self, x: Tensor, parents: Tensor, u: Tensor, moving: Moving = ALL
    ) -> tuple[Tensor, Tensor]:
        """Computes the noise that `nearest` does, and its derivatives by the parents.

        Args:
            x: Values, with shape `(rows, value)`.
            parents: Parents, with shape `(rows, parents)`.
            u: Noise, with shape `(rows, noise)`.
            moving: Which components of the parents are derived by.

        Returns:
            The noise, with shape `(rows, noise)`, and its derivatives, with shape `(rows, noise, moving)`.
        """
        nearest, (by_parents,) = value_and_jacobian(lambda parents: self._nearest(x, parents, u), parents)

        return nearest, by_parents[..., moving]

    def softened(self, *, hard: bool = False) -> Self:
        """The same law, with the same weights, whose values change smoothly with the noise.

        Args:
            hard: Whether values stay as they are, and only their derivatives are those of the smooth ones.
        """
        other = copy.copy(self)
        other.soft, other.guided = not hard, hard

        return other

    def _predict(self, u: Tensor, parents: Tensor) -> Tensor:
        if self.soft:
            return self._soft(u, parents)
        if not self.guided:
            return self._hard(u, parents)

        soft = self._soft(u, parents)
        return self._hard(u, parents).detach() + (soft - soft.detach())

    def _abduct(self, x: Tensor, parents: Tensor) -> Tensor:
        return self._region(x, x, parents).mean()

    def _log_prob(self, x: Tensor, parents: Tensor) -> Tensor:
        return self._region(x, x, parents).log_mass()

    def _invert(self, x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the noise, and a volume of none: a class is not a value among many nearby."""
        return self._abduct(x, parents), torch.zeros_like(x[..., 0])

    def _nearest(self, x: Tensor, parents: Tensor, u: Tensor) -> Tensor:
        return self._region(x, x, parents).nearest(u)

    def _draw(self, x: Tensor, parents: Tensor, uniform: Tensor) -> Tensor:
        return self._region(x, x, parents).draw(uniform)

    @abstractmethod
    def _region(self, lower: Tensor, upper: Tensor, parents: Tensor) -> Region: ...

    @abstractmethod
    def _hard(self, u: Tensor, parents: Tensor) -> Tensor:
        """Computes the value."""

    @abstractmethod
    def _soft(self, u: Tensor, parents: Tensor) -> Tensor:
        """Computes a smooth stand-in for the value."""
