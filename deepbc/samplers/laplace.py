"""Coordinates in which a density is nearly round: its peak, and its curvature there over about its own width."""

__all__ = ["whiten"]

import torch
from torch import Tensor

from deepbc.samplers.target import Target

# How the peak is found: the most steps, their lengths, the longest step in widths, and the part of the width over which
# curvature is taken; coordinates beyond so many are not looked at together.
CLIMB, LENGTHS, FARTHEST, WIDTH, MOST_COORDINATES = 8, (1.0, 0.5, 0.25, 0.06), 3.0, 0.5, 64
# Along a direction the density is at most so many times as wide, or as narrow, as first thought.
WIDEST, NARROWEST = 4.0, 1e-4


def whiten(target: Target) -> tuple[Tensor, Tensor]:
    """Climbs to the peak of each density, and takes its curvature there over about its own width.

    Returns:
        The peak, with shape `(rows, free)`, and the axes of a round density around it, with shape `(rows, free, free)`.
    """
    v = target.start
    log_prob, slope = target.gradient(v)
    width = target.spread.expand_as(v)
    for _ in range(CLIMB):
        axes = _axes(target, v, width)
        move = (axes.mT @ slope.unsqueeze(-1)).squeeze(-1)
        long = (FARTHEST / move.square().sum(-1, keepdim=True).sqrt().clamp_min(FARTHEST)).nan_to_num(nan=0.0)
        step = (axes @ (long * move).unsqueeze(-1)).squeeze(-1)
        lengths = v.new_tensor(LENGTHS)
        rows = torch.arange(len(v), device=v.device).repeat_interleave(len(lengths))
        spots = (v.unsqueeze(1) + lengths[:, None] * step.unsqueeze(1)).flatten(0, 1)
        heights, slopes = target.select(rows).gradient(spots)
        heights = heights.nan_to_num(nan=-torch.inf).reshape(len(v), -1)
        highest, which = heights.max(-1)
        best = which + len(lengths) * torch.arange(len(v), device=v.device)
        rises = (highest > log_prob) & slopes[best].isfinite().all(-1)
        v = torch.where(rises.unsqueeze(-1), spots[best], v)
        slope = torch.where(rises.unsqueeze(-1), slopes[best], slope)
        log_prob = torch.where(rises, highest, log_prob)
        width = axes.square().sum(-1).sqrt()

    return v, _axes(target, v, width)


def _axes(target: Target, v: Tensor, width: Tensor) -> Tensor:
    """The inverse square root of the curvature, from differences of slopes over the width, `(rows, free, free)`."""
    free = target.free
    first = target.spread.expand_as(v)
    if free > MOST_COORDINATES:
        return torch.diag_embed(first)

    step = WIDTH * width
    rows = torch.arange(len(v), device=v.device)
    columns = []
    for k in range(free):
        shift = torch.zeros_like(v)
        shift[:, k] = step[:, k]
        _, slopes = target.select(torch.cat([rows, rows])).gradient(torch.cat([v - shift, v + shift]))
        before, after = slopes.split(len(v))
        columns.append((before - after) / (2 * step[:, k : k + 1]))
    curvature = torch.stack(columns, dim=-1)
    # In units of the first guess, within which it stays.
    curvature = 0.5 * (curvature + curvature.mT) * first.unsqueeze(-1) * first.unsqueeze(-2)
    identity = torch.eye(free, dtype=v.dtype, device=v.device)
    curvature = torch.where(curvature.isfinite().flatten(1).all(-1)[:, None, None], curvature, identity)
    size, direction = torch.linalg.eigh(curvature)
    axes: Tensor = direction * size.clamp(WIDEST**-2, NARROWEST**-2).rsqrt().unsqueeze(-2)

    return first.unsqueeze(-1) * axes
