"""What the sentences of an answer are made from, and how they are put together."""

__all__ = [
    "MOST_CARRIERS",
    "MOST_CHANGED",
    "MOST_STAYED",
    "NEARLY",
    "SURE",
    "Told",
    "carrier",
    "join_sentences",
    "law_broken",
    "misfits",
    "quantiles",
    "round_off",
]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepbc.data.wording import join_words, write_exact, write_number
from deepbc.queries.description.asked import Condition
from deepbc.queries.description.columns import Column, Numbers

if TYPE_CHECKING:
    from deepbc.queries.results import Counterfactual
    from deepbc.queries.status import Status

# So many variables that change, that stay, and that carry the change are named one by one.
MOST_CHANGED, MOST_STAYED, MOST_CARRIERS = 12, 3, 4
# A condition that is missed by more standard deviations than this is met only nearly.
NEARLY = 1e-3
# A certainty of one, up to rounding.
SURE = 1 - 1e-9
QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Told:
    """What the sentences are made from.

    Args:
        cf: The answer.
        columns: The values of each variable.
        asked: What was asked.
        statuses: How each row ended.
    """

    cf: "Counterfactual"
    columns: Mapping[str, Column]
    asked: Mapping[str, Condition]
    statuses: "Sequence[Status]"

    @property
    def told(self) -> dict[str, Column]:
        """The variables whose values the antecedent does not say."""
        return {
            name: each for name, each in self.columns.items() if name not in self.asked or self.asked[name].interval
        }

    def of_rows(self, rows: Any) -> Numbers:
        """Numbers of each row, or of each sample of it, with shape `(samples, rows)`."""
        return np.asarray(rows, dtype=float).reshape(-1, len(self.statuses))


def carrier(told: Told, name: str) -> str:
    """The variable whose noise carries a change."""
    return f"{told.columns[name].noun} itself" if name in told.asked else told.columns[name].noun


def law_broken(told: Told) -> str:
    """What a force does."""
    names = join_words([each.column.noun for each in told.asked.values()])
    if len(told.asked) == 1:
        return f"The law of {names} is broken, and only its effects follow"

    return f"The laws of {names} are broken, and only their effects follow"


def misfits(told: Told, rows: Any) -> str:
    """Which laws are known to misfit their data, of those that some rows rest on.

    Args:
        told: What is told of.
        rows: The rows, as a number or a mask.
    """
    cf = told.cf
    causes = set() if cf.forced else {*told.asked, *cf.graph.ancestors(*told.asked)}
    named = [
        f"{told.columns[name].noun} ({'; '.join(clauses)})"
        for name, clauses in cf.misfits.items()
        if name in causes or told.columns[name].changed()[:, rows].any()
    ]
    if not named:
        return ""
    which, verb = ("The law", "misfits its") if len(named) == 1 else ("The laws", "misfit their")

    return f"{which} of {join_words(named)} {verb} data, so that this answer may mislead"


def quantiles(column: Column, numbers: Numbers) -> tuple[float, float, float]:
    """The 5, 50 and 95 % quantiles of what is finite, which is 0 if nothing is; of whole numbers, whole ones."""
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return 0.0, 0.0, 0.0
    low, middle, high = np.quantile(finite, QUANTILES, method="nearest" if column.whole else "linear")

    return float(low), float(middle), float(high)


def round_off(column: Column, value: float, step: float, *, signed: bool = False) -> str:
    """Writes a number that was found among many."""
    said = write_exact(value) if column.whole else write_number(value, step)

    return f"+{said}" if signed and value > 0 and said != "0" else said


def join_sentences(*sentences: str) -> str:
    """Joins sentences, each with a full stop."""
    return " ".join(each if each.endswith((".", "!", "?")) else f"{each}." for each in sentences if each)
