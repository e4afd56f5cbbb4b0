r"""Adaptive importance sampling: weighted draws of a density from a mixture of normal ones that learns from them.

The first draws are of the prior, and of the Laplace approximation at a mode. In each round the mixture is fitted to all
draws so far, and more are made of it; in the second, modes are sought from the draws of largest weight, too. The weight
of every draw is that of the whole mixture of all rounds, with :math:`n_t` draws of :math:`q_t` in round :math:`t`,

.. math:: w_k = \frac{p(y_k)}{\sum_t n_t q_t(y_k) / \sum_t n_t},

which is bounded where any round has covered the density.

References:
    Adaptive multiple importance sampling (Cornuet, Marin, Mira and Robert, 2012).
    Estimating and projecting trends in HIV/AIDS generalized epidemics using incremental mixture importance sampling
    (Raftery and Bao, 2010): modes from the draws of largest weight.
    Weighted average importance sampling and defensive mixture distributions (Hesterberg, 1995): the part of the prior.
"""

__all__ = ["ImportanceSamples", "WeightedDraws", "importance_samples", "log_evidence"]

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.batched import map_tensors, select
from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.laplace import laplace_approximation
from deepbc.samplers.mixture import Mixture, systematic
from deepbc.samplers.pareto import pareto_reliable
from deepbc.samplers.settings import SETTINGS
from deepbc.samplers.target import Standardized, Target


@dataclass(frozen=True, slots=True)
class WeightedDraws:
    """Weighted draws, of one density a row.

    Args:
        y: The draws, with shape `(rows, draws, free)`.
        log_prob: Their log-densities, with shape `(rows, draws)`.
        log_mixture: The log-densities of the mixture, with shape `(rows, draws)`.
        mixture: What they were drawn from.
        fitted: The part of the mixture that was fitted last.
    """

    y: Tensor
    log_prob: Tensor
    log_mixture: Tensor
    mixture: Mixture
    fitted: Mixture

    def select(self, rows: Tensor) -> "WeightedDraws":
        """Takes the given rows."""
        return select(self, rows)

    @property
    def log_weight(self) -> Tensor:
        """The logarithms of the weights, with shape `(rows, draws)`."""
        return self.log_prob - self.log_mixture

    @property
    def count(self) -> int:
        """The number of draws of a row."""
        return self.y.shape[1]

    @property
    def relative_size(self) -> Tensor:
        """The effective sample size (Kish) over the number of draws, `(rows,)`."""
        return 1 / (self.log_weight.softmax(-1).square().sum(-1) * self.count)

    @property
    def log_evidence(self) -> Tensor:
        """The log normalising constant, up to that of standardization, `(rows,)`."""
        return self.log_weight.logsumexp(-1) - math.log(self.count)

    def reliable(self) -> Tensor:
        """Which rows have weights without heavy tails, by the Pareto diagnostic."""
        return pareto_reliable(self.log_weight)


@dataclass(frozen=True, slots=True)
class ImportanceSamples:
    """Samples without weights, of one density a row.

    Args:
        y: The samples, with shape `(rows, samples, free)`.
        effective: How many independent ones they are worth, with shape `(rows,)`.
        relative_size: The effective sample size of the weighted draws over their number, with shape `(rows,)`.
        log_evidence: The log normalising constant, with shape `(rows,)`.
        reliable: Whether the weights were reliable.
    """

    y: Tensor
    effective: Tensor
    relative_size: Tensor
    log_evidence: Tensor
    reliable: Tensor


def importance_samples(
    target: Standardized, samples: int, streams: Streams, on_round: Callable[[], None]
) -> ImportanceSamples:
    """Draws samples of each row, in as many rounds as it needs.

    Args:
        target: The densities.
        samples: How many samples of each.
        streams: The random numbers of each row.
        on_round: To call once for each of the most rounds.
    """
    rows, draws = torch.arange(target.rows, device=target.start.device), None
    done = None
    for number in range(SETTINGS.rounds):
        if done is None or len(rows):
            draws = _first_draws(target, samples, streams) if draws is None else _more_draws(target, draws, samples, streams, number)
            part = _resample(draws, samples, streams)
            done = part if done is None else map_tensors(lambda all_, some: all_.index_copy(0, rows, some), done, part)
            left = (~(part.reliable & (part.effective >= SETTINGS.effective * samples))).nonzero().squeeze(-1)
            rows, target, streams, draws = rows[left], target.select(left), streams.select(left), draws.select(left)
        on_round()

    return done


@torch.no_grad()
def log_evidence(target: Target, samples: int, streams: Streams) -> Tensor:
    """Estimates the log normalising constant of each density, `(rows,)`, by as many draws as for so many samples."""
    space = Standardized(target)

    return importance_samples(space, samples, streams, lambda: None).log_evidence + target.prior_sd.log().sum()


def _resample(draws: WeightedDraws, samples: int, streams: Streams) -> ImportanceSamples:
    """Draws samples in proportion to the weights, in random order."""
    chosen = systematic(draws.log_weight, samples, streams, "resample")
    times = torch.zeros_like(draws.log_weight).scatter_add_(-1, chosen, torch.ones_like(chosen).to(draws.y))
    # The variance of a mean, relative to that of one sample: of weighted draws, and of choosing some of them.
    variance = (1 / draws.relative_size - 1) / draws.count + times.square().sum(-1) / samples**2
    order = streams.uniform(samples, "order").argsort(-1)
    chosen = chosen.gather(-1, order).unsqueeze(-1).expand(-1, -1, draws.y.shape[-1])

    return ImportanceSamples(
        draws.y.gather(1, chosen), 1 / variance, draws.relative_size, draws.log_evidence, pareto_reliable(draws.log_weight)
    )


def _first_draws(target: Standardized, samples: int, streams: Streams) -> WeightedDraws:
    """Draws of the prior and of the Laplace approximation at the mode next to the start."""
    rows, free = target.rows, target.free
    sds = target.start.new_tensor(SETTINGS.prior_sds)
    eye = torch.eye(free, dtype=sds.dtype, device=sds.device)
    root = (sds[:, None, None] * eye).expand(rows, -1, -1, -1)
    equal = torch.full_like(sds, -math.log(len(sds)))
    prior = Mixture(sds.new_zeros(rows, len(sds), free), root, equal.expand(rows, -1))
    mode, root = laplace_approximation(target, target.start)
    laplace = Mixture(mode.unsqueeze(1), root.unsqueeze(1), sds.new_zeros(rows, 1))
    count = min(max(samples, SETTINGS.least_draws), SETTINGS.most_prior_draws)
    empty = WeightedDraws(sds.new_zeros(rows, 0, free), sds.new_zeros(rows, 0), sds.new_zeros(rows, 0), prior, prior)

    return _add(target, _add(target, empty, prior, count, streams, "prior"), laplace, _size(samples), streams, 0)


def _more_draws(
    target: Standardized, draws: WeightedDraws, samples: int, streams: Streams, number: int
) -> WeightedDraws:
    """Makes a round of draws of the mixture fitted to those so far."""
    fitted = _with_heaviest(draws, draws.fitted.fitted(draws.y, draws.log_weight))

    return _add(target, draws, fitted, _size(samples), streams, number)


def _size(samples: int) -> int:
    return SETTINGS.draws_per_sample * max(samples, SETTINGS.least_draws)


def _add(
    target: Standardized, draws: WeightedDraws, part: Mixture, count: int, streams: Streams, purpose: str | int
) -> WeightedDraws:
    """Adds so many draws of a part of the mixture, and weighs all."""
    y = part.draw(count, streams, purpose)
    share = y.new_full((len(y), 1), count / (draws.count + count))
    mixture = draws.mixture.join(part, share) if draws.count else part
    old = torch.logaddexp(draws.log_mixture + torch.log1p(-share), part.log_prob(draws.y) + share.log())
    log_mixture = torch.cat([old, mixture.log_prob(y)], dim=1)
    log_prob = torch.cat([draws.log_prob, target.log_probs(y)], dim=1)

    return WeightedDraws(torch.cat([draws.y, y], dim=1), log_prob, log_mixture, mixture, part)


def _with_heaviest(draws: WeightedDraws, fitted: Mixture) -> Mixture:
    """Adds a component at the draw of largest weight, narrower than that which is likeliest there."""
    row = torch.arange(len(draws.y), device=draws.y.device)
    heaviest = draws.y[row, draws.log_weight.argmax(-1)].unsqueeze(1)
    component = draws.fitted.log_parts(heaviest).squeeze(1).argmax(-1)
    root = SETTINGS.new_scale * draws.fitted.root[row, component].unsqueeze(1)
    share = torch.full_like(heaviest[..., 0], SETTINGS.new_share)

    return fitted.largest(SETTINGS.most_components - 1).join(Mixture(heaviest, root, torch.zeros_like(share)), share)
