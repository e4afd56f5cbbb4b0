"""One contract for every distance; a new one is a line in DISTANCES."""

import math

import pytest
import torch

import deepbc as bc
from deepbc.distances import read_distance
from deepbc.testing import check_distance

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


@pytest.mark.parametrize("name", DISTANCES)
def test_contract(name):
    distance = DISTANCES[name]
    for each in distance.values() if isinstance(distance, dict) else [distance]:
        check_distance(each)


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
