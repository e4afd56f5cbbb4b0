r"""The outer bijections of a learned law: the variable's bounds, and the scale of its data.

A law is learned on :math:`y`, which knows no bounds and has mean 0 and variance 1 in the data:
:math:`x = b(\mu + \sigma y)`, where the link :math:`b` is the identity, an exponential (one bound) or a scaled sigmoid
(two). So a predicted value is inside its bounds by construction.
"""

__all__ = ["Inputs", "Outer"]

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deepbc.data.variables import Variable, interior
from deepbc.numerics.batched import concat_last


class Scaling(nn.Module):
    """Creates the map from data to mean 0 and variance 1; the identity until it has seen data.

    Args:
        dim: The number of components.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(dim, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(dim, dtype=torch.float64))

    def calibrate(self, rows: Tensor) -> None:
        """Takes mean and standard deviation from rows of shape `(rows, dim)`."""
        self.shift.copy_(rows.mean(0))
        spread = (rows - self.shift).square().mean(0).sqrt()
        # What is constant among these rows stays as it is.
        self.scale.copy_(spread.where(spread > 0, 1.0))

    def inward(self, x: Tensor) -> Tensor:
        return (x - self.shift) / self.scale

    def outward(self, y: Tensor) -> Tensor:
        return self.shift + self.scale * y


class Outer(nn.Module):
    r"""Creates the outer bijection :math:`x = b(\mu + \sigma y)` of a variable.

    Args:
        variable: The variable, with its bounds.
    """

    def __init__(self, variable: Variable) -> None:
        super().__init__()
        self.lower, self.upper = variable.support
        self.bounded = math.isfinite(self.lower) or math.isfinite(self.upper)
        self.scaling = Scaling(variable.dim)

    def calibrate(self, x: Tensor) -> None:
        """Takes the scale from values of shape `(rows, value)`."""
        self.scaling.calibrate(self._unbound(x)[0])

    def inward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        r"""Computes :math:`y` and :math:`\log |dy / dx|`, both with shape `(*batch, value)`; NaN outside the bounds."""
        free, log_volume = self._unbound(x)

        return self.scaling.inward(free), log_volume - self.scaling.scale.log()

    def scaled(self, x: Tensor) -> Tensor:
        """Computes :math:`y` alone."""
        return self.scaling.inward(self._unbound(x)[0]) if self.bounded else self.scaling.inward(x)

    def outward(self, y: Tensor) -> Tensor:
        """Computes :math:`x`, with shape `(*batch, value)`."""
        return self._bound(self.scaling.outward(y))

    def outward_and_derivative(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Computes :math:`x` and :math:`dx / dy`, both with shape `(*batch, value)`."""
        x, scale = self.outward(y), self.scaling.scale
        if not self.bounded:
            return x, scale.expand_as(x)

        # A value at the last number inside its bounds stays there.
        first, last = interior(self.lower, self.upper, x.dtype)
        sides = self._sides(x)
        slope = sides[0] if len(sides) == 1 else sides[0] * (sides[1] / (self.upper - self.lower))

        return x, torch.where((x > first) & (x < last), scale * slope, 0.0)

    def scaled_and_derivative(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Computes :math:`y` and :math:`dy / dx`, both with shape `(*batch, value)`."""
        y, scale = self.scaled(x), self.scaling.scale
        if not self.bounded:
            return y, scale.reciprocal().expand_as(x)

        tiny = torch.finfo(x.dtype).tiny

        return y, torch.stack([side.clamp_min(tiny).reciprocal() for side in self._sides(x)]).sum(0) / scale

    def _sides(self, x: Tensor) -> list[Tensor]:
        """How far values are inside each of their bounds."""
        below = [x - self.lower] if math.isfinite(self.lower) else []

        return [*below, self.upper - x] if math.isfinite(self.upper) else below

    def _unbound(self, x: Tensor) -> tuple[Tensor, Tensor]:
        below = (x - self.lower).log() if math.isfinite(self.lower) else None
        above = (self.upper - x).log() if math.isfinite(self.upper) else None

        if below is not None and above is not None:
            return below - above, math.log(self.upper - self.lower) - below - above
        if below is not None:
            return below, -below
        if above is not None:
            return -above, -above

        return x, torch.zeros_like(x)

    def _bound(self, free: Tensor) -> Tensor:
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            x = self.lower + (self.upper - self.lower) * free.sigmoid()
        elif math.isfinite(self.lower):
            x = self.lower + _exp(free)
        elif math.isfinite(self.upper):
            x = self.upper - _exp(-free)
        else:
            return free

        # Far out the link rounds to the bound itself, which has no noise; the last number inside has one.
        return x.clamp(*interior(self.lower, self.upper, x.dtype))


class Inputs(nn.Module):
    """Creates the parents as a learned law sees them: each freed of its own bounds, and scaled.

    A positive parent acts through its logarithm, so that far out the law goes on as a power and not as an exponential.

    Args:
        parents: The parents, in the order of the graph.
    """

    def __init__(self, parents: Sequence[Variable]) -> None:
        super().__init__()
        self.dims = [parent.dim for parent in parents]
        self.outers = nn.ModuleList(Outer(parent) for parent in parents)
        self.bounded = any(outer.bounded for outer in self.outers if isinstance(outer, Outer))

    def calibrate(self, parents: Tensor) -> None:
        """Takes the scales from parents of shape `(rows, parents)`."""
        for outer, part in self._parts(parents):
            outer.calibrate(part)

    def inward(self, parents: Tensor) -> Tensor:
        """Computes what the law sees, with shape `(*batch, parents)`."""
        if not self.bounded and self.dims:
            return (parents - self._joined("shift")) / self._joined("scale")

        return concat_last([outer.scaled(part) for outer, part in self._parts(parents)], parents)

    def inward_and_derivative(self, parents: Tensor) -> tuple[Tensor, Tensor]:
        """Computes what the law sees and its derivative by each parent's component, both `(*batch, parents)`."""
        if not self.bounded and self.dims:
            return self.inward(parents), self._joined("scale").reciprocal().expand_as(parents)

        parts = [outer.scaled_and_derivative(part) for outer, part in self._parts(parents)]
        scaled, slopes = [y for y, _ in parts], [slope for _, slope in parts]

        return concat_last(scaled, parents), concat_last(slopes, parents)

    def _joined(self, name: str) -> Tensor:
        """The shifts or the scales of all parents, with shape `(parents,)`."""
        return torch.cat([getattr(outer.scaling, name) for outer in self.outers])

    def _parts(self, parents: Tensor) -> list[tuple[Outer, Tensor]]:
        parts = parents.split(self.dims, dim=-1) if self.dims else ()

        return [(outer, part) for outer, part in zip(self.outers, parts, strict=True) if isinstance(outer, Outer)]


def _exp(free: Tensor) -> Tensor:
    """The exponential, held back before it overflows: beyond, its derivative would be NaN."""
    return free.clamp(max=math.log(torch.finfo(free.dtype).max) - 1).exp()
