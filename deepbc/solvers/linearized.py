r"""Undamped Gauss-Newton on the quadratic-penalty objective: algorithm 1 of the paper on deep backtracking.

.. math:: u' \leftarrow (\lambda^{-1} W + J^\top J + \epsilon I)^\dagger
          (\lambda^{-1} W u + J^\top (x^* + J u' - F(u')))

There is no line search and no merit function, so on some rows the iteration cycles. Rows that are infeasible or not
stationary at the end say so. It is here for reproduction and comparison.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), algorithm 1 and eq. 20.
"""

__all__ = ["Linearized"]

import torch
from torch import Tensor

from deepbc._validation import check_between, check_count
from deepbc.errors import SettingError
from deepbc.solvers.base import Solver
from deepbc.solvers.penalty import penalised_residual, penalised_solution, penalty_tolerance
from deepbc.solvers.problem import Problem, Solution

# A row whose last step moved a noise by more than this is not stationary: it cycles, or needs more steps.
STATIONARITY_TOLERANCE = 1e-3


class Linearized(Solver):
    r"""Creates the paper's own solver.

    Args:
        penalty: The penalty :math:`\lambda` of the squared residual, in standard deviations of the variable.
        steps: The number of steps.
        damping: The damping :math:`\epsilon`.

    Example:
        >>> Linearized()
        Linearized(penalty=1000, steps=30, damping=0)
    """

    pins = False

    def __init__(self, *, penalty: float = 1e3, steps: int = 30, damping: float = 0.0) -> None:
        check_between(penalty, 0.0, torch.inf, "Linearized penalty")
        check_count(steps, "Linearized steps", least=1)
        check_between(damping, 0.0, torch.inf, "Linearized damping", closed=True)
        self.penalty, self.steps, self.damping = penalty, steps, damping
        self.feasibility_tolerance = penalty_tolerance(penalty)

    def solve(self, problem: Problem) -> Solution:
        if not problem.cost.squared:
            raise SettingError("Linearized needs squared distances. Take the solver Exact() or Gradient() for others.")

        u = problem.rest
        movable = problem.movable.to(u.dtype)
        scale = movable / (problem.cost.floored / self.penalty + self.damping)
        v = before = u
        for _ in range(self.steps):
            before, point = v, problem.linearize(v)
            jacobian, residual = penalised_residual(problem, point)
            jacobian = jacobian * movable.unsqueeze(-2)
            # In terms of the move from the factual noise, for which the right side has no cost term.
            target = (jacobian @ (v - u).unsqueeze(-1)).squeeze(-1) - residual
            v = u + _solve(scale, jacobian, target, self.damping * u)

        return penalised_solution(
            problem, v, self.feasibility_tolerance, moving=((v - before).abs() > STATIONARITY_TOLERANCE).any(-1)
        )

    def __repr__(self) -> str:
        return f"Linearized(penalty={self.penalty:g}, steps={self.steps}, damping={self.damping:g})"


def _solve(scale: Tensor, jacobian: Tensor, target: Tensor, shift: Tensor) -> Tensor:
    """Solves `(D + J' J) y = J' target - shift` in the smaller of the primal and the dual space (Woodbury).

    Args:
        scale: The inverse of the diagonal `D`, zero for a fixed coordinate, with shape `(rows, free)`.
        jacobian: The Jacobian `J`, with shape `(rows, outputs, free)`.
        target: With shape `(rows, outputs)`.
        shift: With shape `(rows, free)`.
    """
    outputs, free = jacobian.shape[-2:]
    if outputs <= free:
        system = (jacobian * scale.unsqueeze(-2)) @ jacobian.mT
        system.diagonal(dim1=-2, dim2=-1).add_(1.0)
        right = target + (jacobian @ (scale * shift).unsqueeze(-1)).squeeze(-1)
        push = (jacobian.mT @ _divide(system, right).unsqueeze(-1)).squeeze(-1)
        return scale * (push - shift)

    # In units of the square root of the diagonal.
    root = scale.sqrt()
    jacobian = jacobian * root.unsqueeze(-2)
    system = jacobian.mT @ jacobian
    system.diagonal(dim1=-2, dim2=-1).add_(1.0)
    right = (jacobian.mT @ target.unsqueeze(-1)).squeeze(-1) - root * shift

    return root * _divide(system, right)


def _divide(system: Tensor, right: Tensor) -> Tensor:
    if right.shape[-1] == 1:
        return right / system.squeeze(-1)

    solved: Tensor = torch.linalg.solve_ex(system, right.unsqueeze(-1))[0].squeeze(-1)

    return solved
