r"""Elliptical slice sampling: a transition without gradients or step sizes, for a normal prior times a likelihood.

With the prior mean :math:`m` and standard deviations :math:`s` of a target, and an inverse temperature :math:`\beta`,

.. math:: \log p(v) = - \tfrac{1}{2} |(v - m) / s|^2 + \beta \, \ell(v) + \text{const}.

A proposal lies on the ellipse through the state and a draw of the prior; the bracket of its angle shrinks toward the
state until the proposal is above the slice level.

References:
    Elliptical slice sampling (Murray, Adams and MacKay, 2010).
"""

__all__ = ["log_likelihood", "slice_step"]

import math

import torch
from torch import Tensor

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.target import Target

# The most times a bracket shrinks; a chain whose proposals are all rejected keeps its state.
MAX_SHRINKS = 60


def log_likelihood(target: Target, v: Tensor) -> Tensor:
    r"""Computes the log-density relative to the prior, :math:`\ell(v)`, `(rows,)`; minus infinity for NaN.

    Args:
        target: The densities.
        v: The coordinates, in float64 with shape `(rows, free)`.
    """
    with torch.no_grad():
        log_prob = target.log_prob(v.to(target.rest)).double()

    return (log_prob + 0.5 * ((v - target.prior_mean) / target.prior_sd).square().sum(-1)).nan_to_num(nan=-torch.inf)


def slice_step(
    target: Target, v: Tensor, log_like: Tensor, inverse_temperature: Tensor, streams: Streams, *purpose: str | int
) -> tuple[Tensor, Tensor]:
    r"""Makes one transition of every chain.

    Args:
        target: The densities, one for each chain.
        v: The states, with shape `(chains, free)`.
        log_like: Their log-likelihoods :math:`\ell(v)`, with shape `(chains,)`.
        inverse_temperature: The inverse temperature :math:`\beta`, with shape `(chains,)`.
        streams: The random numbers of each chain.
        purpose: What they are for.

    Returns:
        The new states and their log-likelihoods.
    """
    current = v - target.prior_mean
    auxiliary = target.prior_sd * streams.normal(target.free, "ellipse", *purpose)
    uniform, turn = streams.uniform(2, "slice", *purpose).unbind(-1)
    level, angle = inverse_temperature * log_like + uniform.log(), 2 * math.pi * turn
    low, high = angle - 2 * math.pi, angle.clone()
    accepted, log_likelihoods = v.clone(), log_like.clone()
    live = torch.arange(len(v), device=v.device)

    for shrink in range(MAX_SHRINKS):
        theta = angle[live].unsqueeze(-1)
        part = target.select(live)
        proposal = part.prior_mean + current[live] * theta.cos() + auxiliary[live] * theta.sin()
        there = log_likelihood(part, proposal)
        inside = inverse_temperature[live] * there > level[live]
        accepted[live[inside]], log_likelihoods[live[inside]] = proposal[inside], there[inside]
        live = live[~inside]
        if not len(live):
            break
        # The state is at angle 0.
        low[live] = torch.where(angle[live] < 0, angle[live], low[live])
        high[live] = torch.where(angle[live] >= 0, angle[live], high[live])
        fraction = streams.select(live).uniform(1, "cut", shrink, *purpose).squeeze(-1)
        angle[live] = low[live] + fraction * (high[live] - low[live])

    return accepted, log_likelihoods
