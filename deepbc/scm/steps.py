"""Steps: columns whose numbers all lie on a coarse grid, because they were counted or rounded."""

__all__ = ["FINE", "find_grid"]

from typing import Any

import numpy as np

from deepbc.data.grid import MOST_DECIMALS, Grid

# A step is fine where it is less than this part of the standard deviation: to round to it adds a thousandth to the
# variance (Sheppard's correction, step² / 12), which a law of any numbers does not notice. A coarser one it would.
FINE = 0.1
# By so few rows, or different values, numbers lie on a coarse grid by chance.
LEAST_ROWS, LEAST_VALUES = 20, 3
# Numbers of single precision have so many digits, all others these.
SINGLE, DOUBLE, MOST_SLACK = 1e-6, 1e-12, 1e-2
# Beyond, steps of a column cannot be told apart from rounding.
LARGEST = 2.0**53


def find_grid(items: "np.ndarray[Any, Any]", *, coarse: bool = True) -> Grid | None:
    """Finds the grid on which the numbers of a column lie; None where they lie on none.

    Args:
        items: The column.
        coarse: Whether a fine grid counts as none.
    """
    if items.ndim != 1 or items.dtype.kind not in "iuf" or len(items) < LEAST_ROWS or not np.isfinite(items).all():
        return None
    # Most columns of measurements are seen to lie on none by their first rows.
    if _scaled(items[:LEAST_ROWS]) is None or (found := _scaled(np.unique(items))) is None:
        return None
    counts, scale = found
    if len(counts) < LEAST_VALUES:
        return None
    step = int(np.gcd.reduce(np.diff(counts)))
    if coarse and step / scale < FINE * float(np.std(items.astype(float))):
        return None

    return Grid(step / scale, int(counts[0]) % step / scale)


def _scaled(items: "np.ndarray[Any, Any]") -> "tuple[np.ndarray[Any, np.dtype[np.int64]], int] | None":
    """Numbers as multiples of the least power of ten that they all are multiples of, and its inverse."""
    slack = SINGLE if items.dtype == np.float32 else DOUBLE
    numbers = items.astype(float)
    for decimals in range(MOST_DECIMALS + 1):
        scaled = numbers * 10**decimals
        if np.abs(scaled).max() >= LARGEST:
            return None
        if (np.abs(scaled - np.rint(scaled)) <= np.clip(slack * np.abs(scaled), slack, MOST_SLACK)).all():
            return np.rint(scaled).astype(np.int64), 10**decimals

    return None
