r"""The Wasserstein distance of order 1 from the standard normal distribution.

.. math:: W_1 = \int_0^1 | F_n^{-1}(p) - \Phi^{-1}(p) | \, dp,

in standard deviations: what is shifted by :math:`d` is :math:`d` away.

References:
    Optimal transport: old and new (Villani, 2009), chapter 6.
"""

__all__ = ["wasserstein"]

import torch
from torch import Tensor


def wasserstein(u: Tensor) -> Tensor:
    """Computes the distance of each component of noise `(rows, noise)`, with shape `(noise,)`.

    Each row stands for the middle of its part of the quantiles.
    """
    rows = len(u)
    middles = (torch.arange(rows, dtype=u.dtype, device=u.device) + 0.5) / rows

    distance: Tensor = (u.sort(0).values - torch.special.ndtri(middles).unsqueeze(1)).abs().mean(0)

    return distance
