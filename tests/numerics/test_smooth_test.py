"""The gain that a law leaves, against the divergence that simulated noise has from what it should be."""

import math

import torch

from deepbc.numerics.smooth_test import remaining_gain

STREAM = torch.Generator().manual_seed(0)


def draw(*shape):
    return torch.randn(*shape, generator=STREAM, dtype=torch.float64)


def test_noise_that_is_independent_of_its_inputs_leaves_nothing():
    for inputs in (1, 3, 8):
        assert remaining_gain(draw(4000), draw(4000, inputs)) < 0.003


def test_noise_whose_scale_depends_on_an_input_leaves_most_of_its_divergence():
    c = draw(4000, 2)
    log_scale = 0.4 * torch.tanh(c[:, 0]) - 0.4 * torch.tanh(c[:, 0]).mean()
    u = log_scale.exp() * draw(4000)
    # The divergence of N(0, s) from N(0, 1).
    left = (0.5 * ((2 * log_scale).exp() - 1) - log_scale).mean().item()
    assert 0.4 * left < remaining_gain(u / u.std(), c) < 1.6 * left


def test_modes_whose_weights_depend_on_an_input_are_seen():
    c = draw(4000, 1)
    side = torch.where(torch.rand(4000, generator=STREAM, dtype=torch.float64) < torch.sigmoid(2 * c[:, 0]), 1.0, -1.0)
    # The ranks of the whole are uniform; given the input, one mode is likelier.
    u = (side + 0.2 * draw(4000)).argsort().argsort().double()
    noise = torch.special.ndtri((u + 0.5) / 4000)
    weight = torch.sigmoid(2 * c[:, 0])
    left = (math.log(2) + weight * weight.log() + (1 - weight) * (1 - weight).log()).mean().item()
    assert 0.4 * left < remaining_gain(noise, c) < 1.6 * left
