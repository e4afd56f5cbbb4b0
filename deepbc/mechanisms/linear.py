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
from deepbc.mechanisms.base import FitOutcome
from deepbc.mechanisms.gaussian import AdditiveGaussian
from deepbc.training.trainer import Split, Train

ALL_ROWS = "held-out likelihood of a fit to all rows: the others alone leave no noise"


class Linear(AdditiveGaussian):
    """Creates a linear law with Gaussian noise.

    The weights come from all rows; the held-out likelihood of the report from a fit to the others alone.

    Example:
        >>> Linear()
        Linear()
    """

    @property
    def affine(self) -> bool:
        child = self.bound.child

        return self.shifts and not (child.latent.bounded and not child.discrete)

    @property
    def shifts(self) -> bool:
        return not any(each.latent.bounded and not each.discrete for each in self.bound.parents)

    def settings(self) -> dict[str, Any]:
        return {}

    def _build_network(self, family: Family, generator: Generator) -> None:
        """It has none."""

    def _mean(self, parents: Tensor) -> Tensor:
        return self.shift + self.inputs.inward(parents) @ self.slope

    def _factor(self) -> Tensor:
        return self.factor

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        everything = torch.cat([rows.x, rows.held_x]), torch.cat([rows.parents, rows.held_parents])
        try:
            self._solve(rows.x, rows.parents)
        except FitError:  # a rare value may stand in held-out rows alone
            self._solve(*everything)
            return FitOutcome(self.loss(rows.held_x, rows.held_parents), (ALL_ROWS,))

        held_out = self.loss(rows.held_x, rows.held_parents)
        self._solve(*everything)

        return FitOutcome(held_out)
