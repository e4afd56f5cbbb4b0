"""The contract of a solver of backtracking problems."""

__all__ = ["Solver", "SupportSearch"]

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from deepbc.solvers.problem import Problem, Solution


@dataclass(frozen=True, slots=True)
class SupportSearch:
    """A search for the best set of variables whose noise may move.

    Args:
        keep: How many variables a set has.
        sets: All sets to try; None grows a set by the variable that helps most, one after the other.
        solver: The solver for one set.
    """

    keep: int
    sets: tuple[tuple[str, ...], ...] | None
    solver: "Solver"


class Solver(ABC):
    """Minimises the cost of moving noises subject to constraints on values, row by row of a batch.

    To add a solver, in your own package:

    1. Import `Problem`, `Solution`, `Solver` and `SolverStatus` from `deepbc.solvers`, and subclass `Solver`.
    2. Write `solve`. `problem.linearize(v)` gives noises, constrained values and Jacobian at free coordinates `v`;
       `problem.cost` gives cost, gradient and curvature of noises. Return exactly `problem.rest` where not
       `problem.movable`, and a `SolverStatus` for each row.
    3. Set `pins` to whether antecedents are met by construction wherever that is possible. Otherwise each is a
       constraint on a value, in standard deviations of its variable. Set `feasibility_tolerance` to
       the largest residual that counts as none.
    4. Override `screening` and `infeasible_reason` where the defaults do not fit.
    5. Pass an instance: `backtrack(..., solver=MySolver())`.
    """

    pins: bool = True
    # The largest constraint residual, in standard deviations, that counts as none.
    feasibility_tolerance: float = 1e-6

    @abstractmethod
    def solve(self, problem: Problem) -> Solution:
        """Solves every row of a problem as far as it can, and says how each one ended."""

    def screening(self) -> "Solver":
        """Returns a solver of the same kind that compares many discrete choices, before this one solves the best."""
        return self

    def supports(self, names: Sequence[str]) -> "SupportSearch | None":
        """Says which sets of variables may move, where few may; None leaves that to the scope.

        Discrete variables are chosen outside the solver, which therefore tries sets of variables as scopes.

        Args:
            names: The variables whose noise may move.
        """
        return None

    def infeasible_reason(self, names: Sequence[str]) -> tuple[str, str] | None:
        """Says why a row can be infeasible that another solver might solve, and the remedy; None has nothing to add.

        Args:
            names: The variables of the antecedent.
        """
        return None
