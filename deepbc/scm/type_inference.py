"""What the values of each variable are, as people declared it or as a column shows, and the mechanism that suits them.

What people name comes first: a type, or a mechanism. Otherwise labels, truth values and a number that has two values in
all make a category, a column of integers holds whole numbers, and all else is real.
"""

__all__ = ["find_kinds", "read_types", "suited"]

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from deepbc._validation import check_levels, pick
from deepbc.data.categories import Label, find_levels, list_items, words_in
from deepbc.data.variables import Kind
from deepbc.errors import SettingError
from deepbc.mechanisms import Categorical, Flow, Integer, Mechanism

REAL, INTEGER, CATEGORY = "real", "integer", "category"
# So many rows of a column of numbers are looked at before all of them are.
FEW = 1000

Declared = str | tuple[Label, ...]


def read_types(types: Mapping[str, Any], names: Collection[str]) -> dict[str, Declared]:
    """Reads declared types: real, integer, category, or the ordered levels of one, lowest first."""
    read: dict[str, Declared] = {}
    for name, declared in types.items():
        pick(name, names, "types")
        _check_types(declared, (REAL, INTEGER, CATEGORY), f"type of {name!r}")
        read[name] = declared if isinstance(declared, str) else tuple(declared)

    return read


def find_kinds(
    columns: Mapping[str, Any],
    declared: Mapping[str, Declared],
    chosen: Mapping[str, Mechanism],
    bounds: Collection[str],
) -> dict[str, Kind]:
    """Finds what the values of each column are.

    Args:
        columns: The columns as they came.
        declared: The types that people declared.
        chosen: The mechanisms that people chose.
        bounds: The variables that have bounds.
    """
    return {
        name: _kind(column, f"Variable {name!r}", declared.get(name), chosen.get(name), name in bounds)
        for name, column in columns.items()
    }


def _kind(column: Any, where: str, declared: Declared | None, mechanism: Mechanism | None, bounded: bool) -> Kind:
    if isinstance(declared, tuple):
        return Kind(find_levels(column, where, declared))
    if declared is not None:
        return Kind(find_levels(column, where) if declared == CATEGORY else None, declared == INTEGER)
    if isinstance(mechanism, Categorical):
        return Kind(find_levels(column, where))
    if isinstance(mechanism, Integer):
        return Kind(whole=True)
    if mechanism is not None:
        _check_words(words_in(column, where), mechanism, where)
        return Kind()
    items = list_items(column, where)
    if words_in(column, where) or (not bounded and _two_valued(items)):
        return Kind(find_levels(column, where))

    return Kind(whole=items.ndim == 1 and items.dtype.kind in "iu")


def suited(kind: Kind, mechanism: Mechanism | None, where: str) -> Mechanism:
    """The mechanism of a variable: the chosen one, or the default of its type; whole numbers are rounded."""
    if mechanism is None:
        return Categorical() if kind.levels else Integer() if kind.whole else Flow()
    if kind.whole and not mechanism.discrete and not mechanism.given:
        return Integer(mechanism)
    if kind.levels and not isinstance(mechanism, Categorical):
        _check_words(True, mechanism, where)

    return mechanism


def _two_valued(items: "np.ndarray[Any, Any]") -> bool:
    """Whether a column of numbers has two values in all."""
    if items.ndim != 1 or items.dtype.kind not in "iuf" or len(set(items[:FEW].tolist())) > 2:
        return False

    return len(set(items.tolist())) == 2


def _check_types(declared: object, known: Sequence[str], where: str) -> None:
    """A type is one of the known ones, or the ordered levels of a category."""
    listed = isinstance(declared, Sequence) and not isinstance(declared, str)
    if isinstance(declared, str) and declared in known:
        return
    if not listed:
        raise SettingError(
            f"{where}: expected {', '.join(map(repr, known))} or a list of ordered levels, lowest first, got "
            f"{declared!r}."
        )
    try:
        check_levels(declared)  # type: ignore[arg-type] # a sequence, as was seen
    except (SettingError, TypeError) as error:
        raise SettingError(f"{where}: {error}") from error


def _check_words(words: bool, mechanism: object, where: str) -> None:
    if words:
        raise SettingError(
            f"{where}: its column holds labels, and {mechanism!r} is a law of numbers. Take Categorical(), or convert "
            f"the column to numbers."
        )
