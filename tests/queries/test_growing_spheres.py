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


def test_few_noises_move_on_steps_too():
    # a; b -> score, a forest of numbers alone: Sparse(1) moves one noise, and the nearest that a fine grid finds.
    draw, forest = np.random.default_rng(0), Forest(2)
    frame = pd.DataFrame({name: draw.normal(size=300) for name in "abc"})
    scm = bc.SCM(bc.CausalGraph.parse("a; b; c"), {name: bc.Linear() for name in "abc"})
    scm.fit(frame, progress=False)
    judged = scm.extend("score", bc.Predictor(forest), parents=["a", "b", "c"])
    scores = forest.predict(frame.to_numpy())
    limit = float(np.quantile(scores, 0.6))
    rows = frame[scores < limit].iloc[:15]

    cf = bc.backtrack(judged, rows, {"score": bc.at_least(limit)}, solver=bc.Sparse(keep=1, search="exhaustive"))

    moves = np.stack([cf.moved[name] for name in "abc"], axis=1)
    assert ((moves > 0).sum(1) <= 1).all()
    grid = np.linspace(-8, 8, 8001)
    for k, row in enumerate(rows.to_numpy()):
        least = np.inf
        for column in range(3):
            tried = np.repeat(row[None], len(grid), axis=0)
            tried[:, column] += grid * frame.iloc[:, column].std(ddof=0)
            least = min(least, np.where(forest.predict(tried) >= limit, grid**2, np.inf).min())
        assert (cf.status[k] == "converged") == np.isfinite(least)
        if np.isfinite(least):
            assert cf.distance[k].item() <= 1.02 * least + 0.01


def test_rounded_rows_on_the_cuts_of_trees_are_searched_at_once(monkeypatch):
    # Every factual value lies on a cut, where differences see the step; no solver is asked all the same.
    class Stumps:
        def predict(self, rows):
            return (rows > 0.5).sum(1) + (rows > 1.0).sum(1)

    draw = np.random.default_rng(0)
    frame = pd.DataFrame({name: draw.normal(size=200) for name in "ab"})
    scm = bc.SCM(bc.CausalGraph.parse("a; b"), {name: bc.Linear() for name in "ab"})
    scm.fit(frame, progress=False)
    judged = scm.extend("score", bc.Predictor(Stumps()), parents=["a", "b"])
    monkeypatch.setattr("deepbc.queries.mode.solve", None)

    cf = bc.backtrack(judged, {"a": [0.5, 1.0], "b": [0.5, 0.5]}, {"score": bc.at_least(2)})

    assert (cf.status == "converged").all()
    scale = 1 / frame.std(ddof=0).min()
    assert (cf.distance <= (0.51 * scale) ** 2).all()


def test_what_draws_do_not_meet_is_not_called_infeasible(model):
    scm, frame = model
    cf = bc.backtrack(scm, frame.iloc[:4], {"score": bc.at_least(1e3)})
    assert (cf.status == "not converged").all()
    assert "No draw" in cf.status[0].reason or "flat" in cf.status[0].reason
