"""The contract of a solver of backtracking problems."""

__all__ = ["Solver"]

from abc import ABC, abstractmethod
from collections.abc import Sequence

from deepbc.solvers.problem import Problem, Solution


class Solver(ABC):
    """Minimises the cost of moving noises subject to constraints on values, row by row of a batch.

    To add a solver, in your own package:

    1. Import `Problem`, `Solution`, `Solver` and `SolverStatus` from `deepbc.solvers`, and subclass `Solver`.
    2. Write `solve`. `problem.linearize(v)` gives noises, constrained values and Jacobian at free coordinates `v`;
       `problem.cost` gives cost, gradient and curvature of noises. Return exactly `problem.rest` where not
       `problem.movable`, and a `SolverStatus` for each row.
    3. Set `pins` to whether antecedents are met by construction wherever that is possible. Otherwise each is a
       constraint on a value, in standard deviations of its variable. Set `reach` to the largest residual that
       counts as none.
    4. Override `screening` and `infeasible_reason` where the defaults do not fit.
    5. Pass an instance: `backtrack(..., solver=MySolver())`.
    """

    pins: bool = True
    # Feasibility tolerance: the largest constraint residual, in standard deviations, that counts as none.
    reach: float = 1e-6
    # How many variables' noise may move at most, where that is limited.
    most_moves: int | None = None

    @abstractmethod
    def solve(self, problem: Problem) -> Solution:
        """Solves every row of a problem as far as it can, and says how each one ended."""

    def screening(self, *, easy: bool = False) -> "Solver":
        """Returns a solver of the same kind that compares many discrete choices; this one solves for the best of them.

        Args:
            easy: Whether each comparison is cheap for this solver itself: the cost is smooth and few choices are
                infeasible.
        """
        return self

    def infeasible_reason(self, names: Sequence[str]) -> tuple[str, str] | None:
        """Says why a row can be infeasible that another solver might solve, and the remedy; None has nothing to add.

        Args:
            names: The variables of the antecedent.
        """
        return None
