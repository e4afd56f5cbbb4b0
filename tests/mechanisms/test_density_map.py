"""The map that gives a number its density: the table against the density, and its derivatives."""

import math

import torch

from deepbc.mechanisms.density_map import REACH, DensityMap
from deepbc.numerics.univariate_density import Mixture, Normal

STREAM = torch.Generator().manual_seed(0)
MIXTURE = Mixture(
    torch.tensor([0.4, 0.6], dtype=torch.float64).log(),
    torch.tensor([-1.0, 1.2], dtype=torch.float64),
    torch.tensor([0.3, 0.6], dtype=torch.float64),
)


def layer(density):
    made = DensityMap(1)
    made.set(0, density)
    return made.requires_grad_(False)


def test_table_is_the_density_both_ways():
    made, u = layer(MIXTURE), torch.linspace(-6.5, 6.5, 1001, dtype=torch.float64)[:, None]
    z = made.outward(u, u[:, :0], slice(None))
    inside, log_slope = made.inward(z, u[:, :0])
    assert (MIXTURE.noise(z) - u).abs().max() < 1e-3
    assert (inside - u).abs().max() < 1e-9
    log_prob = -0.5 * inside.square() - 0.5 * math.log(2 * math.pi) + log_slope
    density = MIXTURE.log_prob(z.squeeze(-1)).exp()
    assert torch.trapezoid((log_prob.squeeze(-1).exp() - density).abs(), z.squeeze(-1)) < 2e-3


def test_derivatives_are_those_of_autograd_far_out_too():
    made = layer(MIXTURE)
    z = (20 * torch.randn(200, 1, generator=STREAM, dtype=torch.float64)).requires_grad_()
    inside, slope, by_context = made.inward_and_jacobian(z, z[:, :0], [])
    (expected,) = torch.autograd.grad(made.only_inward(z, z[:, :0]).sum(), z)
    assert by_context is None
    assert torch.allclose(slope, expected, rtol=1e-9)
    again, back, _ = made.outward_and_jacobian(inside.detach(), z[:, :0], [])
    assert torch.allclose(again, z, rtol=1e-9)
    assert torch.allclose(back * slope, torch.ones_like(slope), rtol=1e-6)


def test_beyond_the_table_it_goes_on_linearly():
    made, far = layer(MIXTURE), torch.tensor([[REACH], [REACH + 1], [REACH + 2]], dtype=torch.float64)
    z = made.outward(far, far[:, :0], slice(None))
    assert torch.allclose(z.diff(dim=0)[0], z.diff(dim=0)[1])
    assert torch.isfinite(made.outward(1e6 * far, far[:, :0], slice(None))).all()


def test_without_a_density_it_is_the_identity_to_the_last_digit():
    made, z = layer(None), torch.randn(50, 1, generator=STREAM, dtype=torch.float64)
    assert made.identity
    assert torch.equal(made.only_inward(z, z[:, :0]), z)
    assert not layer(Normal(0.5, 2.0)).identity
