"""Backtracking modes against closed forms, grids, scipy and oracles O1 to O6; O3 is in tests/test_examples.py."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import growing, identity, weighted
from scipy import optimize

import deepbc as bc
from deepbc.recipes import morphomnist

TRUTH = morphomnist.truth()
# Oracle O2: t = 2.5, u_I = 0, so i = 159.5 and u_T = 0.1057.
FACTUAL = {"thickness": 2.5, "intensity": 159.5}
ASKED = [80.0, 120.0, 200.0, 240.0]
SPARSE = [1.3039, 2.0600, 2.9527, 3.7312]


def thickness(cf) -> list[float]:
    assert (np.asarray(cf.status) == "converged").all()
    return cf.values["thickness"].tolist()


def test_mode_of_the_true_equations():
    cf = bc.backtrack(TRUTH, FACTUAL, {"intensity": ASKED})
    assert thickness(cf) == pytest.approx([1.5727, 2.1305, 2.9008, 3.6197], abs=1e-4)
    assert cf.noise["thickness"].tolist() == pytest.approx([-1.6747, -0.5174, 0.6997, 1.6197], abs=1e-4)
    assert cf.noise["intensity"].tolist() == pytest.approx([-1.0750, -0.2818, 0.2075, 0.4462], abs=1e-4)
    assert cf.distance.tolist() == pytest.approx([4.3255, 0.4675, 0.3960, 2.4915], abs=1e-4)
    assert cf.values["intensity"].tolist() == ASKED
    assert cf.error.max() < 1e-9
    total = cf.moved["thickness"] + cf.moved["intensity"]
    assert torch.allclose(cf.distance, total, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"solver": bc.Sparse(keep=1)}, SPARSE),
        ({"solver": bc.Sparse(keep=1, search="exhaustive")}, SPARSE),
        ({"solver": bc.Sparse(keep=1, by="variable")}, SPARSE),
        ({"scope": ["thickness"]}, SPARSE),
        ({"distance": bc.Squared({"thickness": 0.0})}, SPARSE),
        ({"distance": bc.Absolute()}, SPARSE),
        ({"distance": lambda u_star, u: (u_star - u).abs().sum(-1)}, SPARSE),
        ({"distance": bc.Power(4)}, [1.6411, 2.1666, 2.8582, 3.5010]),
        ({"distance": lambda u_star, u: (u_star - u).pow(4).sum(-1)}, [1.6411, 2.1666, 2.8582, 3.5010]),
        ({"distance": bc.Power(2)}, [1.5727, 2.1305, 2.9008, 3.6197]),
        ({"distance": bc.Squared({"thickness": 1e9})}, [2.5] * 4),
        ({"distance": bc.Squared({"thickness": 1e-9, "intensity": 1e-9})}, [1.5727, 2.1305, 2.9008, 3.6197]),
        ({"distance": bc.Squared({"thickness": 0.0, "intensity": 0.0})}, [1.5727, 2.1305, 2.9008, 3.6197]),
        ({"scope": ["intensity"]}, [2.5] * 4),
        ({"solver": bc.Linearized()}, [1.5727, 2.1305, 2.9008, 3.6197]),
        ({"solver": bc.Sparse(keep=1, solver=bc.Linearized())}, SPARSE),
    ],
)
def test_other_ways_to_ask_the_true_equations(how, expected):
    cf = bc.backtrack(TRUTH, FACTUAL, {"intensity": ASKED}, **how)
    assert thickness(cf) == pytest.approx(expected, abs=1e-3)


def test_noise_at_a_kink_comes_back_exactly_unmoved():
    cf = bc.backtrack(TRUTH, FACTUAL, {"intensity": ASKED}, distance=bc.Absolute())
    assert torch.equal(cf.noise["intensity"], cf.factual.noise["intensity"])
    assert (cf.moved["intensity"] == 0).all()
    assert cf.error.max() < 1e-9
    sparse = bc.backtrack(TRUTH, FACTUAL, {"intensity": ASKED}, solver=bc.Sparse(keep=1))
    assert torch.equal(sparse.noise["intensity"], sparse.factual.noise["intensity"])


def test_antecedent_on_a_root_is_interventional_whatever_the_distance():
    asked = {"thickness": [3.0, 1.0]}
    plain = bc.intervene(TRUTH, FACTUAL, asked)
    for distance in (bc.Squared(), bc.Absolute(), bc.Power(3)):
        cf = bc.backtrack(TRUTH, FACTUAL, asked, distance=distance)
        assert torch.equal(cf.values["intensity"], plain.values["intensity"])
        assert (cf.status == "converged").all()


def test_interval_upstream_of_a_value_is_not_a_clip():
    loose = bc.backtrack(TRUTH, FACTUAL, {"thickness": bc.at_least(2.7), "intensity": 240.0})
    assert loose.distance.item() == pytest.approx(2.4915, abs=1e-4)
    tight = bc.backtrack(TRUTH, FACTUAL, {"thickness": bc.at_least(3.9), "intensity": 240.0})
    assert tight.values["thickness"].item() == pytest.approx(3.9, abs=1e-5)
    assert tight.values["thickness"].item() >= 3.9
    assert tight.distance.item() == pytest.approx(3.825, abs=1e-3)
    assert tight.status == loose.status == "converged"
    assert tight.error.item() == 0


def test_interval_alone_holds_or_sits_on_its_nearer_end():
    scm = TRUTH
    asked = {"intensity": bc.between([100.0, 170.0, 90.0], [200.0, 180.0, 120.0])}
    cf = bc.backtrack(scm, FACTUAL, asked)
    assert cf.values["intensity"].tolist() == pytest.approx([159.5, 170.0, 120.0], abs=1e-4)
    assert cf.distance[0] == 0
    at_end = bc.backtrack(scm, FACTUAL, {"intensity": [170.0, 120.0]})
    assert cf.distance[1:].tolist() == pytest.approx(at_end.distance.tolist(), abs=1e-4)
    assert (cf.error == 0).all()
    assert bc.backtrack(scm, FACTUAL, {"intensity": bc.at_most(120.0)}).values["intensity"].item() <= 120


def test_ends_of_several_intervals_need_not_bind():
    # b = a + u, c = a + u: asking more of b lifts a, and c with it, above its own end.
    scm = bc.SCM(bc.CausalGraph.parse("a -> b; a -> c"), {
        "a": identity(), "b": weighted({"a": 2.0}), "c": weighted({"a": 1.0}),
    })  # fmt: skip
    factual = {"a": 0.0, "b": 0.0, "c": 0.0}
    asked = {"b": bc.at_least(5.0), "c": bc.at_least(0.5)}
    cf = bc.backtrack(scm, factual, asked)

    def cost(u):
        return float(np.square(u).sum())

    limits = [
        {"type": "ineq", "fun": lambda u: 2 * u[0] + u[1] - 5},
        {"type": "ineq", "fun": lambda u: u[0] + u[2] - 0.5},
    ]
    best = optimize.minimize(cost, np.zeros(3), constraints=limits, method="SLSQP", tol=1e-12)
    assert cf.distance.item() == pytest.approx(best.fun, abs=1e-4)
    assert cf.values["c"].item() == pytest.approx(best.x[0] + best.x[2], abs=1e-4)
    assert cf.values["c"].item() > 1.9
    assert cf.status == "converged"
    assert cf.moved["c"].item() == pytest.approx(0, abs=1e-12)


# Oracle O1: linear laws on random graphs, closed form.


def linear_model(seed: int, size: int = 6) -> tuple[bc.SCM, np.ndarray]:
    """A model x = A x + diag(s) u on a random graph, and the matrix that takes noise to values."""
    stream = np.random.default_rng(seed)
    names = [f"v{i}" for i in range(size)]
    effects = np.tril(stream.normal(size=(size, size)) * (stream.random((size, size)) < 0.6), -1)
    scales = stream.uniform(0.3, 2.0, size)
    parents = {name: [names[j] for j in range(i) if effects[i, j]] for i, name in enumerate(names)}
    laws = {
        name: weighted({names[j]: effects[i, j] for j in range(i) if effects[i, j]}, scales[i])
        if parents[name] else scaled(scales[i])
        for i, name in enumerate(names)
    }  # fmt: skip
    return bc.SCM(bc.CausalGraph(parents), laws), np.linalg.solve(np.eye(size) - effects, np.diag(scales))


def scaled(scale: float) -> bc.Equation:
    return bc.Equation(predict=lambda u, p: scale * u, abduct=lambda x, p: x / scale)


@pytest.mark.parametrize("seed", range(12))
def test_linear_models_have_their_closed_form(seed):
    scm, matrix = linear_model(seed)
    stream = np.random.default_rng(100 + seed)
    names = list(scm.graph)
    chosen = sorted(stream.choice(len(names), size=1 + seed % 3, replace=False))
    weights = stream.uniform(0.2, 4.0, len(names))
    world = scm.sample(5, seed=seed)
    u = np.stack([world.noise[name] for name in names], axis=-1)
    wanted = stream.normal(size=(5, len(chosen))) * 3

    jacobian, inverse = matrix[chosen], np.diag(1 / weights)
    gain = inverse @ jacobian.T @ np.linalg.inv(jacobian @ inverse @ jacobian.T)
    expected = u + (wanted - u @ jacobian.T) @ gain.T

    asked = {names[k]: wanted[:, i] for i, k in enumerate(chosen)}
    distance = bc.Squared({name: float(w) for name, w in zip(names, weights, strict=True)})
    for solver, tolerance in ((bc.Exact(), 1e-9), (bc.Linearized(penalty=1e9, steps=3), 1e-6)):
        cf = bc.backtrack(scm, world.values, asked, distance=distance, solver=solver)
        found = np.stack([cf.noise[name] for name in names], axis=-1)
        assert np.allclose(found, expected, rtol=0, atol=tolerance * (1 + np.abs(expected).max())), solver
    assert bc.backtrack(scm, world.values, asked, distance=distance).error.max() < 1e-9


@pytest.mark.parametrize(
    ("solver", "tolerance"), [(bc.Linearized(penalty=20, steps=2), 1e-9), (bc.Gradient(penalty=20, steps=4000), 1e-2)]
)
def test_penalised_answers_of_linear_models_have_their_closed_form(solver, tolerance):
    scm, matrix = linear_model(4)
    names = list(scm.graph)
    world = scm.sample(5, seed=0)
    u = np.stack([world.noise[name] for name in names], axis=-1)
    jacobian = matrix[[3, 5]]
    system = np.eye(6) + 20 * jacobian.T @ jacobian
    expected = np.linalg.solve(system, (u + 20 * np.array([2.0, -1.0]) @ jacobian).T).T
    cf = bc.backtrack(scm, world.values, {"v3": 2.0, "v5": -1.0}, solver=solver)
    assert np.allclose(np.stack([cf.noise[name] for name in names], axis=-1), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("seed", range(6))
def test_linear_models_in_the_constraint_form(seed):
    # A Predictor on two leaves: no noise of its own, so the antecedent is a constraint.
    scm, matrix = linear_model(seed)
    names = list(scm.graph)
    graph = bc.CausalGraph({**scm.graph.to_dict(), "y": names})
    mix = np.random.default_rng(seed).normal(size=len(names))
    law = bc.Predictor(lambda p: sum(m * p[name] for m, name in zip(mix, names, strict=True)))
    model = bc.SCM(graph, {**scm.mechanisms, "y": law})
    world = model.sample(4, seed=1)
    u = np.stack([world.noise[name] for name in names], axis=-1)
    jacobian = mix @ matrix
    wanted = np.array([3.0, -2.0, 0.5, 8.0])
    expected = u + (wanted - u @ jacobian)[:, None] * jacobian / (jacobian @ jacobian)
    cf = bc.backtrack(model, world.values, {"y": wanted})
    assert np.allclose(np.stack([cf.noise[name] for name in names], axis=-1), expected, rtol=0, atol=1e-8)
    assert (cf.status == "converged").all()


def test_absolute_distance_on_linear_models_is_the_linear_programme():
    for seed in range(6):
        scm, matrix = linear_model(seed, size=4)
        names = list(scm.graph)
        world = scm.sample(3, seed=seed)
        u = np.stack([world.noise[name] for name in names], axis=-1)
        cf = bc.backtrack(scm, world.values, {"v3": 4.0}, distance=bc.Absolute())
        # One demand: the noise with the largest effect carries it all.
        expected = np.abs(4.0 - u @ matrix[3]) / np.abs(matrix[3]).max()
        assert np.allclose(cf.distance, expected, rtol=0, atol=1e-9)
        moved = np.stack([cf.noise[name] - cf.factual.noise[name] for name in names], axis=-1)
        assert ((np.abs(moved) > 0).sum(-1) == 1).all()


# Oracles O5 and O6.


def test_model_whose_volume_term_matters():
    scm = growing()
    cf = bc.backtrack(scm, scm.predict({"x1": 0.3, "x2": 0.5}), {"x2": 1.2})
    assert cf.noise["x1"].item() == pytest.approx(0.4974, abs=1e-4)
    assert cf.noise["x2"].item() == pytest.approx(0.8061, abs=1e-4)
    assert cf.distance.item() == pytest.approx(0.1326, abs=1e-4)


@pytest.mark.parametrize("kind", ["squared", "absolute"])
def test_counterfactual_explanation_is_a_special_case(kind):
    names = ["a", "b", "c"]
    slopes = np.array([1.0, -2.0, 0.7])

    def score(x):
        return np.tanh(x @ slopes) + 0.1 * (x**2).sum(-1)

    graph = bc.CausalGraph.parse("a, b, c -> y")
    law = bc.Predictor(
        lambda p: torch.tanh(p["a"] - 2 * p["b"] + 0.7 * p["c"]) + 0.1 * sum(each.square() for each in p.values())
    )
    scm = bc.SCM(graph, {**{name: identity() for name in names}, "y": law})
    start = np.array([0.3, 0.2, -0.1])
    distance = bc.Squared() if kind == "squared" else bc.Absolute()
    cf = bc.backtrack(scm, dict(zip(names, start, strict=True)), {"y": 0.8}, distance=distance)
    assert cf.status == "converged"
    found = np.array([cf.values[name].item() for name in names])
    assert score(found) == pytest.approx(0.8, abs=1e-8)

    power = 2 if kind == "squared" else 1

    # From outside: split each move into its two directions, so that the absolute distance is smooth.
    def cost(m):
        return ((m[:3] + m[3:]) ** power).sum()

    limit = {"type": "eq", "fun": lambda m: score(start + m[:3] - m[3:]) - 0.8}
    tries = [
        optimize.minimize(cost, first, constraints=[limit], bounds=[(0, 9)] * 6, method="SLSQP", tol=1e-14)
        for first in np.random.default_rng(0).uniform(0, 1, (20, 6))
    ]
    best = min((each for each in tries if each.success), key=lambda each: each.fun)
    assert cf.distance.item() == pytest.approx(best.fun, abs=1e-6)


def test_model_of_another_library_is_explained_by_differences():
    graph = bc.CausalGraph.parse("a, b -> y")
    causes = {"a": identity(), "b": identity()}
    ways = [
        lambda p: torch.sigmoid(2 * p["a"] - p["b"]),
        lambda p: 1 / (1 + np.exp(p["b"].numpy() - 2 * p["a"].numpy())),
        lambda p: torch.tensor(1 / (1 + np.exp(p["b"].detach().numpy() - 2 * p["a"].detach().numpy()))),
    ]
    answers = [
        bc.backtrack(bc.SCM(graph, {**causes, "y": bc.Predictor(way)}), {"a": [0.0, 1.0], "b": [1.0, 3.0]}, {"y": 0.7})
        for way in ways
    ]
    for cf in answers:
        assert (cf.status == "converged").all()
        assert torch.allclose(cf.values["a"], answers[0].values["a"], rtol=0, atol=1e-6)
    # In closed form: the nearest point of the line 2 a - b = logit(0.7).
    short = (math.log(0.7 / 0.3) + 1) / 5
    assert answers[1].values["a"].tolist() == pytest.approx([2 * short, 1 + 2 * short], abs=1e-6)


def explain(law, factual: dict[str, float], wanted: float):
    """Asks for a value of a prediction on top of unrelated causes, x = u."""
    laws = {**{name: identity() for name in factual}, "y": bc.Predictor(law)}
    scm = bc.SCM(bc.CausalGraph({**{name: [] for name in factual}, "y": list(factual)}), laws)
    return bc.backtrack(scm, factual, {"y": wanted})


@pytest.mark.parametrize("wanted", [0.5, 2.0, 2.5, 3.0])
def test_curved_constraint_is_the_minimum_over_a_grid(wanted):
    cf = explain(lambda p: torch.sin(3 * p["a"]) + p["b"], {"a": 0.0, "b": 0.0}, wanted)
    grid = np.linspace(-6, 6, 400_001)
    assert cf.status == "converged"
    assert cf.distance.item() == pytest.approx((grid**2 + (wanted - np.sin(3 * grid)) ** 2).min(), abs=1e-6)


# a -> b; a, b -> y, a predictor.
def test_valleys_of_a_wavy_score_are_found():
    def mean(a):
        return a + 0.5 * torch.sin(2 * a)

    law = bc.Equation(
        predict=lambda u, parents: mean(parents["a"]) + 0.6 * u,
        abduct=lambda x, parents: (x - mean(parents["a"])) / 0.6,
    )
    score = bc.Predictor(lambda parents: torch.sigmoid(parents["a"] * parents["b"] + parents["b"]))
    scm = bc.SCM(bc.CausalGraph.parse("a -> b; a, b -> y"), {"a": identity(), "b": law, "y": score})
    rows, y = scm.sample(1000, seed=0), scm.sample(1000, seed=1).values["y"]

    cf = bc.backtrack(scm, rows.values, {"y": y})

    # Of every a there is one b with that score, so that the grid meets it exactly.
    a = torch.linspace(-7, 7, 4000, dtype=torch.float64)
    u_b = (torch.logit(y)[:, None] / (a + 1) - mean(a)) / 0.6
    lowest = ((a - rows.noise["a"][:, None]) ** 2 + (u_b - rows.noise["b"][:, None]) ** 2).amin(1)
    assert (cf.status == "converged").all()
    # Of rows that do not look around, 117 are worse; certainty announces 2.5.
    assert (cf.distance > lowest + 1e-3).sum() <= 5


# a -> b = a + u.
@pytest.mark.parametrize(
    "solver",
    [bc.Linearized(penalty=1.0), bc.Linearized(penalty=0.1), bc.Gradient(penalty=0.1), bc.Gradient(steps=2)],
    ids=repr,
)
def test_weak_penalties_and_unfinished_walks_say_that_they_miss(solver):
    law = bc.Equation(predict=lambda u, parents: parents["a"] + u, abduct=lambda x, parents: x - parents["a"])
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": identity(), "b": law})

    cf = bc.backtrack(scm, {"a": 0.0, "b": 0.0}, {"b": 5.0}, solver=solver)

    assert cf.error > 1
    assert cf.status == "not converged"


def test_sparse_answers_that_keep_too_few_say_so():
    law = bc.Equation(predict=lambda u, parents: parents["a"] + u, abduct=lambda x, parents: x - parents["a"])
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": identity(), "b": law})

    for search, remedy in (("greedy", "search='exhaustive'"), ("exhaustive", "Keep more")):
        solver = bc.Sparse(1, search=search)
        status = bc.backtrack(scm, {"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 3.0}, solver=solver).status
        assert status == "infeasible"
        assert "No 1 of the noises" in status.reason
        assert remedy in status.remedy


# a -> b = a + exp(u): b is above a, wherever that is.
@pytest.mark.parametrize(("a", "b", "wanted"), [(1.0, 2.0, -2.0), (2.0, 3.0, -1.0), (1.0, 2.0, -1.0)])
def test_worlds_are_found_where_the_law_gives_no_number_at_rest(a, b, wanted):
    law = bc.Equation(
        predict=lambda u, parents: parents["a"] + u.exp(), abduct=lambda x, parents: (x - parents["a"]).log()
    )
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": identity(), "b": law})

    cf = bc.backtrack(scm, {"a": a, "b": b}, {"b": wanted})

    grid = np.linspace(-8, wanted - 1e-6, 400_001)
    lowest = ((grid - a) ** 2 + (np.log(wanted - grid) - np.log(b - a)) ** 2).min()
    assert cf.status == "converged"
    assert cf.distance.item() == pytest.approx(lowest, abs=1e-6)


# a, b, c -> d = a + b + c + u.
@pytest.mark.parametrize("dear", [1e3, 1e6, 1e10, 1e14])
def test_dear_noise_stays_and_others_share_as_in_closed_form(dear):
    total = bc.Equation(
        predict=lambda u, parents: sum(parents.values()) + u, abduct=lambda x, parents: x - sum(parents.values())
    )
    scm = bc.SCM(bc.CausalGraph.parse("a, b, c -> d"), {**dict.fromkeys("abc", identity()), "d": total})
    weights = {"a": dear, "b": 1.0, "c": 5.0, "d": 2.0}

    cf = bc.backtrack(scm, dict.fromkeys("abcd", 0.0), {"d": 3.0}, distance=bc.Squared(weights))

    # O1 with J of ones: every noise moves by its share of 1 / weight.
    shares = {name: 3 / weight / sum(1 / each for each in weights.values()) for name, weight in weights.items()}
    assert {name: cf.noise[name].item() for name in "abcd"} == pytest.approx(shares, abs=1e-9)
    assert cf.status == "converged"


# a, b -> y, where y = law(a, b) + spread u.
@pytest.mark.parametrize(
    ("law", "spread"),
    [
        (lambda a, b: 0.5 * a + 0.8 * torch.sin(3 * a) * torch.cos(2 * b) + 0.6 * b, 0.7),
        (lambda a, b: torch.sin(2 * a) + torch.sin(2 * b) + 0.3 * a * b, 0.3),
        (lambda a, b: a + torch.sin(4 * a) + 0.5 * torch.sin(4 * b) + b, 0.4),
    ],
    ids=["waves", "hills", "steps"],
)
def test_valleys_of_wavy_laws_of_two_causes_are_found(law, spread):
    own = bc.Equation(predict=lambda u, parents: u, abduct=lambda x, parents: x)
    wavy = bc.Equation(
        predict=lambda u, parents: law(parents["a"], parents["b"]) + spread * u,
        abduct=lambda x, parents: (x - law(parents["a"], parents["b"])) / spread,
    )
    scm = bc.SCM(bc.CausalGraph.parse("a, b -> y"), {"a": own, "b": own, "y": wavy})
    factual, wanted = scm.sample(300, seed=0), scm.sample(300, seed=1).values["y"]
    a, b = torch.meshgrid(*[torch.linspace(-6, 6, 601, dtype=torch.float64)] * 2, indexing="ij")
    mean, rows = law(a, b), zip(*(factual.noise[name] for name in "aby"), wanted, strict=True)
    lowest = [((a - u_a) ** 2 + (b - u_b) ** 2 + ((y - mean) / spread - u_y) ** 2).min() for u_a, u_b, u_y, y in rows]

    cf = bc.backtrack(scm, factual.values, {"y": wanted})

    assert (cf.status == "converged").all()
    # With the places along the first step alone, 20 to 54 rows are worse.
    assert (cf.distance > torch.stack(lowest) + 1e-3).sum() <= 3


# a -> y, where y = slope a + wave sin(turns a) + noise u.
@pytest.mark.parametrize(
    ("slope", "wave", "turns", "noise", "allowed"),
    [(0.5, 0.8, 3, 0.7, 0), (0.2, 1.0, 2, 0.7, 0), (0.0, 1.0, 3, 0.5, 0), (1.0, 0.8, 3, 0.7, 10)],
)
def test_valleys_of_wavy_laws_are_found(slope, wave, turns, noise, allowed):
    """Of 1,000 rows few or none end in another valley than the lowest of a grid."""

    def mean(parents):
        return slope * parents["a"] + wave * torch.sin(turns * parents["a"])

    def score(x, parents):
        return (x - mean(parents)) / noise

    law = bc.Equation(predict=lambda u, parents: mean(parents) + noise * u, abduct=score)
    scm = bc.SCM(bc.CausalGraph.parse("a -> y"), {"a": identity(), "y": law})
    rows, y = scm.sample(1000, seed=0), 1.3 * scm.sample(1000, seed=1).values["y"]

    cf = bc.backtrack(scm, rows.values, {"y": y})

    grid = torch.linspace(-7, 7, 5601, dtype=torch.float64)
    u_y = (y[:, None] - mean({"a": grid})) / noise
    best = ((grid - rows.noise["a"][:, None]) ** 2 + (u_y - rows.noise["y"][:, None]) ** 2).amin(1)
    assert (cf.distance > best + 1e-3).sum() <= allowed
    assert (cf.status == "converged").all()


def test_flat_starts_are_left_and_flat_laws_say_so():
    saturated = explain(lambda p: torch.sigmoid(6 * (p["a"] - p["b"])), {"a": -3.0, "b": 3.0}, 0.5)
    assert saturated.status == "converged"
    assert saturated.distance.item() == pytest.approx(18.0)
    assert explain(lambda p: p["a"].square(), {"a": 0.0}, 4.0).distance.item() == pytest.approx(4.0)
    hard = explain(lambda p: (p["a"] > 0).double() + 0 * p["a"], {"a": -3.0}, 1.0)
    assert hard.status == "not converged"
    assert "flat" in hard.status.reason


# What a row says of itself.


def test_rows_that_cannot_hold_say_why_and_spoil_no_other():
    scm = bc.SCM(morphomnist.truth().graph, TRUTH.mechanisms, bounds={"intensity": (64, 255), "thickness": (0.5, None)})
    data = scm.sample(4, seed=0).to_frame()
    alone = bc.backtrack(scm, data, {"intensity": 200.0})
    cf = bc.backtrack(scm, data, {"intensity": [200.0, 300.0, 64.0, 200.0]})
    assert list(cf.status) == ["converged", "infeasible", "infeasible", "converged"]
    assert "'intensity' is asked to leave its bounds (64, 255)" in cf.status[1].explain()
    assert torch.equal(cf.noise["thickness"][[0, 3]], alone.noise["thickness"][[0, 3]])
    # The rows that failed are left as they were, and their error says how far they miss.
    assert torch.equal(cf.noise["thickness"][1], cf.factual.noise["thickness"][1])
    assert cf.error[1] > 1


def test_antecedent_outside_the_support_of_a_given_law():
    data = TRUTH.sample(3, seed=0).to_frame()
    cf = bc.backtrack(TRUTH, data, {"intensity": [200.0, 300.0, 210.0]})
    assert list(cf.status) == ["converged", "infeasible", "converged"]
    assert "support" in cf.status[1].reason
    assert torch.isfinite(cf.values["intensity"]).all()
    assert cf.error[1] > 1


def test_contradictory_antecedents_are_infeasible():
    scm = bc.SCM(bc.CausalGraph.parse("a -> y; a -> z"), {
        "a": identity(), "y": bc.Predictor(lambda p: 2 * p["a"]), "z": bc.Predictor(lambda p: 3 * p["a"]),
    })  # fmt: skip
    assert bc.backtrack(scm, {"a": 1.0}, {"y": 4.0, "z": 6.0}).status == "converged"
    cf = bc.backtrack(scm, {"a": 1.0}, {"y": 4.0, "z": 5.0})
    assert cf.status == "infeasible"
    assert "contradict" in cf.status.reason
    assert cf.error.item() > 0.1


def test_scope_without_a_way_is_infeasible():
    scm = bc.SCM(bc.CausalGraph.parse("a -> b; c"), {"a": identity(), "b": weighted({"a": 1.0}), "c": identity()})
    factual = {"a": 0.0, "b": 0.0, "c": 0.0}
    cf = bc.backtrack(scm, factual, {"b": 1.0}, scope=["c"])
    assert cf.status == "infeasible"
    assert "No noise in scope" in cf.status.reason
    assert cf.error.item() == pytest.approx(1.0)
    assert bc.backtrack(scm, factual, {"b": 0.0}, scope=["c"]).status == "converged"
    short = bc.SCM(bc.CausalGraph.parse("a -> y"), {"a": identity(), "y": bc.Predictor(lambda p: p["a"].tanh())})
    far = bc.backtrack(short, {"a": 0.5}, {"y": 1.5})
    assert far.status != "converged"
    assert far.error.item() > 0.4


def test_rows_that_fail_are_worlds_all_the_same():
    cf = bc.backtrack(TRUTH, FACTUAL, {"thickness": 3.0}, scope=["intensity"])
    assert cf.status == "infeasible"
    for name, value in TRUTH.predict(cf.noise).items():
        assert cf.values[name].item() == pytest.approx(value.item())
    linear = bc.backtrack(TRUTH, FACTUAL, {"thickness": 3.0}, scope=["intensity"], solver=bc.Linearized())
    assert linear.status == "infeasible"


def test_antecedent_of_an_answer_can_be_asked_again():
    cf = bc.backtrack(TRUTH, FACTUAL, {"intensity": bc.at_least(200.0)})
    assert "at_least" in repr(cf.antecedent["intensity"])
    assert bc.backtrack(TRUTH, FACTUAL, cf.antecedent).distance == cf.distance


def test_too_few_steps_say_so():
    cf = bc.backtrack(TRUTH, FACTUAL, {"intensity": 240.0}, solver=bc.Exact(steps=1, starts=0))
    assert cf.status == "not converged"
    assert cf.status.remedy
    # The antecedent holds all the same, because it is pinned.
    assert cf.error.item() < 1e-9
    linear = bc.backtrack(TRUTH, FACTUAL, {"intensity": 240.0}, solver=bc.Linearized(steps=1))
    assert linear.status == "not converged"
    assert linear.error.item() > 1e-2


def test_error_comes_from_a_fresh_prediction_of_the_noise():
    # An inverse that is wrong by 0.1 must show in the error, although the value was assigned.
    wrong = bc.Equation(predict=lambda u, p: u + p["a"], abduct=lambda x, p: x - p["a"] + 0.1)
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": identity(), "b": wrong})
    cf = bc.backtrack(scm, {"a": 0.0, "b": 0.0}, {"b": 1.0})
    assert cf.values["b"].item() == 1.0
    assert cf.error.item() == pytest.approx(0.1)
    assert cf.status == "not converged"


def test_answers_far_out_are_flagged():
    cf = bc.backtrack(TRUTH, FACTUAL, {"intensity": [200.0, 254.99999]})
    assert cf.extrapolates.tolist() == [False, True]
    assert cf.farthest[0].item() == pytest.approx(0.6997, abs=1e-3)
    assert cf.farthest[1] > 4


def test_only_the_antecedent_and_its_causes_take_part():
    calls = {"image": 0, "sibling": 0}

    def counted(name, law):
        def predict(u, parents):
            calls[name] += 1
            return law._functions[0](u, parents)

        return bc.Equation(predict=predict, abduct=law._functions[1])

    graph = bc.CausalGraph.parse("t -> i; t, i -> image; sibling")
    laws = {"t": identity(), "i": weighted({"t": 2.0}), "image": counted("image", weighted({"t": 1.0, "i": 1.0})),
            "sibling": counted("sibling", identity())}  # fmt: skip
    scm = bc.SCM(graph, laws)
    factual = {"t": [0.0, 1.0], "i": [0.5, 2.0], "image": [3.0, 4.0], "sibling": [7.0, 8.0]}
    cf = bc.backtrack(scm, factual, {"i": 5.0})
    # Once, to complete the answer; the sibling never.
    assert calls == {"image": 1, "sibling": 0}
    assert torch.equal(cf.noise["image"], cf.factual.noise["image"])
    assert cf.values["sibling"].tolist() == [7.0, 8.0]
    assert torch.allclose(cf.values["image"], cf.values["t"] + cf.values["i"] + cf.noise["image"])


@pytest.mark.parametrize(
    ("how", "error", "part"),
    [
        ({"antecedent": {"intensity": math.nan}}, bc.DataError, "expected finite"),
        ({"antecedent": {"intensty": 3.0}}, bc.UnknownNameError, "Did you mean 'intensity'"),
        ({"antecedent": {"intensity": bc.between(3.0, 1.0)}}, bc.DataError, "Swap them"),
        ({"antecedent": {"intensity": bc.at_least(math.inf)}}, bc.DataError, "expected finite"),
        ({"antecedent": {}}, bc.DataError, "at least one variable"),
        ({"scope": ["width"]}, bc.UnknownNameError, "scope"),
        ({"solver": bc.Exact}, bc.SettingError, r"Write Exact()"),
        ({"distance": bc.Squared}, bc.SettingError, r"Write Squared()"),
        ({"distance": bc.Squared({"width": 1.0})}, bc.UnknownNameError, "distance weights"),
        ({"distance": {"width": bc.Squared()}}, bc.UnknownNameError, "distance"),
        ({"distance": {"thickness": bc.Squared({"width": 1.0})}}, bc.UnknownNameError, "distance weights"),
        ({"distance": lambda u_star, u: u_star - u}, bc.SettingError, "Sum over the last axis"),
        ({"distance": lambda u_star, u: (u_star - u).sum(-1)}, bc.SettingError, "at least 0"),
        ({"distance": lambda u_star, u: 1 + (u_star - u).square().sum(-1)}, bc.SettingError, "where nothing moves"),
        ({"distance": lambda u_star, u: (u_star - u).detach().square().sum(-1)}, bc.SettingError, "autograd"),
        ({"solver": bc.Linearized(), "distance": bc.Absolute()}, bc.SettingError, "squared distances"),
    ],
)
def test_mistakes_are_errors_before_any_work(how, error, part):
    asked = {"antecedent": {"intensity": 200.0}, **how}
    with pytest.raises(error) as caught:
        bc.backtrack(TRUTH, {"thickness": [2.5], "intensity": [159.5]}, **asked)
    assert part in str(caught.value)


def test_no_rows_one_row_and_broadcast():
    assert bc.backtrack(TRUTH, TRUTH.sample(0).values, {"intensity": 200.0}).distance.shape == (0,)
    one = bc.backtrack(TRUTH, FACTUAL, {"intensity": 200.0})
    assert one.distance.shape == ()
    assert one.status == "converged"
    assert len(one.to_frame()) == 1
    many = bc.backtrack(TRUTH, FACTUAL, {"intensity": torch.linspace(80, 240, 7)})
    assert many.values["thickness"].shape == (7,)
    assert (many.values["thickness"].diff() > 0).all()


def test_vector_antecedents_and_vector_causes():
    vector = bc.Equation(predict=lambda u, p: p["a"] + u, abduct=lambda x, p: x - p["a"], noise=2, value=2)
    total = bc.Equation(
        predict=lambda u, p: p["v"].sum(-1, keepdim=True) + u, abduct=lambda x, p: x - p["v"].sum(-1, keepdim=True)
    )
    scm = bc.SCM(bc.CausalGraph.parse("a -> v -> b"), {"a": identity(), "v": vector, "b": total})
    factual = {"a": 0.0, "v": [0.0, 0.0], "b": 0.0}
    # a moves both components of v: the effects of the noises on b are 2, 1, 1, 1.
    cf = bc.backtrack(scm, factual, {"b": 7.0})
    assert [cf.noise["a"].item(), *cf.noise["v"].tolist(), cf.noise["b"].item()] == pytest.approx([2, 1, 1, 1])
    cf = bc.backtrack(scm, factual, {"v": [3.0, 0.0]})
    assert cf.noise["a"].item() == pytest.approx(1.0)
    assert cf.noise["v"].tolist() == pytest.approx([2.0, -1.0])
    both = bc.backtrack(scm, factual, {"b": 7.0}, solver=bc.Sparse(keep=1, by="variable"))
    assert both.noise["a"].item() == pytest.approx(3.5)
    with pytest.raises(bc.DataError, match="interval of a vector"):
        bc.backtrack(scm, factual, {"v": bc.at_least(1.0)})


def test_exhaustive_sparsity_is_the_best_of_all_sets():
    scm, matrix = linear_model(3)
    names = list(scm.graph)
    world = scm.sample(6, seed=2)
    u = np.stack([world.noise[name] for name in names], axis=-1)
    cf = bc.backtrack(scm, world.values, {"v5": 6.0}, solver=bc.Sparse(keep=2, search="exhaustive"))
    best = np.full(6, np.inf)
    for pair in itertools.combinations(range(6), 2):
        effect = (matrix[5, list(pair)] ** 2).sum()
        if effect > 0:
            best = np.minimum(best, (6.0 - u @ matrix[5]) ** 2 / effect)
    assert np.allclose(cf.distance, best, rtol=1e-8)
    causes = [f"a{i}" for i in range(30)]
    total = bc.Predictor(lambda p: sum(p.values()))
    wide = bc.SCM(
        bc.CausalGraph({**{c: [] for c in causes}, "y": causes}), {**{c: identity() for c in causes}, "y": total}
    )
    with pytest.raises(bc.SettingError, match="more than the 1000"):
        bc.backtrack(wide, wide.sample(1).values, {"y": 1.0}, solver=bc.Sparse(keep=15, search="exhaustive"))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.floats(0.2, 5), st.floats(0.2, 5), st.floats(-3, 3), st.floats(-3, 3), st.floats(-8, 8))
def test_one_scalar_cause_is_the_minimum_over_a_grid(weight_a, weight_b, u_a, u_b, wanted):
    # A law that bends: the effect of a on b flattens and turns.
    bent = bc.Equation(
        predict=lambda u, p: 3 * torch.sin(p["a"]) + p["a"] + u, abduct=lambda x, p: x - 3 * torch.sin(p["a"]) - p["a"]
    )
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": identity(), "b": bent})
    cf = bc.backtrack(
        scm, scm.predict({"a": u_a, "b": u_b}), {"b": wanted}, distance=bc.Squared({"a": weight_a, "b": weight_b})
    )
    grid = np.linspace(-20, 20, 400_001)
    cost = weight_a * (grid - u_a) ** 2 + weight_b * (wanted - 3 * np.sin(grid) - grid - u_b) ** 2
    assert cf.status == "converged"
    assert cf.distance.item() <= cost.min() + 1e-3
