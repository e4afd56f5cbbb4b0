"""What people hand in, as tensors: a data frame or one of its rows, a mapping of arrays, tensors, lists or numbers."""

__all__ = ["read", "read_column", "read_image"]

import math
import warnings
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepbc._validation import check_batches, name_row
from deepbc.data.categories import Levels
from deepbc.data.columns import COMPONENT, GAPS, select_columns
from deepbc.data.dates import check_no_date_text, check_no_dates
from deepbc.errors import DataError


def read(
    data: Any,
    where: str,
    names: Collection[str],
    images: Collection[str] = (),
    levels: Mapping[str, Levels] | None = None,
    *,
    strict: bool = False,
) -> dict[str, Tensor]:
    r"""Reads named columns of numbers and of labels.

    Args:
        data: A table (a data frame of pandas, polars or pyarrow, a structured array of numpy) or a row of one, of which
            columns that are no variables are left out; or a mapping from names to anything that holds numbers or
            labels.
        where: What the data is, for an error.
        names: The variables. One that has no column but `name[0]`, `name[1]`, ... is a vector of these.
        images: The variables whose columns are large: bytes stay bytes, on disk if they are there, and all other
            numbers become float32.
        levels: The levels of each variable that is a category, whose labels become codes.
        strict: Whether a table, too, may have no columns but those of variables.

    Returns:
        For each name a float64 tensor with the axes it came with.
    """
    levels = levels or {}
    read = {}
    for name, column in select_columns(data, names, where, strict=strict).items():
        place = f"{where}, {name!r}"
        if name in levels:
            read[name] = levels[name].codes(column, place)
        else:
            read[name] = (read_image if name in images else read_column)(column, place)

    return _joined(read, where, names)


def read_image(column: Any, where: str) -> Tensor:
    """Reads images with the axes they came with; bytes stay as they are, other numbers become float32."""
    if isinstance(column, np.ndarray) and column.dtype in (np.uint8, np.float32):
        with warnings.catch_warnings():
            # They are only read.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            column = torch.from_numpy(column)
    if isinstance(column, Tensor) and column.dtype in (torch.uint8, torch.float32):
        return column.detach()

    return read_column(column, where).to(torch.float32)


def read_column(column: Any, where: str) -> Tensor:
    """Reads one column, or one number, as a float64 tensor with the axes it came with."""
    if isinstance(column, Tensor):
        return _real(column.detach(), where)

    if isinstance(column, np.ma.MaskedArray):
        column = np.ma.filled(column.astype(np.float64), np.nan)
    try:
        array = np.asarray(column)
    except ValueError as error:
        raise DataError(f"{where}: expected an array of numbers, got rows of different lengths.") from error

    check_no_dates(array, where)
    if array.dtype.kind in "iuf":
        return torch.from_numpy(array.astype(np.float64))
    if array.dtype.kind in "OUS":
        return torch.from_numpy(_numbers(array, where))

    raise DataError(f"{where}: expected numbers, got {array.dtype}. Convert the column to numbers first.")


def _joined(columns: dict[str, Tensor], where: str, names: Collection[str]) -> dict[str, Tensor]:
    """Joins the components of vectors."""
    vectors: dict[str, dict[int, str]] = {}
    for column in columns:
        found = COMPONENT.fullmatch(str(column))
        if found and column not in names and found[1] in names and found[1] not in columns:
            vectors.setdefault(found[1], {})[int(found[2])] = column

    joined = dict(columns)
    for name, parts in vectors.items():
        if max(parts) >= len(parts):
            came = ", ".join(map(repr, parts.values()))
            raise DataError(
                f"{where}, {name!r}: expected its components {name}[0] to {name}[{max(parts)}], got {came}."
            )
        components = [joined.pop(parts[k]) for k in range(len(parts))]
        batch = check_batches({parts[k]: tuple(each.shape) for k, each in enumerate(components)})
        joined[name] = torch.stack([each.expand(batch) for each in components], dim=-1)

    return joined


def _real(column: Tensor, where: str) -> Tensor:
    if column.layout != torch.strided:
        raise DataError(f"{where}: expected a dense tensor, got {column.layout}. Write to_dense().")
    if column.is_complex() or column.dtype == torch.bool:
        raise DataError(f"{where}: expected numbers, got {column.dtype}. Convert the column to numbers first.")

    return column.to(torch.float64)


def _numbers(array: np.ndarray[Any, Any], where: str) -> np.ndarray[Any, Any]:
    """Reads numbers that sit in an array of objects, as the rows of a mixed data frame do; text is refused."""
    numbers = np.empty(array.size)

    for i, item in enumerate(array.reshape(-1).tolist()):
        number = _number(item)
        if number is None:
            check_no_date_text([item], where)
            row = name_row(int(np.unravel_index(i, array.shape)[0]) if array.ndim else 0, len(array.reshape(-1)))
            what = f"the text {item!r}" if isinstance(item, str) else f"{type(item).__name__} {item!r}"
            raise DataError(
                f"{where}: expected numbers, got {what} in row {row}. Convert the column to numbers or drop the row."
            )
        numbers[i] = number

    return numbers.reshape(array.shape)


def _number(item: Any) -> float | None:
    """Reads a number; a gap is NaN, and what is no number is None."""
    if type(item).__name__ in GAPS:
        return math.nan
    if isinstance(item, str | bytes | bool):
        return None
    try:
        return float(item)
    except (TypeError, ValueError, OverflowError):
        return None
