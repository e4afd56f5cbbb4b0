"""Which classes and whole numbers an answer has upstream of what is asked.

For given classes the rest of the world is sought as ever: their values are given, their noise is the nearest that leads
to them, or has to lead to them where it may not move. While combinations of classes are few, all are tried, so that the
best of all is found. Whole numbers are relaxed for each of these, and rounded; beyond few combinations classes are
relaxed too. Then others are tried one by one until none is better, and what may not move on its own follows its law.
The answer has hard classes, and what is asked holds with them.
"""

__all__ = ["Rows", "Solved", "all_classes", "few_classes", "moving_classes", "search_classes", "unchanging"]

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from deepbc.data.variables import Variable
from deepbc.distances import Distance
from deepbc.queries.question import Asked, Question
from deepbc.scm.model import SCM
from deepbc.solvers.problem import SolverStatus

# All combinations of classes are tried if they are no more than this; otherwise all variables one by one, so often.
MOST_COMBINATIONS, MOST_SWEEPS = 64, 8
# So many rows are solved at once, each choice of classes for each row of the question being one.
MOST_ROWS = 2048
# One choice of classes is better than another if it costs less by this part.
LEAST_GAIN = 1e-9

Rows = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Solved:
    """The counterfactual values and noise of rows, each with shape `(rows, dim)`, and how each row ended."""

    x: Rows
    u: Rows
    status: Tensor

    @classmethod
    def joined(cls, parts: Sequence["Solved"]) -> "Solved":
        x = {name: torch.cat([part.x[name] for part in parts]) for name in parts[0].x}
        u = {name: torch.cat([part.u[name] for part in parts]) for name in parts[0].u}

        return cls(x, u, torch.cat([part.status for part in parts]))

    def put(self, rows: Tensor, other: "Solved") -> None:
        """Puts other rows in the place of the given ones."""
        for mine, theirs in ((self.x, other.x), (self.u, other.u)):
            for name, each in mine.items():
                each[rows] = theirs[name]
        self.status[rows] = other.status

    def take(self, rows: Tensor) -> "Solved":
        """Takes the given rows."""
        x, u = ({name: each[rows] for name, each in part.items()} for part in (self.x, self.u))

        return Solved(x, u, self.status[rows])

    def cost(self, rest: Mapping[str, Tensor], distance: Distance) -> Tensor:
        """What the noises cost beside those at rest, with shape `(rows,)`; infinite where a row failed."""
        moved = [distance.moved(name, each, rest[name]) for name, each in self.u.items()]

        return torch.where(self.status == SolverStatus.CONVERGED, torch.stack(moved).sum(0), torch.inf)


class Solve(Protocol):
    """Solves rows of a question with given values of the variables in question, or with smooth stand-ins for them."""

    def __call__(self, rows: Tensor, values: Rows, *, soft: bool) -> Solved: ...


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
    carriers = {name for name in names if name in scope and scm.mechanisms[name].free_noise_dim}
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
) -> Solved:
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

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.question.batch.numel()

    def all(self, combinations: Sequence[Rows]) -> Solved:
        """Tries all combinations, the factual one first."""
        best = self._start()
        for _, values in self._groups(combinations):
            self._try(best, values)

        return best

    def some(self, combinations: Sequence[Rows]) -> Solved:
        """Relaxes what cannot all be tried, rounds it, and tries others one by one until none is better.

        A row of which no choice holds is not said to have none: not all were tried.
        """
        best = self._start()
        for count, given in self._groups(combinations):
            relaxed = self._relaxed(count, given)
            choices = [
                {name: self._nearest(name, relaxed[name], rounded) for name in self.variables} | given
                for rounded in (torch.round, torch.floor, torch.ceil)
            ]
            followed = [self._followed(relaxed, each) for each in choices] if self.frozen else []
            self._try(best, _one_after_the_other(choices + followed))

        active = torch.ones_like(best.status, dtype=torch.bool)
        for _ in range(MOST_SWEEPS):
            better = torch.zeros_like(active)
            for name in self.variables:
                others = self._others(name, best)
                changed = {each: best.x[each].expand(len(others), -1, -1) for each in self.variables} | {name: others}
                moves = bool(self.frozen) and name not in self.frozen
                followed = [self._followed(best.x, changed)] if moves else []
                better |= self._try(best, _one_after_the_other([changed, *followed]), active)
            active = better
            if not active.any():
                break
        best.status[(best.status == SolverStatus.INFEASIBLE) | (best.status == SolverStatus.MAX_STEPS)] = int(
            SolverStatus.INCOMPLETE_SEARCH
        )

        return best

    def _groups(self, combinations: Sequence[Rows]) -> Iterator[tuple[int, Rows]]:
        """Combinations for every row, with shape `(choices, rows, value)`, and how many; as many as is well at once."""
        size = max(1, MOST_ROWS // max(1, self.rows))
        for start in range(0, len(combinations), size):
            group = combinations[start : start + size]
            values = {name: torch.stack([each[name] for each in group]).unsqueeze(1) for name in group[0]}
            yield len(group), {name: each.expand(-1, self.rows, -1) for name, each in values.items()}

    def _relaxed(self, count: int, given: Rows) -> Rows:
        """The values, `(choices, rows, value)`, of the best worlds with smooth classes beside so many given ones."""
        every = torch.arange(self.rows, device=self.scm.device).repeat(count)
        found = self.solve(every, {name: each.flatten(0, 1) for name, each in given.items()}, soft=True)

        return {name: each.reshape(count, self.rows, -1) for name, each in found.x.items()}

    def _followed(self, x: Rows, values: Rows) -> Rows:
        """The values with those of frozen variables as their noise makes them, beside what a world has."""
        given = {name: each for name, each in (x | values).items() if name not in self.frozen}
        after, _ = self.scm.complete_rows(given, {name: self.question.u[name] for name in self.frozen})

        return {name: after[name] for name in values}

    def _start(self) -> Solved:
        """The world with factual classes, or those nearest to them that are allowed."""
        every = torch.arange(self.rows, device=self.scm.device)
        values = {name: self._nearest(name, self.question.x[name]) for name in self.variables}

        return self.solve(every, values, soft=False)

    def _nearest(self, name: str, x: Tensor, rounded: Callable[[Tensor], Tensor] = torch.round) -> Tensor:
        """The value that is nearest to a smooth one, and allowed; a whole number is rounded as is said."""
        x = torch.where(x.isfinite(), x, self.question.x[name])
        hard = self.variables[name].harden(rounded(x) if self.variables[name].whole else x)
        asked = self.allowed[name]

        return hard if asked is None else hard.clamp(asked.lower, asked.upper)

    def _others(self, name: str, best: Solved) -> Tensor:
        """Other values to try for one variable, `(choices, rows, value)`: all classes, or the whole numbers beside."""
        variable, like = self.variables[name], self.question.x[name]
        if variable.levels:
            codes = torch.arange(len(variable.levels), device=like.device)
            return variable.levels.rows(codes.to(like)).unsqueeze(1).expand(-1, *like.shape)

        beside = best.x[name] + torch.tensor([-1.0, 1.0]).to(like)[:, None, None]

        return beside.clamp(variable.lower, variable.upper)

    def _try(self, best: Solved, values: Rows, among: Tensor | None = None) -> Tensor:
        """Solves with given values, `(choices, rows, value)`, where they are others and allowed; keeps what is better.

        Args:
            best: The best so far, which is changed.
            values: The choices.
            among: A mask of the rows to try; None tries all.

        Returns:
            A mask of the rows that are better now.
        """
        other = torch.stack([(each != best.x[name]).any(-1) for name, each in values.items()]).any(0)
        for name, asked in self.allowed.items():
            other &= asked is None or asked.missed(values[name]).amax(-1) == 0
        if among is not None:
            other &= among
        choice, row = other.nonzero().unbind(-1)
        better = torch.zeros_like(best.status, dtype=torch.bool)
        if not len(row):
            return better

        found = self.solve(row, {name: each[choice, row] for name, each in values.items()}, soft=False)
        every = torch.arange(self.rows, device=row.device)
        u = {name: each[row] for name, each in self.question.u.items()}
        before = best.cost(self.question.u, self.distance)
        costs = torch.full_like(other, torch.inf, dtype=before.dtype)
        costs[choice, row] = found.cost(u, self.distance)
        least, chosen = costs.min(0)
        better = least < before - LEAST_GAIN * (1 + before).nan_to_num(posinf=0.0)
        places = torch.full_like(other, -1, dtype=torch.long)
        places[choice, row] = torch.arange(len(row), device=row.device)
        best.put(every[better], found.take(places[chosen[better], every[better]]))

        return better


def _one_after_the_other(choices: Sequence[Rows]) -> Rows:
    return {name: torch.cat([each[name] for each in choices]) for name in choices[0]}
