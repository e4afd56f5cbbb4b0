r"""The layer that gives a number the density that rows show: :math:`u = \Phi^{-1}(F(z))`, the same for all parents.

The map is interpolated between many knots by monotone rational quadratics, so that both directions are in closed form
whatever the density is; beyond the last knots, at 7 standard deviations, it goes on linearly.
"""

__all__ = ["DensityMap"]

from collections.abc import Sequence

import torch
from torch import Tensor

from deepbc.mechanisms.layers import Layer, WithJacobian
from deepbc.mechanisms.rational_quadratic import Bins
from deepbc.nn.mlp_jacobian import Moving
from deepbc.numerics.univariate_density import Density, Normal, choose_density

BINS, REACH = 280, 7.0


class DensityMap(Layer):
    """Creates the map of each of some components; the identity until a density is set.

    Args:
        components: The number of components.
    """

    constant = True
    noise: Tensor
    places: Tensor
    slopes: Tensor
    bent: Tensor

    def __init__(self, components: int) -> None:
        super().__init__()
        noise = torch.linspace(-REACH, REACH, BINS + 1, dtype=torch.float64)
        self.register_buffer("noise", noise, persistent=False)
        self.register_buffer("places", noise.repeat(components, 1))
        self.register_buffer("slopes", torch.ones(components, BINS + 1, dtype=torch.float64))
        # Whether each is anything but the identity.
        self.register_buffer("bent", torch.zeros(components, dtype=torch.bool))
        self._made: tuple[object, list[Bins | None]] | None = None

    def set(self, component: int, density: Density | None) -> None:
        """Takes the map of a density; none makes it the identity."""
        chosen = density or Normal(0.0, 1.0)
        places = chosen.quantile(self.noise)
        self.places[component], self.slopes[component] = places, chosen.slope(places)
        self.bent[component] = density is not None

    @property
    def identity(self) -> bool:
        """Whether it changes nothing."""
        return not bool(self.bent.any())

    def outward(self, z: Tensor, context: Tensor, components: slice) -> Tensor:
        bins = self._bins()[components]

        return _each(z, [each.outward if each else None for each in bins])

    def only_inward(self, z: Tensor, context: Tensor) -> Tensor:
        return _each(z, [each.inward if each else None for each in self._bins()])

    def inward(self, z: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        parts, slopes = [], []
        for column, bins in zip(z.split(1, dim=-1), self._bins(), strict=True):
            inside, slope = bins.inward_and_jacobian(column) if bins else (column, torch.ones_like(column))
            parts.append(inside)
            slopes.append(slope.log())

        return torch.cat(parts, dim=-1), torch.cat(slopes, dim=-1)

    def outward_and_jacobian(self, z: Tensor, context: Tensor, moving: Moving) -> WithJacobian:
        (bins,) = self._bins()

        return (*bins.outward_and_jacobian(z), None) if bins else (z, torch.ones_like(z), None)

    def inward_and_jacobian(self, z: Tensor, context: Tensor, moving: Moving) -> WithJacobian:
        (bins,) = self._bins()

        return (*bins.inward_and_jacobian(z), None) if bins else (z, torch.ones_like(z), None)

    def start(self, z: Tensor, context: Tensor, *, straight: bool) -> None:
        """Takes the densities of the components, or is the identity."""
        for k, column in enumerate(z.T):
            self.set(k, None if straight else choose_density(column)[1])

    def _bins(self) -> list[Bins | None]:
        """The bins of each component, made once while they stay as they are; None for the identity."""
        key = (self.places.data_ptr(), self.places._version, self.bent._version)
        if self._made is None or self._made[0] != key:
            rows = zip(self.places, self.slopes, self.bent.tolist(), strict=True)
            made = [Bins(places, self.noise, slopes, identity=False) if bent else None for places, slopes, bent in rows]
            self._made = (key, [*made])

        return self._made[1]


def _each(z: Tensor, maps: Sequence[object]) -> Tensor:
    """Maps each component by its own map, where it has one."""
    columns = [apply(column) if callable(apply) else column for column, apply in zip(z.split(1, -1), maps, strict=True)]

    return torch.cat(columns, dim=-1) if len(columns) > 1 else columns[0]
