r"""Hamiltonian Monte Carlo with the mass matrix of the Laplace approximation, all chains of all rows at once.

A row's density is whitened by its Laplace approximation, so that one trajectory length suits all directions and rows: a
little more than a quarter of the period of a standard normal, which makes draws nearly independent. What remains to be
adapted is the number of leapfrog steps. A row with a low acceptance rate, or whose chains disagree by R-hat, is sampled
again by tempered sequential Monte Carlo; then every particle is a chain of its own, with Hamiltonian, elliptical slice
and independence transitions in turn, until autocorrelation is low.

References:
    MCMC using Hamiltonian dynamics (Neal, 2011).
"""

__all__ = ["Hamiltonian"]

import math
from collections.abc import Callable

import torch
from torch import Tensor

from deepbc._validation import check_count
from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.base import Sampler
from deepbc.samplers.convergence import effective_sample_size, r_hat
from deepbc.samplers.elliptical_slice import log_likelihood, slice_step
from deepbc.samplers.independence_mh import COMPONENTS, MixtureProposal
from deepbc.samplers.laplace import laplace_approximation
from deepbc.samplers.target import Draws, Target, r_hat_converged
from deepbc.samplers.tempered_smc import sample_tempered, systematic_resample
from deepbc.solvers import Exact

# The trajectory length, where a standard normal has the period 2 pi, and its relative jitter against resonance.
TRAJECTORY_LENGTH, TRAJECTORY_JITTER = 1.9, 0.3
# Leapfrog steps: initial, least and most; and the acceptance rates below or above which they change.
INITIAL_STEPS, MIN_STEPS, MAX_STEPS = 3, 2, 12
VERY_LOW_ACCEPTANCE, LOW_ACCEPTANCE, HIGH_ACCEPTANCE = 0.6, 0.8, 0.98
# Proposals between adaptations.
ADAPTATION_WINDOW = 6
# The relative effective sample size of trusted draws, and the stricter one at which sampling stops; R-hat then
# exceeds 1 by no more than the excess, or than that of short chains over their length.
MIN_RELATIVE_ESS, TARGET_RELATIVE_ESS, R_HAT_EXCESS, R_HAT_EXCESS_TIMES_LENGTH = 0.8, 0.85, 0.01, 3.0
MIN_CHAIN_LENGTH, MAX_CHAIN_LENGTH = 8, 64
# The acceptance rate below which a row needs tempering, and the most leapfrog steps of its particles.
TEMPERING_ACCEPTANCE, TEMPERED_STEPS = 0.6, 6
# Candidates for initial states: draws of the Laplace approximation; and of the prior, which finds other modes: for each
# sample, at least and at most.
MODE_DRAWS, PRIOR_DRAWS_PER_SAMPLE, MIN_PRIOR_DRAWS, MAX_PRIOR_DRAWS = 32, 1.0, 64, 1024


class Hamiltonian(Sampler):
    """Creates the default sampler.

    Args:
        chains: The number of chains of each row for R-hat; where samples are many, each is joined from several shorter
            ones.
        warmup: The number of proposals of each chain while the number of leapfrog steps is adapted.
        refresh: The most proposals of each particle of a row that needs tempering.

    Example:
        >>> Hamiltonian()
        Hamiltonian(chains=4, warmup=30, refresh=32)
    """

    def __init__(self, *, chains: int = 4, warmup: int = 30, refresh: int = 32) -> None:
        check_count(chains, "Hamiltonian chains", least=1)
        check_count(warmup, "Hamiltonian warmup", least=0)
        check_count(refresh, "Hamiltonian refresh")
        self.chains, self.warmup, self.refresh = chains, warmup, refresh
        self.solver = Exact()

    def sample(self, target: Target, samples: int, streams: Streams, on_progress: Callable[[], None]) -> Draws:
        parts, length = self._shape(samples)
        if not target.free:
            one = torch.ones(target.rows, dtype=target.start.dtype, device=target.start.device)
            return Draws(target.start.expand(samples, -1, -1), one, samples * one, one, one.bool())

        prior_draws = round(min(MAX_PRIOR_DRAWS, max(MIN_PRIOR_DRAWS, PRIOR_DRAWS_PER_SAMPLE * samples)))
        chains = _Chains.begin(target, streams, self.chains * parts, prior_draws)
        for step in range(self.warmup):
            chains.propose(step)
            if (step + 1) % ADAPTATION_WINDOW == 0:
                chains.adapt()
            on_progress()

        chains.reset_acceptance()
        draws = _ChainDraws.empty(self.chains, parts * length, target)
        regular = (~chains.needs_tempering).nonzero().squeeze(-1)
        if len(regular):
            part = chains.select(regular)
            draws.put(regular, part.run(self.warmup, length, draws, on_progress))
            chains.accepted[regular] = part.acceptance
            chains.needs_tempering[regular] = ~draws.select(regular).converged()
        proposals = self._temper(chains, draws, streams, on_progress)
        # Progress of what was not needed.
        for _ in range(self.refresh - proposals + (0 if len(regular) else length)):
            on_progress()

        size = draws.effective() * samples / (self.chains * parts * length)
        # Thinned evenly, chain by chain.
        each = torch.linspace(0, parts * length - 1, -(-samples // self.chains)).round().long()
        v = draws.v[:, each].flatten(0, 1)[:samples]

        largest = draws.r_hat()
        trusted = r_hat_converged(largest, parts * length) & (size >= MIN_RELATIVE_ESS * samples)

        return Draws(v, largest, size, chains.accepted, trusted)

    def rounds(self, samples: int) -> int:
        return self.warmup + self._shape(samples)[1] + self.refresh

    def _shape(self, samples: int) -> tuple[int, int]:
        """The number of parts of a chain of a row, and their length."""
        each = -(-samples // self.chains)
        parts = -(-each // MAX_CHAIN_LENGTH)

        return parts, max(MIN_CHAIN_LENGTH, -(-each // parts))

    def _temper(
        self, chains: "_Chains", draws: "_ChainDraws", streams: Streams, on_progress: Callable[[], None]
    ) -> int:
        """Replaces the draws of rows that need tempering by particles, each a chain until autocorrelation is low.

        Returns:
            The number of proposals of each particle.
        """
        rows = chains.needs_tempering.nonzero().squeeze(-1)
        if not len(rows):
            return 0

        count = draws.v.shape[0] * draws.v.shape[1]
        part = chains.select(rows).from_tempered(streams.select(rows), count)
        drawn, proposals = part.snapshot(draws), 0
        draws.put(rows, drawn)
        while len(rows) and proposals < self.refresh:
            more = min(max(1, proposals), self.refresh - proposals)
            for step in range(proposals, proposals + more):
                part.propose(step)
                on_progress()
            proposals += more
            before, drawn = drawn, part.snapshot(draws)
            draws.put(rows, drawn)
            chains.accepted[rows] = part.acceptance
            # Particles that still depend on their ancestors may agree with each other, not with their earlier states.
            low = (~(drawn.converged() & drawn.agrees(before))).nonzero().squeeze(-1)
            rows, drawn, part = rows[low], drawn.select(low), part.select(low)

        return proposals

    def __repr__(self) -> str:
        return f"Hamiltonian(chains={self.chains}, warmup={self.warmup}, refresh={self.refresh})"


class _ChainDraws:
    """Draws of some rows: coordinates `(chains, draws, rows, free)` and their log-density `(chains, draws, rows)`."""

    def __init__(self, v: Tensor, log_prob: Tensor) -> None:
        self.v, self.log_prob = v, log_prob

    @classmethod
    def empty(cls, chains: int, draws: int, target: Target) -> "_ChainDraws":
        v = target.start.new_full((chains, draws, target.rows, target.free), torch.nan)

        return cls(v, v[..., 0].clone())

    def select(self, rows: Tensor) -> "_ChainDraws":
        return _ChainDraws(self.v[:, :, rows], self.log_prob[:, :, rows])

    def put(self, rows: Tensor, other: "_ChainDraws") -> None:
        self.v[:, :, rows], self.log_prob[:, :, rows] = other.v, other.log_prob

    def effective(self) -> Tensor:
        """The least effective sample size of a coordinate."""
        return effective_sample_size(self.v).amin(-1)

    def r_hat(self) -> Tensor:
        """The largest R-hat of a coordinate or of the log-density."""
        return r_hat(torch.cat([self.v, self.log_prob.unsqueeze(-1)], dim=-1)).amax(-1)

    def converged(self) -> Tensor:
        """Which rows need no further draws."""
        chains, length = self.v.shape[:2]

        return (self.effective() >= TARGET_RELATIVE_ESS * chains * length) & (self.r_hat() <= self._limit())

    def agrees(self, other: "_ChainDraws") -> Tensor:
        """Which rows agree with other draws by R-hat."""
        both = _ChainDraws(torch.cat([self.v, other.v]), torch.cat([self.log_prob, other.log_prob]))

        return both.r_hat() <= self._limit()

    def _limit(self) -> float:
        return 1 + max(R_HAT_EXCESS, R_HAT_EXCESS_TIMES_LENGTH / self.v.shape[1])


class _Chains:
    """The chains of some rows, in whitened coordinates `v = mode + factor z` with the identity as mass matrix."""

    def __init__(self, target: Target, streams: Streams, count: int, approximation: tuple[Tensor, Tensor]) -> None:
        self.target, self.streams, self.count = target, streams, count
        self.mode, self.factor = approximation
        self.steps = torch.full((target.rows,), INITIAL_STEPS, device=target.start.device)
        self.accepted = torch.zeros(target.rows, dtype=target.start.dtype, device=target.start.device)
        self.proposed = 0
        self.needs_tempering = torch.zeros_like(self.accepted, dtype=torch.bool)
        # Only for particles of tempered rows.
        self.proposal: MixtureProposal | None = None
        self.every = torch.arange(target.rows, device=self.mode.device).repeat_interleave(count)
        self.repeated = target.select(self.every)
        self.z = self.gradient = target.start[:0]
        self.log_prob = self.accepted[:0]

    @classmethod
    def begin(cls, target: Target, streams: Streams, count: int, prior_draws: int) -> "_Chains":
        """Starts so many chains of each row, by importance resampling."""
        chains = cls(target, streams.split(count), count, laplace_approximation(target))
        first = _initial_states(target, streams, count, prior_draws, (chains.mode, chains.factor))
        chains._set_state(chains._whiten(first, chains.every))

        return chains

    def select(self, rows: Tensor) -> "_Chains":
        """Takes the chains of the given rows."""
        each = (rows.unsqueeze(-1) * self.count + torch.arange(self.count, device=rows.device)).flatten()
        approximation = self.mode[rows], self.factor[rows]
        part = _Chains(self.target.select(rows), self.streams.select(each), self.count, approximation)
        part.steps, part.accepted = self.steps[rows], self.accepted[rows]
        part.needs_tempering = self.needs_tempering[rows]
        part.proposed, part.proposal = self.proposed, self.proposal and self.proposal.select(rows)
        part.z, part.log_prob, part.gradient = self.z[each], self.log_prob[each], self.gradient[each]

        return part

    def from_tempered(self, streams: Streams, count: int) -> "_Chains":
        """Starts so many chains of each row at particles of tempered sequential Monte Carlo."""
        part = _Chains(self.target, streams.split(count), count, (self.mode, self.factor))
        part.steps = self.steps.clamp(max=TEMPERED_STEPS)
        total = count + COMPONENTS
        drawn = sample_tempered(self.target, total, streams).reshape(self.target.rows, total, -1)
        # Particles of one ancestor are neighbours, so the components of the mixture are taken evenly.
        evenly = torch.linspace(0, total - 1, COMPONENTS, device=drawn.device).round().long()
        others = torch.ones(total, dtype=torch.bool, device=drawn.device)
        others[evenly] = False
        part.proposal = MixtureProposal(drawn[:, evenly], self.mode, self.factor)
        part._set_state(part._whiten(drawn[:, others].flatten(0, 1), part.every))

        return part

    def snapshot(self, like: _ChainDraws) -> _ChainDraws:
        """The states of all chains, as draws of the shape of others."""
        shape = (self.target.rows, *like.v.shape[:2])
        v = self._unwhiten(self.z, self.every).reshape(*shape, -1).permute(1, 2, 0, 3)

        return _ChainDraws(v.clone(), self.log_prob.reshape(shape).permute(1, 2, 0).clone())

    @property
    def acceptance(self) -> Tensor:
        """The acceptance rate, with shape `(rows,)`."""
        return self.accepted / max(1, self.proposed)

    def reset_acceptance(self) -> None:
        """Resets the acceptance rate."""
        self.accepted, self.proposed = torch.zeros_like(self.accepted), 0

    def adapt(self) -> None:
        """Adapts the number of leapfrog steps to the acceptance rate."""
        rate = self.acceptance
        factor = torch.ones_like(rate)
        factor = torch.where(rate < LOW_ACCEPTANCE, 1.5, factor)
        factor = torch.where(rate < VERY_LOW_ACCEPTANCE, 2.5, factor)
        factor = torch.where(rate > HIGH_ACCEPTANCE, 0.67, factor)
        self.steps = (self.steps * factor).round().long().clamp(MIN_STEPS, MAX_STEPS)
        self.needs_tempering = ~(rate >= TEMPERING_ACCEPTANCE)
        self.reset_acceptance()

    def run(self, begin: int, length: int, like: _ChainDraws, on_progress: Callable[[], None]) -> _ChainDraws:
        """Makes so many proposals and returns the states, as draws of the shape of others."""
        v, log_prob = [], []
        for step in range(begin, begin + length):
            self.propose(step)
            v.append(self._unwhiten(self.z, self.every))
            log_prob.append(self.log_prob)
            on_progress()
        # The shorter chains of one are joined in order.
        shape = (length, self.target.rows, self.count)
        states = torch.stack(v).reshape(*shape, -1).permute(2, 0, 1, 3)
        log_probs = torch.stack(log_prob).reshape(shape).permute(2, 0, 1)

        joined = like.v.shape[:2]

        return _ChainDraws(states.reshape(*joined, *states.shape[2:]), log_probs.reshape(*joined, *log_probs.shape[2:]))

    def propose(self, step: int) -> None:
        """Makes one Hamiltonian proposal of every chain, after mode-changing transitions of particles."""
        if self.proposal:
            self._change_mode(self.proposal, step)
        momentum = self.streams.normal(self.target.free, "momentum", step)
        jitter, uniform = self.streams.uniform(2, "path", step).unbind(-1)
        steps = self.steps[self.every]
        size = (TRAJECTORY_LENGTH * (1 + TRAJECTORY_JITTER * (2 * jitter - 1)) / steps).unsqueeze(-1)
        z, log_prob, gradient, p = self._leapfrog(momentum, size, steps)

        log_ratio = log_prob - self.log_prob - 0.5 * (p.square() - momentum.square()).sum(-1)
        probability = log_ratio.clamp(max=0.0).exp().nan_to_num(nan=0.0)
        accept = uniform < probability
        self.z = torch.where(accept.unsqueeze(-1), z, self.z)
        self.log_prob = torch.where(accept, log_prob, self.log_prob)
        self.gradient = torch.where(accept.unsqueeze(-1), gradient, self.gradient)
        self.accepted = self.accepted + probability.reshape(-1, self.count).mean(-1)
        self.proposed += 1

    def _change_mode(self, proposal: MixtureProposal, step: int) -> None:
        """Makes an independence Metropolis-Hastings and an elliptical slice transition of every chain."""
        v = self._unwhiten(self.z, self.every)
        log_like = self.log_prob + self._prior_energy(v)
        there = proposal.draw(self.count, self.streams, step)
        log_likes = log_likelihood(self.repeated, there)
        log_ratio = log_likes - self._prior_energy(there) - log_like + self._prior_energy(v)
        log_ratio = log_ratio - proposal.log_prob(there) + proposal.log_prob(v)
        accept = self.streams.uniform(1, "jump", step).squeeze(-1).log() < log_ratio
        v, log_like = torch.where(accept.unsqueeze(-1), there, v), torch.where(accept, log_likes, log_like)
        v, _ = slice_step(self.repeated, v, log_like, torch.ones_like(log_like), self.streams, step)
        self._set_state(self._whiten(v, self.every))

    def _prior_energy(self, v: Tensor) -> Tensor:
        """The negative log-density of the prior, up to a constant."""
        return 0.5 * ((v - self.repeated.prior_mean) / self.repeated.prior_sd).square().sum(-1)

    def _leapfrog(self, momentum: Tensor, size: Tensor, steps: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Integrates the trajectory of each chain for its number of leapfrog steps."""
        z, log_prob, gradient = self.z, self.log_prob, self.gradient
        p = momentum + 0.5 * size * gradient
        for step in range(int(steps.max())):
            live = (steps > step).nonzero().squeeze(-1)
            if len(live) == len(steps):
                z = z + size * p
                log_prob, gradient = self._log_prob_and_gradient(z)
                p = p + torch.where((steps == step + 1).unsqueeze(-1), 0.5, 1.0) * size * gradient
                continue
            position = z[live] + size[live] * p[live]
            value, grad = self._log_prob_and_gradient(position, live)
            last = torch.where((steps[live] == step + 1).unsqueeze(-1), 0.5, 1.0)
            z, log_prob, gradient = (
                z.index_copy(0, live, position),
                log_prob.index_copy(0, live, value),
                gradient.index_copy(0, live, grad),
            )
            p = p.index_copy(0, live, p[live] + last * size[live] * grad)

        return z, log_prob, gradient, p

    def _log_prob_and_gradient(self, z: Tensor, chains: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Computes the log-density `(chains,)` and its gradient `(chains, free)` in whitened coordinates."""
        target = self.repeated if chains is None else self.repeated.select(chains)
        rows = self.every if chains is None else self.every[chains]
        log_prob, gradient = target.gradient(self._unwhiten(z, rows))

        return log_prob, (self.factor[rows].mT @ gradient.unsqueeze(-1)).squeeze(-1)

    def _unwhiten(self, z: Tensor, rows: Tensor) -> Tensor:
        return self.mode[rows] + (self.factor[rows] @ z.unsqueeze(-1)).squeeze(-1)

    def _set_state(self, z: Tensor) -> None:
        self.z = z
        self.log_prob, self.gradient = self._log_prob_and_gradient(z)

    def _whiten(self, v: Tensor, rows: Tensor) -> Tensor:
        moved = (v - self.mode[rows]).unsqueeze(-1)
        z: Tensor = torch.linalg.solve(self.factor[rows], moved)

        return z.squeeze(-1)


def _initial_states(
    target: Target, streams: Streams, count: int, prior_draws: int, approximation: tuple[Tensor, Tensor]
) -> Tensor:
    """Draws initial states, `(rows * count, free)`, by importance resampling from Laplace approximation and prior."""
    rows, free = target.rows, target.free
    mode, factor = approximation[0].unsqueeze(1), approximation[1]
    z = streams.normal((MODE_DRAWS + prior_draws) * free, "pool").reshape(rows, -1, free)
    from_prior = target.prior_mean.unsqueeze(1) + target.prior_sd * z[:, MODE_DRAWS:]
    v = torch.cat([mode + z[:, :MODE_DRAWS] @ factor.mT, from_prior], dim=1)

    each = torch.arange(rows, device=v.device).repeat_interleave(v.shape[1])
    log_like = log_likelihood(target.select(each), v.flatten(0, 1)).reshape(rows, -1)
    log_prior = -0.5 * ((v - target.prior_mean.unsqueeze(1)) / target.prior_sd).square().sum(-1)
    volume = torch.linalg.slogdet(factor)[1].unsqueeze(-1) - target.prior_sd.log().sum()
    log_laplace = -0.5 * torch.linalg.solve(factor, (v - mode).mT).square().sum(-2) - volume
    log_mixture = torch.logaddexp(log_prior + math.log(prior_draws), log_laplace + math.log(MODE_DRAWS))
    chosen = systematic_resample(log_like + log_prior - log_mixture, count, streams.uniform(1, "first"))

    return v.gather(1, chosen.unsqueeze(-1).expand(-1, -1, free)).flatten(0, 1)
