"""The truncated normal distribution against scipy."""

import numpy as np
import pytest
import torch
from scipy import stats

from deepbc.numerics.truncated_normal import inverse_mills_ratio, log_mass, mean_between, quantile_between, truncated

BOUNDS = [(-1.0, 0.5), (2.0, 9.0), (12.0, np.inf), (-np.inf, -25.0), (-np.inf, 1.0), (3.0, 3.001)]


def tensors(*numbers) -> list[torch.Tensor]:
    return [torch.tensor([each], dtype=torch.float64) for each in numbers]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_map_has_the_quantiles_of_scipy(lower, upper):
    w = torch.linspace(-3, 3, 31, dtype=torch.float64)
    ends = (torch.full_like(w, end) for end in (lower, upper))
    found, log_probability = truncated(w, *ends)
    truth = stats.truncnorm(lower, upper).ppf(stats.norm.cdf(w))
    assert np.allclose(found, truth, rtol=1e-9, atol=0)
    assert ((found >= lower) & (found <= upper)).all()
    sign = -1 if lower > 0 else 1
    low, high = sorted([sign * lower, sign * upper])
    assert log_probability[0].item() == pytest.approx(np.log(stats.norm.cdf(high) - stats.norm.cdf(low)), rel=1e-9)


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_mass_mean_and_quantiles_are_those_of_scipy(lower, upper):
    truth, bounds = stats.truncnorm(lower, upper), tensors(lower, upper)
    sign = -1 if lower > 0 else 1
    low, high = sorted([sign * lower, sign * upper])
    log_cdf = stats.norm.logcdf([low, high])
    assert log_mass(*bounds).item() == pytest.approx(log_cdf[1] + np.log(-np.expm1(log_cdf[0] - log_cdf[1])), rel=1e-9)
    # Against numerical integration; scipy's own mean loses digits in the tails.
    grid = truth.ppf((np.arange(200_000) + 0.5) / 200_000)
    assert mean_between(*bounds).item() == pytest.approx(grid.mean(), rel=1e-5)
    for probability in (0.01, 0.5, 0.99):
        found = quantile_between(*tensors(probability), *bounds)
        assert found.item() == pytest.approx(truth.ppf(probability), rel=1e-9)


def test_inverse_mills_ratio_is_minus_the_truncated_mean():
    bound = torch.linspace(-30, 6, 25, dtype=torch.float64)
    log_ratio = stats.norm.logpdf(bound) - stats.norm.logcdf(bound)
    assert np.allclose(inverse_mills_ratio(bound), np.exp(log_ratio), rtol=1e-9)
    assert torch.allclose(
        inverse_mills_ratio(bound), -mean_between(torch.full_like(bound, -torch.inf), bound), rtol=1e-9
    )


@pytest.mark.parametrize(("lower", "upper"), [(-np.inf, np.inf), (-2.0, np.inf), (0.5, 1.5)])
def test_gradients_with_infinite_bounds_are_finite(lower, upper):
    bounds = [each.requires_grad_() for each in tensors(lower, upper)]
    log_mass(*bounds).backward()
    finite = [each for each in bounds if each.isfinite().item()]
    # The derivative by the lower bound is minus the density there over the mass.
    mass = stats.norm.cdf(upper) - stats.norm.cdf(lower)
    for bound, sign in zip(bounds, (-1, 1), strict=True):
        if any(bound is each for each in finite):
            assert bound.grad.item() == pytest.approx(sign * stats.norm.pdf(bound.item()) / mass, rel=1e-9)
        else:
            assert bound.grad.isfinite()
