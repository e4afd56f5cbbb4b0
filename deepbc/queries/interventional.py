r"""Interventional counterfactuals: what would have been, had X been set to x*, its law broken?

Abduct the noise of the factual world, set the antecedent, keep every other noise, and let the laws run:
:math:`x^*_j = f_j(x^*_{pa(j)}, u_j)` for all :math:`j` outside the antecedent.

References:
    Causality (Pearl, 2009), section 7.1: abduction, action, prediction.
"""

__all__ = ["intervene"]

from typing import Any

import torch
from torch import Tensor

from deepbc.distances import read_distance
from deepbc.errors import DataError
from deepbc.queries.answer import answer
from deepbc.queries.question import read_question
from deepbc.queries.results import Counterfactual
from deepbc.queries.status import Outcome, RowStatuses, status_of
from deepbc.scm import SCM
from deepbc.scm.completion import Nearest, complete_rows, sources


@torch.no_grad()
def intervene(scm: SCM, factual: Any, do: Any, *, distance: Any = None) -> Counterfactual:
    r"""Answers what would have been different, had the antecedent been forced.

    Args:
        scm: The fitted model.
        factual: The factual world: one row or many, values of every variable (a `Predictor`'s may be left out).
        do: The antecedent: for each variable one value for all rows or one a row. One factual row with many values
            gives as many rows.
        distance: How the noise that the antecedent implies is compared with the factual one, as for `backtrack`.

    Returns:
        The answer. Its `noise` at the antecedent is the noise that would have led there, so that `moved` and `distance`
        can be compared with those of a backtracking answer. A row whose antecedent no noise can reach has its values
        all the same and says so in `status`.

    Example:
        >>> from deepbc import CausalGraph, Equation
        >>> law = Equation(predict=lambda u, parents: u, abduct=lambda x, parents: x)
        >>> double = Equation(predict=lambda u, p: 2 * p["a"] + u, abduct=lambda x, p: x - 2 * p["a"])
        >>> scm = SCM(CausalGraph.parse("a -> b"), {"a": law, "b": double})
        >>> cf = intervene(scm, {"a": 1.0, "b": 2.5}, {"a": 3.0})
        >>> cf.values["b"].item(), cf.moved["a"].item(), cf.status
        (6.5, 4.0, 'converged')
    """
    question = read_question(scm, factual, do)
    read = read_distance(distance, tuple(scm.graph))
    forced = {name: _check_forced(each.lower, each.interval, name) for name, each in question.asked.items()}

    # Only effects of the antecedent change; the others keep their values to the last digit.
    effects = scm.graph.descendants(*forced)
    values = {name: question.x[name] for name in scm.graph if name not in effects}
    noise = {name: question.u[name] for name in scm.graph if name not in forced}
    # Of the many noises that lead to a class or a whole number, the one nearest to the factual one is implied.
    nearest = {name: Nearest(x, question.u[name]) for name, x in forced.items() if scm.mechanisms[name].discrete}
    given = sources({**values, **forced}, noise) | nearest
    after = complete_rows(scm, given, scm.schema.empty([question.rows]))
    reached = torch.zeros(question.rows, dtype=torch.long, device=scm.device)
    words = {outcome: status_of(outcome) for outcome in (Outcome.CONVERGED, Outcome.FORCED_MISS)}
    statuses = RowStatuses(reached, words, miss=Outcome.FORCED_MISS)

    return answer(scm, question, (after.x, after.u), read, statuses, forced=True)


def _check_forced(value: Tensor, interval: bool, name: str) -> Tensor:
    """Returns the value to which a variable is forced."""
    if interval:
        raise DataError(
            f"antecedent {name!r}: an intervention forces a value, got an interval. Give a value, or ask backtrack."
        )

    return value
