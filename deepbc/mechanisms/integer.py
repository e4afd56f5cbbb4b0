r"""Whole numbers, as the rounded values of a continuous law.

.. math:: x = \mathrm{round}(f(x_{pa}, u)),

where :math:`f` is fitted to the numbers plus uniform noise from -1/2 to 1/2 (dequantisation). A number is an interval
of the noise, between those of :math:`x - 1/2` and :math:`x + 1/2`, so that its probability is exact. Bounds may be
attained: the continuous law has them half a unit further out.
"""

__all__ = ["Integer"]

from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from deepbc._checks import check_continuous, check_integer
from deepbc.mechanisms.base import Mechanism, Outcome
from deepbc.mechanisms.discrete import Discrete
from deepbc.mechanisms.flow import Flow
from deepbc.mechanisms.regions import Interval, Region
from deepbc.seeds import generator
from deepbc.training import Learner, Rows, Train
from deepbc.variables import Family, Variable, interior


class Integer(Discrete):
    """Creates the law of whole numbers, the default mechanism of a column of integers.

    Args:
        law: The continuous law whose values are rounded; a `Flow` by default.

    Example:
        >>> Integer(Flow(bins=16))
        Integer(law=Flow(layers=('affine', 'spline'), bins=16, hidden=(32, 32), correction=None))
    """

    def __init__(self, law: Mechanism | None = None) -> None:
        super().__init__()
        chosen = Flow() if law is None else law
        check_continuous(chosen, isinstance(chosen, Mechanism) and not (chosen.given or chosen.discrete))
        self.law = chosen

    def settings(self) -> dict[str, Any]:
        return {"law": type(self.law)(**self.law.settings())}

    def _build(self, family: Family, generator: Generator) -> None:
        check_integer(family.child.whole, family.child.name)
        self.law = self.law.bind(Family(_continuous(family.child), family.parents), generator)

    def _region(self, lower: Tensor, upper: Tensor, parents: Tensor) -> Region:
        return Interval(self._noise(lower - 0.5, parents), self._noise(upper + 0.5, parents))

    def _noise(self, end: Tensor, parents: Tensor) -> Tensor:
        """The noise of the continuous law at an end, infinite where that is a bound."""
        lower, upper = self._support()
        u = self.law._abduct(self._within(end), parents)
        u = torch.where(end <= lower, -torch.inf, u)

        return torch.where(end >= upper, torch.inf, u)

    def _hard(self, u: Tensor, parents: Tensor) -> Tensor:
        variable = self._bound().child

        return self.law._predict(u, parents).round().clamp(variable.lower, variable.upper)

    def _soft(self, u: Tensor, parents: Tensor) -> Tensor:
        return self.law._predict(u, parents)

    def _support(self) -> tuple[float, float]:
        return self._bound().child.support

    def _within(self, x: Tensor) -> Tensor:
        """Moves values on a bound of the continuous law to the last number inside."""
        return x.clamp(*interior(*self._support(), x.dtype))

    def _fit(self, rows: Rows, train: Train) -> Outcome:
        name = self._bound().child.name
        chance = torch.rand(rows.column.shape, generator=generator(0, name, "spread"), dtype=torch.float64)
        spread = self._within(rows.column + chance.to(rows.column) - 0.5)
        outcome = self.law.fit(
            Rows(spread, rows.context, rows.kept, rows.held),
            lambda learner, stage: train(_Spread(learner, self._support()), stage),
        )
        with torch.no_grad():
            return Outcome(self.loss(rows.held_x, rows.held_parents), outcome.notes)


class _Spread(Learner):
    """A continuous law that learns from whole numbers, each spread evenly over a unit, anew in each pass."""

    def __init__(self, learner: Learner, support: tuple[float, float]) -> None:
        super().__init__()
        self.learner, self.support = learner, support
        self._stream: Generator | None = None

    def begin(self, stream: Generator) -> None:
        self._stream = stream
        self.learner.begin(stream)

    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        chance = torch.rand(x.shape, generator=self._stream, dtype=torch.float64).to(x)

        return self.learner.loss((x + chance - 0.5).clamp(*interior(*self.support, x.dtype)), parents)


def _continuous(variable: Variable) -> Variable:
    """The variable that the continuous law has: the same, with bounds that are never attained."""
    return replace(variable, whole=False, lower=variable.support[0], upper=variable.support[1])
