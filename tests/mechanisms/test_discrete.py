"""Categories and whole numbers against quadrature, rejection sampling and laws that are known."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import deepbc as bc
from deepbc.mechanisms.regions import NOISE_MARGIN, Interval, Wedge
from deepbc.numerics.seeding import generator

MEANS = (0.3, 1.2, -0.5)


def noise(rows, dim, seed=0):
    return torch.randn(rows, dim, generator=generator(seed, "noise"), dtype=torch.float64)


def uniform(rows, dim):
    return torch.rand(rows, dim, generator=generator(0, "uniform"), dtype=torch.float64)


def wedge(code, rows=1, means=MEANS, offset=1.0):
    x = torch.zeros(rows, len(means), dtype=torch.float64)
    if code:
        x[:, code - 1] = 1.0
    return Wedge(x, torch.tensor(means, dtype=torch.float64).expand(rows, -1), offset)


def in_wedge(u, code, means=MEANS, offset=1.0):
    g = u + torch.tensor(means, dtype=torch.float64)
    return torch.where(g.amax(-1) > offset, g.argmax(-1) + 1, 0) == code


def interval(name, rows=1):
    low, high = {"below": (-math.inf, 0.4), "above": (1.1, math.inf), "narrow": (0.5, 0.51), "far": (5.0, 5.2)}[name]
    return Interval(*(torch.full((rows, 1), end, dtype=torch.float64) for end in (low, high)))


def in_interval(u, name):
    region = interval(name)
    return ((u > region.lower) & (u < region.upper)).squeeze(-1)


def chances_of(means, offset=1.0):
    """The probability of each class, by quadrature over the largest of the competing numbers; `(*rows, classes)`."""
    means = np.asarray(means)
    t = np.linspace(offset, offset + 16, 8001)[:, *[None] * means.ndim]
    below = stats.norm.cdf(t - means)
    chances = [np.prod(stats.norm.cdf(offset - means), -1)]
    for k in range(means.shape[-1]):
        height = stats.norm.pdf(t[..., 0] - means[..., k]) * np.prod(np.delete(below, k, -1), -1)
        chances.append(integrate.simpson(height, x=t.ravel(), axis=0))
    return np.stack(chances, -1)


@pytest.mark.parametrize("means", [MEANS, (2.5, -3.0), (-6.0, 4.0, 0.0, 1.0), (0.0,) * 9])
def test_class_has_the_probability_of_quadrature(means):
    found = [wedge(code, means=means).log_mass().item() for code in range(len(means) + 1)]
    assert found == pytest.approx(np.log(chances_of(means)), rel=1e-7, abs=1e-8)
    assert sum(map(math.exp, found)) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", ["below", "above", "narrow", "far"])
def test_interval_has_mass_and_mean_of_the_normal(name):
    low, high = (end.item() for end in (interval(name).lower, interval(name).upper))
    truth = stats.truncnorm(low, high)
    mass = stats.norm.sf(low) - stats.norm.sf(high)
    assert interval(name).log_mass().item() == pytest.approx(math.log(mass), rel=1e-7)
    assert interval(name).mean().item() == pytest.approx(truth.mean(), rel=1e-6)


REGIONS = {
    **{
        f"class {code}": (lambda rows, c=code: wedge(c, rows), lambda u, c=code: in_wedge(u, c), 3) for code in range(4)
    },
    **{n: (lambda rows, n=n: interval(n, rows), lambda u, n=n: in_interval(u, n), 1) for n in ("below", "above")},
}


@pytest.mark.parametrize("name", REGIONS)
def test_region_draws_and_averages_as_rejection_does(name):
    make, inside, dim = REGIONS[name]
    kept = noise(400_000, dim)
    kept = kept[inside(kept)]
    drawn = make(20_000).draw(uniform(20_000, dim))

    assert inside(drawn).all()
    error = 4 * kept.std(0) * (1 / len(kept) + 1 / len(drawn)) ** 0.5
    assert ((drawn.mean(0) - kept.mean(0)).abs() < error).all()
    assert ((make(1).mean()[0] - kept.mean(0)).abs() < error).all()
    for k in range(dim):
        assert stats.ks_2samp(drawn[:, k], kept[:20_000, k]).pvalue > 1e-4


@pytest.mark.parametrize("name", REGIONS)
def test_map_into_a_region_keeps_its_volume(name):
    make, inside, dim = REGIONS[name]
    w = noise(200_000, dim, seed=1)
    centre, width = torch.full((1, dim), 0.4, dtype=torch.float64), 0.7

    u, log_volume = make(len(w)).inside(w, centre, width)

    assert inside(u).all()
    # The integral of a normal density over the region, and its mean there, by rejection.
    weight = (-0.5 * ((u - centre) / width).square().sum(-1) + log_volume + 0.5 * w.square().sum(-1)).exp()
    kept = centre + width * noise(400_000, dim, seed=2)
    there = inside(kept)
    assert weight.mean().item() == pytest.approx(there.double().mean().item(), rel=0.02)
    mean = (weight.unsqueeze(-1) * u).sum(0) / weight.sum()
    assert ((mean - kept[there].mean(0)).abs() < 0.02).all()


@pytest.mark.parametrize("name", REGIONS)
def test_nearest_noise_is_inside_and_no_other_is_nearer(name):
    make, inside, dim = REGIONS[name]
    others = 2 * noise(400_000, dim, seed=3)
    others = others[inside(others)]
    u = 2 * noise(40, dim, seed=4)

    near = make(len(u)).nearest(u)

    assert inside(near).all()
    assert (near[inside(u)] == u[inside(u)]).all()
    distance = (near - u).norm(dim=-1)
    rivals = torch.cdist(u, others).amin(-1)
    assert (distance <= rivals + 2 * NOISE_MARGIN).all()
    assert (rivals - distance).median() < 0.1


def test_slope_of_the_mass_is_the_mean_of_the_noise():
    means = torch.tensor([MEANS], dtype=torch.float64, requires_grad=True)
    for code in range(4):
        x = torch.nn.functional.one_hot(torch.tensor([code]), 4)[:, 1:].double()
        region = Wedge(x, means, 1.0)
        slope = torch.autograd.grad(region.log_mass().sum(), means)[0]
        assert torch.allclose(slope, region.mean(), atol=1e-8)


# a, b -> c, where c is a category of some kind whose probabilities are known.
def simulate(kind, rows):
    stream = np.random.default_rng(0)
    a, b = stream.normal(size=(2, rows))
    if kind == "classes":
        truth = chances_of(np.stack([0.8 * a + 0.5, -0.6 * a + 0.4 * b, 0.2 - 0.7 * b], -1)[:400])
        g = np.stack([0.8 * a + 0.5, -0.6 * a + 0.4 * b, 0.2 - 0.7 * b], -1) + stream.normal(size=(rows, 3))
        c = np.where(g.max(-1) > 1.0, g.argmax(-1) + 1, 0)
    elif kind == "logit":
        odds = np.exp(np.stack([0 * a, 1.5 * a, -b], -1))
        truth = odds / odds.sum(-1, keepdims=True)
        c = (stream.uniform(size=(rows, 1)) > truth.cumsum(-1)).sum(-1)
    elif kind == "ordered":
        cuts, means = np.array([-np.inf, -0.8, 0.1, 1.3, np.inf]), 0.7 * a + 0.6 * b
        truth = np.diff(stats.norm.cdf(cuts - means[:, None]), axis=-1)
        c = np.digitize(means + stream.normal(size=rows), cuts[1:-1])
    else:
        means = 0.9 * a - 0.5 * b + 0.3 if kind == "two" else 1.5 * np.sin(2 * a) + 0.5 * b
        truth = np.stack([stats.norm.cdf(-means), stats.norm.cdf(means)], -1)
        c = (means + stream.normal(size=rows) > 0).astype(int)
    return {"a": a, "b": b, "c": np.array(["l", "m", "n", "o"], dtype=object)[c]}, truth


def fit_category(kind, rows):
    data, truth = simulate(kind, rows)
    types = {"c": ["l", "m", "n", "o"]} if kind == "ordered" else {}
    law = bc.Categorical() if kind in ("logit", "bent") else bc.Categorical(points=0, hidden=[])
    scm = bc.SCM(bc.CausalGraph.parse("a, b -> c"), {"a": bc.Linear(), "b": bc.Linear(), "c": law}, types=types)
    scm.fit(data, progress=False)
    return scm, data, truth


@pytest.mark.parametrize("kind", ["classes", "two", "ordered", "logit", "bent"])
def test_class_probabilities_are_those_of_the_law(kind):
    scm, data, truth = fit_category(kind, 10_000 if kind == "logit" else 20_000)
    part = {name: column[:400] for name, column in data.items()}

    found = [
        scm.log_prob({**part, "c": np.full(400, each)}, of=["c"]).exp().numpy() for each in scm.schema.levels["c"].items
    ]

    gaps = np.abs(np.stack(found, -1) - truth[:400])
    assert np.stack(found).sum(0) == pytest.approx(np.ones(400), abs=1e-9)
    # A law of another form is met on the whole, and is off where there are few rows.
    assert (gaps.mean() if kind in ("logit", "bent") else np.quantile(gaps, 0.98)) < 0.02
    assert kind != "bent" or scm.report["c"].notes[0].startswith("smooth part kept")


def test_whole_numbers_have_the_probabilities_of_their_law():
    """Rounded normal numbers, whose probabilities are known."""
    stream = np.random.default_rng(0)
    a = stream.normal(size=8000)
    n = np.round(4 + 1.5 * a + 1.2 * stream.normal(size=8000)).astype(int)
    scm = bc.SCM(bc.CausalGraph.parse("a -> n"), {"a": bc.Linear(), "n": bc.Integer(bc.Linear())})
    scm.fit({"a": a, "n": n}, progress=False)

    for value in (2, 4, 7):
        at = {"a": [-1.0, 0.0, 1.0], "n": [value] * 3}
        truth = [stats.norm(4 + 1.5 * x, 1.2) for x in at["a"]]
        expected = [law.cdf(value + 0.5) - law.cdf(value - 0.5) for law in truth]
        assert scm.log_prob(at, of=["n"]).exp().tolist() == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("law", [bc.Integer(bc.Flow()), bc.Categorical()], ids=["whole numbers", "classes"])
def test_nearest_noise_is_derived_by_the_parents_that_move(law):
    """a, b, c -> n, by some parents as by all."""
    draw = np.random.default_rng(0)
    data = {name: draw.normal(size=300) for name in "abc"}
    count = np.digitize(np.sin(3 * data["a"]) + data["b"] + draw.normal(size=300), [-0.5, 0.5])
    data["n"] = count if isinstance(law, bc.Integer) else np.array(["x", "y", "z"])[count]
    scm = bc.SCM(bc.CausalGraph.parse("a, b, c -> n"), {"n": law})
    scm.fit(data, training=bc.Training(epochs=3), progress=False)
    fitted, x = scm.mechanisms["n"], scm.schema.read_values(data)
    parents = torch.cat([x[name] for name in scm.graph.parents("n")], -1)
    u = noise(300, fitted.noise_dim)

    nearest, by_parents = fitted.nearest_and_jacobian(x["n"].roll(1, 0), parents, u)

    assert (by_parents != 0).any()
    for moving in ([], [1], [2, 0]):
        again, by_moving = fitted.nearest_and_jacobian(x["n"].roll(1, 0), parents, u, moving)
        torch.testing.assert_close(again, nearest, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(by_moving, by_parents[..., moving], rtol=1e-10, atol=1e-10)


def test_counts_may_attain_their_bound():
    stream = np.random.default_rng(0)
    n = stream.poisson(1.5, size=3000)
    scm = bc.SCM(bc.CausalGraph({"n": []}), bounds={"n": (0, None)})
    report = scm.fit({"n": n}, training=bc.Training(epochs=40), progress=False)

    assert report["n"].type == "integer"
    assert report["n"].mechanism == "Integer"
    drawn = scm.sample(20_000, seed=0).to_frame()["n"]
    assert drawn.dtype == np.int64
    assert drawn.min() == 0
    shares = [(drawn == k).mean() for k in range(6)]
    assert shares == pytest.approx(stats.poisson(1.5).pmf(range(6)), abs=0.03)
    assert (scm.predict(scm.abduct({"n": n}))["n"].numpy() == n).all()


@pytest.mark.parametrize("bounds", [(None, None), (0, None)])
def test_few_counts_of_few_values_are_nearly_as_likely_as_by_their_law(bounds):
    """a -> n, Poisson numbers with a mean of about 1, of which 300 rows show six values or so."""
    data, test = [], []
    for seed, rows in ((0, 300), (1, 4000)):
        stream = np.random.default_rng(seed)
        a = stream.normal(size=rows)
        (data if rows == 300 else test).extend([a, stream.poisson(np.exp(0.4 * a - 0.1))])
    scm = bc.SCM(bc.CausalGraph.parse("a -> n"), {"a": bc.Linear()}, types={"n": "integer"}, bounds={"n": bounds})
    scm.fit({"a": data[0], "n": data[1]}, progress=False, seed=0)

    found = scm.log_prob({"a": test[0], "n": test[1]}, of=["n"]).mean().item()

    truth = stats.poisson.logpmf(test[1], np.exp(0.4 * test[0] - 0.1)).mean()
    # The shares of nine values in a law of one cause, learned freely, would be off by 18 weights / 600.
    assert truth - found < 18 / 600 + 0.01
    drawn = scm.sample(20_000, seed=0, do={"a": 0.0}).to_frame()["n"]
    assert [(drawn == k).mean() for k in range(4)] == pytest.approx(stats.poisson(np.exp(-0.1)).pmf(range(4)), abs=0.1)


def test_bounds_of_whole_numbers_are_whole():
    n = np.random.default_rng(0).integers(0, 9, 600)
    scm = bc.SCM(bc.CausalGraph({"n": []}), {"n": bc.Integer(bc.Linear())}, bounds={"n": (-0.3, 8.7)})
    scm.fit({"n": n}, progress=False)
    assert np.unique(scm.sample(2000, seed=0).values["n"]).tolist() == list(range(9))


def test_saved_categories_come_back(tmp_path):
    stream = np.random.default_rng(0)
    a, n = stream.normal(size=400), stream.poisson(3, size=400)
    data = {"a": a, "n": n, "t": a + stream.normal(size=400) > 0, "w": np.where(n > 2, "many", "few").astype(object)}
    data["w"][:20] = "none"
    graph = bc.CausalGraph.parse("a -> n, t; n -> w")
    scm = bc.SCM(graph, {"a": bc.Linear(), "n": bc.Integer(bc.Linear())}, types={"w": ["none", "few", "many"]})
    scm.fit(data, progress=False, training=bc.Training(epochs=5))
    scm.save(tmp_path / "model")

    again = bc.SCM.load(tmp_path / "model")

    assert repr(again) == repr(scm)
    assert again.schema.levels == scm.schema.levels
    assert torch.equal(again.log_prob(data), scm.log_prob(data))
    first, second = (each.sample(50, seed=1).to_frame() for each in (scm, again))
    assert first.equals(second)
    assert [first[name].dtype.kind for name in "antw"] == ["f", "i", "b", "O"]
