"""Backtracking samples against closed forms, quadrature and oracles O1 and O5."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import growing, identity, weighted
from scipy import integrate, stats

import deepbc as bc
from deepbc.distances import read_distance
from deepbc.recipes import morphomnist

TRUTH = morphomnist.truth()
CHAIN = bc.SCM(
    bc.CausalGraph.parse("a -> b -> c"), {"a": identity(), "b": weighted({"a": 1.0}), "c": weighted({"b": 1.0})}
)
REST = {"a": 0.0, "b": 0.0, "c": 0.0}


@st.composite
def questions(draw):
    """A linear model of up to five variables, its matrix from noise to values, an antecedent and weights."""
    count = draw(st.integers(2, 5))
    numbers = st.floats(0.3, 2.0)
    names = [f"x{k}" for k in range(count)]
    laws, graph, rows = {}, {}, []
    for k, name in enumerate(names):
        parents = {names[j]: draw(numbers) for j in range(k) if draw(st.booleans())}
        scale = draw(numbers)
        laws[name] = weighted(parents, scale)
        graph[name] = list(parents)
        own = np.eye(count)[k] * scale
        rows.append(own + sum(weight * rows[names.index(parent)] for parent, weight in parents.items()))
    scm = bc.SCM(bc.CausalGraph(graph), laws)
    asked = {name: draw(st.floats(-2, 2)) for name in names if draw(st.booleans())} or {names[-1]: 1.0}
    weights = {name: draw(st.floats(0.2, 4.0)) for name in names}

    return scm, np.array(rows), asked, weights


@settings(max_examples=25, deadline=None, derandomize=True)
@given(questions())
def test_linear_models_have_the_closed_form(question):
    scm, matrix, asked, weights = question
    names = list(scm.graph)
    factual = dict.fromkeys(names, 0.5)
    u = np.array([scm.abduct(factual)[name].item() for name in names])
    cf = bc.backtrack_samples(scm, factual, asked, samples=2000, seed=0, distance=bc.Squared(weights))
    assert cf.status == "converged"
    assert cf.error.max() < 1e-9

    chosen = [names.index(name) for name in asked]
    jacobian = matrix[chosen]
    spread = np.diag([1 / (2 * weights[name]) for name in names])
    gain = spread @ jacobian.T @ np.linalg.inv(jacobian @ spread @ jacobian.T)
    mean = u + gain @ (np.array(list(asked.values())) - jacobian @ u)
    covariance = spread - gain @ jacobian @ spread
    noise = np.stack([cf.noise[name] for name in names], axis=-1)
    sd = np.sqrt(np.diag(spread))
    assert np.abs((noise.mean(0) - mean) / sd).max() < 4.5 / math.sqrt(2000)
    assert np.abs((np.cov(noise.T) - covariance) / np.outer(sd, sd)).max() < 6.5 / math.sqrt(2000)


def test_volume_term():
    factual = {"x1": 0.3, "x2": math.exp(0.24) * 0.5}
    cf = bc.backtrack_samples(growing(), factual, {"x2": 1.2}, samples=20_000, seed=0)
    u = cf.noise["x1"]
    assert u.mean().item() == pytest.approx(0.3737, abs=4 * 0.5138 / math.sqrt(20_000))
    assert u.std().item() == pytest.approx(0.5138, abs=4 * 0.5138 / math.sqrt(20_000))
    assert cf.error.max() < 1e-6


INTERVALS = {
    "at least": (bc.at_least(1.0), 1.0, np.inf),
    "at most": (bc.at_most(-0.5), -np.inf, -0.5),
    "between": (bc.between(1.0, 1.2), 1.0, 1.2),
    "far out": (bc.at_least(8.0), 8.0, np.inf),
    "holds already": (bc.between(-3.0, 3.0), -3.0, 3.0),
}


@pytest.mark.parametrize("name", INTERVALS)
def test_interval_is_a_truncated_density(name):
    interval, lower, upper = INTERVALS[name]
    cf = bc.backtrack_samples(CHAIN, REST, {"b": interval}, samples=2000, seed=0)
    # b is normal with variance 1, a given b with mean b / 2 and variance 1 / 4, c given b with variance 1 / 2.
    b = cf.values["b"]
    assert cf.status == "converged"
    assert ((b >= lower) & (b <= upper)).all()
    assert (cf.error == 0).all()
    assert stats.kstest(b, stats.truncnorm(lower, upper).cdf).pvalue > 0.01
    assert stats.kstest(2 * (cf.values["a"] - b / 2), "norm").pvalue > 0.01
    assert stats.kstest((cf.values["c"] - b) * math.sqrt(2), "norm").pvalue > 0.01


@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-9, 1e-12])
def test_narrow_interval_is_its_value(width):
    cf = bc.backtrack_samples(CHAIN, REST, {"b": bc.between(3.0, 3.0 + width)}, samples=1000, seed=0)
    assert cf.status == "converged"
    assert (cf.error == 0).all()
    assert stats.kstest(2 * (cf.values["a"] - 1.5), "norm").pvalue > 0.01


def test_interval_upstream_of_a_value():
    cf = bc.backtrack_samples(CHAIN, REST, {"a": bc.at_least(0.5), "c": 2.0}, samples=2000, seed=0)
    # a and c are normal with variances 1 / 2 and 3 / 2 and covariance 1 / 2, so a given c is normal around 2 / 3.
    assert (cf.values["c"] == 2).all()
    mean, sd = 2 / 3, math.sqrt(1 / 3)
    assert stats.kstest(cf.values["a"], stats.truncnorm((0.5 - mean) / sd, np.inf, mean, sd).cdf).pvalue > 0.01
    assert cf.status == "converged"


def test_interval_of_a_falling_law():
    falling = bc.Equation(predict=lambda u, p: p["a"] - u, abduct=lambda x, p: p["a"] - x)
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": identity(), "b": falling})
    cf = bc.backtrack_samples(scm, {"a": 0.0, "b": 0.0}, {"b": bc.at_least(1.0)}, samples=2000, seed=0)
    assert stats.kstest(cf.values["b"], stats.truncnorm(1.0, np.inf).cdf).pvalue > 0.01


DISTANCES = {
    "absolute": bc.Absolute(),
    "power 4": bc.Power(4),
    "power 1.5": bc.Power(1.5, {"a": 2.0}),
    "mixed": {"a": bc.Absolute({"a": 3.0}), "c": bc.Power(3)},
    "own": lambda u_star, u: (torch.cosh(u_star - u) - 1).sum(-1),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_other_distances(name):
    distance = DISTANCES[name]
    cf = bc.backtrack_samples(CHAIN, REST, {"b": 1.0}, samples=2000, seed=0, distance=distance)
    assert cf.status == "converged"

    read = read_distance(distance, "abc")
    grid = torch.linspace(-12, 12, 100_001, dtype=torch.float64)[:, None]
    costs = {
        "a": read.moved("a", grid, 0 * grid) + read.moved("b", 1 - grid, 0 * grid),
        "c": read.moved("c", grid, 0 * grid),
    }
    for variable, cost in costs.items():
        below = integrate.cumulative_trapezoid((-cost).exp(), grid[:, 0], initial=0)
        known = np.interp(cf.noise[variable], grid[:, 0], below / below[-1])
        # One of ten comparisons.
        assert stats.kstest(known, "uniform").pvalue > 0.001, variable


def test_interval_with_another_distance():
    cf = bc.backtrack_samples(CHAIN, REST, {"a": bc.at_least(1.0)}, samples=2000, seed=0, distance=bc.Absolute())
    assert stats.kstest(cf.values["a"] - 1, "expon").pvalue > 0.01
    assert cf.status == "converged"


def bent() -> bc.SCM:
    """a, b -> c; b, c -> d, by waves with skewed noise."""

    def law(predict_mean):
        return bc.Equation(
            predict=lambda u, p: predict_mean(p) + torch.sinh(0.5 * u) / 0.5,
            abduct=lambda x, p: torch.asinh(0.5 * (x - predict_mean(p))) / 0.5,
        )

    laws = {
        "a": identity(),
        "b": law(lambda p: 0.0),
        "c": law(lambda p: torch.sin(1.2 * p["a"]) * p["b"]),
        "d": law(lambda p: torch.tanh(p["c"]) + torch.cos(p["b"])),
    }
    return bc.SCM(bc.CausalGraph.parse("a, b -> c; b, c -> d"), laws)


@pytest.mark.parametrize("asked", [["d"], ["b", "d"]], ids=str)
def test_ranks_of_the_truth_are_uniform(asked):
    # Simulation-based calibration: a world around a factual one is a draw of those that have what it has.
    scm, stream = bent(), torch.Generator().manual_seed(0)
    factual = scm.sample(400, seed=0)
    noise = {name: u + torch.randn(400, generator=stream).double() / 2**0.5 for name, u in factual.noise.items()}
    world = scm.predict(noise)
    cf = bc.backtrack_samples(scm, factual.values, {name: world[name] for name in asked}, samples=99, seed=0)
    assert (cf.status == "converged").mean() > 0.99
    for name in scm.graph:
        if name not in asked or len(asked) == 1:
            ranks = (cf.noise[name] < noise[name]).sum(0).numpy()
            # One of seven comparisons.
            assert stats.chisquare(np.bincount(ranks // 10, minlength=10)).pvalue > 0.001, name


def test_rows_do_not_depend_on_each_other():
    factual = TRUTH.sample(6, seed=1).values
    asked = {"intensity": torch.linspace(90, 230, 6, dtype=torch.float64)}
    cf = bc.backtrack_samples(TRUTH, factual, asked, samples=40, seed=5)
    assert torch.equal(
        bc.backtrack_samples(TRUTH, factual, asked, samples=40, seed=5).noise["thickness"], cf.noise["thickness"]
    )
    other = bc.backtrack_samples(TRUTH, factual, asked, samples=40, seed=6)
    assert not torch.equal(other.noise["thickness"], cf.noise["thickness"])
    for row in (0, 4):
        one = {name: each[row] for name, each in factual.items()}
        alone = bc.backtrack_samples(TRUTH, one, {"intensity": asked["intensity"][row]}, samples=40, seed=5)
        for name in ("thickness", "intensity"):
            assert torch.allclose(alone.noise[name], cf.noise[name][:, row], rtol=0, atol=1e-9)


def test_shapes_and_a_root():
    cf = bc.backtrack_samples(
        TRUTH, {"thickness": 2.5, "intensity": 159.5}, {"thickness": [2.0, 3.0]}, samples=400, seed=0
    )
    assert cf.values["intensity"].shape == cf.moved["intensity"].shape == cf.error.shape == (400, 2)
    assert cf.status.shape == (2,)
    assert cf.diagnostics.r_hat.tolist() == [1, 1]
    assert (cf.values["thickness"] == torch.tensor([2.0, 3.0])).all()
    # Nothing upstream: the noise of intensity is drawn around its factual value, 0, with variance 1 / 2.
    assert stats.kstest(cf.noise["intensity"].flatten() * math.sqrt(2), "norm").pvalue > 0.01
    table = cf.to_frame()
    assert table.index.names == ["sample", "row"]
    assert len(table) == 800
    assert (table["factual thickness"] == 2.5).all()
    assert table["status"].eq("converged").all()
    one = bc.backtrack_samples(TRUTH, {"thickness": 2.5, "intensity": 159.5}, {"intensity": 200.0}, samples=3, seed=0)
    assert one.values["thickness"].shape == (3,)
    assert one.status == "converged"
    none = bc.backtrack_samples(TRUTH, {"thickness": [], "intensity": []}, {"intensity": 200.0}, samples=3, seed=0)
    assert none.values["thickness"].shape == (3, 0)


def test_scope_keeps_other_noise_factual():
    factual = {"thickness": 2.5, "intensity": 159.5}
    cf = bc.backtrack_samples(TRUTH, factual, {"intensity": 200.0}, samples=20, seed=0, scope=["intensity"])
    plain = bc.intervene(TRUTH, factual, {"intensity": 200.0})
    assert (cf.values["thickness"] == plain.values["thickness"]).all()
    assert torch.allclose(cf.noise["intensity"], plain.noise["intensity"].expand(20))
    kept = bc.backtrack_samples(TRUTH, factual, {"thickness": 3.0}, samples=20, seed=0, scope=["thickness"])
    assert (kept.noise["intensity"] == kept.factual.noise["intensity"]).all()


def test_a_bad_row_spoils_no_other():
    flow = TRUTH
    factual = {"thickness": [2.5, 2.5, 2.5], "intensity": [159.5] * 3}
    cf = bc.backtrack_samples(flow, factual, {"intensity": [200.0, 400.0, 120.0]}, samples=40, seed=0)
    assert list(cf.status) == ["converged", "infeasible", "converged"]
    assert (cf.values["thickness"][:, 1] == 2.5).all()
    good = bc.backtrack_samples(flow, {"thickness": 2.5, "intensity": 159.5}, {"intensity": 120.0}, samples=40, seed=0)
    assert torch.allclose(good.noise["thickness"], cf.noise["thickness"][:, 2], rtol=0, atol=1e-9)


def test_a_steep_law_makes_langevin_diverge_and_not_hamiltonian():
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": identity(), "b": weighted({"a": 30.0})})
    question = (scm, {"a": 0.0, "b": 0.0}, {"b": 3.0})
    rough = bc.backtrack_samples(*question, samples=20, seed=0, sampler=bc.Langevin())
    assert rough.status == "not converged"
    assert "diverged" in rough.status.reason
    fine = bc.backtrack_samples(*question, samples=400, seed=0)
    assert fine.status == "converged"
    assert fine.noise["a"].std().item() == pytest.approx(math.sqrt(1 / 2 / 901), rel=0.15)


def test_langevin_meets_a_prediction_nearly_and_hamiltonian_refuses_it():
    scm = bc.SCM(bc.CausalGraph.parse("a -> y"), {"a": identity(), "y": bc.Predictor(lambda p: 2 * p["a"])})
    with pytest.raises(bc.SettingError, match="no noise of its own"):
        bc.backtrack_samples(scm, {"a": 0.0}, {"y": 1.0})
    cf = bc.backtrack_samples(
        scm, {"a": 0.0}, {"y": 1.0}, samples=50, seed=0, sampler=bc.Langevin(penalty=100.0, step=1e-4, steps=400)
    )
    assert cf.values["a"].mean().item() == pytest.approx(0.5, abs=0.05)
    # The penalty lets y vary by 1 / sqrt(200).
    assert cf.error.max() < 5 / math.sqrt(200)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"scope": ["thickness"]}, "out of scope"),
        ({"distance": bc.Squared({"thickness": 0.0})}, "weight of 'thickness' is 0"),
        ({"distance": lambda u_star, u: (u_star - u).square().sum(-1).tanh()}, "grows without end"),
        ({"samples": 0}, "at least 1"),
        ({"sampler": bc.Exact()}, "expected a Sampler"),
        ({"seed": "one"}, "seed"),
    ],
    ids=["scope", "weight", "bounded cost", "samples", "sampler", "seed"],
)
def test_bad_questions_are_refused(how, message):
    with pytest.raises(bc.SettingError, match=message):
        bc.backtrack_samples(TRUTH, {"thickness": 2.5, "intensity": 159.5}, {"intensity": 200.0}, **how)
