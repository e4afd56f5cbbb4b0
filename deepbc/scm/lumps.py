"""Lumps: the least or the largest value of a column of numbers that many rows share, because nothing beyond shows."""

__all__ = ["find_lumps"]

import math
from typing import Any

import numpy as np

from deepbc.scm.steps import find_grid

# A lump is a share of all rows, and so many rows, and so many times as many as share any value in between: counts that
# begin at 0, and rounded numbers, have ties of like size nearby.
LEAST_SHARE, LEAST_ROWS, LEAST_RATIO = 0.02, 10, 3
# So many different values are in between, or the column has grades rather than numbers.
LEAST_VALUES = 20


def find_lumps(items: "np.ndarray[Any, Any]", *, declared: bool = False) -> tuple[float, float]:
    """Finds the floor and the ceiling of a column, infinite where it has none.

    Args:
        items: The column.
        declared: Whether people say that it has one: then any end that rows share will do.
    """
    open_ends = (-math.inf, math.inf)
    if items.ndim != 1 or items.dtype.kind not in "iuf" or not len(items) or not np.isfinite(items).all():
        return open_ends
    low, high = items.min(), items.max()
    counts = [int((items == end).sum()) for end in (low, high)]
    least = 2 if declared else max(LEAST_ROWS, LEAST_SHARE * len(items))
    if low == high or max(counts) < least:
        return open_ends
    between, ties = np.unique(items[(items > low) & (items < high)], return_counts=True)
    if not declared:
        # Of what is counted in coarse steps the law of a grid has the lump, too.
        if len(between) < LEAST_VALUES or find_grid(items[(items > low) & (items < high)]):
            return open_ends
        least = max(least, LEAST_RATIO * int(ties.max()))

    ends = zip((low, high), counts, open_ends, strict=True)
    floor, ceiling = (float(end) if count >= least else open_end for end, count, open_end in ends)

    return floor, ceiling
