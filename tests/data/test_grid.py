"""Numbers of equal steps, as people write them."""

import math

import pytest
import torch

import deepbc as bc
from deepbc.data.grid import WHOLE, Grid


def numbers(*each):
    return torch.tensor(each, dtype=torch.float64)


@pytest.mark.parametrize("grid", [WHOLE, Grid(0.1), Grid(0.3, 0.1), Grid(2.5), Grid(10.0, 5.0), Grid(0.25, 0.05)])
def test_numbers_of_a_grid_are_those_that_people_write(grid):
    steps = torch.arange(-40, 41, dtype=torch.float64)
    found = grid.at(steps).tolist()
    assert found == [round(grid.offset + k * grid.step, 6) for k in range(-40, 41)]
    assert torch.equal(grid.snap(numbers(*found)), numbers(*found))
    assert torch.equal(grid.count(numbers(*found)).round(), steps)


def test_ends_between_steps_are_taken_inward():
    grid = Grid(0.3, 0.1)
    assert grid.above(numbers(0.11, 0.4, -math.inf)).tolist() == [0.4, 0.4, -math.inf]
    assert grid.below(numbers(0.69, 0.4, math.inf)).tolist() == [0.4, 0.4, math.inf]
    assert grid.ends(0.0, 1.0) == (0.1, 1.0)
    assert WHOLE.ends(-0.5, 2.9) == (0, 2)


def test_a_number_that_was_rounded_on_its_way_is_of_the_grid():
    assert Grid(0.1).holds(numbers(0.1 * 3, float(torch.tensor(0.3)), 0.31)).tolist() == [True, True, False]
    assert WHOLE.holds(numbers(2.0, 2.0001)).tolist() == [True, False]


@pytest.mark.parametrize("step", [0.0, -1.0, 1 / 3, 1e-8])
def test_steps_that_make_no_grid_are_refused(step):
    with pytest.raises(bc.SettingError, match="expected a step above 0"):
        Grid(step)
