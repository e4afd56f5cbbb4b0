"""The levels of a category: the labels that people use, the codes that count them, and the rows that laws see.

A category of :math:`K` levels is to the laws of its effects :math:`K - 1` indicators, one for each level but the first;
so one of two levels is a single 0 or 1. Ordered levels are to them one number, the place of the level: 0, 1, 2, ...
"""

__all__ = ["Label", "Levels", "find_levels", "list_items", "words_in"]

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from deepbc._validation import check_levels, name_row, near
from deepbc.errors import DataError

Label = str | float | bool

TRUTHS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a category.

    Args:
        items: The labels: all text, all numbers, or False and True.
        ordered: Whether their order means something, lowest first.
    """

    items: tuple[Label, ...]
    ordered: bool = False

    def __post_init__(self) -> None:
        check_levels(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def dim(self) -> int:
        """The number of components of a row."""
        return 1 if self.ordered else len(self.items) - 1

    @property
    def truths(self) -> bool:
        """Whether the labels are False and True."""
        return isinstance(self.items[0], bool)

    @property
    def words(self) -> bool:
        """Whether the labels are text."""
        return isinstance(self.items[0], str)

    def codes(self, column: Any, where: str) -> Tensor:
        """Reads labels as codes 0, 1, 2, ..., float64 with the axes they came with.

        Raises:
            DataError: One of them is unknown or missing; with its row.
        """
        items = list_items(column, where)
        flat = items.reshape(-1).tolist()
        known = {label: float(code) for code, label in enumerate(self.items)}
        codes: dict[Any, float] = {}
        for row, item in enumerate(flat):
            if item in codes:
                continue
            label = self.label_of(item)
            if label is None:
                _fail_level(item, name_row(row, len(flat)) if items.ndim else None, self.items, where)
            codes[item] = known[label]

        return torch.tensor([codes[item] for item in flat], dtype=torch.float64).reshape(items.shape)

    def label_of(self, item: Any) -> Label | None:
        """Finds the label that is meant, whether it came as text or not."""
        if _gap(item):
            return None
        label: Label | None
        if self.words:
            label = str(item)
        elif self.truths:
            label = TRUTHS.get(str(item).lower())
        else:
            label = _number(item)

        return label if label in self.items else None

    def legal(self, column: Any) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Which items of an array of one axis are labels that `codes` can read."""
        known = {item: self.label_of(item) is not None for item in set(column.tolist())}

        return np.array([known[item] for item in column.tolist()], dtype=bool)

    def labels(self, codes: Tensor) -> Any:
        """Shows codes as labels: text as an array of objects, numbers and truth values as a float64 tensor."""
        if self.words:
            shown = np.asarray(self.items, dtype=object)[codes.long().cpu().numpy()]
            return np.asarray(shown, dtype=object)

        return torch.tensor([float(item) for item in self.items], dtype=torch.float64)[codes.long().cpu()]

    def rows(self, codes: Tensor) -> Tensor:
        """Brings codes of shape `(*batch,)` to the rows that laws see, `(*batch, dim)`."""
        if self.ordered:
            return codes.unsqueeze(-1)

        return (codes.unsqueeze(-1) == torch.arange(1, len(self.items), device=codes.device)).to(codes.dtype)

    def harden(self, rows: Tensor) -> Tensor:
        """The nearest of all rows that a level has, for each of rows in between."""
        if self.ordered:
            return rows.round().clamp(0, len(self.items) - 1)

        whole = torch.cat([1 - rows.sum(-1, keepdim=True), rows], dim=-1)

        return self.rows(whole.argmax(-1).to(rows.dtype))

    def of_rows(self, rows: Tensor) -> Tensor:
        """Finds the codes of rows, with shape `(*batch,)`."""
        if self.ordered:
            return rows.squeeze(-1).round()

        places = torch.arange(1, len(self.items), device=rows.device, dtype=rows.dtype)

        return (rows * places).sum(-1).round()


def words_in(column: Any, where: str) -> bool:
    """Whether a column holds labels rather than numbers: text or truth values alone, or a category of pandas."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(getattr(column, "dtype", None), pandas.CategoricalDtype):
        return True
    items = list_items(column, where)
    if items.dtype.kind not in "OUSb":
        return False
    there = [item for item in items.reshape(-1).tolist() if not _gap(item)]
    if not all(isinstance(item, str | bool) for item in there):
        return False

    return bool(there) and not all(isinstance(item, str) and _number(item) is not None for item in there)


def find_levels(column: Any, where: str, order: Sequence[Label] | None = None) -> Levels:
    """Finds the levels of a column, those of which no row has any left out.

    Args:
        column: The labels, one a row.
        where: What they are, for an error.
        order: The levels, lowest first, where people declared them.
    """
    pandas = sys.modules.get("pandas")
    dtype = getattr(column, "dtype", None)
    found = list_items(column, where)
    if found.ndim != 1:
        raise DataError(f"{where}: expected one label a row, got shape {found.shape}. Make a variable of each column.")
    items = found.tolist()
    for row, item in enumerate(items):
        if _gap(item):
            _fail_level(None, name_row(row, len(items)), (), where)
    distinct = set(items)

    if order is not None:
        levels = Levels(tuple(order), ordered=True)
        levels.codes(column, where)
        there = {levels.label_of(item) for item in distinct}
        return _levels([label for label in levels.items if label in there], True, where)
    if pandas is not None and isinstance(dtype, pandas.CategoricalDtype):
        used = [item for item in dtype.categories.tolist() if item in distinct]
        return _levels(_alike(used, where), bool(dtype.ordered), where)

    return _levels(sorted(_alike(distinct, where)), False, where)


def list_items(column: Any, where: str) -> "np.ndarray[Any, Any]":
    """The items of a column as an array."""
    if isinstance(column, Tensor):
        column = column.detach().cpu().numpy()
    try:
        # numpy would turn the items of a list with text in it into text.
        mixed = isinstance(column, list | tuple) and any(isinstance(item, str) for item in column)
        return np.asarray(column, dtype=object if mixed else None)
    except ValueError as error:
        raise DataError(f"{where}: expected an entry a row, got rows of different lengths.") from error


def _levels(labels: Sequence[Label], ordered: bool, where: str) -> Levels:
    if len(labels) == 1:
        raise DataError(
            f"{where}: every row has the level {labels[0]!r}. A constant has no noise to learn; take the variable out "
            f"of the graph."
        )

    return Levels(tuple(labels), ordered)


def _alike(items: Iterable[Any], where: str) -> tuple[Label, ...]:
    """Labels of one kind: truth values, numbers, or else text."""
    given = list(items)
    if all(isinstance(item, bool | np.bool_) for item in given):
        return tuple(bool(item) for item in given)
    if not any(isinstance(item, str) for item in given):
        numbers = [_number(item) for item in given]
        if None not in numbers:
            return tuple(number for number in numbers if number is not None)
    labels = tuple(str(item) for item in given)
    if len(set(labels)) < len(labels):
        raise DataError(f"{where}: expected labels of one kind, got {given[:4]!r}. Write each in one way.")

    return labels


def _number(item: Any) -> float | None:
    try:
        number = float(item)
    except (TypeError, ValueError):
        return None

    return number if math.isfinite(number) else None


def _gap(item: Any) -> bool:
    """Whether an item is missing."""
    return item is None or type(item).__name__ in ("NAType", "NaTType") or (isinstance(item, float) and item != item)


def _fail_level(item: object, row: str | None, known: Sequence[object], where: str) -> NoReturn:
    """A label is missing or unknown."""
    place = "" if row is None else f" in row {row}"
    if _gap(item):
        raise DataError(f"{where}: expected a label, got a missing value{place}. Drop the row or fill the gap.")

    hint = near(str(item), map(str, known)) or f"Known are: {', '.join(map(repr, known))}."
    raise DataError(f"{where}: unknown level {item!r}{place}. {hint} Mend it, or fit again with rows that have it.")
