r"""The overlap of two regions of the noise: how likely one value becomes another when its causes change.

A label does not tell its noise. Of all noises that lead to it under the factual parents, those that lead to another
label under other parents are the overlap of two regions,

.. math:: P(x^* \mid x) = \frac{P(u \in R_x(x_{pa}) \cap R_{x^*}(x^*_{pa}))}{P(u \in R_x(x_{pa}))}.

For one noise it is an interval. For a `Wedge` the noises of both labels are fixed, at :math:`a` and :math:`b`; given
them all others are independent and lie below the lower of two heights, so that the mass is an integral over two
numbers, by Gauss-Legendre rules, right to three digits.

References:
    Causality (Pearl, 2009), section 7.1: abduction of a noise that the facts do not determine.
"""

__all__ = ["overlap"]

import functools

import numpy as np
import torch
from torch import Tensor

from deepbc.mechanisms.regions import Interval, Region, Wedge
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI, inverse_mills_ratio

# Nodes of each of the two outer integrals, and of the inner one; noise beyond the reach is left out.
OUTER, INNER, REACH = 16, 12, 6.5
# Points in a region of another kind.
POINTS = 512


def overlap(old: Region, new: Region) -> tuple[Tensor, Tensor]:
    """The probability of two regions at once, with shape `(rows,)`, and the mean noise there, `(rows, noise)`.

    Where they do not meet the mean is no number.
    """
    if isinstance(old, Interval) and isinstance(new, Interval):
        both = Interval(torch.maximum(old.lower, new.lower), torch.minimum(old.upper, new.upper))
        there = (both.lower < both.upper).squeeze(-1)
        return torch.where(there, both.log_mass().exp(), 0.0), torch.where(there.unsqueeze(-1), both.mean(), torch.nan)

    if isinstance(old, Wedge) and isinstance(new, Wedge):
        return _Wedges(old, new).integrate()

    return _count(old, new)


def _count(old: Region, new: Region) -> tuple[Tensor, Tensor]:
    """The overlap of regions of any kind, by points of a Sobol sequence in the first."""
    like = old.mean()
    points = torch.quasirandom.SobolEngine(like.shape[-1], scramble=True, seed=0).draw(POINTS).to(like)
    count, total = torch.zeros_like(like[..., 0]), torch.zeros_like(like)
    for point in points.clamp(1e-9, 1 - 1e-9):
        u = old.draw(point.expand_as(like))
        there = (new.excess(u) < 0).all(-1)
        count, total = count + there, total + u.where(there.unsqueeze(-1), 0.0)

    return count / POINTS * old.log_mass().exp(), total / count.unsqueeze(-1)


class _Wedges:
    """The overlap of two wedges, on a grid of nodes `(rows, outer, inner)`."""

    def __init__(self, old: Wedge, new: Wedge) -> None:
        self.old, self.new = old, new
        self.same = (old.chosen & new.chosen).any(-1, keepdim=True)

    def integrate(self) -> tuple[Tensor, Tensor]:
        old, new, c = self.old, self.new, self.old.offset
        a, log_weight = self._outer()
        height = torch.where(old.base, c, a + _own(old, old.means))
        low = torch.maximum(c - _own(new, new.means), a + _own(old, new.means) - _own(new, new.means))
        low = torch.where(old.base, c - _own(new, new.means), low)
        b, inner = self._inner(low, height - _own(new, old.means))
        b = torch.where(self.same.unsqueeze(-1), a.unsqueeze(-1), b)

        other = torch.where(new.base.unsqueeze(-1), c, _own(new, new.means).unsqueeze(-1) + b).unsqueeze(-1)
        below = torch.minimum(height[..., None, None] - old.means[:, None, None], other - new.means[:, None, None])
        on_axis = (old.chosen | new.chosen)[:, None, None]
        density = torch.special.log_ndtr(below).masked_fill(on_axis, 0.0).sum(-1)
        density = (density + log_weight.unsqueeze(-1) + inner).flatten(1)

        log_mass = density.logsumexp(-1)
        share = (density - log_mass.unsqueeze(-1)).exp().unsqueeze(-1)
        noise = torch.where(old.chosen[:, None, None], a[..., None, None], -inverse_mills_ratio(below))
        noise = torch.where((new.chosen & ~old.chosen)[:, None, None], b.unsqueeze(-1), noise).flatten(1, 2)

        return log_mass.exp(), (share * noise).sum(1)

    def _outer(self) -> tuple[Tensor, Tensor]:
        """Noises of the old label and the logarithms of their weights, both `(rows, outer)`.

        Below the point where the old label would give way to the base it leads to the base or another label, and above
        it to itself or another label.
        """
        old, new = self.old, self.new
        places, weights = _legendre(OUTER, old.means.dtype, old.means.device)
        start = old.offset - _own(old, old.means)
        peak = old.peak() - _own(old, old.means)
        start, end = torch.maximum(start, peak - REACH), torch.maximum(start, peak) + REACH
        middle = (old.offset - _own(old, new.means)).clamp(min=start, max=end)
        ends = ((start, torch.where(self.same, start, middle)), (torch.where(new.base, end, middle), end))
        a = torch.cat([low + (high - low) * places for low, high in ends], dim=-1)
        weight = torch.cat([(high - low).log() + weights for low, high in ends], dim=-1)
        even = torch.full_like(weight, -float(np.log(weight.shape[-1])))

        return a, torch.where(old.base, even, weight - 0.5 * a.square() - LOG_SQRT_2PI)

    def _inner(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Noises of the new label between two ends `(rows, outer)`, and the logarithms of their weights."""
        places, weights = _legendre(INNER, low.dtype, low.device)
        low, high = low.clamp(-REACH, REACH), high.clamp(-REACH, REACH)
        width = (high - low).clamp_min(0.0).unsqueeze(-1)
        b = low.unsqueeze(-1) + width * places
        weight = width.log() + weights - 0.5 * b.square() - LOG_SQRT_2PI
        alone = (self.same | self.new.base).unsqueeze(-1)

        return b, torch.where(alone, -float(np.log(INNER)), weight)


def _own(wedge: Wedge, means: Tensor) -> Tensor:
    """The component of the label of a wedge, with shape `(rows, 1)`; 0 for the base."""
    return torch.where(wedge.chosen, means, 0.0).sum(-1, keepdim=True)


@functools.cache
def _legendre(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes between 0 and 1 and the logarithms of their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)

    return (
        torch.tensor((nodes + 1) / 2, dtype=dtype, device=device),
        torch.tensor(np.log(weights / 2), dtype=dtype, device=device),
    )
