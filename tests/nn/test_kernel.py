"""Functions of Gaussian bumps: their derivatives against autograd, and what they are far from all points."""

import pytest
import torch

from deepbc.nn.kernel import BLOCK, KernelFunction
from deepbc.numerics.radial_kernels import KERNELS

STREAM = torch.Generator().manual_seed(0)


def draw(*shape):
    return torch.randn(*shape, generator=STREAM, dtype=torch.float64)


def function(squashed=(False, True), kernel=KERNELS[0]):
    made = KernelFunction(2, 16)
    made.place(draw(5, 2), torch.tensor([0.7, 1.5], dtype=torch.float64), torch.tensor(squashed), kernel)
    made.learn(torch.block_diag(*[torch.ones(1, 1, dtype=torch.float64)] * 8), draw(8))
    made.settle()
    return made.requires_grad_(False)


def test_value_is_the_formula_and_the_same_with_and_without_a_graph():
    made, rows = function(), draw(50, 2)
    seen = torch.stack([rows[:, 0], rows[:, 1].asinh()], -1) / made.lengths
    bumps = torch.exp(-0.5 * (seen[:, None] - made.points[None, :5]).square().sum(-1))
    expected = made.constant + rows @ made.slope + bumps @ made.weight[:5]
    with torch.enable_grad():
        assert torch.allclose(made(rows), expected, atol=1e-12)
    with torch.no_grad():
        assert torch.allclose(made(rows), expected, atol=1e-12)
        assert made(rows.reshape(5, 10, 2)).shape == (5, 10)
        assert made(rows[0]).shape == ()


@pytest.mark.parametrize("kernel", KERNELS)
def test_derivatives_are_those_of_autograd_over_blocks_too(kernel):
    made, rows = function(kernel=kernel), draw(BLOCK + 7, 2).requires_grad_()
    (expected,) = torch.autograd.grad(made(rows).sum(), rows)
    value, gradient = made.derive(rows.detach())
    assert torch.allclose(gradient, expected, atol=1e-10)
    assert torch.allclose(value, made(rows).detach(), atol=1e-12)


def test_a_derivative_is_finite_at_a_point_of_a_rough_kernel():
    made = function(squashed=(False, False), kernel=KERNELS[1])
    at = (made.points[:1] * made.lengths).requires_grad_()
    (slope,) = torch.autograd.grad(made(at).sum(), at)
    assert torch.allclose(slope, made.derive(at.detach())[1], atol=1e-10)


def test_far_from_all_points_it_is_linear():
    made = function(squashed=(False, False))
    rows = 1e3 * draw(20, 2).sign()
    with torch.no_grad():
        assert torch.equal(made(rows), rows @ made.slope + made.constant)


def test_what_is_learned_counts_before_and_after_it_settles():
    made, rows = KernelFunction(2, 16), draw(30, 2)
    made.place(draw(5, 2), torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.bool))
    made.learn(draw(8, 8), draw(8))
    with torch.no_grad():
        before = made(rows)
        made.settle()
        assert torch.allclose(made(rows), before, atol=1e-12)
    assert not [*made.parameters()]
