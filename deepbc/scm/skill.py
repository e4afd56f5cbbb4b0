r"""How much of a variable its law explains by its causes, in the figures that people know.

Of a number it is the share of variance that the mean explains of rows that the law did not see, :math:`R^2 = 1 - \sum
(x - \mathbb E[x \mid x_{pa}])^2 / \sum (x - \bar x)^2`, with the mean over equally likely noises; of a category it is
the area under the receiver operating characteristic, of each label against the others, weighted by how frequent it is.

References:
    An Introduction to ROC Analysis (Fawcett, 2006), section 8.1: several classes.
"""

__all__ = ["Skill", "measure_skill"]

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.mechanisms import Mechanism
from deepbc.numerics.ranks import mean_ranks
from deepbc.training.trainer import Split

# Rows that are looked at, and noises of the same probability.
ROWS, NOISES = 2000, 64


@dataclass(frozen=True, slots=True)
class Skill:
    """How well a law predicts.

    Args:
        r2: The share of variance that it explains; None of a category, of what has no causes, and of an image.
        auc: The area under the curve; None of all but a category with causes.
    """

    r2: float | None = None
    auc: float | None = None


@torch.no_grad()
def measure_skill(mechanism: Mechanism, rows: Split) -> Skill:
    """Measures it on the rows held out."""
    held = rows.held[:ROWS]
    x, parents = rows.of(held)
    if not mechanism.parents_dim or not mechanism.has_density:
        return Skill()
    if mechanism.bound.child.levels:
        return Skill(auc=_auc(mechanism, x, parents))

    return Skill(r2=_r2(mechanism, x, parents)) if mechanism.noise_dim == 1 else Skill()


def _r2(mechanism: Mechanism, x: Tensor, parents: Tensor) -> float | None:
    away = (x - x.mean(0)).square().sum().item()
    if not away:
        return None

    middles = (torch.arange(NOISES, dtype=torch.float64, device=parents.device) + 0.5) / NOISES
    total = torch.zeros_like(x)
    for u in torch.special.ndtri(middles).to(parents.dtype):
        total += mechanism.predict(u.expand(len(x), 1), parents)
    unexplained = (x - total / NOISES).square().sum().item()

    return 1 - unexplained / away if math.isfinite(unexplained) else None


def _auc(mechanism: Mechanism, x: Tensor, parents: Tensor) -> float | None:
    levels = mechanism.bound.child.levels
    assert levels is not None  # noqa: S101 # it is a category
    labels = levels.rows(torch.arange(len(levels), dtype=x.dtype, device=x.device))
    areas, shares = [], []
    for label in labels:
        is_it = (x == label).all(-1)
        count, others = int(is_it.sum()), int((~is_it).sum())
        if not count or not others:
            continue
        ranks = mean_ranks(mechanism.log_prob(label.expand_as(x), parents))
        # The statistic of Mann and Whitney.
        areas.append((ranks[is_it].sum().item() - count * (count + 1) / 2) / (count * others))
        shares.append(count)

    return sum(a * n for a, n in zip(areas, shares, strict=True)) / sum(shares) if areas else None
