"""The samples of one row in sentences."""

__all__ = ["tell_samples"]

import numpy as np

from deepbc.data.wording import join_words, percent
from deepbc.queries.description.asked import write_condition
from deepbc.queries.description.columns import Column
from deepbc.queries.description.row import doubts_of, no_answer
from deepbc.queries.description.told import (
    MOST_CHANGED,
    MOST_STAYED,
    Told,
    join_sentences,
    quantiles,
    round_off,
)


def tell_samples(told: Told, k: int) -> str:
    """The samples of one row: the middle and the range of what varies."""
    head = write_condition(tuple(told.asked.values()), k, forced=False)
    if told.statuses[k] != "converged":
        return no_answer(head, told.statuses[k])
    varying = [each for each in told.told.values() if each.changed()[:, k].any()]
    stayed = [each for each in told.told.values() if not each.changed()[:, k].any()]
    said = [part for each in varying[:MOST_CHANGED] for part in _sampled(each, k)]
    if len(varying) > MOST_CHANGED:
        said.append(f"{len(varying) - MOST_CHANGED} more vary")
    if len(stayed) > MOST_STAYED:
        said.append(f"the other {len(stayed)} variables stay as they are")
    else:
        said += [f"{each.noun} stays {_as_it_is(each, k)}" for each in stayed]
    count = told.cf.batch[0]
    drawn = "in the one world drawn" if count == 1 else f"over {count:,} worlds drawn"

    return join_sentences(f"{head}, then {drawn} {'; '.join(said) or 'nothing else can vary'}", *doubts_of(told, k))


def _as_it_is(column: Column, k: int) -> str:
    return "as it is" if column.long else f"at {column.write(column.before[k])}"


def _sampled(column: Column, k: int) -> list[str]:
    """The middle and the range of what varies, or the share of each label."""
    if column.long:
        return [f"{column.noun} varies"]
    if column.levels:
        codes, counts = np.unique(column.after[:, k, 0], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:MOST_STAYED]
        shares = [f"{column.write(codes[[each]])} in {percent(counts[each] / len(column.after))}" for each in order]
        return [f"{column.name} is {join_words(shares)}, instead of {column.write(column.before[k])}"]

    said = []
    for part, drawn in enumerate(column.after[:, k].T):
        numbers = (*quantiles(column, drawn), float(column.before[k, part]))
        step = column.step(part, *numbers)
        low, middle, high, before = (round_off(column, each, step) for each in numbers)
        if low == high == middle == before:
            said.append(f"{column.part_name(part)} stays at {before} in 90 %")
            continue
        most = "" if low == high else f" in the middle and {low} to {high} in 90 %"
        said.append(f"{column.part_name(part)} is {middle}{most}, instead of {before}")

    return said
