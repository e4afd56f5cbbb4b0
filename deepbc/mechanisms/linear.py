r"""The linear law with Gaussian noise, fitted in closed form.

.. math:: x = b(a + A x_{pa} + L u), \qquad L \text{ lower triangular},

by least squares; :math:`L L^\top` is the covariance of the residuals, and :math:`b` the link of the variable's bounds
(the identity where it has none).
"""

__all__ = ["Linear"]

from typing import Any

import torch
from torch import Generator, Tensor

from deepbc.data.variables import Family
from deepbc.errors import FitError
from deepbc.mechanisms.base import Mechanism, Outcome
from deepbc.mechanisms.gaussian import fit_gaussian, invert_gaussian, predict_gaussian
from deepbc.mechanisms.links import Inputs, Outer
from deepbc.training.trainer import Split, Train

ALL_ROWS = "held-out likelihood of a fit to all rows: the others alone leave no noise"


class Linear(Mechanism):
    """Creates a linear law with Gaussian noise.

    The weights come from all rows; the held-out likelihood of the report from a fit to the others alone.

    Example:
        >>> Linear()
        Linear()
    """

    shift: Tensor
    slope: Tensor
    factor: Tensor

    def settings(self) -> dict[str, Any]:
        return {}

    def _build(self, family: Family, generator: Generator) -> None:
        value, parents = family.child.dim, family.parents_dim
        self.outer = Outer(family.child)
        self.inputs = Inputs(family.parents)
        self.register_buffer("shift", torch.zeros(value, dtype=torch.float64))
        self.register_buffer("slope", torch.zeros(parents, value, dtype=torch.float64))
        self.register_buffer("factor", torch.eye(value, dtype=torch.float64))

    def _mean(self, parents: Tensor) -> Tensor:
        return self.shift + self.inputs.inward(parents) @ self.slope

    def _predict(self, u: Tensor, parents: Tensor) -> Tensor:
        return predict_gaussian(self.outer, self._mean(parents), self.factor, u)

    def _invert(self, x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        return invert_gaussian(self.outer, self._mean(parents), self.factor, x)

    def _fit(self, rows: Split, train: Train) -> Outcome:
        everything = torch.cat([rows.x, rows.held_x]), torch.cat([rows.parents, rows.held_parents])
        try:
            self._solve(rows.x, rows.parents)
        except FitError:  # a rare value may stand in held-out rows alone
            self._solve(*everything)
            return Outcome(self.loss(rows.held_x, rows.held_parents), (ALL_ROWS,))

        held_out = self.loss(rows.held_x, rows.held_parents)
        self._solve(*everything)

        return Outcome(held_out)

    def _solve(self, x: Tensor, parents: Tensor) -> None:
        """Solves the least squares on scaled rows, where it is well conditioned."""
        self.outer.see(x)
        self.inputs.see(parents)
        y, _ = self.outer.inward(x)
        shift, slope, factor = fit_gaussian(self.inputs.inward(parents), y, self.bound.child.name)

        self.shift.copy_(shift)
        self.slope.copy_(slope)
        self.factor.copy_(factor)
