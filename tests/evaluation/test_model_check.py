"""Checks of a model: the tests against closed forms and simulations; right models accepted, wrong ones rejected."""

import math
from dataclasses import astuple

import numpy as np
import pytest
import scipy.stats
import torch
from laws import identity, weighted

import deepbc as bc
from deepbc.evaluation.check import DIRECTIONS
from deepbc.evaluation.check.distance_covariance import Ranked, independence, mutual_independence, ranks
from deepbc.evaluation.check.energy_test import energy_test
from deepbc.evaluation.check.p_values import effective, holm, kolmogorov_tail, quadratic_tail
from deepbc.numerics.kolmogorov_smirnov import ks_statistic

RIGHT, MISSING = "a -> b; a, b -> c; c -> d", "a -> b -> c -> d"


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def within_chance(count: int, trials: int, level: float) -> bool:
    """Whether so many rejections are what a test of that level gives, but for one run in 5,000."""
    low, high = scipy.stats.binom.ppf([1e-4, 1 - 1e-4], trials, level)
    return low <= count <= high


def table(rows: int, seed: int) -> dict[str, np.ndarray]:
    """a -> b; a, b -> c; c -> d, linear, with the edge a -> c of 0.6 standard deviations of the noise."""
    draw = np.random.default_rng(seed)
    a = draw.normal(size=rows)
    b = 0.7 * a + draw.normal(size=rows)
    c = 0.6 * b + 0.6 * a + draw.normal(size=rows)
    return {"a": a, "b": b, "c": c, "d": 0.5 * c + draw.normal(size=rows)}


def bent(rows: int, seed: int) -> dict[str, np.ndarray]:
    """a -> b, far from linear."""
    draw = np.random.default_rng(seed)
    a = draw.normal(size=rows)
    return {"a": a, "b": np.tanh(2 * a) + 0.3 * np.exp(0.4 * a) * draw.normal(size=rows)}


def fitted(graph: str, data, law=bc.Linear) -> bc.SCM:
    scm = bc.SCM(bc.CausalGraph.parse(graph), {name: law() for name in data})
    scm.fit(data, seed=0)
    return scm


@pytest.mark.parametrize("terms", [1, 4, 30])
@pytest.mark.parametrize("p", [0.9, 0.3, 1e-2, 1e-5, 1e-10])
def test_tail_of_equal_weights_is_that_of_chi_square(terms, p):
    q = scipy.stats.chi2.isf(p, terms)
    assert quadratic_tail(3 * q, torch.full((terms,), 3.0).double()) == pytest.approx(p, rel=0.12)


@pytest.mark.parametrize("q", [0.5, 4.0, 5.0, 12.0, 40.0])
def test_tail_of_two_weights_is_that_of_two_waiting_times(q):
    # Two squares of one weight are an exponential.
    a, b = 2 * 1.0, 2 * 0.3
    truth = (a * math.exp(-q / a) - b * math.exp(-q / b)) / (a - b)
    assert quadratic_tail(q, torch.tensor([1.0, 1.0, 0.3, 0.3]).double()) == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("rows", [20, 100, 3000])
@pytest.mark.parametrize("p", [0.5, 0.05, 1e-3, 1e-6])
def test_tail_of_a_gap_is_kolmogorovs(rows, p):
    gap = scipy.stats.kstwo.isf(p, rows)
    # Far out, and with few rows, it errs on the safe side.
    assert 0.97 * p <= kolmogorov_tail(gap, rows) <= (1.1 if p > 1e-4 else 2.0) * p
    assert kolmogorov_tail(0.0, rows) == 1.0


def test_gap_is_that_of_scipy():
    u = 1.3 * normal(60, 2, seed=0)
    truth = [scipy.stats.kstest(column, "norm").statistic for column in u.T.numpy()]
    assert ks_statistic(u) == pytest.approx(truth)


def test_correction_is_holms():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_ranks_of_ties_are_their_middle():
    column = torch.tensor([3.0, 1.0, 3.0, 2.0]).double()
    assert ranks(column[:, None])[:, 0].tolist() == [(rank - 0.5) / 4 for rank in scipy.stats.rankdata(column)]


def test_statistic_is_the_distance_covariance_of_ranks():
    x = normal(300, 1, seed=0)
    y = x.square() + 0.5 * normal(300, 1, seed=1)

    def centred(column):
        far = torch.cdist(ranks(column), ranks(column))
        return far - far.mean(0) - far.mean(1, keepdim=True) + far.mean()

    truth = (centred(x) * centred(y)).mean()
    a, b = Ranked.of(x), Ranked.of(y)
    ours = (a.waves.T @ b.waves / 300).square().sum() * 4 / math.pi**4
    assert ours.item() == pytest.approx(truth.item(), rel=0.01)


@pytest.mark.parametrize("kind", ["few rows", "ties", "vectors"])
def test_independence_is_rejected_as_often_as_the_level_says(kind):
    trials, rejected = 300, 0
    for seed in range(trials):
        x, y = normal(30, 2, seed=2 * seed), normal(30, 2, seed=2 * seed + 1)
        if kind == "vectors":
            x = x + x.sum(1, keepdim=True)  # whose components depend on each other
        else:
            x, y = x[:, :1], (y[:, :1].round() if kind == "ties" else y[:, :1])
        rejected += independence(Ranked.of(x), Ranked.of(y))[0] < 0.05
    assert within_chance(rejected, trials, 0.05)


@pytest.mark.parametrize("shape", ["line", "parabola", "spread", "wave"])
def test_dependence_of_any_shape_is_seen(shape):
    x, e = normal(400, 1, seed=0), normal(400, 1, seed=1)
    y = {
        "line": 0.5 * x + e,
        "parabola": x.square() + e,
        "spread": x.exp() * e,
        "wave": torch.sin(3 * x) + 0.5 * e,
    }[shape]
    p, strength = independence(Ranked.of(x), Ranked.of(y))
    assert p < 1e-4
    assert 0.1 < strength < 1


def test_strength_is_from_none_to_all():
    x = normal(2000, 1, seed=0)
    assert independence(Ranked.of(x), Ranked.of(x.exp()))[1] == pytest.approx(1.0, abs=0.01)
    assert independence(Ranked.of(x), Ranked.of(normal(2000, 1, seed=1)))[1] < 0.1
    assert independence(Ranked.of(x), Ranked.of(torch.ones_like(x))) == (1.0, 0.0)


def test_components_are_tested_together():
    u = normal(300, 4, seed=0)
    assert mutual_independence(u)[0] > 0.05
    u[:, 3] = 0.7 * u[:, 1] + 0.7 * u[:, 3]
    p, strength = mutual_independence(u)
    assert p < 1e-6
    assert strength == pytest.approx(0.7, abs=0.15)


def test_energy_is_that_of_scipy_in_one_dimension():
    x, y = normal(50, 1, seed=0), normal(80, 1, seed=1) + 0.5
    pooled = scipy.stats.rankdata(torch.cat([x, y])) / 130
    truth = scipy.stats.energy_distance(pooled[:50], pooled[50:]) ** 2
    assert energy_test(x, y)[1] == pytest.approx(truth, rel=1e-6)


def test_samples_of_one_law_are_rejected_as_often_as_the_level_says():
    trials = 300
    rejected = sum(
        energy_test(normal(40, 3, seed=2 * k), normal(90, 3, seed=2 * k + 1))[0] < 0.05 for k in range(trials)
    )
    assert within_chance(rejected, trials, 0.05)


def test_samples_of_two_laws_are_told_apart():
    x, y = normal(500, 2, seed=0), normal(500, 2, seed=1)
    assert energy_test(x, y)[0] > 0.01
    assert energy_test(x, y + 0.3)[0] < 1e-4
    assert energy_test(x, torch.stack([y[:, 0], 0.8 * y[:, 0] + 0.6 * y[:, 1]], dim=1))[0] < 1e-4


def test_errors_of_a_learned_law_are_allowed_for():
    trials, rows, allowed, naive = 400, 100, 0, 0
    for k in range(trials):
        old, new = normal(rows, 1, seed=2 * k), normal(rows, 1, seed=2 * k + 1)
        (gap,) = ks_statistic((new - old.mean()) / old.std())
        naive += kolmogorov_tail(gap, rows) < 0.05
        allowed += kolmogorov_tail(gap, effective(rows, rows)) < 0.05
    assert allowed <= scipy.stats.binom.ppf(1 - 1e-4, trials, 0.05)
    assert naive > scipy.stats.binom.ppf(1 - 1e-4, trials, 0.05)  # so the allowance is needed


def test_claims_count_the_rows_that_were_learned_from():
    scm, data = fitted("a -> b -> c -> d", table(300, 0)), table(300, 1)
    assert scm.report["a"].learned == 240
    claims = {(claim.kind, *claim.about): claim for claim in bc.check(scm, data).claims}
    noise = scm.abduct(data)
    calibrated = claims["calibration", "a"]
    assert calibrated.p == pytest.approx(kolmogorov_tail(calibrated.effect, effective(300, 240)))
    a, c = (Ranked.of(noise[name][:, None]) for name in "ac")
    assert claims["independence", "c", "a"].p == pytest.approx(independence(a, c, 240)[0])
    assert independence(a, c, 240)[0] > 3 * independence(a, c)[0]


@pytest.mark.parametrize("new", [True, False], ids=["new rows", "rows of the fit"])
def test_right_graph_is_accepted_and_a_removed_edge_rejected(new):
    """20 data sets of 500 rows, an overall level of 1 %."""
    accepted, rejected = 0, 0
    for seed in range(20):
        data = table(500, 2 * seed)
        judges = table(500, 2 * seed + 1) if new else data
        accepted += bc.check(fitted(RIGHT, data), judges).accepted
        report = bc.check(fitted(MISSING, data), judges)
        rejected += not report.accepted
    assert accepted >= 19
    assert rejected >= 19


def test_overall_level_holds():
    """A known model, so that nothing is learned and no allowance is made."""
    graph = bc.CausalGraph.parse("a -> b; a, b -> c")
    scm = bc.SCM(graph, {"a": identity(), "b": weighted({"a": 1.0}), "c": weighted({"a": 1.0, "b": -1.0})})
    trials = 60
    rejected = sum(not bc.check(scm, scm.sample(100, seed=k).values, seed=k, level=0.2).accepted for k in range(trials))
    assert 1 <= rejected <= scipy.stats.binom.ppf(1 - 1e-4, trials, 0.2)


def test_missing_edge_is_named_and_directions_are_not_judged():
    report = bc.check(fitted(MISSING, table(1000, 0)), table(1000, 1))
    assert report.verdict == "rejected"
    assert report["c"].verdict == "rejected"
    assert report["c"].dependence_on == "a"
    assert any("'c' depends on that of 'a'" in line and "common cause" in line for line in report["c"].failed)
    assert {report[name].verdict for name in "abd"} == {"accepted"}
    assert report["c"].gain > 5 * report["c"].gain_error > 0
    assert max(each.round_trip for each in report) < 1e-12
    for each in (report, bc.check(fitted(RIGHT, table(1000, 0)), table(1000, 1))):
        assert DIRECTIONS in each.explain()

    turned = bc.check(fitted("d -> c; c -> b; b, c -> a", table(1000, 0)), table(1000, 1))  # of the same class
    assert turned.accepted


def test_linear_law_of_bent_data_is_rejected_and_a_flow_accepted():
    scm = fitted("a -> b", bent(800, 0))
    linear = bc.check(scm, bent(800, 1))
    assert [each.verdict for each in linear] == ["accepted", "rejected"]
    assert "its law misses how it follows from 'a'" in linear.explain()

    richer = scm.replace("b", bc.Flow(correction=False))
    richer.fit(bent(800, 0), only=["b"], training=bc.Training(epochs=40))
    flow = bc.check(richer, bent(800, 1))
    assert flow.accepted, flow.explain()
    assert flow["b"].gain > linear["b"].gain + 0.1


def test_skewed_noise_is_rejected():
    data = {"x": np.random.default_rng(0).gamma(2.0, size=1000)}
    report = bc.check(fitted("x", data), data)
    assert "noise of 'x' is not standard normal" in report.explain()
    assert report["x"].gap_p < 0.01 < report["x"].gap


def test_report_is_the_same_for_a_seed():
    scm, data = fitted("a -> b", bent(300, 0)), bent(6000, 1)
    state = torch.get_rng_state()
    first, again, other = bc.check(scm, data, seed=3), bc.check(scm, data, seed=3), bc.check(scm, data, seed=4)
    assert repr(astuple(first)) == repr(astuple(again))
    assert repr(astuple(first)) != repr(astuple(other))
    assert torch.equal(state, torch.get_rng_state())
    assert (first.rows, first.given) == (5000, 6000)
    assert "5,000 of 6,000 rows" in first.explain()


def test_saved_model_is_judged_as_before(tmp_path):
    scm, data = fitted(RIGHT, table(200, 0)), table(200, 1)
    scm.save(tmp_path / "model")
    assert repr(astuple(bc.check(bc.SCM.load(tmp_path / "model"), data))) == repr(astuple(bc.check(scm, data)))


def test_bounded_variables_are_held_against_a_bounded_baseline():
    draw = np.random.default_rng(0)
    data = {"x": np.exp(draw.normal(size=400))}
    scm = bc.SCM(bc.CausalGraph({"x": []}), {"x": bc.Linear()}, bounds={"x": (0, None)})
    scm.fit(data)
    # The law is the baseline.
    assert bc.check(scm, data)["x"].gain == pytest.approx(0.0, abs=1e-9)


def test_worse_than_the_baseline_is_said():
    data = {"x": normal(200, seed=0)}
    wide = bc.Equation(predict=lambda u, parents: 3 * u, abduct=lambda x, parents: x / 3)
    report = bc.check(bc.SCM(bc.CausalGraph({"x": []}), {"x": wide}), data)
    # log 3 - (1 - 1/9) / 2 nats, up to the mean and spread of these rows.
    assert report["x"].gain == pytest.approx(-(math.log(3) - 4 / 9), abs=0.05)
    assert "predicts worse than a Gaussian" in report.explain()


def test_wrong_inverse_is_seen_in_the_round_trip():
    law = bc.Equation(predict=lambda u, parents: u + 0.01, abduct=lambda x, parents: x)
    report = bc.check(bc.SCM(bc.CausalGraph({"x": []}), {"x": law}), {"x": normal(50, seed=0)})
    assert report["x"].round_trip == pytest.approx(0.01, rel=0.3)
    assert not report.accepted
    assert "mend its inverse" in report.explain()


def test_vectors_and_predictions_have_their_say():
    score = bc.Predictor(lambda parents: parents["v"].sum(-1, keepdim=True) ** 2)
    follow = weighted({"score": 0.5})
    graph = bc.CausalGraph.parse("v -> score -> y")
    pair = bc.Equation(predict=lambda u, parents: u, abduct=lambda x, parents: x, noise=2, value=2)
    scm = bc.SCM(graph, {"v": pair, "score": score, "y": follow})
    values = {name: scm.sample(400, seed=0).values[name] for name in ("v", "y")}

    report = bc.check(scm, values)
    assert report.accepted
    assert report["score"].verdict == "not judged"
    assert "'score' follows from its parents" in report.explain()
    assert {claim.kind for claim in report.claims} >= {"components", "parents"}

    values["y"] = values["y"] + 0.5 * values["v"].sum(-1) ** 2
    assert "depends on the value of its parent 'score'" in bc.check(scm, values).explain()
    values["v"] = values["v"] @ torch.tensor([[1.0, 0.6], [0.0, 0.8]]).double()
    assert "components of the noise of 'v' depend" in bc.check(scm, values).explain()


def test_images_are_not_judged_but_told_of():
    draw = np.random.default_rng(0)
    t = draw.uniform(1, 4, 64)
    images = (draw.random((64, 8, 8)) * t[:, None, None] * 50).astype(np.float32)
    scm = bc.SCM(bc.CausalGraph.parse("t -> image"), {"t": bc.Linear(), "image": bc.ConvVAE(noise=3, width=4)})
    scm.fit({"t": t, "image": images}, training=bc.Training(epochs=1))

    report = bc.check(scm, {"t": t, "image": images})
    assert report["image"].verdict == "not judged"
    assert math.isnan(report["image"].gap)
    assert math.isnan(report["image"].dependence_p)
    assert 0 < report["image"].round_trip < 2
    assert "noise of 'image' is an estimate" in report.explain()
    assert {claim.about for claim in report.claims if claim.judged} == {("t",)}


def test_report_is_a_frame_and_a_figure(tmp_path):
    report = bc.check(fitted(MISSING, table(800, 0)), table(800, 1))
    frame = report.to_frame()
    assert frame["variable"].tolist() == list("abcd")
    assert frame["verdict"].tolist() == ["accepted", "accepted", "rejected", "accepted"]
    assert "an edge between them" in frame["notes"][2]
    assert repr(report).startswith("CheckReport(rejected at level 0.01; a: accepted")
    with pytest.raises(bc.UnknownNameError, match="check report"):
        report["e"]

    figure = report.plot(tmp_path / "check.png")
    *histograms, matrix = figure.axes
    assert [axes.get_title() for axes in histograms] == list("abcd")
    heights = [bar.get_height() for bar in histograms[0].patches[:20]]
    assert np.allclose(heights, np.array(report["a"].pit) / 40)
    assert matrix.images[0].get_array().shape == (3, 3)
    assert len(matrix.lines) == sum(claim.kind == "independence" and not claim.holds for claim in report.claims) > 0
    assert (tmp_path / "check.png").stat().st_size > 10_000


ROWS = {"a": np.arange(30.0), "b": np.arange(30.0) ** 2}
TREE = bc.CausalGraph.parse("a -> b")
KNOWN = bc.SCM(TREE, {"a": identity(), "b": weighted({"a": 1.0})})


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda: bc.check(bc.SCM(TREE), ROWS), bc.NotFittedError, "fit"),
        (lambda: bc.check(KNOWN, {"a": ROWS["a"]}), bc.DataError, "variable 'b' is missing"),
        (lambda: bc.check(KNOWN, {**ROWS, "c": ROWS["a"]}), bc.DataError, "'c' is not a variable"),
        (lambda: bc.check(KNOWN, {"a": ROWS["a"][:19], "b": ROWS["b"][:19]}), bc.DataError, "at least 20 rows, got 19"),
        (lambda: bc.check(KNOWN, {"a": 1.0, "b": 2.0}), bc.DataError, "at least 20 rows, got 1"),
        (lambda: bc.check(KNOWN, {**ROWS, "a": np.full(30, np.nan)}), bc.DataError, "'a'"),
        (lambda: bc.check(KNOWN, ROWS, level=1.0), bc.SettingError, "check level: expected a number between 0 and 1"),
        (lambda: bc.check(KNOWN, ROWS, seed="x"), bc.SettingError, "seed: expected a whole number"),
    ],
)
def test_bad_input_is_said_clearly(call, error, part):
    with pytest.raises(error, match=part):
        call()


def test_row_without_noise_is_named_as_it_came():
    law = bc.Equation(predict=lambda u, parents: u.exp(), abduct=lambda x, parents: x.log())
    values = np.ones(40)
    values[17] = -1.0
    with pytest.raises(bc.DataError, match="row 17"):
        bc.check(bc.SCM(bc.CausalGraph({"x": []}), {"x": law}), {"x": values})
