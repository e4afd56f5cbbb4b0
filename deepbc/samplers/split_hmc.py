r"""Split Hamiltonian Monte Carlo: many short chains a row, in coordinates of a normal approximation.

There the Hamiltonian is that of a standard normal density and a rest, :math:`\log p(z) = -\tfrac{1}{2} |z|^2 + r(z)`. A
step of size :math:`\epsilon` follows the first exactly, by a rotation, and the second by kicks,

.. math:: p \leftarrow p + \tfrac{\epsilon}{2} \nabla r(z), \quad
          (z, p) \leftarrow (z \cos \epsilon + p \sin \epsilon, \, p \cos \epsilon - z \sin \epsilon), \quad
          p \leftarrow p + \tfrac{\epsilon}{2} \nabla r(z),

so that in any dimension only what is not normal costs acceptance. After each trajectory a draw of a mixture
is proposed (an independence chain), which changes modes. Chains start at weighted draws, by truncated weights.

References:
    Split Hamiltonian Monte Carlo (Shahbaba, Lan, Johnson and Neal, 2014).
    Markov chains for exploring posterior distributions (Tierney, 1994), section 2.3.3.
    Truncated importance sampling (Ionides, 2008).
    Following a moving target - Monte Carlo inference for dynamic Bayesian models (Gilks and Berzuini, 2001).
"""

__all__ = ["Chains", "chain_samples", "moved_samples"]

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.adaptive_importance import WeightedDraws
from deepbc.samplers.convergence import effective_sample_size, r_hat
from deepbc.samplers.mixture import Mixture, rounded, systematic
from deepbc.samplers.settings import SETTINGS
from deepbc.samplers.standardized import Samples, Standardized
from deepbc.samplers.target import r_hat_converged


def moved_samples(target: Standardized, samples: Samples, streams: Streams) -> Samples:
    """Makes a few trajectories from samples (resample-move), against the bias that finitely many weights leave."""
    steps, rate = samples.y.new_full((target.rows,), SETTINGS.leapfrog[1]).long(), samples.y.new_ones(target.rows)
    start = samples.y, *target.gradients(samples.y)
    mean, root = samples.mean.unsqueeze(1), samples.root.unsqueeze(1)
    normal = Mixture(mean, root, mean.new_zeros(target.rows, 1))
    chains = Chains(target, streams, normal, mean, root, *start, steps, rate, 0)
    for _ in range(SETTINGS.moves):
        chains = chains.hamiltonian_move()

    return replace(samples, y=chains.y)


def chain_samples(
    target: Standardized, draws: WeightedDraws, samples: int, streams: Streams, on_attempt: Callable[[], None]
) -> Samples:
    """Runs chains until they agree; the moves of an attempt are the warm-up of the next, which is twice as long.

    Args:
        target: The densities.
        draws: Weighted draws, where chains start.
        samples: How many samples of each row.
        streams: The random numbers of each row.
        on_attempt: To call once for each of the most attempts.
    """
    count = min(max(samples, SETTINGS.least_draws), SETTINGS.most_chains)
    most = draws.log_evidence.unsqueeze(-1) + 0.5 * math.log(draws.y.shape[1])
    start = systematic(torch.minimum(draws.log_weight, most), count, streams, "start")
    y = draws.y.gather(1, start.unsqueeze(-1).expand(-1, -1, target.free))
    steps, rate = y.new_full((target.rows,), SETTINGS.leapfrog[1]).long(), y.new_ones(target.rows)
    metric = draws.last.largest(1)
    chains = Chains(
        target, streams, draws.mixture, metric.mean, metric.root, y, *target.gradients(y), steps, rate, 0
    ).adapted()
    length = max(SETTINGS.recorded, -(-samples // count))
    chains, states = chains.run(length)
    done = _judge(states, samples, chains, draws.log_evidence)
    on_attempt()
    left = (~done.trusted).nonzero().squeeze(-1)
    chains = chains.select(left)
    for attempt in range(1, SETTINGS.attempts):
        if len(left):
            chains, states = chains.run(length * 2**attempt)
            part = _judge(states, samples, chains, draws.log_evidence[left])
            done = done.replaced(left, part)
            more = (~part.trusted).nonzero().squeeze(-1)
            left, chains = left[more], chains.select(more)
        on_attempt()

    return done


def _judge(states: Tensor, samples: int, chains: "Chains", log_evidence: Tensor) -> Samples:
    """Takes samples evenly from states `(chains, moves, rows, free + 1)`, and judges them."""
    count, length = states.shape[:2]
    size, largest = effective_sample_size(states).amin(-1), r_hat(states).amax(-1)
    # The variance of a mean of some of the states, independent ones but for what correlates all of them.
    size = 1 / (1 / size + 1 / samples - 1 / (count * length))
    trusted = r_hat_converged(largest, length) & (size >= SETTINGS.trusted * samples)
    times = length - 1 - torch.linspace(0, length - 1, -(-samples // count), device=size.device).round().long()
    y = states[:, times, :, :-1].flatten(0, 1)[:samples].transpose(0, 1)

    return Samples(y, largest, size, chains.rate, trusted, log_evidence, chains.mean.squeeze(1), chains.root.squeeze(1))


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains of each row.

    Args:
        target: The densities, one a row.
        streams: The random numbers of each row.
        proposal: The mixtures of independence moves.
        mean: The mean of the normal approximation, with shape `(rows, 1, free)`.
        root: The symmetric root of its covariance, with shape `(rows, 1, free, free)`.
        y: The states, with shape `(rows, chains, free)`.
        log_prob: Their log-densities, with shape `(rows, chains)`.
        gradient: The gradients of these, with shape `(rows, chains, free)`.
        steps: The number of steps of a trajectory, with shape `(rows,)`.
        rate: The acceptance rate of trajectories, with shape `(rows,)`.
        moves: The number of moves so far.
    """

    target: Standardized
    streams: Streams
    proposal: Mixture
    mean: Tensor
    root: Tensor
    y: Tensor
    log_prob: Tensor
    gradient: Tensor
    steps: Tensor
    rate: Tensor
    moves: int

    def select(self, rows: Tensor) -> "Chains":
        """Takes the given rows."""
        parts = {name: getattr(self, name).select(rows) for name in ("target", "streams", "proposal")}
        tensors = ("mean", "root", "y", "log_prob", "gradient", "steps", "rate")

        return replace(self, **parts, **{name: getattr(self, name)[rows] for name in tensors})

    def adapted(self) -> "Chains":
        """Makes the moves of the warm-up, in which the number of steps follows the acceptance rate."""
        least, _, most = SETTINGS.leapfrog
        low, high = SETTINGS.acceptance
        chains = self
        for _ in range(SETTINGS.warmup // SETTINGS.window):
            chains, _ = chains.run(SETTINGS.window)
            steps = torch.where(chains.rate < low, 2 * chains.steps, chains.steps)
            steps = torch.where(chains.rate > high, chains.steps - 1, steps).clamp(least, most)
            chains = replace(chains, steps=steps)

        return chains

    def run(self, moves: int) -> tuple["Chains", Tensor]:
        """Makes so many moves, and returns all states with log-densities, `(chains, moves, rows, free + 1)`."""
        chains, states, rates = self, [], []
        for _ in range(moves):
            chains = chains.hamiltonian_move().independence_move()
            states.append(torch.cat([chains.y, chains.log_prob.unsqueeze(-1)], dim=-1))
            rates.append(chains.rate)

        return replace(chains, rate=torch.stack(rates).mean(0)), torch.stack(states, dim=1).transpose(0, 2)

    def independence_move(self) -> "Chains":
        """Proposes draws of the mixture."""
        y = self.proposal.draw(self.y.shape[1], self.streams, "proposal", self.moves)
        # In random order: a chain is to meet all components.
        order = self.streams.uniform(y.shape[1], "proposal order", self.moves).argsort(-1)
        y = y.gather(1, order.unsqueeze(-1).expand_as(y))
        log_prob, gradient = self.target.gradients(y)
        log_ratio = log_prob - self.proposal.log_prob(y) - self.log_prob + self.proposal.log_prob(self.y)

        return replace(self._accepted(y, log_prob, gradient, log_ratio, "independence"), rate=self.rate)

    def hamiltonian_move(self) -> "Chains":
        """Proposes the ends of trajectories."""
        rows, count, free = self.y.shape
        mean, root = self.mean, self.root.squeeze(1)
        momentum = self.streams.normal(count * free, "momentum", self.moves).reshape(rows, count, free)
        jitter = 1 + SETTINGS.jitter * (2 * self.streams.uniform(count, "jitter", self.moves) - 1)
        size = (SETTINGS.trajectory * jitter / self.steps.unsqueeze(-1)).unsqueeze(-1)
        z, p = (self.y - mean) @ torch.linalg.inv(root), momentum.clone()
        log_prob, gradient = self.log_prob.clone(), self.gradient.clone()
        for step in range(int(self.steps.max())):
            live = (self.steps > step).nonzero().squeeze(-1)
            target, axes, angle, place = self.target.select(live), root[live], size[live], z[live]
            kicked = p[live] + 0.5 * angle * (gradient[live] @ axes + place)
            z[live] = place * angle.cos() + kicked * angle.sin()
            log_prob[live], gradient[live] = target.gradients(mean[live] + z[live] @ axes)
            turned = kicked * angle.cos() - place * angle.sin()
            p[live] = turned + 0.5 * angle * (gradient[live] @ axes + z[live])
        log_ratio = log_prob - self.log_prob - 0.5 * (p.square() - momentum.square()).sum(-1)

        return self._accepted(rounded(mean + z @ root), log_prob, gradient, log_ratio, "trajectory")

    def _accepted(self, y: Tensor, log_prob: Tensor, gradient: Tensor, log_ratio: Tensor, purpose: str) -> "Chains":
        """Accepts proposals by the rule of Metropolis and Hastings."""
        probability = log_ratio.clamp(max=0.0).exp().nan_to_num(nan=0.0)
        accepted = self.streams.uniform(y.shape[1], "accept", purpose, self.moves) < probability
        y, gradient = (
            torch.where(accepted.unsqueeze(-1), new, old) for new, old in ((y, self.y), (gradient, self.gradient))
        )
        log_prob = torch.where(accepted, log_prob, self.log_prob)

        return replace(self, y=y, log_prob=log_prob, gradient=gradient, rate=probability.mean(-1), moves=self.moves + 1)
