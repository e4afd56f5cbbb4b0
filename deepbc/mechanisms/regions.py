r"""Regions of the noise: all noises that lead to one value of a discrete variable, or of a censored one.

The noise is standard normal. A region has a mass (the probability of its value), a mean (the noise that is abducted
from the value alone), a nearest point to any noise, and maps from random numbers into it. All kinds are convex.

An `Interval` belongs to one noise. A `PointOrInterval` is one in some rows, and in others the lone noise that leads to
a number, where a density stands in the place of a mass. A `Wedge` belongs to :math:`K - 1` noises, which add to means
:math:`m_l`; the class is the largest of :math:`g_l = m_l + u_l` if that exceeds :math:`c`, or else the base. Given
:math:`t = g_k`, the other noises are independent, so that the probability of class :math:`k` is an integral over one
number,

.. math:: P(k) = \int_c^\infty \varphi(t - m_k) \prod_{l \ne k} \Phi(t - m_l) \, dt, \qquad
          P(\text{base}) = \prod_l \Phi(c - m_l),

whose integrand has one peak; Gauss-Legendre rules on both sides of it are exact to many digits.
"""

__all__ = ["NOISE_MARGIN", "Interval", "PointOrInterval", "Region", "Wedge"]

import functools
from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from deepbc.numerics.truncated_normal import (
    LOG_SQRT_2PI,
    inverse_mills_ratio,
    log_mass,
    mean_between,
    quantile_between,
    truncated,
)

# Interior margin of regions, in noise, and at most this part of their width: rounding cannot leave them.
NOISE_MARGIN, PART = 1e-6, 0.1
# How far inside a noise is where there is no side.
INWARD = -1e3
# The integral: nodes on either side of the peak, how far they reach, and how often the peak is halved in on.
NODES, REACH, HALVINGS = 24, 6.5, 14
# Where moments are computed together, to learn by, fewer and nearer nodes are right to four digits or so.
MOMENT_NODES, MOMENT_REACH, MOMENT_HALVINGS = 10, 4.5, 7
# The least probability that has a logarithm.
TINY = 1e-300
# Noise is drawn from the peak's surroundings by so many steps.
STEPS = 256


class Region(ABC):
    """All noises that lead to one value."""

    @abstractmethod
    def log_mass(self) -> Tensor:
        """The logarithm of its probability, with shape `(*batch,)`."""

    @abstractmethod
    def mean(self) -> Tensor:
        """The mean of the noise in it, with shape `(*batch, noise)`."""

    @abstractmethod
    def nearest(self, u: Tensor) -> Tensor:
        """The noise in it that is nearest to a noise, both with shape `(*batch, noise)`; one inside stays."""

    @abstractmethod
    def nearest_and_jacobian(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the nearest noise, and its derivatives by a shift of the region, `(*batch, noise, noise)`."""

    @abstractmethod
    def excess(self, u: Tensor) -> Tensor:
        """How far a noise `(*batch, noise)` is outside, side by side, with shape `(*batch, sides)`; below 0 inside."""

    @abstractmethod
    def draw(self, uniform: Tensor) -> Tensor:
        """Draws noise from it from uniform random numbers, both with shape `(*batch, noise)`."""

    @abstractmethod
    def take(self, rows: Tensor) -> "Region":
        """Takes the given rows along the last axis of the batch."""

    @abstractmethod
    def inside(self, w: Tensor, centre: Tensor, width: float) -> tuple[Tensor, Tensor]:
        r"""Maps any numbers smoothly into it, so that a density inside becomes one of free coordinates.

        Args:
            w: The coordinates, with shape `(*batch, noise)`; standard normal if a normal density fills the region.
            centre: The centre of that normal density, with shape `(*batch, noise)`.
            width: Its standard deviation.

        Returns:
            The noise :math:`u(w)`, with shape `(*batch, noise)`, and the logarithm of the volume
            :math:`|du / dw|` but for a constant, with shape `(*batch,)`.
        """


class Interval(Region):
    """Creates the region of one noise between two ends.

    Args:
        lower: The lower end, with shape `(*batch, 1)`; may be infinite.
        upper: The upper end.
    """

    def __init__(self, lower: Tensor, upper: Tensor) -> None:
        self.lower, self.upper = lower, upper

    def take(self, rows: Tensor) -> "Interval":
        return Interval(self.lower.index_select(-2, rows), self.upper.index_select(-2, rows))

    def log_mass(self) -> Tensor:
        return log_mass(self.lower, self.upper).squeeze(-1)

    def mean(self) -> Tensor:
        return mean_between(self.lower, self.upper)

    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """The logarithm of the mass `(*batch,)`, and mean and variance of the noise in it, `(*batch, noise)`."""
        mass = log_mass(self.lower, self.upper)
        ends = [torch.where(end.isfinite(), end, 0.0) for end in (self.lower, self.upper)]
        low, high = (torch.exp(-0.5 * end.square() - LOG_SQRT_2PI - mass) for end in ends)
        low, high = torch.where(self.lower.isfinite(), low, 0.0), torch.where(self.upper.isfinite(), high, 0.0)
        mean = low - high

        return mass.squeeze(-1), mean, 1 + ends[0] * low - ends[1] * high - mean.square()

    def nearest(self, u: Tensor) -> Tensor:
        low, high = self._shrunk()
        there = (u > self.lower) & (u < self.upper)

        return torch.where(there, u, torch.maximum(torch.minimum(u, high), low))

    def nearest_and_jacobian(self, u: Tensor) -> tuple[Tensor, Tensor]:
        there = (u > self.lower) & (u < self.upper)

        return self.nearest(u), (~there).to(u.dtype).unsqueeze(-1)

    def excess(self, u: Tensor) -> Tensor:
        sides = torch.cat([self.lower - u, u - self.upper], dim=-1)

        return torch.where(sides.isfinite(), sides, INWARD)

    def draw(self, uniform: Tensor) -> Tensor:
        low, high = self._shrunk()

        return quantile_between(uniform, low, high)

    def inside(self, w: Tensor, centre: Tensor, width: float) -> tuple[Tensor, Tensor]:
        low, high = self._shrunk()
        z, mass = truncated(w, (low - centre) / width, (high - centre) / width)

        return centre + width * z, _terms(mass, w, z).sum(-1)

    def _shrunk(self) -> tuple[Tensor, Tensor]:
        # Without a number for the width, as where both ends are the same infinity, it is the whole margin.
        margin = torch.fmin(PART * (self.upper - self.lower), self.lower.new_tensor(NOISE_MARGIN))

        return self.lower + margin, self.upper - margin


class PointOrInterval(Region):
    """Creates the region of one noise that is an interval in some rows and a point in others.

    Args:
        interval: The interval; in rows of a point any.
        point: The noise of a point, with shape `(*batch, 1)`.
        alone: Where it is one, with the same shape.
        log_volume: The log-volume of the inverse at a point, with shape `(*batch,)`.
    """

    def __init__(self, interval: Interval, point: Tensor, alone: Tensor, log_volume: Tensor) -> None:
        self.interval, self.point, self.alone, self.log_volume = interval, point, alone, log_volume

    def take(self, rows: Tensor) -> "PointOrInterval":
        return PointOrInterval(
            self.interval.take(rows), self.point[..., rows, :], self.alone[..., rows, :], self.log_volume[..., rows]
        )

    def log_mass(self) -> Tensor:
        density = self.log_volume - (0.5 * self.point.square() + LOG_SQRT_2PI).squeeze(-1)

        return torch.where(self.alone.squeeze(-1), density, self.interval.log_mass())

    def mean(self) -> Tensor:
        return torch.where(self.alone, self.point, self.interval.mean())

    def nearest(self, u: Tensor) -> Tensor:
        return torch.where(self.alone, self.point, self.interval.nearest(u))

    def nearest_and_jacobian(self, u: Tensor) -> tuple[Tensor, Tensor]:
        nearest, by_shift = self.interval.nearest_and_jacobian(u)

        return torch.where(self.alone, self.point, nearest), torch.where(self.alone.unsqueeze(-1), 1.0, by_shift)

    def excess(self, u: Tensor) -> Tensor:
        sides = torch.cat([self.point - u, u - self.point], dim=-1)

        return torch.where(self.alone, sides, self.interval.excess(u))

    def draw(self, uniform: Tensor) -> Tensor:
        return torch.where(self.alone, self.point, self.interval.draw(uniform))

    def inside(self, w: Tensor, centre: Tensor, width: float) -> tuple[Tensor, Tensor]:
        u, volume = self.interval.inside(w, centre, width)
        # At a point the coordinate says nothing, and stays standard normal.
        at_point = self.log_volume - 0.5 * w.square().sum(-1)

        return torch.where(self.alone, self.point, u), torch.where(self.alone.squeeze(-1), at_point, volume)


class Wedge(Region):
    """Creates the region of a class among several.

    Args:
        x: The class as indicators of all but the base, with shape `(*batch, noise)`.
        means: What the noises add to, with shape `(*batch, noise)`.
        offset: What the largest has to exceed.
    """

    def __init__(self, x: Tensor, means: Tensor, offset: float) -> None:
        self.chosen, self.base = x > 0.5, ~(x > 0.5).any(-1, keepdim=True)
        self.means, self.offset = means, offset

    def take(self, rows: Tensor) -> "Wedge":
        return Wedge(self.chosen[..., rows, :].to(self.means), self.means[..., rows, :], self.offset)

    def log_mass(self) -> Tensor:
        base = torch.special.log_ndtr(self.offset - self.means).sum(-1)

        return torch.where(self.base.squeeze(-1), base, self._integrand()[1].logsumexp(-1))

    def mean(self) -> Tensor:
        t, height = self._integrand()
        share = height.softmax(-1).unsqueeze(-1)
        own = (share * (t.unsqueeze(-1) - self.means.unsqueeze(-2))).sum(-2)
        others = -(share * inverse_mills_ratio(t.unsqueeze(-1) - self.means.unsqueeze(-2))).sum(-2)
        base = -inverse_mills_ratio(self.offset - self.means)

        return torch.where(self.base, base, torch.where(self.chosen, own, others))

    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """The logarithm of the mass `(*batch,)`, and mean and variance of each noise in it, `(*batch, noise)`."""
        t, weight = self._nodes(MOMENT_NODES, MOMENT_REACH, MOMENT_HALVINGS)
        below = t.unsqueeze(-1) - self.means.unsqueeze(-2)
        # Faster than `log_ndtr`, and as exact down to -37, where nothing is left.
        log_cdf = torch.special.ndtr(below).clamp_min_(TINY).log_()
        others = log_cdf.masked_fill(self.chosen.unsqueeze(-2), 0.0).sum(-1)
        height = others - 0.5 * (t - self._own(self.means)).square() - LOG_SQRT_2PI + weight
        mass = height.logsumexp(-1)
        share = (height - mass.unsqueeze(-1)).exp().unsqueeze(-2)
        # Noise below an end has the mean minus a ratio, and the mean square 1 minus the end times that ratio.
        ratio = (-0.5 * below.square() - LOG_SQRT_2PI - log_cdf).exp_()
        own = (share @ below).squeeze(-2), (share @ below.square()).squeeze(-2)
        other = -(share @ ratio).squeeze(-2), 1 - (share @ (below * ratio)).squeeze(-2)
        end = self.offset - self.means
        at_end = inverse_mills_ratio(end)
        base = -at_end, 1 - end * at_end
        mean, square = (
            torch.where(self.base, in_base, torch.where(self.chosen, chosen, rest))
            for in_base, chosen, rest in zip(base, own, other, strict=True)
        )
        in_base = torch.special.log_ndtr(end).sum(-1)

        return torch.where(self.base.squeeze(-1), in_base, mass), mean, square - mean.square()

    def nearest(self, u: Tensor) -> Tensor:
        there, t = self._cut(self.means + u)
        moved = torch.where(
            self.chosen, t + NOISE_MARGIN / 2 - self.means, torch.minimum(u, t - NOISE_MARGIN / 2 - self.means)
        )

        return torch.where(there, u, moved)

    def nearest_and_jacobian(self, u: Tensor) -> tuple[Tensor, Tensor]:
        there, t = self._cut(self.means + u)
        # All that are cut move as one, with their mean; at the offset they stay with the region.
        cut = ((self.chosen | (self.means + u > t)) & ~there).to(u.dtype)
        floor = self.base | (t <= self.offset + NOISE_MARGIN / 2)
        share = torch.where(floor, 0.0, cut / cut.sum(-1, keepdim=True).clamp_min(1.0))

        return self.nearest(u), torch.diag_embed(cut) - cut.unsqueeze(-1) * share.unsqueeze(-2)

    def _cut(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Whether noise is inside, and the height to which all others are cut down, both `(*batch, 1)`.

        The height is the mean of its own and of all that are cut, the largest such mean.
        """
        own = self._own(g)
        others = g.masked_fill(self.chosen, -torch.inf).sort(dim=-1, descending=True).values
        there = torch.where(self.base, others[..., :1] < self.offset, own > others[..., :1].clamp_min(self.offset))
        ranked = torch.cat([own, others[..., :-1]], dim=-1)
        means = ranked.cumsum(-1) / torch.arange(1, ranked.shape[-1] + 1, device=g.device)
        t = means.amax(-1, keepdim=True).clamp_min(self.offset + NOISE_MARGIN / 2)

        return there, torch.where(self.base, self.offset - NOISE_MARGIN / 2, t)

    def excess(self, u: Tensor) -> Tensor:
        g = self.means + u
        highest = torch.where(self.base, self.offset, self._own(g))
        above_base = (self.offset - highest).masked_fill(self.base, INWARD)

        return torch.cat([(g - highest).masked_fill(self.chosen, INWARD), above_base], dim=-1)

    def draw(self, uniform: Tensor) -> Tensor:
        t = torch.where(self.base, self.offset, self._draw_height(self._own(uniform)))
        below = quantile_between(uniform, torch.full_like(uniform, -torch.inf), t - NOISE_MARGIN - self.means)

        return torch.where(self.chosen, t - self.means, below)

    def inside(self, w: Tensor, centre: Tensor, width: float) -> tuple[Tensor, Tensor]:
        start = self.means + centre
        low = (self.offset + NOISE_MARGIN - self._own(start)) / width
        w_own = self._own(w)
        z_own, mass_own = truncated(w_own, low, torch.full_like(low, torch.inf))
        t = torch.where(self.base, self.offset, self._own(start) + width * z_own)

        # The end of the chosen one itself is of no use, and kept finite.
        high = torch.where(self.chosen, 0.0, (t - NOISE_MARGIN - start) / width)
        z, mass = truncated(w, torch.full_like(high, -torch.inf), high)
        volume = torch.where(self.chosen, 0.0, _terms(mass, w, z)).sum(-1, keepdim=True)
        volume = volume + torch.where(self.base, 0.0, _terms(mass_own, w_own, z_own))

        return centre + width * torch.where(self.chosen, z_own, z), volume.squeeze(-1)

    def _own(self, rows: Tensor) -> Tensor:
        """The component of the chosen class, with shape `(*batch, 1)`; 0 for the base."""
        return torch.where(self.chosen, rows, 0.0).sum(-1, keepdim=True)

    def _height(self, t: Tensor) -> Tensor:
        """The logarithm of the integrand at numbers of shape `(*batch, nodes)`."""
        own = self._own(self.means)
        others = torch.special.log_ndtr(t.unsqueeze(-1) - self.means.unsqueeze(-2))

        product: Tensor = others.masked_fill(self.chosen.unsqueeze(-2), 0.0).sum(-1)

        return product - 0.5 * (t - own).square() - LOG_SQRT_2PI

    @torch.no_grad()
    def peak(self, halvings: int = HALVINGS) -> Tensor:
        """Where the integrand is highest above the offset, with shape `(*batch, 1)`; found by halving."""
        own = self._own(self.means)
        low = own.clamp_min(self.offset)
        high = torch.maximum(low, self.means.amax(-1, keepdim=True)) + 1.0 + 0.1 * self.means.shape[-1]
        for _ in range(halvings):
            t = (low + high) / 2
            pull = inverse_mills_ratio(t - self.means).masked_fill(self.chosen, 0.0).sum(-1, keepdim=True)
            rising = pull > t - own
            low, high = torch.where(rising, t, low), torch.where(rising, high, t)

        return (low + high) / 2

    def _integrand(self) -> tuple[Tensor, Tensor]:
        """The nodes of the integral and the logarithm of integrand and weight, both `(*batch, nodes)`."""
        t, weight = self._nodes(NODES, REACH, HALVINGS)

        return t, self._height(t) + weight

    def _nodes(self, count: int, reach: float, halvings: int) -> tuple[Tensor, Tensor]:
        """So many nodes on either side of the peak, and the logarithms of their weights, `(*batch, nodes)`."""
        places, weights = _legendre(count, self.means.dtype, self.means.device)
        peak = self.peak(halvings)
        left = (peak - self.offset).clamp(min=1e-12, max=reach)
        t = torch.cat([peak - left * places, peak + reach * places], dim=-1)

        return t, torch.cat([left.log() + weights, torch.full_like(left, reach).log() + weights], dim=-1)

    def _draw_height(self, uniform: Tensor) -> Tensor:
        """Draws t by the table of its distribution, with shape `(*batch, 1)`."""
        peak = self.peak()
        start = (peak - REACH).clamp_min(self.offset + NOISE_MARGIN)
        steps = torch.linspace(0.0, 1.0, STEPS + 1, dtype=peak.dtype, device=peak.device)
        t = start + (peak + REACH - start) * steps
        height = self._height(t)
        density = (height - height.amax(-1, keepdim=True)).exp()
        cdf = torch.cat([torch.zeros_like(peak), ((density[..., 1:] + density[..., :-1]) / 2).cumsum(-1)], dim=-1)
        cdf = cdf / cdf[..., -1:]
        place = torch.searchsorted(cdf, uniform.contiguous(), right=True).clamp(1, STEPS)
        low, high = cdf.gather(-1, place - 1), cdf.gather(-1, place)
        part = ((uniform - low) / (high - low).clamp_min(1e-300)).clamp(0.0, 1.0)

        return torch.lerp(t.gather(-1, place - 1), t.gather(-1, place), part)


def _terms(mass: Tensor, w: Tensor, z: Tensor) -> Tensor:
    """The logarithm of dz / dw where z is normal between ends of a given mass, and w normal."""
    return mass - 0.5 * w.square() + 0.5 * z.square()


@functools.cache
def _legendre(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes between 0 and 1 and the logarithms of their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)

    return (
        torch.tensor((nodes + 1) / 2, dtype=dtype, device=device),
        torch.tensor(np.log(weights / 2), dtype=dtype, device=device),
    )
