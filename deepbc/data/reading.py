"""What people hand in, as tensors: a data frame or one of its rows, a mapping of arrays, tensors, lists or numbers."""

__all__ = ["align", "columns_in", "index_of", "read", "read_column", "read_image"]

import math
import re
import sys
import warnings
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepbc._validation import check_batches, check_known
from deepbc.data.categories import Levels
from deepbc.errors import DataError

# A component of a vector, as a data frame of ours has it in a column of its own: `name[0]`.
COMPONENT = re.compile(r"(.+)\[(0|[1-9][0-9]*)\]", re.DOTALL)


def read(
    data: Any,
    where: str,
    names: Collection[str] = (),
    images: Collection[str] = (),
    levels: Mapping[str, Levels] | None = None,
) -> dict[str, Tensor]:
    r"""Reads named columns of numbers and of labels.

    Args:
        data: A pandas data frame or Series (one row), or a mapping from names to anything that holds numbers or labels.
        where: What the data is, for an error.
        names: The variables. One that has no column but `name[0]`, `name[1]`, ... is a vector of these.
        images: The variables whose columns are large: bytes stay bytes, on disk if they are there, and all other
            numbers become float32.
        levels: The levels of each variable that is a category, whose labels become codes.

    Returns:
        For each name a float64 tensor with the axes it came with.
    """
    levels = levels or {}
    read = {}
    for name, column in columns_in(data, where).items():
        place = f"{where}, {name!r}"
        if names:
            component = COMPONENT.fullmatch(str(name))
            check_known(name if not component or component[1] not in names else component[1], names, where)
        if name in levels:
            read[name] = levels[name].codes(column, place)
        else:
            read[name] = (read_image if name in images else read_column)(column, place)

    return _joined(read, where, names)


def columns_in(data: Any, where: str) -> Mapping[Any, Any]:
    """The columns of a data frame, a Series or a mapping, as they came."""
    pandas = sys.modules.get("pandas")

    if pandas is not None and isinstance(data, pandas.DataFrame):
        if not data.columns.is_unique:
            twice = data.columns[data.columns.duplicated()][0]
            raise DataError(f"{where}: the column {twice!r} comes twice. Drop or rename one.")
        return {name: data[name] for name in data.columns}
    if type(data).__module__.partition(".")[0] in ("polars", "pyarrow") and hasattr(data, "columns"):
        names = data.column_names if hasattr(data, "column_names") else data.columns
        return {name: np.asarray(data[name]) for name in names}
    if isinstance(data, Mapping) or (pandas is not None and isinstance(data, pandas.Series)):
        if len(set(data.keys())) < len(data):
            raise DataError(f"{where}: a name comes twice. Drop or rename one.")
        return dict(data.items())

    raise DataError(
        f"{where}: expected a data frame or a mapping from names to arrays, got {type(data).__name__}. "
        f"Write for example {{'x': [1.0, 2.0]}}."
    )


def index_of(data: Any) -> Any:
    """The labels of the rows of a data frame; None of anything else."""
    pandas = sys.modules.get("pandas")

    return data.index if pandas is not None and isinstance(data, pandas.DataFrame) else None


def align(column: Any, index: Any, where: str) -> Any:
    """Brings a Series or data frame to the order of the labels of other rows; what has no labels stays as it is."""
    pandas = sys.modules.get("pandas")
    if index is None or pandas is None or not isinstance(column, pandas.Series | pandas.DataFrame):
        return column
    # One row is asked about many.
    if column.index.equals(index) or (len(index) == 1 and len(column) != 1):
        return column

    missing = [label for label in index if label not in column.index]
    if missing or not column.index.is_unique:
        what = f"no value for the row {missing[0]!r}" if missing else "labels that come twice"
        raise DataError(
            f"{where}: expected a value for each label of the factual rows, got {what}. A Series is matched by its "
            f"labels; write .to_numpy() to match by position."
        )

    return column.loc[index]


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
            row = np.unravel_index(i, array.shape)[0] if array.ndim else 0
            what = f"the text {item!r}" if isinstance(item, str) else f"{type(item).__name__} {item!r}"
            raise DataError(
                f"{where}: expected numbers, got {what} in row {row}. Convert the column to numbers or drop the row."
            )
        numbers[i] = number

    return numbers.reshape(array.shape)


def _number(item: Any) -> float | None:
    """Reads a number; a gap is NaN, and what is no number is None."""
    if item is None or type(item).__name__ == "NAType":  # pandas' own gap
        return math.nan
    if isinstance(item, str | bytes | bool):
        return None
    try:
        return float(item)
    except (TypeError, ValueError, OverflowError):
        return None
