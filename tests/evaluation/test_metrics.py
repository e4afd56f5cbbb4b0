"""Figures by which counterfactuals are judged, against their formulas on laws that are known."""

import numpy as np
import pytest
import torch
from laws import identity, weighted
from scipy import stats

import deepbc as bc
from deepbc import metrics

# a -> b, b = 2 a + 3 u
SCM = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": identity(), "b": weighted({"a": 2.0}, 3.0)})
BEFORE = {"a": torch.tensor([0.0, 1.0]), "b": torch.tensor([3.0, -1.0])}
AFTER = {"a": torch.tensor([1.0, 1.0]), "b": torch.tensor([5.0, 2.0])}


def test_observed_is_the_mean_distance_of_values():
    assert metrics.observed(BEFORE, AFTER, ["a", "b"]).tolist() == [2.5, 4.5]
    assert metrics.observed(BEFORE, AFTER, ["a", "b"], power=1).tolist() == [1.5, 1.5]
    assert metrics.observed(BEFORE, AFTER, ["b"]).tolist() == [4.0, 9.0]


def test_causal_is_the_mean_distance_of_noises():
    """u_b = (b - 2 a) / 3: 1 and -1 before, 1 and 0 after."""
    assert metrics.causal(SCM, BEFORE, AFTER).tolist() == pytest.approx([0.5, 0.5])
    assert metrics.causal(SCM, BEFORE, AFTER, power=1).tolist() == pytest.approx([0.5, 0.5])


def test_plausible_is_the_mean_negative_log_density():
    law = [stats.norm(0, 1).logpdf(1.0) + stats.norm(2.0, 3.0).logpdf(b) for b in (5.0, 2.0)]
    assert metrics.plausible(SCM, AFTER).tolist() == pytest.approx([-each / 2 for each in law])
    without = metrics.plausible(SCM, AFTER) - metrics.plausible(SCM, AFTER, constant=False)
    assert without.tolist() == pytest.approx([0.5 * np.log(2 * np.pi)] * 2)


def test_missed_is_the_largest_distance_to_what_was_asked():
    a = np.linspace(-3.0, 3.0, 100)
    scm = bc.SCM(bc.CausalGraph.parse("a; b"), {"a": bc.Linear(), "b": bc.Linear()})
    scm.fit({"a": a, "b": 2 * a})
    asked = {"a": 1.0 + a.std(), "b": torch.tensor([5.0, 2.0 - 4 * a.std()])}
    assert metrics.missed(scm, AFTER, asked).tolist() == pytest.approx([1.0, 2.0])
    assert metrics.reached(scm, AFTER, asked, within=1.5).tolist() == [True, False]
    assert metrics.reached(scm, AFTER, {"b": asked["b"]}).tolist() == [True, False]
    assert metrics.reached(scm, {"b": torch.tensor([torch.nan])}, {"b": 0.0}).tolist() == [False]
    with pytest.raises(bc.SettingError, match="within"):
        metrics.reached(scm, AFTER, asked, within=-1)


def test_backtracking_has_the_least_squared_causal_metric():
    rows = SCM.sample(200, seed=0).values
    asked = {"b": torch.linspace(-8, 8, 200, dtype=torch.float64)}
    ours, forced = bc.backtrack(SCM, rows, asked), bc.intervene(SCM, rows, asked)
    gap = metrics.causal(SCM, rows, forced.values) - metrics.causal(SCM, rows, ours.values)
    assert (gap >= -1e-9).all()
    assert gap.max() > 1


def drawn():
    """light -> image: rows of pixels whose brightness is that of light, with a pattern of their own."""

    def pixels(u, parents):
        return parents["light"] + u

    law = bc.Equation(predict=pixels, abduct=lambda x, parents: x - parents["light"], noise=4, value=4)
    return bc.SCM(bc.CausalGraph.parse("light -> image"), {"light": identity(), "image": law})


def test_images_of_an_exact_law_come_back():
    scm = drawn()
    rows = scm.sample(30, seed=0).values
    asked = {"light": torch.ones(30, dtype=torch.float64)}
    assert metrics.composition(scm, rows).max() < 1e-12
    assert metrics.reversibility(scm, rows, asked, bc.intervene).max() < 1e-12
    cf = bc.intervene(scm, rows, asked)
    missed = metrics.effectiveness(cf, lambda values: values["image"].mean(-1), "light")
    assert missed.tolist() == pytest.approx(scm.abduct(rows)["image"].mean(-1).abs().tolist())


def test_powers_are_checked():
    with pytest.raises(bc.SettingError, match="power"):
        metrics.observed(BEFORE, AFTER, ["a"], power=0.0)
