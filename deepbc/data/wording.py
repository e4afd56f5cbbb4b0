"""Numbers and labels as people read them: no digits that say nothing, no minus before a zero, whole numbers whole."""

__all__ = ["join_words", "percent", "step_of", "write_exact", "write_label", "write_name", "write_number"]

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

# Steps of a hundredth of a standard deviation tell apart what differs; without one, four digits do.
PARTS, DIGITS = 100, 4
# Up to here units are written out; from there on numbers are rounded as far as their spread allows.
LARGE = 1e6
# Beyond these magnitudes numbers are written with an exponent.
MOST, LEAST = 1e15, 1e-4
# A name that needs no quotes: words of letters, digits and the signs within words.
PLAIN = re.compile(r"[^\W\d][\w.\-]*(\[\d+\])?( [\w.\-]+)*")
# The most digits of a number that people gave.
EXACT = 10


def step_of(spread: float | None, *values: float) -> float:
    """The power of ten in whose steps values are written: fine enough for their spread and for their differences.

    Args:
        spread: The standard deviation of what they are values of, None where it is not known.
        values: The values that are to be told apart.
    """
    known = [value for value in values if math.isfinite(value)]
    size = max(map(abs, known), default=0.0)
    if spread is not None and 0 < spread < math.inf:
        power = round(math.log10(spread) - math.log10(PARTS))
    else:
        power = math.floor(math.log10(size)) - DIGITS + 1 if size else 0
    if size < LARGE:
        power = min(power, 0)
    gap = max(known) - min(known) if known else 0.0
    if 1e-12 * size < gap < math.inf:
        power = min(power, math.floor(math.log10(gap) - math.log10(2)))

    # No float holds more digits.
    finest = math.floor(math.log10(size)) - 15 if size else power

    return float(10.0 ** max(power, finest, -300))


def write_number(value: float, step: float) -> str:
    """Writes a number rounded to a step, which is a power of ten.

    Example:
        >>> write_number(1512.4, 1.0), write_number(-0.04, 0.1), write_number(2.0, 0.01), write_number(1.234e-9, 1e-11)
        ('1,512', '0', '2', '1.23e-9')
    """
    if not math.isfinite(value):
        return str(value)
    power = round(math.log10(step))
    if round(value / step) == 0:
        return "0"
    if LEAST <= abs(value) < MOST or (abs(value) < MOST and power >= -6):
        return _trimmed(f"{round(value, -power):,.{max(0, -power)}f}")

    digits = min(16, max(1, math.floor(math.log10(abs(value))) - power + 1))

    return _with_exponent(f"{value:.{digits - 1}e}")


def write_exact(value: float) -> str:
    """Writes a number with all the digits that it was given with.

    Example:
        >>> write_exact(2000.0), write_exact(0.1), write_exact(1234567.0), write_exact(-0.0), write_exact(1e-9)
        ('2,000', '0.1', '1,234,567', '0', '1e-9')
    """
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    if abs(value) < MOST and value == round(value):
        return f"{value:,.0f}"
    text = f"{value:.{EXACT - 1}e}"
    # A number that came through single precision is written as what it was before.
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(value)
    if float(text) != value and float(single) == value:
        text = f"{float(str(single)):.{EXACT - 1}e}"
    if not LEAST <= abs(value) < MOST:
        return _with_exponent(text)

    return _trimmed(f"{float(text):,.{max(0, EXACT - 1 - int(text.partition('e')[2]))}f}")


def write_label(label: Any) -> str:
    """Writes a label in one line; one that is a whole number without a point."""
    if isinstance(label, float):
        return write_exact(label).replace(",", "")

    return " ".join(str(label).split()) or repr(label)


def write_name(name: str) -> str:
    """Writes the name of a variable in one line, in quotes where it would not be seen to be one.

    Example:
        >>> write_name("income"), write_name("number of children"), write_name("a, b")
        ('income', 'number of children', "'a, b'")
    """
    line = " ".join(name.split())

    return line if PLAIN.fullmatch(line) else f"'{line}'"


def percent(share: float) -> str:
    """Writes a part of one as a percentage; what is not quite nothing, or all, is not written as such.

    Example:
        >>> percent(0.724), percent(0.001), percent(0.999), percent(1.0)
        ('72 %', 'less than 1 %', 'more than 99 %', '100 %')
    """
    if 0 < share < 0.005:
        return "less than 1 %"

    return "more than 99 %" if 0.995 <= share < 1 else f"{share:.0%}".replace("%", " %")


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Joins words as people do: `a, b and c`."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _trimmed(text: str) -> str:
    """A number without zeros at the end that say nothing."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _with_exponent(text: str) -> str:
    """A number such as `1.50e-09` as `1.5e-9`."""
    mantissa, exponent = text.split("e")

    return f"{_trimmed(mantissa)}e{int(exponent)}"
