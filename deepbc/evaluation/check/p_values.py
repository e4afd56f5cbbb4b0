r"""How rare a statistic is where a claim holds, and how rare is rare enough among many.

The gap of two distribution functions follows Kolmogorov's law, a quadratic form of normals

.. math:: Q = \sum_i w_i z_i^2, \qquad z_i \sim N(0, 1),

is the law of the other statistics here. Its tail comes from the saddlepoint :math:`\kappa'(s) = q` of
:math:`\kappa(s) = -\frac{1}{2} \sum_i \log(1 - 2 s w_i)`:

.. math:: P(Q > q) \approx 1 - \Phi(r + \log(v / r) / r), \quad
    r = \operatorname{sign}(s) \sqrt{2 (s q - \kappa(s))}, \quad v = s \sqrt{\kappa''(s)},

whose relative error stays at a few per cent however small the tail is, where simulation or moments give out.

References:
    Saddlepoint approximations for distributions of quadratic forms in normal variables (Kuonen, 1999), equation 3.
    Use of the Kolmogorov-Smirnov, Cramer-von Mises and related statistics without extensive tables (Stephens, 1970).
    A simple sequentially rejective multiple test procedure (Holm, 1979).
"""

__all__ = ["effective", "holm", "kolmogorov_tail", "normal_tail", "quadratic_tail"]

import math
from collections.abc import Sequence

from torch import Tensor

TERMS, HALVINGS = 100, 50
# Below it Kolmogorov's law has nothing, and its series does not converge.
LEAST = 0.2
# Next to the mean the formula is 0 / 0; so many standard deviations away it is not.
NEAR_MEAN = 1e-3


def effective(*rows: float) -> float:
    """The number of rows whose error is that of all of these together: 1 / (1 / a + 1 / b + ...)."""
    return 1 / sum(1 / each for each in rows)


def kolmogorov_tail(gap: float, rows: float) -> float:
    """The probability of a larger gap between the distribution functions of a law and of so many of its draws."""
    x = gap * (math.sqrt(rows) + 0.12 + 0.11 / math.sqrt(rows))
    if x < LEAST:
        return 1.0

    return min(1.0, 2 * math.fsum((-1) ** (k - 1) * math.exp(-2 * (k * x) ** 2) for k in range(1, TERMS)))


def normal_tail(z: float) -> float:
    """The probability that a standard normal is larger."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def quadratic_tail(q: float, weights: Tensor) -> float:
    """The probability that a sum of weighted squares of standard normals is larger.

    Args:
        q: The value of the sum.
        weights: The positive weights, with shape `(terms,)`.
    """
    largest = weights.max()
    w, q = weights / largest, max(q / largest.item(), 1e-12)
    mean, sd = w.sum().item(), math.sqrt(2 * w.square().sum().item())
    if abs(q - mean) < NEAR_MEAN * sd:
        q = mean + NEAR_MEAN * sd

    s = _saddlepoint(q, w)
    shrink = 1 - 2 * s * w
    v = s * math.sqrt(2 * (w / shrink).square().sum().item())
    r = math.copysign(math.sqrt(max(2 * s * q + shrink.log().sum().item(), 1e-300)), s)

    return normal_tail(r + math.log(v / r) / r)


def _saddlepoint(q: float, w: Tensor) -> float:
    """Solves for where the slope of the cumulant function is q, by halving; the largest weight is 1."""
    below, above = -len(w) / (2 * q), 0.5
    for _ in range(HALVINGS):
        s = (below + above) / 2
        if (w / (1 - 2 * s * w)).sum() < q:
            below = s
        else:
            above = s

    return (below + above) / 2


def holm(p: Sequence[float]) -> list[float]:
    """Adjusts p-values for their number: each may be held against the level at which all together are to err.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    adjusted, least = [0.0] * len(p), 0.0
    for rank, k in enumerate(sorted(range(len(p)), key=lambda k: p[k])):
        least = adjusted[k] = max(least, min(1.0, (len(p) - rank) * p[k]))

    return adjusted
