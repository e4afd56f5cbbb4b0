"""Laws learned from a few hundred rows against the equations that these were drawn from."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import deepbc as bc

GRAPH = {"a": [], "b": ["a"], "c": ["a", "b"], "d": ["b", "c"]}
MODE, SPREAD = 0.95, np.sqrt(1 - 0.95**2)


def two_modes(stream, rows):
    return MODE * stream.choice([-1, 1], rows) + SPREAD * stream.normal(size=rows)


def two_modes_log_prob(z):
    return np.logaddexp(stats.norm.logpdf(z, MODE, SPREAD), stats.norm.logpdf(z, -MODE, SPREAD)) - np.log(2)


def normal(stream, rows):
    return stream.normal(size=rows)


# The means of b, c and d, their scales, the noise and its density, and nats that a fit to 300 rows may lie above the
# truth: what a plain trial of a Gaussian process reached on models of this kind.
TRUTHS = {
    "waves": (
        (lambda a: np.sin(3 * a), lambda a, b: np.sin(2 * a) + b / 2, lambda b, c: np.sin(2 * b) + c / 2),
        (lambda a: 0.3, lambda a, b: 0.3, lambda b, c: 0.3),
        (normal, stats.norm.logpdf),
        0.14,
    ),
    "products": (
        (lambda a: 0.7 * a, lambda a, b: a * b, lambda b, c: 0.5 * b * c + 0.3 * c),
        (lambda a: 0.5, lambda a, b: 0.5, lambda b, c: 0.5),
        (normal, stats.norm.logpdf),
        0.11,
    ),
    "heteroscedastic": (
        (lambda a: a, lambda a, b: (a + b) / 2, lambda b, c: 0.6 * b - 0.4 * c),
        (
            lambda a: 0.2 + 0.5 * np.log1p(np.exp(a)),
            lambda a, b: 0.3 * np.exp(np.tanh(b) / 2),
            lambda b, c: 0.2 + 0.4 * abs(np.tanh(c)),
        ),
        (normal, stats.norm.logpdf),
        0.22,
    ),
    "two modes": (
        (lambda a: 0.8 * a, lambda a, b: 0.5 * a - 0.6 * b, lambda b, c: 0.7 * b + np.tanh(c)),
        (lambda a: 0.5, lambda a, b: 0.5, lambda b, c: 0.5),
        (two_modes, two_modes_log_prob),
        0.17,
    ),
}


def draw(name, rows, seed):
    means, scales, (noise, _), _ = TRUTHS[name]
    stream = np.random.default_rng(seed)
    x = {"a": stream.normal(size=rows)}
    for child, mean, scale in zip("bcd", means, scales, strict=True):
        parents = [x[each] for each in GRAPH[child]]
        x[child] = mean(*parents) + scale(*parents) * noise(stream, rows)
    return pd.DataFrame(x)


def true_log_prob(name, x):
    means, scales, (_, log_prob), _ = TRUTHS[name]
    total = 0.0
    for child, mean, scale in zip("bcd", means, scales, strict=True):
        parents = [x[each].to_numpy() for each in GRAPH[child]]
        spread = scale(*parents) * np.ones(len(x))
        total = total + log_prob((x[child].to_numpy() - mean(*parents)) / spread) - np.log(spread)
    return total


def fitted(data, graph=GRAPH):
    scm = bc.SCM(bc.CausalGraph(graph), {name: bc.GaussianProcess() for name in graph})
    scm.fit(data, seed=0, progress=False)
    return scm


@pytest.mark.parametrize("name", TRUTHS)
def test_three_hundred_rows_are_enough_for_a_law_near_the_truth(name):
    test = draw(name, 5000, 99)
    excess = []
    for seed in range(3):
        scm = fitted(draw(name, 300, seed))
        found = scm.log_prob(test, of=["b", "c", "d"]).numpy()
        excess.append((true_log_prob(name, test) - found).mean())
    assert np.mean(excess) < TRUTHS[name][-1]


def test_linear_rows_give_an_affine_law():
    stream = np.random.default_rng(0)
    a = stream.normal(size=1000)
    data = pd.DataFrame({"a": a, "b": 2 * a + stream.normal(size=1000)})
    law = fitted(data, {"a": [], "b": ["a"]}).mechanisms["b"]
    u, parents = torch.randn(50, 1, dtype=torch.float64), torch.randn(50, 1, dtype=torch.float64)
    _x, by_noise, by_parents = law.predict_and_jacobian(u, parents)
    assert (by_parents - 2).abs().max() < 0.15
    assert (by_noise - 1).abs().max() < 0.1


def test_a_law_is_called_affine_where_it_is_alone():
    """Both affine laws and others are drawn; a spread that grows with its cause is no affine law."""
    seen = set()
    for seed in range(12):
        stream = np.random.default_rng(seed)
        a = stream.normal(size=400)
        scale = np.exp(0.3 * a) if seed % 2 else 1.0
        data = pd.DataFrame({"a": a, "b": a + scale * stream.normal(size=400)})
        law = fitted(data, {"a": [], "b": ["a"]}).mechanisms["b"]
        u, parents = torch.randn(20, 1, dtype=torch.float64), torch.randn(20, 1, dtype=torch.float64)
        _, by_noise, by_parents = law.predict_and_jacobian(u, parents)
        constant = (by_noise.std() + by_parents.std()).item() < 1e-9
        assert constant or not law.affine
        seen.add((law.affine, bool(seed % 2)))
    assert (True, True) not in seen


def test_far_from_the_data_a_law_is_linear():
    law = fitted(draw("waves", 300, 0)).mechanisms["b"]
    far = torch.tensor([[40.0], [50.0], [60.0]], dtype=torch.float64)
    x = law.predict(torch.zeros(3, 1, dtype=torch.float64), far)
    assert abs(x[2] - 2 * x[1] + x[0]) < 1e-6


def test_parents_of_every_kind_take_part():
    stream = np.random.default_rng(1)
    rows = 500
    data = pd.DataFrame(
        {
            "group": stream.choice(["x", "y", "z"], rows, p=[0.6, 0.3, 0.1]),
            "count": stream.poisson(3, rows),
            "yes": stream.uniform(size=rows) < 0.4,
            "idle": stream.normal(size=rows),
        }
    )
    shift = data["group"].map({"x": 0.0, "y": 1.0, "z": -1.0}).to_numpy()
    data["out"] = shift + 0.4 * data["count"] - 0.8 * data["yes"] + 0.5 * stream.normal(size=rows)
    scm = bc.SCM(
        bc.CausalGraph({"group": [], "count": [], "yes": [], "idle": [], "out": ["group", "count", "yes", "idle"]})
    )
    scm = scm.replace("out", bc.GaussianProcess())
    report = scm.fit(data, seed=0, progress=False)
    # The truth has a standard deviation of 0.5: log(0.5) + log(2 pi e) / 2 nats.
    assert report["out"].nll < np.log(0.5) + 1.4189 + 0.12


def test_same_seed_gives_the_same_law():
    data = draw("two modes", 300, 5)
    one, two = fitted(data), fitted(data)
    assert torch.equal(one.log_prob(data), two.log_prob(data))


def test_few_rows_are_refused_in_words():
    with pytest.raises(bc.FitError, match="at least 15 rows, got 8"):
        fitted(draw("waves", 8, 0))
