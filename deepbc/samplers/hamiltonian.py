r"""The default sampler: adaptive importance sampling, and Hamiltonian chains where its weights are not reliable.

1. *Laplace approximation* at a mode (`laplace`), and at others where draws of large weight lead to them.
2. *Adaptive importance sampling* from a mixture that begins with it (`adaptive_importance`). A row is done once the
   Pareto diagnostic (`pareto`) finds its weights reliable and they are worth the samples, which are then resampled. Laws
   that are linear, with normal noise, are done at once.
3. *Split Hamiltonian Monte Carlo* (`split_hmc`) for the others: chains that start at draws by their weights, until R-hat
   and effective sample size (`convergence`) say that they have forgotten where.
"""

__all__ = ["Hamiltonian"]

import math
from collections.abc import Callable

import torch
from torch import Tensor

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.adaptive_importance import WeightedDraws, more_draws
from deepbc.samplers.base import Sampler
from deepbc.samplers.bridge_sampling import bridge
from deepbc.samplers.convergence import effective_sample_size, r_hat
from deepbc.samplers.mixture import systematic
from deepbc.samplers.settings import SETTINGS
from deepbc.samplers.split_hmc import Chains
from deepbc.samplers.target import Draws, Standardized, Target, r_hat_converged
from deepbc.solvers import Exact


class Hamiltonian(Sampler):
    """Creates the default sampler.

    Example:
        >>> Hamiltonian()
        Hamiltonian()
    """

    def __init__(self) -> None:
        self.solver = Exact()

    def sample(self, target: Target, samples: int, streams: Streams, on_progress: Callable[[], None]) -> Draws:
        space, rows = Standardized(target), torch.arange(target.rows, device=target.start.device)
        done = Draws.empty(samples, target)
        weighted = None
        for number in range(SETTINGS.rounds):
            if len(rows):
                weighted = more_draws(space, weighted, samples, streams, number)
                part, enough = _resample(space, weighted, samples, streams)
                done.put(rows[enough], part.select(enough))
                left = (~enough).nonzero().squeeze(-1)
                rows, space, streams, weighted = (
                    rows[left], space.select(left), streams.select(left), weighted.select(left)
                )
            on_progress()
        if len(rows):
            done.put(rows, _run_chains(space, weighted, samples, streams))
        on_progress()

        return done

    def rounds(self, samples: int) -> int:
        return SETTINGS.rounds + 1

    def __repr__(self) -> str:
        return "Hamiltonian()"


def _resample(space: Standardized, weighted: WeightedDraws, samples: int, streams: Streams) -> tuple[Draws, Tensor]:
    """Resamples weighted draws, and says which rows need no more of them."""
    y, size = weighted.resample(samples, streams)
    enough = weighted.reliable() & (size >= SETTINGS.effective * samples)
    one = torch.ones_like(size)

    v, evidence = space.coordinates(y).transpose(0, 1), weighted.log_evidence + space.log_volume

    return Draws(v, one, size, weighted.relative_size, enough, evidence), enough


def _run_chains(space: Standardized, weighted: WeightedDraws, samples: int, streams: Streams) -> Draws:
    """Runs chains until they agree, the moves of each attempt being the warm-up of the next, which is twice as long."""
    count = min(max(samples, SETTINGS.least_draws), SETTINGS.most_chains)
    # Truncated weights (Ionides, 2008): no draw starts most of the chains.
    truncated = torch.minimum(weighted.log_weight, weighted.log_evidence.unsqueeze(-1) + 0.5 * math.log(weighted.count))
    start = systematic(truncated, count, streams, "start").unsqueeze(-1).expand(-1, -1, space.free)
    chains = Chains(space, weighted.y.gather(1, start), weighted.mixture, weighted.fitted, streams)
    chains.adapt()
    done, rows = Draws.empty(samples, space.target), torch.arange(space.rows, device=start.device)
    length = max(SETTINGS.recorded, -(-samples // count))
    most = max(SETTINGS.most_recorded, length)
    while len(rows) and length <= most:
        part = _judge(chains, chains.run(length), weighted, samples)
        done.put(rows, part)
        left = (~part.trusted).nonzero().squeeze(-1)
        rows, chains, weighted, length = rows[left], chains.select(left), weighted.select(left), 2 * length

    return done


def _judge(chains: Chains, states: Tensor, weighted: WeightedDraws, samples: int) -> Draws:
    """Takes samples evenly from states `(chains, moves, rows, free + 1)`, and judges them."""
    count, length, rows, _ = states.shape
    size, largest = effective_sample_size(states).amin(-1), r_hat(states).amax(-1)
    # The samples are part of the states: all that are worth as many as they are leave independent ones.
    size = 1 / (1 / size + 1 / samples - 1 / max(samples, count * length))
    enough = r_hat_converged(largest, length) & (size >= SETTINGS.trusted * samples)
    times = length - 1 - torch.linspace(0, length - 1, -(-samples // count), device=size.device).round().long()
    y = states[:, times, :, :-1].flatten(0, 1)[:samples].transpose(0, 1)
    every = states.flatten(0, 1).transpose(0, 1)
    ratio = every[..., -1] - weighted.mixture.log_prob(every[..., :-1])

    v, evidence = chains.target.coordinates(y).transpose(0, 1), bridge(weighted.log_weight, ratio)

    return Draws(v, largest, size, chains.acceptance, enough, evidence + chains.target.log_volume)
