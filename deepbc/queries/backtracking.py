r"""Backtracking counterfactuals: what would have been, had X been x*, with every causal law kept?

The change is traced back to the noise. The mode, the most likely such world, solves

.. math:: \min_{u'} \; \sum_i d_i(u'_i, u_i) \quad \text{subject to} \quad F_S(u') = x^*_S.

Where a variable of the antecedent is exactly invertible it is *pinned*: its value is given and its noise implied, so
that the antecedent holds by construction and only the noises of its causes are sought. Only the antecedent and its
causes take part; everything else is completed once, afterwards. The mode is the minimum of the distance, which is not
in general the peak of the density that is sampled.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), section 3.
"""

__all__ = ["Search", "backtrack", "find_mode", "inside_bounds", "read_checked"]

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_classes, check_type
from deepbc.distances import Distances, read_distance
from deepbc.errors import SettingError
from deepbc.numerics.batched import join, select
from deepbc.progress import progress
from deepbc.queries.answer import answer
from deepbc.queries.choice_tree import ChoiceTree
from deepbc.queries.discrete_search import search_discrete, undecided
from deepbc.queries.mode_problem import ModeProblem
from deepbc.queries.question import Asked, Question, read_question
from deepbc.queries.results import Counterfactual
from deepbc.queries.roles import Roles
from deepbc.queries.search_model import relaxed
from deepbc.queries.status import LARGEST_ERROR, Outcome, RowStatuses, Status, status_of
from deepbc.queries.worlds import Columns, Worlds
from deepbc.scm import SCM
from deepbc.scm.schema import read_names
from deepbc.solvers import Exact, Solver
from deepbc.solvers.problem import SolverStatus

# So many rows are solved at once; and where discrete variables are chosen, each of many choices being one.
CHUNK, DISCRETE_CHUNK = 65_536, 2048
# A solution that costs more than that of the search by this is solved again as the search did.
LEAST_LOSS = 1e-6


def backtrack(
    scm: SCM,
    factual: Any,
    antecedent: Any,
    *,
    solver: Solver | None = None,
    distance: Any = None,
    scope: Sequence[str] | None = None,
) -> Counterfactual:
    r"""Answers what would have been different, had the antecedent held, all laws kept: the most likely such world.

    Args:
        scm: The fitted model.
        factual: The factual world: one row or many, values of every variable (a `Predictor`'s may be left out).
        antecedent: For each variable one value for all rows or one a row, or an interval: `at_least`, `at_most`,
            `between`. One factual row with many values gives as many rows.
        solver: How the world is found; `Exact()` by default.
        distance: How far two noises are apart: `Squared()` by default, another `Distance`, a mapping from variables to
            distances, or a differentiable function `(u_star, u) -> cost` of noises `(rows, noise)`.
        scope: The variables whose noise may carry the change; None is all.

    Returns:
        The answer. `moved` says which noise carried the change, `error` how far a fresh prediction from the noise
        misses the antecedent, `status` how each row ended.

    Example:
        >>> from deepbc import CausalGraph, Equation
        >>> law = Equation(predict=lambda u, parents: u, abduct=lambda x, parents: x)
        >>> double = Equation(predict=lambda u, p: 2 * p["a"] + u, abduct=lambda x, p: x - 2 * p["a"])
        >>> scm = SCM(CausalGraph.parse("a -> b"), {"a": law, "b": double})
        >>> cf = backtrack(scm, {"a": 1.0, "b": 2.0}, {"b": 7.0})
        >>> round(cf.values["a"].item(), 6), round(cf.distance.item(), 6), cf.status
        (3.0, 5.0, 'converged')
    """
    solver = Exact() if solver is None else solver
    check_type(solver, Solver, "solver")
    question = read_question(scm, factual, antecedent)
    read = read_checked(scm, question, distance)
    search = Search(scm, solver, read, read_names(scope, tuple(scm.graph), "scope"))
    worlds, statuses = find_mode(search, question)

    with torch.no_grad():
        return answer(scm, question, (worlds.x, worlds.u), read, statuses, certainty=worlds.certainty)


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


def read_checked(scm: SCM, question: Question, distance: Any) -> Distances:
    """Reads a distance, and checks that it is least where nothing moves."""
    _check_derivable("backtracking")
    read = read_distance(distance, tuple(scm.graph))
    for name, rows in question.u.items():
        read.of(name).check_rest(rows[:CHUNK], f"distance of {name!r}")

    return read


def find_mode(search: Search, question: Question) -> tuple[Worlds, RowStatuses]:
    """Finds the nearest world of every row, a chunk at a time, and says what happened to each row."""
    scm, asked = search.scm, question.asked
    outside = _outside(scm, asked)
    discrete = undecided(scm, asked, search.scope)
    aims = _aims(scm, question, outside.any(0), lone=len(asked) == 1 and not discrete)
    solver = search.solver
    check_classes(solver.pins, [*discrete, *(name for name in aims if scm.variables[name].discrete)], solver)
    size = DISCRETE_CHUNK if discrete else CHUNK
    slices = [slice(start, start + size) for start in range(0, question.rows, size)] or [slice(0, 0)]
    parts = []
    with progress("backtrack", len(slices), None if len(slices) > 1 else False) as shown:
        for rows in slices:
            part, sought = question.select(rows), select(aims, rows)
            solve = _solve_discrete if discrete and part.rows else _solve
            parts.append(solve(search, part, sought))
            shown.advance()
    worlds = join(parts)

    return worlds, _say(search.problem(aims), worlds.status, outside)


def _solve(search: Search, question: Question, aims: Mapping[str, Asked]) -> Worlds:
    return search.problem(aims).solve(question)


def _solve_discrete(search: Search, question: Question, aims: Mapping[str, Asked]) -> Worlds:
    """Solves a chunk of rows for the best of the classes and whole numbers that may change."""
    scm, solver = search.scm, search.solver
    discrete = undecided(scm, aims, search.scope)
    names = {*aims, *scm.graph.ancestors(*aims)}
    part = scm.part([name for name in scm.graph.order if name in names])
    within = replace(search, scm=part, scope=tuple(name for name in search.scope if name in names))
    inner = replace(
        question, x={name: question.x[name] for name in part.graph}, u={name: question.u[name] for name in part.graph}
    )
    allowed = {name: aims.get(name) for name in discrete}
    met = [*discrete, *within.problem(aims).roles.met]
    tree = ChoiceTree(part, inner, aims, Roles.of(part, aims, within.scope, met), allowed, search.distance)
    choose = _ChoiceSolver(within, inner, aims, frozenset(tree.wide) - set(within.scope))
    found = search_discrete(tree, choose, search.distance, solver.most_moves)

    pinned = {name: found.x[name] for name in discrete if name not in choose.follow}
    worlds = _pinned(search, aims, pinned, choose.follow).solve(question)
    lost = found.cost(inner.u, search.distance) < worlds.cost(question.u, search.distance) - LEAST_LOSS
    if lost.any():
        again = _pinned(replace(search, solver=solver.screening()), aims, pinned, choose.follow).solve(question)
        worlds.put(lost.nonzero().squeeze(-1), again.take(lost.nonzero().squeeze(-1)))
    unmet = found.status != SolverStatus.CONVERGED
    worlds.status[unmet & (worlds.status != SolverStatus.CONVERGED)] = found.status[
        unmet & (worlds.status != SolverStatus.CONVERGED)
    ]
    worlds.certainty.copy_(found.certainty)

    return worlds


def _pinned(
    search: Search, aims: Mapping[str, Asked], values: Columns, follow: Collection[str], relax: Collection[str] = ()
) -> ModeProblem:
    """The problem with given values of discrete variables, and smooth stand-ins for the laws of some others."""
    wanted = {name: each for name, each in aims.items() if name not in values}
    wanted |= {name: Asked(each, each, False) for name, each in values.items()}
    model = relaxed(search.scm, relax) if relax else search.scm
    model = relaxed(model, follow, straight_through=True) if follow else model

    return search.problem(wanted, scm=model)


@dataclass(frozen=True, slots=True)
class _ChoiceSolver:
    """Solves for given values of discrete variables; those of `follow` are what their law makes of them."""

    search: Search
    question: Question
    aims: Mapping[str, Asked]
    follow: frozenset[str]

    def solve(self, rows: Tensor, values: Columns, relax: Collection[str] = ()) -> Worlds:
        return self._problem(rows, values, relax).solve(self.question.select(rows))

    def model_cost(self, rows: Tensor, values: Columns, relax: Collection[str] = ()) -> tuple[Tensor, bool] | None:
        return self._problem(rows, values, relax).model_cost(self.question.select(rows))

    def _problem(self, rows: Tensor, values: Columns, relax: Collection[str]) -> ModeProblem:
        search = replace(self.search, solver=self.search.solver.screening())
        pinned = {name: each for name, each in values.items() if name not in self.follow}
        aims = {name: select(each, rows) for name, each in self.aims.items()}

        return _pinned(search, aims, pinned, self.follow, [name for name in relax if name not in self.follow])


def _aims(scm: SCM, question: Question, outside: Tensor, *, lone: bool) -> dict[str, Asked]:
    """What is sought: intervals inside the bounds, shrunk; one that stands alone is its nearest value.

    A row that asks for what is outside the bounds stands still.
    """
    aims = {}
    for name, asked in question.asked.items():
        x, aim = question.x[name], asked
        if asked.interval:
            aim = inside_bounds(scm, name, asked)
        if asked.interval and lone:
            nearest = torch.where(asked.missed(x) == 0, x, x.clamp(aim.lower, aim.upper))
            aim = Asked(nearest, nearest, False)
        lower, upper = (torch.where(outside.unsqueeze(-1), x, end) for end in (aim.lower, aim.upper))
        aims[name] = Asked(lower, upper, aim.interval)

    return aims


def inside_bounds(scm: SCM, name: str, asked: Asked) -> Asked:
    """The part of an interval inside the bounds of its variable; that of numbers is shrunk by an interior margin."""
    variable = scm.variables[name]
    lower, upper = (0.0, len(variable.levels) - 1.0) if variable.levels else (variable.lower, variable.upper)
    inside = Asked(asked.lower.clamp(min=lower), asked.upper.clamp(max=upper), True)

    return inside if variable.discrete else inside.shrunk(scm.schema.sd(name))


def _outside(scm: SCM, asked: Mapping[str, Asked]) -> Tensor:
    """Which variables of the antecedent, in order, are asked to leave their bounds, with shape `(asked, rows)`."""
    supports = {name: scm.variables[name].support for name in asked}

    return torch.stack(
        [
            ((each.upper <= supports[name][0]) | (each.lower >= supports[name][1])).any(-1)
            for name, each in asked.items()
        ]
    )


def _say(problem: ModeProblem, status: Tensor, outside: Tensor) -> RowStatuses:
    """Says in words what happened to each row."""
    solver, names = problem.solver, ", ".join(map(repr, problem.aims))
    words = {Outcome(each): status_of(Outcome(each), solver=repr(solver), names=names) for each in SolverStatus}
    words[Outcome.MISSED] = status_of(Outcome.MISSED)
    if solver.reach > LARGEST_ERROR:
        words[Outcome.CONVERGED] = status_of(Outcome.CONVERGED_NEARLY)
    words[Outcome.INFEASIBLE] = _infeasible(problem, names)
    outcome = status.clone()
    if not problem.reachable:
        outcome[outcome != Outcome.CONVERGED] = int(Outcome.INFEASIBLE)

    left = []
    for name, rows in zip(problem.aims, outside, strict=True):
        variable = problem.scm.variables[name]
        outcome[rows] = int(Outcome.OUT_OF_BOUNDS)
        said = status_of(Outcome.OUT_OF_BOUNDS, name=name, lower=variable.lower, upper=variable.upper)
        left.append((rows, said))

    return RowStatuses(outcome, words, tuple(left), solver.reach)


def _infeasible(problem: ModeProblem, names: str) -> Status:
    """What a row says whose antecedent cannot be reached from where its solver ended."""
    if not problem.reachable:
        return status_of(Outcome.FROZEN, names=names)
    own = problem.solver.infeasible_reason(tuple(problem.aims))
    if own is not None:
        return Status("infeasible", *own)

    return status_of(Outcome.CONTRADICTORY if len(problem.aims) > 1 else Outcome.INFEASIBLE, names=names)


def _check_derivable(where: str) -> None:
    """Laws can be derived; nothing can in torch's inference mode, where it would go unsaid."""
    if torch.is_inference_mode_enabled():
        raise SettingError(
            f"{where}: needs derivatives, which torch.inference_mode() forbids. Leave it, or write torch.no_grad()."
        )
