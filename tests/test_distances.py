"""One contract for every distance; a new one is a line in DISTANCES."""

import math

import pytest
import torch

import deepbc as bc
from deepbc.distances import read_distance

DISTANCES = {
    "squared": bc.Squared(),
    "absolute": bc.Absolute(),
    "power 1.5": bc.Power(1.5),
    "power 2": bc.Power(2),
    "power 4": bc.Power(4),
    "custom": lambda u_star, u: ((u_star - u).square() + (u_star - u).pow(4)).sum(-1),
    "by variable": {"a": bc.Power(3), "b": bc.Absolute({"b": 2.0})},
}
U = torch.tensor([[0.3, -1.0], [2.0, 0.5], [-0.7, 0.1]], dtype=torch.float64)


@pytest.fixture(params=list(DISTANCES))
def distance(request):
    return read_distance(DISTANCES[request.param], ["a", "b"]).of("a")


def test_cost_is_zero_at_rest_and_rises_from_there(distance):
    assert distance.value(U, U).abs().max() == 0
    steps = torch.linspace(0.1, 3, 10, dtype=torch.float64)
    for sign in (-1, 1):
        costs = torch.stack([distance.value(U + sign * step, U) for step in steps])
        assert (costs.diff(dim=0) > 0).all()
        # Convex: the rise grows.
        assert (costs.diff(n=2, dim=0) > -1e-9).all()


def test_gradient_is_the_derivative_and_curvature_bounds_the_second(distance):
    u_star = U + torch.tensor([[0.7, -1.2], [0.4, 2.0], [-1.5, 0.3]], dtype=torch.float64)
    point = u_star.clone().requires_grad_()
    cost = distance.value(point, U).sum()
    gradient = torch.autograd.grad(cost, point, create_graph=True)[0]
    assert torch.allclose(distance.gradient(u_star, U), gradient, rtol=0, atol=1e-9)
    second = torch.autograd.grad(gradient.sum(), point, allow_unused=True)[0] if gradient.requires_grad else None
    if second is not None:
        assert (distance.curvature(u_star, U) >= second - 1e-4).all()


def test_weights_and_variables():
    squared = read_distance(bc.Squared({"a": 5.0, "b": 0.0}), ["a", "b", "c"])
    assert squared.moved("a", U + 1, U).tolist() == pytest.approx([10.0] * 3)
    assert squared.moved("b", U + 1, U).tolist() == [0.0] * 3
    assert squared.moved("c", U + 1, U).tolist() == pytest.approx([2.0] * 3)
    mixed = read_distance(DISTANCES["by variable"], ["a", "b", "c"])
    assert mixed.moved("a", U + 2, U).tolist() == pytest.approx([16.0] * 3)
    assert mixed.moved("b", U + 2, U).tolist() == pytest.approx([8.0] * 3)
    assert mixed.moved("c", U + 2, U).tolist() == pytest.approx([8.0] * 3)


def test_kinks_are_known():
    assert bc.Absolute().has_kink(U)
    assert not bc.Squared().has_kink(U)
    assert not bc.Power(1.5).has_kink(U)
    assert read_distance(lambda u_star, u: (u_star - u).abs().sum(-1), ["a"]).of("a").has_kink(U)
    assert not read_distance(DISTANCES["custom"], ["a"]).of("a").has_kink(U)


@pytest.mark.parametrize("weight", [-1.0, math.inf, math.nan, "heavy", None])
def test_bad_weights_are_refused(weight):
    with pytest.raises(bc.SettingError, match="weight of 'a'"):
        bc.Squared({"a": weight})


@pytest.mark.parametrize("p", [0.5, math.inf, math.nan, "2"])
def test_bad_powers_are_refused(p):
    with pytest.raises(bc.SettingError, match="Power p"):
        bc.Power(p)
