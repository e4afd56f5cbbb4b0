"""Maximum likelihood of a law with few weights, by the method of scoring.

The curvature is that of the outer products of the rows' slopes, which near the maximum is what it should be; a step is
halved until the likelihood rises.

References:
    Estimation and Inference in Nonlinear Structural Models (Berndt, Hall, Hall and Hausman, 1974).
"""

__all__ = ["climb"]

from collections.abc import Callable

import torch
from torch import Tensor

MOST_STEPS, HALVINGS = 100, 30
# A step that promises less than this in nats, all rows together, is the last.
LEAST_RISE = 1e-6

# Computes the loss of each row `(rows,)` and its slopes `(rows, weights)` from the weights `(weights,)`.
Losses = Callable[[Tensor], tuple[Tensor, Tensor]]


def climb(losses: Losses, start: Tensor, counts: Tensor, ridge: Tensor) -> Tensor:
    """Finds the weights of the least loss.

    Args:
        losses: The losses of the rows and their slopes.
        start: The first weights, with shape `(weights,)`.
        counts: How often each row counts, with shape `(rows,)`.
        ridge: How strongly each weight is drawn to 0, as by so many rows, with shape `(weights,)`.
    """

    def whole(loss: Tensor, weights: Tensor) -> float:
        return float((counts * loss).sum() + 0.5 * (ridge * weights.square()).sum())

    weights = start
    loss, slopes = losses(weights)
    height = whole(loss, weights)
    for _ in range(MOST_STEPS):
        slope = counts @ slopes + ridge * weights
        curvature = slopes.T @ (counts.unsqueeze(-1) * slopes) + (ridge + 1e-9).diag()
        step = -torch.linalg.solve(curvature, slope)
        fall = float(-slope @ step)
        if not fall > LEAST_RISE:
            break
        for halving in range(HALVINGS):
            size = 0.5**halving
            tried = losses(weights + size * step)
            reached = whole(tried[0], weights + size * step)
            if reached < height - 1e-4 * size * fall:
                break
        else:
            break
        weights, (loss, slopes), height = weights + size * step, tried, reached

    return weights
