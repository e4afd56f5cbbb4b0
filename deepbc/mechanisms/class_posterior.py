r"""The weights of a law of classes: the mode of their posterior, and what each row says of the others.

The means of :math:`m` competing noises, or the one mean of ordered levels, are :math:`f(c) = W^\top \psi(c)`, with the
prior :math:`W \sim N(0, I)`. The likelihood is log-concave: the slope of :math:`\log P(\text{class})` by the means is
the mean of the noise in the region of the class, and minus its curvature is one minus the variance there. With the
posterior variance :math:`h` of a mean at a row, and slope :math:`g` and curvature :math:`w` there, the mean under the
fit to all other rows is

.. math:: f_{-i} \approx f - \frac{h}{1 - h w} \, g .

Both neglect the curvature between different classes, and the second leaves cut points where they are.

References:
    Gaussian Processes for Machine Learning (Rasmussen and Williams, 2006), section 3.4.
    Bayesian Leave-One-Out Cross-Validation Approximations for Gaussian Latent Variable Models (Vehtari et al., 2016).
"""

__all__ = ["ClassPosterior", "Likelihood", "Ordered", "Unordered", "log_mass_of", "region_of"]

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from deepbc.mechanisms.regions import Interval, Wedge
from deepbc.numerics.quasi_newton import minimize
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI

# The search for the mode: steps before the curvature is taken anew and after, and the least rise of one, and a row.
FIRST_STEPS, STEPS, LEAST_RISE, LEAST_RISE_OF_ROW = 6, 40, 1e-3, 1e-6
# Rows times means from which a start is found by fewer rows, and how many.
MANY, FEW = 20_000, 8_000
# Rows per block, whose integrals then stay in the cache.
BLOCK = 512
LARGEST_LEVERAGE, LEAST_CURVATURE = 0.95, 1e-9

# Log-likelihood of rows `(rows,)`, its slopes and minus its curvatures by the means `(rows, means)`, and its slopes by
# other numbers `(rows, others)`.
Terms = tuple[Tensor, Tensor, Tensor, Tensor]


class Likelihood(ABC):
    """The likelihood of classes, given means and, of ordered levels, cut points."""

    @property
    @abstractmethod
    def means(self) -> int:
        """How many means a row has."""

    @property
    @abstractmethod
    def others(self) -> int:
        """How many other numbers there are."""

    @abstractmethod
    def start(self, counts: Tensor) -> Tensor:
        """Where to start with the other numbers, with shape `(others,)`."""

    @abstractmethod
    def terms(self, means: Tensor, others: Tensor) -> Terms:
        """Likelihood and derivatives at means of shape `(rows, means)` and other numbers."""

    @abstractmethod
    def take(self, rows: int) -> "Likelihood":
        """That of the first rows."""


@dataclass(frozen=True)
class Unordered(Likelihood):
    """The likelihood of labels.

    Args:
        x: Indicators of all labels but the base, with shape `(rows, means)`.
        offset: What the largest has to exceed.
    """

    x: Tensor
    offset: float

    @property
    def means(self) -> int:
        return self.x.shape[-1]

    @property
    def others(self) -> int:
        return 0

    def start(self, counts: Tensor) -> Tensor:
        return counts[:0]

    def terms(self, means: Tensor, others: Tensor) -> Terms:
        mass, mean, variance = _moments(self.x, means, self.offset)

        return mass, mean, (1 - variance).clamp_min(LEAST_CURVATURE), means[:, :0]

    def take(self, rows: int) -> "Unordered":
        return Unordered(self.x[:rows], self.offset)


@dataclass(frozen=True)
class Ordered(Likelihood):
    """The likelihood of ordered levels; the other numbers are the cut points.

    Args:
        codes: The places of the levels, with shape `(rows,)`.
        cuts: How many cut points there are.
    """

    codes: Tensor
    cuts: int

    @property
    def means(self) -> int:
        return 1

    @property
    def others(self) -> int:
        return self.cuts

    def start(self, counts: Tensor) -> Tensor:
        share = counts.new_zeros(self.cuts + 1).index_add(0, self.codes, counts)

        quantiles: Tensor = torch.special.ndtri((share.cumsum(0) / share.sum())[:-1])

        return quantiles

    def terms(self, means: Tensor, others: Tensor) -> Terms:
        outer = others.new_full((1,), torch.inf)
        ends = torch.cat([-outer, others, outer])[:, None]
        low, high = ends[self.codes] - means, ends[self.codes + 1] - means
        mass, mean, variance = Interval(low, high).moments()
        densities = [torch.exp(-0.5 * end.square() - LOG_SQRT_2PI - mass[:, None]) for end in (low, high)]
        places = torch.arange(self.cuts, device=others.device)
        by_cuts = torch.where(self.codes[:, None] == places, densities[1], 0.0)
        by_cuts = by_cuts - torch.where(self.codes[:, None] == places + 1, densities[0], 0.0)

        return mass, mean, (1 - variance).clamp_min(LEAST_CURVATURE), by_cuts

    def take(self, rows: int) -> "Ordered":
        return Ordered(self.codes[:rows], self.cuts)


@dataclass(frozen=True, slots=True)
class ClassPosterior:
    r"""Creates the posterior.

    Args:
        likelihood: The likelihood of the rows.
        coordinates: The coordinates :math:`\psi` of the rows, with shape `(rows, coordinates)`.
        counts: How often each row counts, with shape `(rows,)`.
    """

    likelihood: Likelihood
    coordinates: Tensor
    counts: Tensor

    def mode(self, start: Tensor | None = None) -> Tensor:
        """Finds the mode: other numbers, then weights, with shape `(others + coordinates * means,)`."""
        few = FEW // self.likelihood.means
        if start is None and len(self.counts) * self.likelihood.means > MANY and len(self.counts) > few:
            share = self.counts.sum() / self.counts[:few].sum()
            some = replace(
                self,
                likelihood=self.likelihood.take(few),
                coordinates=self.coordinates[:few],
                counts=self.counts[:few] * share,
            )
            start = some.mode()
        if start is not None:
            return self._climb(start, STEPS)

        zeros = self.coordinates.new_zeros(self.coordinates.shape[-1] * self.likelihood.means)
        start = torch.cat([self.likelihood.start(self.counts), zeros])

        return self._climb(self._climb(start, FIRST_STEPS), STEPS)

    def split(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Other numbers `(others,)`, and weights `(coordinates, means)`."""
        others, weights = theta.tensor_split([self.likelihood.others])

        return others, weights.view(-1, self.likelihood.means)

    def leave_one_out(self, theta: Tensor) -> Tensor:
        """The log-likelihood of each row under the fit to the others, with shape `(rows,)`."""
        others, weights = self.split(theta)
        means = self.coordinates @ weights
        _, slope, curvature, _ = self.likelihood.terms(means, others)
        factors = self._factors(curvature)
        halves = torch.linalg.solve_triangular(factors, self.coordinates.T.expand(len(factors), -1, -1), upper=False)
        variance = halves.square().sum(-2).T
        leverage = (variance * curvature).clamp(max=LARGEST_LEVERAGE)

        return self.likelihood.terms(means - variance / (1 - leverage) * slope, others)[0]

    def _climb(self, start: Tensor, steps: int) -> Tensor:
        """L-BFGS in coordinates in which the curvature at the start is about one."""
        others, weights = self.split(start)
        _, _, curvature, by_others = self.likelihood.terms(self.coordinates @ weights, others)
        factors = self._factors(curvature)
        # That of the other numbers by the outer products of the slopes of the rows (BHHH).
        outer = by_others.T @ (self.counts[:, None] * by_others)
        outer.diagonal().add_(1e-6)
        of_others = torch.linalg.cholesky(outer)

        def outward(v: Tensor) -> Tensor:
            first, rest = self.split(v)
            first = torch.linalg.solve_triangular(of_others.T, first[:, None], upper=True)[:, 0]
            rest = torch.linalg.solve_triangular(factors.mT, rest.T.unsqueeze(-1), upper=True).squeeze(-1).T
            return torch.cat([first, rest.flatten()])

        def negative(v: Tensor) -> tuple[float, Tensor]:
            others, weights = self.split(outward(v))
            log_p, slope, _, by_others = self.likelihood.terms(self.coordinates @ weights, others)
            value = -(self.counts @ log_p) + 0.5 * weights.square().sum()
            rise = self.coordinates.T @ (self.counts[:, None] * slope) - weights
            first = torch.linalg.solve_triangular(of_others, (self.counts @ by_others)[:, None], upper=False)[:, 0]
            rest = torch.linalg.solve_triangular(factors, rise.T.unsqueeze(-1), upper=False).squeeze(-1).T
            return float(value), -torch.cat([first, rest.flatten()])

        inward = torch.cat([of_others.T @ others, (factors.mT @ weights.T.unsqueeze(-1)).squeeze(-1).T.flatten()])
        least = LEAST_RISE + LEAST_RISE_OF_ROW * float(self.counts.sum())
        found, _ = minimize(negative, inward, steps=steps, least_fall=least)

        return outward(found)

    def _factors(self, curvature: Tensor) -> Tensor:
        """Cholesky factors of the precision of each mean's weights, with shape `(means, coordinates, coordinates)`."""
        weighted = (self.counts[:, None] * curvature).T
        precision = torch.stack([(self.coordinates.T * each) @ self.coordinates for each in weighted])
        precision.diagonal(dim1=-2, dim2=-1).add_(1.0)

        factors: Tensor = torch.linalg.cholesky(precision)

        return factors


def region_of(x: Tensor, means: Tensor, offset: float) -> Interval | Wedge:
    """The region of a class without order; that of one of two is an interval."""
    if means.shape[-1] > 1:
        return Wedge(x, means, offset)

    end = offset - means

    return Interval(torch.where(x > 0.5, end, -torch.inf), torch.where(x > 0.5, torch.inf, end))


def log_mass_of(x: Tensor, means: Tensor, offset: float) -> Tensor:
    """The log-likelihood of labels `(rows,)` with its gradient by the means; right to six digits, and fast."""
    result: Tensor = _LogMass.apply(means, x, offset)  # type: ignore[no-untyped-call]

    return result


class _LogMass(torch.autograd.Function):
    """The logarithm of the mass of regions, whose slope is the mean of the noise there."""

    @staticmethod
    def forward(ctx: Any, means: Tensor, x: Tensor, offset: float) -> Tensor:
        mass, mean, _ = _moments(x, means, offset)
        ctx.save_for_backward(mean)

        return mass

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor, None, None]:
        (mean,) = ctx.saved_tensors

        return weights.unsqueeze(-1) * mean, None, None


def _moments(x: Tensor, means: Tensor, offset: float) -> tuple[Tensor, ...]:
    """Log-mass `(rows,)`, mean and variance `(rows, noise)` of the noise in the regions of labels."""
    blocks = zip(x.split(BLOCK), means.split(BLOCK), strict=True)
    parts = zip(*(region_of(*block, offset).moments() for block in blocks), strict=True)

    return tuple(torch.cat(part) for part in parts)
