r"""What a model claims of data, and whether the data bears it out.

A model with the right graph and the right laws has noises that are standard normal and independent of each other; then,
and only then, its rows are distributed as the data is. Each claim is tested alone, so that a failure names its place:

- *calibration*: the noise of a variable is standard normal (Kolmogorov and Smirnov's test of :math:`\Phi(u)`);
- *independence*: the noise of a variable is independent of that of each variable before it. This is what the graph
  claims: a removed edge, or a common cause, shows here;
- *parents*: it is independent of the value of each parent, too, where that is not the parent's noise in other units;
- *components*: the components of a vector's noise are independent;
- *likelihood*: the law predicts no worse than a Gaussian that ignores the parents;
- *samples*: the rows of the model are distributed as the data is, all variables together.

A law that was learned is off by what its rows let it see. On new rows that error adds to the one of the test, as though
there were :math:`1 / (1/n + 1/n')` rows, for :math:`n` tested and :math:`n'` learned from; on the rows of the fit it is
less. So tests count that many rows, and err on the safe side for the rows of the fit.

References:
    Weak convergence of the sample distribution function when parameters are estimated (Durbin, 1973).
"""

__all__ = ["assess", "check"]

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_between, check_names, check_possible
from deepbc.data.columns import left_out
from deepbc.data.variables import common_batch
from deepbc.errors import DataError
from deepbc.evaluation.check.distance_covariance import Ranked, independence, mutual_independence
from deepbc.evaluation.check.energy_test import energy_test
from deepbc.evaluation.check.marginal_baseline import baseline
from deepbc.evaluation.check.observations import Evidence, Rows
from deepbc.evaluation.check.p_values import effective, holm, kolmogorov_tail, normal_tail
from deepbc.evaluation.check.report import CheckReport, Claim, VariableCheck
from deepbc.numerics.kolmogorov_smirnov import ks_statistic
from deepbc.numerics.seeding import generator
from deepbc.scm import SCM
from deepbc.scm.completion import (
    complete_checked,
    complete_read,
    complete_rows,
    draw_noise,
    join_parents,
    sources,
)

# With fewer rows no test has power; with more, laws are rejected for errors that matter to nobody.
ENOUGH, MOST_ROWS = 20, 5_000
# How many rows of the model, and of the data, are held against each other.
SAMPLES = 1_000
# The components of a vector that are checked.
MOST_COMPONENTS = 16
# A law is worse than the baseline where it loses more than this many nats a row; exact, where it returns a value to
# this part of its standard deviation.
LEAST_LOSS, RETURNED = 0.01, 1e-3
BINS = 20


@torch.no_grad()
def check(scm: SCM, data: Any, *, seed: int = 0, level: float = 0.01) -> CheckReport:
    """Tests what a model claims of data: its laws, and the independences that its graph says hold.

    Rows that the fit did not see are the better judges; those of the fit are taken too, and are milder.

    Args:
        scm: The fitted model.
        data: Values of every variable (a `Predictor`'s may be left out), at least 20 rows, each drawn on its own. Of
            more than 5,000 rows so many are drawn: with more, every law that was learned is found wrong. Other columns
            of a data frame are left out.
        seed: Same seed, same data: same report.
        level: The probability with which a right model may be rejected.

    Returns:
        The report, with the verdict, why, and how each variable fared.

    Example:
        >>> from deepbc.recipes import morphomnist
        >>> scm = morphomnist.truth()
        >>> check(scm, scm.sample(500, seed=1).values).accepted
        True
    """
    check_between(level, 0.0, 1.0, "check level")
    given = scm.schema.read_values(data)
    followed = [name for name, mechanism in scm.mechanisms.items() if mechanism.deterministic]
    check_names(given, tuple(scm.graph), "check data", followed, left_out(data, tuple(scm.graph), "check data"))
    batch = common_batch(given)
    if batch.numel() < ENOUGH:
        raise DataError(
            f"check data: expected at least {ENOUGH} rows, got {batch.numel()}. So few tell nothing; give more."
        )

    chosen = torch.randperm(batch.numel(), generator=generator(seed, "check rows"))[:MOST_ROWS]
    rows = {name: each.expand(*batch, -1).flatten(0, -2)[chosen] for name, each in given.items()}
    try:
        world = complete_checked(scm, rows, {})
    except DataError:
        complete_read(scm, data)  # names the row as it was handed in
        raise
    drawn = _draw(scm, seed)
    learned = {each.name: each.learned for each in scm.report}
    evidence = [
        Evidence.of(
            scm.mechanisms[name],
            Rows(world.x[name], world.u[name], join_parents(scm, name, world.x)),
            drawn.get(name, world.x[name][:0]),
            learned.get(name) or len(world.x[name]),
            seed,
        )
        for name in scm.graph.order
    ]

    return assess(evidence, given=batch.numel(), level=level, seed=seed)


def _draw(scm: SCM, seed: int) -> dict[str, Tensor]:
    """Draws rows to be held against data; not those of `sample` for the seed, which may be the data."""
    plain = [name for name in scm.graph if name not in scm.schema.images]
    names = {*plain, *scm.graph.ancestors(*plain)}
    other = int(torch.randint(2**62, (), generator=generator(seed, "check samples")))
    noise = {name: draw_noise(scm, name, SAMPLES, other) for name in scm.graph}
    x = complete_rows(scm, sources({}, noise), scm.schema.empty([SAMPLES]), names).x
    for name, each in x.items():
        check_possible(each, "noise", "value", f"Variable {name!r}")

    return x


def assess(evidence: Sequence[Evidence], *, given: int, level: float, seed: int) -> CheckReport:
    """Tests every claim of a model and words the verdict.

    Args:
        evidence: What is known of each variable, causes before effects.
        given: The number of rows that were handed in, of which some may have been drawn.
        level: The probability with which a right model may be rejected.
        seed: Where the rows and the samples come from, for the record.
    """
    found = list(_claims(evidence))
    tested = [k for k, claim in enumerate(found) if claim.judged]
    for k, adjusted in zip(tested, holm([found[k].p for k in tested]), strict=True):
        found[k] = replace(found[k], adjusted=adjusted, holds=adjusted >= level)

    return CheckReport(
        variables=tuple(_variable(each, found) for each in evidence),
        claims=tuple(found),
        rows=len(evidence[0].values),
        given=given,
        level=level,
        seed=seed,
    )


def _claims(evidence: Sequence[Evidence]) -> Iterator[Claim]:
    """All claims, with their p-values as they come."""
    known = {each.name: each for each in evidence}
    noises = {each.name: Ranked.of(each.noise[:, :MOST_COMPONENTS]) for each in evidence if each.noisy}
    for k, each in enumerate(evidence):
        if not each.noisy:
            continue
        if each.exact:
            yield _calibration(each)
        if each.exact and each.noise.shape[-1] > 1:
            yield _components(each)
        if each.log_prob is not None:
            yield _likelihood(each, each.log_prob)
        for other in evidence[:k]:
            if other.noisy:
                yield _independence(each, other, noises)
        for parent in each.parents:
            # The value of a root is its noise in other units.
            if (known[parent].parents or not known[parent].noisy) and not known[parent].is_image:
                yield _apart_from_parent(each, known[parent], noises)

    shown = [each for each in evidence if each.noisy and not each.is_image]
    if shown:
        yield _samples(shown)


def _calibration(each: Evidence) -> Claim:
    gaps: list[float] = ks_statistic(each.noise).tolist()
    p = kolmogorov_tail(max(gaps), effective(len(each.noise), each.learned))
    sentence = (
        f"The noise of {each.name!r} is not standard normal (largest gap of the distribution functions "
        f"{max(gaps):.2f}): its law does not fit. Declare bounds, transform the column or choose a richer mechanism."
    )

    return Claim("calibration", (each.name,), max(gaps), min(1.0, len(gaps) * p), sentence)


def _components(each: Evidence) -> Claim:
    p, strength = mutual_independence(each.noise[:, :MOST_COMPONENTS], each.learned)
    sentence = (
        f"The components of the noise of {each.name!r} depend on each other (strength {strength:.2f}): its law does "
        f"not fit. Choose a richer mechanism."
    )

    return Claim("components", (each.name,), strength, p, sentence)


def _likelihood(each: Evidence, log_prob: Tensor) -> Claim:
    gain, error = _gain(each, log_prob)
    sentence = (
        f"The law of {each.name!r} predicts worse than a Gaussian that ignores its parents ({gain:.3f} nats a row): it "
        f"was learned badly, or from other data."
    )

    return Claim("likelihood", (each.name,), gain, normal_tail(-(gain + LEAST_LOSS) / error), sentence)


def _gain(each: Evidence, log_prob: Tensor) -> tuple[float, float]:
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

    return Claim(
        "independence", (each.name, other.name), strength, p if each.exact else math.nan, f"{related}: {remedy}"
    )


def _apart_from_parent(each: Evidence, parent: Evidence, noises: Mapping[str, Ranked]) -> Claim:
    p, strength = independence(noises[each.name], Ranked.of(parent.values[:, :MOST_COMPONENTS]), each.learned)
    sentence = (
        f"The noise of {each.name!r} depends on the value of its parent {parent.name!r} (strength {strength:.2f}): its "
        f"law misses how it follows from {parent.name!r}, or an edge or a common cause is missing."
    )

    return Claim("parents", (each.name, parent.name), strength, p if each.exact else math.nan, sentence)


def _samples(shown: Sequence[Evidence]) -> Claim:
    data = torch.cat([each.values[:SAMPLES, :MOST_COMPONENTS] for each in shown], dim=1)
    drawn = torch.cat([each.drawn[:, :MOST_COMPONENTS] for each in shown], dim=1)
    p, distance = energy_test(data, drawn, min(each.learned for each in shown))
    sentence = (
        f"Rows that the model draws are not distributed as the data is (energy distance of the ranks {distance:.3f}): "
        f"mend what is said of single variables, then look again."
    )

    return Claim("samples", tuple(each.name for each in shown), distance, p, sentence)


def _variable(each: Evidence, claims: Sequence[Claim]) -> VariableCheck:
    """Gathers what was found of one variable."""
    own = {claim.kind: claim for claim in claims if claim.about == (each.name,)}
    bound = [claim for claim in claims if claim.pair and claim.about[0] == each.name]
    nearest = min(bound, key=lambda claim: (claim.p if claim.judged else 1.0, -claim.effect), default=None)
    gain, gain_error = (math.nan, math.nan) if each.log_prob is None else _gain(each, each.log_prob)
    missed, uniform = _missed(each), torch.special.ndtr(each.noise)
    failed = [claim.sentence for claim in (*own.values(), *bound) if not claim.holds]
    if each.exact and missed > RETURNED:
        failed.append(
            f"The law of {each.name!r} does not return its values from their noise (error {missed:.1g} standard "
            f"deviations): mend its inverse, or keep double precision."
        )

    return VariableCheck(
        name=each.name,
        verdict="rejected" if failed else "accepted" if each.exact and each.noisy else "not judged",
        gain=gain,
        gain_error=gain_error,
        gap=own["calibration"].effect if "calibration" in own else math.nan,
        gap_p=own["calibration"].adjusted if "calibration" in own else math.nan,
        dependence=nearest.effect if nearest else math.nan,
        dependence_on=nearest.about[1] if nearest else "",
        dependence_p=nearest.adjusted if nearest else math.nan,
        round_trip=missed,
        pit=tuple(map(int, torch.histc(uniform, BINS, 0.0, 1.0))) if each.exact and each.noisy else (),
        failed=tuple(failed),
        notes=tuple(_notes(each)),
    )


def _missed(each: Evidence) -> float:
    """How far the law misses its values, in sd: the largest error of an exact law, the root mean square of another."""
    if not each.noisy:
        return math.nan
    spread = each.values.std(correction=0) if each.is_image else each.values.std(0, correction=0)
    error = (each.returned - each.values) / spread.where(spread > 0, 1.0)

    return (error.abs().max() if each.exact else error.square().mean().sqrt()).item()


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
