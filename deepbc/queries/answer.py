"""What the questions share: putting together the answer with its evidence."""

__all__ = ["LARGEST_ERROR", "RowStatuses", "answer"]

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepbc.data.world import World
from deepbc.distances import Distance
from deepbc.queries.antecedents import Interval
from deepbc.queries.question import Asked, Question
from deepbc.queries.results import Counterfactual, Diagnostics
from deepbc.queries.status import Status
from deepbc.scm.model import SCM

Rows = Mapping[str, Tensor]

LARGEST_ERROR = 1e-6
# A value this many units of its own rounding away is met: nothing nearer may exist.
ROUNDING = 16


@dataclass(frozen=True, slots=True)
class RowStatuses:
    """How each row ended.

    Args:
        statuses: What can have happened: first success, last a miss that nothing else explains.
        code: Which of them happened, with shape `(rows,)`.
        reach: The largest error, in standard deviations, that counts as none.
    """

    statuses: tuple[Status, ...]
    code: Tensor
    reach: float = LARGEST_ERROR


def answer(
    scm: SCM,
    question: Question,
    counterfactual: tuple[Rows, Rows],
    distance: Distance,
    endings: RowStatuses,
    diagnostics: Diagnostics | None = None,
    drawn: Rows | None = None,
) -> Counterfactual:
    """Puts together the answer: what moved, what it cost, and whether the antecedent holds.

    Args:
        scm: The model.
        question: What was asked.
        counterfactual: Counterfactual values and noise, each with shape `(rows, dim)`; or `(samples, rows, dim)`.
        distance: How far two noises are apart.
        endings: How each row ended; one that misses, in any sample, is never a success.
        diagnostics: What a sampler says of each row.
        drawn: Factual noise that was drawn with each sample, with shape `(samples, rows, dim)`.
    """
    samples = torch.Size([len(next(iter(counterfactual[0].values())))]) if diagnostics else torch.Size()
    batch = samples + question.batch
    x, u = ({name: rows.flatten(0, -2) for name, rows in part.items()} for part in counterfactual)
    many = samples.numel()
    rest = {name: rows.repeat(many, 1) for name, rows in question.u.items()}
    rest |= {name: rows.flatten(0, -2) for name, rows in (drawn or {}).items()}
    moved = {name: distance.moved(name, u[name], rest[name]) for name in scm.graph}
    error, met = _error(scm, {name: each.repeat(many) for name, each in question.asked.items()}, u, endings.reach)
    holds = (met & _possible(scm, x, u)).reshape(many, -1).all(0)
    missed = (endings.code == 0) & ~holds
    code = torch.where(missed, len(endings.statuses) - 1, endings.code)
    statuses = np.empty(len(endings.statuses), dtype=object)
    statuses[:] = endings.statuses
    after, before = _world(scm, x, u, batch), _world(scm, question.x, question.u, question.batch)

    return Counterfactual(
        graph=scm.graph,
        values=after.values,
        noise=after.noise,
        factual=before,
        antecedent={name: _shown(scm, name, each, question.batch) for name, each in question.asked.items()},
        moved={name: _column(each, batch) for name, each in moved.items()},
        distance=_column(torch.stack(list(moved.values())).sum(0), batch),
        error=_column(error, batch),
        farthest=_column(_farthest(u, rest), batch),
        clipped=scm.clipped_rows(x, u).cpu().reshape(batch),
        status=statuses[code.cpu().numpy()].reshape(tuple(question.batch))[()],
        batch=batch,
        diagnostics=diagnostics,
    )


def _error(scm: SCM, asked: Mapping[str, Asked], u: Rows, reach: float) -> tuple[Tensor, Tensor]:
    """Predicts the antecedent and its causes afresh from the noise.

    Returns:
        The largest miss, in standard deviations of the variable, and whether it counts as none; a NaN does not.
    """
    names = {*asked, *scm.graph.ancestors(*asked)}
    eps = scm.rounding(names)
    fresh, _ = scm.complete_rows({}, {name: u[name] for name in names}, names=names)

    errors, met = [], []
    for name, each in asked.items():
        sd = scm.spread(name)
        missed = each.missed(fresh[name]) / sd
        rounding = ROUNDING * eps * fresh[name].abs() / sd
        allowed = torch.maximum(torch.full_like(missed, max(reach, 1e3 * eps)), rounding)
        errors.append(missed.amax(-1))
        met.append((missed <= allowed).all(-1))

    return torch.stack(errors).amax(0), torch.stack(met).all(0)


def _possible(scm: SCM, x: Rows, u: Rows) -> Tensor:
    """Whether a row is a world: every value and noise a number, every value inside its bounds."""
    rows = [u[name].isfinite().all(-1) for name in scm.graph]
    for name, variable in scm.variables.items():
        rows.append((x[name].isfinite() & (x[name] >= variable.lower) & (x[name] <= variable.upper)).all(-1))

    return torch.stack(rows).all(0)


def _farthest(u_star: Rows, u: Rows) -> Tensor:
    """The largest noise among those that moved, with shape `(rows,)`; 0 where none did."""
    parts = [torch.where(u_star[name] == u[name], 0.0, u_star[name]).abs() for name in u_star]

    return torch.cat(parts, dim=-1).amax(-1)


def _shown(scm: SCM, name: str, asked: Asked, batch: torch.Size) -> Any:
    """The antecedent as people see it: a value a row, or an interval."""
    ends = [
        None if end.isinf().all() and len(end) else scm.show(name, _unflat(end, batch))
        for end in (asked.lower, asked.upper)
    ]

    return Interval(*ends) if asked.interval else ends[0]


def _world(scm: SCM, x: Rows, u: Rows, batch: torch.Size) -> World:
    return scm.world(*({name: _unflat(rows, batch) for name, rows in part.items()} for part in (x, u)))


def _unflat(rows: Tensor, batch: torch.Size) -> Tensor:
    return rows.reshape(*batch, rows.shape[-1])


def _column(rows: Tensor, batch: torch.Size) -> Tensor:
    return rows.double().cpu().reshape(batch)
