r"""The layers of a flow of numbers: monotone maps of each component, given the context that its parents make up.

A layer also knows its derivatives, by what comes in and by the context, without a graph of what led to them.
"""

__all__ = ["Affine", "Layer", "WithJacobian", "find_noise", "map_and_jacobian", "map_inward"]

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from deepbc.mechanisms.derivatives import value_and_gradients
from deepbc.mechanisms.least_squares import least_squares
from deepbc.nn.conditioner import Constant, Parameters
from deepbc.nn.mlp_jacobian import Moving

LARGEST_LOG_SCALE = 7.0

# What comes out of a layer, and its derivatives by what comes in and by what moves of the context; None where that does
# not count.
WithJacobian = tuple[Tensor, Tensor, Tensor | None]


class Layer(nn.Module, ABC):
    """A monotone map of each component, given the context."""

    constant = False

    @abstractmethod
    def outward(self, z: Tensor, context: Tensor, components: slice) -> Tensor:
        """Maps the given components toward the value."""

    @abstractmethod
    def inward(self, z: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Maps all components toward the noise, with the logarithm of the slope."""

    def only_inward(self, z: Tensor, context: Tensor) -> Tensor:
        """Maps all components toward the noise."""
        return self.inward(z, context)[0]

    def outward_and_jacobian(self, z: Tensor, context: Tensor, moving: Moving) -> WithJacobian:
        """Maps a lone component toward the value, with its derivatives."""
        outside, (by_z, by_context) = value_and_gradients(
            lambda z, context: self.outward(z, context, slice(None)), z, context
        )

        return outside, by_z, by_context[:, moving]

    def inward_and_jacobian(self, z: Tensor, context: Tensor, moving: Moving) -> WithJacobian:
        """Maps a lone component toward the noise, with its derivatives."""
        inside, (by_z, by_context) = value_and_gradients(self.only_inward, z, context)

        return inside, by_z, by_context[:, moving]

    @abstractmethod
    def start(self, z: Tensor, context: Tensor, *, straight: bool) -> None:
        """Takes a first guess of the weights from rows as they come in from the outside; a straight one is affine."""


def map_inward(z: Tensor, context: Tensor, layers: Sequence[Layer]) -> tuple[Tensor, Tensor]:
    """Maps through layers toward the noise, with the logarithm of the slope; both have shape `(*batch, value)`."""
    log_slope = torch.zeros_like(z)
    for layer in reversed(layers):
        z, log_part = layer.inward(z, context)
        log_slope = log_slope + log_part

    return z, log_slope


def find_noise(z: Tensor, context: Tensor, layers: Sequence[Layer]) -> Tensor:
    """Maps through layers toward the noise."""
    for layer in reversed(layers):
        z = layer.only_inward(z, context)

    return z


def map_and_jacobian(
    z: Tensor, context: Tensor, layers: Sequence[Callable[[Tensor, Tensor, Moving], WithJacobian]], moving: Moving
) -> tuple[Tensor, Tensor, Tensor]:
    """Maps through layers, with the derivatives by what comes in, `(rows, 1)`, and by the context, `(rows, moving)`."""
    by_z, by_context = torch.ones_like(z), torch.zeros_like(context[:, moving])
    for layer in layers:
        z, slope, turn = layer(z, context, moving)
        by_z = slope * by_z
        by_context = slope * by_context if turn is None else torch.addcmul(turn, slope, by_context)

    return z, by_z, by_context


class Affine(Layer):
    """The conditional scale and shift, `m + s u`: least squares, and a network in units of the residuals."""

    shift: Tensor
    slope: Tensor
    log_spread: Tensor

    def __init__(self, parameters: Parameters) -> None:
        super().__init__()
        components, inputs = parameters.mask.shape
        self.parameters_of = parameters
        self.constant = isinstance(parameters, Constant)
        self.register_buffer("shift", torch.zeros(components, dtype=torch.float64))
        self.register_buffer("slope", torch.zeros(components, inputs, dtype=torch.float64))
        self.register_buffer("log_spread", torch.zeros(components, dtype=torch.float64))

    def _shift_and_log_scale(self, context: Tensor, components: slice) -> tuple[Tensor, Tensor]:
        added, widened = self.parameters_of(context, components).unbind(-1)
        log_spread = self.log_spread[components]
        shift = self.shift[components]
        if not self.constant:
            shift = nn.functional.linear(context, self.slope[components], shift)
        shift = torch.addcmul(shift, log_spread.exp(), added)
        # Bounded, so that parents far out can neither overflow the scale nor take it to zero.
        return shift, log_spread + LARGEST_LOG_SCALE * torch.tanh(widened / LARGEST_LOG_SCALE)

    def outward(self, z: Tensor, context: Tensor, components: slice) -> Tensor:
        shift, log_scale = self._shift_and_log_scale(context, components)

        return torch.addcmul(shift, log_scale.exp(), z)

    def inward(self, z: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        shift, log_scale = self._shift_and_log_scale(context, slice(None))

        return (z - shift) * (-log_scale).exp(), -log_scale

    def outward_and_jacobian(self, z: Tensor, context: Tensor, moving: Moving) -> WithJacobian:
        if self.constant:
            shift, log_scale = self._shift_and_log_scale(context, slice(None))
            return torch.addcmul(shift, log_scale.exp(), z), log_scale.exp(), None

        shift, log_scale, shifts, widens = self._derive(context, moving)
        scale = log_scale.exp()

        # The value to the last digit as it is without slopes: next to a bound, a digit is a large noise.
        return torch.addcmul(shift, scale, z), scale, torch.addcmul(shifts, scale * z, widens)

    def inward_and_jacobian(self, z: Tensor, context: Tensor, moving: Moving) -> WithJacobian:
        if self.constant:
            shift, log_scale = self._shift_and_log_scale(context, slice(None))
            return (z - shift) * (-log_scale).exp(), (-log_scale).exp(), None

        shift, log_scale, shifts, widens = self._derive(context, moving)
        scale = (-log_scale).exp()
        inside = (z - shift) * scale

        return inside, scale, -torch.addcmul(inside * widens, scale, shifts)

    def _derive(self, context: Tensor, moving: Moving) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Shift and logarithm of the scale of a lone component, `(rows, 1)`, and both by what moves of the context."""
        outputs, slopes = self.parameters_of.derive(context, moving)
        added, widened = outputs[:, :1], outputs[:, 1:]
        spread, squashed = self.log_spread.exp(), torch.tanh(widened / LARGEST_LOG_SCALE)
        shift = torch.addcmul(nn.functional.linear(context, self.slope, self.shift), spread, added)
        shifts = torch.addcmul(self.slope[:, moving], spread, slopes[:, 0])

        return shift, self.log_spread + LARGEST_LOG_SCALE * squashed, shifts, (1 - squashed.square()) * slopes[:, 1]

    def start(self, z: Tensor, context: Tensor, *, straight: bool) -> None:
        """Least squares of each component on what it may see, and the spread of what remains."""
        for k, mask in enumerate(self.parameters_of.mask):
            shift, slope, residual = least_squares(context[:, : len(mask)] * mask, z[:, k : k + 1])
            self.shift[k] = shift[0]
            self.slope[k] = slope[:, 0] * mask
            self.log_spread[k] = residual.std(correction=0).log()
