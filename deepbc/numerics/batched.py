"""Records of tensors whose first axis is the row: all of their tensors are selected, repeated and joined at once.

A record is a tensor, a mapping of records or a data class of records; whatever else it holds stays as it is.
"""

__all__ = ["concat_last", "join", "map_tensors", "repeat", "select"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Record = TypeVar("Record")


def map_tensors(function: Callable[..., Tensor], record: Record, *others: Record) -> Record:
    """Applies a function to every tensor of a record, beside the tensors of others of the same make."""
    made: Any = record
    if isinstance(record, Tensor):
        made = function(record, *others)
    elif isinstance(record, Mapping):
        rest = cast("tuple[Mapping[Any, Any], ...]", others)
        made = {key: map_tensors(function, each, *(other[key] for other in rest)) for key, each in record.items()}
    elif is_dataclass(record) and not isinstance(record, type):
        names = [field.name for field in fields(record)]
        parts = {
            name: map_tensors(function, getattr(record, name), *(getattr(other, name) for other in others))
            for name in names
        }
        made = replace(record, **parts)

    return cast("Record", made)


def select(record: Record, rows: Tensor | slice) -> Record:
    """Takes the given rows of every tensor."""
    return map_tensors(lambda each: each[rows], record)


def repeat(record: Record, count: int) -> Record:
    """Repeats all rows so many times, one after the other."""
    return map_tensors(lambda each: each.repeat(count, *[1] * (each.ndim - 1)), record)


def join(records: Sequence[Record]) -> Record:
    """Puts the rows of records of the same make one after the other."""
    if len(records) == 1:
        return records[0]

    return map_tensors(lambda *parts: torch.cat(parts), *records)


def concat_last(parts: Sequence[Tensor], empty: Tensor) -> Tensor:
    """Joins tensors `(*batch, ...)` along their last axis; without any it is the empty one, `(*batch, 0)`."""
    parts = [part for part in parts if part.shape[-1]]
    # One alone is taken as it is: solvers join again and again.
    return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0] if parts else empty
