r"""What a sampler sees: a density of free coordinates, up to a constant. Nothing causal.

The free coordinates :math:`v` lead to noises :math:`n(v)`, which are charged, and to a further term :math:`b(v)`, such
as the volume that an antecedent leaves behind:

.. math:: \log p(v) = b(v) - d(n(v), u) + \text{const}.
"""

__all__ = ["Draws", "Target", "agree"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.solvers.problem import Cost

# R-hat may exceed 1 by this, or by this many times one over the length of a chain.
AGREEING, CHANCE = 0.02, 5.0

# Computes the charged noises `(rows, noises)` and the further term `(rows,)` from the free coordinates `(rows, free)`.
Law = Callable[[Tensor, Mapping[str, Tensor]], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Target:
    r"""A batch of densities, one a row.

    Args:
        rest: The noises that cost nothing, with shape `(rows, noises)`.
        start: Where to start, in float64 with shape `(rows, free)`.
        middle: Where the density would peak if the law did not matter, in float64 with shape `(rows, free)`.
        spread: How wide it would be along each coordinate, in float64 with shape `(free,)`.
        given: What else the law needs, each with shape `(rows, ...)`.
        law: What the free coordinates lead to.
        cost: What moving costs.
    """

    rest: Tensor
    start: Tensor
    middle: Tensor
    spread: Tensor
    given: Mapping[str, Tensor]
    law: Law
    cost: Cost

    @property
    def free(self) -> int:
        """The number of free coordinates."""
        return self.start.shape[-1]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.start)

    def select(self, rows: Tensor) -> "Target":
        """Takes the given rows."""
        given = {name: each[rows] for name, each in self.given.items()}

        return replace(self, rest=self.rest[rows], start=self.start[rows], middle=self.middle[rows], given=given)

    def log_prob(self, v: Tensor) -> Tensor:
        """Computes the logarithm of the density, with shape `(rows,)`, from coordinates of the type of the noises."""
        noises, further = self.law(v, self.given)

        return further - self.cost.value(noises, self.rest)

    def gradient(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the logarithm of the density, `(rows,)`, and its derivatives, `(rows, free)`."""
        with torch.enable_grad():
            v = v.detach().to(self.rest).requires_grad_()
            log_prob = self.log_prob(v)
            slope = torch.autograd.grad(log_prob.sum(), v, materialize_grads=True)[0]

        return log_prob.detach().double(), slope.double()


def agree(r_hat: Tensor, length: int) -> Tensor:
    """Whether R-hat is as low as that of chains of one density; short ones differ by chance."""
    return r_hat <= 1 + max(AGREEING, CHANCE / length)


@dataclass(frozen=True, slots=True)
class Draws:
    """What a sampler drew, and whether to trust it.

    Args:
        v: The coordinates, with shape `(samples, rows, free)`.
        r_hat: How much the chains of a row disagree, with shape `(rows,)`; 1 where they do not.
        effective: How many independent draws these are worth, with shape `(rows,)`.
        acceptance: The part of the proposals that was taken, with shape `(rows,)`.
        trusted: Whether the draws of a row are what they claim to be, with shape `(rows,)`.
    """

    v: Tensor
    r_hat: Tensor
    effective: Tensor
    acceptance: Tensor
    trusted: Tensor
