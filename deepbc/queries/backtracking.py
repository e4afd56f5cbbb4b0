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

__all__ = ["Mode", "backtrack", "drawn_in", "find_mode", "read_checked"]

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_classes, check_type
from deepbc.distances import Distance, Squared, read_distance
from deepbc.errors import SettingError
from deepbc.progress import progress
from deepbc.queries.answer import LARGEST_ERROR, RowStatuses, answer
from deepbc.queries.discrete_search import Rows, Solved, moving_classes, search_classes
from deepbc.queries.mode_problem import ModePlan
from deepbc.queries.question import Asked, Question, read_question
from deepbc.queries.results import Counterfactual
from deepbc.queries.status import CONVERGED, NEARLY, Status, infeasible, not_converged
from deepbc.scm.model import SCM
from deepbc.solvers import Exact, Solver, Sparse
from deepbc.solvers.problem import SolverStatus

CHUNK = 65_536
BRISK = Exact(starts=0, steps=40)

MISSED = not_converged(
    "A fresh prediction from the noise misses the antecedent; this is the best found, and `error` says by how much.",
    "Take the solver Exact(), ask for less, or look at the laws: one of them may not be its own inverse there.",
)


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
    mode = find_mode(scm, question, solver, read, scm.names(scope, "scope"))

    with torch.no_grad():
        return answer(scm, question, (mode.x, mode.u), read, mode.endings)


def read_checked(scm: SCM, question: Question, distance: Any) -> Distance:
    """Reads a distance, and checks that it is least where nothing moves."""
    _check_derivable("backtracking")
    read = read_distance(distance, tuple(scm.graph))
    for name, rows in question.u.items():
        read.of(name).check_rest(rows[:CHUNK], f"distance of {name!r}")

    return read


@dataclass(frozen=True, slots=True)
class Mode:
    """The most likely world of each row, as values and noise `(rows, dim)`, and how each row ended."""

    x: Rows
    u: Rows
    endings: RowStatuses


def find_mode(scm: SCM, question: Question, solver: Solver, distance: Distance, scope: Sequence[str]) -> Mode:
    """Finds the most likely world of every row, a chunk at a time."""
    outside = _outside(scm, question.asked)
    discrete = moving_classes(scm, question.asked, scope)
    aims = _aims(scm, question, outside.any(0), lone=len(question.asked) == 1 and not discrete)
    check_classes(solver.pins, [*discrete, *(name for name in aims if scm.variables[name].discrete)], solver)
    slices = [slice(start, start + CHUNK) for start in range(0, question.batch.numel(), CHUNK)] or [slice(0, 0)]
    parts = []
    with progress("backtrack", len(slices), None if len(slices) > 1 else False) as shown:
        for rows in slices:
            part = {name: each.select(rows) for name, each in aims.items()}
            parts.append(_solve(scm, question.select(rows), part, (solver, distance, scope), discrete))
            shown.advance()

    whole = parts[0] if len(parts) == 1 else Solved.joined(parts)

    return Mode(whole.x, whole.u, _endings(ModePlan.of(scm, solver, distance, scope, aims), whole.status, outside))


def _solve(
    scm: SCM,
    question: Question,
    aims: Mapping[str, Asked],
    how: tuple[Solver, Distance, Sequence[str]],
    discrete: Sequence[str],
) -> Solved:
    """Solves a chunk of rows; where classes or whole numbers may change, for the best of them."""
    if not discrete:
        return ModePlan.of(scm, *how, aims).solve(question)

    solver, distance, scope = how
    brisk = _brisk(
        solver, all(isinstance(distance.of(name), Squared) for name in scm.graph), set(discrete) - set(scope)
    )

    def solve(rows: Tensor, values: Rows, *, soft: bool, by: Solver = brisk) -> Solved:
        wanted = {name: each.select(rows) for name, each in aims.items() if name not in values}
        wanted |= {name: Asked(each, each, False) for name, each in values.items()}
        model = scm.softened(discrete) if soft else scm
        return ModePlan.of(model, by, distance, scope, wanted).solve(question.select(rows))

    found = search_classes(scm, question, {name: aims.get(name) for name in discrete}, scope, distance, solve)
    if brisk is solver:
        return found

    every = torch.arange(question.batch.numel(), device=found.status.device)
    again = solve(every, {name: found.x[name] for name in discrete}, soft=False, by=solver)
    better = again.cost(question.u, distance) < found.cost(question.u, distance)
    found.put(every[better], again.take(better))

    return found


def _brisk(solver: Solver, smooth: bool, frozen: Collection[str]) -> Solver:
    """The solver by which classes are compared: where most choices have no world, or kinks make each dear, a quick one.

    Args:
        solver: The solver that was asked for, which then solves for the best classes.
        smooth: Whether the distance has no kinks.
        frozen: The classes that have to follow from noise that may not move.
    """
    if isinstance(solver, Sparse) and isinstance(solver.solver, Exact):
        return Sparse(solver.keep, solver=BRISK, by=solver.by, search=solver.search)

    return BRISK if isinstance(solver, Exact) and (frozen or not smooth) else solver


def _aims(scm: SCM, question: Question, outside: Tensor, *, lone: bool) -> dict[str, Asked]:
    """What is sought: intervals inside the bounds, drawn in; one that stands alone is its nearest value.

    A row that asks for what is outside the bounds stands still.
    """
    aims = {}
    for name, asked in question.asked.items():
        x, aim = question.x[name], asked
        if asked.interval:
            aim = drawn_in(scm, name, asked)
        if asked.interval and lone:
            nearest = torch.where(asked.missed(x) == 0, x, x.clamp(aim.lower, aim.upper))
            aim = Asked(nearest, nearest, False)
        lower, upper = (torch.where(outside.unsqueeze(-1), x, end) for end in (aim.lower, aim.upper))
        aims[name] = Asked(lower, upper, aim.interval)

    return aims


def drawn_in(scm: SCM, name: str, asked: Asked) -> Asked:
    """The part of an interval inside the bounds of its variable; that of numbers is drawn in by a hair."""
    variable = scm.variables[name]
    lower, upper = (0.0, len(variable.levels) - 1.0) if variable.levels else (variable.lower, variable.upper)
    inside = Asked(asked.lower.clamp(min=lower), asked.upper.clamp(max=upper), True)

    return inside if variable.discrete else inside.drawn_in(scm.spread(name))


def _outside(scm: SCM, asked: Mapping[str, Asked]) -> Tensor:
    """Which variables of the antecedent, in order, are asked to leave their bounds, with shape `(asked, rows)`."""
    supports = {name: scm.variables[name].support for name in asked}

    return torch.stack(
        [
            ((each.upper <= supports[name][0]) | (each.lower >= supports[name][1])).any(-1)
            for name, each in asked.items()
        ]
    )


def _endings(plan: ModePlan, status: Tensor, outside: Tensor) -> RowStatuses:
    """Says in words how each row ended."""
    solver = plan.solver
    statuses = [
        CONVERGED if solver.reach <= LARGEST_ERROR else NEARLY,
        not_converged(
            f"{solver!r} ended before it was done; this is the best found, and `error` says how far it misses.",
            "Give it more steps, or take the solver Exact() as it comes.",
        ),
        _unreached(plan),
        infeasible(
            "The laws yield no number for the antecedent: it lies outside the support of its variable. The row is left "
            "as it was.",
            "Ask for a value that the laws can give.",
        ),
        not_converged(
            "The antecedent does not react to any noise in scope near the factual world: the laws are flat there, as a "
            "saturated probability or a hard decision is.",
            "Ask about a score that reacts, such as the logit behind a probability.",
        ),
        not_converged(
            "No classes and whole numbers that were tried meet the antecedent by the noises in scope; not all were "
            "tried.",
            "Widen the scope, or ask for an interval.",
        ),
    ]
    code = status.clone()
    if not plan.reaches:
        code = torch.where(status == SolverStatus.CONVERGED, code, int(SolverStatus.INFEASIBLE))
    for name, rows in zip(plan.aims, outside, strict=True):
        variable = plan.scm.variables[name]
        code[rows] = len(statuses)
        statuses.append(
            infeasible(
                f"{name!r} is asked to leave its bounds ({variable.lower:g}, {variable.upper:g}). The row is left as "
                f"it was.",
                "Ask for a value inside the bounds.",
            )
        )

    return RowStatuses((*statuses, MISSED), code, solver.reach)


def _unreached(plan: ModePlan) -> Status:
    """What a row says whose antecedent cannot be reached from where its solver ended."""
    names, solver = ", ".join(map(repr, plan.aims)), plan.solver
    if not plan.reaches:
        return infeasible(
            f"No noise in scope can reach the antecedent ({names}): neither its own nor that of a cause may move.",
            "Widen the scope.",
        )
    if isinstance(solver, Sparse):
        return infeasible(
            f"No {solver.keep} of the noises in scope that were tried can reach the antecedent ({names}) alone.",
            "Keep more, or widen the scope."
            if solver.search == "exhaustive"
            else "Keep more, or try all sets: search='exhaustive'.",
        )
    if len(plan.aims) > 1:
        return infeasible(
            f"The antecedents ({names}) contradict each other, or no noise in scope can reach them together.",
            "Ask for less, or widen the scope.",
        )

    return infeasible(
        f"No noise in scope can reach the antecedent ({names}): the noises that may move stop short of it.",
        "Ask for less, or widen the scope.",
    )


def _check_derivable(where: str) -> None:
    """Laws can be derived; nothing can in torch's inference mode, where it would go unsaid."""
    if torch.is_inference_mode_enabled():
        raise SettingError(
            f"{where}: needs derivatives, which torch.inference_mode() forbids. Leave it, or write torch.no_grad()."
        )
