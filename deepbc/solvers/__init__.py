"""What finds the least costly noises; it sees problems, nothing causal."""

__all__ = ["Exact", "Gradient", "Linearized", "Solver", "Sparse"]

from deepbc.solvers.base import Solver
from deepbc.solvers.exact import Exact
from deepbc.solvers.gradient import Gradient
from deepbc.solvers.linearized import Linearized
from deepbc.solvers.sparse import Sparse
