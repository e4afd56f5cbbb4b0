"""What comes back from a check: every claim and how it fared, a verdict for each variable and for all."""

__all__ = ["DIRECTIONS", "CheckReport", "Claim", "VariableCheck"]

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from deepbc._validation import pick
from deepbc.data.frames import DataFrame, frame
from deepbc.plots import CheckDrawing, Figure, plot_check

DIRECTIONS = (
    "Arrow directions within an equivalence class are not tested: graphs that claim the same independences fit the "
    "same data."
)
PAIRS = ("independence", "parents")


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that the model says of the data, and how it fared.

    Args:
        kind: `calibration`, `components`, `likelihood`, `independence`, `parents` or `samples`.
        about: The variables; the one whose law is judged comes first.
        effect: How far the claim is off: the gap of the distribution functions, the gain in nats, the strength of the
            dependence from 0 to 1, or the energy distance.
        p: The p-value; NaN where the claim is not judged.
        sentence: What it means if it fails.
        adjusted: The p-value corrected for the number of claims.
        holds: Whether the data does not contradict it.
    """

    kind: str
    about: tuple[str, ...]
    effect: float
    p: float
    sentence: str
    adjusted: float = math.nan
    holds: bool = True

    @property
    def judged(self) -> bool:
        """Whether there is a p-value."""
        return not math.isnan(self.p)

    @property
    def pair(self) -> bool:
        """Whether it is about the dependence of two variables."""
        return self.kind in PAIRS


@dataclass(frozen=True, slots=True)
class VariableCheck:
    """How the law of one variable fared. What does not apply to it is NaN.

    Args:
        name: The variable.
        verdict: `accepted`, `rejected` or `not judged`.
        gain: How many nats a row its law is better than a Gaussian that ignores the parents, in the mean.
        gain_error: The standard error of the gain.
        gap: The largest gap between the distribution function of its noise and a standard normal's.
        gap_p: The corrected p-value of that.
        dependence: How strongly its noise depends on what it should not, from 0 to 1, where that is clearest.
        dependence_on: The variable on which it does.
        dependence_p: The corrected p-value of that.
        round_trip: The largest error, in standard deviations, of values that are abducted and predicted again.
        pit: The counts of its noise in equal parts of the distribution function, which should be equal.
        failed: What does not hold, in sentences.
        notes: What is not judged, in sentences.
    """

    name: str
    verdict: str
    gain: float
    gain_error: float
    gap: float
    gap_p: float
    dependence: float
    dependence_on: str
    dependence_p: float
    round_trip: float
    pit: tuple[int, ...]
    failed: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Whether data bears out what a model claims.

    Args:
        variables: How each variable fared, in the order of the graph.
        claims: Every claim that was tested.
        rows: The number of rows in the tests.
        given: The number of rows that were handed in.
        level: The probability with which a right model is rejected, at most.
        seed: Where the rows and the samples came from.
    """

    variables: tuple[VariableCheck, ...]
    claims: tuple[Claim, ...]
    rows: int
    given: int
    level: float
    seed: int

    @property
    def accepted(self) -> bool:
        """Whether the data contradicts nothing that was tested."""
        return not self.failed

    @property
    def verdict(self) -> str:
        """The verdict in a word: `accepted`, `rejected`, or `not judged` where nothing could be tested."""
        judged = any(claim.judged for claim in self.claims)

        return "rejected" if self.failed else "accepted" if judged else "not judged"

    @property
    def failed(self) -> tuple[str, ...]:
        """What does not hold, in sentences."""
        shared = [claim.sentence for claim in self.claims if claim.kind == "samples" and not claim.holds]

        return (*(sentence for each in self.variables for sentence in each.failed), *shared)

    def explain(self) -> str:
        """Says the verdict, what does not hold, what is not judged and what no data can tell."""
        notes = [note for each in self.variables for note in each.notes]

        return "\n".join([self._summary(), *(f"- {each}" for each in (*self.failed, *notes)), DIRECTIONS])

    def _summary(self) -> str:
        rows = f"{self.rows:,} rows" if self.rows == self.given else f"{self.rows:,} of {self.given:,} rows"
        tested = sum(claim.judged for claim in self.claims)
        meaning = {
            "accepted": "the data contradicts nothing that the model claims",
            "rejected": "the data contradicts what the model claims",
            "not judged": "the model claims nothing that can be tested",
        }[self.verdict]

        return (
            f"{self.verdict.capitalize()} at an overall level of {100 * self.level:g} %: {meaning} ({tested} tests, "
            f"p-values corrected by Holm's method, {rows})."
        )

    def to_frame(self) -> DataFrame:
        """Writes the report as a data frame, one row per variable."""
        fields = (
            "verdict", "gain", "gain_error", "gap", "gap_p", "dependence", "dependence_on", "dependence_p",
            "round_trip",
        )  # fmt: skip
        columns = {"variable": [each.name for each in self.variables]}
        columns |= {field: [getattr(each, field) for each in self.variables] for field in fields}
        columns["notes"] = [" ".join((*each.failed, *each.notes)) for each in self.variables]

        return frame(columns, torch.Size([len(self.variables)]))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draws the distribution of each noise, and how strongly noises depend; writes the file if named."""
        pairs = [claim for claim in self.claims if claim.kind == "independence"]
        drawing = CheckDrawing(
            pits={each.name: each.pit for each in self.variables if each.pit},
            uneven=[claim.about[0] for claim in self.claims if claim.kind == "calibration" and not claim.holds],
            strengths={(claim.about[0], claim.about[1]): claim.effect for claim in pairs},
            related=[(claim.about[0], claim.about[1]) for claim in pairs if not claim.holds],
            caption=f"{self.verdict} at an overall level of {100 * self.level:g} %, {self.rows:,} rows",
        )

        return plot_check(drawing, path)

    def __iter__(self) -> Iterator[VariableCheck]:
        return iter(self.variables)

    def __getitem__(self, name: str) -> VariableCheck:
        known = {each.name: each for each in self.variables}
        return known[pick(name, known, "check report")]

    def __repr__(self) -> str:
        parts = ", ".join(f"{each.name}: {each.verdict}" for each in self.variables)
        return f"CheckReport({self.verdict} at level {self.level:g}; {parts}; rows: {self.rows:,})"
