"""What may not change: nearest worlds within limits against exact active sets and brute force, and what is refused."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from laws import weighted
from simulated_tables import draw_mixed
from test_choices import combinations

import deepbc as bc


def linear_model(seed):
    """Six variables with given linear laws: the model and the matrix of values by noise."""
    draw = np.random.default_rng(seed)
    names = [f"v{k}" for k in range(6)]
    weights = np.tril(draw.normal(size=(6, 6)) * (draw.uniform(size=(6, 6)) < 0.7), -1)
    parents = {name: [names[j] for j in range(6) if weights[k, j]] for k, name in enumerate(names)}
    laws = {
        name: weighted({each: weights[k, names.index(each)] for each in parents[name]}) for k, name in enumerate(names)
    }
    return bc.SCM(bc.CausalGraph(parents), laws), np.linalg.inv(np.eye(6) - weights), names


def nearest_within(matrix, u, equal, low, high):
    """The least squared move of noise that keeps the limits, by trying every set of active ones."""
    x, best = matrix @ u, np.inf
    limited = [k for k in range(6) if k not in equal and (np.isfinite(low[k]) or np.isfinite(high[k]))]
    ends = [[None, *(end for end in (low[k], high[k]) if np.isfinite(end))] for k in limited]
    for chosen in itertools.product(*ends):
        pinned = {**equal, **{k: end for k, end in zip(limited, chosen, strict=True) if end is not None}}
        rows = matrix[list(pinned)]
        move = np.linalg.pinv(rows) @ (np.array(list(pinned.values())) - x[list(pinned)])
        after = matrix @ (u + move)
        meets = np.allclose(after[list(pinned)], list(pinned.values()), atol=1e-8)
        if meets and (after >= low - 1e-8).all() and (after <= high + 1e-8).all():
            best = min(best, move @ move)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_numbers_within_limits_are_as_near_as_the_best_active_set(seed):
    scm, matrix, names = linear_model(seed)
    draw = np.random.default_rng(100 + seed)
    u = draw.normal(size=(20, 6))
    x = u @ matrix.T
    words = draw.choice(["fixed", "up", "down", "range", "free"], size=6, p=[0.1, 0.2, 0.2, 0.3, 0.2])
    target = int(draw.integers(3, 6))
    limits = {name: (-0.8, 0.8) if word == "range" else word for name, word in zip(names, words, strict=True)}
    limits = {name: limit for name, limit in limits.items() if limit != "free" and name != names[target]}
    asked = x[:, target] + draw.choice([-1.5, 1.5], size=20)

    cf = bc.backtrack(scm, {name: x[:, k] for k, name in enumerate(names)}, {names[target]: asked}, constraints=limits)

    for row in range(20):
        low, high, equal = np.full(6, -np.inf), np.full(6, np.inf), {target: asked[row]}
        for k, name in enumerate(names):
            limit, now = limits.get(name), x[row, k]
            if limit == "fixed":
                equal[k] = now
            elif isinstance(limit, str):
                low[k], high[k] = (now, np.inf) if limit == "up" else (-np.inf, now)
            elif limit:
                low[k], high[k] = min(limit[0], now), max(limit[1], now)
        truth = nearest_within(matrix, u[row], equal, low, high)
        assert cf.status[row] == "converged"
        assert cf.distance[row].item() == pytest.approx(truth, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 3, 5, 8, 12, 15])
def test_classes_and_whole_numbers_within_limits_are_as_near_as_brute_force(seed):
    scm, frame, target = draw_mixed(seed)
    rows, asked = frame.iloc[:12].reset_index(drop=True), frame[target].to_numpy()[15:27] + 0.3
    draw = np.random.default_rng(seed)
    names, every = combinations(scm, target)
    limits = {name: draw_limit(draw, scm.variables[name]) for name in names}

    cf = bc.backtrack(scm, rows, {target: asked}, constraints=limits)

    for row in range(len(rows)):
        now = rows.iloc[row]
        allowed = [
            choice
            for choice in every
            if all(keeps(scm, name, limits[name], now[name], value) for name, value in zip(names, choice, strict=True))
        ]
        pinned = {name: np.array([choice[k] for choice in allowed]) for k, name in enumerate(names)}
        one = pd.concat([rows.iloc[[row]]] * len(allowed))
        each = bc.backtrack(scm, one, {**pinned, target: asked[row]}, solver=bc.Exact(starts=0))
        truth = each.distance[torch.from_numpy(np.asarray(each.status) == "converged")].min().item()
        if cf.certainty[row] == 1:
            assert cf.distance[row].item() <= 1.01 * truth + 1e-9
        assert cf.distance[row].item() >= 0.99 * truth - 1e-6


def draw_limit(draw, variable):
    if variable.levels is None:
        return str(draw.choice(["up", "down"]))
    if variable.levels.ordered and draw.uniform() < 0.5:
        return "up"
    return list(variable.levels.items[: draw.integers(1, len(variable.levels) + 1)])


def keeps(scm, name, limit, before, after):
    levels = scm.variables[name].levels
    if not isinstance(limit, str):
        return after in limit or after == before
    place = levels.items.index if levels else float
    return place(after) >= place(before) if limit == "up" else place(after) <= place(before)


@pytest.fixture(scope="module")
def table():
    draw = np.random.default_rng(0)
    age = draw.integers(20, 60, 400)
    job = np.where(draw.normal(size=400) + 0.04 * (age - 40) > 0, "manager", "clerk")
    job = np.where(draw.uniform(size=400) < 0.2, "seller", job)
    pay = 20 + 0.3 * age + 5 * (job == "manager") + draw.normal(0, 2, 400)
    frame = pd.DataFrame({"age": age, "job": job, "pay": pay})
    scm = bc.SCM(bc.CausalGraph.parse("age -> job; age, job -> pay"), constraints={"age": "up"})
    scm.fit(frame, seed=0, training=bc.Training(epochs=20))
    return scm, frame


def test_constraints_of_the_model_hold_and_are_saved(table, tmp_path):
    scm, frame = table
    rows = frame.head(30)
    cf = bc.backtrack(scm, rows, {"pay": 25.0})
    assert (cf.status == "converged").all()
    assert (cf.values["age"] >= cf.factual.values["age"]).all()
    scm.save(tmp_path / "model")
    again = bc.backtrack(bc.SCM.load(tmp_path / "model"), rows, {"pay": 25.0})
    assert np.array_equal(again.distance, cf.distance)
    lifted = bc.backtrack(scm, rows, {"pay": 25.0}, constraints={"age": None})
    assert (lifted.values["age"] < lifted.factual.values["age"]).any()
    assert (lifted.distance <= cf.distance + 1e-9).all()


def test_samples_keep_constraints(table):
    scm, frame = table
    rows = frame.head(3)
    cf = bc.backtrack_samples(scm, rows, {"pay": 30.0}, samples=200, seed=0, constraints={"job": ["clerk", "seller"]})
    assert (cf.status == "converged").all()
    before = np.asarray(cf.factual.values["job"])
    assert (np.isin(cf.values["job"], ["clerk", "seller"]) | (cf.values["job"] == before)).all()
    assert (cf.values["age"] >= cf.factual.values["age"]).all()


def test_a_limit_never_forces_a_change(table):
    scm, frame = table
    row = frame.iloc[[0]]
    cf = bc.backtrack(scm, row, {"pay": row["pay"].item()}, constraints={"age": (1000, None), "job": ["seller"]})
    assert cf.distance.item() == 0
    assert cf.status[0] == "converged"


def test_numbers_stay_inside_what_was_seen(table):
    scm, frame = table
    rows = frame.head(20)
    free = bc.backtrack(scm, rows, {"pay": 60.0}, constraints={"age": None})
    kept = bc.backtrack(scm, rows, {"pay": 60.0}, constraints={"age": None}, inside="seen")
    assert free.unseen["pay"].all()
    assert (free.values["age"] > frame["age"].max()).any()
    assert (kept.values["age"][kept.status == "converged"] <= frame["age"].max()).all()
    assert set(kept.status) == {"infeasible"}
    assert "forbids" in kept.status[0].reason
    assert free.to_frame()["unseen"].str.contains("pay").all()


def test_what_a_constraint_forbids_is_said(table):
    scm, frame = table
    cf = bc.backtrack(scm, frame.head(2), {"age": 10})
    assert set(cf.status) == {"infeasible"}
    assert "'age' is asked for what its constraint forbids" in cf.status[0].reason
    assert np.array_equal(cf.values["pay"], frame["pay"].head(2))


@pytest.mark.parametrize(
    ("constraints", "error", "part"),
    [
        ({"jobb": "fixed"}, bc.UnknownNameError, "job"),
        ({"job": "up"}, bc.SettingError, "needs an order"),
        ({"job": ["cook"]}, bc.DataError, "unknown level 'cook'"),
        ({"age": "higher"}, bc.SettingError, "expected 'fixed', 'up'"),
        ({"age": (1, 2, 3)}, bc.SettingError, "two ends"),
        ({"age": (9, 2)}, bc.SettingError, "Swap them"),
        (["age"], bc.SettingError, "expected a mapping"),
    ],
)
def test_wrong_constraints_are_refused(table, constraints, error, part):
    scm, frame = table
    with pytest.raises(error, match=part):
        bc.backtrack(scm, frame.head(2), {"pay": 30.0}, constraints=constraints)


def test_sets_of_labels_are_the_nearest_of_their_labels(table):
    scm, frame = table
    rows = frame.head(40)
    single = {job: bc.backtrack(scm, rows, {"job": job}).distance for job in ("clerk", "manager", "seller")}
    for asked, jobs in (
        (bc.one_of("clerk", "seller"), ("clerk", "seller")),
        (bc.other_than("clerk"), ("manager", "seller")),
    ):
        cf = bc.backtrack(scm, rows, {"job": asked})
        assert (cf.status == "converged").all()
        assert np.isin(cf.values["job"], jobs).all()
        least = torch.stack([single[job] for job in jobs]).amin(0)
        assert torch.allclose(cf.distance, least, rtol=1e-4, atol=1e-9)
    other = bc.backtrack(scm, rows, {"job": bc.other_than(rows["job"])})
    assert (other.values["job"] != rows["job"]).all()


def test_sets_of_labels_are_sampled_by_their_share(table):
    scm, frame = table
    cf = bc.backtrack_samples(scm, frame.iloc[[0]], {"job": bc.other_than("clerk")}, samples=2000, seed=0)
    assert np.isin(cf.values["job"], ["manager", "seller"]).all()
    with pytest.raises(bc.DataError, match="leaves no label"):
        bc.backtrack(scm, frame.head(2), {"job": bc.other_than("clerk", "manager", "seller")})
    with pytest.raises(bc.DataError, match="labels of a"):
        bc.backtrack(scm, frame.head(2), {"pay": bc.one_of(3.0)})
    with pytest.raises(bc.DataError, match="forces a value"):
        bc.intervene(scm, frame.head(2), {"job": bc.one_of("clerk", "seller")})


def test_several_answers_leave_the_first_carriers_at_rest():
    scm, matrix, names = linear_model(3)
    draw = np.random.default_rng(3)
    x = draw.normal(size=(30, 6)) @ matrix.T
    rows = pd.DataFrame(x, columns=names, index=range(100, 130))
    asked = {"v5": x[:, 5] + 1.5}
    cf = bc.backtrack(scm, rows, asked, answers=3)
    assert cf.distance.shape == (3, 30)
    assert (cf.status == "converged").all()
    assert torch.allclose(cf.distance[0], bc.backtrack(scm, rows, asked).distance)
    assert (cf.distance[1:] >= cf.distance[:-1] - 1e-9).all()
    moved = torch.stack([cf.moved[name] for name in names], -1)
    first = moved[0].argmax(-1)
    assert (moved[1:, torch.arange(30), first] == 0).all()
    assert (moved[2, torch.arange(30), moved[1].argmax(-1)] == 0).all()
    for row in range(30):
        scope = [name for k, name in enumerate(names) if k != first[row]]
        alone = bc.backtrack(scm, rows.iloc[[row]], {"v5": asked["v5"][[row]]}, scope=scope)
        assert cf.distance[1, row].item() == pytest.approx(alone.distance.item(), rel=1e-6)
    assert cf.to_frame().index.get_level_values(1).tolist() == list(rows.index) * 3
    assert bc.backtrack(scm, rows.iloc[0], {"v5": 2.0}, answers=2).values["v0"].shape == (2,)
    with pytest.raises(bc.SettingError, match="answers"):
        bc.backtrack(scm, rows, asked, answers=0)
