r"""Adaptive tempered sequential Monte Carlo: from the normal prior to the whole density, so that no mode is missed.

With :math:`\ell` the log-likelihood beside the normal prior, the tempered densities are

.. math:: \log p_\beta(v) = - \tfrac{1}{2} |(v - m) / s|^2 + \beta \, \ell(v) + \text{const}, \qquad 0 \le \beta \le 1.

Each stage reweights the particles to the next :math:`\beta`, the largest at which the relative effective sample size
stays above a threshold (by bisection), resamples them systematically, and moves them by elliptical slice sampling.

References:
    Sequential Monte Carlo samplers (Del Moral, Doucet and Jasra, 2006).
    Inference for Levy-driven stochastic volatility models via adaptive sequential Monte Carlo (Jasra, Stephens, Doucet
    and Tsagaris, 2011): the choice of the next density.
"""

__all__ = ["sample_tempered", "systematic_resample"]

import torch
from torch import Tensor

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.elliptical_slice import log_likelihood, slice_step
from deepbc.samplers.target import Target

# The relative effective sample size of a stage; the most stages; and the transitions of each.
ESS_THRESHOLD, MAX_STAGES, MOVES = 0.95, 100, 2
# Bisection steps for the next inverse temperature.
BISECTIONS = 30


def sample_tempered(target: Target, count: int, streams: Streams) -> Tensor:
    """Draws from each density, with every mode in proportion to its mass.

    Args:
        target: The densities.
        count: The number of particles of each.
        streams: The random numbers of each row.

    Returns:
        The particles, with shape `(rows * count, free)`; those with a common ancestor are correlated.
    """
    rows = target.rows
    every = torch.arange(rows, device=target.start.device).repeat_interleave(count)
    repeated, each = target.select(every), streams.split(count)
    v = repeated.prior_mean + target.prior_sd * each.normal(target.free, "tempered")
    log_like = log_likelihood(repeated, v)
    beta = torch.zeros(rows, dtype=torch.float64, device=v.device)

    for stage in range(MAX_STAGES):
        live = (beta < 1).nonzero().squeeze(-1)
        if not len(live):
            break
        chains = (live.unsqueeze(-1) * count + torch.arange(count, device=v.device)).flatten()
        log_likes = log_like[chains].reshape(-1, count)
        increment = _increment(log_likes, 1 - beta[live])
        beta[live] = beta[live] + increment
        uniform = streams.select(live).uniform(1, "chosen", stage)
        resampled = systematic_resample(increment.unsqueeze(-1) * log_likes, count, uniform)
        source = (resampled + (live * count).unsqueeze(-1)).flatten()
        v[chains], log_like[chains] = v[source], log_like[source]
        part, random, betas = repeated.select(chains), each.select(chains), beta[every[chains]]
        for move in range(MOVES):
            purpose = "tempered", stage, move
            v[chains], log_like[chains] = slice_step(part, v[chains], log_like[chains], betas, random, *purpose)

    return v


def _increment(log_likes: Tensor, most: Tensor) -> Tensor:
    """Finds the increment of the inverse temperature of each row, `(rows,)`, from log-likelihoods `(rows, count)`."""
    low, high = torch.zeros_like(most), most
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        enough = _relative_ess(middle.unsqueeze(-1) * log_likes) >= ESS_THRESHOLD
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)

    # Where even the least increment is too large, some particles have density 0; where all have, no increment helps.
    whole = (_relative_ess(most.unsqueeze(-1) * log_likes) >= ESS_THRESHOLD) | ~log_likes.isfinite().any(-1)

    return torch.where(whole, most, torch.where(low > 0, low, high))


def _relative_ess(log_weights: Tensor) -> Tensor:
    """The effective sample size of weights over their number, with shape `(rows,)`."""
    weights = torch.softmax(log_weights, dim=-1)

    return 1 / (weights.square().sum(-1) * weights.shape[-1])


def systematic_resample(log_weights: Tensor, count: int, uniform: Tensor) -> Tensor:
    """Resamples systematically; where the weights are NaN, they are equal.

    Args:
        log_weights: The logarithms of the weights, with shape `(rows, particles)`.
        count: The number of draws of each row.
        uniform: A standard uniform number for each row, with shape `(rows, 1)`.

    Returns:
        The indices of the particles, with shape `(rows, count)`.
    """
    cumulative = torch.softmax(log_weights, dim=-1).nan_to_num(nan=1.0).cumsum(-1)
    positions = (torch.arange(count, device=uniform.device) + uniform) / count

    return torch.searchsorted(cumulative / cumulative[:, -1:], positions).clamp(max=log_weights.shape[-1] - 1)
