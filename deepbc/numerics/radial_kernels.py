r"""Covariances that depend on a scaled distance: of functions with derivatives of all orders, and of rougher ones.

Each is a function of the logarithm of the Gaussian one, :math:`e = -\tfrac12 r^2` with the scaled distance :math:`r`:

.. math:: k_G = \exp(e), \qquad k_M = (1 + \rho + \tfrac13 \rho^2) \exp(-\rho), \quad \rho = \sqrt 5 \, r,

the second that of Matern with smoothness 5/2, whose functions may bend as sharply as a kink with many rows does.

References:
    Gaussian Processes for Machine Learning (Rasmussen and Williams, 2006), section 4.2.1, eqs. 4.9 and 4.17.
"""

__all__ = ["KERNELS", "Gaussian", "Matern", "RadialKernel"]

from abc import ABC, abstractmethod

from torch import Tensor

# Square roots start here, where their derivatives are still finite.
TINY = 1e-24


class RadialKernel(ABC):
    """A covariance that is 1 at distance 0."""

    @abstractmethod
    def value(self, exponent: Tensor) -> Tensor:
        """The covariance."""

    @abstractmethod
    def with_slope(self, exponent: Tensor) -> tuple[Tensor, Tensor]:
        """The covariance, and its derivative by the exponent; not for autograd."""


class Gaussian(RadialKernel):
    """The squared exponential."""

    def value(self, exponent: Tensor) -> Tensor:
        return exponent.exp()

    def with_slope(self, exponent: Tensor) -> tuple[Tensor, Tensor]:
        value = exponent.exp()

        return value, value


class Matern(RadialKernel):
    """That of smoothness 5/2."""

    def value(self, exponent: Tensor) -> Tensor:
        rho = (exponent * -10).clamp_min(TINY).sqrt()

        return (-rho).exp() * (1 + rho + rho.square() / 3)

    def with_slope(self, exponent: Tensor) -> tuple[Tensor, Tensor]:
        rho = (exponent * -10).clamp_min_(TINY).sqrt_()
        decay = (-rho).exp_()
        first = decay * rho + decay

        return (rho.square_() * decay).div_(3).add_(first), first * (5 / 3)


KERNELS: tuple[RadialKernel, ...] = (Gaussian(), Matern())
