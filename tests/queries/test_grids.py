"""Variables of equal steps answer as the whole numbers do that count their steps."""

import numpy as np
import pytest

import deepbc as bc

STEP, OFFSET = 0.5, 0.25


def fitted(scaled):
    """k -> y, where k counts steps or is their value; y hears the same of both."""
    draw = np.random.default_rng(0)
    a = draw.normal(size=500)
    k = np.round(2.5 * (a + 0.6 * draw.normal(size=500)))
    y = 0.4 * k + 0.5 * draw.normal(size=500)
    data = {"a": a, "k": OFFSET + STEP * k if scaled else k.astype(int), "y": y}
    laws = {"a": bc.Linear(), "k": bc.Integer(bc.Linear()), "y": bc.Linear()}
    scm = bc.SCM(bc.CausalGraph.parse("a -> k; a, k -> y"), laws)
    scm.fit(data, progress=False)
    return scm, {name: column[:25] for name, column in data.items()}


@pytest.fixture(scope="module")
def models():
    return fitted(scaled=True), fitted(scaled=False)


def as_value(k):
    return OFFSET + STEP * k


def test_the_law_is_that_of_the_count(models):
    (grid, values), (whole, counts) = models
    assert grid.report["k"].type == "grid"
    assert np.allclose(grid.log_prob(values), whole.log_prob(counts), rtol=0, atol=1e-9)
    assert np.allclose(grid.abduct(values)["k"], whole.abduct(counts)["k"], rtol=0, atol=1e-9)
    assert (grid.sample(100, seed=0).values["k"] == as_value(whole.sample(100, seed=0).values["k"])).all()


ASKED = {
    "above": ({"y": 2.0}, {"y": 2.0}),
    "a value": ({"k": as_value(3)}, {"k": 3}),
    "at least, between two steps": ({"k": bc.at_least(as_value(2) + 0.1)}, {"k": bc.at_least(2.2)}),
    "between": ({"k": bc.between(as_value(-2), as_value(-1))}, {"k": bc.between(-2, -1)}),
    "two": ({"k": bc.at_most(as_value(0)), "y": 1.0}, {"k": bc.at_most(0), "y": 1.0}),
}


@pytest.mark.parametrize("case", ASKED)
def test_answers_are_those_of_the_count(models, case):
    (grid, values), (whole, counts) = models
    asked, same = ASKED[case]
    for setting in ({}, {"constraints": {"k": "up"}}, {"scope": ["a", "k"]}, {"inside": "seen"}):
        one, other = bc.backtrack(grid, values, asked, **setting), bc.backtrack(whole, counts, same, **setting)
        assert (one.status == other.status).all()
        held = one.status == "converged"
        assert np.allclose(one.distance[held], other.distance[held], rtol=1e-5, atol=1e-7)
        assert (one.values["k"][held] == as_value(other.values["k"][held])).all()
    drawn = bc.backtrack_samples(grid, values, asked, samples=5, seed=0)
    assert (np.asarray((drawn.values["k"] - OFFSET) / STEP) % 1 == 0).all()


def test_a_number_off_the_grid_is_refused_and_a_range_is_taken_inward(models):
    (grid, values), _ = models
    one = {name: column[0] for name, column in values.items()}
    with pytest.raises(bc.DataError, match=r"expected steps of 0.5 from 0.25, got 0.4"):
        bc.backtrack(grid, one, {"k": 0.4})
    with pytest.raises(bc.DataError, match=r"holds a number in steps of 0.5 from 0.25"):
        bc.backtrack(grid, one, {"k": bc.between(0.3, 0.4)})
    cf = bc.backtrack(grid, values, {"y": 2.5}, constraints={"k": (None, 1.4)})
    held = cf.status == "converged"
    assert held.any()
    assert (np.asarray(cf.values["k"])[held] <= np.maximum(1.25, values["k"][held])).all()


def test_frames_files_and_words_keep_the_steps(models, tmp_path):
    (grid, values), _ = models
    grid.save(tmp_path / "model")
    again = bc.SCM.load(tmp_path / "model")
    assert again.variables == grid.variables
    cf = bc.backtrack(again, values, {"y": 2.0})
    assert cf.to_frame()["k"].dtype == float
    assert "0.5 steps" not in cf.describe(0)
    tens = bc.SCM(bc.CausalGraph({"t": []}))
    tens.fit({"t": np.random.default_rng(0).poisson(4, 200) * 10}, progress=False)
    assert tens.sample(20, seed=0).to_frame()["t"].dtype == np.int64
    assert (tens.sample(200, seed=0).values["t"] % 10 == 0).all()
