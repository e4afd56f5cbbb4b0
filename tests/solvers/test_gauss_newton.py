"""Unconstrained Gauss-Newton on problems in closed form: its number of steps, and its restarts."""

import numpy as np
import pytest
import torch

import deepbc as bc
from deepbc.solvers.gauss_newton import minimize_gauss_newton
from deepbc.solvers.problem import Cost, Problem, SolverStatus, Term

REST = torch.tensor([[0.0, 2.0], [0.5, -1.0], [-1.0, 3.0], [1.0, 0.2]], dtype=torch.float64)


def problem(law, rest=REST) -> Problem:
    none = rest.new_zeros(len(rest), 0)
    return Problem(
        rest=rest,
        movable=torch.ones_like(rest, dtype=torch.bool),
        lower=none,
        upper=none,
        given={},
        law=law,
        cost=Cost([Term(bc.Squared(), 1.0, 1)] * 2, rest),
        free=1,
    )


def cubic(v):
    return 0.3 * v**3 - 0.4 * v**2 + 1.5 * v - 1


def least(rest) -> float:
    """The least of (v - a)^2 + (p(v) - b)^2 for the cubic p, by the roots of its slope."""
    p = np.poly1d([0.3, -0.4, 1.5, -1])
    cost = np.poly1d([1, -rest[0]]) ** 2 + (p - rest[1]) ** 2
    roots = cost.deriv().roots
    return min(cost(root.real) for root in roots if abs(root.imag) < 1e-9)


def test_cubic_laws_take_few_steps():
    # The Hermite interpolant is then the law itself. There are too many rows for a grid of step lengths.
    derived, rest = [], REST.repeat(800, 1)

    def law(v, given):
        derived.append(len(v) if v.requires_grad else 0)
        return cubic(v), v[:, :0]

    posed = problem(law, rest)
    state = minimize_gauss_newton(posed, posed.linearize(posed.start), smoothing=0.0, steps=50, tolerance=1e-6)

    assert (state.status == SolverStatus.CONVERGED).all()
    assert state.cost[: len(REST)].tolist() == pytest.approx([least(row) for row in REST.numpy()], abs=1e-11)
    # Without the third derivative of the interpolant it is 3.5, and without interpolation 7.
    assert sum(derived) / len(rest) <= 3.3


def test_lowest_run_of_each_row_counts():
    # The local minimum nearest to the start is not the global one.
    def wells(v):
        return 3 - 2.9 * torch.exp(-10 * (v - 2).square()) - torch.exp(-4 * (v + 1).square())

    rest = torch.stack([torch.linspace(0.2, 0.9, 6), torch.zeros(6)], dim=-1).double()
    posed = problem(lambda v, given: (2 * wells(v), v[:, :0]), rest)
    grid = torch.linspace(-4, 4, 80_001, dtype=torch.float64)
    best = [((grid - row[0]).square() + (2 * wells(grid)).square()).min().item() for row in rest]

    alone, restarted = (
        minimize_gauss_newton(
            posed, posed.linearize(posed.start), smoothing=0.0, steps=50, tolerance=1e-6, starts=starts
        )
        for starts in (0, 24)
    )

    assert (alone.cost > torch.tensor(best) + 0.1).any()
    assert restarted.cost.tolist() == pytest.approx(best, abs=1e-6)
    assert torch.allclose(restarted.cost, (restarted.noises - rest).square().sum(-1))
    assert torch.allclose(restarted.noises[:, 1:], 2 * wells(restarted.noises[:, :1]))


def test_rows_out_of_steps_say_so_and_keep_progress():
    posed = problem(lambda v, given: (20 * torch.sin(v) - 30, v[:, :0]))
    start = posed.linearize(posed.start)
    before = posed.cost.value(start.noises, REST)
    state = minimize_gauss_newton(posed, start, smoothing=0.0, steps=1, tolerance=1e-12)
    assert state.status.tolist() == [SolverStatus.MAX_STEPS] * len(REST)
    assert (state.cost < before).all()
    assert torch.allclose(state.cost, (state.noises - REST).square().sum(-1))
