r"""What the solvers of the penalised form share: the miss of each constraint, and how a row ended.

.. math:: \min_{u'} \; d(u', u) + \lambda \lVert F_S(u') - x^*_S \rVert^2
"""

__all__ = ["ended", "missed_by", "penalised", "reachable"]

import torch
from torch import Tensor

from deepbc.solvers.problem import Point, Problem, Solution, SolverStatus

# An answer that misses by more than the latter has not reached its antecedent, however weak its penalty is.
LEAST_REACH, MOST_REACH = 1e-6, 0.1


def reachable(penalty: float) -> float:
    """How near a penalised answer comes to its antecedent at best: the penalty itself holds it back by that order."""
    return min(max(LEAST_REACH, 10 / penalty), MOST_REACH)


def missed_by(problem: Problem, values: Tensor) -> Tensor:
    """How far each constrained value lies beyond its nearer end, with shape `(rows, constraints)`."""
    return values - values.clamp(problem.lower, problem.upper)


def penalised(problem: Problem, point: Point) -> tuple[Tensor, Tensor]:
    """The Jacobian and the miss of each constraint; both are zero where an interval holds."""
    missed = missed_by(problem, point.values)
    asked = (problem.lower == problem.upper) | (missed != 0)

    return point.jacobian * asked.unsqueeze(-1), missed


def ended(problem: Problem, v: Tensor, reach: float, moving: Tensor | None = None) -> Solution:
    """Takes the coordinates as the solution and says which rows miss, or are still moving."""
    point = problem.look(v)
    done = (missed_by(problem, point.values).abs() <= reach).all(-1)
    done = done if moving is None else done & ~moving
    status = torch.where(done, int(SolverStatus.CONVERGED), int(SolverStatus.MAX_STEPS))
    status[~point.noises.isfinite().all(-1) | ~point.values.isfinite().all(-1)] = SolverStatus.NON_FINITE

    return Solution(torch.where(problem.movable, point.noises, problem.rest), status)
