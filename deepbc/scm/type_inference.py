"""What the values of each variable are, as people declared it or as a column shows, and the mechanism that suits them.

What people name comes first: a type, or a mechanism. Otherwise labels, truth values and a number that has two values in
all make a category; numbers whose least or largest value many rows share are censored; a column of numbers that are all
whole holds whole numbers, and one of numbers a coarse step apart those of a grid; and all else is real.
"""

__all__ = ["Declaration", "default_mechanism", "infer_kind", "read_types", "rival_mechanism"]

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepbc._validation import check_levels, pick
from deepbc.data.categories import Label, find_levels, list_items, words_in
from deepbc.data.dates import check_no_date_text
from deepbc.data.grid import WHOLE
from deepbc.data.variables import Kind, Variable
from deepbc.data.wording import join_words
from deepbc.errors import DataError, SettingError
from deepbc.graph import CausalGraph
from deepbc.mechanisms import Categorical, Censored, Flow, GaussianProcess, Integer, Mechanism
from deepbc.scm.lumps import find_lumps
from deepbc.scm.steps import find_grid

REAL, INTEGER, GRID, CATEGORY, CENSORED = "real", "integer", "grid", "category", "censored"
NAMED = (REAL, INTEGER, GRID, CATEGORY, CENSORED)
# Rows of a column of numbers that are looked at before all of them are.
FEW = 1000
# From here on all numbers of double precision are whole.
LARGEST_WHOLE = 2**53

Declared = str | tuple[Label, ...]


def read_types(types: Mapping[str, Any], names: Collection[str]) -> dict[str, Declared]:
    """Reads declared types: one of `NAMED`, or the ordered levels of a category, lowest first."""
    read: dict[str, Declared] = {}
    for name, declared in types.items():
        pick(name, names, "types")
        _check_type(declared, f"type of {name!r}")
        read[name] = declared if isinstance(declared, str) else tuple(declared)

    return read


@dataclass(frozen=True, slots=True)
class Declaration:
    """What people said of a model before any data was seen.

    Args:
        graph: The causal graph.
        mechanisms: The mechanisms, chosen or not, fitted or not.
        chosen: The variables whose mechanisms people chose.
        bounds: The bounds that they declared.
        types: The types that they declared.
    """

    graph: CausalGraph
    mechanisms: Mapping[str, Mechanism]
    chosen: Collection[str]
    bounds: Mapping[str, tuple[float, float]]
    types: Mapping[str, Declared]

    def kinds(self, columns: Mapping[str, Any], known: Mapping[str, Variable]) -> dict[str, Kind]:
        """Finds what the values of each column are: as before where that is known, or as declared, chosen or seen."""
        kinds = {name: each.values_kind for name, each in known.items()}
        for name, column in columns.items():
            if name in known or name not in self.graph:
                continue
            mechanism = self.mechanisms[name]
            if mechanism.domain != "image" and not mechanism.given:
                chosen = mechanism if name in self.chosen else None
                kinds[name] = infer_kind(column, name, self.types.get(name), chosen, bounded=name in self.bounds)

        return kinds

    def origin(self, name: str, known: Mapping[str, Variable]) -> str:
        """Where the type of a variable comes from."""
        if name in known:
            return "as before"
        if name in self.types:
            return "declared"

        return "its law" if name in self.chosen else "inferred"

    def mechanism(self, name: str, kind: Kind) -> Mechanism:
        """The mechanism of a variable: the chosen one, rounded or censored if need be, or the default of its type."""
        if name not in self.chosen:
            return default_mechanism(kind)
        mechanism = self.mechanisms[name]
        if kind.whole and not mechanism.discrete and not mechanism.given:
            return Integer(mechanism)
        if kind.censored and mechanism.domain == "number" and not mechanism.given:
            return Censored(mechanism)
        if kind.levels and mechanism.domain != "category":
            _check_words(True, mechanism, f"Variable {name!r}")

        return mechanism


def infer_kind(
    column: Any, name: str, declared: Declared | None, mechanism: Mechanism | None, *, bounded: bool
) -> Kind:
    """Finds what the values of a column are.

    Args:
        column: The column as it came.
        name: Its variable.
        declared: The type that people declared, if any.
        mechanism: The mechanism that people chose, if any.
        bounded: Whether they declared bounds.
    """
    where = f"Variable {name!r}"
    if isinstance(declared, tuple):
        return Kind(find_levels(column, where, declared))
    if declared == CENSORED or (declared is None and mechanism is not None and mechanism.domain == "censored"):
        return _censored(column, where)
    if declared == GRID:
        return _on_grid(column, where)
    if declared is not None:
        return Kind(find_levels(column, where) if declared == CATEGORY else None, declared == INTEGER)
    if mechanism is not None and mechanism.domain == "category":
        return Kind(find_levels(column, where))
    if mechanism is not None and mechanism.domain == "integer":
        items = list_items(column, where)
        return Kind(whole=True, grid=find_grid(items, coarse=_all_whole(items)) or WHOLE)
    if mechanism is not None:
        words = words_in(column, where)
        if words:
            check_no_date_text(set(list_items(column, where).reshape(-1).tolist()), where)
        _check_words(words, mechanism, where)
        return Kind()
    items = list_items(column, where)
    if words_in(column, where) or (not bounded and _two_valued(items)):
        return Kind(find_levels(column, where))

    floor, ceiling = find_lumps(items)
    if math.isfinite(floor) or math.isfinite(ceiling):
        return Kind(floor=floor, ceiling=ceiling)

    grid = find_grid(items)

    return Kind(whole=grid is not None or (items.ndim == 1 and _all_whole(items)), grid=grid or WHOLE)


def default_mechanism(kind: Kind) -> Mechanism:
    """The mechanism of values of which people chose none."""
    if kind.levels:
        return Categorical()

    return Integer() if kind.whole else Censored() if kind.censored else GaussianProcess()


def rival_mechanism(kind: Kind) -> Mechanism | None:
    """What may be better than the default from many rows, if anything: a network says what smooth functions cannot."""
    if kind.levels or kind.censored:
        return None

    flow = Flow(correction=True)

    return Integer(flow) if kind.whole else flow


def _on_grid(column: Any, where: str) -> Kind:
    """The grid of a column that people say is on one."""
    grid = find_grid(list_items(column, where), coarse=False)
    if grid is None:
        raise DataError(
            f"{where}: expected numbers that are equal steps of at most six decimals apart, because it is to be on a "
            f"grid; its are not, or are too few. Declare it as real."
        )

    return Kind(whole=True, grid=grid)


def _censored(column: Any, where: str) -> Kind:
    """The floor and the ceiling of a column that people say has one."""
    floor, ceiling = find_lumps(list_items(column, where), declared=True)
    if math.isinf(floor) and math.isinf(ceiling):
        raise DataError(
            f"{where}: expected many rows at its least or its largest value, because it is to be censored; neither "
            f"comes twice. Declare it as real."
        )

    return Kind(floor=floor, ceiling=ceiling)


def _all_whole(items: "np.ndarray[Any, Any]") -> bool:
    """Whether numbers are all whole, and have few enough digits that this says something."""
    if items.dtype.kind != "f":
        return items.dtype.kind in "iu"
    some = items[:FEW]
    if not (some == np.round(some)).all():
        return False

    return bool(((items == np.round(items)) & (np.abs(items) < LARGEST_WHOLE)).all())


def _two_valued(items: "np.ndarray[Any, Any]") -> bool:
    """Whether a column of numbers has two values in all."""
    if items.ndim != 1 or items.dtype.kind not in "iuf" or len(set(items[:FEW].tolist())) > 2:
        return False

    return len(set(items.tolist())) == 2


def _check_type(declared: object, where: str) -> None:
    """A type is one of the ones that have names, or the ordered levels of a category."""
    if isinstance(declared, str) and declared in NAMED:
        return
    if isinstance(declared, str) or not isinstance(declared, Sequence):
        raise SettingError(
            f"{where}: expected {join_words(list(map(repr, NAMED)), 'or')}, or a list of ordered levels, lowest first, "
            f"got {declared!r}."
        )
    try:
        check_levels(declared)
    except (SettingError, TypeError) as error:
        raise SettingError(f"{where}: {error}") from error


def _check_words(words: bool, mechanism: object, where: str) -> None:
    if words:
        raise SettingError(
            f"{where}: its column holds labels, and {mechanism!r} is a law of numbers. Take Categorical(), or convert "
            f"the column to numbers."
        )
