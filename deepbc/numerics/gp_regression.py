r"""Regression by a Gaussian process: a linear trend and smooth deviations from it.

The covariance of the function at two points :math:`c, c'` is

.. math:: k(c, c') = b^2 + \sigma_l^2 \, c^\top c' + \sigma_f^2 \, \kappa\Bigl(-\tfrac12 \sum_g
          \lVert c_g - c'_g \rVert^2 / \ell_g^2\Bigr),

with :math:`\kappa` a radial kernel, one length scale :math:`\ell_g` for each group of components (automatic relevance
determination), and rows have noise of variance :math:`\sigma^2`. The hyperparameters maximise the evidence of at most a
few hundred rows, with the prior of length scales that grow as the root of the number of groups. Points that pivoted
Cholesky picks span the smooth part as well as all rows do; in the coordinates :math:`w` that it makes, :math:`f(c) =
\psi(c)^\top w` has the prior :math:`w \sim N(0, I)`, so that the posterior is ridge regression. With its leverages
:math:`h`, the residual that a row has under the fit to the others is :math:`r / (1 - h)`.

References:
    Gaussian Processes for Machine Learning (Rasmussen and Williams, 2006), sections 2.7, 5.4 and 8.3.1.
    Efficient SVM Training Using Low-Rank Kernel Representations (Fine and Scheinberg, 2001): pivoted Cholesky.
    Vanilla Bayesian Optimization Performs Great in High Dimensions (Hvarfner, Hellsten and Nardi, 2024): the prior.
"""

__all__ = [
    "CONSTANT",
    "Basis",
    "Hyperparameters",
    "Pairs",
    "Ridge",
    "allowed_variance",
    "find_hyperparameters",
    "solve_ridge",
    "span",
]

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.quasi_newton import Differentiated, minimize
from deepbc.numerics.radial_kernels import RadialKernel
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI

# The prior standard deviation of the constant, in standard deviations of the outputs.
CONSTANT = 10.0
# Rows for the evidence, and to find where to start; steps of its maximisation, the least rise of one, and the longest
# step of a logarithm.
EVIDENCE_ROWS, ROWS_TO_START, STEPS, LEAST_RISE, LONGEST = 400, 150, 30, 1e-2, 2.0
# Where it starts: logarithms of the length scales and of the standard deviation of the noise, all pairs of which are
# tried, and of the other two amplitudes.
STARTS, AMPLITUDES = ((0.0, 1.0, 2.5), (-1.5, -0.4)), (-0.3, -0.7)
# Log-normal priors: the location of length scales at one group, and the widths of those and of amplitudes.
LENGTH_PRIOR, AMPLITUDE_PRIOR = (math.sqrt(2), math.sqrt(3)), ((-0.5, 1.5), (-0.5, 1.5), (-1.0, 1.5))
# The variance that points leave of the smooth part beside that of the noise, in parts of a row and at least; what is
# added to keep matrices regular.
LEFT, LEAST_LEFT, JITTER = 3.0, 1e-3, 1e-8
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
        kernel: The radial kernel of the smooth part.
    """

    lengths: Tensor
    smooth: float
    slope: float
    noise: float
    log_evidence: float
    kernel: RadialKernel


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
        weights: Its mean, with shape `(coordinates, *outputs)`.
        fitted: The functions at the rows, with shape `(rows, *outputs)`.
        leverage: The leverages, with shape `(rows,)`.
    """

    weights: Tensor
    fitted: Tensor
    leverage: Tensor


@dataclass(frozen=True, slots=True)
class Pairs:
    """What the evidence needs to know of the first few hundred rows, whatever their outputs are.

    Args:
        squares: The squared distances of all pairs in each group of components, with shape `(groups, rows, rows)`.
        products: The inner products of what the linear trend sees, with shape `(rows, rows)`.
        groups: The number of components of each group.
    """

    squares: Tensor
    products: Tensor
    groups: tuple[int, ...]

    @classmethod
    def of(cls, inputs: Tensor, trend: Tensor, groups: Sequence[int]) -> "Pairs":
        """Looks at rows.

        Args:
            inputs: What the smooth part sees, with shape `(rows, inputs)`.
            trend: What the linear trend sees, with shape `(rows, trend)`.
            groups: The number of components of each group.
        """
        parts, trend = inputs[:EVIDENCE_ROWS].split(list(groups), dim=-1), trend[:EVIDENCE_ROWS]
        squares = torch.stack([torch.cdist(part, part).square() for part in parts])

        return cls(squares, trend @ trend.T, tuple(groups))

    def first(self, rows: int) -> "Pairs":
        """Looks at fewer rows."""
        return Pairs(self.squares[:, :rows, :rows], self.products[:rows, :rows], self.groups)


def find_hyperparameters(pairs: Pairs, outputs: Tensor, kernel: RadialKernel) -> Hyperparameters:
    """Maximises the evidence.

    Args:
        pairs: The rows to look at.
        outputs: The outputs of all rows, of mean 0 and standard deviation 1 or so, with shape `(rows,)`.
        kernel: The radial kernel of the smooth part.
    """
    groups = len(pairs.groups)
    location = LENGTH_PRIOR[0] + 0.5 * math.log(groups)

    def negative_of(rows: Pairs) -> Differentiated:
        return lambda theta: _negative_evidence(theta, rows, outputs[: len(rows.products)], location, kernel)

    # Few rows tell where to start.
    negative = negative_of(pairs.first(ROWS_TO_START))
    starts = [
        outputs.new_tensor([length + 0.5 * math.log(groups)] * groups + [*AMPLITUDES, noise])
        for length, noise in itertools.product(*STARTS)
    ]
    start = min(starts, key=lambda theta: negative(theta)[0])
    theta, value = minimize(negative_of(pairs), start, steps=STEPS, least_fall=LEAST_RISE, longest=LONGEST)
    smooth, slope, noise = theta[groups:].exp().tolist()
    repeats = torch.tensor(pairs.groups, device=theta.device)

    return Hyperparameters(theta[:groups].exp().repeat_interleave(repeats), smooth, slope, noise, -value, kernel)


def _negative_evidence(
    theta: Tensor, pairs: Pairs, outputs: Tensor, location: float, kernel: RadialKernel
) -> tuple[float, Tensor]:
    """The negative logarithm of evidence and prior at logarithms of the hyperparameters, and its gradient."""
    squares, groups = pairs.squares, len(pairs.groups)
    scales = theta.exp()
    lengths, (smooth, slope, noise) = scales[:groups], scales[groups:]
    weights = -0.5 / lengths.square()
    similar, steep = kernel.with_slope(torch.einsum("g,gij->ij", weights, squares))
    linear = slope.square() * pairs.products
    covariance = (smooth.square() * similar).add_(linear).add_(CONSTANT**2)
    covariance.diagonal().add_(noise.square() + JITTER)
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if failed:
        return math.inf, torch.zeros_like(theta)

    inverse = torch.cholesky_inverse(factor)
    solved = inverse @ outputs
    value = 0.5 * outputs @ solved + factor.diagonal().log().sum() + LOG_SQRT_2PI * len(outputs)
    # Half of the derivative by the covariance.
    half = 0.5 * (inverse - torch.outer(solved, solved))
    by_lengths = -2 * weights * smooth.square() * torch.einsum("ij,gij->g", half * steep, squares)
    by_amplitudes = 2 * torch.stack(
        [smooth.square() * (half * similar).sum(), (half * linear).sum(), half.diagonal().sum() * noise.square()]
    )

    middles = theta.new_tensor([location] * groups + [each for each, _ in AMPLITUDE_PRIOR])
    widths = theta.new_tensor([LENGTH_PRIOR[1]] * groups + [each for _, each in AMPLITUDE_PRIOR])
    away = (theta - middles) / widths

    return float(value + 0.5 * away.square().sum()), torch.cat([by_lengths, by_amplitudes]) + away / widths


def allowed_variance(rows: int, hyper: Hyperparameters) -> float:
    """The mean variance of the smooth part that points may leave: less than rows can tell."""
    return max(LEAST_LEFT, LEFT / max(rows, 300)) * hyper.noise**2


def span(inputs: Tensor, hyper: Hyperparameters, most: int) -> Basis:
    """Picks the points that span the smooth part at the rows, by pivoted Cholesky.

    Args:
        inputs: What the smooth part sees, with shape `(rows, inputs)`.
        hyper: The hyperparameters.
        most: The most points.
    """
    rows = len(inputs)
    most = min(most, rows)
    allowed = allowed_variance(rows, hyper)
    left = inputs.new_full((rows,), hyper.smooth**2)
    factor = inputs.new_zeros(rows, most)
    picked: list[int] = []
    while len(picked) < most and left.mean() > allowed and left.max() > JITTER:
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
        outputs: The outputs, with shape `(rows, *outputs)`.
        variances: The variances of their noise, with shape `(rows,)`.
    """
    weighted = coordinates.T / variances
    precision = weighted @ coordinates
    precision.diagonal().add_(1.0)
    factor = torch.linalg.cholesky(precision)
    weights = torch.cholesky_solve((weighted @ outputs).reshape(len(precision), -1), factor)
    weights = weights.reshape(-1, *outputs.shape[1:])
    halves = torch.linalg.solve_triangular(factor, coordinates.T, upper=False)
    leverage = (halves.square().sum(0) / variances).clamp(max=LARGEST_LEVERAGE)

    return Ridge(weights, coordinates @ weights, leverage)


def _smooth(inputs: Tensor, points: Tensor, hyper: Hyperparameters) -> Tensor:
    """The covariance of the smooth part between rows and points, with shape `(rows, points)`."""
    exponent = -0.5 * torch.cdist(inputs / hyper.lengths, points / hyper.lengths).square()

    return hyper.smooth**2 * hyper.kernel.value(exponent)
