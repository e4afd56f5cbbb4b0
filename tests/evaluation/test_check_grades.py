"""Grades of what a check finds, edges to try, common causes and questions, against simulations with known truth."""

import itertools
import math
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import torch
from laws import identity, weighted

import deepbc as bc
from deepbc.evaluation.check import model_check
from deepbc.evaluation.check.distance_covariance import Ranked, independence
from deepbc.evaluation.check.grades import SCALES, nats, worst
from deepbc.evaluation.check.setting import Setting
from deepbc.numerics.wasserstein import wasserstein

GRADES = ("negligible", "some", "strong")


def linear(edges: dict[str, dict[str, float]], rows: int, seed: int, common=()) -> dict[str, np.ndarray]:
    """Rows of a linear model with noises of one standard deviation; causes first. `common` has latent causes."""
    draw = np.random.default_rng(seed)
    values = {}
    latents = {pair: draw.normal(size=rows) for pair in common}
    for name, weights in edges.items():
        shared = sum(latent for pair, latent in latents.items() if name in pair)
        values[name] = sum(w * values[cause] for cause, w in weights.items()) + draw.normal(size=rows) + shared
    return values


def learned(graph: str, data) -> bc.SCM:
    scm = bc.SCM(bc.CausalGraph.parse(graph), {name: bc.Linear() for name in data})
    scm.fit(data, seed=0, progress=False)
    return scm


def claim(report, *about, kind):
    return next(each for each in report.claims if each.kind == kind and each.about == about)


def test_distance_from_the_normal_is_that_of_scipy():
    draw = torch.Generator().manual_seed(0)
    u = torch.randn(500, 1, generator=draw, dtype=torch.float64)
    grid = scipy.stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    for changed in (u, u + 0.4, 1.7 * u, u.exp()):
        truth = scipy.stats.wasserstein_distance(changed.flatten(), grid)
        assert wasserstein(changed).item() == pytest.approx(truth, abs=0.02)
    exact = torch.from_numpy(grid)[:, None]
    assert wasserstein(exact + 0.3).item() == pytest.approx(0.3)
    assert wasserstein(1.5 * exact).item() == pytest.approx(0.5 * math.sqrt(2 / math.pi), abs=1e-4)


def test_thresholds_are_cohens():
    assert (SCALES["calibration"].some, SCALES["calibration"].strong) == (0.2, 0.5)
    assert (SCALES["independence"].some, SCALES["independence"].strong) == (0.1, 0.3)
    # A Gaussian law whose mean is off by d loses d^2 / 2 nats a row.
    assert SCALES["likelihood"].some == pytest.approx(0.2**2 / 2)
    assert [SCALES["parents"].grade(size) for size in (0.0999, 0.1, 0.3)] == list(GRADES)
    assert nats(0.6) == pytest.approx(-0.5 * math.log(1 - 0.36))
    assert worst(["some", "not seen", "negligible"]) == "some"


@pytest.mark.parametrize(("shift", "grade"), [(0.05, "negligible"), (0.3, "some"), (1.0, "strong")])
def test_grade_of_a_shift_does_not_change_with_the_rows(shift, grade, monkeypatch):
    monkeypatch.setattr(model_check, "MOST_ROWS", 50_000)
    scm = bc.SCM(bc.CausalGraph({"x": []}), {"x": identity()})
    chances = []
    for rows in (200, 2_000, 50_000):
        # The quantiles themselves, so that nothing is left to chance.
        values = scipy.stats.norm.ppf((np.arange(rows) + 0.5) / rows) + shift
        report = bc.check(scm, {"x": values})
        found = claim(report, "x", kind="calibration")
        assert found.size == pytest.approx(shift, abs=0.01)
        assert found.grade in (grade, "not seen")
        assert (found.grade == "not seen") == (found.adjusted >= report.level)
        chances.append(found.p)
    assert found.grade == grade
    assert report.verdict == {"negligible": "accepted", "some": "doubtful", "strong": "rejected"}[grade]
    assert report.accepted == (grade != "strong")
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 1e-3 * (grade != "strong")
    assert chances[-1] < 1e-15
    assert {"negligible": "but for what is negligible", "some": "nothing strongly", "strong": "data contradicts what"}[
        grade
    ] in report.explain()


@pytest.mark.parametrize(("shift", "grade"), [(0.0, "not seen"), (0.05, "negligible"), (0.3, "some"), (1.0, "strong")])
@pytest.mark.parametrize("rows", [200, 2_000])
def test_grade_of_drawn_rows_is_right_or_not_seen(shift, grade, rows):
    """40 data sets at a level of one in a hundred, of which one may be found to be off by chance."""
    scm = bc.SCM(bc.CausalGraph({"x": []}), {"x": identity()})
    drawn = (np.random.default_rng(seed).normal(size=rows) + shift for seed in range(40))
    grades = [claim(bc.check(scm, {"x": each}), "x", kind="calibration").grade for each in drawn]
    assert grades.count(grade) + grades.count("not seen") * (grade != "not seen") >= 39
    # A shift of 1 is always seen, one of 0.3 nearly always.
    assert grades.count("not seen") <= {"some": 12, "strong": 0}.get(grade, 40)


@pytest.mark.parametrize(("weight", "grade"), [(0.05, "negligible"), (0.2, "some"), (0.6, "strong")])
def test_grade_of_a_missing_edge_does_not_change_with_the_rows(weight, grade, monkeypatch):
    monkeypatch.setattr(model_check, "MOST_ROWS", 50_000)
    scm = bc.SCM(bc.CausalGraph.parse("a; b"), {"a": identity(), "b": identity()})
    grades = []
    for rows in (2_000, 50_000):
        draw = np.random.default_rng(0)
        a = draw.normal(size=rows)
        data = {"a": a, "b": weight * a + math.sqrt(1 - weight**2) * draw.normal(size=rows)}
        found = claim(bc.check(scm, data), "b", "a", kind="independence")
        # The distance correlation of two normals is a tenth less than their correlation.
        assert found.effect == pytest.approx(0.9 * weight, abs=2.5 / math.sqrt(rows))
        grades.append(found.grade)
    assert grades[-1] == grade
    assert grades[0] in (grade, "not seen")


def test_right_models_are_hardly_ever_found_to_be_off():
    """40 data sets; the level is one in a hundred for all claims together."""
    edges = {"a": {}, "b": {"a": 0.7}, "c": {"b": 0.6}, "d": {"c": 0.5, "a": 0.4}}
    seen, warned = 0, 0
    for seed in range(40):
        scm = learned("a -> b -> c; c, a -> d", linear(edges, 400, 2 * seed))
        report = bc.check(scm, linear(edges, 400, 2 * seed + 1))
        seen += report.grade != "not seen"
        warned += report.verdict != "accepted" or bool(report.edges)
    assert seen <= scipy.stats.binom.ppf(1 - 1e-3, 40, 0.01)
    assert warned <= seen


def test_strongest_missing_edge_comes_first():
    # a -> b -> c -> d, a -> c of 0.4, b -> d of 0.9: both are left out.
    edges = {"a": {}, "b": {"a": 0.7}, "c": {"b": 0.6, "a": 0.4}, "d": {"c": 0.5, "b": 0.9}}
    report = bc.check(learned("a -> b -> c -> d", linear(edges, 4000, 0)), linear(edges, 4000, 1))
    assert [(each.cause, each.effect) for each in report.edges] == [("b", "d"), ("a", "c")]
    first, second = report.edges
    # The partial correlation of a and c given b, of which the distance correlation is nine tenths.
    precision = np.linalg.inv(np.cov(np.array(list(linear(edges, 400_000, 2).values())[:3])))
    partial = -precision[0, 2] / math.sqrt(precision[0, 0] * precision[2, 2])
    assert second.strength == pytest.approx(0.9 * partial, abs=0.05)
    assert first.nats == pytest.approx(nats(first.strength))
    assert (first.grade, first.p < 1e-10) == ("strong", True)
    assert ("d", "b") in first.mends
    assert ("c", "a") in second.mends
    for edge in report.edges:  # what is listed keeps the graph acyclic
        bc.CausalGraph.from_edges([*bc.CausalGraph.parse("a -> b -> c -> d").edges, (edge.cause, edge.effect)])
    assert "Edge to try: 'b' -> 'd'" in report.explain()


def test_cause_of_a_missing_cause_is_not_listed():
    edges = {"a": {}, "b": {"a": 0.8}, "c": {"b": 0.8}}  # a -> b -> c, of which b -> c is left out
    report = bc.check(learned("a -> b; c", linear(edges, 2000, 0)), linear(edges, 2000, 1))
    assert [(each.cause, each.effect, each.mends) for each in report.edges] == [("b", "c", (("c", "a"), ("c", "b")))]
    mended = bc.check(learned("a -> b -> c", linear(edges, 2000, 0)), linear(edges, 2000, 1))
    assert mended.grade == "not seen"
    assert mended.edges == ()


def test_law_that_is_too_simple_asks_for_no_edge():
    def bent(seed):
        draw = np.random.default_rng(seed)
        a = draw.normal(size=2000)
        b = a + draw.normal(size=2000)
        return {"a": a, "b": b, "c": np.tanh(2 * b) + 0.3 * draw.normal(size=2000)}

    report = bc.check(learned("a -> b -> c", bent(0)), bent(1))
    assert report["c"].verdict == "rejected"
    assert report.edges == ()


def test_partial_strength_is_independent_of_the_conditions():
    draw = torch.Generator().manual_seed(0)
    z, e, f = torch.randn(3, 3000, 1, generator=draw, dtype=torch.float64)
    x, y = z + e, z + f
    assert independence(Ranked.of(x), Ranked.of(y))[1] > 0.3
    given = [Ranked.of(z)]
    assert independence(Ranked.of(x).given(given), Ranked.of(y).given(given))[0] > 0.01


def test_what_conditions_determine_is_independent():
    draw = torch.Generator().manual_seed(0)
    z, e = torch.randn(2, 500, 1, generator=draw, dtype=torch.float64)
    copy, constant = Ranked.of(3 * z + 1).given([Ranked.of(z)]), Ranked.of(torch.ones_like(z))
    for x in (copy, constant, constant.given([Ranked.of(z)])):
        assert independence(Ranked.of(e).given([Ranked.of(z)]), x) == (1.0, 0.0)


def test_partial_independence_is_rejected_as_often_as_the_level_says():
    rejected = 0
    for seed in range(300):
        draw = torch.Generator().manual_seed(seed)
        z, x, y = torch.randn(3, 200, 1, generator=draw, dtype=torch.float64)
        given = [Ranked.of(z)]
        rejected += independence(Ranked.of(x).given(given), Ranked.of(y + z).given(given))[0] < 0.05
    low, high = scipy.stats.binom.ppf([1e-4, 1 - 1e-4], 300, 0.05)
    assert low <= rejected <= high


CHAIN = {"a": {}, "b": {"a": 0.7}, "c": {"b": 0.6}}


def test_dependence_that_a_common_cause_explains_is_expected():
    scm = learned("a -> b -> c", linear(CHAIN, 2000, 0, common=[("a", "c")]))
    data = linear(CHAIN, 2000, 1, common=[("a", "c")])
    assert bc.check(scm, data).verdict == "rejected"
    report = bc.check(scm, data, confounded=[("a", "c")])
    assert report.verdict == "accepted"
    assert report.confounded == (("a", "c"),)
    assert report.edges == ()
    found = claim(report, "c", "a", kind="independence")
    assert (found.expected, found.holds, found.grade) == (True, True, "some")
    assert found.p < 1e-10
    assert math.isnan(found.adjusted)
    assert "Expected, for a common cause that was named (some" in report.explain()
    # A common cause of two others explains nothing of it.
    assert bc.check(scm, data, confounded=[("a", "b")]).verdict == "rejected"


def test_common_cause_of_effect_and_cause_opens_a_path():
    # a -> b -> c with b <-> c: given b, c depends on a.
    scm = learned("a -> b -> c", linear(CHAIN, 3000, 0, common=[("b", "c")]))
    data = linear(CHAIN, 3000, 1, common=[("b", "c")])
    assert bc.check(scm, data).verdict == "doubtful"
    report = bc.check(scm, data, confounded=[("b", "c")])
    assert report.verdict == "accepted"
    assert claim(report, "c", "a", kind="independence").expected
    assert not claim(report, "b", "a", kind="independence").expected


def test_noise_of_given_laws_depends_only_where_a_cause_is_common():
    laws = {"a": identity(), "b": weighted({"a": 0.7}), "c": weighted({"b": 0.6})}
    scm = bc.SCM(bc.CausalGraph.parse("a -> b -> c"), laws)
    draw = np.random.default_rng(0)
    u = draw.multivariate_normal([0, 0, 0], [[1, 0, 0], [0, 1, 0.5], [0, 0.5, 1]], size=1000)
    a, b = u[:, 0], 0.7 * u[:, 0] + u[:, 1]
    report = bc.check(scm, {"a": a, "b": b, "c": 0.6 * b + u[:, 2]}, confounded=[("b", "c")])
    expected = {each.about for each in report.claims if each.expected and each.kind == "independence"}
    assert expected == {("c", "b")}
    assert report.verdict == "accepted"


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("law", ["learned", "given"])
def test_noises_are_expected_to_depend_where_they_covary(seed, law):
    """The exact covariance of the noises, in random linear models with random common causes."""
    names, draw = "abcde", np.random.default_rng(seed)
    graph = bc.CausalGraph({name: [c for c in names[:k] if draw.random() < 0.4] for k, name in enumerate(names)})
    pairs = tuple(pair for pair in itertools.combinations(names, 2) if draw.random() < 0.2)
    weights, noise = np.zeros((5, 5)), np.diag(draw.uniform(2, 4, 5))
    for cause, effect in graph.edges:
        weights[names.index(effect), names.index(cause)] = draw.uniform(0.5, 1.5)
    for first, second in pairs:
        i, k = names.index(first), names.index(second)
        noise[i, k] = noise[k, i] = draw.uniform(0.2, 0.5)

    total = np.linalg.inv(np.eye(5) - weights)
    values = total @ noise @ total.T
    fits = np.eye(5)
    for k, name in enumerate(names):
        causes = [names.index(cause) for cause in graph.parents(name)]
        slopes = np.linalg.solve(values[np.ix_(causes, causes)], values[causes, k])
        fits[k, causes] -= slopes if law == "learned" else weights[k, causes]
    truth = fits @ values @ fits.T

    setting = Setting(graph, pairs)
    several = [
        SimpleNamespace(name=n, parents=graph.parents(n), learned=100 if law == "learned" else inf) for n in names
    ]
    for k, i in itertools.combinations(range(5), 2):
        assert setting.expects(several[i], several[k], noise=True) == (abs(truth[i, k]) > 1e-9), (graph, pairs, i, k)


# a -> b -> c -> d, b -> e, f alone
TREE = {"a": {}, "b": {"a": 0.7}, "c": {"b": 0.7}, "d": {"c": 0.7}, "e": {"b": 0.7}, "f": {}}


def test_question_depends_on_the_laws_of_its_ancestors():
    scm = learned("a -> b -> c -> d; b -> e; f", linear(TREE, 1000, 0))
    report = bc.check(scm, linear(TREE, 1000, 1), antecedent=["c"])
    roles = {each.name: each.role for each in report}
    assert roles == {
        **dict.fromkeys("abc", "matters"),
        **dict.fromkeys("de", "own value only"),
        "f": "does not matter",
    }
    assert "question about 'c' depends on the laws of 'a', 'b', 'c'" in report.explain()
    assert {each.role for each in bc.check(scm, linear(TREE, 1000, 1))} == {"matters"}


@pytest.mark.parametrize(
    ("off", "asked", "verdict"),
    [("d", "c", "accepted"), ("f", "c", "accepted"), ("b", "c", "rejected"), ("f", "f", "rejected")],
)
def test_verdict_is_that_of_what_matters(off, asked, verdict):
    scm = learned("a -> b -> c -> d; b -> e; f", linear(TREE, 1000, 0))
    data = linear(TREE, 1000, 1)
    # One law is off: its column is shifted where it does not matter for others, or the law is bent.
    data[off] = data[off] + 2.0 if off in "df" else data[off] + np.random.default_rng(5).gamma(0.5, 2.0, 1000)
    assert bc.check(scm, data).verdict == "rejected"
    report = bc.check(scm, data, antecedent=[asked])
    assert report.verdict == verdict
    if verdict == "accepted":
        assert report[off].verdict == "rejected"
        assert report.matter(off) in report.explain()
        assert not any(each.matters for each in report.claims if each.about == (off,))


def test_missing_edge_matters_where_the_answer_passes():
    edges = {**TREE, "d": {"c": 0.7, "a": 0.8}}  # a -> d is left out
    scm = learned("a -> b -> c -> d; b -> e; f", linear(edges, 1000, 0))
    data = linear(edges, 1000, 1)
    for asked, matters in (("d", True), ("c", False)):
        report = bc.check(scm, data, antecedent=[asked])
        assert [(each.cause, each.effect, each.matters) for each in report.edges] == [("a", "d", matters)]
        assert report.accepted != matters


def test_edge_between_what_the_graph_does_not_order_may_point_to_the_question():
    edges = {"a": {}, "b": {"a": 0.8}}
    scm = learned("a; b", linear(edges, 1000, 0))
    report = bc.check(scm, linear(edges, 1000, 1), antecedent=["a"])
    assert [(str(each), each.matters) for each in report.edges] == [("'a' -> 'b'", True)]  # b -> a is as likely
    assert report.verdict == "rejected"


SCM = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": identity(), "b": weighted({"a": 1.0})})
ROWS = {"a": np.arange(30.0), "b": np.arange(30.0)}


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"confounded": "a<->b"}, bc.SettingError, "confounded: expected a list, got 'a<->b'"),
        ({"confounded": ["ab"]}, bc.SettingError, "expected pairs of two variables, got 'ab'"),
        ({"confounded": [("a", "a")]}, bc.SettingError, "expected pairs of two variables"),
        ({"confounded": [("a", "b", "a")]}, bc.SettingError, "expected pairs of two variables"),
        ({"confounded": [("a", "c")]}, bc.UnknownNameError, "check confounded: unknown name 'c'"),
        ({"antecedent": "a"}, bc.SettingError, "antecedent: expected a list, got 'a'"),
        ({"antecedent": ["c"]}, bc.UnknownNameError, "check antecedent: unknown name 'c'"),
    ],
)
def test_bad_settings_are_said_clearly(options, error, part):
    with pytest.raises(error, match=part):
        bc.check(SCM, ROWS, **options)
