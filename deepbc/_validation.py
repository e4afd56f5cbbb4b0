"""What may be wrong with what people hand in, and the words in which we say it.

A message has four parts: where it is, what was expected, what came, and what to do.
"""

__all__ = [
    "check_batches",
    "check_between",
    "check_callable",
    "check_choice",
    "check_classes",
    "check_contradiction",
    "check_count",
    "check_finite",
    "check_graph",
    "check_image_shape",
    "check_images",
    "check_known",
    "check_law",
    "check_levels",
    "check_names",
    "check_possible",
    "check_range",
    "check_rows",
    "check_seed",
    "check_shape",
    "check_table",
    "check_type",
    "check_units",
    "check_value_dim",
    "hint_missing",
    "name_row",
    "name_rows",
    "naming_rows",
    "near",
    "pick",
]

import difflib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepbc.errors import DataError, FitError, GraphError, SettingError, UnknownNameError

INTEGERS = (int, np.integer)
NUMBERS = (int, float, np.integer, np.floating)
# The channels that an image may have.
CHANNELS = (1, 3, 4)
# The least side of an image that can be halved four times.
SMALLEST = 16
# The shapes of images for which there are networks of the paper.
PAPER = ((28, 28), (3, 64, 64), (64, 64, 3), (3, 128, 128), (128, 128, 3))
# The labels of the rows that are being read.
_row_labels: ContextVar[Any] = ContextVar("row_labels", default=None)


def near(name: str, known: Iterable[str]) -> str:
    """Words a hint at the known names that look like the given one, or says nothing."""
    names = difflib.get_close_matches(str(name), list(known), n=3)

    return f"Did you mean {' or '.join(map(repr, names))}?" if names else ""


def pick(name: str, known: Collection[str], where: str) -> str:
    """Returns the name if it is known."""
    if name not in known:
        hint = near(name, known) or f"Known are: {', '.join(map(repr, known))}."
        raise UnknownNameError(f"{where}: unknown name {name!r}. {hint}")

    return name


def check_names(
    given: Collection[str],
    expected: Collection[str],
    where: str,
    optional: Collection[str] = (),
    others: Collection[str] = (),
) -> None:
    """Every expected name is given, save the optional ones, and no other; a missing one may be among the others."""
    for name in given:
        check_known(name, expected, where)
    for name in expected:
        if name not in given and name not in optional:
            came = ", ".join(map(repr, given)) or "none"
            raise DataError(f"{where}: variable {name!r} is missing; got {came}. {hint_missing(name, others)}Add it.")


def hint_missing(name: str, others: Collection[str]) -> str:
    """Words a hint at columns that were left out and may be the one that is missing, or says nothing."""
    hint = near(name, others)

    return f"{hint} Then rename it. Otherwise: " if hint else ""


def check_known(name: str, expected: Collection[str], where: str) -> None:
    """The name is that of a variable."""
    if name not in expected:
        hint = near(name, expected) or f"The variables are: {', '.join(map(repr, expected))}."
        raise DataError(f"{where}: {name!r} is not a variable of the graph. {hint} Drop it or add it to the graph.")


def check_shape(came: tuple[int, ...], shape: tuple[int, ...], where: str) -> None:
    """The last axes are those of the variable."""
    if len(shape) > len(came) or came[len(came) - len(shape) :] != shape:
        expected = ", ".join(["*batch", *map(str, shape)])
        raise DataError(
            f"{where}: expected shape ({expected}), got {came}. Put the rows on the first axis and the components "
            f"of the variable on the last."
        )


def check_batches(shapes: Mapping[str, tuple[int, ...]]) -> torch.Size:
    """All batch shapes broadcast to one of them, which is returned; (5, 1) beside (5,) is a mistake, not 25 rows."""
    # numpy's, because torch's own function loads its compiler.
    try:
        common = np.broadcast_shapes(*shapes.values())
    except ValueError:
        common = None

    if shapes and common not in shapes.values():
        came = ", ".join(f"{name!r} {tuple(shape)}" for name, shape in shapes.items())
        raise DataError(f"Expected one number of rows for all variables, got {came}. Give each as many rows, or one.")

    return torch.Size(common or ())


def check_finite(rows: Tensor, where: str) -> None:
    """No row has a NaN or an infinity; rows have shape `(*batch, dim)`."""
    if not rows.is_floating_point():
        return

    bad = ~torch.isfinite(rows).all(-1)
    if bad.any():
        value = rows[bad][0]
        what = "a missing value (NaN)" if value.isnan().any() else "an infinity"
        raise DataError(
            f"{where}: expected finite numbers, got {what} in {name_rows(bad)}. Drop these rows or fill the gaps."
        )


def check_levels(items: Sequence[object]) -> None:
    """The levels of a category are at least two, of one kind and each there once."""
    kinds = {bool if isinstance(item, bool) else str if isinstance(item, str) else float for item in items}
    if len(items) < 2 or len(kinds) > 1 or len(set(items)) < len(items):
        raise SettingError(
            f"levels: expected two or more different labels, all text or all numbers, got {tuple(items)!r}."
        )


def check_rows(rows: int, needed: int, where: str) -> None:
    if rows < needed:
        raise FitError(f"{where}: a fit needs at least {needed} rows, got {rows}. Add rows or use a simpler mechanism.")


def check_count(count: object, where: str, least: int = 0, most: float = math.inf) -> None:
    if not isinstance(count, INTEGERS) or isinstance(count, bool) or not least <= count <= most:
        limit = f" and at most {most}" if most < math.inf else ""
        raise SettingError(f"{where}: expected a whole number of at least {least}{limit}, got {count!r}.")


def check_choice(choice: object, known: Sequence[str], where: str) -> str:
    """Returns the choice if it is one of the known ones."""
    if not isinstance(choice, str) or choice not in known:
        raise SettingError(f"{where}: expected {' or '.join(map(repr, known))}, got {choice!r}.")

    return choice


def check_classes(pins: bool, names: Sequence[str], solver: object) -> None:
    """A solver or sampler that meets antecedents by a penalty has nothing but numbers upstream."""
    if names and not pins:
        raise SettingError(
            f"{solver!r}: meets antecedents by a penalty, through laws that are smooth, and {names[0]!r} is a category "
            f"or a whole number. Take the default instead."
        )


def check_seed(seed: object) -> int:
    """Returns the seed as a plain whole number."""
    if not isinstance(seed, INTEGERS) or isinstance(seed, bool):
        raise SettingError(f"seed: expected a whole number, got {seed!r}.")

    return int(seed)


def check_type(given: object, expected: type, where: str) -> None:
    if not isinstance(given, expected):
        made = f" Write {given.__name__}()." if isinstance(given, type) else ""
        raise SettingError(f"{where}: expected a {expected.__name__}, got {given!r}.{made}")


def check_between(value: object, lower: float, upper: float, where: str, *, closed: bool = False) -> None:
    """The value lies strictly between the two, or on the lower end where that is closed."""
    inside = isinstance(value, NUMBERS) and (lower < value < upper or (closed and value == lower))
    if not inside:
        raise SettingError(f"{where}: expected a number between {lower:g} and {upper:g}, got {value!r}.")


@contextmanager
def naming_rows(index: Any) -> Iterator[None]:
    """Lets errors name rows by the labels of a data frame; None leaves their names as they are.

    What finds a bad row sees tensors alone, many calls below the one that knows the data frame.
    """
    token = _row_labels.set(_row_labels.get() if index is None else index)
    try:
        yield
    finally:
        _row_labels.reset(token)


def name_row(row: int, total: int) -> str:
    """Names one of so many rows by its label, where a data frame of as many is being read, and else by its place."""
    labels = _row_labels.get()
    if labels is None or len(labels) != total:
        return str(row)

    label = labels[row]

    return f"({', '.join(map(_write_label, label))})" if isinstance(label, tuple) else _write_label(label)


def _write_label(label: object) -> str:
    return repr(label) if isinstance(label, str) else str(label)


def name_rows(bad: Tensor) -> str:
    """Names the first of the bad rows and how many there are; `bad` has shape `(*batch,)`."""
    count, total = int(bad.sum()), bad.numel()
    if bad.ndim == 0:
        return "the row"

    first = bad.nonzero()[0].tolist()
    name = name_row(first[0], total) if len(first) == 1 else tuple(first)

    return f"row {name}" if count == 1 else f"{count} of {total} rows, first row {name}"


def check_units(hidden: Iterable[int], where: str) -> tuple[int, ...]:
    """Returns the sizes of hidden layers."""
    if not isinstance(hidden, Iterable):
        raise SettingError(f"{where}: expected a list of layer sizes, got {hidden!r}. Write [{hidden!r}].")

    sizes = tuple(hidden)
    for units in sizes:
        check_count(units, where, least=1)

    return sizes


def check_value_dim(name: str, came: int, value: int, kind: str) -> None:
    if came != value:
        raise SettingError(
            f"Variable {name!r}: its data has dimension {came}, its {kind} {value}. Set {kind}(..., value={came})."
        )


def check_callable(given: object, where: str) -> None:
    if not callable(given):
        raise SettingError(f"{where}: expected a function or a torch module, got {given!r}.")


def check_law(result: object, rows: int, dim: int, where: str) -> Tensor:
    """What a user's law returned is a tensor `(rows, dim)`, or `(rows,)` for a scalar."""
    if not isinstance(result, Tensor):
        raise DataError(
            f"{where}: expected a torch tensor, got {type(result).__name__}. Write the law with torch operations, so "
            f"that its derivatives are known."
        )
    if result.shape == (rows,) and dim == 1:
        return result.unsqueeze(-1)
    if result.shape != (rows, dim):
        raise DataError(
            f"{where}: expected shape ({rows}, {dim}), got {tuple(result.shape)}. The law acts row by row on "
            f"tensors of shape (batch, dim)."
        )

    return result


def check_graph(graph: object, expected: type) -> None:
    if not isinstance(graph, expected):
        raise GraphError(f"SCM: expected a CausalGraph, got {type(graph).__name__}. Write CausalGraph.parse('a -> b').")


def check_contradiction(given: Tensor, predicted: Tensor, where: str) -> None:
    """Values given for a deterministic variable are those that it predicts; both have shape `(*batch, dim)`."""
    wrong = ((given - predicted).abs() > 1e-6 * (1 + predicted.abs())).any(-1)
    if wrong.any():
        raise DataError(
            f"{where}: its value contradicts its Predictor in {name_rows(wrong)}: got {given[wrong][0].tolist()}, the "
            f"Predictor gives {predicted[wrong][0].tolist()}. Leave the variable out: it follows from its parents."
        )


def check_table(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Every column of a table has rows, and as many as the others."""
    for name, shape in shapes.items():
        if not shape:
            raise DataError(f"data, {name!r}: expected one entry a row, got a single number. Give a list of rows.")
        if 0 in shape[1:]:
            raise DataError(f"data, {name!r}: expected numbers in every row, got shape {shape}. Drop the variable.")

    lengths = {name: shape[0] for name, shape in shapes.items()}
    if len(set(lengths.values())) > 1:
        came = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise DataError(f"data: expected columns of one length, got {came}. Every row needs every variable.")
    for name, length in lengths.items():
        check_rows(length, 2, f"Variable {name!r}")


def check_possible(rows: Tensor, given: str, sought: str, where: str) -> None:
    """What a law yields is finite; rows have shape `(*batch, dim)`."""
    bad = ~torch.isfinite(rows).all(-1)
    if bad.any():
        raise DataError(
            f"{where}: its law yields no {sought} for the {given} of {name_rows(bad)}: it is out of support. "
            f"Drop these rows or mend the law."
        )


def check_range(column: Tensor, lower: float, upper: float, where: str, *, whole: bool = False) -> None:
    """Every entry is a finite number from the lower end to the upper one."""
    inside = (column >= lower) & (column <= upper) & column.isfinite()
    bad = ~(inside & (column == column.floor())) if whole else ~inside
    if bad.any():
        kind = "whole numbers" if whole else "finite numbers"
        limits = f"from {lower:g} to {upper:g}" if upper < math.inf else f"of at least {lower:g}"
        raise DataError(
            f"{where}: expected {kind} {limits}, got {column[bad][0].item():g} in {name_rows(bad)}. Mend or drop "
            f"these rows."
        )


def check_images(images: object, where: str, size: tuple[int, int] | None = None) -> NDArray[Any]:
    """Returns images as an array `(*batch, height, width)`: grey values from 0 to 255, and something drawn on each."""
    array = np.asarray(images)
    if array.dtype.kind not in "iuf" or array.ndim < 2 or 0 in array.shape[-2:] or size not in (None, array.shape[-2:]):
        expected = "height, width" if size is None else f"{size[0]}, {size[1]}"
        raise DataError(
            f"{where}: expected numbers of shape (*batch, {expected}), got {array.dtype} of shape {array.shape}. Put "
            f"the rows on the first axis."
        )

    low, high = (torch.from_numpy(np.asarray(each, np.float64)) for each in (array.min((-2, -1)), array.max((-2, -1))))
    for each in (low, high):
        check_range(each, 0, 255, where)
    blank = low == high
    if blank.any():
        raise DataError(
            f"{where}: expected a stroke on every image, got one grey value in {name_rows(blank)}. Drop these."
        )

    return array


def check_image_shape(shape: tuple[int, ...], preset: str, where: str) -> tuple[int, int, int]:
    """Returns the channels, height and width of an image; channels come first, or last."""
    if preset == "paper" and shape not in PAPER:
        raise DataError(
            f"{where}: expected images of 28 x 28, or of 64 x 64 or 128 x 128 with 3 channels, for the paper's "
            f"networks, got {shape}. Take the default."
        )
    if len(shape) == 2:
        return 1, shape[0], shape[1]
    if len(shape) == 3 and shape[0] in CHANNELS:
        return shape[0], shape[1], shape[2]
    if len(shape) == 3 and shape[2] in CHANNELS:
        return shape[2], shape[0], shape[1]

    raise DataError(
        f"{where}: expected images of shape (height, width), (channel, height, width) or (height, width, channel) with "
        f"1, 3 or 4 channels, got {shape}. Give the column the shape (rows, height, width)."
    )
