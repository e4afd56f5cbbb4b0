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

__all__ = ["WeightedDraws", "more_draws"]

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.batched import select
from deepbc.numerics.counter_rng import Streams
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI
from deepbc.samplers.laplace import laplace_approximation
from deepbc.samplers.mixture import Mixture, systematic
from deepbc.samplers.pareto import pareto_k, pareto_reliable
from deepbc.samplers.settings import SETTINGS
from deepbc.samplers.target import Standardized


@dataclass(frozen=True, slots=True)
class WeightedDraws:
    """Weighted draws, of one density a row.

    Args:
        y: The draws, with shape `(rows, draws, free)`.
        log_prob: Their log-densities, with shape `(rows, draws)`.
        log_weight: The logarithms of their weights, with shape `(rows, draws)`.
        mixture: What they were drawn from.
        fitted: The part of the mixture that was fitted last.
    """

    y: Tensor
    log_prob: Tensor
    log_weight: Tensor
    mixture: Mixture
    fitted: Mixture

    def select(self, rows: Tensor) -> "WeightedDraws":
        """Takes the given rows."""
        return select(self, rows)

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
        return pareto_reliable(pareto_k(self.log_weight), self.count)

    def resample(self, samples: int, streams: Streams) -> tuple[Tensor, Tensor]:
        """Draws without weights, in random order.

        Returns:
            The draws, with shape `(rows, samples, free)`, and how many independent ones they are worth, `(rows,)`.
        """
        chosen = systematic(self.log_weight, samples, streams, "resample")
        times = torch.zeros_like(self.log_weight).scatter_add_(-1, chosen, torch.ones_like(chosen).to(self.y))
        # The variance of a mean: of the weighted draws, and of choosing some of them; all of equal weights are no worse.
        inverse = (1 / self.relative_size - 1) / self.count + times.square().sum(-1) / samples**2
        order = streams.uniform(samples, "order").argsort(-1)
        chosen = chosen.gather(-1, order).unsqueeze(-1).expand(-1, -1, self.y.shape[-1])

        return self.y.gather(1, chosen), 1 / inverse


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

    return _add(
        target, _add(target, empty, prior, count, streams, "prior"), laplace, _size(samples), streams, 0
    )


def more_draws(
    target: Standardized, draws: WeightedDraws | None, samples: int, streams: Streams, number: int
) -> WeightedDraws:
    """Makes a round of draws, of the mixture fitted to those so far, for so many samples a row."""
    if draws is None:
        return _first_draws(target, samples, streams)
    fitted = draws.fitted.fitted(draws.y, draws.log_weight)
    if number == 1:
        fitted = _with_modes(target, draws, fitted)

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
    y, log_prob = torch.cat([draws.y, y], dim=1), torch.cat([draws.log_prob, target.log_probs(y)], dim=1)

    return WeightedDraws(y, log_prob, log_prob - mixture.log_prob(y), mixture, part)


def _with_modes(target: Standardized, draws: WeightedDraws, fitted: Mixture) -> Mixture:
    """Adds Laplace approximations at modes that draws of large weight lead to, where these are new and have mass."""
    rows, free = target.rows, target.free
    log_weight, starts = draws.log_weight.clone(), []
    for _ in range(SETTINGS.starts):
        start = draws.y.gather(1, log_weight.argmax(-1)[:, None, None].expand(-1, 1, free))
        near = (draws.y - start).square().sum(-1) < SETTINGS.start_distance**2
        log_weight = log_weight.masked_fill(near, -torch.inf)
        starts.append(start)
    every = torch.arange(rows, device=log_weight.device).repeat_interleave(len(starts))
    found = laplace_approximation(target.select(every), torch.cat(starts, dim=1).flatten(0, 1))
    mode, root = (each.reshape(rows, len(starts), *each.shape[1:]) for each in found)

    evidence = target.log_probs(mode) + torch.linalg.slogdet(root)[1] + free * LOG_SQRT_2PI
    little = evidence < draws.log_evidence.unsqueeze(-1) + math.log(SETTINGS.least_mass)
    known, known_root = draws.fitted.mean, draws.fitted.root
    for j in range(len(starts)):
        apart = torch.linalg.solve(known_root, (mode[:, j : j + 1] - known).unsqueeze(-1)).squeeze(-1)
        little[:, j] |= (apart.norm(dim=-1) < SETTINGS.mode_distance).any(-1)
        known, known_root = torch.cat([known, mode[:, j : j + 1]], 1), torch.cat([known_root, root[:, j : j + 1]], 1)
    none = little.all(-1, keepdim=True)
    log_weight = torch.where(none, 0.0, evidence.masked_fill(little, -torch.inf)).log_softmax(-1)

    return fitted.join(Mixture(mode, root, log_weight), torch.where(none, 0.0, SETTINGS.modes_share))
