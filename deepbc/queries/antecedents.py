"""Antecedents that are sets: at least, at most, between, one of some labels, other than some."""

__all__ = ["Interval", "LabelSet", "at_least", "at_most", "between", "one_of", "other_than"]

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


@dataclass(frozen=True, slots=True, eq=False)
class LabelSet:
    """Some labels of a category, or all others; each is one label for all rows or one a row."""

    labels: tuple[Any, ...]
    excluded: bool = False

    def __repr__(self) -> str:
        return f"{'other_than' if self.excluded else 'one_of'}({', '.join(map(repr, self.labels))})"


def one_of(*labels: Any) -> LabelSet:
    """Asks for one of some labels of a category, each for all rows or one a row.

    Example:
        >>> one_of("clerk", "manager")
        one_of('clerk', 'manager')
    """
    return LabelSet(labels)


def other_than(*labels: Any) -> LabelSet:
    """Asks for any label of a category but the given ones, each for all rows or one a row.

    Example:
        >>> other_than("clerk")
        other_than('clerk')
    """
    return LabelSet(labels, excluded=True)
