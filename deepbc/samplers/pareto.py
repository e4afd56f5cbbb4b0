r"""The Pareto diagnostic of importance weights.

The largest weights follow a generalized Pareto distribution. Its shape :math:`k` says how many moments the weights
have, :math:`1 / k`; above 0.7 an estimate converges too slowly to be relied on, with few draws already below.

References:
    Pareto smoothed importance sampling (Vehtari, Simpson, Gelman, Yao and Gabry, 2024).
    A new and efficient estimation method for the generalized Pareto distribution (Zhang and Stephens, 2009).
"""

__all__ = ["pareto_k", "pareto_reliable"]

import math

import torch
from torch import Tensor

# The shape above which weights are not reliable, and the excess of the largest weights below which they are the same.
MAX_K, SAME = 0.7, 1e-10
# A part of the mass that no sample of a hundred notices.
NO_MASS = 0.01
# The weakly informative prior of the shape, and its weight in draws (Vehtari et al., appendix C).
PRIOR_K, PRIOR_DRAWS = 0.5, 10


def pareto_k(log_weights: Tensor) -> Tensor:
    """Estimates the shape of the tail of weights.

    Args:
        log_weights: Their logarithms, with shape `(rows, draws)`.

    Returns:
        The shape, with shape `(rows,)`: minus infinity where the largest weights are the same, NaN where there are
        none.
    """
    count = log_weights.shape[-1]
    tail = _tail(count)
    largest = log_weights.topk(tail + 1).values.flip(-1)
    weights = (largest - largest[:, -1:]).exp()
    excess = weights[:, 1:] - weights[:, :1]
    same = excess[:, -1] <= SAME
    excess = torch.where(same.unsqueeze(-1), 1.0, excess)

    # The posterior mean of b = k / scale over a grid, under the profile likelihood.
    points = 30 + math.isqrt(tail)
    j = torch.arange(1, points + 1, dtype=excess.dtype, device=excess.device)
    quartile = excess[:, math.floor(tail / 4 + 0.5) - 1].unsqueeze(-1)
    b = (1 - (points / (j - 0.5)).sqrt()) / (3 * quartile) + 1 / excess[:, -1:]
    k = (-b.unsqueeze(-1) * excess.unsqueeze(1)).log1p().mean(-1)
    posterior = (tail * ((-b / k).log() - k - 1)).softmax(-1)
    b = (posterior * b).sum(-1, keepdim=True)
    k = (-b * excess).log1p().mean(-1)

    return torch.where(same, -torch.inf, (tail * k + PRIOR_DRAWS * PRIOR_K) / (tail + PRIOR_DRAWS))


def pareto_reliable(log_weights: Tensor) -> Tensor:
    """Which rows have reliable weights: of a light tail, or of a tail whose excess holds next to none of their mass.

    Args:
        log_weights: Their logarithms, with shape `(rows, draws)`.
    """
    count = log_weights.shape[-1]
    largest = log_weights.softmax(-1).topk(_tail(count) + 1).values
    excess = (largest - largest[:, -1:]).sum(-1)

    return (pareto_k(log_weights) <= min(MAX_K, 1 - 1 / math.log10(count))) | (excess <= NO_MASS)


def _tail(count: int) -> int:
    """How many of so many weights are large."""
    return math.floor(min(0.2 * count, 3 * math.sqrt(count)))
