r"""What laws with atoms share: values of positive probability, to each of which a region of the noise leads.

The law is :math:`x = k` wherever the noise lies in a region :math:`R_k(x_{pa})`. Such a value alone does not tell the
noise; its abduction is the mean of the noise in the region, which lies in it, so that `predict` gives the value back.
All values of a discrete variable are atoms; of a censored one its least or largest value is, and any other is a region
of a single noise.
"""

__all__ = ["Atomic"]

import copy
from abc import abstractmethod
from typing import ClassVar, Self

from torch import Tensor

from deepbc.mechanisms.base import Mechanism
from deepbc.mechanisms.derivatives import value_and_jacobian
from deepbc.mechanisms.regions import Region
from deepbc.nn.mlp_jacobian import ALL, Moving


class Atomic(Mechanism):
    """A law some of whose values are regions of the noise: write `_region`, `_hard` and `_soft` beside the rest.

    To add one, subclass `Discrete`, or wrap a law of numbers as `Censored` does.
    """

    has_atoms: ClassVar[bool] = True
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
