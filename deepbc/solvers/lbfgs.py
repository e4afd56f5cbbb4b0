r"""The secants of the last few steps, by which Gauss-Newton steps are bent, because residuals are not small.

With :math:`H` the inverse curvature of the Gauss-Newton model and :math:`y` the change of the gradient over a step
:math:`s`, the limited-memory BFGS inverse applies to a gradient :math:`g` as

.. math:: B g = V^\top (\dots H \dots) V g + \frac{s^\top g}{s^\top y} \, s, \qquad V = I - \frac{y s^\top}{s^\top y},

the latest secant outermost. A change is first corrected along its step, so that :math:`s^\top y` is the curvature
beyond the end of the step rather than its mean over it; steps then converge quadratically along it.

References:
    Numerical Optimization (Nocedal and Wright, 2006), section 7.2.
"""

__all__ = ["Secants"]

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from deepbc.solvers.quadratic_model import Model, dot

# How many secants bend a step, and the least cosine between a step and its change.
MEMORY, LEAST_COSINE = 3, 1e-10


@dataclass(frozen=True, slots=True)
class _Secant:
    r"""A step :math:`s` and its change :math:`y`, `(rows, free)`, and :math:`1 / s^\top y`, `(rows,)`; or zeros."""

    step: Tensor
    change: Tensor
    inverse: Tensor

    def select(self, rows: Tensor) -> "_Secant":
        return _Secant(*(getattr(self, each.name)[rows] for each in fields(self)))

    def join(self, other: "_Secant") -> "_Secant":
        return _Secant(*(torch.cat([getattr(self, each.name), getattr(other, each.name)]) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class Secants:
    """The secants of each row, the oldest first; none at first."""

    kept: tuple[_Secant, ...] = ()

    def select(self, rows: Tensor) -> "Secants":
        """Takes the given rows."""
        return Secants(tuple(each.select(rows) for each in self.kept))

    def join(self, other: "Secants") -> "Secants":
        """Takes the rows of as many other secants in."""
        return Secants(tuple(mine.join(theirs) for mine, theirs in zip(self.kept, other.kept, strict=True)))

    def cleared(self) -> "Secants":
        """As many secants that bend nothing."""
        return Secants(tuple(_Secant(*(torch.zeros_like(getattr(a, b.name)) for b in fields(a))) for a in self.kept))

    def after(self, step: Tensor, change: Tensor, along: Tensor, bend: Tensor, rows: Tensor) -> "Secants":
        """Adds that of the last step, for which the oldest goes where there are enough.

        Args:
            step: The step, with shape `(rows, free)`.
            change: How much the gradient changed over it, with that shape.
            along: How much it changed along it, the product of both, with shape `(rows,)`.
            bend: The curvature of the cost along the step beyond its end, where it is 1 long, with shape `(rows,)`.
            rows: The mask of the rows that made it.
        """
        square = dot(step, step)
        lacking = torch.where(bend > 0, bend - along, 0.0)
        change = change + (lacking / square.clamp_min(1e-300)).unsqueeze(-1) * step
        along = along + lacking

        use = rows & (along > LEAST_COSINE * (square * dot(change, change)).sqrt())
        mask = use.unsqueeze(-1)
        latest = _Secant(torch.where(mask, step, 0.0), torch.where(mask, change, 0.0), torch.where(use, 1 / along, 0.0))

        return Secants((*self.kept[len(self.kept) + 1 - min(MEMORY, step.shape[-1]) :], latest))

    def undo(self, model: Model, gradient: Tensor, straight: Tensor | None = None) -> Tensor:
        """Applies the inverse of the model's curvature, bent, to a gradient `(rows, free)`.

        Args:
            model: The model.
            gradient: The gradient.
            straight: What the model alone makes of it, where that is known.
        """
        if not self.kept or gradient.shape[-1] == 1:
            straight = model.undo(gradient) if straight is None else straight
            return self._undo_lone(gradient, straight) if self.kept else straight

        rest, shares = gradient, []
        for each in reversed(self.kept):
            shares.append(each.inverse * dot(each.step, rest))
            rest = rest - shares[-1].unsqueeze(-1) * each.change

        moved = model.undo(rest)
        for each, share in zip(self.kept, reversed(shares), strict=True):
            moved = moved + (share - each.inverse * dot(each.change, moved)).unsqueeze(-1) * each.step

        return moved

    def _undo_lone(self, gradient: Tensor, straight: Tensor) -> Tensor:
        """The same for one coordinate, of which a secant knows all."""
        latest = self.kept[-1]
        inverse = latest.inverse.unsqueeze(-1) * latest.step.square()

        return torch.where(inverse > 0, inverse * gradient, straight)
