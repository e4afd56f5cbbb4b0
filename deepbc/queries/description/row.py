"""The answer of one row in sentences."""

__all__ = ["doubts_of", "no_answer", "tell_row"]

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from deepbc.data.wording import join_words, percent, write_number
from deepbc.queries.description.asked import write_condition
from deepbc.queries.description.columns import Column
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
)

if TYPE_CHECKING:
    from deepbc.queries.status import Status

# Parts of the distance below this are not worth a word.
LEAST_SHARE = 0.005


def tell_row(told: Told, k: int) -> str:
    """The nearest world of one row."""
    forced = told.cf.forced
    head = write_condition(tuple(told.asked.values()), k, forced=forced)
    if told.statuses[k] != "converged":
        return no_answer(head, told.statuses[k])
    doubts = doubts_of(told, k)
    if not _any_changed(told.columns.values(), k) and not told.of_rows(told.cf.distance)[0, k] > 0:
        return join_sentences(f"{head}, nothing would have changed", *doubts)

    clauses = "; ".join(filter(None, (_changes(told, k), _stays(told, k))))

    return join_sentences(f"{head}, {clauses}", law_broken(told) if forced else _traced(told, k), *doubts)


def _changes(told: Told, k: int) -> str:
    """What would have changed beside what was asked."""
    changed = {name: each for name, each in told.told.items() if each.changed()[0, k]}
    if not changed:
        some = told.cf.forced or _any_changed(told.columns.values(), k)
        return "nothing else would have changed" if some else "hardly anything would have changed"
    short = [name for name, each in changed.items() if not each.long]
    largest = sorted(short, key=lambda name: -_size(changed[name], k))[:MOST_CHANGED]
    named = [(changed[name].name, _change(told, name, k)) for name in short if name in largest]
    clauses = [_clause(named, "would have been")] if named else []
    if len(short) > len(named):
        clauses.append(f"{len(short) - len(named)} more would have changed, by less")
    clauses += [f"{each.noun} would have changed{_part_changed(each, k)}" for each in changed.values() if each.long]

    return "; ".join(clauses)


def _stays(told: Told, k: int) -> str:
    """What would have stayed as it is, where anything else changed."""
    stayed = [each for each in told.told.values() if not each.changed()[0, k]]
    if not stayed or len(stayed) == len(told.told):
        return ""
    if len(stayed) > MOST_STAYED:
        return f"the other {len(stayed)} variables would have stayed as they are"
    named = [(each.name, f"at {each.write(each.before[k])}") for each in stayed if not each.long]
    clauses = [_clause(named, "would have stayed")] if named else []
    clauses += [f"{each.noun} would have stayed as it is" for each in stayed if each.long]

    return "; ".join(clauses)


def _clause(parts: list[tuple[str, str]], verb: str) -> str:
    """Says the same verb of several names, once."""
    (name, said), *others = parts

    return join_words([f"{name} {verb} {said}", *(f"{name} {said}" for name, said in others)])


def _change(told: Told, name: str, k: int) -> str:
    """The value of a variable, and what it was unless that is said already."""
    column = told.columns[name]
    before, after = column.before[k], column.after[0, k]
    if name in told.asked:
        return told.asked[name].write_reached(k)

    return f"{column.write(after, before)} instead of {column.write(before, after)}"


def _part_changed(column: Column, k: int) -> str:
    """How many components of a vector changed."""
    count = int(column.components_changed()[0, k].sum())

    total = column.before.shape[-1]
    if column.image or count == total:
        return ""

    return f" in {count:,} of its {total:,} numbers"


def _any_changed(columns: Iterable[Column], k: int) -> bool:
    return any(each.changed()[0, k] for each in columns)


def _size(column: Column, k: int) -> float:
    """How much a variable changed, in standard deviations; labels come first."""
    if column.levels:
        return np.inf
    spread = column.spread if len(column.spread) else np.maximum(np.abs(column.before[k]), np.finfo(float).tiny)
    size = np.abs(column.after[0, k] - column.before[k]) / spread

    return float(np.nan_to_num(size, nan=np.inf).max(initial=0.0))


def _traced(told: Told, k: int) -> str:
    """Which noises carried the change."""
    moved = {name: float(told.of_rows(each)[0, k]) for name, each in told.cf.moved.items()}
    total = sum(moved.values())
    if not 0 < total < np.inf:
        return ""
    carriers = sorted((name for name in moved if moved[name] >= LEAST_SHARE * total), key=lambda name: -moved[name])
    if moved[carriers[0]] == total:
        alone = "" if carriers[0] in told.asked else " alone"
        return f"The change traces back to {carrier(told, carriers[0])}{alone}"
    shares = [percent(moved[name] / total) for name in carriers]
    shares[0] += " of the distance"
    said = [f"{carrier(told, name)} ({share})" for name, share in zip(carriers, shares, strict=True)]
    more = [f"{len(said) - MOST_CARRIERS} more"] if len(said) > MOST_CARRIERS else []

    return f"The change traces back to {join_words([*said[:MOST_CARRIERS], *more])}"


def doubts_of(told: Told, k: int) -> list[str]:
    """What is to be known before the answer of a row is believed."""
    cf, doubts = told.cf, []
    error, far = told.of_rows(cf.error)[:, k].max(), told.of_rows(cf.farthest)[:, k].max()
    missed = 1 - float(np.asarray(cf.certainty).reshape(-1)[k])
    if error > NEARLY:
        doubts.append(f"What was asked is met up to {error:.2g} standard deviations")
    if missed > 1 - SURE:
        doubts.append(f"With a chance of {percent(missed)} a nearer world was missed")
    if told.of_rows(cf.extrapolates)[:, k].any():
        what = "Some of it" if cf.diagnostics else "It"
        out = write_number(float(far), 0.1)
        doubts.append(f"{what} rests on noise {out} standard deviations out, of which data show next to nothing")

    return [*doubts, misfits(told, k)]


def no_answer(head: str, status: "Status") -> str:
    """A row of which nothing holds."""
    asked = f"{head[0].lower()}{head[1:]}"

    return (
        f"What would have been, {asked}, has no answer that holds ({status}). {status.reason} {status.remedy}".strip()
    )
