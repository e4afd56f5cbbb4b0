r"""Backtracking line search: the step length is contracted until the merit function satisfies the Armijo condition.

.. math:: \phi(\alpha) \le \phi(0) + c_1 \alpha \phi'(0).

References:
    Numerical Optimization (Nocedal and Wright, 2006), algorithm 3.1.
"""

__all__ = ["BACKTRACKING_FACTOR", "MIN_STEP_LENGTH", "expand", "initial_length", "sufficient_decrease"]

import torch
from torch import Tensor

from deepbc.solvers.quadratic_model import dot

# The Armijo constant c1; the usual value.
ARMIJO_C1 = 1e-4
# The contraction factor, and the step length below which the search fails.
BACKTRACKING_FACTOR, MIN_STEP_LENGTH = 0.3, 1e-9
# Steps are scaled back to this Euclidean norm, in standard deviations of the noise.
MAX_STEP_NORM = 5.0
# After negative curvature the initial step length grows by this factor, up to that one.
EXPANSION_FACTOR, MAX_EXPANSION = 3.0, 9.0


def sufficient_decrease(before: Tensor, after: Tensor, length: Tensor, slope: Tensor) -> Tensor:
    """Says where the Armijo condition holds, up to rounding; merits are at least 0. All have shape `(rows,)`."""
    return after <= before + ARMIJO_C1 * length * slope + 1e-15 * (1 + before)


def initial_length(step: Tensor, expansion: Tensor) -> Tensor:
    """The first step length along directions `(rows, free)`, at most the expansion `(rows,)`."""
    return (MAX_STEP_NORM / dot(step, step).sqrt().clamp_min(1e-300)).minimum(expansion)


def expand(expansion: Tensor, concave: Tensor) -> Tensor:
    """The largest step length after a step along which the curvature was negative or not, with shape `(rows,)`."""
    return torch.where(concave, (EXPANSION_FACTOR * expansion).clamp(max=MAX_EXPANSION), 1.0)
