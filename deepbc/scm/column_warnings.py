r"""What is odd about the columns of a fit: what looks like no cause at all, and what a law would misfit.

All but the search for identifiers looks at no more than a few thousand rows, spread evenly, before it looks at all.
"""

__all__ = ["Data", "column_warnings", "law_warnings"]

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from deepbc.data.variables import Family, Variable
from deepbc.data.wording import join_words, percent, step_of, write_exact, write_label, write_number
from deepbc.mechanisms import Mechanism
from deepbc.scm.determined import how_determined

# So many rows are looked at first, and so many for repetitions of parents.
FEW, SOME = 2000, 5000
# Fewer rows tell nothing of identifiers; so many that are all different do.
LEAST_ROWS, MANY_ROWS = 20, 200
# Of a column that is no identifier, so many pairs of rows are expected to agree before it is odd that none do.
LEAST_PAIRS = 7.0
# A level of fewer rows, a category of more levels, a share of equal rows, and a number of different ones, that are odd.
LEAST_LEVEL, MOST_LEVELS, LARGEST_TIE, FEW_VALUES = 5, 30, 0.02, 20
# Columns say the same where one misses an affine map of the other by no more standard deviations than this, which
# rounding may come to; no row by more than ten times that.
SAME = 5e-3
# The part of its standard deviation that the law of a variable leaves to noise, below which there is practically none.
LEAST_SPREAD = 1e-3
MOST_PARENTS = 1000
PREDICT = "Take it out of the graph, or, in Python, compute it by a Predictor."


@dataclass(frozen=True, slots=True)
class Data:
    """The data of a fit.

    Args:
        families: The variables to fit, with their parents.
        mechanisms: Their laws.
        columns: The data of every variable as it came, codes for labels, with shape `(rows, *shape)`.
        rows: The same as laws see it, with shape `(rows, dim)`.
        declared: The variables whose types people declared, who know what they are.
    """

    families: Mapping[str, Family]
    mechanisms: Mapping[str, Mechanism]
    columns: Mapping[str, Tensor]
    rows: Mapping[str, Tensor]
    declared: Collection[str]

    def few(self, name: str) -> Tensor:
        """Some rows of a column, in their order."""
        return spread_out(self.columns[name])


def spread_out(rows: Tensor, most: int = FEW) -> Tensor:
    """At most so many rows, spread evenly."""
    return rows[:: max(1, math.ceil(len(rows) / most))].contiguous()


def column_warnings(data: Data) -> dict[str, tuple[str, ...]]:
    """Says in plain words what is odd about the column of each variable, and what to do."""
    same = _same(data)
    found: dict[str, tuple[str, ...]] = {}
    for name, family in data.families.items():
        law = data.mechanisms[name]
        if law.given or law.domain == "image" or len(family.child.shape) > 1:
            found[name] = ()
            continue
        oddities = [_identifier(data, name), *_levels(data, name), _floats(data, name) or _tie(data, name)]
        if name in same:
            oddities.append(same[name])
        else:
            oddities.append(_determined(data, name))
        found[name] = tuple(f"Variable {name!r}: {each}" for each in oddities if each)

    return found


def law_warnings(data: Data, name: str, nll: float) -> tuple[str, ...]:
    """Says what shows only once a law is learned, by its held-out negative log-likelihood."""
    family, law = data.families[name], data.mechanisms[name]
    child = family.child
    if law.given or not family.parents or child.discrete or child.shape or not math.isfinite(nll):
        return ()
    # That of a normal variable is log(sd) + log(2 pi e) / 2.
    if nll - math.log(2 * math.pi * math.e) / 2 > math.log(child.sd[0] * LEAST_SPREAD):
        return ()
    names = join_words([repr(each.name) for each in family.parents])

    return (
        f"Variable {name!r}: it follows from {names} almost without noise (its law leaves less than a thousandth of "
        f"its spread to noise): hardly any change can be traced back to it. {PREDICT}",
    )


def _identifier(data: Data, name: str) -> str:
    """A column of whole numbers none of which comes twice is no cause, unless people say that it measures something."""
    column, variable = data.columns[name], data.families[name].child
    few = data.few(name)
    if variable.shape or variable.levels or name in data.declared or len(column) < LEAST_ROWS:
        return ""
    if not _whole(few) or len(few.unique()) < 0.99 * len(few) or not _whole(column):
        return ""
    steps = column.diff()
    rises = bool((steps > 0).all() or (steps < 0).all())
    repeats = 0 if rises else len(column) - _distinct(column)
    span = (column.amax() - column.amin()).item() + 1
    pairs = len(column) ** 2 / (2 * span)
    if not (rises or (not repeats and len(column) >= MANY_ROWS) or pairs > LEAST_PAIRS + 20 * repeats):
        return ""
    how = "and go one way from row to row" if rises else "though they are whole numbers"

    return (
        f"its values are {'all' if not repeats else 'nearly all'} different, {how}: it looks like an identifier, such "
        f"as the number of a row, which causes nothing. Take it out of the graph; if it does measure something, "
        f"declare its type (types={{{name!r}: 'real'}}, --type {name}=real)."
    )


def _levels(data: Data, name: str) -> Iterator[str]:
    """Levels that are too many, or too rare."""
    levels = data.families[name].child.levels
    if levels is None:
        return
    counts = data.columns[name].long().bincount(minlength=len(levels)).tolist()
    rare = [repr(write_label(item)) for item, count in zip(levels.items, counts, strict=True) if count < LEAST_LEVEL]
    if len(levels) > MOST_LEVELS:
        yield f"it has {len(levels)} levels, each of which needs rows of its own. Join levels that mean much the same."
    if rare:
        named = join_words([*rare[:3], f"{len(rare) - 3} more"] if len(rare) > 3 else rare)
        yield (
            f"the {'level' if len(rare) == 1 else 'levels'} {named} {'has' if len(rare) == 1 else 'have'} fewer than "
            f"{LEAST_LEVEL} rows, from which hardly anything can be learned. Join with another level, or drop the rows."
        )


def _floats(data: Data, name: str) -> str:
    """Numbers that are all whole, and come again, but came as decimals."""
    variable, few = data.families[name].child, data.few(name)
    if variable.shape or variable.discrete or name in data.declared or not _whole(few):
        return ""
    if len(few.unique()) > len(few) / 2 or not _whole(data.columns[name]):
        return ""

    return (
        f"its numbers are all whole, and a law of numbers with any decimals is learned. If it counts something, "
        f"declare types={{{name!r}: 'integer'}} (--type {name}=integer)."
    )


def _tie(data: Data, name: str) -> str:
    """Many rows that are exactly equal, where a density is learned."""
    variable, column = data.families[name].child, data.columns[name]
    if variable.shape or data.mechanisms[name].discrete:
        return ""
    few = data.few(name)
    # The lumps of a censored variable are its law's.
    values, counts = few[(few > variable.floor) & (few < variable.ceiling)].unique(return_counts=True)
    if not len(values):
        return ""
    value = values[counts.argmax()]
    share = (column == value).double().mean().item()
    if share < LARGEST_TIE:
        return ""
    if len(values) <= FEW_VALUES:
        return (
            f"it has only {len(values)} different values, and a law of numbers expects any. Declare it as a category "
            f"of ordered levels, lowest first (types={{{name!r}: [...]}}, --type {name}=...)."
        )
    place = _place(value, column)
    if place:
        return (
            f"{percent(share)} of its rows are exactly {write_exact(value.item())}{place}, where a law of numbers "
            f"expects hardly any: it misfits them, and answers near there. If nothing beyond shows, declare "
            f"types={{{name!r}: 'censored'}} (--type {name}=censored)."
        )

    return (
        f"{percent(share)} of its rows are exactly {write_exact(value.item())}, where a law of numbers expects hardly "
        f"any: it misfits them, and answers near there. Make two variables of it, a category that says whether "
        f"it is {write_exact(value.item())}, and how much it is where it is not."
    )


def _place(value: Tensor, column: Tensor) -> str:
    low, high = column.aminmax()
    if value == low:
        return ", its least value"

    return ", its largest value" if value == high else ""


def _same(data: Data) -> dict[str, str]:
    """Variables that say what an earlier one says: equal up to an affine map, or to other names of the levels."""
    scalars = {name: each.child for name, each in data.families.items() if not each.child.shape}
    numbers = [name for name, each in scalars.items() if not each.levels and not data.mechanisms[name].given]
    labels = [name for name, each in scalars.items() if each.levels]
    found: dict[str, str] = {}
    for one, two in (*_near_lines(data, numbers), *_pairs(labels)):
        if two in found or one in found:
            continue
        said = (_renamed if two in labels else partial(_line, scalars[two]))(data.columns[one], data.columns[two])
        if said is not None:
            found[two] = (
                f"it says the same as {one!r}{said}: neither can change without the other. Keep one of them in the "
                f"graph."
            )

    return found


def _pairs(names: list[str]) -> list[tuple[str, str]]:
    return [(one, two) for k, two in enumerate(names) for one in names[:k]]


def _near_lines(data: Data, names: list[str]) -> list[tuple[str, str]]:
    """Pairs of numbers whose correlation is one, as far as a few rows show."""
    if len(names) < 2:
        return []
    few = torch.stack([data.few(name).double() for name in names])
    few = few - few.mean(1, keepdim=True)
    few = few / few.square().sum(1, keepdim=True).sqrt().clamp_min(1e-300)
    near = ((few @ few.mT).abs() > 1 - SAME**2).tolist()
    places = {name: k for k, name in enumerate(names)}

    return [(one, two) for one, two in _pairs(names) if near[places[one]][places[two]]]


def _line(variable: Variable, one: Tensor, two: Tensor) -> str | None:
    """The affine map from one column to another, in words; None if there is none."""
    if torch.equal(one, two):
        return ""
    x, y = one - one.mean(), two - two.mean()
    slope = (x @ y / (x @ x)).item()
    spread = y.square().mean().sqrt().item()
    if not (y - slope * x).abs().amax().item() <= 10 * SAME * spread:
        return None
    start = (two.mean() - slope * one.mean()).item()
    start = 0.0 if abs(start) < SAME * spread else start
    factor = write_number(slope, step_of(None, slope))
    shift = "" if not start else f" {'plus' if start > 0 else 'minus'} {write_number(abs(start), step_of(None, start))}"

    return f" ({factor} times it{shift})"


def _renamed(one: Tensor, two: Tensor) -> str | None:
    """Whether the levels of one category are those of another by other names."""
    for a, b in ((spread_out(one), spread_out(two)), (one, two)):
        joint = (a.long() * (int(two.amax()) + 1) + b.long()).bincount() > 0
        levels = [int((each.long().bincount() > 0).sum()) for each in (a, b)]
        if not joint.sum() == levels[0] == levels[1]:
            return None

    return ""


def _determined(data: Data, name: str) -> str:
    """A variable that its parents determine has no noise to learn."""
    family = data.families[name]
    # An image among the parents is too large to look at, and never repeats.
    if not 0 < family.parents_dim <= MOST_PARENTS:
        return ""
    parents = torch.cat([spread_out(data.rows[each.name], SOME).double() for each in family.parents], dim=-1)
    how = how_determined(family.child, spread_out(data.columns[name], SOME).double(), parents)
    if not how:
        return ""
    names = join_words([repr(each.name) for each in family.parents])

    return (
        f"it follows from {names} without any noise ({how}): a law of it has nothing to learn but that, and no change "
        f"can be traced back to it. {PREDICT}"
    )


def _distinct(column: Tensor) -> int:
    """The number of different whole numbers in a column."""
    low, high = column.aminmax()
    # Counting is quicker than sorting where they are not far between.
    if (high - low).item() < 16 * len(column):
        return int((column - low).long().bincount().count_nonzero())

    return len(column.unique())


def _whole(column: Tensor) -> bool:
    """Whether all numbers are whole, and few enough digits that this says something."""
    return bool((column == column.round()).all()) and math.isfinite(column.abs().amax().item())
