"""What comes back from a check: every claim and how it fared, a verdict for each variable and for all."""

__all__ = ["DIRECTIONS", "VERDICTS", "CheckReport", "Claim", "VariableCheck"]

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from deepbc._validation import pick
from deepbc.data.frames import DataFrame, frame
from deepbc.evaluation.check.grades import NEGLIGIBLE, NOT_JUDGED, NOT_SEEN, SOME, STRONG, worst
from deepbc.evaluation.check.missing_edges import MissingEdge
from deepbc.evaluation.check.setting import ANSWER, OWN_VALUE
from deepbc.plots import CheckDrawing, Figure, plot_check

DIRECTIONS = (
    "Arrow directions within an equivalence class are not tested: graphs that claim the same independences fit the "
    "same data."
)
PAIRS = ("independence", "parents")
# By the worst grade of what was found.
VERDICTS = {
    STRONG: "rejected",
    SOME: "doubtful",
    NEGLIGIBLE: "accepted",
    NOT_SEEN: "accepted",
    NOT_JUDGED: "not judged",
}
MEANINGS = {
    STRONG: "the data contradicts what the model claims",
    SOME: "the data contradicts nothing strongly, but some of what the model claims is off",
    NEGLIGIBLE: "the data contradicts nothing that the model claims, but for what is negligible",
    NOT_SEEN: "the data contradicts nothing that the model claims",
    NOT_JUDGED: "the model claims nothing that can be tested",
}
# Of the edges to try, this many are told.
MOST_EDGES = 10


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that the model says of the data, and how it fared.

    Args:
        kind: `calibration`, `components`, `likelihood`, `independence`, `parents` or `samples`; `round trip` where
            that fails.
        about: The variables; the one whose law is judged comes first.
        effect: The statistic: the gap of the distribution functions, the error, the gain in nats, the strength of the
            dependence from 0 to 1, or the energy distance.
        p: The p-value; NaN where the claim is not judged.
        sentence: What it means if it fails.
        size: The effect size that is graded.
        adjusted: The p-value corrected for the number of claims; NaN where nothing is held against the model.
        holds: Whether what was found may be chance, or is expected.
        unit: What the size is measured in.
        grade: `negligible`, `some` or `strong`; `not seen` where it may be chance.
        expected: Whether a common cause that is known of explains that it fails.
        matters: Whether the answer to the question depends on it.
    """

    kind: str
    about: tuple[str, ...]
    effect: float
    p: float
    sentence: str
    size: float = math.nan
    adjusted: float = math.nan
    holds: bool = True
    unit: str = ""
    grade: str = NOT_JUDGED
    expected: bool = False
    matters: bool = True

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
        verdict: `accepted`, `doubtful`, `rejected` or `not judged`.
        gain: How many nats a row its law is better than a Gaussian that ignores the parents, in the mean.
        gain_error: The standard error of the gain.
        gap: The largest gap between the distribution function of its noise and a standard normal's.
        gap_p: The corrected p-value of that.
        dependence: How strongly its noise depends on what it should not, from 0 to 1, where that is clearest.
        dependence_on: The variable on which it does.
        dependence_p: The corrected p-value of that.
        round_trip: The largest error, in standard deviations, of values that are abducted and predicted again.
        pit: The counts of its noise in equal parts of the distribution function, which should be equal.
        failed: What is strongly off, in sentences.
        notes: What is not judged, in sentences.
        warned: What is off by some, in sentences.
        slight: What is off, though not by chance, by what is negligible, in sentences.
        misfit: How far its noise is from a standard normal's, in standard deviations.
        misfit_grade: The grade of that.
        dependence_size: The effect size of the dependence; where there is no edge, given the parents.
        dependence_grade: The grade of that.
        dependence_expected: Whether a common cause that is known of explains the dependence.
        grade: The worst grade of what was found.
        role: What its law is for the question: `matters`, `own value only` or `does not matter`.
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
    warned: tuple[str, ...] = ()
    slight: tuple[str, ...] = ()
    misfit: float = math.nan
    misfit_grade: str = NOT_JUDGED
    dependence_size: float = math.nan
    dependence_grade: str = NOT_JUDGED
    dependence_expected: bool = False
    grade: str = NOT_JUDGED
    role: str = ANSWER


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Whether data bears out what a model claims.

    Args:
        variables: How each variable fared, in the order of the graph.
        claims: Every claim that was tested.
        rows: The number of rows in the tests.
        given: The number of rows that were handed in.
        level: The probability with which a right model is found to be off, at most.
        seed: Where the rows and the samples came from.
        edges: Edges to try: those that would explain dependences that the graph rules out, the strongest first.
        confounded: The pairs with a common cause that were named.
        antecedent: The variables of the question that were named.
    """

    variables: tuple[VariableCheck, ...]
    claims: tuple[Claim, ...]
    rows: int
    given: int
    level: float
    seed: int
    edges: tuple[MissingEdge, ...] = ()
    confounded: tuple[tuple[str, str], ...] = ()
    antecedent: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the data contradicts nothing strongly, of what matters."""
        return not self.failed

    @property
    def grade(self) -> str:
        """The worst grade of what was found, of what matters: `strong`, `some`, `negligible`, `not seen`."""
        tested = any(claim.judged and claim.matters for claim in self.claims)

        return worst((claim.grade for claim in self._counted()), NOT_SEEN if tested else NOT_JUDGED)

    @property
    def verdict(self) -> str:
        """The verdict: `accepted`, `doubtful`, `rejected`, or `not judged` where nothing could be tested."""
        return VERDICTS[self.grade]

    @property
    def failed(self) -> tuple[str, ...]:
        """What is strongly off and matters, in sentences."""
        return tuple(claim.sentence for claim in self._counted() if claim.grade == STRONG)

    @property
    def warned(self) -> tuple[str, ...]:
        """What is off by some and matters, in sentences."""
        return tuple(claim.sentence for claim in self._counted() if claim.grade == SOME)

    def explain(self) -> str:
        """Says the verdict, what does not hold, which edges to try, what is not judged and what no data can tell."""
        ranks = list(VERDICTS)
        found = [claim for claim in self.claims if not claim.holds or (claim.expected and claim.grade in ranks[:3])]
        found.sort(key=lambda claim: (claim.expected, not claim.matters, ranks.index(claim.grade)))
        edges = [self._tell_edge(edge) for edge in self.edges[:MOST_EDGES]]
        notes = [note for each in self.variables for note in each.notes]
        listed = [f"- {each}" for each in (*map(self._tell, found), *edges, *notes)]

        return "\n".join([self._summary(), *self._depends_on(), *listed, DIRECTIONS])

    def matter(self, name: str) -> str:
        """Says what the law of a variable is for the question; nothing where it matters, or where none was named."""
        role, asked = self[name].role, ", ".join(map(repr, self.antecedent))
        if role == ANSWER:
            return ""

        return (
            f"matters for its own value only, not for {asked}" if role == OWN_VALUE else f"does not matter for {asked}"
        )

    def _counted(self) -> list[Claim]:
        """What the verdict is about."""
        return [claim for claim in self.claims if not claim.holds and claim.matters]

    def _tell(self, claim: Claim) -> str:
        p = claim.p if claim.expected else claim.adjusted
        told = [claim.grade, f"{claim.size:.2g} {claim.unit}"] + ([] if math.isnan(p) else [f"p {p:.1g}"])
        grade = ", ".join(told)
        if claim.expected:
            return f"Expected, for a common cause that was named ({grade}): {claim.sentence.partition(': ')[0]}."
        aside = "" if claim.matters else f" ({self.matter(claim.about[0])})"

        return f"{grade.capitalize()}: {claim.sentence}{aside}"

    def _tell_edge(self, edge: MissingEdge) -> str:
        aside = "" if edge.matters else f" ({self.matter(edge.effect)})"

        return (
            f"Edge to try: {edge}, or a common cause of the two ({edge.grade}: strength {edge.strength:.2f}, "
            f"{edge.nats:.3f} nats a row, p {edge.p:.1g}).{aside}"
        )

    def _depends_on(self) -> list[str]:
        """Names the laws that the answer to the question depends on."""
        if not self.antecedent:
            return []
        asked = ", ".join(map(repr, self.antecedent))
        names = {
            role: [repr(each.name) for each in self.variables if each.role == role] for role in (ANSWER, OWN_VALUE)
        }
        own = f" Those of {', '.join(names[OWN_VALUE])} matter for their own values only." if names[OWN_VALUE] else ""

        return [f"The answer to a question about {asked} depends on the laws of {', '.join(names[ANSWER])}.{own}"]

    def _summary(self) -> str:
        rows = f"{self.rows:,} rows" if self.rows == self.given else f"{self.rows:,} of {self.given:,} rows"
        tested = sum(claim.judged and not claim.expected for claim in self.claims)

        return (
            f"{self.verdict.capitalize()} at an overall level of {100 * self.level:g} %: {MEANINGS[self.grade]} "
            f"({tested} tests, p-values corrected by Holm's method, {rows})."
        )

    def to_frame(self) -> DataFrame:
        """Writes the report as a data frame, one row per variable."""
        fields = (
            "verdict", "gain", "gain_error", "gap", "gap_p", "dependence", "dependence_on", "dependence_p",
            "round_trip", "misfit", "misfit_grade", "dependence_size", "dependence_grade", "grade", "role",
        )  # fmt: skip
        columns = {"variable": [each.name for each in self.variables]}
        columns |= {field: [getattr(each, field) for each in self.variables] for field in fields}
        columns["notes"] = [
            " ".join((*each.failed, *each.warned, *each.slight, *each.notes)) for each in self.variables
        ]

        return frame(columns, torch.Size([len(self.variables)]))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draws the distribution of each noise, and how strongly noises depend; writes the file if named."""
        pairs = [claim for claim in self.claims if claim.kind == "independence"]
        drawing = CheckDrawing(
            pits={each.name: each.pit for each in self.variables if each.pit},
            uneven={
                claim.about[0]: claim.grade for claim in self.claims if claim.kind == "calibration" and not claim.holds
            },
            strengths={(claim.about[0], claim.about[1]): claim.size for claim in pairs},
            related={(claim.about[0], claim.about[1]): claim.grade for claim in pairs if not claim.holds},
            expected=[(claim.about[0], claim.about[1]) for claim in pairs if claim.expected],
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
