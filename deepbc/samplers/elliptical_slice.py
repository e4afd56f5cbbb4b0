r"""Elliptical slices: moves that need no slopes and fit narrow places as well as wide ones.

A density is a normal one, of the middle and the spread of its target, times what lies beyond it:

.. math:: \log p(v) = - \tfrac{1}{2} |(v - m) / s|^2 + \beta \, \ell(v) + \text{const}.

A slice is an ellipse through where a chain stands, around the middle, of which a place is found by halving.

References:
    Elliptical slice sampling (Murray, Adams and MacKay, 2010).
"""

__all__ = ["beyond", "cut"]

import math

import torch
from torch import Tensor

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.target import Target

# A slice is cut smaller at most so often.
CUTS = 60


def beyond(target: Target, v: Tensor) -> Tensor:
    """Computes what the log-density has beyond the normal one, with shape `(rows,)`; minus infinity where it has none.

    Args:
        target: The densities.
        v: Places, in float64 with shape `(rows, free)`.
    """
    with torch.no_grad():
        log_prob = target.log_prob(v.to(target.rest)).double()

    return (log_prob + 0.5 * ((v - target.middle) / target.spread).square().sum(-1)).nan_to_num(nan=-torch.inf)


def cut(
    target: Target, v: Tensor, height: Tensor, power: Tensor, streams: Streams, *purpose: str | int
) -> tuple[Tensor, Tensor]:
    r"""Moves every chain to a place on an ellipse through where it stands.

    Args:
        target: The densities, one for each chain.
        v: Where the chains stand, with shape `(chains, free)`.
        height: What lies beyond there, :math:`\ell(v)`, with shape `(chains,)`.
        power: The power :math:`\beta` of what lies beyond, with shape `(chains,)`.
        streams: The random numbers of each chain.
        purpose: What they are for.

    Returns:
        The new places and what lies beyond there.
    """
    here = v - target.middle
    other = target.spread * streams.normal(target.free, "ellipse", *purpose)
    chance, turn = streams.uniform(2, "slice", *purpose).unbind(-1)
    level, angle = power * height + chance.log(), 2 * math.pi * turn
    low, high = angle - 2 * math.pi, angle.clone()
    found, heights = v.clone(), height.clone()
    live = torch.arange(len(v), device=v.device)

    for again in range(CUTS):
        way = angle[live].unsqueeze(-1)
        part = target.select(live)
        place = part.middle + here[live] * way.cos() + other[live] * way.sin()
        there = beyond(part, place)
        inside = power[live] * there > level[live]
        found[live[inside]], heights[live[inside]] = place[inside], there[inside]
        live = live[~inside]
        if not len(live):
            break
        # Toward where the chain stands, which is at angle 0.
        low[live] = torch.where(angle[live] < 0, angle[live], low[live])
        high[live] = torch.where(angle[live] >= 0, angle[live], high[live])
        share = streams.select(live).uniform(1, "cut", again, *purpose).squeeze(-1)
        angle[live] = low[live] + share * (high[live] - low[live])

    return found, heights
