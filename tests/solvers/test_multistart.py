"""Valleys that are found by looking around, against those of a fine grid."""

import numpy as np
import torch

import deepbc as bc
from deepbc.solvers import multistart
from deepbc.solvers.found import Found
from deepbc.solvers.multistart import find_low_places, find_valleys
from deepbc.solvers.problem import Cost, Problem, Term

REST = torch.tensor([[0.3, 0.0], [-0.5, 1.0]], dtype=torch.float64)


def cost_at(v, rest):
    return (v - rest[0]) ** 2 + (4 * np.sin(2 * v) - rest[1] - 2.5) ** 2


def wavy():
    none = REST.new_zeros(2, 0)
    return Problem(
        rest=REST,
        movable=torch.ones_like(REST, dtype=torch.bool),
        lower=none,
        upper=none,
        given={},
        law=lambda v, given: (4 * torch.sin(2 * v) - 2.5, v[:, :0]),
        cost=Cost([Term(bc.Squared(), 1.0, 1)] * 2, REST),
        free=1,
    )


def floors(rest, far):
    """The lowest points of all valleys of a fine grid, and their costs."""
    v = np.linspace(rest[0] - far, rest[0] + far, 400_001)
    height = cost_at(v, rest)
    inner = (height[1:-1] < height[:-2]) & (height[1:-1] < height[2:])
    return v[1:-1][inner], height[1:-1][inner]


def test_spots_are_near_the_floors_of_a_grid():
    far = torch.tensor([[4.0], [4.0]], dtype=torch.float64)
    # Every row stands at its far end, where it is dear.
    row, which, spot = find_valleys(wavy(), far, (REST[:, :1] + far, torch.full((2,), 100.0).double()), 24, 0.0)
    assert set(row.tolist()) == {0, 1}
    for each in (0, 1):
        lowest, height = floors(REST[each].numpy(), 4.0)
        found = spot[row == each, 0].numpy()
        # The cheapest is among them, and none is farther from a floor than half the way between two places.
        assert np.abs(found - lowest[height.argmin()]).min() < 4 / 24
        assert all(np.abs(lowest - spot).min() < 4 / 24 for spot in found)
        assert which[row == each].tolist() == sorted(which[row == each].tolist())


def test_row_in_the_only_valley_stays():
    far = torch.tensor([[0.4], [0.4]], dtype=torch.float64)
    lowest = [floors(REST[each].numpy(), 4.0) for each in (0, 1)]
    spots = [v[np.abs(v - REST[each, 0].item()).argmin()] for each, (v, _) in enumerate(lowest)]
    stands = torch.tensor(spots, dtype=torch.float64).unsqueeze(-1)
    costs = torch.tensor([cost_at(spot, REST[each].numpy()) for each, spot in enumerate(spots)])
    row, _, _ = find_valleys(wavy(), far, (stands, costs), 24, 0.0)
    assert row.tolist() == []


def bowl(weights=(1.0, 4.0, 1.0), movable=(True, True, True)):
    """Two free noises that imply a third which follows them in waves; 5 rows."""
    rest = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    none = rest.new_zeros(5, 0)
    return Problem(
        rest=rest,
        movable=torch.tensor([movable] * 5),
        lower=none,
        upper=none,
        given={"shift": 2 * rest[:, :1]},
        law=lambda v, given: (torch.sin(3 * v).sum(-1, keepdim=True) + given["shift"], v[:, :0]),
        cost=Cost([Term(bc.Squared(), weight, 1) for weight in weights], rest),
        free=2,
    )


def found(problem, cost):
    """What rows have found that cost so much."""
    none = problem.rest[:, :0]
    known = torch.zeros_like(cost, dtype=torch.long)
    return Found(problem.rest, ~problem.movable, none.long(), none, cost, torch.zeros_like(cost), known, known > 0)


def test_low_places_are_the_lowest_of_a_ball():
    problem, cost = bowl(), torch.linspace(0.5, 8.0, 5, dtype=torch.float64)
    few, many = (find_low_places(problem, found(problem, cost), places, 0.0) for places in (24, 2000))
    own = ((many - problem.start.unsqueeze(1)).square() * torch.tensor([1.0, 4.0])).sum(-1)

    # None costs more by its free noises alone than what was found, and more places lead lower.
    assert (own <= cost.unsqueeze(-1) + 1e-9).all()
    below, above = (problem.cost.value(problem.look(spots[:, 0]).noises, problem.rest) for spots in (many, few))
    assert (below <= above).all()


def test_low_places_do_not_depend_on_other_rows(monkeypatch):
    problem, cost = bowl(), torch.linspace(0.5, 8.0, 5, dtype=torch.float64)
    whole = find_low_places(problem, found(problem, cost), 24, 0.0)
    monkeypatch.setattr(multistart, "TOGETHER", 30)

    assert torch.equal(find_low_places(problem, found(problem, cost), 24, 0.0), whole)
    alone = problem.select(torch.tensor([3]))
    assert torch.equal(find_low_places(alone, found(alone, cost[3:4]), 24, 0.0)[0], whole[3])


def test_low_places_move_only_what_may_move_and_not_without_end():
    problem = bowl(weights=(1.0, 0.0, 1.0), movable=(False, True, True))
    known = found(problem, torch.full((5,), 9.0).double())
    spots = find_low_places(problem, known, 96, 0.0) - problem.start.unsqueeze(1)

    assert (spots[..., 0] == 0).all()
    assert (spots[..., 1] != 0).all()
    assert spots.abs().max() <= multistart.FARTHEST
