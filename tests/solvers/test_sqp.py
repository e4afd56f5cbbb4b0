"""Sequential quadratic programming, against the nearest point of a parabola in closed form."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import deepbc as bc
from deepbc.solvers.problem import Cost, Problem, SolverStatus, Term
from deepbc.solvers.settings import Settings
from deepbc.solvers.sqp import minimize

# Points near the focal point (0, 1/2) of the parabola y = x^2, where a step that does not know how the parabola is
# curved gets no nearer than by a few hundredths of the way.
POINTS = [[0.02, 0.47], [-0.05, 0.49], [0.3, 0.45], [1.0, 0.5], [-2.0, 0.3], [0.1, 2.0]]


def parabola(points) -> Problem:
    rest = torch.tensor(points, dtype=torch.float64)
    zero = torch.zeros(len(rest), 1, dtype=torch.float64)
    return Problem(
        rest=rest,
        movable=torch.ones_like(rest, dtype=torch.bool),
        lower=zero,
        upper=zero,
        given={},
        law=lambda v, given: (v[:, :0], v[:, 1:] - v[:, :1].square()),
        cost=Cost([Term(bc.Squared(), 1.0, 1)] * 2, rest),
        free=2,
    )


def nearest(x, y) -> float:
    """The least squared distance: where 4 t^3 + 2 (1 - 2 y) t - 2 x = 0."""
    roots = np.roots([4, 0, 2 * (1 - 2 * y), -2 * x])
    t = roots[np.abs(roots.imag) < 1e-9].real
    return ((t - x) ** 2 + (t**2 - y) ** 2).min()


def test_curved_constraints_are_met_at_their_nearest_point():
    problem = parabola(POINTS)
    state = minimize(problem, problem.start, Settings(steps=25))
    assert state.status.tolist() == [SolverStatus.CONVERGED] * len(POINTS)
    assert state.violation.max() < 1e-9
    assert state.cost.tolist() == pytest.approx([nearest(*point) for point in POINTS], rel=0, abs=1e-9)


def test_penalty_parameter_decreases_again():
    # Far out the constraint hardly reacts, so that its multiplier is first in the thousands. A penalty parameter that
    # stayed as large would allow tiny steps along the parabola only.
    points = torch.rand(300, 2, generator=torch.Generator().manual_seed(0)).double()
    points = (points * torch.tensor([1.0, 3.0]) + torch.tensor([-0.5, 1.5])).tolist()
    problem = replace(parabola(points), law=lambda v, given: (v[:, :0], torch.tanh(v[:, 1:] - v[:, :1].square())))

    # From rest alone one of the rows ends where the constraint is flat.
    state = bc.Exact(tolerance=1e-12).solve(problem)

    assert (state.status == SolverStatus.CONVERGED).all()
    t, (x, y) = state.noises[:, 0], problem.rest.T
    # On the parabola, and where the distance has no slope along it.
    assert torch.allclose(state.noises[:, 1], t.square(), rtol=0, atol=1e-8)
    assert (4 * t**3 + 2 * (1 - 2 * y) * t - 2 * x).abs().max() < 1e-5
