r"""What laws share that map noise to a value through monotone layers, each given the parents.

From the noise outward, :math:`x = b(l_1(\dots l_n(u; c) \dots; c))`, with :math:`c` the scaled parents and :math:`b`
the outer bijection. A vector is modelled component by component, each given those before it.
"""

__all__ = ["Layered"]

import itertools
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from deepbc.mechanisms.base import Mechanism
from deepbc.mechanisms.layers import Layer, find_noise, map_and_jacobian, map_inward
from deepbc.mechanisms.links import Inputs, Outer
from deepbc.nn.mlp_jacobian import ALL, Moving


class Layered(Mechanism):
    """A law through layers; a subclass makes `inputs`, `outer` and its layers in `_build`, and fits them."""

    inputs: Inputs
    outer: Outer

    @abstractmethod
    def _active(self) -> list[Layer]:
        """The layers that take part, from the noise outward."""

    def _predict(self, u: Tensor, parents: Tensor) -> Tensor:
        scaled = self.inputs.inward(parents)
        components: list[Tensor] = []

        for k in range(self.value_dim):
            context, component = self._context(scaled, components), slice(k, k + 1)
            z = u[..., component]
            for layer in self._active():
                z = layer.outward(z, context, component)
            components.append(z)

        return self.outer.outward(torch.cat(components, dim=-1) if len(components) > 1 else components[0])

    def _abduct(self, x: Tensor, parents: Tensor) -> Tensor:
        y = self.outer.scaled(x)

        return find_noise(y, self._context(self.inputs.inward(parents), y.split(1, dim=-1)), self._active())

    def reduce(self, x: Tensor) -> Tensor:
        # In a vector, later components see earlier ones as they are outside all layers.
        return x if self.value_dim > 1 else find_noise(self.outer.scaled(x), x[..., :0], self._constant())

    def abduct_reduced(self, z: Tensor, parents: Tensor) -> Tensor:
        if self.value_dim > 1:
            return self._abduct(z, parents)

        return find_noise(z, self.inputs.inward(parents), self._inner())

    @torch.no_grad()
    def predict_and_jacobian(self, u: Tensor, parents: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor, Tensor]:
        context, into = self.inputs.inward_and_derivative(parents)
        maps = [layer.outward_and_jacobian for layer in self._active()]
        y, by_noise, by_context = map_and_jacobian(u, context, maps, moving)
        x, slope = self.outer.outward_and_derivative(y)

        return x, slope * by_noise, slope * by_context * into[:, moving]

    @torch.no_grad()
    def abduct_and_jacobian(self, z: Tensor, parents: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor]:
        context, into = self.inputs.inward_and_derivative(parents)
        maps = [layer.inward_and_jacobian for layer in reversed(self._inner())]
        u, _, by_context = map_and_jacobian(z, context, maps, moving)

        return u, by_context * into[:, moving]

    def invert_reduced(self, z: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        if self.value_dim > 1:
            return self._invert(z, parents)

        u, log_slope = map_inward(z, self.inputs.inward(parents), self._inner())

        return u, log_slope.sum(-1)

    def _invert(self, x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        y, log_volume = self.outer.inward(x)
        context = self._context(self.inputs.inward(parents), y.split(1, dim=-1))
        u, log_slope = map_inward(y, context, self._active())

        return u, (log_volume + log_slope).sum(-1)

    def _context(self, parents: Tensor, components: Sequence[Tensor]) -> Tensor:
        """Joins scaled parents and the components known so far; those not yet known are zero, and masked anyway."""
        if self.value_dim == 1:
            return parents

        known = [*components[: self.value_dim - 1]]
        unknown = parents.new_zeros(*parents.shape[:-1], self.value_dim - 1 - len(known))

        return torch.cat([parents, *known, unknown], dim=-1)

    def _constant(self) -> list[Layer]:
        """The outermost layers, as far as they are the same for all parents."""
        layers = itertools.takewhile(lambda layer: layer.constant, reversed(self._active()))

        return [*layers][::-1]

    def _inner(self) -> list[Layer]:
        """The other layers."""
        layers = self._active()

        return layers[: len(layers) - len(self._constant())]
