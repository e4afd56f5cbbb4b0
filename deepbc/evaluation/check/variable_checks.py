"""What was found of one variable, gathered from the claims about it."""

__all__ = ["variable_check"]

import math
from collections.abc import Iterator, Sequence

import torch

from deepbc.evaluation.check.claims import gain_of, missed_of
from deepbc.evaluation.check.grades import NEGLIGIBLE, NOT_JUDGED, NOT_SEEN, SOME, STRONG, worst
from deepbc.evaluation.check.observations import MOST_COMPONENTS, Evidence
from deepbc.evaluation.check.report import VERDICTS, Claim, VariableCheck

BINS = 20


def variable_check(each: Evidence, claims: Sequence[Claim], role: str) -> VariableCheck:
    """Gathers what was found of one variable.

    Args:
        each: What is known of it.
        claims: The claims about all variables, graded.
        role: What its law is for the question.
    """
    own = {claim.kind: claim for claim in claims if claim.about == (each.name,)}
    bound = [claim for claim in claims if claim.pair and claim.about[0] == each.name]
    nearest = min(bound, key=lambda claim: (claim.p if claim.judged else 1.0, -claim.effect), default=None)
    gain, gain_error = (math.nan, math.nan) if each.log_prob is None else gain_of(each, each.log_prob)
    found = [claim for claim in (*own.values(), *bound) if not claim.holds]
    sentences = {grade: tuple(claim.sentence for claim in found if claim.grade == grade) for grade in VERDICTS}
    judged = each.exact and each.noisy
    grade = worst([claim.grade for claim in found], NOT_SEEN if judged else NOT_JUDGED)
    calibration = own.get("calibration")

    return VariableCheck(
        name=each.name,
        verdict=VERDICTS[grade],
        gain=gain,
        gain_error=gain_error,
        gap=calibration.effect if calibration else math.nan,
        gap_p=calibration.adjusted if calibration else math.nan,
        dependence=nearest.effect if nearest else math.nan,
        dependence_on=nearest.about[1] if nearest else "",
        dependence_p=nearest.adjusted if nearest else math.nan,
        round_trip=missed_of(each),
        pit=tuple(map(int, torch.histc(torch.special.ndtr(each.noise), BINS, 0.0, 1.0))) if judged else (),
        failed=sentences[STRONG],
        notes=tuple(_notes(each)),
        warned=sentences[SOME],
        slight=sentences[NEGLIGIBLE],
        misfit=calibration.size if calibration else math.nan,
        misfit_grade=calibration.grade if calibration else NOT_JUDGED,
        dependence_size=nearest.size if nearest else math.nan,
        dependence_grade=nearest.grade if nearest else NOT_JUDGED,
        dependence_expected=nearest.expected if nearest else False,
        grade=grade,
        role=role,
    )


def _notes(each: Evidence) -> Iterator[str]:
    if not each.noisy:
        yield f"{each.name!r} follows from its parents and has no noise: not judged."
        return
    if not each.exact:
        yield (
            f"The noise of {each.name!r} is an estimate: its distribution, its likelihood and its dependence are not "
            f"judged. Its round trip is the root mean square error."
        )
    elif each.log_prob is None:
        yield f"The law of {each.name!r} has no density: its likelihood is not judged."
    if each.noise.shape[-1] > MOST_COMPONENTS:
        several = each.noise.shape[-1]
        yield f"Of the {several} noises of {each.name!r}, the dependence is that of the first {MOST_COMPONENTS}."
