"""Laplace approximation: the mode of a density by Newton's method, and the inverse Hessian there as covariance.

The Hessian is taken by central differences of gradients over about a standard deviation, not at a point, so that it
describes the bulk of the density. Its inverse is the mass matrix preconditioner of Hamiltonian Monte Carlo.

References:
    Bayesian Data Analysis (Gelman et al., 2013), chapter 13.3.
"""

__all__ = ["laplace_approximation"]

import torch
from torch import Tensor

from deepbc.samplers.target import Target

# Newton steps, the lengths of which the best is taken, and the largest norm of a step, in standard deviations.
NEWTON_STEPS, STEP_LENGTHS, MAX_STEP_NORM = 8, (1.0, 0.5, 0.25, 0.06), 3.0
# The difference step in standard deviations, and the dimension above which the prior replaces the Hessian.
DIFFERENCE_STEP, MAX_DENSE_DIM = 0.5, 64
# The range of standard deviations along eigenvectors, in those of the prior.
MAX_SD, MIN_SD = 4.0, 1e-4


def laplace_approximation(target: Target) -> tuple[Tensor, Tensor]:
    r"""Approximates each density by a normal one.

    Returns:
        The mode, with shape `(rows, free)`, and a factor :math:`L` of the covariance :math:`L L^\top`, with shape
        `(rows, free, free)`.
    """
    v = target.start
    log_prob, gradient = target.gradient(v)
    sd = target.prior_sd.expand_as(v)
    for _ in range(NEWTON_STEPS):
        factor = _covariance_factor(target, v, sd)
        move = (factor.mT @ gradient.unsqueeze(-1)).squeeze(-1)
        scale = (MAX_STEP_NORM / move.square().sum(-1, keepdim=True).sqrt().clamp_min(MAX_STEP_NORM)).nan_to_num(
            nan=0.0
        )
        step = (factor @ (scale * move).unsqueeze(-1)).squeeze(-1)
        lengths = v.new_tensor(STEP_LENGTHS)
        rows = torch.arange(len(v), device=v.device).repeat_interleave(len(lengths))
        trials = (v.unsqueeze(1) + lengths[:, None] * step.unsqueeze(1)).flatten(0, 1)
        log_probs, gradients = target.select(rows).gradient(trials)
        log_probs = log_probs.nan_to_num(nan=-torch.inf).reshape(len(v), -1)
        best_log_prob, index = log_probs.max(-1)
        best = index + len(lengths) * torch.arange(len(v), device=v.device)
        accepted = (best_log_prob > log_prob) & gradients[best].isfinite().all(-1)
        v = torch.where(accepted.unsqueeze(-1), trials[best], v)
        gradient = torch.where(accepted.unsqueeze(-1), gradients[best], gradient)
        log_prob = torch.where(accepted, best_log_prob, log_prob)
        sd = factor.square().sum(-1).sqrt()

    return v, _covariance_factor(target, v, sd)


def _covariance_factor(target: Target, v: Tensor, sd: Tensor) -> Tensor:
    """The inverse square root of the negative Hessian, by central differences of gradients, `(rows, free, free)`."""
    free = target.free
    prior_sd = target.prior_sd.expand_as(v)
    if free > MAX_DENSE_DIM:
        return torch.diag_embed(prior_sd)

    step = DIFFERENCE_STEP * sd
    rows = torch.arange(len(v), device=v.device)
    columns = []
    for k in range(free):
        difference = torch.zeros_like(v)
        difference[:, k] = step[:, k]
        _, gradients = target.select(torch.cat([rows, rows])).gradient(torch.cat([v - difference, v + difference]))
        before, after = gradients.split(len(v))
        columns.append((before - after) / (2 * step[:, k : k + 1]))
    hessian = torch.stack(columns, dim=-1)
    # In units of the prior standard deviations.
    hessian = 0.5 * (hessian + hessian.mT) * prior_sd.unsqueeze(-1) * prior_sd.unsqueeze(-2)
    identity = torch.eye(free, dtype=v.dtype, device=v.device)
    hessian = torch.where(hessian.isfinite().flatten(1).all(-1)[:, None, None], hessian, identity)
    eigenvalues, eigenvectors = torch.linalg.eigh(hessian)
    factor: Tensor = eigenvectors * eigenvalues.clamp(MAX_SD**-2, MIN_SD**-2).rsqrt().unsqueeze(-2)

    return prior_sd.unsqueeze(-1) * factor
