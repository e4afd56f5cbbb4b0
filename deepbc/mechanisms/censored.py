r"""Numbers with a lump of rows at their least or largest value: a continuous law of which nothing shows beyond.

.. math:: x = \min(\max(f(x_{pa}, u), L), U),

where :math:`f` is a continuous law, :math:`L` a floor and :math:`U` a ceiling, of which one may be missing: spending
that is 0 for most, a detection limit, the full marks of a test. The value :math:`L` is the region of the noise below
:math:`f^{-1}(x_{pa}, L)`, so that its probability is exact; between floor and ceiling values have the density of
:math:`f`. The fit maximises this mixed likelihood. The value is continuous in the noise.

With a linear law this is the Tobit model, which is fitted by its own Newton's method. It also says where to start any
other law: from rows in which what is censored is drawn from its distribution given that it is.

References:
    Estimation of Relationships for Limited Dependent Variables (Tobin, 1958).
"""

__all__ = ["Censored"]

import math
from typing import Any

import torch
from torch import Generator, Tensor

from deepbc.data.variables import Family
from deepbc.errors import FitError, SettingError
from deepbc.mechanisms.atomic import Atomic
from deepbc.mechanisms.base import FitOutcome, Mechanism
from deepbc.mechanisms.flow import Flow
from deepbc.mechanisms.latent import TrainLatent
from deepbc.mechanisms.linear import ALL_ROWS, Linear
from deepbc.mechanisms.regions import Interval, PointOrInterval
from deepbc.mechanisms.tobit import fit_tobit
from deepbc.nn.mlp_jacobian import ALL, Moving
from deepbc.numerics.seeding import generator
from deepbc.training.trainer import Learner, Split, Train


class Censored(Atomic):
    """Creates the law of a censored number, the default mechanism of a column with a lump at one of its ends.

    Args:
        law: The continuous law of which nothing shows beyond; a `Flow` by default.

    Example:
        >>> Censored(Flow(bins=16))
        Censored(law=Flow(layers=('affine', 'spline'), bins=16, hidden=(32, 32), correction=None))
    """

    domain = "censored"

    def __init__(self, law: Mechanism | None = None) -> None:
        super().__init__()
        chosen = Flow() if law is None else law
        if not isinstance(chosen, Mechanism) or chosen.given or chosen.has_atoms or chosen.domain != "number":
            raise SettingError(f"Censored law: expected a learned law of numbers such as Flow(), got {chosen!r}.")
        self.law = chosen

    def settings(self) -> dict[str, Any]:
        return {"law": type(self.law)(**self.law.settings())}

    def _build(self, family: Family, generator: Generator) -> None:
        name = family.child.name
        if not family.child.censored:
            raise SettingError(
                f"Variable {name!r}: Censored is the law of a number whose least or largest value many rows share. "
                f"Declare its type with types={{{name!r}: 'censored'}}, or take its law Flow()."
            )
        self.law = self.law.bind(Family(family.child.latent, family.parents), generator)

    @torch.no_grad()
    def nearest_and_jacobian(
        self, x: Tensor, parents: Tensor, u: Tensor, moving: Moving = ALL
    ) -> tuple[Tensor, Tensor]:
        # Where the noise is cut, it is that of the value itself, whether this is an end or a point.
        nearest = self._nearest(x, parents, u)
        _, by_parents = self.law.abduct_and_jacobian(self.law.reduce(x), parents, moving)
        cut = (nearest != u) | self._is_inside(x)

        return nearest, torch.where(cut, by_parents, 0.0).unsqueeze(-2)

    def predict_and_jacobian(self, u: Tensor, parents: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor, Tensor]:
        x, by_noise, by_parents = self.law.predict_and_jacobian(u, parents, moving)
        if self.soft:
            return x, by_noise, by_parents
        shows = self._is_inside(x) | self.guided

        return self._cut(x), torch.where(shows, by_noise, 0.0), torch.where(shows, by_parents, 0.0)

    def _region(self, lower: Tensor, upper: Tensor, parents: Tensor) -> PointOrInterval:
        return _between(self.law, self._ends, lower, upper, parents)

    def _hard(self, u: Tensor, parents: Tensor) -> Tensor:
        return self._cut(self.law._predict(u, parents))

    def _soft(self, u: Tensor, parents: Tensor) -> Tensor:
        return self.law._predict(u, parents)

    def _invert(self, x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the noise, and a volume of none at floor and ceiling, which have a probability."""
        region = self._region(x, x, parents)

        return region.mean(), torch.where(region.alone.squeeze(-1), region.log_volume, 0.0)

    @property
    def _ends(self) -> tuple[float, float]:
        return self.bound.child.floor, self.bound.child.ceiling

    def _cut(self, x: Tensor) -> Tensor:
        return x.clamp(*self._ends)

    def _is_inside(self, x: Tensor) -> Tensor:
        floor, ceiling = self._ends

        return (x > floor) & (x < ceiling)

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        if isinstance(self.law, Linear):
            return self._fit_linear(self.law, rows)

        with torch.no_grad():
            completed = self._completed(rows)
        return self.law.fit(
            Split(completed, rows.context, rows.kept, rows.held, self._loss_of, latent=True),
            TrainLatent(train, self._loss_of),
        )

    def _loss_of(self, law: Learner, x: Tensor, parents: Tensor) -> Tensor:
        """The loss of a latent law on what shows of values."""
        assert isinstance(law, Mechanism)  # noqa: S101 # laws train themselves
        shown = self._cut(x)

        return -_between(law, self._ends, shown, shown, parents).log_mass()

    @torch.no_grad()
    def _fit_linear(self, law: Linear, rows: Split) -> FitOutcome:
        everything = torch.cat([rows.x, rows.held_x]), torch.cat([rows.parents, rows.held_parents])
        try:
            self._solve(law, rows.x, rows.parents)
        except FitError:  # a rare value may stand in held-out rows alone
            self._solve(law, *everything)
            return FitOutcome(self.loss(rows.held_x, rows.held_parents), (ALL_ROWS,))

        held_out = self.loss(rows.held_x, rows.held_parents)
        self._solve(law, *everything)

        return FitOutcome(held_out)

    def _solve(self, law: Linear, x: Tensor, parents: Tensor) -> None:
        """Takes the scales from the data, and the weights of a linear law from the Tobit likelihood."""
        floor, ceiling = self._ends
        law.outer.calibrate(x)
        law.inputs.calibrate(parents)
        below, above = (x <= floor).squeeze(-1), (x >= ceiling).squeeze(-1)
        solution = fit_tobit(law.inputs.inward(parents), law.outer.scaled(x), below, above, self.bound.child.name)
        for buffer, solved in zip((law.shift, law.slope, law.factor), solution, strict=True):
            buffer.copy_(solved)

    def _completed(self, rows: Split) -> Tensor:
        """All rows, with what is censored drawn from its distribution by the linear law given that it is."""
        name = self.bound.child.name
        linear = Censored(Linear()).bind(self.bound, generator(0, name, "weights")).to(rows.context)
        assert isinstance(linear.law, Linear)  # noqa: S101 # it was made so
        linear._solve(linear.law, rows.x, rows.parents)
        uniform = torch.rand(rows.column.shape, generator=generator(0, name, "latent"), dtype=torch.float64)
        u = linear.draw(rows.column, rows.context, uniform.to(rows.column))
        latent = linear.law.predict(u, rows.context)

        return torch.where(self._is_inside(rows.column), rows.column, latent)


def _between(
    law: Mechanism, ends: tuple[float, float], lower: Tensor, upper: Tensor, parents: Tensor
) -> PointOrInterval:
    """The noises of a continuous law that lead to values from one to another, of which nothing shows beyond ends."""
    floor, ceiling = ends
    variable = law.bound.child
    below, above = lower <= max(floor, variable.lower), upper >= min(ceiling, variable.upper)
    alone = (lower == upper) & ~below & ~above
    # Bounds that are not there, and those that are never attained, have no noise.
    anchor = floor if math.isfinite(floor) else ceiling
    u, log_volume = law._invert(torch.where(above & ~(upper == ceiling), anchor, upper), parents)
    low = u if lower is upper else law._abduct(torch.where(below & ~(lower == floor), anchor, lower), parents)
    # The interval that stands for none is never used, and kept finite.
    interval = Interval(
        torch.where(alone, -1.0, torch.where(below, -torch.inf, low)),
        torch.where(alone, 1.0, torch.where(above, torch.inf, u)),
    )

    return PointOrInterval(interval, u, alone, log_volume)
