"""The nearest worlds of a chunk of rows: one continuous problem, or one for each choice of discrete values."""

__all__ = ["Search", "solve"]

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from deepbc.distances import Distances
from deepbc.numerics.batched import select
from deepbc.queries.active_set import solve_within
from deepbc.queries.asked import Asked
from deepbc.queries.choice_tree import ChoiceTree
from deepbc.queries.discrete_search import search_discrete, undecided
from deepbc.queries.mode_problem import ModeProblem
from deepbc.queries.question import Question
from deepbc.queries.search_model import relaxed
from deepbc.queries.worlds import Columns, Worlds
from deepbc.scm import SCM
from deepbc.solvers import Solver
from deepbc.solvers.problem import SolverStatus

# A solution that costs more than that of the search by this is solved again as the search did.
LEAST_LOSS = 1e-6


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

    def inner(self, aims: Mapping[str, Asked]) -> list[str]:
        """The numbers asked to lie in an interval whose own noise can meet either end."""
        if not self.solver.pins or self.solver.supports(()) is not None:
            return []

        return [
            name
            for name, aim in aims.items()
            if aim.interval
            and name in self.scope
            and not self.scm.variables[name].discrete
            and self.scm.mechanisms[name].pinnable
        ]


def solve(search: Search, question: Question, aims: Mapping[str, Asked], cutoff: Tensor | None = None) -> Worlds:
    """Finds the nearest worlds of a chunk of rows.

    Args:
        search: How they are sought.
        question: The question.
        aims: What is sought of each variable of the antecedent.
        cutoff: The cost from which a world is of no use, with shape `(rows,)`; such rows may be given up.
    """
    discrete = undecided(search.scm, aims, search.scope)
    if not discrete or not question.rows:
        return solve_within(search.problem, question, aims, search.inner(aims), cutoff)

    return _solve_discrete(search, question, aims, discrete, cutoff)


def _solve_discrete(
    search: Search,
    question: Question,
    aims: Mapping[str, Asked],
    discrete: Sequence[str],
    cutoff: Tensor | None,
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
    worlds.certainty.copy_(found.certainty)

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

    return solve_within(partial(search.problem, scm=model), question, wanted, search.inner(wanted), cutoff)


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
