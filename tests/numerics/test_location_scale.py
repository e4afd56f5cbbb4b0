"""Regression with smooth mean and scale against the equations that rows were drawn from, and against refits."""

import math

import torch

from deepbc.numerics.location_scale import Design

STREAM = torch.Generator().manual_seed(0)


def draw(*shape):
    return torch.randn(*shape, generator=STREAM, dtype=torch.float64)


def fit_location_scale(inputs, outputs, groups, like=None):
    design = Design.of(inputs, inputs, groups, 96)
    if like is not None:
        return design.fit(outputs, like.mean.basis.hyper).repeat(like)

    return design.mean(outputs).complete()


def function(found, rows):
    return found.basis(rows, rows) @ found.weights


def test_scale_that_depends_on_inputs_is_found():
    c = draw(1000, 2)
    scale = torch.exp(0.7 * torch.tanh(c[:, 0]) - 0.7)
    fit = fit_location_scale(c, 0.8 * c[:, 1] + scale * draw(1000), (1, 1))
    fresh = draw(500, 2)
    truth = 0.7 * torch.tanh(fresh[:, 0]) - 0.7
    found = fit.log_scale + 0.5 * function(fit.log_variance, fresh)
    assert (function(fit.mean, fresh) - 0.8 * fresh[:, 1]).square().mean().sqrt() < 0.08
    # The log-scale is uncertain by 1 / sqrt(2 n) of every freedom that it has.
    assert (found - found.mean() - truth + truth.mean()).square().mean().sqrt() < 0.15


def test_constant_scale_and_normal_noise_stay_so():
    kept = 0
    for _ in range(10):
        c = draw(400, 2)
        fit = fit_location_scale(c, (2 * c[:, 0]).sin() + 0.4 * draw(400), (1, 1))
        kept += fit.log_variance is None and fit.family == "normal"
    assert kept >= 8


def test_scores_are_those_of_fits_without_the_row():
    c = draw(80, 1)
    y = c[:, 0].sin() + 0.3 * draw(80)
    fit = fit_location_scale(c, y, (1,))
    assert fit.family == "normal"
    for row in range(0, 80, 9):
        others = torch.arange(80) != row
        refit = fit_location_scale(c[others], y[others], (1,), like=fit)
        mean, sd = function(refit.mean, c[[row]]), math.exp(refit.log_scale)
        expected = -0.5 * ((y[row] - mean) / sd) ** 2 - math.log(sd) - 0.5 * math.log(2 * math.pi)
        # The noise's own spread moves by what one row says, and the residual counts its leverage by half.
        assert abs(fit.scores[row] - expected.item()) < 0.2


def test_noise_of_two_modes_is_found_beside_the_mean():
    c = draw(600, 1)
    noise = 0.9 * torch.sign(draw(600)) + 0.3 * draw(600)
    fit = fit_location_scale(c, 0.5 * c[:, 0] + noise, (1,))
    assert fit.family.startswith("mixture")
    z = torch.linspace(-3, 3, 601, dtype=torch.float64)
    truth = torch.logaddexp(-0.5 * ((z - 0.9) / 0.3) ** 2, -0.5 * ((z + 0.9) / 0.3) ** 2)
    truth = truth - math.log(2 * 0.3 * math.sqrt(2 * math.pi))
    found = fit.density.log_prob(z * math.exp(-fit.log_scale)) - fit.log_scale
    assert torch.trapezoid(truth.exp() * (truth - found), z) < 0.03
