r"""The evidence of a Gaussian process behind truth values, by the Laplace approximation.

A truth value :math:`t = \pm 1` has the probability :math:`\Phi(t f(c))`, and the latent function :math:`f` the
covariance

.. math:: k(c, c') = b^2 + \sum_g \sigma_g^2 \, c_g^\top c'_g + \sigma_f^2 \exp\Bigl(-\tfrac12 \sum_g
          \lVert c_g - c'_g \rVert^2 / \ell_g^2\Bigr),

with one variance of slopes :math:`\sigma_g^2` and one length scale :math:`\ell_g` for each group of components
(automatic relevance determination). At the mode :math:`\hat f = K a` of the posterior, found by Newton's method, with
:math:`W` the negative second derivatives of the log-likelihood,

.. math:: \log Z \approx -\tfrac12 a^\top \hat f + \sum_i \log \Phi(t_i \hat f_i) - \tfrac12 \log \det(I +
          W^{1/2} K W^{1/2}).

Several truth values of the same rows may share the covariance: each label against all others. The hyperparameters
then maximise their mean.

References:
    Bayesian Classification with Gaussian Processes (Williams and Barber, 1998).
    Gaussian Processes for Machine Learning (Rasmussen and Williams, 2006), algorithms 3.1 and 5.1.
"""

__all__ = ["ClassHyperparameters", "Evidence", "evidence_rows", "find_class_hyperparameters"]

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from deepbc.numerics.gp_regression import CONSTANT
from deepbc.numerics.quasi_newton import minimize
from deepbc.numerics.truncated_normal import inverse_mills_ratio

# The most rows for one truth value, and, divided by the root of their number, for several; the fewest.
EVIDENCE_ROWS, FEWEST_ROWS = 400, 250
# Newton's method: steps, halvings of one, and the rise that ends it.
NEWTON_STEPS, HALVINGS, LEAST_RISE = 30, 10, 1e-7
# Steps of the maximisation from each start and from the best, the least rise of one, and the longest of a logarithm.
FIRST_STEPS, STEPS, LEAST_EVIDENCE_RISE, LONGEST = 6, 30, 1e-2, 2.0
# Logarithms of the length scales that are tried as a start.
LENGTHS = (0.0, 1.0, 2.5)
# Log-normal priors, location at one group and width: of length scales, of the smooth part and of the common level of
# slopes, about which those of each group differ by a factor of two or so.
LENGTH_PRIOR, SMOOTH_PRIOR, SLOPE_PRIOR = (math.sqrt(2), math.sqrt(3)), (-0.5, 1.5), (-0.5, 1.5)
SLOPE_WIDTH = 0.7
JITTER = 1e-8


@dataclass(frozen=True, slots=True)
class ClassHyperparameters:
    """What the evidence determines.

    Args:
        lengths: The length scale of each component, with shape `(inputs,)`.
        slopes: The standard deviation of the slopes of each component, with shape `(inputs,)`.
        smooth: That of the smooth part; 0 where there is none.
        log_evidence: The logarithm of the evidence with that of the prior.
    """

    lengths: Tensor
    slopes: Tensor
    smooth: float
    log_evidence: float


def evidence_rows(truths: int) -> int:
    """The most rows that the evidence of so many truth values is computed from."""
    return max(FEWEST_ROWS, int(EVIDENCE_ROWS / math.sqrt(truths)))


def find_class_hyperparameters(
    inputs: Tensor, trend: Tensor, truths: Tensor, groups: Sequence[int], *, smooth: bool
) -> ClassHyperparameters:
    """Maximises the evidence of the first few hundred rows.

    Args:
        inputs: What the smooth part sees, with shape `(rows, inputs)`.
        trend: What the linear trend sees, with shape `(rows, inputs)`.
        truths: Truth values, 1 or -1, with shape `(labels, rows)`.
        groups: The number of components of each group.
        smooth: Whether there is a smooth part.
    """
    most = evidence_rows(len(truths))
    evidence = Evidence(inputs[:most], trend[:most], truths[:, :most], groups, smooth=smooth)
    count = len(groups)
    shift = 0.5 * math.log(count)
    slopes = [SLOPE_PRIOR[0] - shift] * count
    starts = [[*slopes, *([length + shift] * count), SMOOTH_PRIOR[0]] for length in LENGTHS] if smooth else [slopes]
    points = [trend.new_tensor(each) for each in starts]
    some = [
        minimize(evidence, each, steps=FIRST_STEPS, least_fall=LEAST_EVIDENCE_RISE, longest=LONGEST) for each in points
    ]
    start = min(some, key=lambda found: found[1])[0]
    theta, value = minimize(evidence, start, steps=STEPS, least_fall=LEAST_EVIDENCE_RISE, longest=LONGEST)
    repeats = torch.tensor(list(groups), device=theta.device)
    scales = theta.exp()
    lengths = scales[count : 2 * count] if smooth else torch.ones_like(scales)

    return ClassHyperparameters(
        lengths.repeat_interleave(repeats),
        scales[:count].repeat_interleave(repeats),
        float(scales[-1]) if smooth else 0.0,
        -value,
    )


@dataclass(slots=True)
class Evidence:
    """Creates the evidence of some rows; arguments as in `find_class_hyperparameters`.

    Called with the logarithms of the hyperparameters, slopes, then length scales and the standard deviation of the
    smooth part, it computes the negative logarithm of evidence and prior, and its gradient.
    """

    inputs: Tensor
    trend: Tensor
    truths: Tensor
    groups: Sequence[int]
    smooth: bool = field(kw_only=True)
    squares: Tensor = field(init=False)
    # The last mode, from which the next is sought.
    last: Tensor = field(init=False)

    def __post_init__(self) -> None:
        parts = self.inputs.split(list(self.groups), dim=-1) if self.smooth else []
        self.squares = torch.stack([torch.cdist(part, part).square() for part in parts] or [self.trend[:0]])
        self.last = torch.zeros_like(self.truths)

    def __call__(self, theta: Tensor) -> tuple[float, Tensor]:
        scales = theta.exp()
        count = len(self.groups)
        slopes = scales[:count].repeat_interleave(torch.tensor(list(self.groups)))
        covariance = (self.trend * slopes.square()) @ self.trend.T + CONSTANT**2
        kernel = torch.zeros_like(covariance)
        if self.smooth:
            lengths = scales[count : 2 * count]
            kernel = scales[-1].square() * (-0.5 * (self.squares / lengths.square()[:, None, None]).sum(0)).exp()
            covariance = covariance + kernel
        covariance.diagonal().add_(JITTER)
        value, by_covariance = self._log_evidence(covariance)
        if not math.isfinite(value):
            return math.inf, torch.zeros_like(theta)

        by_slope = ((by_covariance @ self.trend) * self.trend).sum(0) * slopes.square()
        rise = [2 * torch.stack([part.sum() for part in by_slope.split(list(self.groups))])]
        if self.smooth:
            by_kernel = by_covariance * kernel
            rise.append((by_kernel * self.squares).sum((-2, -1)) / lengths.square())
            rise.append(2 * by_kernel.sum()[None])
        penalty, by_prior = self._prior(theta)

        return penalty - value, by_prior - torch.cat(rise)

    def _prior(self, theta: Tensor) -> tuple[float, Tensor]:
        """The negative logarithm of the prior but for a constant, and its gradient."""
        count = len(self.groups)
        shift = 0.5 * math.log(count)
        slopes = theta[:count]
        level = (slopes.mean() - SLOPE_PRIOR[0] + shift) / SLOPE_PRIOR[1]
        apart = (slopes - slopes.mean()) / SLOPE_WIDTH
        middles = theta.new_tensor([LENGTH_PRIOR[0] + shift] * count + [SMOOTH_PRIOR[0]])[: len(theta) - count]
        widths = theta.new_tensor([LENGTH_PRIOR[1]] * count + [SMOOTH_PRIOR[1]])[: len(theta) - count]
        away = (theta[count:] - middles) / widths
        value = 0.5 * (level.square() + apart.square().sum() + away.square().sum())

        return float(value), torch.cat([level / SLOPE_PRIOR[1] / count + apart / SLOPE_WIDTH, away / widths])

    def _log_evidence(self, covariance: Tensor) -> tuple[float, Tensor]:
        """The mean over the truth values, and its derivatives by the covariance, with shape `(rows, rows)`."""
        a, f = self._mode(covariance)
        log_p, slope, curvature, third = _probit(self.truths, f)
        root = curvature.sqrt()
        factor = _inner(covariance, root)
        diagonal = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value = -0.5 * (a * f).sum(-1) + log_p.sum(-1) - diagonal
        # (W^-1 + K)^-1 = W^1/2 B^-1 W^1/2, and the posterior variances.
        solved = root.unsqueeze(-1) * torch.cholesky_inverse(factor) * root.unsqueeze(-2)
        halves = torch.linalg.solve_triangular(factor, root.unsqueeze(-1) * covariance, upper=False)
        variances = covariance.diagonal() - halves.square().sum(-2)
        # The mode moves with the covariance, and the determinant with the mode.
        turn = 0.5 * variances * third
        turn = turn - (solved @ (turn @ covariance).unsqueeze(-1)).squeeze(-1)
        outer = 0.5 * (a.T @ a) + turn.T @ slope
        self.last = a

        return float(value.mean()), (0.5 * (outer + outer.T) - 0.5 * solved.sum(0)) / len(a)

    def _mode(self, covariance: Tensor) -> tuple[Tensor, Tensor]:
        """The modes as a and f = K a, with shape `(labels, rows)`, by Newton's method."""
        a = self.last
        f = a @ covariance
        height = self._height(a, f)
        for _ in range(NEWTON_STEPS):
            _, slope, curvature, _ = _probit(self.truths, f)
            root = curvature.sqrt()
            factor = _inner(covariance, root)
            b = curvature * f + slope
            there = b - root * torch.cholesky_solve((root * (b @ covariance)).unsqueeze(-1), factor).squeeze(-1)
            size = torch.ones_like(height)
            for _ in range(HALVINGS):
                tried = a + size.unsqueeze(-1) * (there - a)
                reached = self._height(tried, tried @ covariance)
                worse = ~(reached >= height - LEAST_RISE)
                if not worse.any():
                    break
                size = torch.where(worse, size / 2, size)
            better = reached > height
            rise = torch.where(better, reached - height, 0.0).max()
            a = torch.where(better.unsqueeze(-1), tried, a)
            f, height = a @ covariance, torch.where(better, reached, height)
            if not rise > LEAST_RISE:
                break

        return a, f

    def _height(self, a: Tensor, f: Tensor) -> Tensor:
        """The logarithm of the posterior but for a constant, with shape `(labels,)`."""
        height: Tensor = torch.special.log_ndtr(self.truths * f).sum(-1) - 0.5 * (a * f).sum(-1)

        return height


def _inner(covariance: Tensor, root: Tensor) -> Tensor:
    """The Cholesky factor of B = I + W^1/2 K W^1/2."""
    inner = root.unsqueeze(-1) * covariance * root.unsqueeze(-2)
    inner.diagonal(dim1=-2, dim2=-1).add_(1.0)
    factor: Tensor = torch.linalg.cholesky(inner)

    return factor


def _probit(truths: Tensor, f: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The log-likelihood, its first derivative, minus its second, and its third."""
    z = truths * f
    ratio = inverse_mills_ratio(z)
    curvature = ratio * (ratio + z)
    third = truths * (ratio * (2 * ratio + z) * (ratio + z) - ratio)

    return torch.special.log_ndtr(z), truths * ratio, curvature.clamp_min(1e-12), third
