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

__all__ = ["backtrack", "read_checked"]

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from deepbc._validation import check_count, check_type
from deepbc.distances import Distances, read_distance
from deepbc.errors import SettingError
from deepbc.queries.alternatives import find_alternatives
from deepbc.queries.answer import answer
from deepbc.queries.constraints import read_limits
from deepbc.queries.mode import find_mode
from deepbc.queries.nearest import Search
from deepbc.queries.question import Question, read_question
from deepbc.queries.results import Counterfactual
from deepbc.scm import SCM
from deepbc.scm.schema import read_names
from deepbc.solvers import Exact, Solver

# So many rows of a distance are checked.
CHUNK = 65_536


def backtrack(
    scm: SCM,
    factual: Any,
    antecedent: Any,
    *,
    solver: Solver | None = None,
    distance: Any = None,
    scope: Sequence[str] | None = None,
    constraints: Mapping[str, Any] | None = None,
    inside: str | None = None,
    answers: int | None = None,
) -> Counterfactual:
    r"""Answers what would have been different, had the antecedent held, all laws kept: the most likely such world.

    Args:
        scm: The fitted model.
        factual: The factual world: one row or many, values of every variable (a `Predictor`'s may be left out).
            Other columns of a data frame are left out.
        antecedent: For each variable one value for all rows or one a row, or an interval: `at_least`, `at_most`,
            `between`, or labels: `one_of`, `other_than`. One factual row with many values gives as many rows.
        solver: How the world is found; `Exact()` by default.
        distance: How far two noises are apart: `Squared()` by default, another `Distance`, a mapping from variables to
            distances, or a differentiable function `(u_star, u) -> cost` of noises `(rows, noise)`.
        scope: The variables whose noise may carry the change; None is all.
        constraints: What may not change, beside what the model declares: for each variable `"fixed"`, `"up"`, `"down"`,
            a range such as `(18, None)`, or the labels that will do; None lifts what the model declares. A factual
            value is always allowed.
        inside: `"seen"` keeps numbers inside the range that the fit saw, or their factual value if that is outside.
        answers: How many different answers to give to each row: each leaves at rest the noises that carried most in
            those before it.

    Returns:
        The answer; of several the axis is in front. `moved` says which noise carried the change, `error` how far a
        fresh prediction from the noise misses the antecedent, `status` how each row ended.

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
    names = read_names(scope, tuple(scm.graph), "scope")
    limits = read_limits(scm, question.x, names, tuple(question.asked), constraints, inside)
    question = question.within(limits.asked, scm)
    search = Search(scm, solver, read, limits.scope)
    if answers is None:
        worlds, statuses = find_mode(search, question)
    else:
        check_count(answers, "answers", least=1)
        question, worlds, statuses = find_alternatives(search, question, answers)

    with torch.no_grad():
        return answer(scm, question, worlds, read, statuses)


def read_checked(scm: SCM, question: Question, distance: Any) -> Distances:
    """Reads a distance, and checks that it is least where nothing moves."""
    _check_derivable("backtracking")
    read = read_distance(distance, tuple(scm.graph))
    for name, rows in question.u.items():
        read.of(name).check_rest(rows[:CHUNK], f"distance of {name!r}")

    return read


def _check_derivable(where: str) -> None:
    """Laws can be derived; nothing can in torch's inference mode, where it would go unsaid."""
    if torch.is_inference_mode_enabled():
        raise SettingError(
            f"{where}: needs derivatives, which torch.inference_mode() forbids. Leave it, or write torch.no_grad()."
        )
