"""The claims of a model, one test each, with p-values as they come and effect sizes."""

__all__ = ["SAMPLES", "claims_of", "gain_of", "missed_of", "prepared"]

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from deepbc._validation import check_possible
from deepbc.evaluation.check.distance_covariance import Ranked, independence, mutual_independence
from deepbc.evaluation.check.energy_test import energy_test
from deepbc.evaluation.check.marginal_baseline import baseline
from deepbc.evaluation.check.observations import MOST_COMPONENTS, Evidence
from deepbc.evaluation.check.p_values import effective, kolmogorov_tail, normal_tail
from deepbc.evaluation.check.report import Claim
from deepbc.evaluation.check.setting import ANSWER, Setting
from deepbc.numerics.kolmogorov_smirnov import ks_statistic
from deepbc.numerics.wasserstein import wasserstein

# How many rows of the model, and of the data, are held against each other.
SAMPLES = 1_000
# A law is worse than the baseline where it loses more than this many nats a row; exact, where it returns a value to
# this part of its standard deviation.
LEAST_LOSS, RETURNED = 0.01, 1e-3


def prepared(evidence: Sequence[Evidence]) -> dict[str, Ranked]:
    """Ranks the noises of all variables that have any."""
    return {each.name: Ranked.of(each.noise[:, :MOST_COMPONENTS]) for each in evidence if each.noisy}


def claims_of(evidence: Sequence[Evidence], noises: Mapping[str, Ranked], setting: Setting) -> Iterator[Claim]:
    """All claims, causes before effects.

    Args:
        evidence: What is known of each variable, causes before effects.
        noises: Their ranked noises.
        setting: The common causes that are known of, and the question.
    """
    for k, each in enumerate(evidence):
        if each.noisy:
            yield from _of_law(each)
            yield from _of_dependence(each, evidence[:k], noises, setting)

    shown = [each for each in evidence if each.noisy and not each.is_image and setting.role(each.name) == ANSWER]
    if shown:
        yield _samples(shown, setting)


def _of_law(each: Evidence) -> Iterator[Claim]:
    if each.exact:
        yield _calibration(each)
        yield from _round_trip(each)
    if each.exact and each.noise.shape[-1] > 1:
        yield _components(each)
    if each.log_prob is not None:
        yield _likelihood(each, each.log_prob)


def _of_dependence(
    each: Evidence, earlier: Sequence[Evidence], noises: Mapping[str, Ranked], setting: Setting
) -> Iterator[Claim]:
    for other in earlier:
        if other.noisy:
            expected = setting.expects(each, other, noise=True)
            yield replace(_independence(each, other, noises), expected=expected)
    known = {other.name: other for other in earlier}
    for parent in (known[name] for name in each.parents):
        # The value of a root is its noise in other units.
        if (parent.parents or not parent.noisy) and not parent.is_image:
            expected = setting.expects(each, parent, noise=False)
            yield replace(_apart_from_parent(each, parent, noises), expected=expected)


def _calibration(each: Evidence) -> Claim:
    gaps: list[float] = ks_statistic(each.noise).tolist()
    p = kolmogorov_tail(max(gaps), effective(len(each.noise), each.learned))
    distance = wasserstein(each.noise).max().item()
    sentence = (
        f"The noise of {each.name!r} is not standard normal ({distance:.2f} standard deviations off, largest gap of "
        f"the distribution functions {max(gaps):.2f}): its law does not fit. Declare bounds, transform the column or "
        f"choose a richer mechanism."
    )

    return Claim("calibration", (each.name,), max(gaps), min(1.0, len(gaps) * p), sentence, size=distance)


def _round_trip(each: Evidence) -> Iterator[Claim]:
    """Says where a law is no inverse of itself; that is arithmetic and no question of chance, so it has no p-value."""
    missed = missed_of(each)
    if missed <= RETURNED:
        return
    sentence = (
        f"The law of {each.name!r} does not return its values from their noise (error {missed:.1g} standard "
        f"deviations): mend its inverse, or keep double precision."
    )

    yield Claim("round trip", (each.name,), missed, math.nan, sentence, size=missed, unit="sd", holds=False)


def _components(each: Evidence) -> Claim:
    p, strength = mutual_independence(each.noise[:, :MOST_COMPONENTS], each.learned)
    sentence = (
        f"The components of the noise of {each.name!r} depend on each other (strength {strength:.2f}): its law does "
        f"not fit. Choose a richer mechanism."
    )

    return Claim("components", (each.name,), strength, p, sentence, size=strength)


def _likelihood(each: Evidence, log_prob: Tensor) -> Claim:
    gain, error = gain_of(each, log_prob)
    sentence = (
        f"The law of {each.name!r} predicts worse than a Gaussian that ignores its parents ({gain:.3f} nats a row): it "
        f"was learned badly, or from other data."
    )
    p = normal_tail(-(gain + LEAST_LOSS) / error)

    return Claim("likelihood", (each.name,), gain, p, sentence, size=max(0.0, -gain))


def gain_of(each: Evidence, log_prob: Tensor) -> tuple[float, float]:
    """How many nats a row the law is better than the baseline, and the standard error of that."""
    gains = log_prob - baseline(each.variable, each.values)
    check_possible(gains.unsqueeze(1), "value", "density", f"Variable {each.name!r}")
    # A linear law without parents is the baseline, up to rounding.
    return gains.mean().item(), max(1e-9, gains.std().item() / math.sqrt(len(gains)))


def _independence(each: Evidence, other: Evidence, noises: Mapping[str, Ranked]) -> Claim:
    p, strength = independence(noises[each.name], noises[other.name], each.learned)
    related = f"The noise of {each.name!r} depends on that of {other.name!r} (strength {strength:.2f})"
    remedy = (
        f"its law misses how it follows from {other.name!r}, or an edge or a common cause is missing."
        if other.name in each.parents
        else "an edge between them or a common cause may be missing."
    )
    p = p if each.exact else math.nan

    return Claim("independence", (each.name, other.name), strength, p, f"{related}: {remedy}", size=strength)


def _apart_from_parent(each: Evidence, parent: Evidence, noises: Mapping[str, Ranked]) -> Claim:
    p, strength = independence(noises[each.name], Ranked.of(parent.values[:, :MOST_COMPONENTS]), each.learned)
    sentence = (
        f"The noise of {each.name!r} depends on the value of its parent {parent.name!r} (strength {strength:.2f}): its "
        f"law misses how it follows from {parent.name!r}, or an edge or a common cause is missing."
    )
    p = p if each.exact else math.nan

    return Claim("parents", (each.name, parent.name), strength, p, sentence, size=strength)


def _samples(shown: Sequence[Evidence], setting: Setting) -> Claim:
    data = torch.cat([each.values[:SAMPLES, :MOST_COMPONENTS] for each in shown], dim=1)
    drawn = torch.cat([each.drawn[:, :MOST_COMPONENTS] for each in shown], dim=1)
    p, distance, size = energy_test(data, drawn, min(each.learned for each in shown))
    sentence = (
        f"Rows that the model draws are not distributed as the data is (energy distance of the ranks {distance:.3f}): "
        f"mend what is said of single variables, then look again."
    )
    names = tuple(each.name for each in shown)
    expected = any(set(pair) <= set(names) for pair in setting.confounded)

    return Claim("samples", names, distance, p, sentence, size=size, expected=expected)


def missed_of(each: Evidence) -> float:
    """How far the law misses its values, in sd: the largest error of an exact law, the root mean square of another."""
    if not each.noisy:
        return math.nan
    spread = each.values.std(correction=0) if each.is_image else each.values.std(0, correction=0)
    error = (each.returned - each.values) / spread.where(spread > 0, 1.0)

    return (error.abs().max() if each.exact else error.square().mean().sqrt()).item()
