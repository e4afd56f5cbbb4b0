"""Predictors of other libraries: how their derivatives come about, and what they are never asked."""

import numpy as np
import pandas as pd
import pytest
import torch

import deepbc as bc


class Score:
    """A model of numpy arrays, as scikit-learn has them, that accepts rows of its support alone."""

    def predict(self, rows):
        assert isinstance(rows, np.ndarray)
        assert np.isfinite(rows).all()
        assert np.isin(rows[:, 1], [0.0, 1.0]).all()
        assert (rows[:, 2] == rows[:, 2].round()).all()
        assert (rows[:, 2] >= 0).all()
        return 1.5 * rows[:, 0] + 2 * rows[:, 1] + 0.3 * rows[:, 2] + 0.2 * rows[:, 0] ** 2


@pytest.fixture(scope="module")
def model():
    """a -> c; a -> n; a, c, n -> score, the last a model of numpy."""
    draw, score = np.random.default_rng(0), Score()
    a = draw.normal(size=500)
    c = a + draw.normal(size=500) > 0
    n = np.maximum(0, np.round(2 + a + draw.normal(size=500))).astype(int)

    def predict(parents):
        columns = [np.asarray(parents[name])[:, 0] for name in ("a", "c", "n")]
        return score.predict(np.stack(columns, axis=1))[:, None]

    laws = {"a": bc.Linear(), "n": bc.Integer(bc.Linear()), "score": bc.Predictor(predict)}
    scm = bc.SCM(bc.CausalGraph.parse("a -> c; a -> n; a, c, n -> score"), laws, bounds={"n": (0, None)})
    frame = pd.DataFrame({"a": a, "c": c, "n": n})
    scm.fit(frame, progress=False)
    return scm, frame


@pytest.mark.parametrize("scope", [None, ["a"], ["a", "n"], ["c"]])
@pytest.mark.parametrize("solver", [bc.Exact(), bc.Sparse(keep=1), bc.Sparse(keep=1, search="exhaustive")])
def test_models_of_numpy_are_asked_about_their_support_alone(model, scope, solver):
    scm, frame = model
    rows = frame.iloc[:20]
    cf = bc.backtrack(scm, rows, {"score": bc.at_least(4.0)}, scope=scope, solver=solver)
    held = torch.from_numpy(np.asarray(cf.status) == "converged")
    predicted = torch.as_tensor(np.asarray(cf.values["score"]))
    assert (predicted[held] >= 4.0 - 1e-6).all()
    if scope is None:
        assert held.all()


def test_differences_are_the_derivatives_of_torch(model):
    scm, frame = model
    torch_score = bc.Predictor(lambda p: 1.5 * p["a"] + 2 * p["c"] + 0.3 * p["n"] + 0.2 * p["a"] ** 2)
    rows = frame.iloc[:20]
    ours = bc.backtrack(scm, rows, {"score": 3.0})
    known = bc.backtrack(scm.replace("score", torch_score), rows, {"score": 3.0})
    assert (ours.status == known.status).all()
    assert torch.allclose(ours.distance, known.distance, atol=1e-5)


def test_rows_without_numbers_come_back_without(model):
    scm, _ = model
    law = scm.mechanisms["score"]
    rows = torch.tensor([[0.0, 1.0, 2.0], [torch.nan, 0.0, 1.0]], dtype=torch.float64)
    predicted = law.predict(rows[:, :0], rows)
    assert predicted[0].item() == pytest.approx(2.6)
    assert predicted[1].isnan().all()
    assert law.predict(rows[1:, :0], rows[1:]).isnan().all()
