"""Censored laws against the closed forms of the Tobit model, an optimiser of another library and true equations."""

import numpy as np
import pytest
import torch
from scipy import optimize, stats

import deepbc as bc
from deepbc.data.variables import Family, Variable
from deepbc.mechanisms.tobit import fit_tobit
from deepbc.numerics.seeding import generator

LOW, HIGH = -0.4, 1.1


def tobit(floor=LOW, ceiling=HIGH, shift=0.2, slope=0.7, sd=0.8):
    """A censored linear law with known weights."""
    child = Variable("x", (), floor, ceiling, floor=floor, ceiling=ceiling)
    law = bc.Censored(bc.Linear()).bind(Family(child, (Variable("p"),)), generator(0))
    for buffer, value in ((law.law.shift, shift), (law.law.slope, slope), (law.law.factor, sd)):
        buffer.fill_(value)
    return law


def rows(*numbers):
    return torch.tensor(numbers, dtype=torch.float64).unsqueeze(-1)


def test_probabilities_and_densities_are_those_of_the_tobit_model():
    law, p = tobit(), np.array([-2.0, 0.3, 1.7])
    mean = 0.2 + 0.7 * p
    below = law.log_prob(rows(LOW, LOW, LOW), rows(*p))
    above = law.log_prob(rows(HIGH, HIGH, HIGH), rows(*p))
    between = law.log_prob(rows(-0.1, 0.5, 1.0), rows(*p))
    assert np.allclose(below, stats.norm(mean, 0.8).logcdf(LOW), rtol=0, atol=1e-12)
    assert np.allclose(above, stats.norm(mean, 0.8).logsf(HIGH), rtol=0, atol=1e-12)
    assert np.allclose(between, stats.norm(mean, 0.8).logpdf([-0.1, 0.5, 1.0]), rtol=0, atol=1e-12)


def test_mass_and_density_add_to_one():
    law, p = tobit(), rows(0.3)
    x = torch.linspace(LOW + 1e-9, HIGH - 1e-9, 20_001, dtype=torch.float64).unsqueeze(-1)
    inside = torch.trapezoid(law.log_prob(x, p.expand(len(x), -1)).exp(), x.squeeze(-1))
    ends = law.log_prob(rows(LOW, HIGH), p.expand(2, -1)).exp().sum()
    assert abs(float(inside + ends) - 1) < 1e-6


def test_noise_of_an_end_is_the_mean_of_the_truncated_normal():
    law, p = tobit(), rows(0.3, 0.3, 0.3)
    end = (np.array([LOW, HIGH]) - 0.41) / 0.8
    found = law.abduct(rows(LOW, 0.5, HIGH), p).squeeze(-1)
    expected = [stats.truncnorm(-np.inf, end[0]).mean(), (0.5 - 0.41) / 0.8, stats.truncnorm(end[1], np.inf).mean()]
    assert np.allclose(found, expected, rtol=0, atol=1e-9)
    assert torch.equal(law.predict(found.unsqueeze(-1), p)[[0, 2]], rows(LOW, HIGH))


def test_nearest_noise_is_the_projection_on_the_region():
    law, p = tobit(), rows(*[0.3] * 4)
    end = (LOW - 0.41) / 0.8
    found = law.nearest(rows(LOW, LOW, 0.5, 0.5), p, rows(-3.0, 2.0, 0.0, 4.0)).squeeze(-1)
    assert np.allclose(found, [-3.0, end, (0.5 - 0.41) / 0.8, (0.5 - 0.41) / 0.8], rtol=0, atol=2e-6)
    assert found[1] < end


def test_draws_of_an_end_have_the_truncated_normal_distribution():
    law, count = tobit(), 4000
    uniform = (torch.arange(count, dtype=torch.float64).unsqueeze(-1) + 0.5) / count
    u = law.draw(rows(LOW).expand(count, -1), rows(0.3).expand(count, -1), uniform).squeeze(-1)
    assert stats.kstest(u, stats.truncnorm(-np.inf, (LOW - 0.41) / 0.8).cdf).pvalue > 0.9


def test_nearest_and_its_derivatives_are_those_of_differences():
    law, step = tobit(), 1e-6
    x, u = rows(LOW, LOW, HIGH, HIGH, 0.5), rows(-3.0, 2.0, 3.0, -2.0, 0.0)
    p = rows(0.3, 0.3, 0.3, 0.3, 0.3)
    _, slope = law.nearest_and_jacobian(x, p, u)
    expected = (law.nearest(x, p + step, u) - law.nearest(x, p - step, u)) / (2 * step)
    assert torch.allclose(slope.squeeze(-1), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_those_of_another_optimiser(seed):
    draw = np.random.default_rng(seed)
    z = draw.normal(size=(300, 2))
    latent = 0.3 + z @ draw.uniform(-1, 1, size=2) + draw.uniform(0.3, 1.5) * draw.normal(size=300)
    low, high = np.quantile(latent, [draw.uniform(0, 0.6), 0.9])
    y = latent.clip(low, high)
    below, above = y <= low, y >= high

    def loss(parameters):
        mean, sd = parameters[0] + z @ parameters[1:3], np.exp(parameters[3])
        each = np.where(below, stats.norm.logcdf((low - mean) / sd), stats.norm.logpdf(y, mean, sd))
        return -np.where(above, stats.norm.logsf((high - mean) / sd), each).sum()

    best = optimize.minimize(loss, [0.0, 0.0, 0.0, 0.0], method="BFGS", options={"gtol": 1e-6})
    masks = torch.from_numpy(below), torch.from_numpy(above)
    shift, slope, factor = fit_tobit(torch.from_numpy(z), torch.from_numpy(y[:, None]), *masks, "y")
    assert np.allclose(torch.cat([shift, slope[:, 0], factor[0].log()]), best.x, rtol=0, atol=1e-4)


def test_a_flow_learns_a_censored_law_and_beats_a_plain_one():
    # a -> c, c = max(0, exp-like of a and noise); the truth is known
    draw = np.random.default_rng(0)
    a = draw.normal(size=6000)
    latent = 0.9 * a + (0.4 + 0.3 / (1 + np.exp(-a))) * draw.normal(size=6000)
    c = latent.clip(0.0)
    data, new = ({"a": a[part], "c": c[part]} for part in (slice(3000), slice(3000, None)))
    mean, sd = 0.9 * a[3000:], 0.4 + 0.3 / (1 + np.exp(-a[3000:]))
    truth = np.where(c[3000:] > 0, stats.norm.logpdf(c[3000:], mean, sd), stats.norm.logcdf(-mean / sd))

    scm = bc.SCM(bc.CausalGraph.parse("a -> c"), {"a": bc.Linear()})
    scm.fit(data, progress=False)
    assert isinstance(scm.mechanisms["c"], bc.Censored)
    found = scm.log_prob(new, of=["c"]).numpy()
    assert (truth - found).mean() < 0.01

    # The share of zeros given the cause is the true one; that of a plain flow is none at all.
    some = rows(*np.linspace(-2, 2, 9))
    share = scm.mechanisms["c"].log_prob(torch.zeros_like(some), some).exp()
    p = some.squeeze(-1).numpy()
    assert np.abs(share.numpy() - stats.norm.cdf(-0.9 * p / (0.4 + 0.3 / (1 + np.exp(-p))))).max() < 0.03

    plain = bc.SCM(bc.CausalGraph.parse("a -> c"), {"a": bc.Linear()}, types={"c": "real"})
    plain.fit(data, progress=False)
    drawn = {
        name: each.sample(6000, do={"a": 0.0}, seed=0).values["c"].numpy() for name, each in (("c", scm), ("p", plain))
    }
    right = np.random.default_rng(1).normal(0, 0.55, size=6000).clip(0.0)
    gaps = {name: stats.wasserstein_distance(each, right) for name, each in drawn.items()}
    assert gaps["c"] < 0.03
    assert gaps["c"] < gaps["p"]
    assert (drawn["p"] == 0).mean() < 0.01


def test_a_right_model_of_a_lump_is_accepted_and_a_wrong_one_is_not():
    draw = np.random.default_rng(3)
    a = draw.normal(size=4000)
    c = (a + draw.normal(size=4000)).clip(-0.5, 1.5)
    data = {"a": a, "c": c}
    scm = bc.SCM(bc.CausalGraph.parse("a -> c"), {"a": bc.Linear(), "c": bc.Censored(bc.Linear())})
    scm.fit({name: each[:2000] for name, each in data.items()}, progress=False)
    new = {name: each[2000:] for name, each in data.items()}
    assert bc.check(scm, new).verdict == "accepted"
    assert (
        bc.check(scm, {**new, "c": (a[2000:] - draw.normal(size=2000)).clip(-0.1, 1.5).clip(-0.5)}).verdict
        != "accepted"
    )


def test_a_censored_model_is_saved_and_fitted_again(tmp_path):
    draw = np.random.default_rng(4)
    a = draw.normal(size=300)
    data = {"a": a, "c": (a + draw.normal(size=300)).clip(0.0)}
    scm = bc.SCM(bc.CausalGraph.parse("a -> c"), {"a": bc.Linear(), "c": bc.Linear()}, types={"c": "censored"})
    scm.fit(data, progress=False)
    scm.save(tmp_path / "model")
    again = bc.SCM.load(tmp_path / "model")
    assert again.variables == scm.variables
    assert torch.equal(again.log_prob(data), scm.log_prob(data))
    again.fit(data, progress=False)
    assert again.variables == scm.variables
    assert torch.allclose(again.log_prob(data), scm.log_prob(data), rtol=0, atol=1e-9)
    # Another detection limit is another floor.
    again.fit({**data, "c": data["c"].clip(0.2) - 0.3}, progress=False)
    assert again.variables["c"].floor == 0.2 - 0.3


def test_a_value_below_the_floor_is_refused():
    draw = np.random.default_rng(5)
    data = {"c": draw.normal(size=300).clip(0.0)}
    scm = bc.SCM(bc.CausalGraph({"c": []}))
    scm.fit(data, progress=False)
    with pytest.raises(bc.DataError, match=r"inside the bounds \(0, inf\)"):
        scm.log_prob({"c": -0.1})
    assert bc.backtrack(scm, {"c": 0.5}, {"c": -1.0}).status == "infeasible"
    assert bc.SCM(bc.CausalGraph({"c": []}), bounds={"c": (0, None)}).fit(data, progress=False)["c"].type == "censored"
