"""The way out to pandas, which is loaded on first use only: it takes a third of the time that torch takes."""

__all__ = ["DataFrame", "frame"]

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from deepbc.data.variables import Kind

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame
else:  # for annotations
    DataFrame = Any


def frame(
    columns: Mapping[str, Any],
    batch: torch.Size,
    names: tuple[str, ...] | None = None,
    kinds: Mapping[str, Kind] | None = None,
    index: Any = None,
) -> DataFrame:
    """Writes named arrays as a data frame with one row per element of the batch.

    Args:
        columns: For each name an array with shape `(*batch, *shape)`; a vector becomes a column per component, and an
            image none: a table is no place for pixels.
        batch: The batch shape. More than one axis gives an index of as many levels.
        names: The names of the levels, if they have any.
        kinds: What the values of categories and whole numbers are: these come out as integers and truth values again.
        index: The labels of the last axis; 0, 1, 2, ... by default.
    """
    import pandas

    kinds = kinds or {}

    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, column in columns.items():
        array = np.asarray(column)
        if array.ndim > len(batch) + 1:
            continue
        rows = array.reshape(batch.numel(), math.prod(array.shape[len(batch) :]))
        scalar = array.ndim == len(batch)
        rows = _typed(rows, kinds[name]) if name in kinds else rows
        arrays |= {name if scalar else f"{name}[{k}]": rows[:, k] for k in range(rows.shape[1])}

    if len(batch) > 1:
        levels = [range(size) for size in batch[:-1]]
        last = range(batch[-1]) if index is None else index
        return pandas.DataFrame(arrays, index=pandas.MultiIndex.from_product([*levels, last], names=names))

    return pandas.DataFrame(arrays, index=pandas.RangeIndex(batch.numel()) if index is None else index)


def _typed(rows: "np.ndarray[Any, Any]", kind: Kind) -> "np.ndarray[Any, Any]":
    """Whole numbers as integers and truth values as such, unless one is missing."""
    if rows.dtype.kind != "f" or not np.isfinite(rows).all():
        return rows
    if kind.whole and kind.grid.integral:
        return rows.astype(np.int64)

    return rows.astype(bool) if kind.levels and kind.levels.truths else rows
