"""Multi-start points against the local minima of a fine grid."""

import numpy as np
import torch

import deepbc as bc
from deepbc.solvers import multistart
from deepbc.solvers.multistart import select_line_starts, select_sobol_starts
from deepbc.solvers.problem import Cost, Problem, Term
from deepbc.solvers.quadratic_model import SolverState

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


def minima(rest, radius):
    """The local minima of a fine grid, and their costs."""
    v = np.linspace(rest[0] - radius, rest[0] + radius, 400_001)
    height = cost_at(v, rest)
    inner = (height[1:-1] < height[:-2]) & (height[1:-1] < height[2:])
    return v[1:-1][inner], height[1:-1][inner]


def test_line_starts_are_near_the_minima_of_a_grid():
    direction = torch.tensor([[4.0], [4.0]], dtype=torch.float64)
    # Every row is at the end of its line, where the cost is high.
    current = REST[:, :1] + direction, torch.full((2,), 100.0).double()
    row, which, start = select_line_starts(wavy(), direction, current, 24, 0.0)
    assert set(row.tolist()) == {0, 1}
    for each in (0, 1):
        lowest, height = minima(REST[each].numpy(), 4.0)
        found = start[row == each, 0].numpy()
        # The lowest is among them, and none is farther from a minimum than half the grid spacing.
        assert np.abs(found - lowest[height.argmin()]).min() < 4 / 24
        assert all(np.abs(lowest - start).min() < 4 / 24 for start in found)
        assert which[row == each].tolist() == sorted(which[row == each].tolist())


def test_row_at_the_only_minimum_gets_no_start():
    direction = torch.tensor([[0.4], [0.4]], dtype=torch.float64)
    lowest = [minima(REST[each].numpy(), 4.0) for each in (0, 1)]
    starts = [v[np.abs(v - REST[each, 0].item()).argmin()] for each, (v, _) in enumerate(lowest)]
    current = torch.tensor(starts, dtype=torch.float64).unsqueeze(-1)
    costs = torch.tensor([cost_at(start, REST[each].numpy()) for each, start in enumerate(starts)])
    row, _, _ = select_line_starts(wavy(), direction, (current, costs), 24, 0.0)
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


def known_state(problem, cost):
    """A feasible state of a given cost."""
    none = problem.rest[:, :0]
    known = torch.zeros_like(cost, dtype=torch.long)
    return SolverState(
        problem.rest, ~problem.movable, none.long(), none, cost, torch.zeros_like(cost), known, known > 0
    )


def test_sobol_starts_are_in_the_ellipsoid():
    problem, cost = bowl(), torch.linspace(0.5, 8.0, 5, dtype=torch.float64)
    few, many = (select_sobol_starts(problem, known_state(problem, cost), points, 0.0) for points in (24, 2000))
    own = ((many - problem.start.unsqueeze(1)).square() * torch.tensor([1.0, 4.0])).sum(-1)

    # None costs more by its free noises alone than the known state, and more points lead lower.
    assert (own <= cost.unsqueeze(-1) + 1e-9).all()
    below, above = (problem.cost.value(problem.evaluate(starts[:, 0]).noises, problem.rest) for starts in (many, few))
    assert (below <= above).all()


def test_sobol_starts_do_not_depend_on_other_rows(monkeypatch):
    problem, cost = bowl(), torch.linspace(0.5, 8.0, 5, dtype=torch.float64)
    whole = select_sobol_starts(problem, known_state(problem, cost), 24, 0.0)
    monkeypatch.setattr(multistart, "CHUNK_POINTS", 30)

    assert torch.equal(select_sobol_starts(problem, known_state(problem, cost), 24, 0.0), whole)
    alone = problem.select(torch.tensor([3]))
    assert torch.equal(select_sobol_starts(alone, known_state(alone, cost[3:4]), 24, 0.0)[0], whole[3])


def test_sobol_starts_move_movable_noises_by_bounded_amounts():
    problem = bowl(weights=(1.0, 0.0, 1.0), movable=(False, True, True))
    known = known_state(problem, torch.full((5,), 9.0).double())
    starts = select_sobol_starts(problem, known, 96, 0.0) - problem.start.unsqueeze(1)

    assert (starts[..., 0] == 0).all()
    assert (starts[..., 1] != 0).all()
    assert starts.abs().max() <= multistart.MAX_RADIUS
