r"""Regression by a Gaussian process: a linear trend and smooth deviations from it.

The covariance of the function at two points :math:`c, c'` is

.. math:: k(c, c') = b^2 + \sigma_l^2 \, c^\top c' + \sigma_f^2 \exp\Bigl(-\tfrac12 \sum_g \lVert c_g - c'_g \rVert^2 /
          \ell_g^2\Bigr),

one length scale :math:`\ell_g` for each group of components (automatic relevance determination), and rows have noise of
variance :math:`\sigma^2`. The hyperparameters maximise the evidence of at most a few hundred rows, with the prior of
length scales that grow as the root of the number of groups. Points that pivoted Cholesky picks span the smooth part as
well as all rows do; in the coordinates :math:`w` that it makes, :math:`f(c) = \psi(c)^\top w` has the prior
:math:`w \sim N(0, I)`, so that the posterior is ridge regression. With its leverages :math:`h`, the residual that a row
has under the fit to the others is :math:`r / (1 - h)`.

References:
    Gaussian Processes for Machine Learning (Rasmussen and Williams, 2006), sections 2.7, 5.4 and 8.3.1.
    Efficient SVM Training Using Low-Rank Kernel Representations (Fine and Scheinberg, 2001): pivoted Cholesky.
    Vanilla Bayesian Optimization Performs Great in High Dimensions (Hvarfner, Hellsten and Nardi, 2024): the prior.
"""

__all__ = ["CONSTANT", "Basis", "Hyperparameters", "Ridge", "find_hyperparameters", "solve_ridge", "span"]

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.quasi_newton import minimize
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI

# The prior standard deviation of the constant, in standard deviations of the outputs.
CONSTANT = 10.0
# Rows for the evidence; steps of its maximisation, the least rise of one, and the longest step of a logarithm.
EVIDENCE_ROWS, STEPS, LEAST_RISE, LONGEST = 400, 30, 1e-3, 2.0
# Where it starts: logarithms of the length scales and of the standard deviation of the noise, all pairs of which are
# tried, and of the other two amplitudes.
STARTS, AMPLITUDES = ((0.0, 1.0, 2.5), (-1.5, -0.4)), (-0.3, -0.7)
# Log-normal priors: the location of length scales at one group, and the widths of those and of amplitudes.
LENGTH_PRIOR, AMPLITUDE_PRIOR = (math.sqrt(2), math.sqrt(3)), ((-0.5, 1.5), (-0.5, 1.5), (-1.0, 1.5))
# The variance that points leave of the smooth part, beside that of the noise; what is added to keep matrices regular.
LEFT, JITTER = 1e-3, 1e-8
LARGEST_LEVERAGE = 0.95


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """What the evidence determines.

    Args:
        lengths: The length scale of each component, with shape `(inputs,)`.
        smooth: The standard deviation of the smooth part.
        slope: That of the slopes of the linear trend.
        noise: That of the noise.
        log_evidence: The logarithm of the evidence of the rows looked at, with that of the prior.
    """

    lengths: Tensor
    smooth: float
    slope: float
    noise: float
    log_evidence: float


@dataclass(frozen=True, slots=True)
class Basis:
    r"""The coordinates :math:`\psi(c)` of the function.

    Args:
        points: The points that span the smooth part, with shape `(points, inputs)`.
        inverse: What their covariances are multiplied by, with shape `(points, points)`.
        hyper: The hyperparameters.
    """

    points: Tensor
    inverse: Tensor
    hyper: Hyperparameters

    def __call__(self, inputs: Tensor, trend: Tensor) -> Tensor:
        """Computes the coordinates, with shape `(rows, 1 + trend + points)`.

        Args:
            inputs: What the smooth part sees, with shape `(rows, inputs)`.
            trend: What the linear trend sees, with shape `(rows, trend)`.
        """
        constant = inputs.new_full((len(inputs), 1), CONSTANT)
        smooth = _smooth(inputs, self.points, self.hyper) @ self.inverse

        return torch.cat([constant, self.hyper.slope * trend, smooth], dim=-1)


@dataclass(frozen=True, slots=True)
class Ridge:
    """A posterior.

    Args:
        weights: Its mean, with shape `(coordinates,)`.
        fitted: The function at the rows, with shape `(rows,)`.
        leverage: The leverages, with shape `(rows,)`.
    """

    weights: Tensor
    fitted: Tensor
    leverage: Tensor


def find_hyperparameters(inputs: Tensor, trend: Tensor, outputs: Tensor, groups: Sequence[int]) -> Hyperparameters:
    """Maximises the evidence of the first few hundred rows.

    Args:
        inputs: What the smooth part sees, with shape `(rows, inputs)`.
        trend: What the linear trend sees, with shape `(rows, trend)`.
        outputs: The outputs, of mean 0 and standard deviation 1 or so, with shape `(rows,)`.
        groups: The number of components of each group.
    """
    inputs, trend, outputs = inputs[:EVIDENCE_ROWS], trend[:EVIDENCE_ROWS], outputs[:EVIDENCE_ROWS]
    parts = inputs.split(list(groups), dim=-1)
    squares = torch.stack([torch.cdist(part, part).square() for part in parts])
    products = trend @ trend.T
    location = LENGTH_PRIOR[0] + 0.5 * math.log(len(groups))

    def negative(theta: Tensor) -> tuple[float, Tensor]:
        return _negative_evidence(theta, squares, products, outputs, location)

    starts = []
    for length in STARTS[0]:
        for noise in STARTS[1]:
            at = [length + 0.5 * math.log(len(groups))] * len(groups)
            starts.append(outputs.new_tensor([*at, *AMPLITUDES, noise]))
    start = min(starts, key=lambda theta: negative(theta)[0])
    theta, value = minimize(negative, start, steps=STEPS, least_fall=LEAST_RISE, longest=LONGEST)
    smooth, slope, noise = theta[len(groups) :].exp().tolist()
    repeats = torch.tensor(list(groups), device=theta.device)

    return Hyperparameters(theta[: len(groups)].exp().repeat_interleave(repeats), smooth, slope, noise, -value)


def _negative_evidence(
    theta: Tensor, squares: Tensor, products: Tensor, outputs: Tensor, location: float
) -> tuple[float, Tensor]:
    """The negative logarithm of evidence and prior at logarithms of the hyperparameters, and its gradient."""
    groups = len(squares)
    scales = theta.exp()
    lengths, (smooth, slope, noise) = scales[:groups], scales[groups:]
    kernel = smooth.square() * (-0.5 * (squares / lengths.square()[:, None, None]).sum(0)).exp()
    linear = slope.square() * products
    covariance = kernel + linear + CONSTANT**2
    covariance.diagonal().add_(noise.square() + JITTER)
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if failed:
        return math.inf, torch.zeros_like(theta)

    inverse = torch.cholesky_inverse(factor)
    solved = inverse @ outputs
    value = 0.5 * outputs @ solved + factor.diagonal().log().sum() + LOG_SQRT_2PI * len(outputs)
    # Half of the derivative by the covariance.
    half = 0.5 * (inverse - torch.outer(solved, solved))
    by_kernel = half * kernel
    by_lengths = (by_kernel * squares).sum((-2, -1)) / lengths.square()
    by_amplitudes = torch.stack(
        [2 * by_kernel.sum(), 2 * (half * linear).sum(), 2 * half.diagonal().sum() * noise.square()]
    )

    middles = theta.new_tensor([location] * groups + [each for each, _ in AMPLITUDE_PRIOR])
    widths = theta.new_tensor([LENGTH_PRIOR[1]] * groups + [each for _, each in AMPLITUDE_PRIOR])
    away = (theta - middles) / widths

    return float(value + 0.5 * away.square().sum()), torch.cat([by_lengths, by_amplitudes]) + away / widths


def span(inputs: Tensor, hyper: Hyperparameters, most: int) -> Basis:
    """Picks the points that span the smooth part at the rows, by pivoted Cholesky.

    Args:
        inputs: What the smooth part sees, with shape `(rows, inputs)`.
        hyper: The hyperparameters.
        most: The most points.
    """
    rows = len(inputs)
    most = min(most, rows)
    left = inputs.new_full((rows,), hyper.smooth**2)
    factor = inputs.new_zeros(rows, most)
    picked: list[int] = []
    while len(picked) < most and left.mean() > LEFT * hyper.noise**2 and left.max() > JITTER:
        at = int(left.argmax())
        column = _smooth(inputs, inputs[at : at + 1], hyper).squeeze(-1)
        column = (column - factor @ factor[at]) / left[at].sqrt()
        factor[:, len(picked)] = column
        left = (left - column.square()).clamp_min(0)
        picked.append(at)
        left[picked] = 0
    points = inputs[picked]
    lower = factor[picked, : len(picked)]
    identity = torch.eye(len(picked), dtype=inputs.dtype, device=inputs.device)

    return Basis(points, torch.linalg.solve_triangular(lower, identity, upper=False).T, hyper)


def solve_ridge(coordinates: Tensor, outputs: Tensor, variances: Tensor) -> Ridge:
    """The posterior of the weights.

    Args:
        coordinates: The coordinates of the rows, with shape `(rows, coordinates)`.
        outputs: The outputs, with shape `(rows,)`.
        variances: The variances of their noise, with shape `(rows,)`.
    """
    weighted = coordinates.T / variances
    precision = weighted @ coordinates
    precision.diagonal().add_(1.0)
    factor = torch.linalg.cholesky(precision)
    weights = torch.cholesky_solve((weighted @ outputs).unsqueeze(-1), factor).squeeze(-1)
    halves = torch.linalg.solve_triangular(factor, coordinates.T, upper=False)
    leverage = (halves.square().sum(0) / variances).clamp(max=LARGEST_LEVERAGE)

    return Ridge(weights, coordinates @ weights, leverage)


def _smooth(inputs: Tensor, points: Tensor, hyper: Hyperparameters) -> Tensor:
    """The covariance of the smooth part between rows and points, with shape `(rows, points)`."""
    square = torch.cdist(inputs / hyper.lengths, points / hyper.lengths).square()

    return hyper.smooth**2 * (-0.5 * square).exp()
