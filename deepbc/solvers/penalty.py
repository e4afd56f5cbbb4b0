r"""The quadratic penalty method with a fixed penalty parameter, as the solvers `Linearized` and `Gradient` use it.

.. math:: \min_{u'} \; d(u', u) + \lambda \lVert F_S(u') - x^*_S \rVert^2

References:
    Numerical Optimization (Nocedal and Wright, 2006), section 17.1.
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), algorithm 1.
"""

__all__ = ["penalised_residual", "penalised_solution", "penalty_tolerance", "violation"]

import torch
from torch import Tensor

from deepbc.solvers.problem import Point, Problem, Solution, SolverStatus

# The range of the feasibility tolerance; a larger residual is infeasible, however weak the penalty is.
MIN_TOLERANCE, MAX_TOLERANCE = 1e-6, 0.1


def penalty_tolerance(penalty: float) -> float:
    """The feasibility tolerance: the residual of a penalised minimiser is of the order of one over the penalty."""
    return min(max(MIN_TOLERANCE, 10 / penalty), MAX_TOLERANCE)


def violation(problem: Problem, values: Tensor) -> Tensor:
    """The signed violation of the nearer bound of each constrained value, with shape `(rows, constraints)`."""
    return values - values.clamp(problem.lower, problem.upper)


def penalised_residual(problem: Problem, point: Point) -> tuple[Tensor, Tensor]:
    """The Jacobian and the residual of each constraint; both are zero where an inequality is inactive."""
    residual = violation(problem, point.values)
    active = (problem.lower == problem.upper) | (residual != 0)

    return point.jacobian * active.unsqueeze(-1), residual


def penalised_solution(problem: Problem, v: Tensor, tolerance: float, moving: Tensor | None = None) -> Solution:
    """Makes coordinates the solution; rows that are infeasible or still moving are out of steps."""
    point = problem.evaluate(v)
    done = (violation(problem, point.values).abs() <= tolerance).all(-1)
    done = done if moving is None else done & ~moving
    status = torch.where(done, int(SolverStatus.CONVERGED), int(SolverStatus.MAX_STEPS))
    status[~point.noises.isfinite().all(-1) | ~point.values.isfinite().all(-1)] = SolverStatus.NON_FINITE

    return Solution(torch.where(problem.movable, point.noises, problem.rest), status)
