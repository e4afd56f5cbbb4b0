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

A p-value says whether a finding may be chance, its grade whether it is large. A model is rejected for a finding that is
both clear and strong, doubted for one that is clear and of some size, and accepted with those that are negligible.

References:
    Weak convergence of the sample distribution function when parameters are estimated (Durbin, 1973).
"""

__all__ = ["assess", "check"]

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_between, check_names, check_possible
from deepbc.data.columns import left_out
from deepbc.data.variables import common_batch
from deepbc.errors import DataError
from deepbc.evaluation.check.claims import SAMPLES, claims_of, prepared
from deepbc.evaluation.check.grades import NOT_JUDGED, NOT_SEEN, SCALES, STRONG
from deepbc.evaluation.check.missing_edges import edges_to_try, partial_strengths
from deepbc.evaluation.check.observations import Evidence, Rows
from deepbc.evaluation.check.p_values import holm
from deepbc.evaluation.check.report import CheckReport, Claim
from deepbc.evaluation.check.setting import Setting
from deepbc.evaluation.check.variable_checks import variable_check
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

# With fewer rows no test has power; so many see all that is not negligible, and more only cost time.
ENOUGH, MOST_ROWS = 20, 5_000


@torch.no_grad()
def check(
    scm: SCM,
    data: Any,
    *,
    seed: int = 0,
    level: float = 0.01,
    confounded: Iterable[tuple[str, str]] = (),
    antecedent: Iterable[str] = (),
) -> CheckReport:
    """Tests what a model claims of data: its laws, and the independences that its graph says hold.

    Rows that the fit did not see are the better judges; those of the fit are taken too, and are milder.

    Args:
        scm: The fitted model.
        data: Values of every variable (a `Predictor`'s may be left out), at least 20 rows, each drawn on its own. Of
            more than 5,000 rows so many are drawn, which see all that is not negligible. Other columns of a data frame
            are left out.
        seed: Same seed, same data: same report.
        level: The probability with which a right model may be found to be off.
        confounded: Pairs of variables with a common cause that is not in the graph, `a <-> b`. What dependence it
            explains is expected, and not held against the graph.
        antecedent: The variables of a backtracking question. The verdict is then that of the laws on which its answer
            depends: those of these variables and of their ancestors.

    Returns:
        The report, with the verdict, why, how each variable fared, and which edges to try.

    Example:
        >>> from deepbc.recipes import morphomnist
        >>> scm = morphomnist.truth()
        >>> check(scm, scm.sample(500, seed=1).values).accepted
        True
    """
    check_between(level, 0.0, 1.0, "check level")
    setting = Setting.read(scm.graph, confounded, antecedent)
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

    return assess(evidence, setting, given=batch.numel(), level=level, seed=seed)


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


def assess(evidence: Sequence[Evidence], setting: Setting, *, given: int, level: float, seed: int) -> CheckReport:
    """Tests every claim of a model, grades what is not chance and words the verdict.

    Args:
        evidence: What is known of each variable, causes before effects.
        setting: The common causes that are known of, and the question.
        given: The number of rows that were handed in, of which some may have been drawn.
        level: The probability with which a right model may be rejected.
        seed: Where the rows and the samples come from, for the record.
    """
    noises = prepared(evidence)
    found = _corrected(list(claims_of(evidence, noises, setting)), level)
    absent = {(each.name, other.name) for each in evidence for other in evidence if other.name not in each.parents}
    violated = [(claim.about[0], claim.about[1]) for claim in found if claim.pair and not claim.holds]
    strengths = partial_strengths(evidence, noises, [pair for pair in violated if pair in absent])
    found = [replace(_graded(claim, strengths, level), matters=_matters(claim, setting)) for claim in found]

    return CheckReport(
        variables=tuple(variable_check(each, found, setting.role(each.name)) for each in evidence),
        claims=tuple(found),
        rows=len(evidence[0].values),
        given=given,
        level=level,
        seed=seed,
        edges=edges_to_try(evidence, noises, violated, setting, level),
        confounded=setting.confounded,
        antecedent=setting.antecedent,
    )


def _corrected(found: Sequence[Claim], level: float) -> list[Claim]:
    """Corrects the p-values of what is held against the model, and says what holds."""
    judged = [k for k, claim in enumerate(found) if claim.judged and not claim.expected]
    corrected = list(found)
    for k, adjusted in zip(judged, holm([found[k].p for k in judged]), strict=True):
        corrected[k] = replace(found[k], adjusted=adjusted, holds=adjusted >= level)

    return corrected


def _graded(claim: Claim, strengths: Mapping[tuple[str, str], float], level: float) -> Claim:
    """Grades a claim by its effect size, which is the partial strength where there is one."""
    if claim.kind == "round trip":
        return replace(claim, grade=STRONG)
    if not claim.judged:
        return replace(claim, grade=NOT_JUDGED)
    scale = SCALES[claim.kind]
    seen = claim.p < level if claim.expected else not claim.holds
    partial = strengths.get((claim.about[0], claim.about[1])) if claim.kind == "independence" else None
    size = claim.size if partial is None else partial
    unit = scale.unit if partial is None else f"partial {scale.unit}"

    return replace(claim, size=size, unit=unit, grade=scale.grade(size) if seen else NOT_SEEN)


def _matters(claim: Claim, setting: Setting) -> bool:
    """Whether the answer to the question depends on what a claim is about."""
    if claim.kind == "samples":
        return True

    return setting.matters(*claim.about) if claim.pair else setting.matters(claim.about[0])
