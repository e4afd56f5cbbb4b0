r"""The one-sample Kolmogorov-Smirnov statistic against the standard normal distribution.

.. math:: D = \sup_u | F_n(u) - \Phi(u) |.
"""

__all__ = ["ks_statistic"]

import torch
from torch import Tensor


def ks_statistic(u: Tensor) -> Tensor:
    """Computes the statistic of each component of noise `(rows, noise)`, with shape `(noise,)`."""
    rows = len(u)
    uniform = torch.special.ndtr(u.sort(0).values)
    below = torch.arange(rows, dtype=u.dtype, device=u.device).unsqueeze(1) / rows

    return torch.maximum(uniform - below, below + 1 / rows - uniform).amax(0)
