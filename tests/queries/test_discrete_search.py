"""Questions about graphs of numbers, classes and whole numbers, against brute force and importance sampling."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import deepbc as bc
from deepbc.numerics.seeding import generator

LEVELS = {"two": 2, "three": 3, "ordered": 3}


def draw_graph(seed, rows):
    """A random graph of numbers and categories whose last variable is a number, rows of it, and the true chances."""
    stream = np.random.default_rng(seed)
    kinds = ["real", *stream.choice([*LEVELS, "real"], size=2), "real"]
    names = [f"{kind[0]}{k}" for k, kind in enumerate(kinds)]
    parents = {name: [cause for cause in names[:k] if stream.uniform() < 0.7] for k, name in enumerate(names)}
    parents[names[-1]] = sorted({*parents[names[-1]], names[-2]})
    seen, data, chances = {}, {}, {}
    for name, kind in zip(names, kinds, strict=True):
        dim = 2 if kind == "three" else 1
        slopes = [stream.uniform(0.5, 1.2, size=(seen[cause].shape[1], dim)) for cause in parents[name]]
        means = sum(
            (seen[cause] @ slope for cause, slope in zip(parents[name], slopes, strict=True)), np.zeros((rows, dim))
        )
        g = means + stream.normal(size=(rows, dim))
        if kind == "real":
            seen[name], data[name] = g, g[:, 0]
            continue
        codes = np.digitize(g[:, 0], [0.0, 1.0]) if kind == "ordered" else np.where(g.max(1) > 0.5, g.argmax(1) + 1, 0)
        seen[name] = codes[:, None].astype(float) if kind == "ordered" else np.eye(3)[codes][:, 1 : dim + 1]
        data[name] = np.array(["k", "l", "m"], dtype=object)[codes]
        chances[name] = chances_of(kind, means[:400])
    types = {name: ["k", "l", "m"] for name, kind in zip(names, kinds, strict=True) if kind == "ordered"}
    return bc.CausalGraph(parents), pd.DataFrame(data), types, chances


def chances_of(kind, means):
    """The probability of each class where it is the largest of normal numbers, or their place between cut points."""
    if kind == "ordered":
        return np.diff(stats.norm.cdf(np.array([-np.inf, 0.0, 1.0, np.inf]) - means), axis=-1)
    t = np.linspace(0.5, 14.0, 4001)[:, None, None]
    below = stats.norm.cdf(t - means)
    others = below.prod(-1, keepdims=True) / below
    above = np.trapezoid(stats.norm.pdf(t - means) * others, t, axis=0)
    return np.concatenate([below[0].prod(-1, keepdims=True), above], axis=-1)


def simulate(seed, rows=800):
    """A model of a random graph of numbers and categories, and the rows it was fitted to."""
    graph, frame, types, chances = draw_graph(seed, rows)
    laws = {name: bc.Categorical(points=0, hidden=[]) if name in chances else bc.Linear() for name in graph}
    scm = bc.SCM(graph, laws, types=types)
    scm.fit(frame, progress=False)
    return scm, frame


@pytest.mark.parametrize("seed", range(8))
def test_classes_of_random_graphs_have_their_true_probabilities(seed):
    graph, frame, types, chances = draw_graph(seed, 40_000)
    scm = bc.SCM(graph, {name: bc.Linear() for name in graph if name not in chances}, types=types)
    scm.fit(frame, progress=False, training=bc.Training(epochs=20))
    for name, truth in chances.items():
        rows = frame.head(len(truth))
        found = [scm.log_prob(rows.assign(**{name: each}), of=[name]).exp() for each in scm.schema.levels[name].items]
        assert np.abs(np.stack(found, -1) - truth).max() < 0.02


def nearby(scm, row, count, seed=0):
    """Noises near those of a row, of all sizes of moves, with those of the row first."""
    stream = generator(seed, "nearby")
    rest = scm.abduct(row)
    size = torch.rand(count, generator=stream, dtype=torch.float64) * 2
    noise = {}
    for name, u in rest.items():
        move = size.reshape(-1, *[1] * u.ndim) * torch.randn(count, *u.shape, generator=stream, dtype=torch.float64)
        still = torch.rand(count, generator=stream).lt(0.4).reshape(-1, *[1] * u.ndim)
        noise[name] = u + torch.where(still, 0.0, move)
        noise[name][0] = u
    return rest, noise


def cost_of(rest, noise):
    return sum((noise[name] - u).square().reshape(len(noise[name]), -1).sum(-1) for name, u in rest.items())


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_mode_is_never_worse_than_brute_force(seed, frozen):
    """Where the noise of classes is frozen, they still change with their causes."""
    scm, frame = simulate(seed)
    last = list(frame)[-1]
    scope = [name for name in frame if not (frozen and name in scm.schema.levels)]
    names = [name for name in scope if name in scm.graph.ancestors(last)]
    rows = frame.iloc[:4]
    asked = (frame[last].to_numpy()[10:14]).tolist()

    cf = bc.backtrack(scm, rows, {last: asked}, scope=scope)

    assert (cf.status == "converged").all()
    assert cf.error.max() < 1e-9
    for k in range(4):
        rest, noise = nearby(scm, rows.iloc[k], 40_000, seed=k)
        free = {name: noise[name] if name in names else rest[name].expand(40_000, *rest[name].shape) for name in rest}
        world = scm.complete(values={last: asked[k]}, noise={name: u for name, u in free.items() if name != last})
        best = cost_of(rest, world.noise).min()
        assert cf.distance[k] <= best + 1e-9
        assert cf.distance[k] >= 0.2 * best - 0.1


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_nearest_class_is_never_worse_than_brute_force(seed):
    scm, frame = simulate(seed)
    name = next(name for name in list(frame)[::-1] if name in scm.schema.levels)
    rows = frame.iloc[:6]
    for label in scm.schema.levels[name].items:
        cf = bc.backtrack(scm, rows, {name: label})
        assert (cf.status == "converged").all()
        assert (cf.values[name] == label).all()
        assert (np.asarray(scm.predict(cf.noise)[name]) == label).all()
        for k in range(6):
            rest, noise = nearby(scm, rows.iloc[k], 40_000, seed=k)
            there = torch.from_numpy(np.asarray(scm.predict(noise)[name]) == label)
            assert cf.distance[k] <= cost_of(rest, noise)[there].min() + 1e-9


def counts(rows=1500):
    """a -> n -> y with a whole number between, and a -> y."""
    stream = np.random.default_rng(0)
    a = stream.normal(size=rows)
    n = np.maximum(0, np.round(2 + 1.2 * a + stream.normal(size=rows))).astype(int)
    y = 0.8 * n - 0.5 * a + 0.6 * stream.normal(size=rows)
    frame = pd.DataFrame({"a": a, "n": n, "y": y})
    laws = {"a": bc.Linear(), "n": bc.Integer(bc.Linear()), "y": bc.Linear()}
    scm = bc.SCM(bc.CausalGraph.parse("a -> n; a, n -> y"), laws)
    scm.fit(frame, progress=False)
    return scm, frame


def test_whole_numbers_upstream_are_no_worse_than_brute_force():
    scm, frame = counts()
    rows, asked = frame.iloc[:8], frame["y"].to_numpy()[8:16].tolist()

    cf = bc.backtrack(scm, rows, {"y": asked})

    assert (cf.status == "converged").all()
    assert (cf.values["n"] == cf.values["n"].round()).all()
    for k in range(8):
        rest, noise = nearby(scm, rows.iloc[k], 40_000, seed=k)
        world = scm.complete(values={"y": asked[k]}, noise={"a": noise["a"], "n": noise["n"]})
        assert cf.distance[k] <= cost_of(rest, world.noise).min() + 1e-9


def test_interval_of_whole_numbers_takes_the_nearest_one():
    scm, frame = counts()
    rows = frame.iloc[:50]
    cf = bc.backtrack(scm, rows, {"n": bc.at_least(3.4)})
    assert (cf.status == "converged").all()
    assert (cf.values["n"].numpy() == np.maximum(rows["n"], 4)).all()
    held = rows["n"].to_numpy() >= 4
    assert (cf.distance.numpy()[held] == 0).all()
    assert (cf.distance.numpy()[~held] > 0).all()
    assert cf.to_frame()["n"].dtype == np.int64
    with pytest.raises(bc.DataError, match="an interval that holds a whole number, got"):
        bc.backtrack(scm, rows, {"n": bc.between(2.2, 2.8)})


def test_whole_number_that_may_not_move_follows_its_law():
    """c -> n -> y with n frozen: the class that is best for y also changes n."""
    stream = np.random.default_rng(3)
    c = stream.choice(["r", "s"], size=800)
    n = np.round(2 + 2.0 * (c == "s") + 0.8 * stream.normal(size=800)).astype(int)
    y = 0.5 * n + 0.4 * stream.normal(size=800)
    frame = pd.DataFrame({"c": c, "n": n, "y": y})
    laws = {"n": bc.Integer(bc.Linear()), "y": bc.Linear()}
    scm = bc.SCM(bc.CausalGraph.parse("c -> n -> y"), laws)
    scm.fit(frame, progress=False)
    rows = frame[frame["c"] == "r"].iloc[:5]

    cf = bc.backtrack(scm, rows, {"y": 3.0}, scope=["c", "y"])

    forced = bc.intervene(scm, rows, {"c": "s"})
    u_y = scm.complete(values={"c": ["s"] * 5, "n": forced.values["n"], "y": [3.0] * 5}).noise["y"]
    other = forced.distance + (u_y - cf.factual.noise["y"]).square()
    alone = bc.backtrack(scm, rows, {"y": 3.0}, scope=["y"]).distance
    assert (cf.status == "converged").all()
    assert (cf.distance <= torch.minimum(other, alone) + 1e-6).all()
    assert (other < alone).any()


# c -> d; c, d -> y: everything hangs on a class.
def chain(rows=1200):
    stream = np.random.default_rng(1)
    c = stream.choice(["r", "s", "t"], size=rows, p=[0.5, 0.3, 0.2])
    d = stream.normal(size=rows) + 1.5 * (c == "s") > 0.5
    y = 2.0 * (c == "t") + d + 0.5 * stream.normal(size=rows)
    frame = pd.DataFrame({"c": c, "d": d, "y": y})
    scm = bc.SCM(bc.CausalGraph.parse("c -> d; c, d -> y"), {"y": bc.Linear()})
    scm.fit(frame, progress=False)
    return scm, frame


def test_identities_hold_with_classes():
    scm, frame = chain()
    rows = frame.iloc[:40]

    same = bc.backtrack(scm, rows, {"y": rows["y"], "c": rows["c"].to_numpy()})
    assert same.distance.max() == 0

    forced, traced = bc.intervene(scm, rows, {"c": "t"}), bc.backtrack(scm, rows, {"c": "t"})
    for name in ("c", "d"):
        assert (np.asarray(forced.values[name]) == np.asarray(traced.values[name])).all()
    assert torch.allclose(forced.values["y"], traced.values["y"], rtol=0, atol=1e-12)
    assert torch.equal(forced.distance, traced.distance)
    assert (traced.moved["d"] == 0).all()

    own = bc.backtrack(scm, rows, {"y": 1.0}, scope=["y"])
    assert (own.values["c"] == rows["c"]).all()
    assert (own.distance >= bc.backtrack(scm, rows, {"y": 1.0}).distance - 1e-9).all()

    effect = bc.backtrack(scm, rows, {"d": True})
    assert torch.equal(effect.noise["y"], effect.factual.noise["y"])
    assert (effect.moved["y"] == 0).all()


def test_causes_alone_carry_what_a_class_can():
    """Without its own noise, y can only be what the classes make of it."""
    scm, frame = chain()
    row = frame.iloc[0]
    u = scm.abduct(row)
    reachable = [
        scm.complete(values={"c": c, "d": d}, noise={"y": u["y"]}).values["y"].item()
        for c in "rst"
        for d in (False, True)
    ]
    for y in reachable:
        cf = bc.backtrack(scm, row, {"y": y}, scope=["c", "d"])
        assert cf.status == "converged"
        assert torch.equal(cf.noise["y"], u["y"])
    assert bc.backtrack(scm, row, {"y": max(reachable) + 0.3}, scope=["c", "d"]).status == "infeasible"


def test_sparse_answers_move_few_noises():
    scm, frame = chain()
    cf = bc.backtrack(scm, frame.iloc[:20], {"y": 2.0}, solver=bc.Sparse(keep=1, by="variable"))
    moved = torch.stack(list(cf.moved.values())) > 0
    assert (cf.status == "converged").all()
    assert (moved.sum(0) <= 1).all()


def test_samples_have_the_shares_of_importance_sampling():
    scm, frame = chain()
    row, y = frame.iloc[0], 1.9
    cf = bc.backtrack_samples(scm, row, {"y": y}, samples=1500, seed=0)
    assert cf.status == "converged"
    assert cf.error.max() < 1e-9
    assert cf.diagnostics.effective >= 1200

    # Factual noise of the classes by rejection, moves of the squared distance, and what y then costs.
    count = 600_000
    stream = generator(0, "truth")
    prior = {n: torch.randn(count, *u.shape, generator=stream, dtype=torch.float64) for n, u in scm.abduct(row).items()}
    world = scm.predict(prior)
    kept = torch.from_numpy((np.asarray(world["c"]) == row["c"]) & (world["d"].numpy() == row["d"]))
    noise = {n: prior[n][kept] + 0.5**0.5 * torch.randn_like(prior[n][kept]) for n in ("c", "d")}
    after = scm.complete(values={"y": y}, noise=noise)
    weight = (-(after.noise["y"] - scm.abduct(row)["y"]).square()).softmax(0).numpy()
    size = 1 / (weight**2).sum()
    for name, label in (("c", "r"), ("c", "t"), ("d", True)):
        truth = (weight * (np.asarray(after.values[name]) == label)).sum()
        found = (np.asarray(cf.values[name]) == label).mean()
        assert abs(found - truth) < 4 * (0.25 / 1500 + 0.25 / size) ** 0.5, name
    moved = (weight * (noise["c"] - prior["c"][kept]).square().sum(-1).numpy()).sum()
    assert cf.moved["c"].mean().item() == pytest.approx(moved, abs=0.12)


def test_samples_of_effects_draw_their_own_noise():
    scm, frame = chain()
    cf = bc.backtrack_samples(scm, frame.iloc[:3], {"c": "s"}, samples=800, seed=0)
    assert (cf.status == "converged").all()
    assert (cf.values["c"] == "s").all()
    # A move of two noises with squared distances costs 1 on average, one of one noise a half.
    assert cf.moved["d"].mean(0).tolist() == pytest.approx([0.5] * 3, abs=0.12)
    stays = bc.backtrack_samples(
        scm, frame.iloc[:3], {"y": frame["y"][:3]}, samples=50, seed=0, distance=bc.Squared({"c": 1e8, "d": 1e8})
    )
    assert (stays.values["c"] == frame["c"].to_numpy()[:3]).all()
    assert (stays.values["d"].numpy() == frame["d"].to_numpy()[:3]).all()


def test_samples_of_whole_numbers_are_whole():
    scm, frame = counts()
    cf = bc.backtrack_samples(scm, frame.iloc[0], {"n": bc.at_least(3)}, samples=200, seed=0)
    assert cf.status == "converged"
    assert cf.values["n"].min() >= 3
    assert (cf.values["n"] == cf.values["n"].round()).all()
    assert len(cf.values["n"].unique()) > 1


def test_same_seed_gives_the_same_classes():
    scm, frame = chain()
    both = [bc.backtrack_samples(scm, frame.iloc[:2], {"y": 2.0}, samples=40, seed=3) for _ in range(2)]
    alone = bc.backtrack_samples(scm, frame.iloc[1], {"y": 2.0}, samples=40, seed=3)
    assert (both[0].values["c"] == both[1].values["c"]).all()
    assert (alone.values["c"] == both[0].values["c"][:, 1]).all()


def test_predictor_and_interval_over_classes():
    """A hard decision needs no more than the class that decides it."""
    _, frame = chain()
    decided = bc.SCM(
        bc.CausalGraph.parse("c -> d; c, d -> y; c, y -> score"),
        {"y": bc.Linear(), "score": bc.Predictor(lambda parents: parents["y"] + parents["c"][:, 1:])},
    )
    decided.fit(frame, progress=False)
    rows = frame[frame["c"] != "t"].iloc[:10]
    cf = bc.backtrack(decided, rows, {"score": bc.at_least(2.5)})
    assert (cf.status == "converged").all()
    assert (cf.values["score"] >= 2.5 - 1e-9).all()
    assert (np.asarray(cf.values["c"]) == "t").any()


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda s, f: bc.backtrack(s, f, {"c": "u"}), bc.DataError, "unknown level 'u'. Known are: 'r', 's', 't'"),
        (lambda s, f: bc.backtrack(s, f, {"c": bc.at_least("s")}), bc.DataError, "interval of a category"),
        (lambda s, f: bc.backtrack(s, f, {"c": None}), bc.DataError, "missing value"),
        (lambda s, f: bc.backtrack(s, f.assign(c="rr"), {"y": 1.0}), bc.DataError, "unknown level 'rr' in row 0"),
        (lambda s, f: bc.backtrack(s, f, {"y": 1.0}, solver=bc.Linearized()), bc.SettingError, "'c' is a category"),
        (lambda s, f: bc.backtrack_samples(s, f, {"y": 1.0}, sampler=bc.Langevin()), bc.SettingError, "by a penalty"),
        (lambda s, f: bc.intervene(s, f, {"d": 3}), bc.DataError, "unknown level 3"),
        (lambda s, f: s.fit(f.assign(c="r"), only=["c"]), bc.DataError, "the level 's' has no row"),
        (
            lambda s, f: s.fit({"c": f[["c", "c"]].to_numpy(), "d": f["d"], "y": f["y"]}),
            bc.DataError,
            "one label a row",
        ),
    ],
)
def test_bad_questions_about_classes_are_named(ask, error, message):
    scm, frame = chain(rows=200)
    with pytest.raises(error, match=message):
        ask(scm, frame.iloc[:2])


def test_answers_are_drawn_and_written(tmp_path):
    scm, frame = chain()
    cf = bc.backtrack(scm, frame.iloc[:5], {"y": 2.0})
    table = cf.to_frame()
    assert [table[name].dtype.kind for name in ("c", "d", "y", "factual c", "factual d")] == list("ObfOb")
    figure = cf.plot(tmp_path / "answer.png")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["r", "s", "t"]
    for rows in (frame.iloc[0], frame.iloc[:3]):
        drawn = bc.backtrack_samples(scm, rows, {"y": 2.0}, samples=30, seed=0)
        assert [label.get_text() for label in drawn.plot().axes[0].get_yticklabels()] == ["r", "s", "t"]
