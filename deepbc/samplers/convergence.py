r"""Rank-normalised split R-hat and bulk effective sample size of Markov chains, for all rows of a batch at once.

Both use ranks, so they hold for tails of any weight and are invariant under monotone maps.

References:
    Rank-normalization, folding, and localization: an improved R-hat for assessing convergence of MCMC (Vehtari, Gelman,
    Simpson, Carpenter and Bürkner, 2021).
"""

__all__ = ["effective_sample_size", "r_hat"]

import math

import torch
from torch import Tensor

from deepbc.numerics.ranks import mean_ranks

# Shorter chains give NaN.
MIN_LENGTH = 4


def r_hat(draws: Tensor) -> Tensor:
    """Computes the rank-normalised split R-hat, the larger of bulk and folded (tail) R-hat.

    Args:
        draws: The draws, with shape `(chains, draws, *rest)`.

    Returns:
        R-hat, with shape `(*rest,)`; 1 where all draws are the same, NaN where one is no number or chains are short.
    """
    halves = _halves(draws)
    flat = halves.flatten(0, 1).sort(0).values
    median = (flat[(len(flat) - 1) // 2] + flat[len(flat) // 2]) / 2 if len(flat) else 0.0
    folded = (halves - median).abs()

    return torch.maximum(_ratio(_normal_scores(halves)), _ratio(_normal_scores(folded)))


def effective_sample_size(draws: Tensor) -> Tensor:
    """Computes the bulk effective sample size.

    Args:
        draws: The draws, with shape `(chains, draws, *rest)`.

    Returns:
        The size, with shape `(*rest,)`; the number of draws where all are the same, NaN where one is no number.
    """
    chains, length = draws.shape[:2]
    if length < MIN_LENGTH:
        return torch.full_like(draws[0, 0], torch.nan)

    scores = _normal_scores(_halves(draws))
    chains, length = scores.shape[:2]
    total = chains * length
    autocovariance = _autocovariance(scores)
    within = autocovariance[:, 0].mean(0) * length / (length - 1)
    plus = within * (length - 1) / length + scores.mean(1).var(0)
    correlation = 1 - (within - autocovariance.mean(0)) / plus
    correlation[0] = 1.0

    # The initial monotone sequence estimator (Geyer, 1992).
    count = max(1, (length - 1) // 2)
    pairs = correlation[: 2 * count].reshape(count, 2, *correlation.shape[1:])
    sums = pairs.sum(1)
    alive = (sums > 0).long().cumprod(0).bool()
    alive[-1] = False
    time = -1 + 2 * torch.where(alive, sums.cummin(0).values, 0.0).sum(0)
    # As in Stan: the first of the pair that ends the sum still counts where it is positive.
    time = time + pairs[:, 0].gather(0, alive.sum(0, keepdim=True))[0].clamp_min(0.0)
    size = total / time.clamp_min(1 / math.log10(total))
    same = (draws == draws[:1, :1]).flatten(0, 1).all(0)
    known = draws.isfinite().flatten(0, 1).all(0)

    return torch.where(known, torch.where(same, float(total), size), torch.nan)


def _halves(draws: Tensor) -> Tensor:
    """Splits each chain in two, which exposes trends."""
    half = draws.shape[1] // 2

    return torch.cat([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _normal_scores(draws: Tensor) -> Tensor:
    """Replaces draws by the normal quantiles of their ranks among all chains; ties share their mean rank."""
    flat = draws.flatten(0, 1)
    count = len(flat)
    scores = torch.special.ndtri((mean_ranks(flat) - 0.375) / (count + 0.25))
    scores = torch.where(flat.isfinite().all(0), scores, torch.nan)

    return scores.reshape(draws.shape)


def _ratio(chains: Tensor) -> Tensor:
    length = chains.shape[1]
    if length < MIN_LENGTH // 2:
        return torch.full_like(chains.sum((0, 1)), torch.nan)
    between, within = length * chains.mean(1).var(0), chains.var(1).mean(0)
    ratio = ((between / within + length - 1) / length).sqrt()

    return torch.where((within == 0) & (between == 0), 1.0, ratio)


def _autocovariance(chains: Tensor) -> Tensor:
    """Computes the autocovariance of each chain at each lag, with the shape of the chains."""
    length = chains.shape[1]
    centred = chains - chains.mean(1, keepdim=True)
    spectrum = torch.fft.rfft(centred, n=2 * length, dim=1)

    covariance: Tensor = torch.fft.irfft(spectrum * spectrum.conj(), n=2 * length, dim=1)

    return covariance[:, :length] / length
