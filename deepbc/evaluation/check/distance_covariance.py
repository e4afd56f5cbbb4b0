r"""Independence of two columns of any kind: the distance covariance of their ranks.

A rank :math:`r \in (0, 1)` enters by its cosines :math:`\varphi_k(r) = \sqrt{2} \cos(\pi k r) / k`. In this basis the
distance covariance of ranks is a sum of squared covariances,

.. math:: T = \frac{1}{n} \Big\| \sum_t \varphi(r_t) \varphi(s_t)^\top \Big\|^2,

whose first term is nearly Spearman's correlation, and whose others see spread, bends and waves. Of independent columns
:math:`T` is a sum of weighted squares of normals; the weights are the products of the eigenvalues of both columns'
covariances, so ties and vectors need no case of their own. Nothing is drawn, and the cost is linear in the rows.

Conditional independence is judged likewise, of what is left of the cosines after a regression on those of the
conditions; each regressor costs a row.

References:
    Measuring and testing dependence by correlation of distances (Szekely, Rizzo and Bakirov, 2007), theorem 5.
    A distribution free test of independence based on the sample distribution function (Blum, Kiefer and Rosenblatt,
    1961): the same statistic up to its weights.
    Kernel-based conditional independence test and application in causal discovery (Zhang et al., 2011), section 3.
"""

__all__ = ["WAVES", "Ranked", "independence", "mutual_independence", "ranks"]

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from deepbc.evaluation.check.p_values import effective, quadratic_tail
from deepbc.numerics.ranks import mean_ranks

# The highest wave; the next would have a 64th of the weight of the first.
WAVES = 8
# What is below this part of the largest eigenvalue adds nothing to a tail.
LEAST_WEIGHT = 1e-6
# A regression on conditions takes at most this part of the rows; the lowest waves come first.
MOST_REGRESSORS = 0.1


def ranks(columns: Tensor) -> Tensor:
    """Computes ranks between 0 and 1, ties in the middle of theirs.

    Args:
        columns: Numbers, with shape `(rows, columns)`.

    Returns:
        Ranks, with shape `(rows, columns)`.
    """
    return (mean_ranks(columns) - 0.5) / len(columns)


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A column, or several, represented by the cosines of its ranks.

    Args:
        waves: The centred cosines, with shape `(rows, features)`.
        spectrum: The eigenvalues of their covariance that are not nearly 0, with shape `(weights,)`.
        rows: The number of rows, less one for each regressor that was taken out.
    """

    waves: Tensor
    spectrum: Tensor
    rows: int

    @classmethod
    def of(cls, columns: Tensor) -> Self:
        """Ranks columns of shape `(rows, columns)`."""
        k = torch.arange(1, WAVES + 1, dtype=columns.dtype)
        waves = (math.sqrt(2) * torch.cos(math.pi * k * ranks(columns).unsqueeze(-1)) / k).flatten(1)

        return cls._from_waves(waves - waves.mean(0), len(waves))

    def given(self, conditions: Sequence["Ranked"]) -> "Ranked":
        """Takes out what a regression on conditions, of the same rows, explains."""
        if not conditions or not len(self.spectrum):
            return self
        lowest_first = torch.cat([each.waves[:, k::WAVES] for k in range(WAVES) for each in conditions], dim=1)
        most = max(1, int(MOST_REGRESSORS * len(self.waves)))
        basis, sizes, _ = torch.linalg.svd(lowest_first[:, :most], full_matrices=False)
        basis = basis[:, sizes > LEAST_WEIGHT * sizes.max()]

        left = self._from_waves(self.waves - basis @ (basis.T @ self.waves), len(basis) - basis.shape[1])

        # What the conditions determine leaves rounding errors alone.
        return replace(left, spectrum=left.spectrum[left.spectrum > LEAST_WEIGHT * self.spectrum.max()])

    @classmethod
    def _from_waves(cls, waves: Tensor, rows: int) -> Self:
        spectrum = torch.linalg.eigvalsh(waves.T @ waves / len(waves))

        return cls(waves, spectrum[spectrum > LEAST_WEIGHT * spectrum.max()], rows)


def independence(a: Ranked, b: Ranked, learned: float = math.inf) -> tuple[float, float]:
    """Tests whether two columns are independent.

    Args:
        a: The one.
        b: The other, of the same rows.
        learned: The number of rows from which a law was learned that gave one of them. Its errors look like
            dependence; the test allows for as much as new rows would show.

    Returns:
        The p-value and the strength: the distance correlation of the ranks without its bias, from 0 to 1.
    """
    rows = len(a.waves)
    if not len(a.spectrum) or not len(b.spectrum):
        return 1.0, 0.0
    weights = torch.outer(a.spectrum, b.spectrum).flatten()
    covariance = (a.waves.T @ b.waves / rows).square().sum().item()

    left = min(a.rows, b.rows)
    p = quadratic_tail(covariance * (rows - 1) / rows * effective(left, learned), weights)

    unbiased = max(0.0, covariance - weights.sum().item() / left)
    variances = a.spectrum.square().sum().item() * b.spectrum.square().sum().item()

    return p, min(1.0, math.sqrt(unbiased / math.sqrt(variances)))


def mutual_independence(columns: Tensor, learned: float = math.inf) -> tuple[float, float]:
    """Tests whether several columns, `(rows, columns)`, are all independent; returns p-value and largest strength."""
    each = [Ranked.of(column.unsqueeze(1)) for column in columns.unbind(1)]
    pairs = [independence(a, b, learned) for i, b in enumerate(each) for a in each[:i]]
    # One number for all pairs: the least p-value, times their number.
    return min(1.0, len(pairs) * min(p for p, _ in pairs)), max(strength for _, strength in pairs)
