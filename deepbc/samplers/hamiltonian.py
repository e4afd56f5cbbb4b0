r"""Hamiltonian Monte Carlo: all chains of all rows at once, in coordinates in which each density is nearly round.

A row's density is centred at its peak and scaled by its curvature over about its own width, so that one length of path
suits all directions and all rows: a little more than a quarter of the period of a round density, which makes draws
nearly independent. What remains to be adapted is the number of leapfrog steps on that path. A density on which such
paths seldom end well, or of which the chains tell different things, is rough: its draws begin anew from a density of
one valley (tempering), and each of them walks as a chain of its own, along paths and slices, until they do not hang
together.

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
from deepbc.samplers.convergence import effective_size, r_hat
from deepbc.samplers.elliptical_slice import beyond, cut
from deepbc.samplers.independence_mh import PLACES, Mixture
from deepbc.samplers.laplace import whiten
from deepbc.samplers.target import Draws, Target, agree
from deepbc.samplers.tempered_smc import choose, temper
from deepbc.solvers import Exact

# The length of a path, where a round density has a period of 2 pi, and by which part it varies.
PATH, VARIES = 1.9, 0.3
# The steps on a path: at first, at least, at most; and the share of proposals below and above which they change.
FIRST_STEPS, LEAST_STEPS, MOST_STEPS = 3, 2, 12
TOO_FEW, FEW, MANY = 0.6, 0.8, 0.98
# After so many proposals of a chain the steps are changed.
BLOCK = 6
# Draws are promised to be worth this part of their number, and a row walks on until they are worth that one and R-hat
# exceeds 1 by no more than this, or than this many times one over the length of a chain.
PROMISED, WORTH, AGREEING, CHANCE = 0.8, 0.85, 0.01, 3.0
SHORTEST_CHAIN, LONGEST_CHAIN = 8, 64
# A row of which fewer proposals are taken is rough; and the most steps on the path of a draw that walks on.
ROUGH, ROUGH_STEPS = 0.6, 6
# For the start of chains so many places near the peak are looked at; and so many without the law, for each sample, at
# least and at most: they find valleys that a climb to the peak does not.
NEAR, FAR, LEAST_FAR, MOST_FAR = 32, 1.0, 64, 1024


class Hamiltonian(Sampler):
    """Creates the default sampler.

    Args:
        chains: The number of chains of each row by which draws are judged; where samples are many, each is made of
            several, so that none is long.
        warmup: The number of proposals of each chain while the steps are adapted; these are not returned.
        refresh: Draws of a rough row walk on, each as a chain of its own, for at most so many proposals.

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

    def sample(self, target: Target, samples: int, streams: Streams, told: Callable[[], None]) -> Draws:
        parts, length = self._shape(samples)
        if not target.free:
            one = torch.ones(target.rows, dtype=target.start.dtype, device=target.start.device)
            return Draws(target.start.expand(samples, -1, -1), one, samples * one, one, one.bool())

        far = round(min(MOST_FAR, max(LEAST_FAR, FAR * samples)))
        chains = _Chains.begin(target, streams, self.chains * parts, far)
        for step in range(self.warmup):
            chains.propose(step)
            if (step + 1) % BLOCK == 0:
                chains.adapt()
            told()

        chains.forget()
        kept = _Kept.empty(self.chains, parts * length, target)
        smooth = (~chains.rough).nonzero().squeeze(-1)
        if len(smooth):
            part = chains.select(smooth)
            kept.put(smooth, part.walk(self.warmup, length, kept, told))
            chains.taken[smooth] = part.acceptance
            chains.rough[smooth] = ~kept.select(smooth).good()
        walked = self._temper(chains, kept, streams, told)
        # What was not needed counts as done.
        for _ in range(self.refresh - walked + (0 if len(smooth) else length)):
            told()

        size = kept.effective() * samples / (self.chains * parts * length)
        # Chain by chain, and of each chain as many, evenly.
        each = torch.linspace(0, parts * length - 1, -(-samples // self.chains)).round().long()
        v = kept.v[:, each].flatten(0, 1)[:samples]

        disagreement = kept.r_hat()
        trusted = agree(disagreement, parts * length) & (size >= PROMISED * samples)

        return Draws(v, disagreement, size, chains.taken, trusted)

    def rounds(self, samples: int) -> int:
        return self.warmup + self._shape(samples)[1] + self.refresh

    def _shape(self, samples: int) -> tuple[int, int]:
        """The number of parts of a chain of a row, and their length."""
        each = -(-samples // self.chains)
        parts = -(-each // LONGEST_CHAIN)

        return parts, max(SHORTEST_CHAIN, -(-each // parts))

    def _temper(self, chains: "_Chains", kept: "_Kept", streams: Streams, told: Callable[[], None]) -> int:
        """Draws anew of the rough rows; every draw walks as a chain of its own until they do not hang together.

        Returns:
            For how many proposals they walked.
        """
        rows = chains.rough.nonzero().squeeze(-1)
        if not len(rows):
            return 0

        count = kept.v.shape[0] * kept.v.shape[1]
        part = chains.select(rows).begin_anew(streams.select(rows), count)
        drawn, walked = part.kept(kept), 0
        kept.put(rows, drawn)
        while len(rows) and walked < self.refresh:
            more = min(max(1, walked), self.refresh - walked)
            for step in range(walked, walked + more):
                part.propose(step)
                told()
            walked += more
            before, drawn = drawn, part.kept(kept)
            kept.put(rows, drawn)
            chains.taken[rows] = part.acceptance
            # Chains that have not yet forgotten where they began may well agree, but not with where they were before.
            low = (~(drawn.good() & drawn.agrees(before))).nonzero().squeeze(-1)
            rows, drawn, part = rows[low], drawn.select(low), part.select(low)

        return walked

    def __repr__(self) -> str:
        return f"Hamiltonian(chains={self.chains}, warmup={self.warmup}, refresh={self.refresh})"


class _Kept:
    """Draws of some rows: coordinates `(chains, draws, rows, free)` and their log-density `(chains, draws, rows)`."""

    def __init__(self, v: Tensor, log_prob: Tensor) -> None:
        self.v, self.log_prob = v, log_prob

    @classmethod
    def empty(cls, chains: int, draws: int, target: Target) -> "_Kept":
        v = target.start.new_full((chains, draws, target.rows, target.free), torch.nan)

        return cls(v, v[..., 0].clone())

    def select(self, rows: Tensor) -> "_Kept":
        return _Kept(self.v[:, :, rows], self.log_prob[:, :, rows])

    def put(self, rows: Tensor, other: "_Kept") -> None:
        self.v[:, :, rows], self.log_prob[:, :, rows] = other.v, other.log_prob

    def effective(self) -> Tensor:
        """The effective number of draws of the coordinate that has the fewest."""
        return effective_size(self.v).amin(-1)

    def r_hat(self) -> Tensor:
        """The largest R-hat of a coordinate or of the log-density."""
        return r_hat(torch.cat([self.v, self.log_prob.unsqueeze(-1)], dim=-1)).amax(-1)

    def good(self) -> Tensor:
        """Which rows need no further draws."""
        chains, length = self.v.shape[:2]

        return (self.effective() >= WORTH * chains * length) & (self.r_hat() <= self._limit())

    def agrees(self, other: "_Kept") -> Tensor:
        """Which rows have the density of other draws."""
        both = _Kept(torch.cat([self.v, other.v]), torch.cat([self.log_prob, other.log_prob]))

        return both.r_hat() <= self._limit()

    def _limit(self) -> float:
        return 1 + max(AGREEING, CHANCE / self.v.shape[1])


class _Chains:
    """The chains of some rows: where each stands in the round coordinates of its row."""

    def __init__(self, target: Target, streams: Streams, count: int, places: tuple[Tensor, Tensor]) -> None:
        self.target, self.streams, self.count = target, streams, count
        self.centre, self.axes = places
        self.steps = torch.full((target.rows,), FIRST_STEPS, device=target.start.device)
        self.taken = torch.zeros(target.rows, dtype=target.start.dtype, device=target.start.device)
        self.proposed = 0
        self.rough = torch.zeros_like(self.taken, dtype=torch.bool)
        # Chains that began anew are cut by slices and jump.
        self.mixture: Mixture | None = None
        self.every = torch.arange(target.rows, device=self.centre.device).repeat_interleave(count)
        self.many = target.select(self.every)
        self.z = self.slope = target.start[:0]
        self.log_prob = self.taken[:0]

    @classmethod
    def begin(cls, target: Target, streams: Streams, count: int, far: int) -> "_Chains":
        """Starts so many chains of each row, at places drawn by their density, of which so many far from the peak."""
        chains = cls(target, streams.split(count), count, whiten(target))
        first = _first(target, streams, count, far, (chains.centre, chains.axes))
        chains._stand_at(chains._round(first, chains.every))

        return chains

    def select(self, rows: Tensor) -> "_Chains":
        """Takes the chains of the given rows."""
        each = (rows.unsqueeze(-1) * self.count + torch.arange(self.count, device=rows.device)).flatten()
        places = self.centre[rows], self.axes[rows]
        part = _Chains(self.target.select(rows), self.streams.select(each), self.count, places)
        part.steps, part.taken, part.rough = self.steps[rows], self.taken[rows], self.rough[rows]
        part.proposed, part.mixture = self.proposed, self.mixture and self.mixture.select(rows)
        part.z, part.log_prob, part.slope = self.z[each], self.log_prob[each], self.slope[each]

        return part

    def begin_anew(self, streams: Streams, count: int) -> "_Chains":
        """Makes so many chains of each row that stand at tempered draws, are cut by slices and jump."""
        part = _Chains(self.target, streams.split(count), count, (self.centre, self.axes))
        part.steps = self.steps.clamp(max=ROUGH_STEPS)
        drawn = temper(self.target, count + PLACES, streams).reshape(self.target.rows, count + PLACES, -1)
        # Draws that hang together are neighbours, so the places of the mixture are taken evenly.
        evenly = torch.linspace(0, count + PLACES - 1, PLACES, device=drawn.device).round().long()
        others = torch.ones(count + PLACES, dtype=torch.bool, device=drawn.device)
        others[evenly] = False
        part.mixture = Mixture(drawn[:, evenly], self.centre, self.axes)
        part._stand_at(part._round(drawn[:, others].flatten(0, 1), part.every))

        return part

    def kept(self, like: _Kept) -> _Kept:
        """Where all chains stand, as so many draws of so many chains as another has."""
        shape = (self.target.rows, *like.v.shape[:2])
        v = self._coordinates(self.z, self.every).reshape(*shape, -1).permute(1, 2, 0, 3)

        return _Kept(v.clone(), self.log_prob.reshape(shape).permute(1, 2, 0).clone())

    @property
    def acceptance(self) -> Tensor:
        """The mean share of proposals that were taken, with shape `(rows,)`."""
        return self.taken / max(1, self.proposed)

    def forget(self) -> None:
        """Starts to count proposals anew."""
        self.taken, self.proposed = torch.zeros_like(self.taken), 0

    def adapt(self) -> None:
        """Takes more steps on a path where too few proposals are taken, and fewer where nearly all are."""
        share = self.acceptance
        factor = torch.ones_like(share)
        factor = torch.where(share < FEW, 1.5, factor)
        factor = torch.where(share < TOO_FEW, 2.5, factor)
        factor = torch.where(share > MANY, 0.67, factor)
        self.steps = (self.steps * factor).round().long().clamp(LEAST_STEPS, MOST_STEPS)
        self.rough = ~(share >= ROUGH)
        self.forget()

    def walk(self, begin: int, length: int, like: _Kept, told: Callable[[], None]) -> _Kept:
        """Proposes so many times, and keeps where each chain stands after each, as draws of so many chains."""
        v, log_prob = [], []
        for step in range(begin, begin + length):
            self.propose(step)
            v.append(self._coordinates(self.z, self.every))
            log_prob.append(self.log_prob)
            told()
        # The parts of a chain one after the other.
        shape = (length, self.target.rows, self.count)
        places = torch.stack(v).reshape(*shape, -1).permute(2, 0, 1, 3)
        heights = torch.stack(log_prob).reshape(shape).permute(2, 0, 1)

        return _Kept(
            places.reshape(*like.v.shape[:2], *places.shape[2:]),
            heights.reshape(*like.v.shape[:2], *heights.shape[2:]),
        )

    def propose(self, step: int) -> None:
        """Sends every chain along a path, and takes its end or stays; those that began anew first jump and are cut."""
        if self.mixture:
            self._jump(self.mixture, step)
        momentum = self.streams.normal(self.target.free, "momentum", step)
        varied, chance = self.streams.uniform(2, "path", step).unbind(-1)
        steps = self.steps[self.every]
        size = (PATH * (1 + VARIES * (2 * varied - 1)) / steps).unsqueeze(-1)
        z, log_prob, slope, push = self._path(momentum, size, steps)

        gain = log_prob - self.log_prob - 0.5 * (push.square() - momentum.square()).sum(-1)
        share = gain.clamp(max=0.0).exp().nan_to_num(nan=0.0)
        take = chance < share
        self.z = torch.where(take.unsqueeze(-1), z, self.z)
        self.log_prob = torch.where(take, log_prob, self.log_prob)
        self.slope = torch.where(take.unsqueeze(-1), slope, self.slope)
        self.taken = self.taken + share.reshape(-1, self.count).mean(-1)
        self.proposed += 1

    def _jump(self, mixture: Mixture, step: int) -> None:
        """Lets every chain jump, and moves it along a slice."""
        v = self._coordinates(self.z, self.every)
        height = self.log_prob + self._normal(v)
        there = mixture.draw(self.count, self.streams, step)
        heights = beyond(self.many, there)
        gain = heights - self._normal(there) - height + self._normal(v)
        gain = gain - mixture.log_prob(there) + mixture.log_prob(v)
        take = self.streams.uniform(1, "jump", step).squeeze(-1).log() < gain
        v, height = torch.where(take.unsqueeze(-1), there, v), torch.where(take, heights, height)
        v, _ = cut(self.many, v, height, torch.ones_like(height), self.streams, step)
        self._stand_at(self._round(v, self.every))

    def _normal(self, v: Tensor) -> Tensor:
        """How far places are out in the density without its law."""
        return 0.5 * ((v - self.many.middle) / self.many.spread).square().sum(-1)

    def _path(self, momentum: Tensor, size: Tensor, steps: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Follows the leapfrog path of each chain for as many steps as it has."""
        z, log_prob, slope = self.z, self.log_prob, self.slope
        push = momentum + 0.5 * size * slope
        for step in range(int(steps.max())):
            live = (steps > step).nonzero().squeeze(-1)
            if len(live) == len(steps):
                z = z + size * push
                log_prob, slope = self._look(z)
                push = push + torch.where((steps == step + 1).unsqueeze(-1), 0.5, 1.0) * size * slope
                continue
            spot = z[live] + size[live] * push[live]
            height, pull = self._look(spot, live)
            last = torch.where((steps[live] == step + 1).unsqueeze(-1), 0.5, 1.0)
            z, log_prob, slope = (
                z.index_copy(0, live, spot),
                log_prob.index_copy(0, live, height),
                slope.index_copy(0, live, pull),
            )
            push = push.index_copy(0, live, push[live] + last * size[live] * pull)

        return z, log_prob, slope, push

    def _look(self, z: Tensor, chains: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Computes the log-density `(chains,)` and its derivatives `(chains, free)` in round coordinates."""
        target = self.many if chains is None else self.many.select(chains)
        rows = self.every if chains is None else self.every[chains]
        log_prob, slope = target.gradient(self._coordinates(z, rows))

        return log_prob, (self.axes[rows].mT @ slope.unsqueeze(-1)).squeeze(-1)

    def _coordinates(self, z: Tensor, rows: Tensor) -> Tensor:
        return self.centre[rows] + (self.axes[rows] @ z.unsqueeze(-1)).squeeze(-1)

    def _stand_at(self, z: Tensor) -> None:
        self.z = z
        self.log_prob, self.slope = self._look(z)

    def _round(self, v: Tensor, rows: Tensor) -> Tensor:
        """The round coordinates of places."""
        moved = (v - self.centre[rows]).unsqueeze(-1)
        z: Tensor = torch.linalg.solve(self.axes[rows], moved)

        return z.squeeze(-1)


def _first(target: Target, streams: Streams, count: int, far: int, peak: tuple[Tensor, Tensor]) -> Tensor:
    """Draws where chains start, `(rows * count, free)`, by their density, among places near the peak and far off."""
    rows, free = target.rows, target.free
    centre, axes = peak[0].unsqueeze(1), peak[1]
    z = streams.normal((NEAR + far) * free, "pool").reshape(rows, -1, free)
    v = torch.cat([centre + z[:, :NEAR] @ axes.mT, target.middle.unsqueeze(1) + target.spread * z[:, NEAR:]], dim=1)

    each = torch.arange(rows, device=v.device).repeat_interleave(v.shape[1])
    height = beyond(target.select(each), v.flatten(0, 1)).reshape(rows, -1)
    log_far = -0.5 * ((v - target.middle.unsqueeze(1)) / target.spread).square().sum(-1)
    narrow = torch.linalg.slogdet(axes)[1].unsqueeze(-1) - target.spread.log().sum()
    log_near = -0.5 * torch.linalg.solve(axes, (v - centre).mT).square().sum(-2) - narrow
    # Drawn from a mixture of both, so weighed by it.
    log_mixture = torch.logaddexp(log_far + math.log(far), log_near + math.log(NEAR))
    chosen = choose(height + log_far - log_mixture, count, streams.uniform(1, "first"))

    return v.gather(1, chosen.unsqueeze(-1).expand(-1, -1, free)).flatten(0, 1)
