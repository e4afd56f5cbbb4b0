"""Maximum likelihood of a law with few weights, by the algorithm of Berndt, Hall, Hall and Hausman (BHHH).

The Hessian is approximated by the outer products of the gradients of the rows, to which it is equal in expectation at
the maximum; a step is halved until the Armijo condition holds (backtracking).

References:
    Estimation and Inference in Nonlinear Structural Models (Berndt, Hall, Hall and Hausman, 1974).
"""

__all__ = ["fit_bhhh"]

from collections.abc import Callable

import torch
from torch import Tensor

MOST_STEPS, HALVINGS = 100, 30
# A step that promises less than this in nats, all rows together, is the last.
LEAST_DECREASE = 1e-6

# Computes the loss of each row `(rows,)` and its gradients `(rows, weights)` from the weights `(weights,)`.
Losses = Callable[[Tensor], tuple[Tensor, Tensor]]


def fit_bhhh(losses: Losses, start: Tensor, counts: Tensor, ridge: Tensor) -> Tensor:
    """Finds the weights of the least loss.

    Args:
        losses: The losses of the rows and their gradients.
        start: The first weights, with shape `(weights,)`.
        counts: How often each row counts, with shape `(rows,)`.
        ridge: How strongly each weight is drawn to 0, as by so many rows, with shape `(weights,)`.
    """

    def objective(loss: Tensor, weights: Tensor) -> float:
        return float((counts * loss).sum() + 0.5 * (ridge * weights.square()).sum())

    weights = start
    loss, gradients = losses(weights)
    value = objective(loss, weights)
    for _ in range(MOST_STEPS):
        gradient = counts @ gradients + ridge * weights
        hessian = gradients.T @ (counts.unsqueeze(-1) * gradients) + (ridge + 1e-9).diag()
        step = -torch.linalg.solve(hessian, gradient)
        decrease = float(-gradient @ step)
        if not decrease > LEAST_DECREASE:
            break
        for halving in range(HALVINGS):
            size = 0.5**halving
            tried = losses(weights + size * step)
            reached = objective(tried[0], weights + size * step)
            if reached < value - 1e-4 * size * decrease:
                break
        else:
            break
        weights, (loss, gradients), value = weights + size * step, tried, reached

    return weights
