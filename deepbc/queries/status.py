"""How an answer ended: one table of words, reasons and remedies, keyed by what happened to a row."""

__all__ = ["Outcome", "RowStatuses", "Status", "status_of"]

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from deepbc.solvers.problem import SolverStatus

# The largest error of an antecedent, in standard deviations, that counts as none.
LARGEST_ERROR = 1e-6


class Status(str):
    """How an answer ended: `converged`, `infeasible` or `not converged`, with a sentence and a remedy.

    It compares as its word, so that `cf.status == "converged"` is a mask of rows.

    Example:
        >>> status_of(Outcome.CONVERGED) == "converged"
        True
    """

    __slots__ = ("reason", "remedy")

    reason: str
    remedy: str

    def __new__(cls, word: str, reason: str, remedy: str) -> Self:
        status = super().__new__(cls, word)
        status.reason, status.remedy = reason, remedy
        return status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.reason, self.remedy)

    def explain(self) -> str:
        """Says the status with its sentence and its remedy."""
        return f"{self}: {self.reason} {self.remedy}".strip()


class Outcome(IntEnum):
    """What happened to a row: how its solver ended, or what a question found before or after it."""

    CONVERGED = SolverStatus.CONVERGED
    MAX_STEPS = SolverStatus.MAX_STEPS
    INFEASIBLE = SolverStatus.INFEASIBLE
    NON_FINITE = SolverStatus.NON_FINITE
    ZERO_GRADIENT = SolverStatus.ZERO_GRADIENT
    INCOMPLETE_SEARCH = SolverStatus.INCOMPLETE_SEARCH
    CONVERGED_NEARLY = 10
    FROZEN = 11
    CONTRADICTORY = 12
    OUT_OF_BOUNDS = 13
    MISSED = 14
    FORCED_MISS = 15
    UNTRUSTED = 16
    DIVERGED = 17
    FORBIDDEN = 18
    NOT_FOUND = 19


_DONE, _NONE, _PART = "converged", "infeasible", "not converged"

TABLE: Mapping[Outcome, tuple[str, str, str]] = {
    Outcome.CONVERGED: (_DONE, "The antecedent holds and the answer is a solution.", ""),
    Outcome.CONVERGED_NEARLY: (
        _DONE,
        "The antecedent holds up to what the penalty allows; `error` says how nearly.",
        "",
    ),
    Outcome.MAX_STEPS: (
        _PART,
        "{solver} ended before it was done; this is the best found, and `error` says how far it misses.",
        "Give it more steps, or take the solver Exact() as it comes.",
    ),
    Outcome.INFEASIBLE: (
        _NONE,
        "No noise in scope can reach the antecedent ({names}): the noises that may move stop short of it.",
        "Ask for less, or widen the scope.",
    ),
    Outcome.FROZEN: (
        _NONE,
        "No noise in scope can reach the antecedent ({names}): neither its own nor that of a cause may move.",
        "Widen the scope.",
    ),
    Outcome.CONTRADICTORY: (
        _NONE,
        "The antecedents ({names}) contradict each other, or no noise in scope can reach them together.",
        "Ask for less, or widen the scope.",
    ),
    Outcome.NON_FINITE: (
        _NONE,
        "The laws yield no number for the antecedent: it lies outside the support of its variable. The row is left as "
        "it was.",
        "Ask for a value that the laws can give.",
    ),
    Outcome.ZERO_GRADIENT: (
        _PART,
        "The antecedent does not react to any noise in scope near the factual world: the laws are flat there, as a "
        "saturated probability or a hard decision is.",
        "Ask about a score that reacts, such as the logit behind a probability, or for an interval, such as "
        "at_least(0.5).",
    ),
    Outcome.NOT_FOUND: (
        _PART,
        "No draw of the noises in scope met the antecedent ({names}). A model of another library has no derivatives "
        "that would tell whether any can.",
        "Ask for less, or widen the scope.",
    ),
    Outcome.INCOMPLETE_SEARCH: (
        _PART,
        "No classes and whole numbers that were tried meet the antecedent by the noises in scope; not all were tried.",
        "Widen the scope, or ask for an interval.",
    ),
    Outcome.OUT_OF_BOUNDS: (
        _NONE,
        "{name!r} is asked to leave its bounds ({lower:g}, {upper:g}). The row is left as it was.",
        "Ask for a value inside the bounds.",
    ),
    Outcome.FORBIDDEN: (
        _NONE,
        "{name!r} is asked for what its constraint forbids. The row is left as it was.",
        "Ask for what is allowed, or lift the constraint.",
    ),
    Outcome.MISSED: (
        _PART,
        "A fresh prediction from the noise misses the antecedent; this is the best found, and `error` says by how "
        "much.",
        "Take the solver Exact(), ask for less, or look at the laws: one of them may not be its own inverse there.",
    ),
    Outcome.FORCED_MISS: (
        _NONE,
        "No noise leads to these values: the antecedent lies outside the support or bounds of its variable, the "
        "variable is a deterministic prediction, or a law downstream yields no number. The values are those of the "
        "force.",
        "Ask for a value that the laws can give.",
    ),
    Outcome.UNTRUSTED: (
        _PART,
        "The weights or chains of {sampler} do not tell of one density yet, or its samples are worth too few: "
        "`diagnostics` says how much.",
        "Draw more samples, which are looked for in more places, or take the sampler Hamiltonian().",
    ),
    Outcome.DIVERGED: (
        _PART,
        "{sampler} diverged: some samples are no numbers, because its steps are too long for these laws.",
        "Take shorter steps, or the sampler Hamiltonian().",
    ),
}


def status_of(outcome: Outcome, **details: object) -> Status:
    """Says what happened to a row in words; the details are those that its sentence names."""
    word, reason, remedy = TABLE[outcome]

    return Status(word, reason.format(**details), remedy)


@dataclass(frozen=True, slots=True)
class RowStatuses:
    """What happened to each row of a question, and the words for it.

    Args:
        outcome: The `Outcome` of each row, with shape `(rows,)`.
        words: The status of each outcome that may occur.
        outside: For each variable that is asked to leave its bounds, in which rows, and the status of these.
        tolerance: The largest error, in standard deviations, that counts as none.
        miss: What a row is that converged and whose antecedent does not hold.
    """

    outcome: Tensor
    words: Mapping[Outcome, Status]
    outside: tuple[tuple[Tensor, Status], ...] = field(default=())
    tolerance: float = LARGEST_ERROR
    miss: Outcome = Outcome.MISSED

    @property
    def converged(self) -> Tensor:
        """Whether a row is a solution, with shape `(rows,)`."""
        return self.outcome == Outcome.CONVERGED

    def put(self, rows: Tensor, other: "RowStatuses") -> "RowStatuses":
        """The same with what happened to other rows in the place of the given ones."""
        outcome = self.outcome.index_put((rows,), other.outcome)
        masks = [(torch.zeros_like(self.converged).index_put((rows,), mask), status) for mask, status in other.outside]

        return replace(self, outcome=outcome, words={**self.words, **other.words}, outside=(*self.outside, *masks))

    def say(self, holds: Tensor) -> "np.ndarray[Any, Any]":
        """The status of each row, as an array of objects; a row whose antecedent does not hold is never a success."""
        outcome = self.outcome.where(holds | ~self.converged, int(self.miss))
        words = np.empty(max(Outcome) + 1, dtype=object)
        for each, status in self.words.items():
            words[each] = status
        said: np.ndarray[Any, Any] = words[outcome.cpu().numpy()]
        for rows, status in self.outside:
            said[rows.cpu().numpy()] = status

        return said
