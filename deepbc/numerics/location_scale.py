r"""Regression with a smooth mean, a smooth scale and noise of any shape: :math:`y = m(c) + s(c) \, z`.

The mean is that of a Gaussian process. The logarithm of the squared residual that a row has under the fit to the
others is :math:`2 \log s(c)` plus noise, so that a second process finds the scale, by which the first weighs its rows.
A constant scale, and a normal :math:`z`, are kept unless leave-one-out likelihood pays for more.

References:
    Most Likely Heteroscedastic Gaussian Process Regression (Kersting, Plagemann, Pfaff and Burgard, 2007).
"""

__all__ = ["LocationScale", "Smooth", "fit_location_scale"]

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.gp_regression import (
    Basis,
    find_hyperparameters,
    solve_ridge,
    span,
)
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


def fit_location_scale(
    inputs: Tensor,
    trend: Tensor,
    outputs: Tensor,
    groups: Sequence[int],
    most: int,
    like: LocationScale | None = None,
) -> LocationScale:
    """Fits the regression.

    Args:
        inputs: What the smooth parts see, with shape `(rows, inputs)`.
        trend: What the linear trends see, with shape `(rows, trend)`.
        outputs: The outputs, of mean 0 and standard deviation 1 or so, with shape `(rows,)`.
        groups: The number of components of each group of inputs.
        most: The most points that span a smooth part.
        like: A fit to other rows whose choices, hyperparameters included, are to be kept.
    """
    if not groups:
        return _without_inputs(outputs, like)

    known = like.mean.basis.hyper if like and like.mean else None
    hyper = known or find_hyperparameters(inputs, trend, outputs, groups)
    work = _Work(inputs, trend, outputs, groups, most, span(inputs, hyper, most))
    if like is not None:
        return work.plain(like.family) if like.log_variance is None else work.learned(like)

    plain, learned = work.plain(None), work.learned(None)
    gain = learned.scores - plain.scores
    total, error = gain.sum().item(), gain.std().item() * math.sqrt(len(gain))
    keeps = total > max(LEAST_TOTAL_GAIN, error)
    chosen = learned if keeps else plain
    note = f"scale {'learned' if keeps else 'constant'}: gain {total / len(gain):.4f} ± {error / len(gain):.4f} nats"

    return LocationScale(
        chosen.mean, chosen.log_variance, chosen.log_scale, chosen.family, chosen.density, chosen.scores, (note,)
    )


def _without_inputs(outputs: Tensor, like: LocationScale | None) -> LocationScale:
    family, density = (like.family, estimate(like.family, outputs)) if like else choose_density(outputs)

    return LocationScale(None, None, 0.0, family, density, density.log_prob(outputs))


@dataclass(frozen=True, slots=True)
class _Work:
    """The rows of a regression, and the coordinates of its mean."""

    inputs: Tensor
    trend: Tensor
    outputs: Tensor
    groups: Sequence[int]
    most: int
    basis: Basis

    def plain(self, family: str | None) -> LocationScale:
        """The regression with a constant scale."""
        variances = torch.full_like(self.outputs, self.basis.hyper.noise**2)
        mean, residuals = self._mean(variances)

        return self._finish(mean, None, residuals, torch.zeros_like(residuals), family)

    def learned(self, like: LocationScale | None) -> LocationScale:
        """The regression with a learned scale."""
        variances = torch.full_like(self.outputs, self.basis.hyper.noise**2)
        known = like.log_variance.basis.hyper if like and like.log_variance else None
        basis: Basis | None = None
        for _ in range(ROUNDS):
            mean, residuals = self._mean(variances)
            squares = residuals.square().clamp_min(LEAST_SQUARE).log() + LOG_SQUARE
            level = squares.mean()
            if basis is None:
                hyper = known or find_hyperparameters(self.inputs, self.trend, squares - level, self.groups)
                basis = span(self.inputs, hyper, self.most)
            ridge = solve_ridge(
                basis(self.inputs, self.trend), squares - level, torch.full_like(squares, basis.hyper.noise**2)
            )
            variances = (ridge.fitted + level).exp()
        mean, residuals = self._mean(variances)
        assert basis is not None  # noqa: S101 # there is a round
        # What the scale of each row is by the others.
        others = (ridge.fitted - ridge.leverage * (squares - level)) / (1 - ridge.leverage)

        return self._finish(mean, Smooth(basis, ridge.weights), residuals, others, like.family if like else None)

    def _mean(self, variances: Tensor) -> tuple[Smooth, Tensor]:
        """The mean, and each row's residual under the fit to the others, as large as its noise would be."""
        ridge = solve_ridge(self.basis(self.inputs, self.trend), self.outputs, variances)

        return Smooth(self.basis, ridge.weights), (self.outputs - ridge.fitted) / (1 - ridge.leverage).sqrt()

    def _finish(
        self, mean: Smooth, log_variance: Smooth | None, residuals: Tensor, others: Tensor, family: str | None
    ) -> LocationScale:
        """Chooses the density of the noise."""
        z = residuals * (-0.5 * others).exp()
        log_scale = 0.5 * z.square().mean().log().item()
        z = z * math.exp(-log_scale)
        family, density = choose_density(z) if family is None else (family, estimate(family, z))
        scores = density.log_prob(z) - log_scale - 0.5 * others

        return LocationScale(mean, log_variance, log_scale, family, density, scores)
