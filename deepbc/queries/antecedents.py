"""Antecedents that are sets: at least, at most, between."""

__all__ = ["Interval", "at_least", "at_most", "between"]

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """The values of a scalar variable between two ends, each one number or one a row; None leaves a side open."""

    lower: Any
    upper: Any

    def __repr__(self) -> str:
        if self.upper is None:
            return f"at_least({self.lower!r})"
        if self.lower is None:
            return f"at_most({self.upper!r})"
        return f"between({self.lower!r}, {self.upper!r})"


def at_least(lower: Any) -> Interval:
    """Asks for a value of at least the given one, for all rows or one a row.

    Example:
        >>> at_least(200.0)
        at_least(200.0)
    """
    return Interval(lower, None)


def at_most(upper: Any) -> Interval:
    """Asks for a value of at most the given one, for all rows or one a row."""
    return Interval(None, upper)


def between(lower: Any, upper: Any) -> Interval:
    """Asks for a value between the given ones, for all rows or one a row."""
    return Interval(lower, upper)
