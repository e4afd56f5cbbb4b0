r"""Regression with a smooth mean, a smooth scale and noise of any shape: :math:`y = m(c) + s(c) \, z`.

The mean is that of a Gaussian process, of a smooth kernel unless leave-one-out likelihood pays for a rougher one. The
logarithm of the squared residual that a row has under the fit to the others is :math:`2 \log s(c)` plus noise, so that
a second process finds the scale, by which the first weighs its rows. A constant scale, and a normal :math:`z`, are kept
unless that likelihood pays for more.

References:
    Most Likely Heteroscedastic Gaussian Process Regression (Kersting, Plagemann, Pfaff and Burgard, 2007).
"""

__all__ = ["Design", "LocationScale", "Mean", "Smooth", "weigh", "without_inputs"]

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.numerics.gp_regression import Basis, Hyperparameters, Pairs, find_hyperparameters, solve_ridge, span
from deepbc.numerics.radial_kernels import KERNELS, RadialKernel
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI
from deepbc.numerics.univariate_density import Density, choose_density, estimate

# Rounds of weighing rows by the scale; the mean of the logarithm of a squared standard normal variable, negated.
ROUNDS, LOG_SQUARE = 2, 1.2703628454614782
# A learned scale is kept if it gains so many nats in all, and more than their standard error.
LEAST_TOTAL_GAIN = 3.0
# Squared residuals are no smaller than this.
LEAST_SQUARE = 1e-12


@dataclass(frozen=True, slots=True)
class Smooth:
    r"""A function :math:`\psi(c)^\top w`.

    Args:
        basis: The coordinates :math:`\psi`.
        weights: The weights :math:`w`, with shape `(coordinates,)`.
    """

    basis: Basis
    weights: Tensor


@dataclass(frozen=True, slots=True)
class LocationScale:
    """A regression.

    Args:
        mean: The mean; None where there are no inputs.
        log_variance: The logarithm of the squared scale but for a constant; None where the scale is constant.
        log_scale: The logarithm of the scale where that function is zero.
        family: The family of the density of the noise.
        density: That density.
        scores: The logarithm of each row's density under the fit to the others, with shape `(rows,)`.
        notes: What was tried and what it gained.
    """

    mean: Smooth | None
    log_variance: Smooth | None
    log_scale: float
    family: str
    density: Density
    scores: Tensor
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Design:
    """What regressions on the same inputs share.

    Args:
        inputs: What the smooth parts see, with shape `(rows, inputs)`.
        trend: What the linear trends see, with shape `(rows, trend)`.
        pairs: What the evidence needs to know of some rows.
        most: The most points that span a smooth part.
    """

    inputs: Tensor
    trend: Tensor
    pairs: Pairs
    most: int

    @classmethod
    def of(cls, inputs: Tensor, trend: Tensor, groups: Sequence[int], most: int) -> "Design":
        """Looks at inputs of groups of so many components."""
        return cls(inputs, trend, Pairs.of(inputs, trend, groups), most)

    def mean(self, outputs: Tensor) -> "Mean":
        """Finds the mean of outputs of mean 0 and standard deviation 1 or so, with shape `(rows,)`."""
        smooth, rough = (self.search(outputs, kernel) for kernel in KERNELS)
        # Neither is simpler.
        keeps, note = weigh("rougher mean", rough.scores, smooth.scores, least=0.0)

        return replace(rough if keeps else smooth, note=note)

    def search(self, outputs: Tensor, kernel: RadialKernel) -> "Mean":
        """Finds the mean by the evidence of a kernel."""
        return self.fit(outputs, find_hyperparameters(self.pairs, outputs, kernel))

    def fit(self, outputs: Tensor, hyper: Hyperparameters) -> "Mean":
        """Finds the mean with hyperparameters that are known."""
        basis = span(self.inputs, hyper, self.most)
        coordinates = basis(self.inputs, self.trend)
        ridge = solve_ridge(coordinates, outputs, torch.full_like(outputs, hyper.noise**2))
        residuals = (outputs - ridge.fitted) / (1 - ridge.leverage).sqrt()

        return Mean(self, outputs, basis, coordinates, _normal_scores(residuals))


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a regression, from which the rest of it is found.

    Args:
        design: The inputs.
        outputs: The outputs, with shape `(rows,)`.
        basis: The coordinates of the mean.
        coordinates: Those of the rows, with shape `(rows, coordinates)`.
        scores: The logarithm of each row's density under the fit to the others with constant scale and normal noise.
        note: What was tried and what it gained.
    """

    design: Design
    outputs: Tensor
    basis: Basis
    coordinates: Tensor
    scores: Tensor
    note: str = ""

    def complete(self) -> LocationScale:
        """Finds scale and shape of the noise, as far as leave-one-out likelihood pays for them."""
        plain, learned = self._plain(), self._learned(None)
        normal = [each.shaped("normal") for each in (plain, learned)]
        # Most often it is clear with normal noise that a scale does not pay.
        if normal[1].scores.sum() > normal[0].scores.sum():
            found, other = learned.shaped(None), plain.shaped(None)
            keeps, note = weigh("learned scale", found.scores, other.scores)
            return replace(found if keeps else other, notes=(self.note, note))

        _, note = weigh("learned scale", normal[1].scores, normal[0].scores)

        return replace(plain.shaped(None), notes=(self.note, note))

    def repeat(self, like: LocationScale) -> LocationScale:
        """Finds scale and shape as a fit to other rows chose them."""
        found = self._plain() if like.log_variance is None else self._learned(like)

        return found.shaped(like.family)

    def _plain(self) -> "_Residuals":
        """The regression with a constant scale."""
        variances = torch.full_like(self.outputs, self.basis.hyper.noise**2)
        mean, residuals = self._weighted(variances)

        return _Residuals(mean, None, residuals, torch.zeros_like(residuals))

    def _learned(self, like: LocationScale | None) -> "_Residuals":
        """The regression with a learned scale."""
        inputs, trend = self.design.inputs, self.design.trend
        variances = torch.full_like(self.outputs, self.basis.hyper.noise**2)
        known = like.log_variance.basis.hyper if like and like.log_variance else None
        basis: Basis | None = None
        for _ in range(ROUNDS):
            mean, residuals = self._weighted(variances)
            squares = residuals.square().clamp_min(LEAST_SQUARE).log() + LOG_SQUARE
            level = squares.mean()
            if basis is None:
                hyper = known or find_hyperparameters(self.design.pairs, squares - level, KERNELS[0])
                basis = span(inputs, hyper, self.design.most)
                coordinates = basis(inputs, trend)
            ridge = solve_ridge(coordinates, squares - level, torch.full_like(squares, basis.hyper.noise**2))
            variances = (ridge.fitted + level).exp()
        mean, residuals = self._weighted(variances)
        assert basis is not None  # noqa: S101 # there is a round
        # What the scale of each row is by the others.
        others = (ridge.fitted - ridge.leverage * (squares - level)) / (1 - ridge.leverage)

        return _Residuals(mean, Smooth(basis, ridge.weights), residuals, others)

    def _weighted(self, variances: Tensor) -> tuple[Smooth, Tensor]:
        """The mean, and each row's residual under the fit to the others, as large as its noise would be."""
        ridge = solve_ridge(self.coordinates, self.outputs, variances)

        return Smooth(self.basis, ridge.weights), (self.outputs - ridge.fitted) / (1 - ridge.leverage).sqrt()


def without_inputs(outputs: Tensor, like: LocationScale | None) -> LocationScale:
    """Finds the shape of the noise of a variable without causes; as before, where a fit is given."""
    family, density = (like.family, estimate(like.family, outputs)) if like else choose_density(outputs)

    return LocationScale(None, None, 0.0, family, density, density.log_prob(outputs))


@dataclass(frozen=True, slots=True)
class _Residuals:
    """A regression before the shape of its noise is known.

    Args:
        mean: The mean.
        log_variance: The logarithm of the squared scale but for a constant, if it is learned.
        residuals: Each row's residual under the fit to the others, with shape `(rows,)`.
        others: The logarithm of its squared scale by the others, with shape `(rows,)`.
    """

    mean: Smooth
    log_variance: Smooth | None
    residuals: Tensor
    others: Tensor

    def shaped(self, family: str | None) -> LocationScale:
        """Gives the noise a density of a family, or of the one that is chosen."""
        z = self.residuals * (-0.5 * self.others).exp()
        log_scale = 0.5 * z.square().mean().clamp_min(LEAST_SQUARE).log().item()
        z = z * math.exp(-log_scale)
        family, density = choose_density(z) if family is None else (family, estimate(family, z))
        scores = density.log_prob(z) - log_scale - 0.5 * self.others

        return LocationScale(self.mean, self.log_variance, log_scale, family, density, scores)


def _normal_scores(residuals: Tensor) -> Tensor:
    """The logarithm of the normal density of residuals, of the spread that they have."""
    square = residuals.square().mean().clamp_min(LEAST_SQUARE)

    return -0.5 * (residuals.square() / square + square.log()) - LOG_SQRT_2PI


def weigh(name: str, scores: Tensor, simpler: Tensor, least: float = LEAST_TOTAL_GAIN) -> tuple[bool, str]:
    """Whether something is kept beside what is simpler, and in words.

    Args:
        name: What it is.
        scores: The logarithm of each row's density with it, with shape `(rows,)`.
        simpler: The same without it, with shape `(rows,)`.
        least: What it must gain in all, beside more than the standard error.
    """
    gain = scores - simpler
    total, error = gain.sum().item(), gain.std().item() * math.sqrt(len(gain))
    keeps = total > max(least, error)
    kept = "kept" if keeps else "left out"

    return keeps, f"{name} {kept}: gain {total / len(gain):.4f} ± {error / len(gain):.4f} nats"
