r"""Whole numbers, and others of equal steps, as the rounded values of a continuous law.

.. math:: x = \mathrm{round}(f(x_{pa}, u)),

where :math:`f` is a continuous law, rounded to the nearest number of the grid. A number is an interval of the noise,
between those of half a step below and half a step above it, so that its probability is exact, and is what the law is
fitted by. The fit starts from numbers spread evenly over their step (dequantisation), which alone would leave the law
too wide. Bounds may be attained: the continuous law has them half a step further out.
"""

__all__ = ["Integer"]

from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from deepbc.data.variables import Family, interior
from deepbc.errors import SettingError
from deepbc.mechanisms.base import FitOutcome, Mechanism
from deepbc.mechanisms.discrete import Discrete
from deepbc.mechanisms.gaussian_process import GaussianProcess
from deepbc.mechanisms.latent import TrainLatent
from deepbc.mechanisms.linear import Linear
from deepbc.mechanisms.regions import Interval, Region
from deepbc.nn.mlp_jacobian import ALL, Moving
from deepbc.numerics.seeding import generator
from deepbc.training.trainer import Learner, Split, Train

# The spread of a linear law is sought by so many rows, from this part of the closed form's up, so finely.
ROWS_TO_NARROW, NARROWEST, HALVINGS = 50_000, 0.1, 16


class Integer(Discrete):
    """Creates the law of whole numbers, the default mechanism of a column of integers.

    Args:
        law: The continuous law whose values are rounded; a `GaussianProcess` by default.

    Example:
        >>> Integer(GaussianProcess(points=32))
        Integer(law=GaussianProcess(points=32))
    """

    domain = "integer"

    def __init__(self, law: Mechanism | None = None) -> None:
        super().__init__()
        chosen = GaussianProcess() if law is None else law
        if not isinstance(chosen, Mechanism) or chosen.given or chosen.discrete:
            raise SettingError(f"Integer law: expected a learned law of numbers such as Flow(), got {chosen!r}.")
        self.law = chosen

    @property
    def shifts(self) -> bool:
        return self.law.shifts

    def settings(self) -> dict[str, Any]:
        return {"law": type(self.law)(**self.law.settings())}

    def _build(self, family: Family, generator: Generator) -> None:
        name = family.child.name
        if not family.child.whole:
            raise SettingError(
                f"Variable {name!r}: Integer is the law of whole numbers. Declare its type with "
                f"types={{{name!r}: 'integer'}}."
            )
        # The continuous law has bounds half a step further out, which are never attained.
        lower, upper = family.child.support
        continuous = replace(family.child, whole=False, lower=lower, upper=upper)
        self.half_step = family.child.grid.step / 2
        self.law = self.law.bind(Family(continuous, family.parents), generator)

    @torch.no_grad()
    def nearest_and_jacobian(
        self, x: Tensor, parents: Tensor, u: Tensor, moving: Moving = ALL
    ) -> tuple[Tensor, Tensor]:
        interval = _between(self.law, self.half_step, x, x, parents)
        below, above = u <= interval.lower, u >= interval.upper
        bounds = self.law.bound.child.lower, self.law.bound.child.upper
        end = torch.where(below, x - self.half_step, x + self.half_step).clamp(*interior(*bounds, x.dtype))
        _, by_parents = self.law.abduct_and_jacobian(self.law.reduce(end), parents, moving)

        return interval.nearest(u), torch.where(below | above, by_parents, 0.0).unsqueeze(-2)

    def predict_and_jacobian(self, u: Tensor, parents: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor, Tensor]:
        x, by_noise, by_parents = self.law.predict_and_jacobian(u, parents, moving)
        if self.soft:
            return x, by_noise, by_parents
        guide = 1.0 if self.guided else 0.0

        return self._hard(u, parents), guide * by_noise, guide * by_parents

    def _region(self, lower: Tensor, upper: Tensor, parents: Tensor) -> Region:
        return _between(self.law, self.half_step, lower, upper, parents)

    def _hard(self, u: Tensor, parents: Tensor) -> Tensor:
        return self.bound.child.harden(self.law._predict(u, parents))

    def _soft(self, u: Tensor, parents: Tensor) -> Tensor:
        return self.law._predict(u, parents)

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        variable = self.bound.child
        uniform = torch.rand(rows.column.shape, generator=generator(0, variable.name, "spread"), dtype=torch.float64)
        spread = rows.column + 2 * self.half_step * (uniform.to(rows.column) - 0.5)
        spread = spread.clamp(*interior(*variable.support, rows.column.dtype))
        outcome = self.law.fit(
            Split(spread, rows.context, rows.kept, rows.held, self._loss_of, latent=True),
            TrainLatent(train, self._loss_of),
        )
        with torch.no_grad():
            if not isinstance(self.law, Linear):
                return outcome
            self._narrow(self.law, rows)
            return FitOutcome(self.loss(rows.held_x, rows.held_parents), outcome.notes)

    def _loss_of(self, law: Learner, x: Tensor, parents: Tensor) -> Tensor:
        """The loss of a latent law on what values are rounded to."""
        assert isinstance(law, Mechanism)  # noqa: S101 # laws train themselves
        whole = self.bound.child.harden(x)

        return -_between(law, self.half_step, whole, whole, parents).log_mass()

    def _narrow(self, law: Linear, rows: Split) -> None:
        """Takes the spread of a closed form, which holds that of rounding as well, to its most likely size."""
        x, parents, factor = rows.x[:ROWS_TO_NARROW], rows.parents[:ROWS_TO_NARROW], law.factor.clone()
        low, high = NARROWEST, 1.0
        for _ in range(HALVINGS):
            sizes = [low + (high - low) * part for part in (0.49, 0.51)]
            losses = []
            for size in sizes:
                law.factor.copy_(size * factor)
                losses.append(self.loss(x, parents).mean().item())
            low, high = (low, sizes[1]) if losses[0] < losses[1] else (sizes[0], high)
        law.factor.copy_((low + high) / 2 * factor)


def _between(law: Mechanism, half: float, lower: Tensor, upper: Tensor, parents: Tensor) -> Interval:
    """The noises of a continuous law that lead to numbers that are rounded to those from one to another."""
    bounds = law.bound.child.lower, law.bound.child.upper
    ends = []
    for end in (lower - half, upper + half):
        u = law._abduct(end.clamp(*interior(*bounds, end.dtype)), parents)
        u = torch.where(end <= bounds[0], -torch.inf, u)
        ends.append(torch.where(end >= bounds[1], torch.inf, u))

    return Interval(*ends)
