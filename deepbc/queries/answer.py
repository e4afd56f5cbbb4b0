"""What the questions share: putting together the answer with its evidence."""

__all__ = ["answer"]

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepbc.data.world import World
from deepbc.distances import Distances
from deepbc.numerics.batched import repeat
from deepbc.queries.antecedents import Interval, LabelSet
from deepbc.queries.asked import Asked
from deepbc.queries.question import Question
from deepbc.queries.results import Counterfactual, Diagnostics
from deepbc.queries.status import RowStatuses
from deepbc.queries.worlds import Columns, Worlds
from deepbc.scm import SCM
from deepbc.scm.completion import complete_rows, join_parents, sources

# A value this many units of its own rounding away is met: nothing nearer may exist.
ROUNDING = 16


def answer(
    scm: SCM,
    question: Question,
    worlds: Worlds,
    distance: Distances,
    statuses: RowStatuses,
    diagnostics: Diagnostics | None = None,
    *,
    forced: bool = False,
) -> Counterfactual:
    """Puts together the answer: what moved, what it cost, and whether the antecedent holds.

    Args:
        scm: The model.
        question: What was asked.
        worlds: The counterfactual worlds, of rows or of `(samples, rows)`.
        distance: How far two noises are apart.
        statuses: What happened to each row; one that misses, in any sample, is never a success.
        diagnostics: What a sampler says of each row.
        forced: Whether the antecedent was forced, its law broken.
    """
    samples = torch.Size([len(next(iter(worlds.x.values())))]) if diagnostics else torch.Size()
    batch = samples + question.batch
    x, u, drawn = (
        {name: rows.flatten(0, -2) for name, rows in part.items()} for part in (worlds.x, worlds.u, worlds.drawn)
    )
    many = samples.numel()
    rest = dict(repeat(question.u, many))
    rest |= drawn
    moved = {name: distance.moved(name, u[name], rest[name]) for name in scm.graph}
    error, met = _error(scm, repeat({**question.limits, **question.asked}, many), u, statuses.tolerance)
    holds = (met & _possible(scm, x, u)).reshape(many, -1).all(0)
    after = _world(scm, x, u, batch)
    before = replace(_world(scm, question.x, question.u, question.batch), index=question.index)

    return Counterfactual(
        graph=scm.graph,
        values=after.values,
        noise=after.noise,
        factual=before,
        antecedent={name: _shown(scm, name, each, question.batch) for name, each in question.antecedent.items()},
        moved={name: _column(each, batch) for name, each in moved.items()},
        distance=_column(torch.stack(list(moved.values())).sum(0), batch),
        error=_column(error, batch),
        farthest=_column(_farthest(u, rest), batch),
        unseen={name: each.cpu().reshape(batch) for name, each in _unseen(scm, x).items()},
        clipped=_clipped(scm, x, u).cpu().reshape(batch),
        certainty=_column(worlds.certainty, question.batch),
        probabilities={name: each.cpu().reshape(*batch, each.shape[-1]) for name, each in worlds.chances.items()},
        status=statuses.say(holds).reshape(tuple(question.batch))[()],
        batch=batch,
        diagnostics=diagnostics,
        index=question.index,
        forced=forced,
        variables=dict(scm.variables),
        misfits=_misfits(scm, question.antecedent, forced=forced),
    )


def _error(scm: SCM, asked: Mapping[str, Asked], u: Columns, reach: float) -> tuple[Tensor, Tensor]:
    """Predicts the antecedent and its causes afresh from the noise.

    Returns:
        The largest miss, in standard deviations of the variable, and whether it counts as none; a NaN does not.
    """
    names = {*asked, *scm.graph.ancestors(*asked)}
    eps = max(torch.finfo(scm.mechanisms[name].precision or scm.dtype).eps for name in names)
    empty = scm.schema.empty(next(iter(u.values())).shape[:-1])
    fresh = complete_rows(scm, sources({}, {name: u[name] for name in names}), empty, names).x

    errors, met = [], []
    for name, each in asked.items():
        sd = scm.schema.sd(name)
        missed = each.missed(fresh[name]) / sd
        rounding = ROUNDING * eps * fresh[name].abs() / sd
        allowed = torch.maximum(torch.full_like(missed, max(reach, 1e3 * eps)), rounding)
        errors.append(missed.amax(-1))
        met.append((missed <= allowed).all(-1))

    return torch.stack(errors).amax(0), torch.stack(met).all(0)


def _misfits(scm: SCM, asked: Collection[str], *, forced: bool) -> dict[str, tuple[str, ...]]:
    """How laws that take part are known to misfit: those of causes and of their effects, or of effects alone."""
    causes = {*asked, *scm.graph.ancestors(*asked)}
    part = scm.graph.descendants(*asked) if forced else {*causes, *scm.graph.descendants(*causes)}

    return {each.name: each.misfits for each in scm.report if each.misfits and each.name in part}


def _possible(scm: SCM, x: Columns, u: Columns) -> Tensor:
    """Whether a row is a world: every value and noise a number, every value inside its bounds."""
    rows = [u[name].isfinite().all(-1) for name in scm.graph]
    for name, variable in scm.variables.items():
        rows.append((x[name].isfinite() & (x[name] >= variable.lower) & (x[name] <= variable.upper)).all(-1))

    return torch.stack(rows).all(0)


def _clipped(scm: SCM, x: Columns, u: Columns) -> Tensor:
    """Counts, for each row of a world, the components of values that a law cut to their range: `(rows,)`."""
    counts = [scm.mechanisms[name].clipped(u[name], join_parents(scm, name, x)) for name in scm.graph]

    return torch.stack(counts).sum(0)


def _unseen(scm: SCM, x: Columns) -> dict[str, Tensor]:
    """Whether each number lies outside the range that the fit saw, with shape `(rows,)`."""
    spans = {name: scm.variables[name].span for name in scm.graph}

    return {
        name: ((x[name] < span[0]) | (x[name] > span[1])).any(-1) for name, span in spans.items() if span is not None
    }


def _farthest(u_star: Columns, u: Columns) -> Tensor:
    """The largest noise among those that moved, with shape `(rows,)`; 0 where none did."""
    parts = [torch.where(u_star[name] == u[name], 0.0, u_star[name]).abs() for name in u_star]

    return torch.cat(parts, dim=-1).amax(-1)


def _shown(scm: SCM, name: str, asked: Asked, batch: torch.Size) -> Any:
    """The antecedent as people see it: a value a row, an interval, or labels."""
    if asked.labels is not None:
        return _shown_labels(scm, name, asked.labels, batch)
    ends = [
        None if end.isinf().all() and len(end) else scm.schema.show(name, _unflat(end, batch))
        for end in (asked.lower, asked.upper)
    ]

    return Interval(*ends) if asked.interval else ends[0]


def _shown_labels(scm: SCM, name: str, there: Tensor, batch: torch.Size) -> Any:
    """The labels that will do: of all rows where they agree, else an array of one set a row."""
    levels = scm.variables[name].levels
    assert levels is not None  # noqa: S101 # labels were asked
    sets = [LabelSet(tuple(compress(levels.items, mask))) for mask in there.tolist()]
    if len({each.labels for each in sets}) == 1:
        return sets[0]

    shown = np.empty(len(sets), dtype=object)
    for row, each in enumerate(sets):
        shown[row] = each

    return shown.reshape(tuple(batch))


def _world(scm: SCM, x: Mapping[str, Tensor], u: Mapping[str, Tensor], batch: torch.Size) -> World:
    return scm.schema.show_world(*({name: _unflat(rows, batch) for name, rows in part.items()} for part in (x, u)))


def _unflat(rows: Tensor, batch: torch.Size) -> Tensor:
    return rows.reshape(*batch, rows.shape[-1])


def _column(rows: Tensor, batch: torch.Size) -> Tensor:
    return rows.double().cpu().reshape(batch)
