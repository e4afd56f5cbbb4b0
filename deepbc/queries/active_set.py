r"""Intervals of numbers in the nearest world, by an active set: each is either idle or pinned to one of its ends.

Without its intervals a world is found by Gauss-Newton steps alone. Those that it breaks become active at the end that
they cross, and the world is found again, until none is broken. Where several are active, each is released for once,
and what leads to a nearer world is kept. Rows that end with none are left to the solver's own constraints.

References:
    Numerical Optimization (Nocedal and Wright, 2006), section 16.5: active-set methods.
"""

__all__ = ["Make", "solve_within"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.batched import select
from deepbc.queries.asked import Asked
from deepbc.queries.mode_problem import ModeProblem
from deepbc.queries.question import Question
from deepbc.queries.worlds import Worlds
from deepbc.solvers.problem import SolverStatus

# How often an interval may become active on the way, for each interval.
ROUNDS = 2
# A world is nearer if it costs less by this part.
LEAST_GAIN = 1e-9
# The states of an interval.
LOWER, IDLE, UPPER = 0, 1, 2

#: Makes the problem for given aims.
Make = Callable[[Mapping[str, Asked]], ModeProblem]


def solve_within(
    make: Make, question: Question, aims: Mapping[str, Asked], intervals: Sequence[str], cutoff: Tensor | None = None
) -> Worlds:
    """Finds the nearest worlds.

    Args:
        make: Makes the problem for given aims.
        question: The question.
        aims: What is sought.
        intervals: The variables among the aims that are numbers asked to lie in an interval, whose own noise can meet
            either end.
        cutoff: Rows that are seen to cost more than this are given up.
    """
    if not intervals or not question.rows:
        return make(aims).solve(question, cutoff)

    return _ActiveSet(make, question, aims, tuple(intervals), cutoff).solve()


@dataclass(frozen=True, slots=True)
class _ActiveSet:
    """The search for the intervals that are active in each row."""

    make: Make
    question: Question
    aims: Mapping[str, Asked]
    intervals: tuple[str, ...]
    cutoff: Tensor | None

    def solve(self) -> Worlds:
        question, count = self.question, len(self.intervals)
        every = torch.arange(question.rows, device=next(iter(question.x.values())).device)
        state = torch.full((question.rows, count), IDLE, device=every.device)
        if count == len(self.aims):
            state = self._crossed(question.x, every)
        worlds = self._activate(every, state)
        self._release(worlds, state)
        failed = ((worlds.status != SolverStatus.CONVERGED) | self._broken(worlds, every)).nonzero().squeeze(-1)
        if len(failed):
            own = self.make(select(self.aims, failed)).solve(question.select(failed), self._cutoff(failed))
            worlds.put(failed, own)

        return worlds

    def _activate(self, rows: Tensor, state: Tensor) -> Worlds:
        """Solves rows, and again with what they break as active, until nothing is broken; changes the states."""
        worlds = self._solve(rows, state)
        some = torch.arange(len(rows), device=rows.device)
        for _ in range(ROUNDS * len(self.intervals)):
            crossed = self._crossed(select(worlds.x, some), rows[some])
            new = (crossed != IDLE) & (worlds.status[some] == SolverStatus.CONVERGED).unsqueeze(-1)
            state[some] = torch.where(new, crossed, state[some])
            some = some[new.any(-1)]
            if not len(some):
                break
            worlds.put(some, self._solve(rows[some], state[some]))

        return worlds

    def _release(self, worlds: Worlds, state: Tensor) -> None:
        """Releases active intervals one by one where that leads to nearer worlds; changes worlds and states."""
        distance, rows = self.make(self.aims).distance, torch.arange(len(state), device=state.device)
        for _ in range(ROUNDS):
            nearer = torch.zeros(len(state), dtype=torch.bool, device=state.device)
            for k in range(len(self.intervals)):
                several = len(self.aims) - (state == IDLE).sum(-1) > 1
                there = (state[:, k] != IDLE) & several & (worlds.status == SolverStatus.CONVERGED)
                some = rows[there[rows]]
                if not len(some):
                    continue
                fewer = state[some]
                fewer[:, k] = IDLE
                found, u = self._activate(some, fewer), select(self.question.u, some)
                gain = found.cost(u, distance) < worlds.take(some).cost(u, distance) * (1 - LEAST_GAIN)
                better = (gain & ~self._broken(found, some)).nonzero().squeeze(-1)
                worlds.put(some[better], found.take(better))
                state[some[better]] = fewer[better]
                nearer[some[better]] = True
            rows = nearer.nonzero().squeeze(-1)
            if not len(rows):
                return

    def _solve(self, rows: Tensor, state: Tensor) -> Worlds:
        """Solves rows, each with its active intervals pinned and without the others."""
        found: Worlds | None = None
        patterns, which = state.unique(dim=0, return_inverse=True)
        for number, pattern in enumerate(patterns.tolist()):
            chosen = (which == number).nonzero().squeeze(-1)
            part = rows[chosen]
            solved = self.make(self._pinned(part, pattern)).solve(self.question.select(part), self._cutoff(part))
            if len(patterns) == 1:
                return solved.copy()
            found = found or solved.take(torch.zeros_like(rows))
            found.put(chosen, solved)
        assert found is not None  # noqa: S101 # there are rows

        return found

    def _pinned(self, rows: Tensor, pattern: Sequence[int]) -> dict[str, Asked]:
        """The aims with active intervals at their ends. Where nothing else is asked, one variable is asked to stay."""
        pinned = {name: select(each, rows) for name, each in self.aims.items() if name not in self.intervals}
        for name, where in zip(self.intervals, pattern, strict=True):
            if where != IDLE:
                aim = select(self.aims[name], rows)
                pinned[name] = Asked.value(aim.lower if where == LOWER else aim.upper)
        if not pinned:
            name = self.intervals[0]
            pinned[name] = Asked.value(self.question.x[name][rows])

        return pinned

    def _crossed(self, x: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """The end of each interval that values cross, if they do, with shape `(rows, intervals)`."""
        states = []
        for name in self.intervals:
            aim = select(self.aims[name], rows)
            below, above = (x[name] < aim.lower).squeeze(-1), (x[name] > aim.upper).squeeze(-1)
            states.append(torch.where(below, LOWER, torch.where(above, UPPER, IDLE)))

        return torch.stack(states, dim=-1)

    def _broken(self, worlds: Worlds, rows: Tensor) -> Tensor:
        """The rows in which an interval does not hold."""
        missed = [select(self.aims[name], rows).missed(worlds.x[name]) for name in self.intervals]

        return torch.cat(missed, dim=-1).amax(-1) > 0

    def _cutoff(self, rows: Tensor) -> Tensor | None:
        return None if self.cutoff is None else self.cutoff[rows]
