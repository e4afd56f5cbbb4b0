"""Which classes and whole numbers an answer has upstream of what is asked.

For given classes the rest of the world is sought as ever: their values are given, their noise is the nearest that leads
to them, or has to lead to them where it may not move. While combinations of classes are few, all are tried, so that the
best of all is found. Whole numbers are relaxed for each of these, and rounded; beyond few combinations classes are
relaxed too. Then others are tried one by one until none is better, and what may not move on its own follows its law.
The answer has hard classes, and what is asked holds with them.
"""

__all__ = ["Found", "Rows", "all_classes", "few_classes", "moving_classes", "search_classes", "unchanging"]

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from deepbc.distances import Distance
from deepbc.queries.question import Asked, Question
from deepbc.scm import SCM
from deepbc.solvers.problem import Trouble
from deepbc.variables import Variable

# All combinations of classes are tried if they are no more than this; otherwise all variables one by one, so often.
MOST_COMBINATIONS, MOST_SWEEPS = 64, 8
# One choice of classes is better than another if it costs less by this part.
LEAST_GAIN = 1e-9

Rows = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Found:
    """The counterfactual values and noise of rows, each with shape `(rows, dim)`, and how each row ended."""

    x: Rows
    u: Rows
    trouble: Tensor

    @classmethod
    def joined(cls, parts: Sequence["Found"]) -> "Found":
        x = {name: torch.cat([part.x[name] for part in parts]) for name in parts[0].x}
        u = {name: torch.cat([part.u[name] for part in parts]) for name in parts[0].u}

        return cls(x, u, torch.cat([part.trouble for part in parts]))

    def put(self, rows: Tensor, other: "Found") -> None:
        """Puts other rows in the place of the given ones."""
        for mine, theirs in ((self.x, other.x), (self.u, other.u)):
            for name, each in mine.items():
                each[rows] = theirs[name]
        self.trouble[rows] = other.trouble

    def take(self, rows: Tensor) -> "Found":
        """Takes the given rows."""
        x, u = ({name: each[rows] for name, each in part.items()} for part in (self.x, self.u))

        return Found(x, u, self.trouble[rows])


class Solve(Protocol):
    """Solves rows of a question with given values of the variables in question, or with smooth stand-ins for them."""

    def __call__(self, rows: Tensor, values: Rows, *, soft: bool) -> Found: ...


def unchanging(scm: SCM, names: Sequence[str], changing: Collection[str]) -> tuple[str, ...]:
    """The variables that cannot change, because neither they nor any cause of theirs does; `names` are in order."""
    fixed: list[str] = []
    for name in names:
        if name not in changing and all(parent in fixed for parent in scm.graph.parents(name)):
            fixed.append(name)

    return tuple(fixed)


def moving_classes(scm: SCM, asked: Mapping[str, Asked], scope: Collection[str]) -> tuple[str, ...]:
    """The discrete variables upstream of what is asked, or asked to lie in an interval, that are to be chosen.

    One that nothing in scope can change is not, nor one that is asked to have a value; an interval that is asked alone,
    with no such variable upstream, is not either: its nearest value is the best.
    """
    names = tuple(name for name in scm.graph.order if name in {*asked, *scm.graph.ancestors(*asked)})
    carriers = {name for name in names if name in scope and scm.mechanisms[name].moving_dim}
    fixed = unchanging(scm, names, carriers)
    discrete = [name for name in names if scm.variables[name].discrete and name not in fixed]
    upstream = [name for name in discrete if name not in asked]
    intervals = [name for name in discrete if name in asked and asked[name].interval]

    return tuple(name for name in discrete if name in upstream or (name in intervals and (upstream or len(asked) > 1)))


def few_classes(scm: SCM, names: Sequence[str]) -> tuple[str, ...]:
    """The categories among discrete variables, if their combinations are few; none otherwise."""
    levels = {name: scm.variables[name].levels for name in names}
    sizes = {name: len(each) for name, each in levels.items() if each}

    return tuple(sizes) if math.prod(sizes.values()) <= MOST_COMBINATIONS else ()


def all_classes(scm: SCM, names: Sequence[str]) -> Iterator[Rows]:
    """All combinations of the classes of some categories, each a row `(value,)` by variable."""
    levels = {name: scm.levels[name] for name in names}
    codes = [torch.arange(len(each), device=scm.device) for each in levels.values()]
    for combination in itertools.product(*codes):
        pairs = zip(levels.items(), combination, strict=True)
        yield {name: each.rows(code.to(scm.dtype)) for (name, each), code in pairs}


def search_classes(
    scm: SCM,
    question: Question,
    allowed: Mapping[str, Asked | None],
    scope: Collection[str],
    distance: Distance,
    solve: Solve,
) -> Found:
    """Finds the best values of discrete variables for each row, and the world that goes with them.

    Args:
        scm: The model.
        question: The question.
        allowed: For each variable that is to be chosen, between which values it is asked to lie, if it is.
        scope: The variables whose noise may move.
        distance: How far two noises are apart.
        solve: Finds the world for given values.
    """
    search = _Search(scm, question, allowed, tuple(name for name in allowed if name not in scope), distance, solve)
    few = few_classes(scm, tuple(allowed))
    combinations = list(all_classes(scm, few))

    return search.all(combinations) if few == tuple(allowed) else search.some(combinations)


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for the classes of a chunk of rows; those of frozen variables follow from their law."""

    scm: SCM
    question: Question
    allowed: Mapping[str, Asked | None]
    frozen: tuple[str, ...]
    distance: Distance
    solve: Solve

    @property
    def variables(self) -> dict[str, Variable]:
        """The variables that are to be chosen."""
        return {name: self.scm.variables[name] for name in self.allowed}

    def all(self, combinations: Sequence[Rows]) -> Found:
        """Tries all combinations, the factual one first."""
        best = self._start()
        for values in combinations:
            self._try(best, {name: each.expand_as(self.question.x[name]) for name, each in values.items()})

        return best

    def some(self, combinations: Sequence[Rows]) -> Found:
        """Relaxes what cannot all be tried, rounds it, and tries others one by one until none is better.

        A row of which no choice holds is not said to have none: not all were tried.
        """
        best = self._start()
        every = torch.arange(len(best.trouble), device=best.trouble.device)
        for given in combinations:
            values = {name: each.expand_as(self.question.x[name]) for name, each in given.items()}
            relaxed = self.solve(every, values, soft=True)
            for rounded in (torch.round, torch.floor, torch.ceil):
                found = {name: self._nearest(name, relaxed.x[name], rounded) for name in self.variables}
                self._try(best, found | values)
                if self.frozen:
                    self._try(best, self._followed(relaxed, found | values))

        active = every
        for _ in range(MOST_SWEEPS):
            better = torch.zeros_like(best.trouble, dtype=torch.bool)
            for name in self.variables:
                for other in self._others(name, best):
                    changed = {**self._values(best), name: other}
                    better |= self._try(best, changed, active)
                    if self.frozen and name not in self.frozen:
                        better |= self._try(best, self._followed(best, changed), active)
            active = better.nonzero().squeeze(-1)
            if not len(active):
                break
        best.trouble[best.trouble == Trouble.STUCK] = int(Trouble.SLOW)

        return best

    def _followed(self, world: Found, values: Rows) -> Rows:
        """The values with those of frozen variables as their noise makes them, beside what a world has."""
        given = {name: each for name, each in (world.x | values).items() if name not in self.frozen}
        after, _ = self.scm.complete_rows(given, {name: self.question.u[name] for name in self.frozen})

        return {name: after[name] for name in values}

    def _start(self) -> Found:
        """The world with factual classes, or those nearest to them that are allowed."""
        every = torch.arange(self.question.batch.numel(), device=next(iter(self.question.x.values())).device)
        values = {name: self._nearest(name, self.question.x[name]) for name in self.variables}

        return self.solve(every, values, soft=False)

    def _values(self, found: Found) -> Rows:
        return {name: found.x[name] for name in self.variables}

    def _nearest(self, name: str, x: Tensor, rounded: Callable[[Tensor], Tensor] = torch.round) -> Tensor:
        """The value that is nearest to a smooth one, and allowed; a whole number is rounded as is said."""
        x = torch.where(x.isfinite(), x, self.question.x[name])
        hard = self.variables[name].harden(rounded(x) if self.variables[name].whole else x)
        asked = self.allowed[name]

        return hard if asked is None else hard.clamp(asked.lower, asked.upper)

    def _others(self, name: str, best: Found) -> Iterator[Tensor]:
        """Other values to try for one variable: all classes, or the whole numbers beside."""
        variable, like = self.variables[name], self.question.x[name]
        if variable.levels:
            codes = torch.arange(len(variable.levels), device=like.device)
            yield from variable.levels.rows(codes.to(like)).unsqueeze(1).expand(-1, *like.shape)
            return
        for step in (-1, 1):
            yield (best.x[name] + step).clamp(variable.lower, variable.upper)

    def _try(self, best: Found, values: Rows, among: Tensor | None = None) -> Tensor:
        """Solves with the given values, where they are others and allowed, and keeps what is better; says where."""
        other = torch.stack([(each != best.x[name]).any(-1) for name, each in values.items()]).any(0)
        for name, asked in self.allowed.items():
            other &= asked is None or asked.missed(values[name]).amax(-1) == 0
        if among is not None:
            other &= torch.zeros_like(other).index_fill(0, among, True)
        rows = other.nonzero().squeeze(-1)
        better = torch.zeros_like(other)
        if not len(rows):
            return better

        found = self.solve(rows, {name: each[rows] for name, each in values.items()}, soft=False)
        before = self._cost(best.take(rows), rows)
        gains = self._cost(found, rows) < before - LEAST_GAIN * (1 + before).nan_to_num(posinf=0.0)
        best.put(rows[gains], found.take(gains))
        better[rows[gains]] = True

        return better

    def _cost(self, found: Found, rows: Tensor) -> Tensor:
        """What the noises of a world cost, infinite where it failed."""
        moved = [self.distance.moved(name, each, self.question.u[name][rows]) for name, each in found.u.items()]

        return torch.where(found.trouble == Trouble.NONE, torch.stack(moved).sum(0), torch.inf)
