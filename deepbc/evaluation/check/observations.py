"""What is known of one variable: its data, its noise, and what its law makes of both."""

__all__ = ["MOST_COMPONENTS", "Evidence", "Rows"]

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from deepbc.data.variables import Variable
from deepbc.mechanisms import Mechanism
from deepbc.numerics.seeding import generator

# The components of a vector that are checked.
MOST_COMPONENTS = 16


@dataclass(frozen=True, slots=True)
class Rows:
    """Values `(rows, value)`, noise `(rows, noise)` and parents `(rows, parents)` of one variable."""

    x: Tensor
    u: Tensor
    parents: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    r"""What is known of one variable.

    Args:
        variable: The variable.
        parents: The names of its parents.
        values: Values :math:`x` of the data, in any order of the rows, with shape `(rows, value)`.
        noise: The noise :math:`u` to be tested, with shape `(rows, noise)`; no components where the law has none.
        returned: What the law makes of noise and parents again, with shape `(rows, value)`.
        drawn: Values of rows that the model drew, with shape `(samples, value)`.
        log_prob: The log-density of each row given its parents, with shape `(rows,)`; None where the law has none.
        learned: The number of rows that the law was learned from; infinite where it was given.
        exact: Whether the noise is what the law implies, rather than an estimate.
    """

    variable: Variable
    parents: tuple[str, ...]
    values: Tensor
    noise: Tensor
    returned: Tensor
    drawn: Tensor
    log_prob: Tensor | None
    learned: float
    exact: bool

    @classmethod
    def of(cls, mechanism: Mechanism, rows: Rows, drawn: Tensor, learned: int, seed: int) -> Self:
        """Gathers what is to be known of a variable, whatever its law.

        Args:
            mechanism: Its law, bound to it.
            rows: Rows of the data.
            drawn: Values of rows that the model drew, with shape `(samples, value)`.
            learned: The number of rows that the law was learned from.
            seed: Where the noise of a class comes from, of which the class does not tell all.
        """
        scored = mechanism.has_density and not mechanism.deterministic
        family = mechanism.bound

        return cls(
            variable=family.child,
            parents=tuple(parent.name for parent in family.parents),
            values=rows.x.double().cpu(),
            noise=_tested(mechanism, rows, seed).double().cpu(),
            returned=mechanism.predict(rows.u, rows.parents).double().cpu(),
            drawn=drawn.double().cpu(),
            log_prob=mechanism.log_prob(rows.x, rows.parents).double().cpu() if scored else None,
            learned=math.inf if mechanism.given else learned,
            exact=mechanism.exact,
        )

    @property
    def name(self) -> str:
        """The name of the variable."""
        return self.variable.name

    @property
    def noisy(self) -> bool:
        """Whether there is any noise to test."""
        return self.noise.shape[-1] > 0

    @property
    def is_image(self) -> bool:
        """Whether the variable is an image."""
        return self.variable.kind == "image"


def _tested(mechanism: Mechanism, rows: Rows, seed: int) -> Tensor:
    """The noise to be tested, `(rows, noise)`: standard normal and independent where the model is right.

    That of a class, a whole number, a floor or a ceiling is drawn from all that lead there; the mean of these is not
    normal.
    """
    if not mechanism.has_atoms:
        return rows.u[..., : mechanism.free_noise_dim]

    stream = generator(seed, mechanism.bound.child.name, "check noise")
    uniform = torch.rand(rows.u.shape, generator=stream, dtype=torch.float64)

    return mechanism.draw(rows.x, rows.parents, uniform.to(rows.u))
