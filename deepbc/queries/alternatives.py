"""Several different answers to one question: each leaves at rest the noises that carried most in those before it.

The first is the nearest world. The second is the nearest of those in which the noise that carried most of the first
stays at rest, and so on, so that each tells of another way in which the antecedent might have come about.

References:
    Explaining Machine Learning Classifiers through Diverse Counterfactual Explanations (Mothilal et al., 2020).
"""

__all__ = ["find_alternatives"]

from dataclasses import replace

import torch
from torch import Tensor

from deepbc.numerics.batched import join, repeat
from deepbc.queries.mode import find_mode
from deepbc.queries.nearest import Search
from deepbc.queries.question import Question
from deepbc.queries.status import RowStatuses
from deepbc.queries.supports import rows_of_sets
from deepbc.queries.worlds import Worlds


def find_alternatives(search: Search, question: Question, answers: int) -> tuple[Question, Worlds, RowStatuses]:
    """Finds so many worlds of every row, nearest first.

    Returns:
        The question with an axis of answers in front of its batch, its worlds, and what happened to each.
    """
    names = [name for name in search.scope if search.scm.mechanisms[name].free_noise_dim]
    rows = torch.arange(question.rows, device=search.scm.device)
    left = torch.ones(question.rows, len(names), dtype=torch.bool, device=rows.device)
    found: list[Worlds] = []
    said: RowStatuses | None = None
    for number in range(answers):
        worlds, statuses = _find_each(search, question, left, names)
        moved = [search.distance.moved(name, worlds.u[name], _rest(question, worlds, name)) for name in names]
        carried = torch.stack(moved, dim=-1) if names else torch.zeros_like(left, dtype=torch.double)
        if names:
            most = carried.argmax(-1)
            left[rows, most] &= ~(statuses.converged & (carried[rows, most] > 0))
        if said is None:
            said = replace(statuses, outcome=torch.zeros(answers * question.rows, dtype=torch.long), outside=())
        said = said.put(rows + number * question.rows, statuses)
        found.append(worlds)
    assert said is not None  # noqa: S101 # there is an answer
    parts = ("x", "u", "asked", "antecedent", "limits", "forbidden")
    many = {name: repeat(getattr(question, name), answers) for name in parts}

    return replace(question, **many, batch=torch.Size([answers, *question.batch])), join(found), said


def _find_each(search: Search, question: Question, left: Tensor, names: list[str]) -> tuple[Worlds, RowStatuses]:
    """Finds the nearest worlds by the noises that are left to each row, a mask `(rows, names)`."""
    if not left.numel():
        return find_mode(search, question)
    worlds: Worlds | None = None
    statuses: RowStatuses | None = None
    for rows, scope in rows_of_sets(left, names):
        found, said = find_mode(replace(search, scope=scope), question.select(rows))
        if worlds is None or statuses is None:
            worlds = found.take(torch.zeros(len(left), dtype=torch.long))
            statuses = replace(said, outcome=torch.zeros(len(left), dtype=torch.long), outside=())
        worlds.put(rows, found)
        statuses = statuses.put(rows, said)
    assert worlds is not None and statuses is not None  # noqa: S101, PT018 # each row has a set

    return worlds, statuses


def _rest(question: Question, worlds: Worlds, name: str) -> Tensor:
    return worlds.drawn.get(name, question.u[name])
