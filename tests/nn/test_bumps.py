"""Sums of bumps and their derivatives, against the formula and autograd."""

import torch

from deepbc.nn.bumps import Bumps
from deepbc.numerics.seeding import generator


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed, "bumps"), dtype=torch.float64)


def made(squashed=(True, False, False)):
    bumps = Bumps(3, 2, 8)
    bumps.see(torch.eye(3).double() + 0.2 * drawn(3, 3), torch.tensor(squashed))
    bumps.set(drawn(5, 3, seed=1), drawn(5, 2, seed=2), torch.tensor([0.7, 1.3, 2.0], dtype=torch.float64))
    return bumps


def test_functions_are_zero_before_they_are_set():
    assert (Bumps(3, 2, 8)(drawn(4, 3)) == 0).all()


def test_functions_are_those_of_the_formula():
    bumps, context = made(), drawn(4, 6, 3, seed=3)
    seen = torch.cat([context[..., :1].asinh(), context[..., 1:]], -1) @ bumps.metric
    away = (seen.unsqueeze(-2) - drawn(5, 3, seed=1)) / torch.tensor([0.7, 1.3, 2.0], dtype=torch.float64)
    expected = (-0.5 * away.square().sum(-1)).exp() @ drawn(5, 2, seed=2)
    torch.testing.assert_close(bumps(context), expected, rtol=1e-10, atol=1e-12)


def test_derivatives_are_those_of_autograd():
    bumps, context = made(), 2 * drawn(2100, 3, seed=4)
    value, slope = bumps.derive(context)
    rows = context.clone().requires_grad_()
    expected = torch.stack([torch.autograd.grad(bumps(rows)[:, k].sum(), rows)[0] for k in range(2)], 1)
    torch.testing.assert_close(value, bumps(context), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(slope, expected, rtol=1e-9, atol=1e-11)
    for moving in ([], [1], [2, 0]):
        torch.testing.assert_close(bumps.derive(context, moving)[1], expected[..., moving], rtol=1e-9, atol=1e-11)
