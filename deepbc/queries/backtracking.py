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

__all__ = ["backtrack", "find_mode", "inside_bounds", "read_checked"]

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_classes, check_type
from deepbc.distances import Distances, read_distance
from deepbc.errors import SettingError
from deepbc.numerics.batched import join, select
from deepbc.progress import progress
from deepbc.queries.answer import answer
from deepbc.queries.discrete_search import undecided
from deepbc.queries.growing_spheres import is_searchable, search_spheres
from deepbc.queries.mode_problem import ModeProblem
from deepbc.queries.nearest import Search, solve
from deepbc.queries.question import Asked, Question, read_question
from deepbc.queries.results import Counterfactual
from deepbc.queries.status import LARGEST_ERROR, Outcome, RowStatuses, Status, status_of
from deepbc.queries.supports import search_supports
from deepbc.queries.worlds import Worlds
from deepbc.scm import SCM
from deepbc.scm.completion import join_parents
from deepbc.scm.schema import read_names
from deepbc.solvers import Exact, Solver
from deepbc.solvers.problem import SolverStatus

# So many rows are solved at once; and where discrete variables are chosen, each of many choices being one.
CHUNK, DISCRETE_CHUNK, SEARCHED_CHUNK = 65_536, 2048, 256


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
    classes = discrete or any(scm.variables[name].discrete for name in asked)
    sparse = bool(classes) and solver.supports(search.scope) is not None
    size = DISCRETE_CHUNK if discrete else CHUNK
    slices = [slice(start, start + size) for start in range(0, question.rows, size)] or [slice(0, 0)]
    parts = []
    with progress("backtrack", len(slices), None if len(slices) > 1 else False) as shown:
        for rows in slices:
            part, sought = question.select(rows), select(aims, rows)
            parts.append((search_supports if sparse and part.rows else solve)(search, part, sought))
            shown.advance()
    worlds = join(parts)
    if not sparse and solver.pins:
        _search_steps(search, question, _aims(scm, question, outside.any(0), lone=False), worlds, outside.any(0))

    return worlds, _say(search.problem(aims), worlds.status, outside)


def _search_steps(
    search: Search, question: Question, aims: Mapping[str, Asked], worlds: Worlds, outside: Tensor
) -> None:
    """Searches without derivatives where they are of no use, and keeps what is nearer than what a solver found."""
    sought = (worlds.status == SolverStatus.ZERO_GRADIENT) | _on_a_step(search.scm, aims, worlds)
    rows = (sought & ~outside).nonzero().squeeze(-1)
    if not len(rows) or not is_searchable(search, aims):
        return

    for part in rows.split(SEARCHED_CHUNK):
        asked, before = question.select(part), worlds.take(part)
        found = search_spheres(search, asked, select(aims, part))
        better = found.cost(asked.u, search.distance) < before.cost(asked.u, search.distance)
        worlds.put(part[better], found.take(better.nonzero().squeeze(-1)))


def _on_a_step(scm: SCM, aims: Mapping[str, Asked], worlds: Worlds) -> Tensor:
    """Where a model of another library that is asked about has no slope, as the sums of trees have none."""
    flat = torch.zeros_like(worlds.status, dtype=torch.bool)
    for name in aims:
        law = scm.mechanisms[name]
        if law.differentiable:
            continue
        _, _, by_parents = law.predict_and_jacobian(worlds.u[name], join_parents(scm, name, worlds.x))
        flat |= (by_parents == 0).all(-1)

    return flat


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
    if solver.feasibility_tolerance > LARGEST_ERROR:
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

    return RowStatuses(outcome, words, tuple(left), solver.feasibility_tolerance)


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
