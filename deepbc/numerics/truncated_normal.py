"""The standard normal variable between two ends: its mass, its mean, and a smooth map into it."""

__all__ = ["LOG_SQRT_2PI", "hazard", "log_mass", "mean_between", "quantile_between", "truncated"]

import math

import torch
from torch import Tensor

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def log_mass(lower: Tensor, upper: Tensor) -> Tensor:
    """The logarithm of the chance to lie between two ends, which may be infinite; all have the same shape."""
    low, high, _ = _left(lower, upper)
    below, above = _log_chance(low), _log_chance(high)
    narrow = torch.where(low.isfinite(), below - above, -torch.inf)

    return above + torch.log(-torch.expm1(narrow))


def mean_between(lower: Tensor, upper: Tensor) -> Tensor:
    """The mean between two ends, which may be infinite."""
    mass = log_mass(lower, upper)
    mean = _density_over(lower, mass) - _density_over(upper, mass)

    return torch.maximum(torch.minimum(mean, upper), lower)


def quantile_between(chance: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The value between two ends that has a chance, a number between 0 and 1, to be larger than another one there."""
    return truncated(torch.special.ndtri(chance), lower, upper)[0]


def hazard(upper: Tensor) -> Tensor:
    """How far the mean of what lies below an end is from 0: the density at the end over the chance below it."""
    return torch.exp(-0.5 * upper.square() - LOG_SQRT_2PI - torch.special.log_ndtr(upper))


def truncated(w: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Maps a standard normal variable to a standard normal one between two ends, quantile by quantile.

    Args:
        w: The variable, of any shape.
        lower: The lower end, of the same shape; may be infinite.
        upper: The upper end.

    Returns:
        The variable between the ends, and the logarithm of the mass between them.
    """
    # Where the ends lie above the mean their mirror images do not, and chances below it keep their digits.
    low, high, above = _left(lower, upper)
    chance_low, chance_high = _chance(low), _chance(high)
    mass = chance_high - chance_low
    share = torch.special.ndtr(torch.where(above, -w, w))
    found: Tensor = torch.special.ndtri(chance_low + mass * share)
    # Rounding may leave the ends.
    found = torch.maximum(torch.minimum(found, high), low)

    return torch.where(above, -found, found), mass.log()


def _left(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The ends, or their mirror images where they lie above the mean, and where that is."""
    above = lower + upper > 0

    return torch.where(above, -upper, lower), torch.where(above, -lower, upper), above


def _chance(end: Tensor) -> Tensor:
    """The chance to lie below an end, without a slope where it is infinite."""
    # Its logarithm keeps digits that the chance itself loses far out.
    return torch.where(end.isfinite(), _log_chance(end).exp(), (end > 0).to(end.dtype))


def _log_chance(end: Tensor) -> Tensor:
    """The logarithm of the chance to lie below an end; of an infinite one that of 0, which is of no use but finite."""
    chance: Tensor = torch.special.log_ndtr(torch.where(end.isfinite(), end, 0.0))

    return torch.where(end == torch.inf, 0.0, chance)


def _density_over(end: Tensor, mass: Tensor) -> Tensor:
    """The density at an end over a mass of which the logarithm is given; 0 at an infinite end."""
    finite = end.isfinite()
    near = torch.where(finite, end, 0.0)

    return torch.where(finite, torch.exp(-0.5 * near.square() - LOG_SQRT_2PI - mass), 0.0)
