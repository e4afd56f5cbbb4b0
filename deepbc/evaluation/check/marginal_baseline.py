"""The law to beat: one that ignores the parents."""

__all__ = ["baseline"]

from torch import Tensor

from deepbc.data.variables import Variable, interior
from deepbc.mechanisms.links import Outer
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI, log_mass


def baseline(variable: Variable, x: Tensor) -> Tensor:
    r"""Computes the log-likelihood of each row under a law that needs no parents.

    It is the share of each class of a category, and otherwise independent Gaussians through the link of the variable's
    bounds, rounded for whole numbers. All is taken from the very rows, so the baseline is as good as it can be.

    Args:
        variable: The variable, with its bounds.
        x: Values :math:`x`, with shape `(rows, value)`.

    Returns:
        The log-likelihood in the data's own units, with shape `(rows,)`.
    """
    if variable.levels:
        _, place, counts = x.unique(dim=0, return_inverse=True, return_counts=True)
        shares: Tensor = counts[place].to(x.dtype) / len(x)
        return shares.log()

    outer = Outer(variable)
    outer.calibrate(x)
    if variable.whole:
        ends = ((x + half).clamp(*interior(*variable.support, x.dtype)) for half in (-0.5, 0.5))
        return log_mass(*(outer.scaled(end) for end in ends)).squeeze(-1)
    y, log_volume = outer.inward(x)

    return (log_volume - 0.5 * y.square() - LOG_SQRT_2PI).sum(-1)
