"""Densities of one number against quadrature, closed forms and the densities that rows were drawn from."""

import math

import pytest
import torch
from scipy import stats

from deepbc.numerics.univariate_density import Mixture, Normal, SinhArcsinh, choose_density, estimate

STREAM = torch.Generator().manual_seed(0)


def number(value):
    return torch.tensor(value, dtype=torch.float64)


DENSITIES = {
    "normal": Normal(0.3, 1.4),
    "sinh-arcsinh": SinhArcsinh(number(0.2), number(-0.3), number(0.4), number(-0.5)),
    "mixture": Mixture(number([0.2, 0.5, 0.3]).log(), number([-2.0, 0.0, 1.5]), number([0.3, 0.5, 1.0])),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_density_integrates_to_one_and_its_quantiles_invert_it(name):
    density = DENSITIES[name]
    z = torch.linspace(-400, 400, 2_000_001, dtype=torch.float64)
    u = torch.linspace(-7, 7, 141, dtype=torch.float64)
    assert abs(torch.trapezoid(density.log_prob(z).exp(), z).item() - 1) < 1e-6
    assert (density.noise(density.quantile(u)) - u).abs().max() < 1e-4


@pytest.mark.parametrize("name", DENSITIES)
def test_slope_is_the_derivative_of_the_noise(name):
    density, z = DENSITIES[name], torch.linspace(-3, 3, 61, dtype=torch.float64)
    slope = (density.noise(z + 1e-5) - density.noise(z - 1e-5)) / 2e-5
    assert torch.allclose(density.slope(z), slope, rtol=1e-5)


def test_noise_of_a_mixture_is_the_normal_quantile_of_its_distribution_function():
    mixture, z = DENSITIES["mixture"], torch.linspace(-4, 4, 41, dtype=torch.float64)
    parts = zip([0.2, 0.5, 0.3], [-2.0, 0.0, 1.5], [0.3, 0.5, 1.0], strict=True)
    expected = stats.norm.ppf(sum(w * stats.norm.cdf(z.numpy(), m, s) for w, m, s in parts))
    assert torch.allclose(mixture.noise(z), torch.as_tensor(expected), atol=1e-9)


# What is drawn, its logarithmic density, and how many nats the choice may lose at 300 and at 5,000 rows.
TRUTHS = {
    "normal": (stats.norm(), 0.01, 0.002),
    "t3": (stats.t(3), 0.05, 0.01),
    "gamma": (stats.gamma(4), 0.05, 0.01),
    "two modes": (None, 0.03, 0.005),
}


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("rows", [300, 5000])
def test_chosen_density_is_near_that_of_the_rows(name, rows):
    truth, few, many = TRUTHS[name]

    def draw(count, seed):
        if truth is not None:
            return torch.as_tensor(truth.rvs(count, random_state=seed))
        sides = stats.bernoulli(0.5).rvs(count, random_state=seed) * 2 - 1
        return torch.as_tensor(sides * 1.5 + stats.norm.rvs(0, 0.4, count, random_state=seed + 1000))

    def log_prob(z):
        if truth is not None:
            return torch.as_tensor(truth.logpdf(z.numpy()))
        modes = [stats.norm.logpdf(z.numpy(), mean, 0.4) for mean in (-1.5, 1.5)]
        return torch.logaddexp(*map(torch.as_tensor, modes)) - math.log(2)

    test = draw(50_000, 7)
    losses = []
    for seed in range(5):
        _, density = choose_density(draw(rows, seed))
        losses.append((log_prob(test) - density.log_prob(test)).mean().item())
    assert sum(losses) / 5 < (few if rows == 300 else many)


def test_normal_rows_are_taken_for_normal_ones():
    names = [choose_density(torch.randn(500, generator=STREAM, dtype=torch.float64))[0] for _ in range(40)]
    assert names.count("normal") >= 34


def test_ties_earn_no_spike():
    z = torch.randn(1000, generator=STREAM, dtype=torch.float64)
    z[:300] = 0.7
    density = estimate("mixture of 8", z)
    assert density.log_prob(number([0.7])).exp().item() < 5
