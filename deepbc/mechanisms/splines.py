r"""The monotone spline of a flow, with zuko's transform where something is derived by a graph.

References:
    Neural Spline Flows (Durkan et al., 2019). https://arxiv.org/abs/1906.04032
"""

__all__ = ["Spline"]

import math

import torch
from torch import Tensor
from zuko.transforms import MonotonicRQSTransform

from deepbc.mechanisms.layers import Layer, WithJacobian
from deepbc.mechanisms.rational_quadratic import Bins
from deepbc.nn.conditioner import Constant, Parameters
from deepbc.nn.mlp_jacobian import Moving

BOX = 5.0
LEAST_SLOPE = 1e-3


class Spline(Layer):
    """The monotone rational-quadratic spline on a box, the identity outside; written in the inward direction.

    At first it is the identity, with its knots where a standard normal variable has its mass.
    """

    def __init__(self, parameters: Parameters) -> None:
        super().__init__()
        self.parameters_of = parameters
        self.constant = isinstance(parameters, Constant)
        self.bins = (parameters.bias.shape[-1] + 1) // 3
        self._made: tuple[object, _Transform, Bins] | None = None
        self.normal = torch.linspace(-3.0, 3.0, self.bins + 1, dtype=torch.float64)[1:-1]
        self._place(self.normal.expand(len(parameters.bias), -1))

    def outward(self, z: Tensor, context: Tensor, components: slice) -> Tensor:
        if self._plain():
            return self._bins().outward(z)
        outside: Tensor = self._transform(context, components)._inverse(z)

        return outside

    def only_inward(self, z: Tensor, context: Tensor) -> Tensor:
        if self._plain():
            return self._bins().inward(z)
        inside: Tensor = self._transform(context, slice(None))._call(z)

        return inside

    def _plain(self) -> bool:
        """Whether a lone component is mapped in the same way for all parents, and nothing is derived or learned."""
        bias = self.parameters_of.bias

        return self.constant and len(bias) == 1 and not bias.requires_grad and not torch.is_grad_enabled()

    def inward(self, z: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        inside, log_slope = self._transform(context, slice(None)).call_and_ladj(z)

        return inside, log_slope

    def outward_and_jacobian(self, z: Tensor, context: Tensor, moving: Moving) -> WithJacobian:
        if not self.constant:
            return super().outward_and_jacobian(z, context, moving)
        return *self._bins().outward_and_jacobian(z), None

    def inward_and_jacobian(self, z: Tensor, context: Tensor, moving: Moving) -> WithJacobian:
        if not self.constant:
            return super().inward_and_jacobian(z, context, moving)
        return *self._bins().inward_and_jacobian(z), None

    def start(self, z: Tensor, context: Tensor, *, straight: bool) -> None:
        """Maps quantiles of the rows to those of the standard normal, or is the identity."""
        if straight:
            self._place(self.normal.expand(len(self.parameters_of.bias), -1))
            return

        places = (torch.special.ndtr(self.normal) * (len(z) - 1)).round().long()
        self._place(z.sort(0).values[places].T)

    def _transform(self, context: Tensor, components: slice) -> "_Transform":
        if not self.constant or self.parameters_of.bias.requires_grad:
            return self._make(self.parameters_of(context, components))

        return self._once(components)[0]

    def _bins(self) -> Bins:
        """The bins of the spline of a lone component that is the same for all parents."""
        return self._once(slice(None))[1]

    def _once(self, components: slice) -> "tuple[_Transform, Bins]":
        """Made once while the weights stay as they are: solvers ask for it again and again."""
        bias = self.parameters_of.bias
        if bias.requires_grad:
            # An optimiser may move them unseen.
            transform = self._make(bias[components])
            return transform, _bins_of(transform)

        whole = range(len(bias))
        key = (whole[components], bias.data_ptr(), bias._version, bias.dtype)
        if self._made is None or self._made[0] != key:
            transform = self._make(bias[components])
            self._made = (key, transform, _bins_of(transform))

        return self._made[1:]

    def _make(self, parameters: Tensor) -> "_Transform":
        widths, heights, slopes = parameters.split([self.bins, self.bins, self.bins - 1], dim=-1)

        return _Transform(widths, heights, slopes, bound=BOX, slope=LEAST_SLOPE)

    @torch.no_grad()
    def _place(self, knots: Tensor) -> None:
        """Sets the constant part of the parameters so that the knots, `(components, bins - 1)`, map to the normal's."""
        edge = knots.new_full((len(knots), 1), BOX)
        normal = self.normal.to(knots).expand_as(knots)
        widths = torch.cat([-edge, knots.clamp(-BOX, BOX), edge], dim=-1).diff().clamp_min(1e-6)
        heights = torch.cat([-edge, normal, edge], dim=-1).diff()
        log_slopes = (heights / widths).log()

        limit = -math.log(LEAST_SLOPE)
        sizes = [_unclip(size.log() - size.log().mean(-1, keepdim=True), limit / 2) for size in (widths, heights)]
        slopes = _unclip((log_slopes[:, 1:] + log_slopes[:, :-1]) / 2, limit)
        self.parameters_of.bias.copy_(torch.cat([*sizes, slopes], dim=-1))


class _Transform(MonotonicRQSTransform):  # type: ignore[misc] # zuko has no types
    """zuko's spline with a lookup of bins that does not load torch's compiler, as `torch.broadcast_shapes` would."""

    def bin(self, k: Tensor) -> tuple[Tensor, ...]:
        mask = (k >= 0) & (k < self.bins)
        left = k.clamp(0, self.bins - 1).unsqueeze(-1)
        pairs = torch.cat([left, left + 1], dim=-1)
        knots = (each.expand(*k.shape, -1).gather(-1, pairs).unbind(-1) for each in self._knots())
        (x0, x1), (y0, y1), (d0, d1) = knots

        return mask, x0, x1, y0, y1, d0, d1, (y1 - y0) / (x1 - x0)

    def _knots(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.horizontal, self.vertical, self.derivatives


def _bins_of(transform: _Transform) -> Bins:
    """The bins of the spline of one component."""
    knots_in, knots_out, slopes = (each[0] for each in transform._knots())

    return Bins(knots_in, knots_out, slopes, identity=True)


def _unclip(clipped: Tensor, limit: float) -> Tensor:
    """Inverts zuko's soft clip `v / (1 + |v / limit|)` of spline parameters."""
    clipped = clipped.clamp(-0.95 * limit, 0.95 * limit)

    return clipped / (1 - clipped.abs() / limit)
