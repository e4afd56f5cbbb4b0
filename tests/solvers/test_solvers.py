"""One contract for every solver; a new one is a line in SOLVERS."""

import pytest
import torch

import deepbc as bc
from deepbc.solvers.problem import Cost, Problem, SolverStatus, Term
from deepbc.testing import check_solver

# A solver and how near it comes to the least move in closed form.
SOLVERS = {
    "exact": (bc.Exact(), 1e-9),
    "exact from one start": (bc.Exact(starts=0), 1e-9),
    "linearized": (bc.Linearized(penalty=1e8, steps=3), 1e-6),
    "gradient": (bc.Gradient(penalty=30, steps=8000), 2e-2),
    "sparse of all": (bc.Sparse(keep=3), 1e-9),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_contract(name):
    solver, tolerance = SOLVERS[name]
    check_solver(solver, tolerance=tolerance)


@pytest.mark.parametrize("name", SOLVERS)
def test_settings_can_be_read_off(name):
    solver = SOLVERS[name][0]
    assert repr(eval(repr(solver), {"__builtins__": {}}, vars(bc.solvers))) == repr(solver)


@pytest.mark.parametrize("name", SOLVERS)
def test_screening_solver_is_of_the_same_kind(name):
    solver = SOLVERS[name][0]
    cheaper = solver.screening()
    assert type(cheaper) is type(solver)
    # A screening solver needs no cheaper one.
    assert repr(cheaper.screening()) == repr(cheaper)


def test_only_sparse_has_its_own_reason_for_infeasible():
    assert bc.Exact().infeasible_reason(["a"]) is None
    reason, remedy = bc.Sparse(2).infeasible_reason(["a", "b"])
    assert "No 2 of the noises" in reason
    assert "('a', 'b')" in reason
    assert "exhaustive" in remedy
    assert "exhaustive" not in bc.Sparse(2, search="exhaustive").infeasible_reason(["a"])[1]


def test_linearized_says_where_it_cycles():
    """Newton's method on v^3 - 2 v + 2 goes from 0 to 1 and back; within the reach of the penalty, both are near."""
    rest = torch.zeros(1, 1, dtype=torch.float64)
    zero = torch.zeros(1, 1, dtype=torch.float64)
    problem = Problem(
        rest=rest,
        movable=torch.ones(1, 1, dtype=torch.bool),
        lower=zero,
        upper=zero,
        given={},
        law=lambda v, given: (v[:, :0], 0.45 * (v**3 - 2 * v + 2)),
        cost=Cost([Term(bc.Squared(), 1e-9, 1)], rest),
        free=1,
    )
    for steps, end in ((30, 0.0), (31, 1.0)):
        solution = bc.Linearized(penalty=10, steps=steps).solve(problem)
        assert solution.noises.item() == pytest.approx(end, abs=1e-3)
        assert solution.status.item() == SolverStatus.MAX_STEPS
