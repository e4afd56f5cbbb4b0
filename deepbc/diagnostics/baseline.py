"""The law to beat: one that ignores the parents."""

__all__ = ["baseline"]

import math

from torch import Tensor

from deepbc.mechanisms.outer import Outer
from deepbc.variables import Variable

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def baseline(variable: Variable, x: Tensor) -> Tensor:
    r"""Computes the log-density of each row under independent Gaussians through the link of the variable's bounds.

    Their mean and standard deviation are those of the very rows, so the baseline is as good as it can be.

    Args:
        variable: The variable, with its bounds.
        x: Values :math:`x`, with shape `(rows, value)`.

    Returns:
        The log-density in the data's own units, with shape `(rows,)`.
    """
    outer = Outer(variable)
    outer.see(x)
    y, log_volume = outer.inward(x)

    return (log_volume - 0.5 * y.square() - LOG_SQRT_2PI).sum(-1)
