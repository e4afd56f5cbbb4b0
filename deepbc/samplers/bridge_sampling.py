r"""Bridge sampling: the normalising constant :math:`Z = \int \tilde p(y) \, dy` from draws of a density and of another.

With draws of a normalised density :math:`q` and of :math:`p = \tilde p / Z`, in the shares :math:`s_q` and :math:`s_p`, the
optimal bridge function gives, by fixed-point iteration,

.. math:: Z = \frac{E_q[\tilde p / (s_p \tilde p / Z + s_q q)]}{E_p[q / (s_p \tilde p / Z + s_q q)]}.

References:
    Simulating ratios of normalizing constants via a simple identity (Meng and Wong, 1996).
"""

__all__ = ["bridge"]

import math

import torch
from torch import Tensor

# The fixed-point iteration converges in a few.
ITERATIONS = 30


def bridge(of_q: Tensor, of_p: Tensor) -> Tensor:
    r"""Estimates the log normalising constants, `(rows,)`.

    Args:
        of_q: The logarithms of :math:`\tilde p / q` at draws of :math:`q`, with shape `(rows, draws)`.
        of_p: The same at draws of :math:`p`, with shape `(rows, other draws)`.
    """
    n_q, n_p = of_q.shape[-1], of_p.shape[-1]
    log_shares = math.log(n_p / (n_p + n_q)), math.log(n_q / (n_p + n_q))
    log_z = of_q.logsumexp(-1) - math.log(n_q)
    for _ in range(ITERATIONS):
        # In terms of the ratios, both means have one denominator.
        below_q, below_p = (
            torch.logaddexp(each - log_z.unsqueeze(-1) + log_shares[0], torch.full_like(each, log_shares[1]))
            for each in (of_q, of_p)
        )
        log_z = (of_q - below_q).logsumexp(-1) - math.log(n_q) - (-below_p).logsumexp(-1) + math.log(n_p)

    return log_z
