r"""The search over discrete variables upstream of what is asked: branch and bound, all rows at once.

For given classes and whole numbers the rest of the world is a continuous problem: their values are pinned, their noise
is the nearest that leads to them, or has to lead to them where it may not move. A tree of choices with lower bounds
(`choice_tree`) enumerates them. Two narrow beams are solved first; what the best of these costs is the limit below
which all others are enumerated. These are ranked by the minimum of the quadratic model at rest, and solved in that
order until no bound is left below the best cost.

Where all that can still move is affine the model is exact, and itself a bound. Elsewhere a choice whose model costs
more than twice the best is left out, and no more than a number of them is solved. What is left out has a chance to be
nearer that falls with its model's cost, and `certainty` is one minus the sum of such chances. Whole numbers of a wide
range are relaxed, rounded, and moved one by one until none is better.

References:
    Integer and Combinatorial Optimization (Nemhauser and Wolsey, 1988): branch and bound, relaxation, rounding.
"""

__all__ = ["combinations_of", "enumerable", "search_discrete", "undecided"]

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from deepbc.distances import Distances
from deepbc.numerics.batched import repeat, select
from deepbc.queries.asked import Asked
from deepbc.queries.choice_tree import Choices, ChoiceTree
from deepbc.queries.roles import Roles
from deepbc.queries.worlds import Columns, Worlds
from deepbc.scm import SCM
from deepbc.solvers.problem import SolverStatus

# A mixture over all combinations of classes is sampled if they are no more than this.
MOST_COMBINATIONS = 64
# Choices of a row that are kept at each level: in the searches for a first limit, each of which solves so many of them,
# and in the whole tree.
BEAMS, BEAM_SOLVED, MOST_CHOICES = (16, 128), 2, 16_384
# The choices of a row are solved in rounds that end at these ranks; other costs than squared ones are too slow
# for more than the first two.
ROUNDS = (2, 8, 1024)
# So many choices are solved at once.
MOST_SOLVED = 32_768
# One choice is better than another if it costs less by this part.
LEAST_GAIN = 1e-9
# The logarithm of cost over model has a standard deviation of 0.03 to 0.04 under flows and networks, for which more is
# taken. A chance below the last is none: certainty has nine digits.
MODEL_SD, LEAST_RISK = 0.1, 1e-9
# The chance that a nearer world is missed where values are rounded, not enumerated, or the tree was cut; a judgement.
# No sum of chances counts for more than the last.
ROUNDING_RISK, MOST_RISK = 0.02, 0.5
# How often wide whole numbers are all moved, and by how much.
MOST_SWEEPS, STEPS = 8, (-3, -1, 1, 3)


class ChoiceSolver(Protocol):
    """Solves rows of a question with given values of discrete variables."""

    def solve(self, rows: Tensor, values: Columns, relax: Collection[str] = (), cutoff: Tensor | None = None) -> Worlds:
        """Finds the worlds, with smooth stand-ins for the laws of some other variables; dear ones may be given up."""


def undecided(scm: SCM, asked: Mapping[str, Asked], scope: Collection[str]) -> tuple[str, ...]:
    """The discrete variables upstream of what is asked, or asked to lie in an interval, that are to be chosen.

    One that nothing in scope can change is not, unless a set of labels is asked of it, nor one that is asked to have a
    value; an interval that is asked alone, with no such variable upstream, is neither: its nearest value is the best.
    """
    roles = Roles.of(scm, asked, scope)
    sets = {name for name, each in asked.items() if each.labels is not None}
    discrete = [name for name in roles.names if name in roles.discrete and (name in sets or name not in roles.fixed)]
    alone = len(asked) == 1 and all(name in asked for name in discrete)

    return tuple(name for name in discrete if name not in asked or name in sets or (asked[name].interval and not alone))


def enumerable(scm: SCM, names: Sequence[str]) -> tuple[str, ...]:
    """The categories among discrete variables, if their combinations are few; none otherwise."""
    levels = {name: scm.variables[name].levels for name in names}
    sizes = {name: len(each) for name, each in levels.items() if each}

    return tuple(sizes) if math.prod(sizes.values()) <= MOST_COMBINATIONS else ()


def combinations_of(scm: SCM, names: Sequence[str]) -> Iterator[Columns]:
    """All combinations of the classes of some categories, each a row `(value,)` by variable."""
    levels = {name: scm.schema.levels[name] for name in names}
    codes = [torch.arange(len(each), device=scm.device) for each in levels.values()]
    for combination in itertools.product(*codes):
        pairs = zip(levels.items(), combination, strict=True)
        yield {name: each.rows(code.to(scm.dtype)) for (name, each), code in pairs}


def search_discrete(
    tree: ChoiceTree, solver: ChoiceSolver, distance: Distances, cutoff: Tensor | None = None
) -> Worlds:
    """Finds the best values of discrete variables for each row, and the world that goes with them.

    Args:
        tree: The choices.
        solver: Finds the world for given values.
        distance: How far two noises are apart.
        cutoff: The cost from which a world is of no use, with shape `(rows,)`.
    """
    search = _Search(tree, solver, distance, cutoff)
    best = search.start()
    for most in BEAMS:
        search.run(best, tree.grow(search.limit(best), most), (BEAM_SOLVED,))
    choices = tree.grow(search.limit(best), MOST_CHOICES)
    risk = search.run(best, choices, ROUNDS if distance.squared else ROUNDS[:2])
    risk = torch.where(choices.complete, risk, risk.clamp_min(ROUNDING_RISK))
    if tree.wide:
        search.round_wide(best)
        risk = risk.clamp_min(ROUNDING_RISK)
    incomplete = (best.status != SolverStatus.CONVERGED) & (risk > 0)
    best.status[incomplete] = int(SolverStatus.INCOMPLETE_SEARCH)
    best.certainty.copy_(1 - risk)

    return best


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for the values of a chunk of rows."""

    tree: ChoiceTree
    solver: ChoiceSolver
    distance: Distances
    cutoff: Tensor | None = None

    def start(self) -> Worlds:
        """The worlds with factual values, or those nearest to them that are allowed."""
        question, values = self.tree.question, {}
        for name, asked in self.tree.allowed.items():
            x = question.x[name]
            values[name] = x if asked is None else asked.nearest(x)
        every = torch.arange(question.rows, device=self.tree.scm.device)

        return self.solver.solve(every, values)

    def run(self, best: Worlds, choices: Choices, rounds: Sequence[int]) -> Tensor:
        """Solves choices in the order of their model's cost, and keeps what is better.

        Args:
            best: The best worlds so far, which are changed.
            choices: The choices.
            rounds: The ranks at which a round ends; no more are solved than the last.

        Returns:
            The chance of each row that a choice which is left out is nearer, with shape `(rows,)`.
        """
        risk = torch.zeros_like(choices.complete, dtype=torch.double)
        if not len(choices):
            return risk
        pruned_at = self.tree.least(choices.bound, choices.cost)
        rank = choices.rank()
        last = 0
        for end in rounds:
            limit = self.limit(best)
            chosen = ((rank >= last) & (rank < end) & (pruned_at < limit[choices.row])).nonzero().squeeze(-1)
            for part in chosen.split(MOST_SOLVED):
                self._try(best, choices.row[part], self._values(choices, part))
            last = end

        limit = self.limit(best)[choices.row]
        left = ((rank >= last) | (pruned_at >= limit)) & (choices.bound < limit)
        ratio = (choices.cost[left] / limit[left]).nan_to_num(nan=1.0, posinf=1.0).clamp_min(1e-3)
        chance = torch.special.ndtr(-ratio.log() / MODEL_SD)
        risk = risk.index_add(0, choices.row[left], chance.double()).clamp(max=MOST_RISK)

        return torch.where(risk < LEAST_RISK, 0.0, risk)

    def round_wide(self, best: Worlds) -> None:
        """Rounds wide whole numbers, and moves one after the other until none is better."""
        tree, rows = self.tree, torch.arange(self.tree.question.rows, device=self.tree.scm.device)
        free = best.take(rows)
        best.put(rows, self.start())
        chosen = {name: self._hardened(name, free.x[name]) for name in tree.allowed}
        three = rows.repeat(3)
        grids = {name: tree.scm.variables[name].grid for name in tree.wide}
        rounded = {
            name: torch.cat([grid.snap(free.x[name]), grid.below(free.x[name]), grid.above(free.x[name])])
            for name, grid in grids.items()
        }
        whole = {name: self._whole(name, x, three) for name, x in rounded.items()}
        self._try(best, three, repeat(chosen, 3) | whole)
        active = rows
        for _ in range(MOST_SWEEPS):
            before = self.limit(best)
            for name in tree.wide:
                others = repeat({each: self._hardened(each, best.x[each][active]) for each in tree.allowed}, len(STEPS))
                steps = grids[name].step * others[name].new_tensor(STEPS)
                moved = others[name] + steps.repeat_interleave(len(active)).unsqueeze(-1)
                tried = active.repeat(len(STEPS))
                self._try(best, tried, others | {name: self._whole(name, moved, tried)})
            active = (self.limit(best) < before).nonzero().squeeze(-1)
            if not len(active):
                return

    def _try(self, best: Worlds, rows: Tensor, values: Columns) -> None:
        """Solves rows, which may repeat, with given values, and keeps what is better."""
        if not len(rows):
            return
        relaxed = [name for name in self.tree.wide if name not in values]
        found = self.solver.solve(rows, values, relaxed, self.limit(best)[rows])
        u = select(self.tree.question.u, rows)
        cost = found.cost(u, self.distance)
        # Of each row the cheapest choice, the first of equals.
        order = cost.argsort(stable=True)
        order = order[rows[order].argsort(stable=True)]
        new = torch.ones_like(order, dtype=torch.bool)
        new[1:] = rows[order][1:] != rows[order][:-1]
        cheapest = order[new]
        limit = self.limit(best)[rows[cheapest]]
        better = cheapest[cost[cheapest] < limit - LEAST_GAIN * (1 + limit).nan_to_num(posinf=0.0)]
        best.put(rows[better], found.take(better))

    def limit(self, best: Worlds) -> Tensor:
        """The cost that another world has to fall below, with shape `(rows,)`."""
        cost = best.cost(self.tree.question.u, self.distance)

        return cost if self.cutoff is None else torch.minimum(cost, self.cutoff)

    def _values(self, choices: Choices, chosen: Tensor) -> Columns:
        return {name: values[choices.index[name][chosen]] for name, values in self.tree.values.items()}

    def _hardened(self, name: str, x: Tensor) -> Tensor:
        return self.tree.scm.variables[name].harden(x)

    def _whole(self, name: str, x: Tensor, rows: Tensor) -> Tensor:
        """Whole numbers inside bounds and what is asked."""
        variable, asked = self.tree.scm.variables[name], self.tree.allowed[name]
        x = variable.harden(x.nan_to_num())
        if asked is None:
            return x

        return select(asked, rows).nearest(x)
