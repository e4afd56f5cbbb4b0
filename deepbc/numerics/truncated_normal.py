"""The truncated standard normal distribution: mass, mean, quantiles, and the inverse Mills ratio.

References:
    Continuous Univariate Distributions, volume 1 (Johnson, Kotz and Balakrishnan, 1994), section 13.10.
"""

__all__ = ["LOG_SQRT_2PI", "inverse_mills_ratio", "log_mass", "mean_between", "quantile_between", "truncated"]

import math

import torch
from torch import Tensor

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def log_mass(lower: Tensor, upper: Tensor) -> Tensor:
    """The log-probability between two bounds, which may be infinite; all have the same shape."""
    low, high, _ = _mirrored(lower, upper)
    below, above = _log_cdf(low), _log_cdf(high)
    narrow = torch.where(low.isfinite(), below - above, -torch.inf)

    return above + torch.log(-torch.expm1(narrow))


def mean_between(lower: Tensor, upper: Tensor) -> Tensor:
    """The mean of the distribution truncated to two bounds, which may be infinite."""
    mass = log_mass(lower, upper)
    mean = _density_over(lower, mass) - _density_over(upper, mass)

    return torch.maximum(torch.minimum(mean, upper), lower)


def quantile_between(probability: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The quantile of a probability of the distribution truncated to two bounds."""
    return truncated(torch.special.ndtri(probability), lower, upper)[0]


def inverse_mills_ratio(upper: Tensor) -> Tensor:
    """The density over the distribution function at a bound: minus the mean of what is truncated above there."""
    return torch.exp(-0.5 * upper.square() - LOG_SQRT_2PI - torch.special.log_ndtr(upper))


def truncated(w: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Maps a standard normal variable to a truncated one, quantile by quantile.

    Args:
        w: The variable, of any shape.
        lower: The lower bound, of the same shape; may be infinite.
        upper: The upper bound.

    Returns:
        The truncated variable, and the log-probability between the bounds.
    """
    # The lower tail keeps the digits that the distribution function loses in the upper one.
    low, high, above = _mirrored(lower, upper)
    cdf_low, cdf_high = _cdf(low), _cdf(high)
    mass = cdf_high - cdf_low
    fraction = torch.special.ndtr(torch.where(above, -w, w))
    found: Tensor = torch.special.ndtri(cdf_low + mass * fraction)
    # Rounding may leave the bounds.
    found = torch.maximum(torch.minimum(found, high), low)

    return torch.where(above, -found, found), mass.log()


def _mirrored(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The bounds, reflected into the lower tail where their centre is in the upper one, and where that is."""
    above = lower + upper > 0

    return torch.where(above, -upper, lower), torch.where(above, -lower, upper), above


def _cdf(bound: Tensor) -> Tensor:
    """The distribution function, without a gradient at an infinite bound."""
    # By its logarithm, which keeps digits in the tail.
    return torch.where(bound.isfinite(), _log_cdf(bound).exp(), (bound > 0).to(bound.dtype))


def _log_cdf(bound: Tensor) -> Tensor:
    """The log distribution function; at minus infinity a finite number that is not used."""
    log_cdf: Tensor = torch.special.log_ndtr(torch.where(bound.isfinite(), bound, 0.0))

    return torch.where(bound == torch.inf, 0.0, log_cdf)


def _density_over(bound: Tensor, mass: Tensor) -> Tensor:
    """The density at a bound over a mass of a given logarithm; 0 at an infinite bound."""
    finite = bound.isfinite()
    near = torch.where(finite, bound, 0.0)

    return torch.where(finite, torch.exp(-0.5 * near.square() - LOG_SQRT_2PI - mass), 0.0)
