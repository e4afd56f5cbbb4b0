r"""Adaptive importance sampling: weighted draws of a density from a mixture of normal ones that learns from them.

The first draws are of the prior, and of the Laplace approximation at the mode. In each round the mixture is fitted to
all draws so far, a component is added at the draw of largest weight, and more draws are made of it. The weight of every
draw is that of the mixture of all rounds, with :math:`n_t` draws of :math:`q_t` in round :math:`t`,

.. math:: w_k = \frac{p(y_k)}{\sum_t n_t q_t(y_k) / \sum_t n_t},

so that it is bounded where any round covered the density. A row ends once the Pareto diagnostic finds its weights
reliable and the draws are worth the samples, which are then resampled in proportion to their weights.

References:
    Adaptive multiple importance sampling (Cornuet, Marin, Mira and Robert, 2012).
    Estimating and projecting trends in HIV/AIDS generalized epidemics using incremental mixture importance sampling
    (Raftery and Bao, 2010): the component at the draw of largest weight.
    Weighted average importance sampling and defensive mixture distributions (Hesterberg, 1995): the part of the prior.
"""

__all__ = ["WeightedDraws", "importance_samples", "log_evidence"]

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.batched import select
from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.laplace import laplace_approximation
from deepbc.samplers.mixture import Mixture, systematic
from deepbc.samplers.pareto import pareto_reliable
from deepbc.samplers.settings import SETTINGS
from deepbc.samplers.standardized import Samples, Standardized
from deepbc.samplers.target import Target


@dataclass(frozen=True, slots=True)
class WeightedDraws:
    """Weighted draws, of one density a row.

    Args:
        y: The draws, with shape `(rows, draws, free)`.
        log_prob: Their log-densities, with shape `(rows, draws)`.
        log_mixture: The log-densities of the mixture of all rounds, with shape `(rows, draws)`.
        mixture: That mixture.
        last: The part of it that was fitted last.
    """

    y: Tensor
    log_prob: Tensor
    log_mixture: Tensor
    mixture: Mixture
    last: Mixture

    @property
    def log_weight(self) -> Tensor:
        """The logarithms of the weights, with shape `(rows, draws)`."""
        return self.log_prob - self.log_mixture

    @property
    def log_evidence(self) -> Tensor:
        """The log normalising constant, `(rows,)`."""
        return self.log_weight.logsumexp(-1) - math.log(self.y.shape[1])

    def resample(self, samples: int, streams: Streams) -> Samples:
        """Draws samples in proportion to the weights, in random order."""
        count, free = self.y.shape[1:]
        chosen = systematic(self.log_weight, samples, streams, "resample")
        times = torch.zeros_like(self.log_prob).scatter_add_(-1, chosen, torch.ones_like(chosen).to(self.y))
        relative_size = 1 / (self.log_weight.softmax(-1).square().sum(-1) * count)
        # The variance of a mean, in that of one sample: of weighted draws, and of choosing some of them.
        effective = 1 / ((1 / relative_size - 1) / count + times.square().sum(-1) / samples**2)
        order = streams.uniform(samples, "order").argsort(-1)
        y = self.y.gather(1, chosen.gather(-1, order).unsqueeze(-1).expand(-1, -1, free))
        trusted = pareto_reliable(self.log_weight) & (effective >= SETTINGS.trusted * samples)
        main = self.last.largest(1)
        one = torch.ones_like(effective)

        return Samples(
            y, one, effective, relative_size, trusted, self.log_evidence, main.mean.squeeze(1), main.root.squeeze(1)
        )

    def joined(
        self, target: Standardized, part: Mixture, count: int, streams: Streams, purpose: str
    ) -> "WeightedDraws":
        """Adds so many draws of a mixture."""
        y = part.draw(count, streams, purpose)
        share = y.new_full((len(y), 1), count / (self.y.shape[1] + count))
        mixture = self.mixture.join(part, share)
        log_old = torch.logaddexp(self.log_mixture + torch.log1p(-share), part.log_prob(self.y) + share.log())
        log_mixture = torch.cat([log_old, mixture.log_prob(y)], dim=1)
        log_prob = torch.cat([self.log_prob, target.log_probs(y)], dim=1)

        return WeightedDraws(torch.cat([self.y, y], dim=1), log_prob, log_mixture, mixture, part)


@torch.no_grad()
def importance_samples(
    target: Standardized, samples: int, streams: Streams, on_round: Callable[[], None]
) -> tuple[Samples, Tensor, WeightedDraws]:
    """Draws samples of each row, in as many rounds as it needs.

    Args:
        target: The densities.
        samples: How many samples of each.
        streams: The random numbers of each row.
        on_round: To call once for each of the most rounds.

    Returns:
        The samples, the rows whose weights are not enough after all rounds, and their draws.
    """
    draws = _first_draws(target, samples, streams)
    done = draws.resample(samples, streams)
    on_round()
    left = (~done.trusted).nonzero().squeeze(-1)
    draws = select(draws, left)
    for number in range(1, SETTINGS.rounds):
        if len(left):
            part, random = target.select(left), streams.select(left)
            fitted = _with_heaviest(draws, draws.last.fitted(draws.y, draws.log_weight))
            draws = draws.joined(part, fitted, _size(samples), random, f"round {number}")
            drawn = draws.resample(samples, random)
            done = done.replaced(left, drawn)
            more = (~drawn.trusted).nonzero().squeeze(-1)
            left, draws = left[more], select(draws, more)
        on_round()

    return done, left, draws


def log_evidence(target: Target, samples: int, streams: Streams) -> Tensor:
    """Estimates the log normalising constant of each density, `(rows,)`, from draws as for so many samples."""
    drawn, _, _ = importance_samples(Standardized(target), samples, streams, lambda: None)

    return drawn.log_evidence + target.prior_sd.log().sum()


def _size(samples: int) -> int:
    """The draws of a round."""
    return SETTINGS.draws_per_sample * max(samples, SETTINGS.least_draws)


def _first_draws(target: Standardized, samples: int, streams: Streams) -> WeightedDraws:
    """Draws of the prior, and of the Laplace approximation at the mode next to the start."""
    mode, root = laplace_approximation(target, target.start)
    rows, free = mode.shape
    laplace = Mixture(mode.unsqueeze(1), root.unsqueeze(1), mode.new_zeros(rows, 1))
    sds = mode.new_tensor(SETTINGS.prior_sds)
    axes = (sds[:, None, None] * torch.eye(free).to(mode)).expand(rows, -1, -1, -1)
    prior = Mixture(mode.new_zeros(rows, len(sds), free), axes, mode.new_full((rows, len(sds)), -math.log(len(sds))))
    y = prior.draw(min(max(samples, SETTINGS.least_draws), SETTINGS.most_prior_draws), streams, "prior")
    draws = WeightedDraws(y, target.log_probs(y), prior.log_prob(y), prior, prior)

    return draws.joined(target, laplace, _size(samples), streams, "laplace")


def _with_heaviest(draws: WeightedDraws, fitted: Mixture) -> Mixture:
    """Adds a component at the draw of largest weight, narrower than that which is likeliest there."""
    row = torch.arange(len(draws.y), device=draws.y.device)
    heaviest = draws.y[row, draws.log_weight.argmax(-1)].unsqueeze(1)
    likeliest = draws.last.log_parts(heaviest).squeeze(1).argmax(-1)
    root = SETTINGS.new_scale * draws.last.root[row, likeliest].unsqueeze(1)
    share = torch.full_like(heaviest[:, :, 0], SETTINGS.new_share)

    return fitted.largest(SETTINGS.most_components - 1).join(Mixture(heaviest, root, torch.zeros_like(share)), share)
