"""Ranks of numbers, ties at their mean rank (fractional ranking)."""

__all__ = ["mean_ranks"]

import torch
from torch import Tensor


def mean_ranks(columns: Tensor) -> Tensor:
    """Computes ranks from 1 to the number of rows along the first axis.

    Args:
        columns: Numbers, with shape `(rows, ...)`.

    Returns:
        Ranks of that shape; equal numbers share the mean of theirs.
    """
    count = len(columns)
    ordered, order = columns.sort(0)
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[1:] = ordered[1:] != ordered[:-1]
    place = torch.arange(count, device=columns.device).reshape(-1, *[1] * (columns.ndim - 1)).expand_as(columns)
    first = torch.where(new, place, 0).cummax(0).values
    last = torch.ones_like(new)
    last[:-1] = new[1:]
    final = torch.where(last, place, count).flip(0).cummin(0).values.flip(0)

    return torch.empty_like(columns).scatter_(0, order, (first + final).to(columns.dtype) / 2 + 1)
