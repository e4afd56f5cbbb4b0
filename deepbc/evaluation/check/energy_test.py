r"""Two samples of one law, in any dimension: the energy distance of their ranks.

.. math:: E = 2 \, \mathrm{mean} |x - y| - \mathrm{mean} |x - x'| - \mathrm{mean} |y - y'|

is 0 for one law and positive for two. Of one law, :math:`E / (1/n + 1/m)` is a sum of weighted squares of normals; the
weights are the eigenvalues of the centred distances of the pooled rows. Ranks make it free of units and of outliers.

The energy coefficient :math:`H = E / (2 \, \mathrm{mean} |x - y|)` lies between 0 and 1. Its root is an effect size,
here without the bias that the distance of a row to itself brings.

References:
    Energy statistics: a class of statistics based on distances (Szekely and Rizzo, 2013), with the coefficient.
    A fast, consistent kernel two-sample test (Gretton et al., 2009): the law of the statistic from the spectrum.
"""

__all__ = ["energy_test"]

import math

import torch
from torch import Tensor

from deepbc.evaluation.check.distance_covariance import ranks
from deepbc.evaluation.check.p_values import effective, quadratic_tail

# Pooled rows from which the weights are found; all of them would take ten times as long and change little.
ROWS_OF_SPECTRUM = 400


def energy_test(x: Tensor, y: Tensor, learned: float = math.inf) -> tuple[float, float, float]:
    """Tests whether two samples come from one law.

    Args:
        x: The one, in any order, with shape `(rows, columns)`.
        y: The other, likewise.
        learned: The number of rows from which the law of the second was learned, whose errors the test allows for.

    Returns:
        The p-value, the energy distance of the ranks, and the root of the energy coefficient.
    """
    n, m = len(x), len(y)
    pooled = ranks(torch.cat([x, y]))
    x, y = pooled.split([n, m])
    between, within_x, within_y = (torch.cdist(*pair).mean().item() for pair in ((x, y), (x, x), (y, y)))
    distance = 2 * between - within_x - within_y
    unbiased = max(0.0, 2 * between - within_x * n / (n - 1) - within_y * m / (m - 1))

    # As many of each as there are in the whole.
    some = pooled[:: max(1, math.ceil((n + m) / ROWS_OF_SPECTRUM))]
    near = -torch.cdist(some, some)
    centred = near - near.mean(0) - near.mean(1, keepdim=True) + near.mean()
    spectrum = torch.linalg.eigvalsh(centred / len(some))

    p = quadratic_tail(distance * effective(n, m, learned), spectrum[spectrum > 0])

    return p, distance, math.sqrt(unbiased / max(2 * between, 1e-12))
