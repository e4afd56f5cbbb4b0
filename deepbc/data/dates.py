"""Dates, times of day and lengths of time, which no law learns: how they are told from numbers and labels."""

__all__ = ["check_no_date_text", "check_no_dates", "date_text"]

import datetime
import re
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from deepbc.errors import DataError

# A day as ISO 8601 writes it, with a time of day or without.
ISO_DAY = re.compile(r"\s*[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([T ][0-9]{2}:[0-9]{2}.*)?\s*", re.DOTALL)
# What a number may be made of, by what a column holds.
REMEDIES = {
    "dates": "Make a number of each, such as the days since a day of your choice",
    "times of day": "Make a number of each, such as the hours since midnight",
    "lengths of time": "Make a number of each, such as its days",
}
TYPES = {
    "dates": (datetime.date, np.datetime64),
    "times of day": (datetime.time,),
    "lengths of time": (datetime.timedelta, np.timedelta64),
}
NUMPY_KINDS = {"M": "dates", "m": "lengths of time"}


def check_no_dates(array: "np.ndarray[Any, Any]", where: str) -> None:
    """An array holds no dates, times of day or lengths of time."""
    if array.dtype.kind in NUMPY_KINDS:
        items = array[~np.isnat(array)]
        _fail(NUMPY_KINDS[array.dtype.kind], items[0].item() if len(items) else None, where)
    if array.dtype.kind != "O":
        return
    items = array.reshape(-1).tolist()
    # pandas' own gap in a column of dates is of the type of a date.
    found = {type(item) for item in items if type(item).__name__ != "NaTType"}
    for what, types in TYPES.items():
        some = tuple(each for each in found if issubclass(each, types) or (what, each.__name__) == ("dates", "Period"))
        if some:
            _fail(what, next(item for item in items if type(item) in some), where)


def check_no_date_text(labels: Iterable[Any], where: str) -> None:
    """Labels are not all dates that are written as text."""
    given = list(labels)
    if given and all(date_text(label) for label in given):
        _fail("dates", min(given), where)


def date_text(item: Any) -> bool:
    """Whether an item is a date that is written as text, such as `2020-01-31`."""
    return isinstance(item, str) and ISO_DAY.fullmatch(item) is not None


def _fail(what: str, example: Any, where: str) -> NoReturn:
    such = "" if example is None else f" such as {str(example).strip()}"
    raise DataError(f"{where}: expected numbers or labels, got {what}{such}. {REMEDIES[what]}.")
