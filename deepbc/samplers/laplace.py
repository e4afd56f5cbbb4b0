r"""Laplace approximations: a mode of a density by damped Newton steps, and the inverse Hessian there as covariance.

With :math:`g` the gradient of :math:`\log p` at :math:`y` and :math:`C = R R^\top` the inverse of its negative Hessian,

.. math:: y \leftarrow y + t \, C g, \qquad t \in \{1, \tfrac{1}{2}, \tfrac{1}{4}, \tfrac{1}{16}\},

until the squared Newton decrement :math:`g^\top C g` is small. The Hessian is taken by central differences of gradients
along the columns of the last root :math:`R`, over a standard deviation in all, so that it describes the bulk of the
density and not a point of it, kinks included.

References:
    Convex Optimization (Boyd and Vandenberghe, 2004), section 9.5.
    Bayesian Data Analysis (Gelman et al., 2013), chapter 13.3.
"""

__all__ = ["laplace_approximation"]

import torch
from torch import Tensor

from deepbc.samplers.mixture import rounded, symmetric_root
from deepbc.samplers.settings import SETTINGS
from deepbc.samplers.standardized import Standardized


@torch.no_grad()
def laplace_approximation(target: Standardized, start: Tensor) -> tuple[Tensor, Tensor]:
    r"""Approximates each density by a normal one.

    Args:
        target: The densities.
        start: Where to start, with shape `(rows, free)`.

    Returns:
        The mode, with shape `(rows, free)`, and the symmetric root :math:`R` of the covariance, with shape
        `(rows, free, free)`.
    """
    mode = start.clone()
    root = torch.eye(target.free, dtype=start.dtype, device=start.device).repeat(target.rows, 1, 1)
    rows = torch.arange(target.rows, device=start.device)
    for _ in range(SETTINGS.newton_steps):
        part, at = target.select(rows), mode[rows]
        log_prob, gradient = part.gradients(at.unsqueeze(1))
        root[rows] = _covariance_root(part, at, root[rows])
        step = gradient @ root[rows]
        decrement = step.square().sum(-1)
        # In the norm of the covariance no longer than the largest step; NaN where there is no gradient.
        step = step * (SETTINGS.newton_radius / decrement.sqrt()).clamp(max=1.0).unsqueeze(-1)
        trials = at.unsqueeze(1) + step.new_tensor(SETTINGS.newton_lengths)[:, None] * (step @ root[rows])
        best, index = part.log_probs(trials).max(-1)
        rises = best > log_prob.squeeze(-1)
        found = rounded(trials.gather(1, index[:, None, None].expand(-1, 1, target.free)).squeeze(1))
        mode[rows] = torch.where(rises.unsqueeze(-1), found, at)
        rows = rows[rises & (decrement.squeeze(-1) > SETTINGS.newton_decrement)]
        if not len(rows):
            break

    return mode, root


def _covariance_root(target: Standardized, y: Tensor, root: Tensor) -> Tensor:
    """The symmetric root of the inverse negative Hessian, by differences along the columns of another root."""
    steps = SETTINGS.difference * root.mT
    _, gradients = target.gradients(torch.cat([y.unsqueeze(1) - steps, y.unsqueeze(1) + steps], dim=1))
    before, after = gradients.chunk(2, dim=1)
    hessian = (before - after) @ root / (2 * SETTINGS.difference)
    hessian = 0.5 * (hessian + hessian.mT)
    hessian = torch.where(
        hessian.isfinite().all(-1).all(-1)[:, None, None], hessian, torch.eye(target.free).to(hessian)
    )
    eigenvalues, eigenvectors = torch.linalg.eigh(hessian)
    part = root @ eigenvectors * eigenvalues.clamp(*SETTINGS.curvatures).rsqrt().unsqueeze(-2)

    return symmetric_root(part @ part.mT)
