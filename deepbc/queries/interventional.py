r"""Interventional counterfactuals: what would have been, had X been set to x*, its law broken?

Abduct the noise of the factual world, set the antecedent, keep every other noise, and let the laws run:
:math:`x^*_j = f_j(x^*_{pa(j)}, u_j)` for all :math:`j` outside the antecedent.

References:
    Causality (Pearl, 2009), section 7.1: abduction, action, prediction.
"""

__all__ = ["intervene"]

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_count
from deepbc.distances import read_distance
from deepbc.errors import DataError
from deepbc.numerics.batched import repeat, select
from deepbc.numerics.counter_rng import Streams
from deepbc.queries.answer import answer
from deepbc.queries.effects import choose_labels
from deepbc.queries.question import Question, read_question
from deepbc.queries.results import Counterfactual, Diagnostics
from deepbc.queries.status import Outcome, RowStatuses, status_of
from deepbc.queries.worlds import Columns, Worlds
from deepbc.scm import SCM
from deepbc.scm.completion import Nearest, complete_rows, join_parents, sources


@torch.no_grad()
def intervene(
    scm: SCM, factual: Any, do: Any, *, distance: Any = None, samples: int | None = None, seed: int | None = None
) -> Counterfactual:
    r"""Answers what would have been different, had the antecedent been forced.

    Args:
        scm: The fitted model.
        factual: The factual world: one row or many, values of every variable (a `Predictor`'s may be left out).
            Other columns of a data frame are left out.
        do: The antecedent: for each variable one value for all rows or one a row. One factual row with many values
            gives as many rows.
        distance: How the noise that the antecedent implies is compared with the factual one, as for `backtrack`.
        samples: How many worlds to draw for each row: the facts do not tell the noise of classes and whole numbers,
            which is drawn from what they leave. None answers with the likeliest labels.
        seed: Where samples come from; the same seed gives the same samples of a row. None draws afresh.

    Returns:
        The answer. Its `noise` at the antecedent is the noise that would have led there, so that `moved` and `distance`
        can be compared with those of a backtracking answer. A row whose antecedent no noise can reach has its values
        all the same and says so in `status`. Samples have an axis in front.

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
    reached = torch.zeros(question.rows, dtype=torch.long, device=scm.device)
    words = {outcome: status_of(outcome) for outcome in (Outcome.CONVERGED, Outcome.FORCED_MISS)}
    statuses = RowStatuses(reached, words, miss=Outcome.FORCED_MISS)
    if samples is not None:
        check_count(samples, "samples", least=1)
        worlds, said = _draw(scm, question, forced, samples, seed), _independent(question, samples)
        return answer(scm, question, worlds, read, statuses, said, forced=True)

    worlds = _force(scm, question, forced)
    finite = torch.stack([each.isfinite().all(-1) for each in (*worlds.x.values(), *worlds.u.values())]).all(0)

    worlds = choose_labels(scm, question, worlds, forced, finite)

    return answer(scm, question, worlds, read, statuses, forced=True)


def _force(scm: SCM, question: Question, forced: Columns) -> Worlds:
    """The worlds in which variables are forced to values; only their effects change, others stay to the last digit."""
    effects = scm.graph.descendants(*forced)
    values = {name: question.x[name] for name in scm.graph if name not in effects}
    noise = {name: question.u[name] for name in scm.graph if name not in forced}
    # Of the many noises that lead to a class or a whole number, or a floor, the one nearest to the factual is implied.
    nearest = {name: Nearest(x, question.u[name]) for name, x in forced.items() if scm.mechanisms[name].has_atoms}
    given = sources({**values, **forced}, noise) | nearest
    after = complete_rows(scm, given, scm.schema.empty([question.rows]))

    return Worlds.of(after.x, after.u)


def _draw(scm: SCM, question: Question, forced: Columns, samples: int, seed: int | None) -> Worlds:
    """Worlds with factual noise drawn from what the labels and whole numbers leave of it, `(samples, rows)`."""
    rows, streams = question.rows, Streams.of(seed, [each.double().cpu() for each in question.x.values()])
    drawn = {}
    for name in scm.graph:
        law = scm.mechanisms[name]
        if law.has_atoms:
            uniform = streams.uniform(samples * law.noise_dim, "factual", name).reshape(rows, samples, law.noise_dim)
            x, parents = question.x[name], join_parents(scm, name, question.x)
            uniform = uniform.transpose(0, 1).flatten(0, 1).to(x)
            drawn[name] = law.draw(x.repeat(samples, 1), parents.repeat(samples, 1), uniform)
    many = Question(
        repeat(question.x, samples), {**repeat(question.u, samples), **drawn}, {}, torch.Size([samples * rows])
    )
    found = _force(scm, many, repeat(forced, samples))

    def split(columns: Columns) -> Columns:
        return {name: each.reshape(samples, rows, each.shape[-1]) for name, each in columns.items()}

    alike = select(found, slice(rows))

    return replace(alike, x=split(found.x), u=split(found.u), drawn=split(drawn))


def _independent(question: Question, samples: int) -> Diagnostics:
    """What is said of draws that are independent."""
    ones = torch.ones(question.batch, dtype=torch.double)

    return Diagnostics(r_hat=ones, effective=samples * ones, acceptance=ones)


def _check_forced(value: Tensor, interval: bool, name: str) -> Tensor:
    """Returns the value to which a variable is forced."""
    if interval:
        raise DataError(
            f"antecedent {name!r}: an intervention forces a value, got more than one. Give a value, or ask backtrack."
        )

    return value
