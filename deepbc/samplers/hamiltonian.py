r"""Hamiltonian Monte Carlo: all chains of all rows at once, in coordinates in which each density is nearly round.

A row's density is centred at its peak and scaled by its curvature over about its own width, so that one length of path
suits all directions and all rows: a little more than a quarter of the period of a round density, which makes draws
nearly independent. What remains to be adapted is the number of leapfrog steps on that path. Where draws of a row hang
together, each of them walks on as a chain of its own, all at once. A rough density, on which such paths seldom end
well, is also cut by slices: ellipses through where a chain stands, around the middle of the density without its law, on
which a place is found by halving. They need no slopes, and fit narrow places as well as wide ones.

References:
    MCMC using Hamiltonian dynamics (Neal, 2011).
    Elliptical slice sampling (Murray, Adams and MacKay, 2010).
"""

__all__ = ["Hamiltonian"]

import math
from collections.abc import Callable

import torch
from torch import Tensor

from deepbc._checks import check_count
from deepbc.samplers.base import Sampler
from deepbc.samplers.chains import effective_size, r_hat
from deepbc.samplers.target import Draws, Target, agree
from deepbc.samplers.whitening import whiten
from deepbc.solvers import Exact
from deepbc.streams import Streams

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
SHORTEST_CHAIN, LONGEST_CHAIN = 8, 250
# A row of which fewer proposals are taken is rough; so often a slice is cut smaller at most; and the most steps on the
# path of a draw that walks on.
ROUGH, CUTS, ROUGH_STEPS = 0.6, 60, 6
# A chain does not start where the logarithm of the density lies this far below the peak, for each coordinate.
LOW = 10.0


class Hamiltonian(Sampler):
    """Creates the default sampler.

    Args:
        chains: The number of chains of each row; where samples are many there are more, so that none is long.
        warmup: The number of proposals of each chain while the steps are adapted; these are not returned.
        refresh: Draws of a row that hang together walk on, each as a chain of its own, for at most so many proposals.

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
        count, length = self._shape(samples)
        if not target.free:
            one = torch.ones(target.rows, dtype=target.start.dtype, device=target.start.device)
            return Draws(target.start.expand(samples, -1, -1), one, samples * one, one, one.bool())

        chains = _Chains(target, streams, count)
        for step in range(self.warmup):
            chains.propose(step)
            if (step + 1) % BLOCK == 0:
                chains.adapt()
            told()

        chains.forget()
        kept = chains.walk(self.warmup, length, told)
        self._refresh(chains, kept)
        size = kept.effective() * samples / (count * length)
        # Chain by chain, and of each chain as many, evenly.
        each = torch.linspace(0, length - 1, -(-samples // count)).round().long()
        v = kept.v[:, each].flatten(0, 1)[:samples]

        disagreement = kept.r_hat()
        trusted = agree(disagreement, length) & (size >= PROMISED * samples)

        return Draws(v, disagreement, size, chains.acceptance, trusted)

    def rounds(self, samples: int) -> int:
        return self.warmup + self._shape(samples)[1]

    def _shape(self, samples: int) -> tuple[int, int]:
        """The number of chains of a row, and their length."""
        count = max(self.chains, samples // LONGEST_CHAIN)

        return count, max(SHORTEST_CHAIN, -(-samples // count))

    def _refresh(self, chains: "_Chains", kept: "_Kept") -> None:
        """Lets every draw of a row whose draws hang together walk on as a chain of its own, until they do not."""
        rows, walked = torch.arange(kept.v.shape[2], device=kept.v.device), 0
        part, drawn, good = chains, kept, kept.good()
        while walked < self.refresh:
            low = (~good).nonzero().squeeze(-1)
            if not len(low):
                return
            rows, drawn = rows[low], drawn.select(low)
            part = part.select(low) if walked else chains.select(low).spread(drawn)
            more = max(1, walked)
            for step in range(walked, walked + more):
                part.propose(step)
            walked += more
            before, drawn = drawn, part.kept(*drawn.v.shape[:2])
            # Chains that have not yet forgotten where they began may well agree, but not with where they were before.
            good = drawn.good() & drawn.agrees(before)
            kept.put(rows, drawn)

    def __repr__(self) -> str:
        return f"Hamiltonian(chains={self.chains}, warmup={self.warmup}, refresh={self.refresh})"


class _Kept:
    """Draws of some rows: coordinates `(chains, draws, rows, free)` and their log-density `(chains, draws, rows)`."""

    def __init__(self, v: Tensor, log_prob: Tensor) -> None:
        self.v, self.log_prob = v, log_prob

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

    def __init__(self, target: Target, streams: Streams, count: int) -> None:
        self.count = count
        self.centre, self.axes = whiten(target)
        self.steps = torch.full((target.rows,), FIRST_STEPS, device=target.start.device)
        self.taken = torch.zeros(target.rows, dtype=target.start.dtype, device=target.start.device)
        self.proposed = 0
        self.rough = torch.zeros_like(self.taken, dtype=torch.bool)
        self.target = target
        self.streams = streams.split(count)
        self._repeat()
        start = self.streams.normal(target.free, "start")
        self.z = start
        self.log_prob, self.slope = self._look(start)
        # A chain that would start where there is next to no density starts at the peak.
        peak, pull = self._look(torch.zeros_like(start))
        strayed = ~(self.log_prob > peak - LOW * target.free)
        self.z = torch.where(strayed.unsqueeze(-1), 0.0, self.z)
        self.log_prob = torch.where(strayed, peak, self.log_prob)
        self.slope = torch.where(strayed.unsqueeze(-1), pull, self.slope)

    def select(self, rows: Tensor) -> "_Chains":
        """Takes the chains of the given rows."""
        part = object.__new__(_Chains)
        chains = (rows.unsqueeze(-1) * self.count + torch.arange(self.count, device=rows.device)).flatten()
        part.count, part.proposed = self.count, self.proposed
        part.centre, part.axes, part.steps, part.taken, part.rough = (
            each[rows] for each in (self.centre, self.axes, self.steps, self.taken, self.rough)
        )
        part.target, part.streams = self.target.select(rows), self.streams.select(chains)
        part.z, part.log_prob, part.slope = self.z[chains], self.log_prob[chains], self.slope[chains]
        part._repeat()

        return part

    def spread(self, kept: _Kept) -> "_Chains":
        """Makes a chain of each draw of these rows; they are cut by slices too."""
        part = self.select(torch.arange(self.target.rows, device=self.centre.device))
        part.streams = self.streams.split(kept.v.shape[1])
        part.count = self.count * kept.v.shape[1]
        part.rough = torch.ones_like(self.rough)
        part.steps = self.steps.clamp(max=ROUGH_STEPS)
        part._repeat()
        v = kept.v.permute(2, 0, 1, 3).flatten(0, 2)
        part.z = part._round(v, part.every)
        part.log_prob, part.slope = part._look(part.z)

        return part

    def kept(self, count: int, length: int) -> _Kept:
        """Where all chains stand, as draws of so many chains of that length."""
        shape = (self.target.rows, count, length)
        v = self._coordinates(self.z, self.every).reshape(*shape, -1).permute(1, 2, 0, 3)

        return _Kept(v.clone(), self.log_prob.reshape(shape).permute(1, 2, 0).clone())

    def _round(self, v: Tensor, rows: Tensor) -> Tensor:
        """The round coordinates of places."""
        moved = (v - self.centre[rows]).unsqueeze(-1)
        z: Tensor = torch.linalg.solve(self.axes[rows], moved)

        return z.squeeze(-1)

    def _repeat(self) -> None:
        self.every = torch.arange(self.target.rows, device=self.centre.device).repeat_interleave(self.count)
        self.many = self.target.select(self.every)

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
        self.rough = share < ROUGH
        self.forget()

    def walk(self, begin: int, length: int, told: Callable[[], None]) -> _Kept:
        """Proposes so many times, and keeps where each chain stands after each."""
        v, log_prob = [], []
        for step in range(begin, begin + length):
            self.propose(step)
            v.append(self._coordinates(self.z, self.every))
            log_prob.append(self.log_prob)
            told()
        shape = (length, self.target.rows, self.count)

        return _Kept(
            torch.stack(v).reshape(*shape, -1).permute(2, 0, 1, 3).clone(),
            torch.stack(log_prob).reshape(shape).permute(2, 0, 1).clone(),
        )

    def propose(self, step: int) -> None:
        """Sends every chain along a path, and takes its end or stays; a rough one is first cut by a slice."""
        if self.rough.any():
            self._slice(step)
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

    def _slice(self, step: int) -> None:
        """Moves the chains of rough rows to a place on an ellipse through where they stand."""
        chains = self.rough[self.every].nonzero().squeeze(-1)
        target, streams = self.many.select(chains), self.streams.select(chains)
        here = self._coordinates(self.z[chains], self.every[chains]) - target.middle
        other = target.spread * streams.normal(target.free, "ellipse", step)
        chances = streams.uniform(CUTS + 2, "slice", step)

        def beyond(log_prob: Tensor, place: Tensor) -> Tensor:
            """The part of the log-density that the middle and the spread do not account for."""
            return log_prob + 0.5 * (place / target.spread).square().sum(-1)

        level = beyond(self.log_prob[chains], here) + chances[:, 0].log()
        angle = 2 * math.pi * chances[:, 1]
        low, high = angle - 2 * math.pi, angle.clone()
        found, live = here.clone(), torch.arange(len(chains), device=chains.device)
        for cut in range(CUTS):
            turn = angle[live].unsqueeze(-1)
            place = here[live] * turn.cos() + other[live] * turn.sin()
            part = target.select(live)
            with torch.no_grad():
                log_prob = part.log_prob((part.middle + place).to(part.rest)).double()
            inside = beyond(log_prob, place) > level[live]
            found[live[inside]] = place[inside]
            live = live[~inside]
            if not len(live):
                break
            # Halving toward where the chain stands, which is at angle 0.
            low[live] = torch.where(angle[live] < 0, angle[live], low[live])
            high[live] = torch.where(angle[live] >= 0, angle[live], high[live])
            angle[live] = low[live] + chances[live, cut + 2] * (high[live] - low[live])

        # Not in place: draws that were kept are these very tensors.
        spot = self._round(target.middle + found, self.every[chains])
        height, pull = self._look(spot, chains)
        self.z, self.slope = self.z.index_copy(0, chains, spot), self.slope.index_copy(0, chains, pull)
        self.log_prob = self.log_prob.index_copy(0, chains, height)

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
