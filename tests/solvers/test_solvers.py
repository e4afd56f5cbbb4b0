"""One contract for every solver; a new one is a line in SOLVERS."""

import pytest
import torch

import deepbc as bc
from deepbc.solvers.problem import Cost, Problem, SolverStatus, Term

# A solver and how near it comes to the least move in closed form.
SOLVERS = {
    "exact": (bc.Exact(), 1e-9),
    "exact from one start": (bc.Exact(starts=0), 1e-9),
    "linearized": (bc.Linearized(penalty=1e8, steps=3), 1e-6),
    "gradient": (bc.Gradient(penalty=30, steps=8000), 2e-2),
    "sparse of all": (bc.Sparse(keep=3), 1e-9),
}
EFFECTS = torch.tensor([1.0, 2.0, -2.0], dtype=torch.float64)


def line(rest, wanted, movable) -> Problem:
    """Noises whose weighted sum is to have a value."""
    wanted = torch.tensor(wanted, dtype=torch.float64)[:, None]
    return Problem(
        rest=rest,
        movable=movable,
        lower=wanted,
        upper=wanted,
        given={},
        law=lambda v, given: (v[:, :0], (v @ EFFECTS)[:, None]),
        cost=Cost([Term(bc.Squared(), 1.0, 1)] * 3, rest),
        free=3,
    )


@pytest.mark.parametrize("name", SOLVERS)
def test_least_move_of_those_that_may_move(name):
    solver, tolerance = SOLVERS[name]
    rest = torch.tensor([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5]], dtype=torch.float64)
    movable = torch.tensor([[True, True, True], [True, False, True]])
    problem = line(rest, [3.0, 2.0], movable)

    solution = solver.solve(problem)

    effects = EFFECTS * movable
    short = (problem.lower[:, 0] - rest @ EFFECTS) / effects.square().sum(-1)
    assert torch.allclose(solution.noises, rest + short[:, None] * effects, rtol=0, atol=tolerance)
    assert solution.noises[1, 1] == -1.0
    assert solution.status.tolist() == [SolverStatus.CONVERGED] * 2


@pytest.mark.parametrize("name", SOLVERS)
def test_nothing_movable_does_not_converge(name):
    rest = torch.zeros(1, 3, dtype=torch.float64)
    solution = SOLVERS[name][0].solve(line(rest, [3.0], torch.zeros(1, 3, dtype=torch.bool)))
    assert torch.equal(solution.noises, rest)
    assert solution.status.item() != SolverStatus.CONVERGED


@pytest.mark.parametrize("name", SOLVERS)
def test_no_rows_give_no_rows(name):
    none = torch.zeros(0, 3, dtype=torch.float64)
    assert SOLVERS[name][0].solve(line(none, [], none.bool())).noises.shape == (0, 3)


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
