r"""Morpho-MNIST's thickness and intensity, by the equations that generated them.

.. math::

    t &= 0.5 + \tfrac{1}{5} F_{10}^{-1}(\Phi(u_t)), \\
    i &= 64 + 191 \, \sigma(0.5 \, u_i + 2 t - 5),

with :math:`F_{10}` the distribution function of the Gamma distribution of shape 10 and rate 1, :math:`\Phi` that of the
standard normal and :math:`\sigma` the sigmoid. So thickness is :math:`0.5 + \Gamma(10, 5)`, and the true answer to
every counterfactual question on the two is known.

References:
    Deep Structural Causal Models for Tractable Counterfactual Inference (Pawlowski et al., 2020), section 4.
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), appendix C.
"""

__all__ = ["GRAPH", "abduct_intensity", "abduct_thickness", "laws", "predict_intensity", "predict_thickness"]

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from deepbc.graph import CausalGraph
from deepbc.mechanisms import Equation
from deepbc.mechanisms.registry import law
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI

GRAPH = CausalGraph.parse("thickness -> intensity")

SHAPE, RATE, THINNEST = 10.0, 5.0, 0.5
DARKEST, BRIGHTEST = 64.0, 255.0

Parents = Mapping[str, Tensor]


def laws() -> dict[str, Equation]:
    """Creates the true mechanisms of thickness and intensity."""
    return {
        "thickness": Equation(predict=predict_thickness, abduct=abduct_thickness),
        "intensity": Equation(predict=predict_intensity, abduct=abduct_intensity),
    }


@law("morphomnist.thickness.predict")
def predict_thickness(u: Tensor, parents: Parents) -> Tensor:
    """Computes thickness from its noise."""
    quantile: Tensor = _GammaQuantile.apply(u)  # type: ignore[no-untyped-call] # torch leaves it untyped

    return THINNEST + quantile / RATE


@law("morphomnist.thickness.abduct")
def abduct_thickness(x: Tensor, parents: Parents) -> Tensor:
    """Computes the noise of thickness."""
    score: Tensor = _GammaScore.apply(RATE * (x - THINNEST))  # type: ignore[no-untyped-call] # torch leaves it untyped

    return score


@law("morphomnist.intensity.predict")
def predict_intensity(u: Tensor, parents: Parents) -> Tensor:
    """Computes intensity from its noise and thickness."""
    brightness = torch.sigmoid(0.5 * u + 2 * parents["thickness"] - 5)

    return DARKEST + (BRIGHTEST - DARKEST) * brightness


@law("morphomnist.intensity.abduct")
def abduct_intensity(x: Tensor, parents: Parents) -> Tensor:
    """Computes the noise of intensity, given thickness."""
    logit = (x - DARKEST).log() - (BRIGHTEST - x).log()

    return 2 * (logit - 2 * parents["thickness"] + 5)


class _GammaScore(torch.autograd.Function):
    """The normal score of a Gamma variable, by the smaller of its two tails, so that it is exact far out."""

    @staticmethod
    def forward(ctx: Any, g: Tensor) -> Tensor:
        u = _score(g)
        ctx.save_for_backward(g, u)
        return u

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * _log_slope(*ctx.saved_tensors).exp()


class _GammaQuantile(torch.autograd.Function):
    """The inverse of the normal score, by Newton's method on the logarithm of the variable."""

    @staticmethod
    def forward(ctx: Any, u: Tensor) -> Tensor:
        g = _quantile(u)
        ctx.save_for_backward(g, u)
        return g

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * (-_log_slope(*ctx.saved_tensors)).exp()


def _score(g: Tensor) -> Tensor:
    shape = torch.full_like(g, SHAPE)
    lower, upper = torch.special.gammainc(shape, g), torch.special.gammaincc(shape, g)
    u = torch.where(lower < upper, torch.special.ndtri(lower), -torch.special.ndtri(upper))

    return torch.where(g > 0, u, torch.nan)


def _quantile(u: Tensor) -> Tensor:
    # Wilson and Hilferty's approximation; in the far lower tail F(g) is g^10 / 10!, which bounds g from below.
    middle = SHAPE * (1 - 1 / (9 * SHAPE) + u / (3 * math.sqrt(SHAPE))).clamp_min(0) ** 3
    tail = ((torch.special.log_ndtr(u) + math.lgamma(SHAPE + 1)) / SHAPE).exp()
    log_g = torch.maximum(middle, tail).log()

    for _ in range(20):
        g = log_g.exp()
        score = _score(g)
        log_g = log_g - (score - u) / (_log_slope(g, score) + log_g).exp()

    return log_g.exp()


def _log_slope(g: Tensor, u: Tensor) -> Tensor:
    """The logarithm of the slope of the normal score, the Gamma density over the normal one."""
    return (SHAPE - 1) * g.log() - g - math.lgamma(SHAPE) + 0.5 * u.square() + LOG_SQRT_2PI
