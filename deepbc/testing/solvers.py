r"""The contract test of a solver, on linear problems.

To change the value :math:`J v` by :math:`r`, noises of weights :math:`W` move by

.. math:: u^* = u + W^{-1} J^\top (J W^{-1} J^\top + S)^{-1} r,

with :math:`S = 0` for a constraint, and the inverse weight of the implied noise for a value that is pinned.
"""

__all__ = ["check_solver"]

import torch
from torch import Tensor

from deepbc.distances import Squared
from deepbc.solvers import Cost, Problem, Solver, SolverStatus, Term
from deepbc.testing.contract import ROUNDING, Contract, normal

WEIGHTS, EFFECTS = torch.tensor([1.0, 4.0, 0.5]).double(), torch.tensor([[1.0, 2.0, -2.0]]).double()


def check_solver(solver: Solver, *, tolerance: float = 1e-6) -> None:
    """Tests a solver on linear problems: their solution, noise that may not move, statuses, rows by themselves.

    Args:
        solver: The solver.
        tolerance: How near its noises come to the solution.

    Raises:
        AssertionError: A part of the contract is broken; it says which.
    """
    contract, (problem, truth) = Contract(solver), _constrained()
    solution = solver.solve(problem)
    fixed, rest = solution.noises[~problem.movable], problem.rest[~problem.movable]
    contract.near("noise that may not move", fixed, rest, 0.0, "Return `problem.rest` where not `problem.movable`.")
    contract.near("noises", solution.noises[:2], truth[:2], tolerance, "Free noises come first, then implied ones.")
    ended = (solution.status == SolverStatus.CONVERGED).tolist()
    remedy = "Nothing may move in the last row, so that it is infeasible."
    contract.holds("which rows converged", ended == [True, True, False], [True, True, False], ended, remedy)
    for rows in ([], [1], [0, 2]):
        part = solver.solve(problem.select(torch.tensor(rows, dtype=torch.long)))
        contract.shape(f"noises of rows {rows}", part.noises, (len(rows), 3), "As many rows as the problem has.")
        contract.near(f"rows {rows} alone", part.noises, solution.noises[rows], ROUNDING, "No row may tell in another.")
    if solver.pins:
        problem, truth = _pinned()
        contract.near("pinned", solver.solve(problem).noises, truth, tolerance, "Charge implied noises, too.")


def _constrained() -> tuple[Problem, Tensor]:
    """Three noises that add to a value; the second may not move in the second row, none in the third."""
    rest, off = normal(3, 3), torch.tensor([[3.0], [-2.0], [1.0]]).double()
    movable = torch.tensor([[True, True, True], [True, False, True], [False, False, False]])
    wanted, cost = rest @ EFFECTS.T + off, _cost(rest)
    problem = Problem(rest, movable, wanted, wanted, None, lambda v, given: (v[:, :0], v @ EFFECTS.T), cost, 3)
    spread = movable * EFFECTS / WEIGHTS

    return problem, rest + spread * off / (spread @ EFFECTS.T)


def _pinned() -> tuple[Problem, Tensor]:
    """Two noises that imply a third."""
    rest, effects = normal(3, 3), EFFECTS[:, :2]
    problem = Problem(
        rest=rest,
        movable=torch.ones(3, 3, dtype=torch.bool),
        lower=rest[:, :0],
        upper=rest[:, :0],
        given=None,
        law=lambda v, given: (3 - v @ effects.T, v[:, :0]),
        cost=_cost(rest),
        free=2,
    )
    spread, off = effects / WEIGHTS[:2], 3 - problem.start @ effects.T - rest[:, 2:]
    v = problem.start + spread * off / (spread @ effects.T + 1 / WEIGHTS[2])

    return problem, torch.cat([v, 3 - v @ effects.T], dim=-1)


def _cost(rest: Tensor) -> Cost:
    return Cost([Term(Squared(), weight, 1) for weight in WEIGHTS.tolist()], rest)
