"""Questions about and above censored variables, against grids over all noises of linear-Gaussian Tobit models."""

import functools
import itertools

import numpy as np
import pytest
import torch
from scipy import stats

import deepbc as bc

GRAPHS = {
    # c and d are censored; y is asked
    "one upstream": "a -> c; a, c -> y",
    "two upstream": "c -> d; c, d -> y",
}


def drawn(seed, graph, rows=400):
    """A fitted linear Tobit model with a floor, a ceiling or both, and its rows."""
    draw = np.random.default_rng(seed)
    parsed = bc.CausalGraph.parse(GRAPHS[graph])
    data = {}
    for name in parsed.order:
        x = sum((draw.uniform(-1.5, 1.5) * data[each] for each in parsed.parents(name)), 0.0)
        x = x + draw.uniform(0.4, 1.2) * draw.normal(size=rows)
        ends = np.quantile(x, [draw.uniform(0.1, 0.6), draw.uniform(0.7, 0.9)])
        low, high = [(ends[0], np.inf), (-np.inf, ends[1]), ends][draw.integers(0, 3)]
        data[name] = x.clip(low, high) if name in "cd" else x
    scm = bc.SCM(
        parsed, dict.fromkeys(parsed, bc.Linear()), types={name: "censored" for name in parsed if name in "cd"}
    )
    scm.fit(data, progress=False)
    return scm, data


def linear(law):
    """Shift, slopes and factor of a law in the data's own units."""
    inner = law.law if isinstance(law, bc.Censored) else law
    zero = torch.zeros(1 + inner.parents_dim, inner.parents_dim, dtype=torch.float64)
    zero[1:] = torch.eye(inner.parents_dim)
    means = inner.predict(torch.zeros(len(zero), 1, dtype=torch.float64), zero).squeeze(-1)
    one = inner.predict(torch.ones(1, 1, dtype=torch.float64), zero[:1]).item()
    return means[0].item(), (means[1:] - means[0]).numpy(), one - means[0].item()


def least_on_a_grid(scm, noise, target, value, count=601, width=4.5):
    """The least cost over a grid of the noises of two causes, that of the target being implied."""
    names = [name for name in scm.graph.order if name != target]
    grids = [noise[name] + np.linspace(-width, width, count) for name in names]
    u = dict(zip(names, np.meshgrid(*grids, indexing="ij"), strict=True))
    x = {}
    for name in scm.graph.order:
        shift, slopes, sd = linear(scm.mechanisms[name])
        mean = shift + sum(slope * x[each] for slope, each in zip(slopes, scm.graph.parents(name), strict=True))
        if name == target:
            u[name] = (value - mean) / sd
        else:
            x[name] = (mean + sd * u[name]).clip(scm.variables[name].floor, scm.variables[name].ceiling)
    return sum((u[name] - noise[name]) ** 2 for name in scm.graph).min()


@pytest.mark.parametrize(("graph", "seed"), list(itertools.product(GRAPHS, range(8))))
def test_modes_above_censored_causes_are_the_least_on_a_grid(graph, seed):
    scm, data = drawn(seed, graph)
    factual = {name: column[:8] for name, column in data.items()}
    wanted = np.quantile(data["y"], [0.05, 0.95])
    noise = {name: np.asarray(each) for name, each in scm.abduct(factual).items()}
    for value in wanted:
        cf = bc.backtrack(scm, factual, {"y": value})
        assert (cf.status == "converged").all()
        # All patterns were tried; what is left is the doubt of the search for local minima.
        assert (cf.certainty >= 0.98).all()
        for row in range(8):
            least = least_on_a_grid(scm, {name: each[row] for name, each in noise.items()}, "y", value)
            # The grid is a world: nothing on it is nearer. An answer is a world too, and the grid is that fine.
            assert float(cf.distance[row]) <= least + 1e-6
            assert float(cf.distance[row]) >= least - 0.02 * (1 + least)


@functools.cache
def chain():
    """a -> c (a floor at 0) -> y, with known rows."""
    draw = np.random.default_rng(11)
    a = draw.normal(size=3000)
    c = (a + 0.7 * draw.normal(size=3000)).clip(0.0)
    data = {"a": a, "c": c, "y": 1.5 * c + 0.5 * draw.normal(size=3000)}
    scm = bc.SCM(bc.CausalGraph.parse("a -> c -> y"), dict.fromkeys("acy", bc.Linear()), types={"c": "censored"})
    scm.fit(data, progress=False)
    return scm, data


def some(data, floor, count=3):
    rows = np.flatnonzero((data["c"] == 0) == floor)[:count]
    return {name: column[rows] for name, column in data.items()}


@pytest.mark.parametrize("floor", [True, False])
@pytest.mark.parametrize(
    ("asked", "low", "high"),
    [
        (0.0, 0, 0),
        (1.5, 1.5, 1.5),
        (bc.at_least(1.2), 1.2, np.inf),
        (bc.at_most(0.0), 0, 0),
        (bc.at_most(0.3), 0, 0.3),
        (bc.at_least(0.0), 0, np.inf),
        (bc.between(0.4, 0.6), 0.4, 0.6),
    ],
)
def test_a_censored_variable_asked_is_the_nearest_by_projection(floor, asked, low, high):
    scm, data = chain()
    factual = some(data, floor)
    cf = bc.backtrack(scm, factual, {"c": asked})
    assert (cf.status == "converged").all()
    assert ((np.asarray(cf.values["c"]) >= low - 1e-9) & (np.asarray(cf.values["c"]) <= high + 1e-9)).all()
    # Closed form: c is at an end or stays; its latent value is linear in both noises, so it is a projection.
    (shift, slopes, sd), (_, _, first) = linear(scm.mechanisms["c"]), linear(scm.mechanisms["a"])
    u = scm.abduct(factual)
    latent = shift + slopes[0] * factual["a"] + sd * np.asarray(u["c"])
    low, high = (-np.inf if low == 0 else low), (high if high else 0.0)
    gap = np.maximum(low - latent, 0) + np.maximum(latent - high, 0)
    expected = gap**2 / ((slopes[0] * first) ** 2 + sd**2)
    assert np.allclose(cf.distance, expected, rtol=1e-4, atol=1e-6)


def test_samples_of_a_floor_asked_have_the_right_distribution():
    # Rows at and above the floor; rejection from the backtracking conditional of both noises is the truth.
    scm, data = chain()
    (shift, slopes, sd), (_, _, first) = linear(scm.mechanisms["c"]), linear(scm.mechanisms["a"])
    start = linear(scm.mechanisms["a"])[0]
    draw = np.random.default_rng(0)
    for floor in (True, False):
        factual = {name: column[0] for name, column in some(data, floor).items()}
        u = {name: float(each) for name, each in scm.abduct(factual).items()}
        end = (0.0 - shift - slopes[0] * factual["a"]) / sd
        rest = stats.truncnorm(-np.inf, end).rvs(400_000, random_state=1) if floor else u["c"]
        a = start + first * (u["a"] + np.sqrt(0.5) * draw.normal(size=400_000))
        latent = shift + slopes[0] * a + sd * (rest + np.sqrt(0.5) * draw.normal(size=400_000))
        for asked, kept in ((0.0, latent <= 0), (bc.at_least(0.5), latent >= 0.5), (bc.at_most(0.2), latent <= 0.2)):
            cf = bc.backtrack_samples(scm, factual, {"c": asked}, samples=3000, seed=0)
            assert cf.status == "converged"
            error = a[kept].std() / np.sqrt(float(cf.diagnostics.effective))
            assert abs(float(cf.values["a"].mean()) - a[kept].mean()) < 4.5 * error
            assert abs(float(cf.values["a"].std()) / a[kept].std() - 1) < 0.1
            shown = latent[kept].clip(0.0)
            zeros = (shown == 0).mean()
            found = float((cf.values["c"] == 0).double().mean())
            assert abs(found - zeros) < 4.5 * np.sqrt(zeros * (1 - zeros) / float(cf.diagnostics.effective)) + 1e-12


def test_samples_above_a_floor_have_the_right_distribution():
    # y is asked, so that the weight of each pair of noises is the density of y there (importance sampling).
    scm, data = chain()
    laws = {name: linear(scm.mechanisms[name]) for name in "acy"}
    draw, count = np.random.default_rng(0), 400_000
    for floor in (True, False):
        factual = {name: column[0] for name, column in some(data, floor).items()}
        u = {name: float(each) for name, each in scm.abduct(factual).items()}
        end = (0.0 - laws["c"][0] - laws["c"][1][0] * factual["a"]) / laws["c"][2]
        rest = stats.truncnorm(-np.inf, end).rvs(count, random_state=1) if floor else u["c"]
        a = laws["a"][0] + laws["a"][2] * (u["a"] + np.sqrt(0.5) * draw.normal(size=count))
        c = laws["c"][0] + laws["c"][1][0] * a + laws["c"][2] * (rest + np.sqrt(0.5) * draw.normal(size=count))
        c = c.clip(0.0)
        for value in (-0.3, 1.5):
            implied = (value - laws["y"][0] - laws["y"][1][0] * c) / laws["y"][2]
            weight = np.exp(-((implied - u["y"]) ** 2))
            weight /= weight.sum()
            zeros, mean = weight @ (c == 0), weight @ a
            cf = bc.backtrack_samples(scm, factual, {"y": value}, samples=3000, seed=0)
            assert cf.status == "converged"
            effective = float(cf.diagnostics.effective)
            assert abs(float((cf.values["c"] == 0).double().mean()) - zeros) < 4.5 * np.sqrt(0.25 / effective)
            assert abs(float(cf.values["a"].mean()) - mean) < 4.5 * np.sqrt(weight @ (a - mean) ** 2 / effective)


def test_a_censored_cause_out_of_scope_keeps_its_noise():
    scm, data = chain()
    for floor in (True, False):
        factual = some(data, floor)
        for asked in ({"c": 0.0}, {"c": 1.0}, {"y": 1.0}, {"c": bc.at_least(0.4)}):
            cf = bc.backtrack(scm, factual, asked, scope=["a"])
            held = cf.status == "converged"
            assert held.all() or "y" in asked
            assert (np.asarray(cf.moved["c"]) == 0).all()
            name, want = next(iter(asked.items()))
            again = np.asarray(scm.predict(cf.noise)[name])[held]
            assert np.allclose(again, want, atol=1e-5) if isinstance(want, float) else (again >= 0.4 - 1e-6).all()


def test_effects_of_a_change_follow_the_noise_of_the_floor():
    scm, data = chain()
    factual = some(data, floor=True)
    cf = bc.intervene(scm, factual, {"a": 3.0})
    shift, slopes, sd = linear(scm.mechanisms["c"])
    u = np.asarray(scm.abduct(factual)["c"])
    assert np.allclose(cf.values["c"], (shift + slopes[0] * 3.0 + sd * u).clip(0.0), atol=1e-9)
    many = bc.intervene(scm, {name: x[0] for name, x in factual.items()}, {"a": 1.0}, samples=4000, seed=0)
    end = (0.0 - shift - slopes[0] * factual["a"][0]) / sd
    exact = (shift + slopes[0] + sd * stats.truncnorm(-np.inf, end).rvs(200_000, random_state=0)).clip(0.0)
    assert abs(float(many.values["c"].mean()) - exact.mean()) < 5 * exact.std() / np.sqrt(4000)


def test_sparse_answers_are_the_best_of_their_scopes():
    scm, data = drawn(3, "one upstream")
    factual = {name: column[:10] for name, column in data.items()}
    value = np.quantile(data["y"], 0.9)
    sparse = bc.backtrack(scm, factual, {"y": value}, solver=bc.Sparse(keep=1, search="exhaustive"))
    each = [bc.backtrack(scm, factual, {"y": value}, scope=[name]) for name in "acy"]
    costs = np.stack([np.where(cf.status == "converged", cf.distance, np.inf) for cf in each])
    assert np.allclose(sparse.distance, costs.min(0), rtol=1e-5, atol=1e-7)


def test_censored_and_discrete_causes_are_searched_together():
    # k (three labels) -> c (a floor) -> y; all labels and both places of c tried one by one
    draw = np.random.default_rng(5)
    a = draw.normal(size=600)
    k = np.array(["r", "s", "t"], dtype=object)[np.digitize(a + draw.normal(size=600), [-0.5, 0.6])]
    c = (a + 1.2 * (k == "t") + 0.5 * draw.normal(size=600)).clip(0.2)
    data = {"a": a, "k": k, "c": c, "y": c + 0.8 * (k == "s") + 0.5 * draw.normal(size=600)}
    laws = {"a": bc.Linear(), "k": bc.Categorical(points=0, hidden=[]), "c": bc.Linear(), "y": bc.Linear()}
    graph = bc.CausalGraph.parse("a -> k; a, k -> c; k, c -> y")
    scm = bc.SCM(graph, laws, types={"c": "censored"})
    scm.fit(data, progress=False)
    factual = {name: column[:12] for name, column in data.items()}
    for value in np.quantile(data["y"], [0.05, 0.95]):
        cf = bc.backtrack(scm, factual, {"y": value})
        assert (cf.status == "converged").all()
        least = np.full(12, np.inf)
        for label, place in itertools.product("rst", (bc.at_most(0.2), bc.at_least(0.2))):
            one = bc.backtrack(scm, factual, {"y": value, "k": label, "c": place})
            least = np.minimum(least, np.where(one.status == "converged", one.distance, np.inf))
        assert (np.asarray(cf.distance) <= least * (1 + 1e-6) + 1e-9).all()
        assert (np.asarray(cf.distance) >= least * (1 - 1e-4) - 1e-9).all()


def test_many_censored_causes_say_what_was_left_out():
    draw, count = np.random.default_rng(2), 7
    names = [f"c{k}" for k in range(count)]
    data = {name: draw.normal(size=400).clip(0.0) for name in names}
    data["y"] = sum(data.values()) + 0.3 * draw.normal(size=400)
    scm = bc.SCM(
        bc.CausalGraph({**{name: [] for name in names}, "y": names}),
        dict.fromkeys([*names, "y"], bc.Linear()),
        types=dict.fromkeys(names, "censored"),
    )
    scm.fit(data, progress=False)
    cf = bc.backtrack(scm, {name: column[:5] for name, column in data.items()}, {"y": 6.0})
    assert (cf.status == "converged").all()
    assert (cf.certainty < 1).all()


def test_what_the_model_and_the_question_limit_holds():
    scm, data = chain()
    factual = {name: column[:20] for name, column in data.items()}
    up = bc.backtrack(scm, factual, {"y": -0.5}, constraints={"c": "up"})
    held = up.status == "converged"
    assert held.any()
    assert (np.asarray(up.values["c"])[held] >= factual["c"][held] - 1e-5).all()
    same = bc.backtrack(scm, factual, {"y": 1.0}, constraints={"c": "fixed"})
    assert np.allclose(
        np.asarray(same.values["c"])[same.status == "converged"], factual["c"][same.status == "converged"]
    )


def test_modes_under_censored_flows_are_the_least_on_a_grid():
    # a -> c (a floor, a law that bends) -> y, all learned by flows; the grid goes through `predict` alone.
    draw = np.random.default_rng(7)
    a = draw.normal(size=1500)
    c = (np.sinh(a) + np.exp(0.4 * a) * draw.normal(size=1500)).clip(-0.3)
    data = {"a": a, "c": c, "y": np.tanh(c) + 0.5 * a + 0.3 * draw.normal(size=1500)}
    scm = bc.SCM(bc.CausalGraph.parse("a -> c; a, c -> y"), types={"c": "censored"})
    scm.fit(data, progress=False)
    factual = {name: column[:6] for name, column in data.items()}
    noise = scm.abduct(factual)
    laws, steps = scm.mechanisms, torch.linspace(-4.5, 4.5, 401, dtype=torch.float64)
    for value in (-1.2, 1.4):
        cf = bc.backtrack(scm, factual, {"y": value})
        for row in np.flatnonzero(cf.status == "converged"):
            moves = torch.cartesian_prod(steps, steps)
            u = {name: noise[name][row] + moves[:, k : k + 1] for k, name in enumerate("ac")}
            x = laws["a"].predict(u["a"], moves[:, :0])
            both = torch.cat([x, laws["c"].predict(u["c"], x)], -1)
            implied = laws["y"].abduct(torch.full_like(x, value), both)
            cost = moves.square().sum(-1) + (implied - noise["y"][row]).square().squeeze(-1)
            assert float(cf.distance[row]) <= cost.min() + 1e-6
        assert (cf.status == "converged").all()
