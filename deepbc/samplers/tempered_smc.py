r"""Draws that find every valley of a density: from the normal one they go to the whole by degrees.

With :math:`\ell` what the log-density has beyond a normal one, the densities in between are

.. math:: \log p_\beta(v) = - \tfrac{1}{2} |(v - m) / s|^2 + \beta \, \ell(v) + \text{const}, \qquad 0 \le \beta \le 1.

From one power to the next draws are weighed by how much likelier they became, drawn again by their weights, and moved
along slices. The next power is the largest at which the weights are still worth half of the draws.

References:
    Sequential Monte Carlo samplers (Del Moral, Doucet and Jasra, 2006).
"""

__all__ = ["choose", "temper"]

import torch
from torch import Tensor

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.elliptical_slice import beyond, cut
from deepbc.samplers.target import Target

# The weights keep this part of the draws; powers rise at most so often; a draw is moved so often at each.
WORTH, RISES, MOVES = 0.95, 100, 2
# The next power is found by halving so often.
HALVINGS = 30


def temper(target: Target, count: int, streams: Streams) -> Tensor:
    """Draws from each density, in numbers true to its valleys.

    Args:
        target: The densities.
        count: The number of draws of each.
        streams: The random numbers of each row.

    Returns:
        The draws, with shape `(rows * count, free)`; some of them hang together.
    """
    rows = target.rows
    every = torch.arange(rows, device=target.start.device).repeat_interleave(count)
    many, each = target.select(every), streams.split(count)
    v = many.middle + target.spread * each.normal(target.free, "tempered")
    height = beyond(many, v)
    power = torch.zeros(rows, dtype=torch.float64, device=v.device)

    for rise in range(RISES):
        live = (power < 1).nonzero().squeeze(-1)
        if not len(live):
            break
        chains = (live.unsqueeze(-1) * count + torch.arange(count, device=v.device)).flatten()
        heights = height[chains].reshape(-1, count)
        more = _rise(heights, 1 - power[live])
        power[live] = power[live] + more
        chosen = choose(more.unsqueeze(-1) * heights, count, streams.select(live).uniform(1, "chosen", rise))
        source = (chosen + (live * count).unsqueeze(-1)).flatten()
        v[chains], height[chains] = v[source], height[source]
        part, random, powers = many.select(chains), each.select(chains), power[every[chains]]
        for move in range(MOVES):
            v[chains], height[chains] = cut(part, v[chains], height[chains], powers, random, "tempered", rise, move)

    return v


def _rise(heights: Tensor, most: Tensor) -> Tensor:
    """Finds by how much the power of each row can rise, with shape `(rows,)`, from the heights `(rows, count)`."""
    low, high = torch.zeros_like(most), most
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        enough = _worth(middle.unsqueeze(-1) * heights) >= WORTH
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)

    # Where not even the least rise keeps half of the draws, the others have no density; where none has, all is vain.
    whole = (_worth(most.unsqueeze(-1) * heights) >= WORTH) | ~heights.isfinite().any(-1)

    return torch.where(whole, most, torch.where(low > 0, low, high))


def _worth(log_weights: Tensor) -> Tensor:
    """The part of the draws that weights are worth, with shape `(rows,)`."""
    weights = torch.softmax(log_weights, dim=-1)

    return 1 / (weights.square().sum(-1) * weights.shape[-1])


def choose(log_weights: Tensor, count: int, chance: Tensor) -> Tensor:
    """Draws so many by their weights, evenly; where no weight is a number, all are alike.

    Args:
        log_weights: The logarithms of the weights, with shape `(rows, places)`.
        count: How many to draw of each row.
        chance: A number between 0 and 1 for each row, with shape `(rows, 1)`.

    Returns:
        Which places were drawn, with shape `(rows, count)`.
    """
    upto = torch.softmax(log_weights, dim=-1).nan_to_num(nan=1.0).cumsum(-1)
    places = (torch.arange(count, device=chance.device) + chance) / count

    return torch.searchsorted(upto / upto[:, -1:], places).clamp(max=log_weights.shape[-1] - 1)
