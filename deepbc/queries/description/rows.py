"""A summary of the answers of many rows in sentences."""

__all__ = ["tell_rows"]

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from deepbc.data.wording import join_words, percent
from deepbc.queries.description.asked import write_shared
from deepbc.queries.description.columns import Column, Numbers
from deepbc.queries.description.told import (
    MOST_CARRIERS,
    MOST_CHANGED,
    MOST_STAYED,
    NEARLY,
    SURE,
    Told,
    carrier,
    join_sentences,
    law_broken,
    misfits,
    quantiles,
    round_off,
)


def tell_rows(told: Told) -> str:
    """A summary of many rows; of samples that of their middles."""
    told = replace(told, columns={name: _middle(each) for name, each in told.columns.items()})
    held = np.array([status == "converged" for status in told.statuses])
    sentences = [_ended(told)]
    if held.any():
        sentences += [_unchanged(told, held), *_typical(told, held)]
        sentences.append(law_broken(told) if told.cf.forced else "" if told.cf.diagnostics else _carried(told, held))
        sentences += _doubts(told, held)
    reasons = _counts(status.explain() for status in told.statuses if status != "converged")
    for reason, count in list(reasons.items())[:MOST_STAYED]:
        sentences.append(f"{count:,} {'row is' if count == 1 else 'rows are'} {reason}")

    return join_sentences(*sentences)


def _ended(told: Told) -> str:
    """What was asked, and how many rows have an answer."""
    cf, rows = told.cf, len(told.statuses)
    asked = write_shared(tuple(told.asked.values()), forced=cf.forced)
    counts = _counts(str(status) for status in told.statuses)
    if len(counts) == 1:
        ended = f"all {next(iter(counts))}"
    else:
        ended = join_words([f"{count:,} {word}" for word, count in counts.items()])
    drawn = f" with {cf.batch[0]:,} worlds drawn for each" if cf.diagnostics else ""

    return f"{asked}: of {rows:,} rows{drawn}, {ended}"


def _unchanged(told: Told, held: Numbers) -> str:
    """In how many rows nothing has to change."""
    changed = np.stack([each.rows_changed() for each in told.columns.values()])
    count = int((held & ~changed.any(0)).sum())

    return f"In {count:,} of them nothing changes" if count else ""


def _typical(told: Told, held: Numbers) -> list[str]:
    """How each variable changes: in the middle of all rows, and in most."""
    numbers, others, stayed = [], [], []
    for column in told.told.values():
        changed = column.rows_changed()[held]
        if not changed.any():
            stayed.append(column)
        elif column.long:
            others.append(f"In {_of(changed)} {column.noun} changes")
        elif column.levels:
            others.append(_relabelled(column, held, changed))
        else:
            numbers += _shifted(column, held)
    sentences = []
    if numbers:
        shown = numbers[:MOST_CHANGED]
        more = f"; {len(numbers) - len(shown)} more change" if len(numbers) > len(shown) else ""
        sentences.append(f"In the middle of the rows (and in 90 % of them) {join_words(shown)}{more}")
    if stayed:
        names = [each.noun for each in stayed] if len(stayed) <= MOST_STAYED else [f"{len(stayed)} variables"]
        stay = "stays as it is" if len(stayed) == 1 else "stay as they are"
        others.append(f"In every row {join_words(names)} {stay}")

    return [*sentences, *others[:MOST_CHANGED]]


def _middle(column: Column) -> Column:
    """The same with the middle of its samples: the median, or the label that comes most often."""
    if len(column.after) == 1 or column.long:
        return column
    if column.levels:
        codes = np.arange(len(column.levels))
        often = [(column.after == code).sum(0) for code in codes]
        return replace(column, after=np.argmax(often, axis=0)[None].astype(float))
    if column.whole:
        return replace(column, after=np.quantile(column.after, [0.5], axis=0, method="nearest"))

    return replace(column, after=np.median(column.after, axis=0)[None])


def _shifted(column: Column, held: Numbers) -> list[str]:
    """By how much the components of a variable change."""
    said = []
    for part, shifts in enumerate((column.after[0] - column.before)[held].T):
        low, middle, high = quantiles(column, shifts)
        step = column.step(part, 0.0, middle) if middle else column.step(part, 0.0, low, high)
        written = [round_off(column, each, step, signed=True) for each in (middle, low, high)]
        said.append(f"{column.part_name(part)} changes by {written[0]} ({written[1]} to {written[2]})")

    return said


def _relabelled(column: Column, held: Numbers, changed: Numbers) -> str:
    """In how many rows a label changes, and mostly how."""
    before, after = (values[held][changed, 0] for values in (column.before, column.after[0]))
    pairs, counts = np.unique(np.stack([before, after]), axis=1, return_counts=True)
    first, second = (column.write(code[None]) for code in pairs[:, counts.argmax()])
    mostly = "" if len(counts) == 1 else "mostly "

    return f"In {_of(changed)} {column.name} changes, {mostly}from {first} to {second}"


def _carried(told: Told, held: Numbers) -> str:
    """Which noise carried most of the change in how many rows."""
    names = list(told.cf.moved)
    moved = np.stack([told.of_rows(each)[0] for each in told.cf.moved.values()])[:, held]
    rows = np.isfinite(moved).all(0) & (moved.sum(0) > 0)
    if not rows.any():
        return ""
    counts = np.bincount(moved[:, rows].argmax(0), minlength=len(names))
    order = [int(each) for each in np.argsort(-counts, kind="stable") if counts[each]]
    if len(order) == 1:
        return f"Most of the change traces back to {carrier(told, names[order[0]])} in every row that changes"
    parts = [f"{carrier(told, names[each])} in {counts[each]:,}" for each in order[:MOST_CARRIERS]]
    parts[0] += " row" if counts[order[0]] == 1 else " rows"

    return f"Most of the change traces back to {join_words(parts)}"


def _doubts(told: Told, held: Numbers) -> list[str]:
    """In how many rows the answers are to be doubted."""
    cf, doubts = told.cf, []
    errors = told.of_rows(cf.error).max(0)[held]
    missed = 1 - np.asarray(cf.certainty, dtype=float).reshape(-1)[held]
    unsure = int((missed > 1 - SURE).sum())
    far = int((told.of_rows(cf.extrapolates).any(0) & held).sum())
    if (errors > NEARLY).any():
        doubts.append(f"What was asked is met up to {errors.max():.2g} standard deviations")
    if unsure:
        rows = "1 row" if unsure == 1 else f"{unsure:,} rows"
        doubts.append(f"In {rows} a nearer world was missed with a chance of up to {percent(float(missed.max()))}")
    if far:
        rest = "1 row rests" if far == 1 else f"{far:,} rows rest"
        doubts.append(f"{rest} on noise beyond 4 standard deviations, of which data show next to nothing")

    return [*doubts, misfits(told, held)]


def _of(rows: Numbers) -> str:
    """How many of some rows."""
    count = int(rows.sum())

    return "every row" if count == len(rows) else f"{count:,} of {len(rows):,} rows"


def _counts(words: Iterable[str]) -> dict[str, int]:
    """How often each word comes, most often first."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1

    return dict(sorted(counts.items(), key=lambda each: -each[1]))
