"""Antecedents that are step functions of the noises, as decisions and the sums of trees are: no slope leads to them.

A model of another library is asked for its differences at the factual world. Rows at which it is flat are searched
without derivatives first; where it is flat at what was found, too, a solver has nothing to follow, and is not asked.
Rows that a solver left without an answer, or on a step, are searched after it.
"""

__all__ = ["on_steps", "search_first", "search_steps"]

from collections.abc import Mapping

import torch
from torch import Tensor

from deepbc.numerics.batched import select
from deepbc.queries.asked import Asked
from deepbc.queries.growing_spheres import is_searchable, search_spheres
from deepbc.queries.nearest import Search
from deepbc.queries.question import Question
from deepbc.queries.status import Outcome
from deepbc.queries.worlds import Worlds
from deepbc.scm import SCM
from deepbc.scm.completion import join_parents
from deepbc.solvers.problem import SolverStatus

# So many rows are searched at once.
CHUNK = 256
# How far, relative to the values, places on either side are: far beyond the steps of differences.
NEARBY = 1e-2


def on_steps(search: Search, question: Question, aims: Mapping[str, Asked]) -> Tensor:
    """Whether each row does not meet the antecedent, and is where that is flat, with shape `(rows,)`."""
    missed = torch.stack([aim.missed(question.x[name]).amax(-1) > 0 for name, aim in aims.items()]).any(0)
    if not missed.any() or not is_searchable(search, aims):
        return torch.zeros_like(missed)

    return missed & _flat(search.scm, aims, question)


def search_first(search: Search, question: Question, aims: Mapping[str, Asked], rows: Tensor) -> tuple[Worlds, Tensor]:
    """Searches rows at which the antecedent is flat; the others stay as they are, unsolved.

    Args:
        search: How the nearest world is sought.
        question: The question.
        aims: What each variable of the antecedent is to be.
        rows: A mask of the rows to search, with shape `(rows,)`.

    Returns:
        The worlds, and a mask of the rows that need no solver, with shape `(rows,)`.
    """
    status = torch.full_like(rows, int(SolverStatus.ZERO_GRADIENT), dtype=torch.long)
    worlds = Worlds(dict(question.x), dict(question.u), status, torch.ones_like(status, dtype=torch.double))
    if not rows.any():
        return worlds, rows
    worlds = _searched(search, question, aims, worlds, rows)
    flat = _flat(search.scm, aims, worlds)

    return worlds, rows & flat & (worlds.status == SolverStatus.CONVERGED)


def search_steps(search: Search, question: Question, aims: Mapping[str, Asked], worlds: Worlds, rows: Tensor) -> Worlds:
    """Searches rows that a solver left without an answer or on a step, and takes what is nearer.

    Args:
        search: How the nearest world is sought.
        question: The question.
        aims: What each variable of the antecedent is to be.
        worlds: What a solver found.
        rows: A mask of the rows that may be searched, with shape `(rows,)`.
    """
    if not rows.any() or not is_searchable(search, aims):
        return worlds
    differences = any(not search.scm.mechanisms[name].differentiable for name in aims)
    failed = worlds.status != SolverStatus.CONVERGED
    left = (worlds.status == SolverStatus.ZERO_GRADIENT) | _flat(search.scm, aims, worlds)
    left = rows & (left | failed if differences else left)
    if not left.any():
        return worlds
    worlds = _searched(search, question, aims, worlds, left)
    # Differences do not prove that nothing can be reached.
    if differences:
        worlds.status[left & (worlds.status != SolverStatus.CONVERGED)] = int(Outcome.NOT_FOUND)

    return worlds


def _searched(search: Search, question: Question, aims: Mapping[str, Asked], worlds: Worlds, rows: Tensor) -> Worlds:
    """Searches the rows of a mask, and takes what is nearer."""
    worlds = worlds.copy()
    for part in rows.nonzero().squeeze(-1).split(CHUNK):
        asked, before = question.select(part), worlds.take(part)
        found = search_spheres(search, asked, select(aims, part))
        better = found.cost(asked.u, search.distance) < before.cost(asked.u, search.distance)
        worlds.put(part[better], found.take(better.nonzero().squeeze(-1)))

    return worlds


def _flat(scm: SCM, aims: Mapping[str, Asked], worlds: Worlds | Question) -> Tensor:
    """Where a model of another library that is asked about has no slope, with shape `(rows,)`.

    Differences may see a step: rounded data lie on the cuts of trees. So places on either side are looked at, too.
    """
    flat = torch.zeros_like(next(iter(worlds.x.values()))[:, 0], dtype=torch.bool)
    for name in aims:
        law, u, parents = scm.mechanisms[name], worlds.u[name], join_parents(scm, name, worlds.x)
        if not law.deterministic:
            continue
        # Its first derivative tells a law whether autograd can follow it.
        law.predict_and_jacobian(u[:1], parents[:1])
        if not law.differentiable:
            for factor in (1.0, 1.0 - NEARBY, 1.0 + NEARBY):
                flat |= (law.predict_and_jacobian(u, factor * parents)[2] == 0).all(-1)

    return flat
