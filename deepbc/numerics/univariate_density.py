r"""Densities of one number, estimated from rows, and the choice among them by cross-validation.

Each has a monotone map to a standard normal variable, :math:`u = \Phi^{-1}(F(z))`. Beside the normal itself there are
the sinh-arcsinh distribution, whose tails and skewness are free,

.. math:: u = \sinh(\delta \operatorname{arsinh}(t) - \epsilon), \qquad t = (z - \xi) / \eta,

and mixtures of normals, found by expectation maximisation with a weak prior that keeps variances away from zero.

References:
    Sinh-arcsinh Distributions (Jones and Pewsey, 2009).
    Maximum Likelihood from Incomplete Data via the EM Algorithm (Dempster, Laird and Rubin, 1977).
"""

__all__ = ["Density", "Mixture", "Normal", "SinhArcsinh", "choose_density", "estimate"]

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.quasi_newton import differentiated, minimize
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI

FOLDS = 5
# Numbers of components of mixtures, each with the rows that it takes at least.
MIXTURES = ((2, 50), (4, 200), (8, 1000), (16, 10_000))
# Rows that a choice, and an estimate, look at; steps of expectation maximisation in either.
ROWS_TO_CHOOSE, ROWS_TO_ESTIMATE, EM_STEPS = 5000, 50_000, (60, 200)
# Numbers are grouped into so many cells.
CELLS = 400
# The prior of a mixture: rows of each component with this variance, in variances of the whole, and of its weight.
PRIOR_ROWS, PRIOR_VARIANCE, LEAST_SD = 2.0, 0.05, 0.02
# The widths of the priors of skewness and of the logarithm of the weight of tails.
SKEWNESS, TAIL = 0.5, 0.5
# The least scale, in standard deviations, and weight of tails, as logarithms: rows that share a value earn no spike.
LEAST_LOG_SCALE, LEAST_LOG_TAIL = math.log(0.02), math.log(0.2)
# One replaces a simpler one if it gains so many nats in all. A standard error would say little: what heavier tails gain
# is that of a few rows.
LEAST_TOTAL_GAIN = 3.0
# Quantiles are sought in so many standard deviations, and halved so often.
FARTHEST, HALVINGS = 60.0, 60


class Density(ABC):
    """A density of one number."""

    @abstractmethod
    def log_prob(self, z: Tensor) -> Tensor:
        """The logarithm of the density."""

    @abstractmethod
    def noise(self, z: Tensor) -> Tensor:
        """The standard normal variable of the same quantile."""

    @abstractmethod
    def quantile(self, u: Tensor) -> Tensor:
        """The number of the same quantile as a standard normal variable."""

    def slope(self, z: Tensor) -> Tensor:
        """The derivative of the noise by the number."""
        return (self.log_prob(z) + 0.5 * self.noise(z).square() + LOG_SQRT_2PI).exp()


@dataclass(frozen=True, slots=True)
class Normal(Density):
    """A normal density, with its mean and standard deviation."""

    mean: float
    sd: float

    def log_prob(self, z: Tensor) -> Tensor:
        return -0.5 * self.noise(z).square() - LOG_SQRT_2PI - math.log(self.sd)

    def noise(self, z: Tensor) -> Tensor:
        return (z - self.mean) / self.sd

    def quantile(self, u: Tensor) -> Tensor:
        return self.mean + self.sd * u


@dataclass(frozen=True, slots=True)
class SinhArcsinh(Density):
    r"""The sinh-arcsinh density with :math:`\xi, \log \eta, \epsilon` and :math:`\log \delta`, numbers without axes."""

    location: Tensor
    log_scale: Tensor
    skewness: Tensor
    log_tail: Tensor

    def log_prob(self, z: Tensor) -> Tensor:
        t, inner = self._inner(z)
        slope = self.log_tail - self.log_scale + inner.cosh().log() - 0.5 * torch.log1p(t.square())

        return -0.5 * inner.sinh().square() - LOG_SQRT_2PI + slope

    def noise(self, z: Tensor) -> Tensor:
        return self._inner(z)[1].sinh()

    def quantile(self, u: Tensor) -> Tensor:
        return self.location + self.log_scale.exp() * ((u.asinh() + self.skewness) / self.log_tail.exp()).sinh()

    def _inner(self, z: Tensor) -> tuple[Tensor, Tensor]:
        t = (z - self.location) * (-self.log_scale).exp()

        return t, self.log_tail.exp() * t.asinh() - self.skewness


@dataclass(frozen=True, slots=True)
class Mixture(Density):
    """A mixture of normals: logarithms of weights, means and standard deviations, each with shape `(components,)`."""

    log_weights: Tensor
    means: Tensor
    sds: Tensor

    def log_prob(self, z: Tensor) -> Tensor:
        return self.joint(z).logsumexp(-1)

    def joint(self, z: Tensor) -> Tensor:
        """The logarithm of the density of each component, with its weight, `(*batch, components)`."""
        away = (z.unsqueeze(-1) - self.means) / self.sds

        return self.log_weights - self.sds.log() - LOG_SQRT_2PI - 0.5 * away.square()

    def noise(self, z: Tensor) -> Tensor:
        away = (z.unsqueeze(-1) - self.means) / self.sds
        weights = self.log_weights.exp()
        # In either tail the smaller probability, which has all its digits.
        below, above = ((torch.special.ndtr(each) * weights).sum(-1) for each in (away, -away))
        noise: Tensor = torch.where(below < above, torch.special.ndtri(below), -torch.special.ndtri(above))

        return noise

    def quantile(self, u: Tensor) -> Tensor:
        low = (self.means - FARTHEST * self.sds).min().expand_as(u)
        high = (self.means + FARTHEST * self.sds).max().expand_as(u)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = self.noise(middle) < u
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)

        return (low + high) / 2


def choose_density(z: Tensor) -> tuple[str, Density]:
    """Chooses the family with the highest cross-validated likelihood, a simpler one if that is nearly as high.

    Args:
        z: The numbers, with shape `(rows,)`.

    Returns:
        The name of the family, and its estimate from all rows.
    """
    rows = min(len(z), ROWS_TO_CHOOSE) // FOLDS * FOLDS
    folds = z[:rows].reshape(-1, FOLDS).T
    others = torch.stack([torch.cat([*folds[:k], *folds[k + 1 :]]) for k in range(FOLDS)])

    def score(name: str) -> float:
        estimates = zip(_estimates(name, others, EM_STEPS[0]), folds, strict=True)
        return sum(density.log_prob(fold).sum().item() for density, fold in estimates)

    scores = {name: score(name) for name in ("normal", "sinh-arcsinh")}
    last = -math.inf
    for count, least in MIXTURES:
        if len(z) < least:
            break
        scores[f"mixture of {count}"] = reached = score(f"mixture of {count}")
        # More components do not help where these did not.
        if reached < last:
            break
        last = reached

    chosen = "normal"
    for name, reached in scores.items():
        if reached > scores[chosen] + LEAST_TOTAL_GAIN:
            chosen = name

    return chosen, estimate(chosen, z)


def estimate(name: str, z: Tensor) -> Density:
    """Estimates the density of a family from numbers with shape `(rows,)`."""
    return _estimates(name, z[None, :ROWS_TO_ESTIMATE], EM_STEPS[1])[0]


def _estimates(name: str, z: Tensor, steps: int) -> Sequence[Density]:
    """Estimates a density from each set of numbers, with shape `(sets, rows)`."""
    middle, sd = z.mean(-1, keepdim=True), z.std(-1, correction=0, keepdim=True)
    if name == "normal":
        return [Normal(*each) for each in torch.cat([middle, sd], dim=-1).tolist()]
    cells = _Cells.of((z - middle) / sd)
    if name == "sinh-arcsinh":
        return [_sinh_arcsinh(*each) for each in zip(cells.counts, middle + sd * cells.means, middle, sd, strict=True)]

    log_weights, means, sds = _mixtures(cells, int(name.rsplit(" ", 1)[1]), steps)

    return [Mixture(*each) for each in zip(log_weights, middle + sd * means, sd * sds, strict=True)]


@dataclass(frozen=True, slots=True)
class _Cells:
    """Sets of numbers, near ones grouped: how many, their mean and their variance, each with shape `(sets, cells)`."""

    counts: Tensor
    means: Tensor
    variances: Tensor

    @classmethod
    def of(cls, z: Tensor) -> "_Cells":
        """Groups numbers `(sets, rows)` by quantiles; those at the ends stand alone, so that no tail is smoothed."""
        ordered, ends = z.sort(-1).values, CELLS // 4
        if z.shape[-1] <= CELLS:
            return cls(torch.ones_like(ordered), ordered, torch.zeros_like(ordered))

        low, inner, high = ordered.tensor_split([ends, ordered.shape[-1] - ends], dim=-1)
        parts = [low, *inner.tensor_split(CELLS - 2 * ends, dim=-1), high]
        parts = [*low.split(1, dim=-1), *parts[1:-1], *high.split(1, dim=-1)]
        sizes = z.new_tensor([part.shape[-1] for part in parts]).expand(len(z), -1)
        means = torch.stack([part.mean(-1) for part in parts], dim=-1)
        variances = torch.stack([part.var(-1, correction=0) for part in parts], dim=-1)

        return cls(sizes, means, variances)


def _sinh_arcsinh(counts: Tensor, z: Tensor, mean: Tensor, sd: Tensor) -> Density:
    """The most likely one for numbers `(cells,)` that count so often, with weak priors of its skewness and tails."""
    least = torch.cat([mean - torch.inf, sd.log() + LEAST_LOG_SCALE, mean - torch.inf, sd.new_tensor([LEAST_LOG_TAIL])])

    def negative(theta: Tensor) -> Tensor:
        penalty = 0.5 * ((theta[2] / SKEWNESS).square() + (theta[3] / TAIL).square())
        total: Tensor = penalty - counts @ SinhArcsinh(*theta.maximum(least).unbind()).log_prob(z)
        return total

    start = torch.cat([mean, sd.log(), mean.new_zeros(2)])
    theta, _ = minimize(differentiated(negative), start, longest=1.0)

    return SinhArcsinh(*theta.maximum(least).unbind())


def _mixtures(cells: _Cells, components: int, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """The most likely ones, with weak priors of weights and variances: logarithms of weights, means and spreads."""
    counts, rows = cells.counts.unsqueeze(-1), cells.counts.sum(-1, keepdim=True)
    places = (torch.arange(components, dtype=rows.dtype, device=rows.device) + 0.5) / components * rows
    means = cells.means.gather(-1, torch.searchsorted(cells.counts.cumsum(-1), places).clamp(max=counts.shape[-2] - 1))
    mixture = Mixture(
        torch.full_like(means, -math.log(components)).unsqueeze(-2),
        means.unsqueeze(-2),
        torch.full_like(means, 1.3 / components).unsqueeze(-2),
    )
    for _ in range(steps):
        share = counts * mixture.joint(cells.means).softmax(-1)
        totals = share.sum(-2, keepdim=True)
        means = (share * cells.means.unsqueeze(-1)).sum(-2, keepdim=True) / totals.clamp_min(1e-9)
        away = (cells.means.unsqueeze(-1) - means).square() + cells.variances.unsqueeze(-1)
        variances = ((share * away).sum(-2, keepdim=True) + PRIOR_ROWS * PRIOR_VARIANCE) / (totals + PRIOR_ROWS)
        weights = (totals + 1.0) / (rows.unsqueeze(-1) + components)
        mixture = Mixture(weights.log(), means, variances.sqrt().clamp_min(LEAST_SD))

    return mixture.log_weights.squeeze(-2), mixture.means.squeeze(-2), mixture.sds.squeeze(-2)
