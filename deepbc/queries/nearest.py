"""The nearest worlds of a chunk of rows: one continuous problem, or one for each choice of discrete values.

Where censored variables take part it is the best over their patterns (`censored_patterns`).
"""

__all__ = ["Search", "solve"]

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.distances import Distances
from deepbc.numerics.batched import select
from deepbc.queries.asked import Asked
from deepbc.queries.censored_patterns import Pattern, censored_of, drop_outside, find_patterns
from deepbc.queries.choice_tree import ChoiceTree
from deepbc.queries.discrete_search import MOST_RISK, ROUNDING_RISK, search_discrete, undecided
from deepbc.queries.mode_problem import ModeProblem
from deepbc.queries.question import Question
from deepbc.queries.search_model import relaxed
from deepbc.queries.worlds import Columns, Worlds
from deepbc.scm import SCM
from deepbc.scm.completion import complete_rows, sources
from deepbc.solvers import Solver
from deepbc.solvers.problem import SolverStatus

# A solution that costs more than that of the search by this is solved again as the search did.
LEAST_LOSS = 1e-6
# The status of a solution that left the inside of a censored variable, on its way through the search.
LEFT = -1


@dataclass(frozen=True, slots=True)
class Search:
    """How the nearest world is sought: the model, the solver, the distance, and the variables whose noise may move."""

    scm: SCM
    solver: Solver
    distance: Distances
    scope: tuple[str, ...]

    def problem(
        self, aims: Mapping[str, Asked], *, scm: SCM | None = None, solver: Solver | None = None
    ) -> ModeProblem:
        """The problem for given aims, if need be with another model or solver."""
        return ModeProblem.of(scm or self.scm, solver or self.solver, self.distance, self.scope, aims)


def solve(search: Search, question: Question, aims: Mapping[str, Asked], cutoff: Tensor | None = None) -> Worlds:
    """Finds the nearest worlds of a chunk of rows.

    Args:
        search: How they are sought.
        question: The question.
        aims: What is sought of each variable of the antecedent.
        cutoff: The cost from which a world is of no use, with shape `(rows,)`; such rows may be given up.
    """
    censored = censored_of(search.scm, aims, search.scope) if search.solver.pins else ()
    if not censored or not question.rows:
        return _solve_decided(search, question, aims, cutoff)

    return _BestPattern(search, question, aims, cutoff).solve(censored)


@dataclass(frozen=True, slots=True)
class _BestPattern:
    """The search over patterns of censored variables."""

    search: Search
    question: Question
    aims: Mapping[str, Asked]
    cutoff: Tensor | None

    def solve(self, names: Sequence[str]) -> Worlds:
        """Solves each row with its patterns, and keeps the nearest world."""
        scm, question = self.search.scm, self.question
        failed = torch.full_like(question.u[names[0]][:, 0], int(SolverStatus.INFEASIBLE), dtype=torch.long)
        best = Worlds(dict(question.x), dict(question.u), failed, torch.ones_like(failed, dtype=torch.double)).copy()
        patterns, complete = find_patterns(scm, question, self.aims, names)
        dropped = []
        risk = torch.zeros_like(best.certainty) if complete else torch.full_like(best.certainty, ROUNDING_RISK)
        for pattern in patterns:
            found = self._try(best, pattern)
            risk[pattern.rows] += 1 - found.certainty
            if (found.status == LEFT).any():
                dropped.append(Pattern(pattern.rows[found.status == LEFT], pattern.states))
        for pattern in dropped:
            open_rows = best.status[pattern.rows] != SolverStatus.CONVERGED
            if open_rows.any():
                self._try(best, Pattern(pattern.rows[open_rows], pattern.states), confined=True)
        best.certainty.copy_(1 - risk.clamp(max=MOST_RISK))

        return self._as_led_to(best)

    def _try(self, best: Worlds, pattern: Pattern, *, confined: bool = False) -> Worlds:
        """Solves the rows of a pattern, and keeps what is nearer; a failure tells more than that there is no world."""
        rows, search = pattern.rows, replace(self.search, scm=pattern.model(self.search.scm))
        part = self.question.select(rows)
        before = best.take(rows).cost(part.u, search.distance)
        before = before if self.cutoff is None else torch.minimum(before, self.cutoff[rows])
        aims = pattern.aims(self.search.scm, self.question, self.aims, confined=confined)
        found = _solve_decided(search, part, aims, before)
        better = found.cost(part.u, search.distance) < before
        best.put(rows[better], found.take(better.nonzero().squeeze(-1)))
        told = (best.status[rows] == SolverStatus.INFEASIBLE) & (found.status != SolverStatus.CONVERGED)
        told &= (found.status != LEFT) & (found.status != SolverStatus.INFEASIBLE)
        best.put(rows[told], found.take(told.nonzero().squeeze(-1)))

        return found

    def _as_led_to(self, best: Worlds) -> Worlds:
        """Gives rows without a world the values that their noise leads to."""
        scm, rows = self.search.scm, (best.status != SolverStatus.CONVERGED).nonzero().squeeze(-1)
        if len(rows):
            led_to = complete_rows(scm, sources({}, select(best.u, rows)), scm.schema.empty([len(rows)]))
            for name, x in led_to.x.items():
                best.x[name][rows] = x

        return best


def _solve_decided(
    search: Search, question: Question, aims: Mapping[str, Asked], cutoff: Tensor | None = None
) -> Worlds:
    """Finds the nearest worlds of rows in which it is decided where censored variables are."""
    discrete = undecided(search.scm, aims, search.scope)
    if not discrete or not question.rows:
        return _solve_inside(search.problem(aims), question, search, cutoff)

    return _solve_discrete(search, question, aims, discrete, cutoff)


def _solve_inside(problem: ModeProblem, question: Question, search: Search, cutoff: Tensor | None) -> Worlds:
    """Solves rows; those that leave the inside of a censored variable failed."""
    return drop_outside(search.scm, problem.solve(question, cutoff), LEFT)


def _solve_discrete(
    search: Search, question: Question, aims: Mapping[str, Asked], discrete: Sequence[str], cutoff: Tensor | None
) -> Worlds:
    """Solves a chunk of rows for the best of the classes and whole numbers that may change."""
    scm = search.scm
    names = {*aims, *scm.graph.ancestors(*aims)}
    part = scm.part([name for name in scm.graph.order if name in names])
    within = replace(search, scm=part, scope=tuple(name for name in search.scope if name in names))
    inner = replace(
        question, x={name: question.x[name] for name in part.graph}, u={name: question.u[name] for name in part.graph}
    )
    allowed = {name: aims.get(name) for name in discrete}
    met = [name for name in within.problem(aims).roles.met if name not in allowed]
    tree = ChoiceTree(part, inner, aims, scope=within.scope, met=met, allowed=allowed, distance=search.distance)
    choose = _ChoiceSolver(within, inner, aims, frozenset(tree.wide) - set(within.scope))
    found = search_discrete(tree, choose, search.distance, cutoff)
    pinned = {name: found.x[name] for name in discrete if name not in choose.follow}
    if cutoff is None:
        return _solve_again(search, question, aims, found, pinned, choose.follow)

    every = Worlds.given_up(question.x, question.u)
    every.certainty.copy_(found.certainty)
    # Rows without a cutoff are told how they failed.
    rows = ((found.cost(inner.u, search.distance) < cutoff) | cutoff.isinf()).nonzero().squeeze(-1)
    if len(rows):
        asked = question.select(rows)
        again = _solve_again(search, asked, select(aims, rows), found.take(rows), select(pinned, rows), choose.follow)
        every.put(rows, again)

    return every


def _solve_again(
    search: Search,
    question: Question,
    aims: Mapping[str, Asked],
    found: Worlds,
    pinned: Columns,
    follow: Collection[str],
) -> Worlds:
    """Solves rows with the discrete values that a search found, to the end."""
    u = {name: question.u[name] for name in found.u}
    worlds = _solve_pinned(search, question, aims, pinned, follow)
    lost = found.cost(u, search.distance) < worlds.cost(question.u, search.distance) - LEAST_LOSS
    if lost.any():
        worlds = worlds.copy()
        screening = replace(search, solver=search.solver.screening())
        again = _solve_pinned(screening, question, aims, pinned, follow)
        worlds.put(lost.nonzero().squeeze(-1), again.take(lost.nonzero().squeeze(-1)))
    unmet = (found.status != SolverStatus.CONVERGED) & (worlds.status != SolverStatus.CONVERGED)
    worlds.status[unmet] = found.status[unmet]
    worlds.certainty.mul_(found.certainty)

    return worlds


def _solve_pinned(
    search: Search,
    question: Question,
    aims: Mapping[str, Asked],
    values: Columns,
    follow: Collection[str],
    relax: Collection[str] = (),
    cutoff: Tensor | None = None,
) -> Worlds:
    """Solves with given values of discrete variables, and smooth stand-ins for the laws of some others."""
    wanted = {name: each for name, each in aims.items() if name not in values}
    wanted |= {name: Asked.value(each) for name, each in values.items()}
    model = relaxed(search.scm, relax) if relax else search.scm
    model = relaxed(model, follow, straight_through=True) if follow else model

    return _solve_inside(search.problem(wanted, scm=model), question, search, cutoff)


@dataclass(frozen=True, slots=True)
class _ChoiceSolver:
    """Solves for given values of discrete variables; those of `follow` are what their law makes of them."""

    search: Search
    question: Question
    aims: Mapping[str, Asked]
    follow: frozenset[str]

    def solve(self, rows: Tensor, values: Columns, relax: Collection[str] = (), cutoff: Tensor | None = None) -> Worlds:
        search = replace(self.search, solver=self.search.solver.screening())
        pinned = {name: each for name, each in values.items() if name not in self.follow}
        aims = {name: select(each, rows) for name, each in self.aims.items()}
        relax = [name for name in relax if name not in self.follow]

        return _solve_pinned(search, self.question.select(rows), aims, pinned, self.follow, relax, cutoff)
