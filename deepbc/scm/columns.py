"""What a fit takes the columns of its data for, before anything is learned."""

__all__ = ["summarize_columns"]

import math
from collections.abc import Mapping
from functools import partial

from torch import Tensor

from deepbc.data.variables import Variable
from deepbc.data.wording import percent, step_of, write_exact, write_label, write_number
from deepbc.scm.column_warnings import Data, column_warnings
from deepbc.training.report import ColumnSummary

# So many examples of numbers, and levels with their shares, are told.
EXAMPLES, LEVELS = 3, 4


def summarize_columns(data: Data, origins: Mapping[str, str]) -> dict[str, ColumnSummary]:
    """Says of each variable that is fitted what it is taken for, and what is odd about its data.

    Args:
        data: The data of the fit.
        origins: Where the type of each variable comes from.
    """
    warnings = column_warnings(data)

    return {
        name: ColumnSummary(
            type=family.child.kind,
            origin=origins[name],
            values=_values(family.child, data.columns[name]),
            rows=len(data.columns[name]),
            warnings=warnings[name],
        )
        for name, family in data.families.items()
    }


def _values(variable: Variable, column: Tensor) -> str:
    """The levels and their shares, or the range and a few examples."""
    if variable.levels:
        return _shares([write_label(item) for item in variable.levels.items], column)
    if len(variable.shape) > 1:
        return f"{' x '.join(map(str, variable.shape))} numbers each"
    low, high = (end.item() for end in column.aminmax())
    step = step_of(max(variable.sd, default=None), low, high)
    write = write_exact if variable.whole else partial(write_number, step=step)
    span = f"{write(low)} to {write(high)}{f', in {variable.grid}' if variable.kind == 'grid' else ''}"
    if variable.shape:
        return f"{variable.shape[0]:,} numbers each, {span}"
    examples = list(dict.fromkeys(map(write, column[: 10 * EXAMPLES].tolist())))

    lumps = [
        f"{write(end)} in {percent((column == end).double().mean().item())} of the rows, a {word}"
        for end, word in ((variable.floor, "floor"), (variable.ceiling, "ceiling"))
        if math.isfinite(end)
    ]

    return "; ".join([f"{span}, such as {'; '.join(examples[:EXAMPLES])}", *lumps])


def _shares(labels: list[str], codes: Tensor) -> str:
    """How many levels there are, and how many rows have the most common ones."""
    counts = codes.long().bincount(minlength=len(labels)) / len(codes)
    order = counts.argsort(descending=True, stable=True).tolist()
    said = ", ".join(f"{labels[code]} {percent(counts[code].item())}" for code in order[:LEVELS])

    return f"{len(labels)} levels: {said}{', ...' if len(labels) > LEVELS else ''}"
