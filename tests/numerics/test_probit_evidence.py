"""The evidence of classes against quadrature, another implementation and finite differences."""

import itertools

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from deepbc.numerics.gp_regression import CONSTANT
from deepbc.numerics.probit_evidence import Evidence, find_class_hyperparameters

GROUPS = [1, 1, 2]


def draw(rows, truths=1, seed=0):
    stream = np.random.default_rng(seed)
    x = stream.normal(size=(rows, 4))
    score = np.sin(2 * x[:, 0]) + x[:, 1] + stream.normal(size=(truths, rows))
    return torch.tensor(x), torch.tensor(np.where(score > 0, 1.0, -1.0))


def covariance(theta, x):
    slopes, lengths, smooth = (np.exp(np.asarray(part)) for part in (theta[:3], theta[3:6], theta[6]))
    each = np.repeat(slopes, GROUPS)
    square = ((x[:, None] - x[None]) / np.repeat(lengths, GROUPS)) ** 2
    return (x * each**2) @ x.T + smooth**2 * np.exp(-0.5 * square.sum(-1)) + CONSTANT**2


def log_evidence(k, truths):
    """That of a given covariance."""
    evidence = Evidence(torch.zeros(len(k), 4).double(), torch.zeros(len(k), 4).double(), truths, GROUPS, smooth=True)
    return evidence._log_evidence(torch.as_tensor(k))[0]


THETA = torch.tensor([-0.5, 0.2, -1.0, 0.3, 0.8, 1.5, 0.1], dtype=torch.float64)


def test_evidence_is_the_laplace_formula_of_another_implementation():
    x, truths = draw(25)
    k, t = covariance(THETA, x.numpy()) + 1e-8 * np.eye(25), truths[0].numpy()
    inverse = np.linalg.inv(k)

    def negative(f):
        return 0.5 * f @ inverse @ f - stats.norm.logcdf(t * f).sum()

    found = optimize.minimize(negative, np.zeros(25), method="BFGS", options={"gtol": 1e-7}).x
    ratio = np.exp(stats.norm.logpdf(found) - stats.norm.logcdf(t * found))
    w = ratio * (ratio + t * found)
    expected = -negative(found) - 0.5 * np.linalg.slogdet(np.eye(25) + k * w)[1]
    assert log_evidence(k, truths) == pytest.approx(expected, abs=1e-4)


def test_evidence_nears_that_of_quadrature():
    """Two rows, whose integral is a sum over a grid; the smaller the covariance, the more normal the posterior."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    weight = np.outer(weights, weights).ravel() / (2 * np.pi)
    errors = []
    for scale in (1.0, 0.5, 0.25):
        k = scale * np.array([[1.0, 0.6], [0.6, 1.5]])
        f = z @ np.linalg.cholesky(k).T
        gaps = []
        for truths in itertools.product([1.0, -1.0], repeat=2):
            exact = weight @ stats.norm.cdf(f * np.array(truths)).prod(-1)
            gaps.append(abs(log_evidence(k, torch.tensor([truths], dtype=torch.float64)) - np.log(exact)))
        errors.append(max(gaps))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.01


@pytest.mark.parametrize("smooth", [False, True])
def test_gradient_of_the_evidence_is_that_of_differences(smooth):
    x, truths = draw(60, truths=2)
    evidence = Evidence(x, x, truths, GROUPS, smooth=smooth)
    theta = THETA if smooth else THETA[:3]
    _, gradient = evidence(theta)
    for k, step in enumerate(1e-4 * torch.eye(len(theta), dtype=torch.float64)):
        difference = (evidence(theta + step)[0] - evidence(theta - step)[0]) / 2e-4
        assert gradient[k].item() == pytest.approx(difference, abs=2e-3)


def test_causes_that_bend_nothing_get_long_lengths():
    x, truths = draw(400, seed=1)
    hyper = find_class_hyperparameters(x, x, truths, GROUPS, smooth=True)
    assert hyper.lengths[0] < 2
    assert (hyper.lengths[2:] > 3 * hyper.lengths[0]).all()
    assert (hyper.slopes[2:] < 0.5 * hyper.slopes[1]).all()
    assert hyper.lengths[2] == hyper.lengths[3]


def test_slopes_of_separable_classes_stay_finite():
    x, _ = draw(100)
    hyper = find_class_hyperparameters(x, x, torch.where(x[:, 0] > 0, 1.0, -1.0).double()[None], GROUPS, smooth=False)
    assert hyper.slopes.max() < 30
