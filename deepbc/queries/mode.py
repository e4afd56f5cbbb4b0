"""The nearest world of every row: in chunks, within limits, with a second look where derivatives are of no use.

What comes back is a world a row and what happened to it. `backtracking` makes an answer of it; `sampling` starts there.
"""

__all__ = ["find_mode", "inside_bounds"]

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from deepbc._validation import check_classes
from deepbc.numerics.batched import join, select
from deepbc.progress import progress
from deepbc.queries.asked import Asked
from deepbc.queries.censored_patterns import censored_of
from deepbc.queries.discrete_search import undecided
from deepbc.queries.effects import choose_labels
from deepbc.queries.mode_problem import ModeProblem
from deepbc.queries.nearest import Search, solve
from deepbc.queries.question import Question
from deepbc.queries.status import LARGEST_ERROR, Outcome, RowStatuses, Status, status_of
from deepbc.queries.steps import on_steps, search_first, search_steps
from deepbc.queries.supports import rows_of_sets, search_supports
from deepbc.queries.worlds import Worlds
from deepbc.scm import SCM
from deepbc.solvers.problem import SolverStatus

# So many rows are solved at once; and where discrete variables are chosen, each of many choices being one.
CHUNK, DISCRETE_CHUNK = 65_536, 2048


def find_mode(search: Search, question: Question) -> tuple[Worlds, RowStatuses]:
    """Finds the nearest world of every row within its limits, and says what happened to each row.

    A limit is asked for only once the nearest world breaks it (constraint generation): most never bind.
    """
    early = _early(search, question)
    asked = {**question.asked, **{name: question.limits[name] for name in early}}
    worlds, statuses = _find(search, replace(question, asked=asked))
    late = [name for name in question.limits if name not in early]
    needed = torch.zeros(question.rows, len(late), dtype=torch.bool, device=search.scm.device)
    for _ in late:
        held = statuses.converged
        broken = torch.stack([question.limits[name].missed(worlds.x[name]).amax(-1) > 0 for name in late], -1)
        rows = (held & (broken & ~needed).any(-1)).nonzero().squeeze(-1)
        if not len(rows):
            break
        worlds = worlds if needed.any() else worlds.copy()
        needed[rows] |= broken[rows]
        for part, names in rows_of_sets(needed[rows], late):
            some = question.select(rows[part])
            limited = {**select(asked, rows[part]), **{name: some.limits[name] for name in names}}
            found, said = _find(search, replace(some, asked=limited))
            worlds.put(rows[part], found)
            statuses = statuses.put(rows[part], said)

    return worlds, statuses


def _early(search: Search, question: Question) -> list[str]:
    """The limits that are asked for from the start: classes and whole numbers, and values upstream of what is asked."""
    scm = search.scm
    upstream = scm.graph.ancestors(*question.asked)

    return [
        name
        for name, each in question.limits.items()
        if scm.variables[name].discrete or (name in upstream and not each.interval)
    ]


def _find(search: Search, question: Question) -> tuple[Worlds, RowStatuses]:
    """Finds the nearest worlds a chunk at a time."""
    scm, asked = search.scm, question.asked
    outside = _outside(scm, question)
    discrete = undecided(scm, asked, search.scope)
    aims = _aims(scm, question, outside.any(0), lone=len(asked) == 1 and not discrete)
    classes = [*discrete, *(name for name in aims if scm.variables[name].discrete)]
    check_classes(search.solver.pins, classes, search.solver)
    worlds = _nearest(search, question, aims)

    statuses = _say(search.problem(aims), worlds.status, outside, question.forbidden)
    held = statuses.converged & ~outside.any(0)
    decided = {*asked, *scm.graph.ancestors(*asked)}

    return choose_labels(scm, question, worlds, decided, held), statuses


def _nearest(search: Search, question: Question, aims: Mapping[str, Asked], cutoff: Tensor | None = None) -> Worlds:
    """Finds the nearest worlds: step functions are searched without derivatives, all other rows are solved for.

    Rows that are seen to cost more than the cutoff, with shape `(rows,)`, may be given up.
    """
    if not search.solver.pins:
        return _solve(search, question, aims, cutoff)
    outside = _outside(search.scm, question).any(0)
    open_aims = _aims(search.scm, question, outside, lone=False)
    stepped = on_steps(search, question, open_aims) & ~outside
    if search.solver.supports(search.scope) is not None:
        return _nearest_sparse(search, question, aims, stepped)

    found, done = search_first(search, question, open_aims, stepped)
    rows = (~done).nonzero().squeeze(-1)
    if question.rows and not len(rows):
        return found
    rest, first = question.select(rows), found.take(rows)
    solved = _solve(search, rest, select(aims, rows), None if cutoff is None else cutoff[rows])
    solved = search_steps(search, rest, select(open_aims, rows), solved, ~outside[rows])
    nearer = (first.cost(rest.u, search.distance) < solved.cost(rest.u, search.distance)).nonzero().squeeze(-1)
    if len(nearer):
        solved = solved.copy()
        solved.put(nearer, first.take(nearer))
    settled = done.nonzero().squeeze(-1)

    return join([found.take(settled), solved]).take(torch.cat([settled, rows]).argsort())


def _nearest_sparse(search: Search, question: Question, aims: Mapping[str, Asked], stepped: Tensor) -> Worlds:
    """Finds the nearest worlds in which few noises move: with classes or steps, each set of variables is a scope."""
    scm = search.scm
    discrete = undecided(scm, question.asked, search.scope)
    censored = censored_of(scm, aims, search.scope)
    if discrete or censored or any(scm.variables[name].discrete for name in question.asked):
        stepped = torch.ones_like(stepped)
    some, others = stepped.nonzero().squeeze(-1), (~stepped).nonzero().squeeze(-1)
    parts = [_solve(search, question.select(others), select(aims, others))] if len(others) or not question.rows else []
    for rows in some.split(DISCRETE_CHUNK) if len(some) else ():
        parts.append(search_supports(search, question.select(rows), select(aims, rows), _nearest))

    return join(parts).take(torch.cat([others, some]).argsort())


def _solve(search: Search, question: Question, aims: Mapping[str, Asked], cutoff: Tensor | None = None) -> Worlds:
    """Solves for all rows, a chunk at a time."""
    size = DISCRETE_CHUNK if undecided(search.scm, question.asked, search.scope) else CHUNK
    slices = [slice(start, start + size) for start in range(0, question.rows, size)] or [slice(0, 0)]
    parts = []
    with progress("backtrack", len(slices), None if len(slices) > 1 else False) as shown:
        for rows in slices:
            limit = None if cutoff is None else cutoff[rows]
            parts.append(solve(search, question.select(rows), select(aims, rows), limit))
            shown.advance()

    return join(parts)


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
            aim = Asked.value(torch.where(asked.missed(x) == 0, x, aim.nearest(x)))
        aims[name] = aim.standing(outside, x)

    return aims


def inside_bounds(scm: SCM, name: str, asked: Asked) -> Asked:
    """The part of an interval inside the bounds of its variable; that of numbers is shrunk by an interior margin."""
    variable = scm.variables[name]
    if asked.labels is not None:
        return asked
    lower, upper = (0.0, len(variable.levels) - 1.0) if variable.levels else (variable.lower, variable.upper)
    inside = Asked(asked.lower.clamp(min=lower), asked.upper.clamp(max=upper), True)

    if variable.discrete:
        return inside
    shrunk = inside.shrunk(scm.schema.sd(name))
    # Floor and ceiling are met exactly.
    return replace(
        shrunk,
        lower=torch.where(inside.lower <= variable.floor, inside.lower, shrunk.lower),
        upper=torch.where(inside.upper >= variable.ceiling, inside.upper, shrunk.upper),
    )


def _outside(scm: SCM, question: Question) -> Tensor:
    """Which variables of the antecedent, in order, are asked to leave bounds or limits, with shape `(asked, rows)`."""
    masks = []
    for name, asked in question.asked.items():
        variable = scm.variables[name]
        lower, upper = variable.support
        beyond = ((asked.upper <= lower) | (asked.lower >= upper)).any(-1)
        beyond |= ((asked.upper < variable.floor) | (asked.lower > variable.ceiling)).any(-1)
        masks.append(beyond | question.forbidden.get(name, torch.zeros_like(beyond)))

    return torch.stack(masks)


def _say(problem: ModeProblem, status: Tensor, outside: Tensor, forbidden: Mapping[str, Tensor]) -> RowStatuses:
    """Says in words what happened to each row."""
    solver, names = problem.solver, ", ".join(map(repr, problem.aims))
    words = {Outcome(each): status_of(Outcome(each), solver=repr(solver), names=names) for each in SolverStatus}
    words[Outcome.MISSED] = status_of(Outcome.MISSED)
    words[Outcome.NOT_FOUND] = status_of(Outcome.NOT_FOUND, names=names)
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
        if name in forbidden:
            left.append((forbidden[name], status_of(Outcome.FORBIDDEN, name=name)))

    return RowStatuses(outcome, words, tuple(left), solver.feasibility_tolerance)


def _infeasible(problem: ModeProblem, names: str) -> Status:
    """What a row says whose antecedent cannot be reached from where its solver ended."""
    if not problem.reachable:
        return status_of(Outcome.FROZEN, names=names)
    own = problem.solver.infeasible_reason(tuple(problem.aims))
    if own is not None:
        return Status("infeasible", *own)

    return status_of(Outcome.CONTRADICTORY if len(problem.aims) > 1 else Outcome.INFEASIBLE, names=names)
