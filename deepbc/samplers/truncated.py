"""The normal variable between two ends, as a smooth map of a standard normal one."""

__all__ = ["truncated"]

import torch
from torch import Tensor


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
    above = lower + upper > 0
    low, high = torch.where(above, -upper, lower), torch.where(above, -lower, upper)
    chance_low, chance_high = _chance(low), _chance(high)
    mass = chance_high - chance_low
    share = torch.special.ndtr(torch.where(above, -w, w))
    found: Tensor = torch.special.ndtri(chance_low + mass * share)
    # Rounding may leave the ends.
    found = torch.maximum(torch.minimum(found, high), low)

    return torch.where(above, -found, found), mass.log()


def _chance(end: Tensor) -> Tensor:
    """The chance to lie below an end, without a slope where it is infinite."""
    finite = end.isfinite()
    # Its logarithm keeps digits that the chance itself loses far out.
    chance: Tensor = torch.special.log_ndtr(torch.where(finite, end, 0.0)).exp()

    return torch.where(finite, chance, (end > 0).to(chance.dtype))
