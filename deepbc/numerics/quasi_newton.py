r"""L-BFGS with Armijo backtracking: minimises a smooth function of a few hundred numbers.

The direction is :math:`-H g`, with the inverse Hessian :math:`H` of the last pairs :math:`(s, y)` of steps and changes
of the gradient applied by the two-loop recursion; a step :math:`t` is taken once

.. math:: f(x + t d) \le f(x) + c_1 t \, g^\top d .

References:
    Numerical Optimization (Nocedal and Wright, 2006), algorithms 3.1 and 7.4.
"""

__all__ = ["Differentiated", "differentiated", "minimize"]

import math
from collections.abc import Callable

import torch
from torch import Tensor

# A function's value and gradient at a point.
Differentiated = Callable[[Tensor], tuple[float, Tensor]]

# Armijo's constant, the halvings of a step, the pairs that are kept, and the least curvature of one.
ARMIJO, HALVINGS, MEMORY, LEAST_CURVATURE = 1e-4, 20, 12, 1e-12
# The promised decrease at which the search ends.
LEAST_DECREASE = 1e-9


def differentiated(function: Callable[[Tensor], Tensor]) -> Differentiated:
    """The value and the gradient, by autograd, of a function of one point that returns one number."""

    def value_and_gradient(point: Tensor) -> tuple[float, Tensor]:
        with torch.enable_grad():
            point = point.detach().requires_grad_()
            value = function(point)
            (gradient,) = torch.autograd.grad(value, point)
        return float(value.detach()), gradient

    return value_and_gradient


def minimize(
    function: Differentiated, start: Tensor, *, steps: int = 100, least_fall: float = 1e-6, longest: float = math.inf
) -> tuple[Tensor, float]:
    """Finds a local minimum.

    Args:
        function: Computes value and gradient at a point; a value that is not finite is too far.
        start: Where to start, with shape `(dim,)`.
        steps: The most steps.
        least_fall: The search ends after a step that falls by less.
        longest: The largest change of a coordinate in one step.

    Returns:
        The point and its value.
    """
    x = start
    value, gradient = function(x)
    pairs: list[tuple[Tensor, Tensor]] = []
    for _ in range(steps):
        direction = -_two_loop(gradient, pairs)
        direction = direction * min(1.0, longest / max(float(direction.abs().max()), 1e-300))
        slope = float(gradient @ direction)
        if not slope < -LEAST_DECREASE:
            break
        for halving in range(HALVINGS):
            step = 0.5**halving * direction
            tried, tried_gradient = function(x + step)
            if tried <= value + ARMIJO * 0.5**halving * slope:
                break
        else:
            break
        change = tried_gradient - gradient
        if step @ change > LEAST_CURVATURE * step.norm() * change.norm():
            pairs = [*pairs[1 - MEMORY :], (step, change)]
        fall, x, value, gradient = value - tried, x + step, tried, tried_gradient
        if fall < least_fall:
            break

    return x, value


def _two_loop(gradient: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Applies the inverse Hessian; before there is a pair, steps have at most unit length."""
    if not pairs:
        unit: Tensor = gradient / gradient.norm().clamp_min(1.0)
        return unit

    q, alphas = gradient, []
    for step, change in reversed(pairs):
        alphas.append((step @ q) / (step @ change))
        q = q - alphas[-1] * change
    step, change = pairs[-1]
    r = q * ((step @ change) / (change @ change))
    for (step, change), alpha in zip(pairs, reversed(alphas), strict=True):
        r = r + (alpha - (change @ r) / (step @ change)) * step

    return r
