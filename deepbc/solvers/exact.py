"""The default solver: sequential quadratic programming from many starts, with the certainty that none is missed."""

__all__ = ["Exact"]

from deepbc._validation import check_between, check_count
from deepbc.solvers.base import Solver
from deepbc.solvers.multistart import find_lower_minima
from deepbc.solvers.problem import Problem, Solution
from deepbc.solvers.settings import Settings
from deepbc.solvers.sqp import minimize


class Exact(Solver):
    r"""Creates the default solver.

    Args:
        starts: The most starts of a row that may have several minima. It stops before where another one is improbable:
            `certainty` says how improbable. 0 starts at the factual noise only. Wavy laws are better served by more.
        steps: The most steps of a row.
        tolerance: A row takes its last step once that would save less than this part of its distance (plus one). Steps
            converge superlinearly, so that what then remains is far less.

    Example:
        >>> Exact(starts=0)
        Exact(starts=0, steps=200, tolerance=1e-06)
    """

    pins = True

    def __init__(self, *, starts: int = 24, steps: int = 200, tolerance: float = 1e-6) -> None:
        check_count(starts, "Exact starts")
        check_count(steps, "Exact steps", least=1)
        check_between(tolerance, 0.0, 1.0, "Exact tolerance")
        self.starts, self.steps, self.tolerance = starts, steps, tolerance
        self.settings = Settings(tolerance=tolerance, steps=steps).with_starts(starts)

    def solve(self, problem: Problem) -> Solution:
        best = minimize(problem, problem.start, self.settings)
        if not problem.free or not self.starts:
            return Solution(best.noises, best.status)
        certainty = find_lower_minima(problem, best, self.settings)

        return Solution(best.noises, best.status, certainty)

    def screening(self) -> Solver:
        return Exact(starts=0, steps=40, tolerance=1e-4) if self.starts else self

    def __repr__(self) -> str:
        return f"Exact(starts={self.starts}, steps={self.steps}, tolerance={self.tolerance:g})"
