"""What was asked of an answer, in words."""

__all__ = ["Condition", "conditions_of", "write_condition", "write_shared"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepbc.data.wording import join_words, step_of, write_exact, write_number
from deepbc.queries.antecedents import Interval, LabelSet
from deepbc.queries.description.columns import Column, Numbers

if TYPE_CHECKING:
    from deepbc.queries.results import Counterfactual

# Numbers with more digits come from a computer, not from people.
DIGITS = 6
# What is nearer to an end, in standard deviations, is at the end: intervals are answered a little inside.
AT_END = 1e-5


@dataclass(frozen=True, slots=True)
class Condition:
    """What was asked of one variable.

    Args:
        column: Its values.
        lower: The lower end in each row, with shape `(rows, components)`; minus infinity where it is open.
        upper: The upper end; that of a value is the lower one.
        interval: Whether more than one value would do.
        sets: The codes of the labels that would do in each row, if labels were asked.
    """

    column: Column
    lower: Numbers
    upper: Numbers
    interval: bool
    sets: tuple[tuple[int, ...], ...] = ()

    @property
    def met(self) -> Numbers:
        """In which rows the factual value is what was asked, with shape `(rows,)`."""
        if self.sets:
            before = self.column.before[:, 0]
            return np.array([code in there for code, there in zip(before, self.sets, strict=True)], dtype=bool)
        slack = 1e-9 * np.abs(self.column.before)
        met = (self.column.before >= self.lower - slack) & (self.column.before <= self.upper + slack)

        return np.asarray(met.all(-1))

    def write(self, row: int) -> str:
        """Writes what was asked of a row."""
        if self.column.long:
            return "what was asked"
        if self.sets:
            return join_words([self.column.write(np.array([code])) for code in self.sets[row]], "or")
        low, high = self._end(self.lower[row], row), self._end(self.upper[row], row)
        if not self.interval or (low == high and np.isfinite(self.lower[row]).all()):
            return low
        if np.isneginf(self.lower[row]).all():
            return "any value" if np.isposinf(self.upper[row]).all() else f"at most {high}"

        return f"at least {low}" if np.isposinf(self.upper[row]).all() else f"between {low} and {high}"

    def same(self) -> bool:
        """Whether the same was asked of every row."""
        ends = (self.lower == self.lower[:1]).all() and (self.upper == self.upper[:1]).all()

        return bool(ends and len(set(self.sets)) <= 1)

    def write_reached(self, row: int) -> str:
        """Writes the value that was reached; one at an end of its interval as that end was written."""
        before, after = self.column.before[row], self.column.after[0, row]
        ends = [end for end in (self.lower[row], self.upper[row]) if np.isfinite(end).all()]
        slack = AT_END * (self.column.spread if len(self.column.spread) else np.abs(after))
        for end in ends:
            if (np.abs(after - end) <= slack).all():
                return self._end(end, row)

        return self.column.write(after, before, *ends)

    def _end(self, end: Numbers, row: int) -> str:
        if not np.isfinite(end).all():
            return ""
        if self.column.levels:
            return self.column.write(end)
        parts = [self._number(part, float(each), row) for part, each in enumerate(end)]

        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def _number(self, part: int, value: float, row: int) -> str:
        """Writes a number as people gave it, or, where it has more digits than people give, as far as it matters."""
        said = write_exact(value)
        if sum(map(str.isdigit, said.partition("e")[0].lstrip("-0."))) <= DIGITS or value == round(value):
            return said
        step = self.column.step(part, value, float(self.column.before[row, part]))

        return write_number(value, min(step, step_of(None, value) / 10.0 ** (DIGITS - 4)))


def conditions_of(cf: "Counterfactual", columns: Mapping[str, Column]) -> dict[str, Condition]:
    """What was asked, by variable."""
    conditions = {}
    for name, asked in cf.antecedent.items():
        column = columns[name]
        sets = _sets(column, asked)
        if sets:
            open_end = np.full(column.before.shape, np.inf)
            conditions[name] = Condition(column, -open_end, open_end, interval=True, sets=sets)
            continue
        if isinstance(asked, Interval):
            ends = (_codes(column, asked.lower, -np.inf), _codes(column, asked.upper, np.inf))
        else:
            ends = (_codes(column, asked, np.nan),) * 2
        conditions[name] = Condition(column, *ends, isinstance(asked, Interval))

    return conditions


def write_condition(conditions: Sequence[Condition], row: int, *, forced: bool) -> str:
    """Writes what was asked of a row: `Had a been 3 instead of 2 and b 5 (as it is)`."""
    parts = []
    for each in conditions:
        asked, column = each.write(row), each.column
        before = column.write(column.before[row], *_beside(each, row)) if not column.long else ""
        if each.met[row]:
            now = f" (it is {before})" if each.interval and before and before != asked else " (as it is)"
        else:
            now = f" instead of {before}" if before else ""
        parts.append((column.noun, f"{asked}{now}"))

    return _joined(parts, forced=forced)


def write_shared(conditions: Sequence[Condition], *, forced: bool) -> str:
    """Writes what was asked of all rows."""
    parts = [(each.column.noun, each.write(0) if each.same() else "what is asked of each row") for each in conditions]

    return _joined(parts, forced=forced)


def _joined(parts: Sequence[tuple[str, str]], *, forced: bool) -> str:
    verb, again = ("been forced to", "to ") if forced else ("been", "")
    first, *others = parts

    return f"Had {join_words([f'{first[0]} {verb} {first[1]}', *(f'{name} {again}{said}' for name, said in others)])}"


def _sets(column: Column, asked: Any) -> tuple[tuple[int, ...], ...]:
    """The codes of the labels that would do in each row; none where no set was asked."""
    listed = [asked] if isinstance(asked, LabelSet) else np.asarray(asked, dtype=object).reshape(-1).tolist()
    if not column.levels or not listed or not isinstance(listed[0], LabelSet):
        return ()
    codes = [tuple(int(code) for code in column.levels.codes(list(each.labels), column.name)) for each in listed]

    return tuple(codes) * (len(column.before) if len(codes) == 1 else 1)


def _beside(condition: Condition, row: int) -> list[Numbers]:
    """What the factual value is compared with."""
    ends = (condition.lower[row], condition.upper[row])

    return [end for end in ends if np.isfinite(end).all()]


def _codes(column: Column, end: Any, open_end: float) -> Numbers:
    """An end in each row as numbers, with shape `(rows, components)`."""
    shape = column.before.shape
    if end is None:
        return np.full(shape, open_end)
    codes = np.asarray(column.levels.codes(end, column.name) if column.levels else end, dtype=float)

    return codes.reshape(shape)
