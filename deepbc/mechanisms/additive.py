r"""The additive law: a network of the parents plus Gaussian noise.

.. math:: x = b(m(x_{pa}) + L u), \qquad L \text{ lower triangular},

with :math:`m` linear plus a bounded network and :math:`b` the link of the variable's bounds (the identity where it has
none). For noise of another shape use `Flow`.
"""

__all__ = ["Additive"]

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from deepbc._validation import check_units
from deepbc.data.variables import Family
from deepbc.mechanisms.base import FitOutcome
from deepbc.mechanisms.gaussian import AdditiveGaussian
from deepbc.nn.conditioner import Conditioner
from deepbc.training.trainer import Split, Train


class Additive(AdditiveGaussian):
    """Creates an additive law with Gaussian noise.

    Args:
        hidden: The units of each hidden layer of the network; none leaves the linear part alone.

    Example:
        >>> Additive(hidden=[16])
        Additive(hidden=(16,))
    """

    def __init__(self, *, hidden: Sequence[int] = (32, 32)) -> None:
        super().__init__()
        self.hidden = check_units(hidden, "Additive hidden")

    def settings(self) -> dict[str, Any]:
        return {"hidden": self.hidden}

    def _build_network(self, family: Family, generator: Generator) -> None:
        value = family.child.dim
        self.network = Conditioner(1, family.parents_dim, value, self.hidden, generator)
        self.log_diagonal = nn.Parameter(torch.zeros(value, dtype=torch.float64))
        self.below = nn.Parameter(torch.zeros(value * (value - 1) // 2, dtype=torch.float64))

    def _mean(self, parents: Tensor) -> Tensor:
        """Least squares, and what the network adds in units of its residuals."""
        scaled = self.inputs.inward(parents)
        added: Tensor = self.network(scaled, slice(None)).squeeze(-2)

        return self.shift + scaled @ self.slope + added @ self.factor.T

    def _factor(self) -> Tensor:
        rows, columns = torch.tril_indices(self.value_dim, self.value_dim, -1, device=self.below.device)

        return self.factor @ self.log_diagonal.exp().diag().index_put((rows, columns), self.below)

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        self._solve(rows.x, rows.parents)

        return FitOutcome(train(self, "network"))
