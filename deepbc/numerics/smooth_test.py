r"""How many nats a law could still gain whose noise should be standard normal whatever its inputs are.

Neyman's smooth alternatives tilt the uniform density of :math:`p = \Phi(u)` by cosines, here with weights that depend
on the inputs :math:`c`,

.. math:: \log q(p \mid c) = \sum_k \theta_k(c) \, \sqrt 2 \cos(\pi k p) - \log Z(c) .

To second order, the best of them gains :math:`\tfrac12 \sum_k \operatorname{Var} \mathbb E[\sqrt 2 \cos(\pi k p) \mid
c]` a row, which is half of what regressions of the cosines on the inputs explain of rows that they did not see.

References:
    "Smooth test" for goodness of fit (Neyman, 1937); Smooth Tests of Goodness of Fit (Rayner and Best, 1989).
"""

__all__ = ["remaining_gain"]

import math

import torch
from torch import Tensor

from deepbc.numerics.gp_regression import Hyperparameters, solve_ridge, span
from deepbc.numerics.radial_kernels import KERNELS

# Rows and points that are looked at, the cosines, and the variances of noise of which each takes the best.
ROWS, POINTS, COSINES, VARIANCES = 4000, 100, 6, (3.0, 10.0, 30.0, 100.0, 1000.0)
# The amplitudes of the trend and of the smooth part, whose length scale is the root of the number of inputs.
AMPLITUDE = 1.0


def remaining_gain(noise: Tensor, inputs: Tensor) -> float:
    """Estimates the gain of a law whose noise may have another density for other inputs, in nats a row.

    Args:
        noise: The noise, with shape `(rows,)`.
        inputs: The inputs, with shape `(rows, inputs)`.
    """
    noise, inputs = noise[:ROWS], inputs[:ROWS]
    inputs = (inputs - inputs.mean(0)) / inputs.std(0, correction=0).clamp_min(1e-12)
    places = math.pi * torch.special.ndtr(noise).unsqueeze(-1)
    cosines = math.sqrt(2) * (places * torch.arange(1, COSINES + 1, device=noise.device)).cos()
    cosines = cosines - cosines.mean(0)
    lengths = torch.full_like(inputs[0], math.sqrt(inputs.shape[-1]))
    hyper = Hyperparameters(lengths, AMPLITUDE, AMPLITUDE, 1.0, 0.0, KERNELS[1])
    coordinates = span(inputs, hyper, POINTS)(inputs, inputs)

    gain = torch.zeros_like(cosines[0])
    for variance in VARIANCES:
        ridge = solve_ridge(coordinates, cosines, torch.full_like(noise, variance))
        others = (cosines - ridge.fitted) / (1 - ridge.leverage).unsqueeze(-1)
        gain = torch.maximum(gain, 0.5 * (cosines.square() - others.square()).mean(0))

    return float(gain.sum())
