r"""Adam on the quadratic-penalty objective, for any differentiable distance; here for comparison.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), appendix B.1.
    Adam: A Method for Stochastic Optimization (Kingma and Ba, 2015). https://arxiv.org/abs/1412.6980
"""

__all__ = ["Gradient"]

import math

import torch

from deepbc._validation import check_between, check_count
from deepbc.solvers.base import Solver
from deepbc.solvers.penalty import penalised_residual, penalised_solution, penalty_tolerance
from deepbc.solvers.problem import Problem, Solution

# The defaults of the Adam paper.
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
# Stationarity is judged by the change since this part of all steps.
FINAL_PHASE = 0.9


class Gradient(Solver):
    r"""Creates the solver by gradient descent with Adam.

    Args:
        penalty: The penalty :math:`\lambda` of the squared residual, in standard deviations of the variable.
        learning_rate: The step size of Adam.
        steps: The number of steps.

    Example:
        >>> Gradient(steps=500)
        Gradient(penalty=1000, learning_rate=0.01, steps=500)
    """

    pins = False

    def __init__(self, *, penalty: float = 1e3, learning_rate: float = 0.01, steps: int = 1000) -> None:
        check_between(penalty, 0.0, torch.inf, "Gradient penalty")
        check_between(learning_rate, 0.0, torch.inf, "Gradient learning_rate")
        check_count(steps, "Gradient steps", least=1)
        self.penalty, self.learning_rate, self.steps = penalty, learning_rate, steps
        self.feasibility_tolerance = penalty_tolerance(penalty)

    def solve(self, problem: Problem) -> Solution:
        v = before = problem.start
        mean, square = torch.zeros_like(v), torch.zeros_like(v)

        for step in range(1, self.steps + 1):
            point = problem.linearize(v)
            jacobian, residual = penalised_residual(problem, point)
            pull = 2 * self.penalty * (jacobian.mT @ residual.unsqueeze(-1)).squeeze(-1)
            gradient = problem.movable * (problem.cost.gradient(v, problem.rest) + pull)
            mean = torch.lerp(mean, gradient, 1 - BETA_1)
            square = torch.lerp(square, gradient.square(), 1 - BETA_2)
            root = (square / (1 - BETA_2**step)).sqrt() + EPSILON
            if step == math.ceil(FINAL_PHASE * self.steps):
                before = v
            v = v - self.learning_rate / (1 - BETA_1**step) * mean / root

        # At a stationary point Adam oscillates by less than a step.
        return penalised_solution(
            problem, v, self.feasibility_tolerance, moving=((v - before).abs() > self.learning_rate / 2).any(-1)
        )

    def __repr__(self) -> str:
        return f"Gradient(penalty={self.penalty:g}, learning_rate={self.learning_rate:g}, steps={self.steps})"
