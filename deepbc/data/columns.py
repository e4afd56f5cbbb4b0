"""The columns of what people hand in, and the labels of its rows.

A table, which is a data frame or one of its rows, may have columns that the graph does not name: they are left out. A
mapping is written by hand for its purpose, and a name in it that nobody knows is a mistake.
"""

__all__ = ["COMPONENT", "GAPS", "align", "index_of", "left_out", "select_columns"]

import math
import re
import sys
from collections.abc import Collection, Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from deepbc._validation import check_known
from deepbc.data.dates import check_no_dates
from deepbc.errors import DataError

# A component of a vector, as a data frame of ours has it in a column of its own: `name[0]`.
COMPONENT = re.compile(r"(.+)\[(0|[1-9][0-9]*)\]", re.DOTALL)
NUMBERS = (Real, Decimal)
# The types of what stands for a missing value, those of pandas among them.
GAPS = {"NoneType", "NAType", "NaTType"}


def select_columns(data: Any, names: Collection[str], where: str, *, strict: bool = False) -> dict[str, Any]:
    """The columns of variables, and of the components of vectors; dates are refused.

    Args:
        data: What people handed in.
        names: The variables.
        where: What the data is, for an error.
        strict: Whether a table may have no other columns either.
    """
    there = _names(data, where)
    # Of a variable that has a column of its own there are no components.
    vectors = set(names) - set(map(str, there))
    chosen: dict[str, Any] = {}
    for k, given in enumerate(there):
        # A table may have whole numbers for names; those of variables are text.
        name = str(given) if _is_table(data) else given
        component = COMPONENT.fullmatch(str(name))
        known = component[1] if component and name not in names and component[1] in vectors else name
        if known not in names and _is_table(data) and not strict:
            continue
        check_known(known, names, where)
        if name in chosen:
            raise DataError(f"{where}: the column {name!r} comes twice. Drop or rename one.")
        chosen[name] = _plain(_column(data, k, given), f"{where}, {name!r}")

    return chosen


def left_out(data: Any, names: Collection[str], where: str) -> tuple[str, ...]:
    """The names of the columns of a table that are no variables."""
    return tuple(each for each in map(str, _names(data, where)) if each not in names) if _is_table(data) else ()


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


def _is_table(data: Any) -> bool:
    """Whether data is a table or one of its rows, rather than a mapping."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame | pandas.Series):
        return True

    return _is_foreign(data) or _is_records(data)


def _is_foreign(data: Any) -> bool:
    """Whether data is a table of polars or pyarrow."""
    return type(data).__module__.partition(".")[0] in ("polars", "pyarrow") and hasattr(type(data), "columns")


def _is_records(data: Any) -> bool:
    """Whether data is a structured array of numpy, or one of its records."""
    return isinstance(data, np.ndarray | np.void) and data.dtype.names is not None


def _names(data: Any, where: str) -> list[Any]:
    """The names of the columns, in their order; one of a table may come twice."""
    if _is_records(data):
        return list(data.dtype.names)
    if _is_foreign(data) and type(data).__name__ == "LazyFrame":
        raise DataError(f"{where}: expected a table, got a LazyFrame, which is yet to be read. Call its collect().")
    if isinstance(data, Mapping) or (_is_table(data) and hasattr(data, "keys")):
        return list(data.keys())
    if _is_foreign(data):
        return list(data.column_names if hasattr(data, "column_names") else data.columns)

    raise DataError(
        f"{where}: expected a data frame or a mapping from names to arrays, got {type(data).__name__}. "
        f"Write for example {{'x': [1.0, 2.0]}}."
    )


def _column(data: Any, k: int, name: Any) -> Any:
    """The column of that place and name, as it came."""
    if hasattr(data, "iloc"):
        return data.iloc[:, k] if data.ndim > 1 else data.iloc[k]
    # A table of pyarrow may have a name twice.
    return data.column(k) if _is_foreign(data) and hasattr(data, "column") else data[name]


def _plain(column: Any, where: str) -> Any:
    """The column as an array, in which numbers are such whatever they came as; dates are refused."""
    if isinstance(column, list | tuple):
        check_no_dates(np.fromiter(column, dtype=object, count=len(column)), where)
        return column
    if type(column).__module__.partition(".")[0] == "pyarrow" and str(column.type).startswith("dictionary"):
        column = column.to_pandas()
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if categories is not None and type(column).__module__.startswith("pandas"):
        check_no_dates(np.asarray(categories), where)
        return column
    if not _is_plain(column):
        return column
    array = np.asarray(column)
    check_no_dates(array, where)
    if not array.ndim:
        return column

    return _numbers(array) if array.dtype.kind == "O" and array.ndim == 1 else array


def _is_plain(column: Any) -> bool:
    """Whether a column, or an item of a row, is what numpy makes an array of without loss."""
    module = type(column).__module__.partition(".")[0]

    return module in ("pandas", "polars", "pyarrow", "numpy", "datetime") and not isinstance(column, np.ma.MaskedArray)


def _numbers(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Objects that are all numbers, or gaps beside some, as such."""
    items = array.tolist()
    kinds = {type(item) for item in items}
    gaps = {each for each in kinds if each.__name__ in GAPS}
    if not kinds - gaps or not all(issubclass(each, NUMBERS) and not issubclass(each, bool) for each in kinds - gaps):
        return array
    try:
        return np.array([math.nan if type(item) in gaps else float(item) for item in items], dtype=np.float64)
    except OverflowError:
        return array
