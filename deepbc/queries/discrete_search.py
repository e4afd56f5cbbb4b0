"""The search over discrete variables upstream of what is asked.

For given classes the rest of the world is a continuous problem: their values are pinned, their noise is the nearest
that leads to them, or has to lead to them where it may not move. While combinations of classes are few they are
enumerated, so that the best of all is found. Whole numbers are relaxed for each of these, and rounded; beyond few
combinations classes are relaxed too. Then coordinate search changes one variable at a time until none is better, and
what may not move on its own follows its law.

References:
    Integer and Combinatorial Optimization (Nemhauser and Wolsey, 1988): enumeration, relaxation, rounding.
"""

__all__ = ["combinations_of", "enumerable", "search_discrete", "undecided"]

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from deepbc.data.variables import Variable, common_batch
from deepbc.distances import Distances
from deepbc.queries.question import Asked, Question
from deepbc.queries.roles import Roles
from deepbc.queries.worlds import Columns, Worlds
from deepbc.scm import SCM
from deepbc.scm.completion import complete_rows, sources
from deepbc.solvers.problem import SolverStatus

# All combinations of classes are tried if they are no more than this; otherwise all variables one by one, so often.
MOST_COMBINATIONS, MOST_SWEEPS = 64, 8
# So many rows are solved at once, each choice of classes for each row of the question being one.
MOST_ROWS = 2048
# One choice of classes is better than another if it costs less by this part.
LEAST_GAIN = 1e-9


class Solve(Protocol):
    """Solves rows of a question with given values of the variables in question, or with smooth stand-ins for them."""

    def __call__(self, rows: Tensor, values: Columns, *, soft: bool) -> Worlds: ...


def undecided(scm: SCM, asked: Mapping[str, Asked], scope: Collection[str]) -> tuple[str, ...]:
    """The discrete variables upstream of what is asked, or asked to lie in an interval, that are to be chosen.

    One that nothing in scope can change is not, nor one that is asked to have a value; an interval that is asked alone,
    with no such variable upstream, is not either: its nearest value is the best.
    """
    roles = Roles.of(scm, asked, scope)
    discrete = [name for name in roles.names if name in roles.discrete and name not in roles.fixed]
    upstream = [name for name in discrete if name not in asked]
    intervals = [name for name in discrete if name in asked and asked[name].interval]

    return tuple(name for name in discrete if name in upstream or (name in intervals and (upstream or len(asked) > 1)))


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
    scm: SCM,
    question: Question,
    allowed: Mapping[str, Asked | None],
    scope: Collection[str],
    distance: Distances,
    solve: Solve,
) -> Worlds:
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
    few = enumerable(scm, tuple(allowed))
    combinations = list(combinations_of(scm, few))

    return search.all(combinations) if few == tuple(allowed) else search.some(combinations)


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for the classes of a chunk of rows; those of frozen variables follow from their law."""

    scm: SCM
    question: Question
    allowed: Mapping[str, Asked | None]
    frozen: tuple[str, ...]
    distance: Distances
    solve: Solve

    @property
    def variables(self) -> dict[str, Variable]:
        """The variables that are to be chosen."""
        return {name: self.scm.variables[name] for name in self.allowed}

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.question.batch.numel()

    def all(self, combinations: Sequence[Columns]) -> Worlds:
        """Tries all combinations, the factual one first."""
        best = self._start()
        for _, values in self._groups(combinations):
            self._try(best, values)

        return best

    def some(self, combinations: Sequence[Columns]) -> Worlds:
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

    def _groups(self, combinations: Sequence[Columns]) -> Iterator[tuple[int, Columns]]:
        """Combinations for every row, with shape `(choices, rows, value)`, and how many; as many as is well at once."""
        size = max(1, MOST_ROWS // max(1, self.rows))
        for start in range(0, len(combinations), size):
            group = combinations[start : start + size]
            values = {name: torch.stack([each[name] for each in group]).unsqueeze(1) for name in group[0]}
            yield len(group), {name: each.expand(-1, self.rows, -1) for name, each in values.items()}

    def _relaxed(self, count: int, given: Columns) -> Columns:
        """The values, `(choices, rows, value)`, of the best worlds with smooth classes beside so many given ones."""
        every = torch.arange(self.rows, device=self.scm.device).repeat(count)
        found = self.solve(every, {name: each.flatten(0, 1) for name, each in given.items()}, soft=True)

        return {name: each.reshape(count, self.rows, -1) for name, each in found.x.items()}

    def _followed(self, x: Columns, values: Columns) -> Columns:
        """The values with those of frozen variables as their noise makes them, beside what a world has."""
        given = {name: each for name, each in (x | values).items() if name not in self.frozen}
        given_noise = {name: self.question.u[name] for name in self.frozen}
        empty = self.scm.schema.empty(common_batch({**given_noise, **given}))
        after = complete_rows(self.scm, sources(given, given_noise), empty).x

        return {name: after[name] for name in values}

    def _start(self) -> Worlds:
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

    def _others(self, name: str, best: Worlds) -> Tensor:
        """Other values to try for one variable, `(choices, rows, value)`: all classes, or the whole numbers beside."""
        variable, like = self.variables[name], self.question.x[name]
        if variable.levels:
            codes = torch.arange(len(variable.levels), device=like.device)
            return variable.levels.rows(codes.to(like)).unsqueeze(1).expand(-1, *like.shape)

        beside = best.x[name] + torch.tensor([-1.0, 1.0]).to(like)[:, None, None]

        return beside.clamp(variable.lower, variable.upper)

    def _try(self, best: Worlds, values: Columns, among: Tensor | None = None) -> Tensor:
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


def _one_after_the_other(choices: Sequence[Columns]) -> Columns:
    return {name: torch.cat([each[name] for each in choices]) for name in choices[0]}
