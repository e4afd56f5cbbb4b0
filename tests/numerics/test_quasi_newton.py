"""The minimiser on functions whose minimum is known."""

import itertools
import math

import torch

from deepbc.numerics.quasi_newton import differentiated, minimize

STREAM = torch.Generator().manual_seed(0)


def test_minimum_of_a_quadratic_is_that_of_linear_algebra():
    root = torch.randn(30, 30, generator=STREAM, dtype=torch.float64)
    matrix, side = root @ root.T / 30 + 0.1 * torch.eye(30), torch.randn(30, generator=STREAM, dtype=torch.float64)
    found, value = minimize(
        lambda x: (float(0.5 * x @ matrix @ x - side @ x), matrix @ x - side),
        torch.zeros(30, dtype=torch.float64),
        steps=300,
        least_fall=1e-14,
    )
    assert torch.allclose(found, torch.linalg.solve(matrix, side), atol=1e-4)
    assert abs(value + 0.5 * float(side @ torch.linalg.solve(matrix, side))) < 1e-8


def test_rosenbrock_function_is_followed_to_its_end():
    rosenbrock = differentiated(lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)
    found, value = minimize(rosenbrock, torch.tensor([-1.2, 1.0], dtype=torch.float64), steps=200, least_fall=1e-14)
    assert torch.allclose(found, torch.ones(2, dtype=torch.float64), atol=1e-4)
    assert value < 1e-8


def test_values_that_are_not_finite_are_too_far():
    def barrier(x):
        return (float(x - x.log()), 1 - 1 / x) if x > 0 else (math.inf, x * 0)

    found, _ = minimize(barrier, torch.tensor([0.01], dtype=torch.float64), least_fall=1e-12)
    assert abs(found.item() - 1) < 1e-4


def test_no_coordinate_moves_farther_than_the_longest():
    seen = []

    def steep(x):
        seen.append(x.item())
        return float((x - 100.0).square()), 2 * (x - 100.0)

    minimize(steep, torch.zeros(1, dtype=torch.float64), longest=2.0)
    assert max(b - a for a, b in itertools.pairwise(seen)) <= 2.0 + 1e-12
