"""What is asked: of which factual worlds, and a value or an interval for each variable of the antecedent."""

__all__ = ["Question", "read_question"]

import math
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_batches, check_finite, name_rows, naming_rows, pick
from deepbc.data.columns import align, index_of
from deepbc.data.grid import WHOLE, Grid
from deepbc.data.reading import read, read_column
from deepbc.data.variables import flatten
from deepbc.errors import DataError
from deepbc.numerics.batched import map_tensors, select
from deepbc.queries.antecedents import Interval, LabelSet
from deepbc.queries.asked import Asked
from deepbc.scm import SCM
from deepbc.scm.completion import complete_read


@dataclass(frozen=True, slots=True)
class Question:
    """A question, row by row.

    Args:
        x: Factual values by variable, with shape `(rows, value)`.
        u: Factual noise by variable, with shape `(rows, noise)`.
        asked: What has to hold: the antecedent, within the limits of its variables.
        batch: The batch shape of the answer.
        index: The labels of the rows, where they came in a data frame.
        antecedent: The antecedent as it was asked.
        limits: What has to hold of other variables, once they change.
        forbidden: For each variable of the antecedent that is limited, the rows that ask for what its limit forbids.
    """

    x: Mapping[str, Tensor]
    u: Mapping[str, Tensor]
    asked: Mapping[str, Asked]
    batch: torch.Size
    index: Any = None
    antecedent: Mapping[str, Asked] = field(default_factory=dict)
    limits: Mapping[str, Asked] = field(default_factory=dict)
    forbidden: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.batch.numel()

    def select(self, rows: Tensor | slice) -> "Question":
        """Takes the given rows."""
        parts = {name: select(getattr(self, name), rows) for name in ("x", "u", "asked", "limits", "forbidden")}

        return Question(**parts, batch=next(iter(parts["x"].values())).shape[:1])

    def within(self, limits: Mapping[str, Asked], scm: SCM) -> "Question":
        """The same within limits of its variables."""
        asked, forbidden = dict(self.asked), {}
        for name in asked:
            if name in limits:
                levels = scm.variables[name].levels
                asked[name], forbidden[name] = asked[name].within(limits[name], len(levels) if levels else 0)
        others = {name: each for name, each in limits.items() if name not in asked}

        return replace(self, asked=asked, limits=others, forbidden=forbidden)

    def strict(self) -> "Question":
        """The same with all limits asked for from the start."""
        return replace(self, asked={**self.asked, **self.limits}, limits={})


def read_question(scm: SCM, factual: Any, antecedent: Any) -> Question:
    """Reads and checks a question.

    An antecedent outside the bounds of its variable is no error here: the answer says that it cannot be reached.
    """
    with torch.no_grad():
        world = complete_read(scm, factual)
    x, u = world.x, world.u
    index = index_of(factual)
    is_frame = index_of(antecedent) is not None
    antecedent = align(antecedent, index, "antecedent") if is_frame else antecedent
    columns = antecedent if isinstance(antecedent, Mapping) else _columns(scm, antecedent)
    if not len(columns):
        raise DataError("antecedent: expected at least one variable, got none. Write for example {'x': 3.0}.")

    names = [pick(name, tuple(scm.graph), "antecedent") for name in columns]
    aligned = {name: _aligned(columns[name], index, f"antecedent {name!r}") for name in names}
    with naming_rows(index):
        asked = {name: _read_one(scm, name, each) for name, each in aligned.items()}
    shapes = {name: rows.shape[:-1] for name, rows in x.items()}
    batch = check_batches({**shapes, **{f"antecedent {name}": each.lower.shape[:-1] for name, each in asked.items()}})

    def flat(rows: Tensor) -> Tensor:
        return rows.expand(*batch, -1).reshape(batch.numel(), rows.shape[-1])

    wanted = {name: map_tensors(flat, each) for name, each in asked.items()}

    return Question(
        {name: flat(rows) for name, rows in x.items()},
        {name: flat(rows) for name, rows in u.items()},
        wanted,
        batch,
        _row_labels(index, aligned.values(), batch),
        wanted,
    )


def _columns(scm: SCM, antecedent: Any) -> dict[str, Any]:
    """The columns of a data frame, with vectors joined and labels as they were."""
    levels = scm.schema.levels
    read_in = read(antecedent, "antecedent", tuple(scm.graph), levels=levels, strict=True)

    return {name: levels[name].labels(each) if name in levels else each for name, each in read_in.items()}


def _aligned(asked: Any, index: Any, where: str) -> Any:
    """What is asked of a variable, a Series in the order of the factual rows."""
    if isinstance(asked, Interval):
        return Interval(align(asked.lower, index, where), align(asked.upper, index, where))
    if isinstance(asked, LabelSet):
        return LabelSet(tuple(align(each, index, where) for each in asked.labels), asked.excluded)

    return align(asked, index, where)


def _row_labels(index: Any, asked: Iterable[Any], batch: torch.Size) -> Any:
    """The labels of the factual rows; of one factual row beside many antecedents those of the antecedents."""
    if len(batch) != 1 or (index is not None and len(index) == batch[0]):
        return index if len(batch) == 1 else None
    labels = (getattr(each, "index", None) for each in asked)

    return next((each for each in labels if isinstance(each, Sized) and len(each) == batch[0]), None)


def _read_one(scm: SCM, name: str, asked: Any) -> Asked:
    where = f"antecedent {name!r}"
    variable = scm.variables[name]
    if isinstance(asked, LabelSet):
        return _read_labels(scm, name, asked, where)
    if not isinstance(asked, Interval):
        value = variable.encode(_column(scm, name, asked, where), where).to(device=scm.device, dtype=scm.dtype)
        check_finite(value, where)
        return Asked(value, value, False)

    _check_sorted(variable.sorted, variable.kind, asked, where)
    lower = _end(scm, name, -math.inf, asked.lower, where)
    upper = _end(scm, name, math.inf, asked.upper, where)
    lower, upper = torch.broadcast_tensors(lower, upper)
    _check_order(lower, upper, where)
    if variable.whole:
        _check_some_whole(lower, upper, variable.grid, where)
        lower, upper = variable.grid.above(lower), variable.grid.below(upper)

    return Asked(lower, upper, True)


def _read_labels(scm: SCM, name: str, asked: LabelSet, where: str) -> Asked:
    """Reads a set of labels, of which some is left."""
    variable = scm.variables[name]
    if variable.levels is None:
        raise DataError(f"{where}: {asked!r} asks for labels of a {variable.kind}. Ask for a value or an interval.")
    if not asked.labels:
        raise DataError(f"{where}: expected at least one label, got {asked!r}.")
    codes = torch.broadcast_tensors(*(variable.levels.codes(each, where).to(scm.device) for each in asked.labels))
    places = torch.arange(len(variable.levels), device=scm.device)
    there = (torch.stack(codes).unsqueeze(-1) == places).any(0) ^ asked.excluded
    if not there.any(-1).all():
        raise DataError(f"{where}: {asked!r} leaves no label of {list(variable.levels.items)}. Name fewer.")

    return Asked.one_of(there, there.new_zeros((*there.shape[:-1], variable.dim), dtype=scm.dtype))


def _end(scm: SCM, name: str, open_end: float, end: Any, where: str) -> Tensor:
    """An end of an interval, with shape `(*batch, 1)`; one that is not given is open."""
    if end is None:
        return torch.full((1,), open_end, device=scm.device, dtype=scm.dtype)

    read_in = flatten(_column(scm, name, end, where), (), where).to(device=scm.device, dtype=scm.dtype)
    check_finite(read_in, where)

    return read_in


def _column(scm: SCM, name: str, given: Any, where: str) -> Tensor:
    """Reads numbers, or labels as codes."""
    levels = scm.variables[name].levels

    return levels.codes(given, where) if levels else read_column(given, where)


def _check_order(lower: Tensor, upper: Tensor, where: str) -> None:
    """No interval is empty; both ends have shape `(*batch, 1)`."""
    wrong = (lower > upper).any(-1)
    if wrong.any():
        raise DataError(
            f"{where}: expected a lower end that is not above the upper one, got ({lower[wrong][0].item():g}, "
            f"{upper[wrong][0].item():g}) in {name_rows(wrong)}. Swap them."
        )


def _check_some_whole(lower: Tensor, upper: Tensor, grid: Grid, where: str) -> None:
    """There is a number of the grid in every interval; both ends have shape `(*batch, 1)`."""
    none = (grid.above(lower) > grid.below(upper)).any(-1)
    if none.any():
        one = "a whole number" if grid == WHOLE else f"a number in {grid}"
        raise DataError(
            f"{where}: expected an interval that holds {one}, got ({lower[none][0].item():g}, "
            f"{upper[none][0].item():g}) in {name_rows(none)}. Widen it."
        )


def _check_sorted(sorts: bool, kind: str, asked: object, where: str) -> None:
    """An interval is asked of a variable whose values have an order."""
    if not sorts:
        raise DataError(
            f"{where}: {asked!r} asks for an interval of a {kind}, which has no order. Ask for a value"
            f"{', or declare its ordered levels as its type' if kind == 'category' else ' of each component'}."
        )
