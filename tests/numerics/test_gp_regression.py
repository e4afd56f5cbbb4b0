"""Gaussian processes against scipy's normal density, finite differences and explicit refits."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from deepbc.numerics import gp_regression as gp
from deepbc.numerics.radial_kernels import KERNELS

STREAM = torch.Generator().manual_seed(0)
ROWS = 60


def draw(*shape):
    return torch.randn(*shape, generator=STREAM, dtype=torch.float64)


INPUTS = draw(ROWS, 3)
OUTPUTS = INPUTS[:, 0].sin() + 0.5 * INPUTS[:, 2] + 0.3 * draw(ROWS)
# The first two components have one length scale.
GROUPS = (2, 1)


def covariance(hyper, a, b):
    """The kernels of the docstrings, written out."""
    square = (((a[:, None] - b[None]) / hyper.lengths) ** 2).sum(-1)
    if hyper.kernel is KERNELS[0]:
        similar = torch.exp(-0.5 * square)
    else:
        similar = (1 + (5 * square).sqrt() + 5 * square / 3) * torch.exp(-(5 * square).sqrt())
    return gp.CONSTANT**2 + hyper.slope**2 * a @ b.T + hyper.smooth**2 * similar


@pytest.mark.parametrize("kernel", KERNELS)
def test_evidence_is_that_of_a_normal_density_with_its_gradient(kernel):
    pairs = gp.Pairs.of(INPUTS, INPUTS, GROUPS)
    theta = torch.tensor([0.3, 0.8, -0.4, -0.9, -1.1], dtype=torch.float64)

    def negative(theta):
        return gp._negative_evidence(theta, pairs, OUTPUTS, 1.2, kernel)

    lengths = theta[:2].exp().repeat_interleave(torch.tensor(GROUPS))
    hyper = gp.Hyperparameters(lengths, *theta[2:].exp().tolist(), 0.0, kernel)
    noisy = covariance(hyper, INPUTS, INPUTS) + (hyper.noise**2 + gp.JITTER) * torch.eye(ROWS)
    expected = -stats.multivariate_normal.logpdf(OUTPUTS.numpy(), np.zeros(ROWS), noisy.numpy())
    middles = [1.2, 1.2, *(each for each, _ in gp.AMPLITUDE_PRIOR)]
    widths = [math.sqrt(3)] * 2 + [each for _, each in gp.AMPLITUDE_PRIOR]
    expected += 0.5 * sum(((t - m) / w) ** 2 for t, m, w in zip(theta.tolist(), middles, widths, strict=True))
    value, gradient = negative(theta)

    # The covariance has a condition number of some 1e5.
    assert abs(value - expected) < 1e-6
    for k in range(5):
        shift = torch.zeros(5, dtype=torch.float64).index_fill(0, torch.tensor([k]), 1e-5)
        slope = (negative(theta + shift)[0] - negative(theta - shift)[0]) / 2e-5
        assert abs(slope - gradient[k].item()) < 1e-4 * max(1, abs(slope))


@pytest.mark.parametrize("kernel", KERNELS)
def test_ridge_on_the_basis_is_the_posterior_mean_of_the_process(kernel):
    hyper = gp.Hyperparameters(torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64), 0.8, 0.5, 0.3, 0.0, kernel)
    basis = gp.span(INPUTS, hyper, ROWS)
    ridge = gp.solve_ridge(basis(INPUTS, INPUTS), OUTPUTS, torch.full_like(OUTPUTS, hyper.noise**2))
    noisy = covariance(hyper, INPUTS, INPUTS) + hyper.noise**2 * torch.eye(ROWS)
    elsewhere = draw(20, 3)
    expected = covariance(hyper, elsewhere, INPUTS) @ torch.linalg.solve(noisy, OUTPUTS)
    found = basis(elsewhere, elsewhere) @ ridge.weights
    # That is what the points may leave of the smooth part's variance.
    assert (found - expected).square().mean() < gp.allowed_variance(ROWS, hyper)


def test_residual_over_one_minus_leverage_is_that_of_a_refit_without_the_row():
    hyper = gp.Hyperparameters(torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64), 0.8, 0.5, 0.3, 0.0, KERNELS[0])
    coordinates = gp.span(INPUTS, hyper, ROWS)(INPUTS, INPUTS)
    variances = 0.05 + 0.1 * torch.rand(ROWS, generator=STREAM, dtype=torch.float64)
    ridge = gp.solve_ridge(coordinates, OUTPUTS, variances)
    for row in range(0, ROWS, 7):
        others = torch.arange(ROWS) != row
        refit = gp.solve_ridge(coordinates[others], OUTPUTS[others], variances[others])
        expected = OUTPUTS[row] - coordinates[row] @ refit.weights
        found = (OUTPUTS[row] - ridge.fitted[row]) / (1 - ridge.leverage[row])
        assert abs(found - expected) < 1e-8


def test_points_that_span_reproduce_the_kernel_of_all_rows():
    rows = draw(500, 2)
    hyper = gp.Hyperparameters(torch.tensor([1.5, 3.0], dtype=torch.float64), 1.0, 0.5, 0.2, 0.0, KERNELS[0])
    basis = gp.span(rows, hyper, 200)
    smooth = basis(rows, rows)[:, 3:]
    exact = covariance(hyper, rows, rows) - gp.CONSTANT**2 - hyper.slope**2 * rows @ rows.T
    assert len(basis.points) < 100
    assert (exact - smooth @ smooth.T).diagonal().mean() <= gp.allowed_variance(500, hyper)


def test_evidence_finds_noise_and_the_input_that_matters():
    rows = draw(400, 2)
    outputs = (3 * rows[:, 0]).sin() + 0.3 * draw(400)
    hyper = gp.find_hyperparameters(gp.Pairs.of(rows, rows, (1, 1)), outputs, KERNELS[0])
    assert abs(hyper.noise - 0.3) < 0.05
    assert hyper.lengths[1] > 5 * hyper.lengths[0]


def test_nothing_bends_where_the_truth_is_linear():
    rows = draw(400, 3)
    outputs = rows @ torch.tensor([0.5, -0.3, 0.0], dtype=torch.float64) + 0.5 * draw(400)
    hyper = gp.find_hyperparameters(gp.Pairs.of(rows, rows, (1, 1, 1)), outputs, KERNELS[0])
    ridge = gp.solve_ridge(gp.span(rows, hyper, 96)(rows, rows), outputs, torch.full_like(outputs, hyper.noise**2))
    linear = torch.linalg.lstsq(torch.cat([torch.ones(400, 1), rows], 1), outputs[:, None]).solution
    fitted = torch.cat([torch.ones(400, 1), rows], 1) @ linear
    assert (ridge.fitted - fitted.squeeze(-1)).square().mean().sqrt() < 0.1
