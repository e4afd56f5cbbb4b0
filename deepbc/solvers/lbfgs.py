r"""Limited-memory BFGS with the Gauss-Newton model as the initial Hessian, since residuals are not small.

With :math:`H` the inverse Hessian of the Gauss-Newton model and :math:`y` the change of the gradient over a step
:math:`s`, the two-loop recursion applies to a gradient :math:`g`

.. math:: B g = V^\top (\dots H \dots) V g + \frac{s^\top g}{s^\top y} \, s, \qquad V = I - \frac{y s^\top}{s^\top y},

the latest pair outermost. Departing from the textbook, :math:`y` is first corrected along :math:`s` so that
:math:`s^\top y` is an estimate of the curvature at the end of the step rather than its mean over it.

References:
    Numerical Optimization (Nocedal and Wright, 2006), algorithm 7.4.
"""

__all__ = ["LBFGSMemory"]

from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.batched import join, map_tensors, select
from deepbc.solvers.quadratic_model import QuadraticModel, dot

# The number of pairs; rows seldom take many more steps.
MEMORY = 3
# The curvature condition: the least cosine between a step and the change of the gradient.
CURVATURE_THRESHOLD = 1e-10


@dataclass(frozen=True, slots=True)
class _Pair:
    r"""A pair :math:`s` and :math:`y`, `(rows, free)`, and :math:`1 / s^\top y`, `(rows,)`; zeros for no pair."""

    step: Tensor
    change: Tensor
    inverse: Tensor


@dataclass(frozen=True, slots=True)
class LBFGSMemory:
    """The pairs of each row, the oldest first."""

    pairs: tuple[_Pair, ...] = ()

    def select(self, rows: Tensor) -> "LBFGSMemory":
        """Takes the given rows."""
        return LBFGSMemory(tuple(select(each, rows) for each in self.pairs))

    def join(self, other: "LBFGSMemory") -> "LBFGSMemory":
        """Appends the rows of a memory with as many pairs."""
        return LBFGSMemory(tuple(join(both) for both in zip(self.pairs, other.pairs, strict=True)))

    def reset(self) -> "LBFGSMemory":
        """Returns as many pairs without effect."""
        return LBFGSMemory(tuple(map_tensors(torch.zeros_like, each) for each in self.pairs))

    def update(
        self, step: Tensor, change: Tensor, curvature: Tensor, end_curvature: Tensor, rows: Tensor
    ) -> "LBFGSMemory":
        r"""Adds the pair of the last step; the oldest goes where the memory is full.

        Args:
            step: The step :math:`s`, with shape `(rows, free)`.
            change: The change :math:`y` of the gradient over it, with that shape.
            curvature: Their product :math:`s^\top y`, with shape `(rows,)`.
            end_curvature: The second derivative of the cost along :math:`s` at its end, with shape `(rows,)`.
            rows: The mask of the rows that made the step.
        """
        square = dot(step, step)
        correction = torch.where(end_curvature > 0, end_curvature - curvature, 0.0)
        change = change + (correction / square.clamp_min(1e-300)).unsqueeze(-1) * step
        curvature = curvature + correction

        use = rows & (curvature > CURVATURE_THRESHOLD * (square * dot(change, change)).sqrt())
        mask = use.unsqueeze(-1)
        latest = _Pair(
            torch.where(mask, step, 0.0), torch.where(mask, change, 0.0), torch.where(use, 1 / curvature, 0.0)
        )

        return LBFGSMemory((*self.pairs[len(self.pairs) + 1 - min(MEMORY, step.shape[-1]) :], latest))

    def solve(self, model: QuadraticModel, gradient: Tensor, initial: Tensor | None = None) -> Tensor:
        """Applies the L-BFGS inverse Hessian to a gradient by the two-loop recursion.

        Args:
            model: The initial Hessian.
            gradient: The gradient, with shape `(rows, free)`.
            initial: What the initial inverse Hessian makes of it, where that is known.
        """
        if not self.pairs or gradient.shape[-1] == 1:
            initial = model.solve(gradient) if initial is None else initial
            return self._solve_scalar(gradient, initial) if self.pairs else initial

        q, alphas = gradient, []
        for each in reversed(self.pairs):
            alphas.append(each.inverse * dot(each.step, q))
            q = q - alphas[-1].unsqueeze(-1) * each.change

        r = model.solve(q)
        for each, alpha in zip(self.pairs, reversed(alphas), strict=True):
            r = r + (alpha - each.inverse * dot(each.change, r)).unsqueeze(-1) * each.step

        return r

    def _solve_scalar(self, gradient: Tensor, initial: Tensor) -> Tensor:
        """The secant method: for one coordinate the latest pair determines the Hessian."""
        latest = self.pairs[-1]
        inverse = latest.inverse.unsqueeze(-1) * latest.step.square()

        return torch.where(inverse > 0, inverse * gradient, initial)
