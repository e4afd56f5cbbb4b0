"""The law to beat: one that ignores the parents."""

__all__ = ["baseline"]

import torch
from torch import Tensor

from deepbc.data.variables import Variable, interior
from deepbc.mechanisms.links import Outer
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI, log_mass


def baseline(variable: Variable, x: Tensor) -> Tensor:
    r"""Computes the log-likelihood of each row under a law that needs no parents.

    It is the share of each class of a category, and otherwise independent Gaussians through the link of the variable's
    bounds, rounded for whole numbers; of a censored number the share of floor and ceiling, and such a law of the rest.
    All is taken from the very rows, so the baseline is as good as it can be.

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

    if variable.censored:
        return _baseline_of_lumps(variable, x)

    outer = Outer(variable)
    outer.calibrate(x)
    if variable.whole:
        half = variable.grid.step / 2
        ends = ((x + each).clamp(*interior(*variable.support, x.dtype)) for each in (-half, half))
        return log_mass(*(outer.scaled(end) for end in ends)).squeeze(-1)
    y, log_volume = outer.inward(x)

    return (log_volume - 0.5 * y.square() - LOG_SQRT_2PI).sum(-1)


def _baseline_of_lumps(variable: Variable, x: Tensor) -> Tensor:
    """The share of floor and ceiling, and a Gaussian of the values in between times their share."""
    below, above = x <= variable.floor, x >= variable.ceiling
    between = ~(below | above)
    shares = [each.to(x.dtype).mean().clamp_min(1 / len(x)) for each in (below, above, between)]
    rest = baseline(variable.latent, x[between].unsqueeze(-1))
    free = torch.zeros_like(x).masked_scatter(between, rest) + shares[2].log()

    return torch.where(below, shares[0].log(), torch.where(above, shares[1].log(), free)).squeeze(-1)
