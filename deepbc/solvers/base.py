"""The contract of a solver."""

__all__ = ["Solver"]

from abc import ABC, abstractmethod

from deepbc.solvers.problem import Problem, Solution


class Solver(ABC):
    """What finds the least costly noises.

    To add a solver:

    1. Subclass `Solver` in a file of its own and write `solve` for a batch of problems; it sees nothing causal.
    2. Set `pins` to whether antecedents are met by construction wherever that is possible. Otherwise each one is a
       constraint on a value, in standard deviations of its variable.
    3. Export it in `deepbc/__init__.py` and add a line to the contract test in `tests/solvers/test_solvers.py`.
    """

    pins: bool = True
    # The largest miss of an antecedent, in standard deviations, that counts as none.
    reach: float = 1e-6

    @abstractmethod
    def solve(self, problem: Problem) -> Solution:
        """Solves every row of a problem as far as it can, and says how each one ended."""
