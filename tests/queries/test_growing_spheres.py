"""Scores with steps, as trees have them: what can be reached is reached, and nearly as cheaply as by brute force."""

import numpy as np
import pandas as pd
import pytest
import torch

import deepbc as bc


class Forest:
    """Stumps and small trees at random places: a step function of three columns of numpy."""

    def __init__(self, seed, trees=40):
        draw = np.random.default_rng(seed)
        self.columns = draw.integers(0, 3, size=(trees, 2))
        self.cuts = draw.normal(size=(trees, 2))
        self.leaves = draw.normal(size=(trees, 4)) + np.array([-1.0, 0.0, 0.0, 1.0])

    def predict(self, rows):
        assert np.isfinite(rows).all()
        places = (rows[:, self.columns] > self.cuts).astype(int)
        leaves = places[..., 0] * 2 + places[..., 1]
        return self.leaves[np.arange(len(self.leaves)), leaves].mean(1)


@pytest.fixture(scope="module", params=[0, 1])
def model(request):
    """a -> b; a -> c; a, b, c -> score, with c a class and the score a forest."""
    draw, forest = np.random.default_rng(request.param), Forest(request.param)
    a = draw.normal(size=600)
    b = 0.7 * a + draw.normal(size=600)
    c = a + draw.normal(size=600) > 0

    def score(parents):
        return forest.predict(np.concatenate([np.asarray(parents[name]) for name in ("a", "b", "c")], axis=1))[:, None]

    laws = {"a": bc.Linear(), "b": bc.Linear(), "score": bc.Predictor(score)}
    scm = bc.SCM(bc.CausalGraph.parse("a -> b; a -> c; a, b, c -> score"), laws)
    frame = pd.DataFrame({"a": a, "b": b, "c": c})
    scm.fit(frame, progress=False)
    return scm, frame


def brute_force(scm, rows, limit, count=20_000):
    """The least distance of draws around each row that reach the limit; infinite where none does."""
    stream = torch.Generator().manual_seed(0)
    least = []
    for k in range(len(rows)):
        rest = scm.abduct(rows.iloc[k])
        size = 2.5 * torch.rand(count, generator=stream, dtype=torch.float64)
        noise = {
            name: u + size * torch.randn(count, generator=stream, dtype=torch.float64)
            for name, u in rest.items()
            if name != "score"
        }
        reached = scm.predict(noise)["score"] >= limit
        cost = sum((noise[name] - rest[name]).square() for name in noise)
        least.append(torch.where(reached, cost, torch.inf).min())
    return torch.stack(least)


def test_every_row_that_draws_answer_is_answered(model):
    scm, frame = model
    limit = float(np.quantile(scm.predict(scm.abduct(frame))["score"], 0.7))
    below = frame[(scm.predict(scm.abduct(frame))["score"] < limit).numpy()].iloc[:40]

    cf = bc.backtrack(scm, below, {"score": bc.at_least(limit)})

    truth = brute_force(scm, below, limit)
    held = torch.from_numpy(np.asarray(cf.status) == "converged")
    assert held[truth.isfinite()].all()
    again = scm.predict({name: cf.noise[name] for name in ("a", "b", "c")})["score"]
    assert (again >= limit)[held].all()
    assert (cf.error[held] == 0).all()
    assert (cf.distance <= 1.05 * truth + 1e-6)[held].double().mean() > 0.9


def test_searched_answers_keep_scope_and_stay_the_same_alone(model):
    scm, frame = model
    limit = float(np.quantile(scm.predict(scm.abduct(frame))["score"], 0.6))
    rows = frame.iloc[:10]
    cf = bc.backtrack(scm, rows, {"score": bc.at_least(limit)}, scope=["b"])
    held = torch.from_numpy(np.asarray(cf.status) == "converged")
    assert (cf.moved["a"] == 0)[held].all()
    assert (cf.moved["c"] == 0)[held].all()
    alone = bc.backtrack(scm, rows.iloc[3], {"score": bc.at_least(limit)}, scope=["b"])
    assert alone.status == cf.status[3]
    assert torch.allclose(alone.distance, cf.distance[3])
