"""Solvers of the constrained minimisation behind a mode; they see `Problem`s, nothing causal."""

__all__ = ["Cost", "Exact", "Gradient", "Linearized", "Problem", "Solution", "Solver", "SolverStatus", "Sparse", "Term"]

from deepbc.solvers.base import Solver
from deepbc.solvers.exact import Exact
from deepbc.solvers.gradient import Gradient
from deepbc.solvers.linearized import Linearized
from deepbc.solvers.problem import Cost, Problem, Solution, SolverStatus, Term
from deepbc.solvers.sparse import Sparse
