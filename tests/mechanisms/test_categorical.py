"""What laws of classes learn from few rows: against known probabilities, refits without a row, and autograd."""

import numpy as np
import pytest
import torch

import deepbc as bc
from deepbc.mechanisms.class_posterior import ClassPosterior, Ordered, Unordered, log_mass_of, region_of
from deepbc.numerics.seeding import generator

LABELS = np.array(["p", "q", "r", "s"], dtype=object)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed, "classes"), dtype=torch.float64)


def one_hot(codes, labels):
    return torch.nn.functional.one_hot(codes, labels)[:, 1:].double()


# a, b, c -> y, where c does nothing.
def draw(kind, rows, seed):
    stream = np.random.default_rng(seed)
    a, b, c = stream.normal(size=(3, rows))
    score = {"linear": 1.5 * a - b, "waves": 2.5 * np.sin(2 * a) + b, "three": a * b}[kind]
    scores = np.stack([0 * a, score, *([b - 0.5] if kind == "three" else [])], -1)
    chances = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    codes = (stream.uniform(size=(rows, 1)) > chances.cumsum(-1)[:, :-1]).sum(-1)
    return {"a": a, "b": b, "c": c, "y": LABELS[codes]}, chances


def fit(data, causes="a, b, c", **settings):
    graph = bc.CausalGraph.parse(f"{causes} -> y")
    laws = {name: bc.Linear() for name in graph.parents("y")}
    scm = bc.SCM(graph, laws, **settings)
    scm.fit(data, progress=False, seed=0)
    return scm


def chances_of(scm, data):
    rows = len(data["a"])
    found = [scm.log_prob({**data, "y": np.full(rows, each)}, of=["y"]) for each in scm.schema.levels["y"].items]
    return torch.stack(found, -1).exp().numpy()


@pytest.mark.parametrize("kind", ["linear", "waves", "three"])
def test_few_rows_teach_probabilities_that_are_nearly_true(kind):
    scm = fit(draw(kind, 1000, 0)[0])
    data, truth = draw(kind, 4000, 1)

    found = chances_of(scm, data)

    divergence = (truth * np.log(truth / found)).sum(-1).mean()
    # A regression with as many weights as there are bumps in use, fitted without a prior, is off by weights / 2 rows.
    law = scm.mechanisms["y"]
    weights = (4 + int(law.bumps.used)) * law.noise_dim
    assert divergence < weights / 2 / 1000 + 0.005
    assert found.sum(-1) == pytest.approx(np.ones(4000), abs=1e-6)


@pytest.mark.parametrize("rows", [100, 300])
def test_few_rows_do_not_make_it_too_sure(rows):
    """Of rows to which a label is given a chance, it has that share, within four standard errors, in ten fits."""
    given, there = [], []
    for seed in range(10):
        scm = fit(draw("linear", rows, seed)[0])
        data, truth = draw("linear", 1000, 100 + seed)
        given.append(chances_of(scm, data)[:, 1])
        there.append(truth[:, 1])
    given, there = np.array(given), np.array(there)
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.0)):
        inside = (given > low) & (given <= high)
        gaps = [(g[i] - t[i]).mean() for g, t, i in zip(given, there, inside, strict=True) if i.any()]
        assert abs(np.mean(gaps)) < 4 * np.std(gaps) / len(gaps) ** 0.5 + 0.01


def test_smooth_part_is_kept_where_it_pays_alone():
    assert fit(draw("linear", 600, 0)[0]).mechanisms["y"].shifts
    scm = fit(draw("waves", 600, 0)[0])
    assert not scm.mechanisms["y"].shifts
    assert scm.report["y"].notes[0].startswith("smooth part kept")


@pytest.mark.parametrize(("kind", "levels"), [("three", None), ("waves", ["p", "q"])])
def test_means_are_derived_as_differences_are(kind, levels):
    data, _ = draw(kind, 600, 0)
    scm = fit(data, types={"y": levels} if levels else {})
    law = scm.mechanisms["y"]
    assert law.bumps.used
    x = scm.schema.read_values({name: column[:20] for name, column in data.items()})
    parents = torch.cat([x[name] for name in "abc"], -1)

    means, slopes = law._means_and_jacobian(parents, slice(None))

    for k, step in enumerate(1e-5 * torch.eye(3, dtype=torch.float64)):
        difference = (law._means(parents + step) - law._means(parents - step)) / 2e-5
        torch.testing.assert_close(slopes[..., k], difference, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(means, law._means(parents))


def test_labels_of_a_cause_are_alike_whichever_is_the_first():
    stream = np.random.default_rng(0)
    k = stream.integers(0, 4, 300)
    y = np.where(np.array([0.0, 1.0, -1.0, 0.5])[k] + stream.normal(size=300) > 0, "p", "q").astype(object)
    found = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        labels = np.array([f"k{each}" for each in order], dtype=object)
        scm = bc.SCM(bc.CausalGraph.parse("k -> y"), {"k": bc.Categorical(points=0, hidden=[])})
        scm.fit({"k": labels[k], "y": y}, progress=False, seed=0)
        found.append(scm.log_prob({"k": labels[np.arange(4)], "y": np.full(4, "p", dtype=object)}, of=["y"]))
    torch.testing.assert_close(*found, rtol=0, atol=1e-3)


def test_separable_labels_keep_finite_logits():
    a = np.random.default_rng(0).normal(size=100)
    scm = fit({"a": a, "y": LABELS[(a > 0).astype(int)]}, "a")
    assert scm.mechanisms["y"].slope.abs().max() < 30


def test_rare_label_keeps_a_chance():
    a = np.random.default_rng(0).normal(size=300)
    scm = fit({"a": a, "y": LABELS[(np.arange(300) < 2).astype(int)]}, "a")
    chance = scm.log_prob({"a": [0.0], "y": ["q"]}, of=["y"]).exp().item()
    assert 0.5 / 301 < chance < 6 / 301


def test_many_rows_in_which_all_are_alike_are_counted():
    codes = np.random.default_rng(0).integers(0, 3, 30_000)
    scm = bc.SCM(bc.CausalGraph({"y": []}))
    scm.fit({"y": LABELS[codes]}, progress=False)
    found = scm.log_prob({"y": LABELS[:3]}, of=["y"]).exp().numpy()
    assert found == pytest.approx(np.bincount(codes) / 30_000, abs=1e-4)


@pytest.mark.parametrize("labels", [2, 3, 8])
def test_moments_are_those_of_the_region(labels):
    means = (1.5 * drawn(200, labels - 1)).requires_grad_()
    x = one_hot(torch.arange(200) % labels, labels)
    region = region_of(x, means, 1.0)
    slope = torch.autograd.grad(region.log_mass().sum(), means, create_graph=True)[0]
    curvature = torch.stack(
        [torch.autograd.grad(slope[:, k].sum(), means, retain_graph=True)[0][:, k] for k in range(labels - 1)], -1
    )

    mass, mean, variance = region.moments()

    # Fewer nodes, of which the module says how exact they are.
    torch.testing.assert_close(mass, region.log_mass(), rtol=0, atol=1e-4)
    torch.testing.assert_close(mean, slope, rtol=0, atol=1e-3)
    torch.testing.assert_close(variance - 1, curvature, rtol=0, atol=5e-3)


def test_fast_likelihood_has_the_gradient_of_the_exact_one():
    means = drawn(700, 4).requires_grad_()
    x = one_hot(torch.arange(700) % 5, 5)
    exact = torch.autograd.grad(region_of(x, means, 1.0).log_mass().sum(), means)[0]
    found = torch.autograd.grad(log_mass_of(x, means, 1.0).sum(), means)[0]
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-3)


def posterior(kind, rows=60):
    """A posterior of labels that depend on the first of three numbers."""
    coordinates = torch.cat([torch.full((rows, 1), 10.0).double(), 0.7 * drawn(rows, 3)], -1)
    score = coordinates[:, 1] + drawn(rows, seed=1)
    codes = (score > 0).long() + (score > 0.8).long() * (kind != "two")
    if kind == "ordered":
        return ClassPosterior(Ordered(codes, 2), coordinates[:, 1:], torch.ones(rows).double())
    x = one_hot(codes, 2 if kind == "two" else 3)
    return ClassPosterior(Unordered(x, 1.0), coordinates, torch.ones(rows).double())


@pytest.mark.parametrize("kind", ["two", "three", "ordered"])
def test_mode_has_no_slope(kind):
    found = posterior(kind)
    theta = found.mode().requires_grad_()
    others, weights = found.split(theta)
    log_p = found.likelihood.terms(found.coordinates @ weights, others)[0].sum() - 0.5 * weights.square().sum()
    # Autograd differentiates the integral node by node.
    slope = torch.autograd.grad(log_p, theta)[0]
    # A step that falls by 1e-3 nats is the last; slopes of a constant of size 10 are as many times as steep.
    assert slope.abs().max() < 10 * (2 * 1e-3 * 60) ** 0.5


@pytest.mark.parametrize("kind", ["two", "three", "ordered"])
def test_leave_one_out_is_that_of_refits(kind):
    found = posterior(kind)
    approximate = found.leave_one_out(found.mode())
    exact = []
    for row in range(60):
        counts = found.counts.clone()
        counts[row] = 0.0
        others, weights = found.split(ClassPosterior(found.likelihood, found.coordinates, counts).mode())
        exact.append(found.likelihood.terms(found.coordinates @ weights, others)[0][row])
    exact = torch.stack(exact)
    plain = found.likelihood.terms(found.coordinates @ found.split(found.mode())[1], found.split(found.mode())[0])[0]
    if kind == "ordered":
        # Cut points stay where they are, so that some of what looking at a row's own label gains is left.
        assert plain.mean() > approximate.mean() > exact.mean()
        return
    # It takes away nine tenths of that gain.
    assert (approximate - exact).abs().mean() < 0.25 * (plain - exact).abs().mean()
    assert abs((approximate - exact).mean()) < 0.1 * abs((plain - exact).mean())


def test_law_of_a_network_that_an_earlier_version_saved_is_read():
    """Such a state has no bumps, and settings without points."""
    data, _ = draw("three", 400, 0)
    scm = fit(data)
    family = scm.mechanisms["y"].family
    settings = bc.Categorical.read_settings({"hidden": [8], "temperature": 0.1, "offset": 1.0})
    before = bc.Categorical(**settings).bind(family, generator(0))
    saved = {key: each for key, each in before.state_dict().items() if not key.startswith("bumps")}
    saved["bent"] = torch.tensor(True)
    saved["network.bias"] = saved["network.bias"] + 0.5

    after = bc.Categorical(**settings).bind(family, generator(1))
    after.load_state_dict(after.read_weights(saved))

    torch.testing.assert_close(after._means(torch.zeros(1, 3).double()), torch.full((1, 2), 0.5).double())
