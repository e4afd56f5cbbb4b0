r"""Two samples of one law, in any dimension: the energy distance of their ranks.

.. math:: E = 2 \, \mathrm{mean} |x - y| - \mathrm{mean} |x - x'| - \mathrm{mean} |y - y'|

is 0 for one law and positive for two. Of one law, :math:`E / (1/n + 1/m)` is a sum of weighted squares of normals; the
weights are the eigenvalues of the centred distances of the pooled rows. Ranks make it free of units and of outliers.

References:
    Energy statistics: a class of statistics based on distances (Szekely and Rizzo, 2013).
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


def energy_test(x: Tensor, y: Tensor, learned: float = math.inf) -> tuple[float, float]:
    """Tests whether two samples come from one law.

    Args:
        x: The one, in any order, with shape `(rows, columns)`.
        y: The other, likewise.
        learned: The number of rows from which the law of the second was learned, whose errors the test allows for.

    Returns:
        The p-value and the energy distance of the ranks.
    """
    n, m = len(x), len(y)
    pooled = ranks(torch.cat([x, y]))
    x, y = pooled.split([n, m])
    distance = (2 * torch.cdist(x, y).mean() - torch.cdist(x, x).mean() - torch.cdist(y, y).mean()).item()

    # As many of each as there are in the whole.
    some = pooled[:: max(1, math.ceil((n + m) / ROWS_OF_SPECTRUM))]
    near = -torch.cdist(some, some)
    centred = near - near.mean(0) - near.mean(1, keepdim=True) + near.mean()
    spectrum = torch.linalg.eigvalsh(centred / len(some))

    return quadratic_tail(distance * effective(n, m, learned), spectrum[spectrum > 0]), distance
