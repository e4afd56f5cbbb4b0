r"""Whether a variable is a function of its parents, as far as its data show.

Parents that repeat always have the same child, more often than chance would have it; or no residual is left by least
squares on products of two parents, or on logarithms, which finds sums, products and ratios.
"""

__all__ = ["how_determined"]

import math

import torch
from torch import Tensor

from deepbc.data.variables import Variable
from deepbc.numerics.seeding import generator

# Repetitions agree by chance less often than this.
CHANCE = 1e-6
# Rows a feature of least squares, and the residual, in standard deviations, that rounding may come to.
ROWS_PER_FEATURE, RESIDUAL = 10, 3e-3
MOST_PARENTS, MOST_ROWS = 10, 1000


def how_determined(child: Variable, column: Tensor, parents: Tensor) -> str:
    """Says how it shows that a variable is a function of its parents; nothing if it does not.

    Args:
        child: The variable.
        column: Its values, codes for labels, with shape `(rows, *shape)`.
        parents: Those of its parents, with shape `(rows, parents)`.
    """
    if child.shape:
        return ""
    repeats = _repeats(column, parents)
    if repeats:
        return f"in all of {repeats:,} rows with parents that had come before it is what it was then"
    if child.levels or parents.shape[-1] > MOST_PARENTS:
        return ""
    y, x = column[:MOST_ROWS], parents[:MOST_ROWS]
    positive = torch.cat([x, y.unsqueeze(-1)], dim=-1).amin() > 0
    if _explained(y, _products(x)) or (positive and _explained(y.log(), x.log())):
        return "a simple formula leaves next to nothing of it"

    return ""


def _repeats(column: Tensor, parents: Tensor) -> int:
    """The number of rows whose parents have come before, where all of these agree and would not by chance."""
    scaled = (parents - parents.mean(0)) / parents.std(0, correction=0).clamp_min(1e-300)
    # Rows that are equal have one projection, and others practically never.
    weights = torch.rand(parents.shape[-1], generator=generator(0, "projection"), dtype=torch.float64)
    projected = torch.zeros_like(column)
    # One column after the other: in a product of matrices equal rows may be rounded in different ways.
    for each, weight in zip(scaled.unbind(-1), weights, strict=True):
        projected = projected + weight * each
    _, group = projected.unique(return_inverse=True)
    groups = int(group.amax()) + 1
    repeats = len(group) - groups
    if not repeats:
        return 0
    ends = [
        torch.full((groups,), math.nan).double().scatter_reduce(0, group, column, kind, include_self=False)
        for kind in ("amin", "amax")
    ]
    if not torch.equal(*ends):
        return 0
    shares = column.unique(return_counts=True)[1] / len(column)

    return repeats if repeats * math.log(shares.square().sum().item()) < math.log(CHANCE) else 0


def _products(x: Tensor) -> Tensor:
    """Parents and their products of two."""
    x = (x - x.mean(0)) / x.std(0, correction=0).clamp_min(1e-300)
    pairs = torch.combinations(torch.arange(x.shape[-1]), with_replacement=True)

    return torch.cat([x, x[:, pairs[:, 0]] * x[:, pairs[:, 1]]], dim=-1)


def _explained(y: Tensor, x: Tensor) -> bool:
    """Whether least squares leaves no residual."""
    if len(y) < ROWS_PER_FEATURE * (x.shape[-1] + 1):
        return False
    design = torch.cat([torch.ones_like(x[:, :1]), x], dim=-1)
    residual = y - design @ torch.linalg.lstsq(design, y.unsqueeze(-1), driver="gelsd").solution.squeeze(-1)

    return bool(residual.square().mean().sqrt() <= RESIDUAL * y.std(correction=0))
