r"""Normalising flows for numbers and vectors of numbers.

The *backbone* is, from the noise outward, a scale and shift by the parents, a monotone spline, and the outer bijection:

.. math:: x = b(g(m(x_{pa}) + s(x_{pa}) \, u)),

with :math:`m` and :math:`\log s` linear plus a bounded network and :math:`g` a spline that ignores the parents and has
linear tails. So it extrapolates linearly, which backtracking needs: it asks for pairs of parents and value that no row
showed. A *correction*, a spline :math:`c(u; x_{pa})` next to the noise that does see the parents, is kept only where
held-out likelihood clearly pays for it. A vector is modelled component by component, each given those before it.

References:
    Neural Spline Flows (Durkan et al., 2019). https://arxiv.org/abs/1906.04032
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), appendix B.3.
"""

__all__ = ["Flow"]

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn
from zuko.transforms import MonotonicRQSTransform

from deepbc._checks import check_count, check_layers, check_units
from deepbc.errors import SettingError
from deepbc.mechanisms.base import Mechanism, Outcome, gain_of
from deepbc.mechanisms.gaussian import fit_gaussian
from deepbc.mechanisms.outer import Inputs, Outer
from deepbc.mechanisms.regression import least_squares
from deepbc.nn.conditioner import Conditioner, Constant, Parameters
from deepbc.training import Rows, Train
from deepbc.variables import Family

LAYERS = ("affine", "constant affine", "spline", "conditional spline")
LARGEST_LOG_SCALE = 7.0
BOX = 5.0
LEAST_SLOPE = 1e-3
# One law replaces another if it gains so many nats and, by the one-standard-error rule (Breiman et al., 1984), more
# than its error.
LEAST_GAIN = 0.01
ROWS_FOR_A_START = 100_000


class Flow(Mechanism):
    r"""Creates a normalising flow, the default mechanism of a number or a vector.

    Args:
        layers: The layers from the noise outward: `"affine"` (scale and shift by the parents), `"constant affine"` and
            `"spline"` (the same for all parents), or `"conditional spline"`.
        bins: The bins of a spline.
        hidden: The units of each hidden layer of the networks; none leaves the linear part alone.
        correction: Whether to put a conditional spline next to the noise; None lets held-out likelihood decide.

    Example:
        >>> Flow(layers=["affine", "spline", "spline", "spline"])  # the order of the paper's intensity flow
        Flow(layers=('affine', 'spline', 'spline', 'spline'), bins=8, hidden=(32, 32), correction=None)
    """

    corrected: Tensor

    def __init__(
        self,
        *,
        layers: Sequence[str] = ("affine", "spline"),
        bins: int = 8,
        hidden: Sequence[int] = (32, 32),
        correction: bool | None = None,
    ) -> None:
        super().__init__()
        check_layers(layers, LAYERS, "Flow layers")
        self.layers, self.hidden = tuple(layers), check_units(hidden, "Flow hidden")
        if correction not in (None, True, False):
            raise SettingError(f"Flow correction: expected True, False or None, got {correction!r}.")
        self.bins, self.correction = bins, correction
        check_count(bins, "Flow bins", least=2)

    def settings(self) -> dict[str, Any]:
        return {"layers": self.layers, "bins": self.bins, "hidden": self.hidden, "correction": self.correction}

    def _build(self, family: Family, generator: Generator) -> None:
        components, parents = family.child.dim, family.parents_dim

        def parameters(outputs: int) -> Parameters:
            if parents + components == 1:
                return Constant(components, outputs)
            return Conditioner(components, parents, outputs, self.hidden, generator)

        def layer(kind: str) -> _Layer:
            if kind in ("affine", "constant affine"):
                return _Affine(parameters(2) if kind == "affine" else Constant(components, 2))
            outputs = 3 * self.bins - 1
            return _Spline(Constant(components, outputs) if kind == "spline" else parameters(outputs))

        self.outer = Outer(family.child)
        self.inputs = Inputs(family.parents)
        self.backbone = nn.ModuleList(layer(kind) for kind in self.layers)
        self.conditional = layer("conditional spline")
        self.register_buffer("corrected", torch.tensor(self.correction is True))

    def _predict(self, u: Tensor, parents: Tensor) -> Tensor:
        known = self.inputs.inward(parents)
        components: list[Tensor] = []

        for k in range(self.value_dim):
            context, component = self._context(known, components), slice(k, k + 1)
            z = u[..., component]
            for layer in self._active():
                z = layer.outward(z, context, component)
            components.append(z)

        return self.outer.outward(torch.cat(components, dim=-1) if len(components) > 1 else components[0])

    def _abduct(self, x: Tensor, parents: Tensor) -> Tensor:
        y = self.outer.scaled(x)

        return _noise(y, self._context(self.inputs.inward(parents), y.split(1, dim=-1)), self._active())

    def reduce(self, x: Tensor) -> Tensor:
        # In a vector, later components see earlier ones as they are outside all layers.
        return x if self.value_dim > 1 else _noise(self.outer.scaled(x), x[..., :0], self._constant())

    def abduct_reduced(self, z: Tensor, parents: Tensor) -> Tensor:
        if self.value_dim > 1:
            return self._abduct(z, parents)

        layers = self._active()
        return _noise(z, self.inputs.inward(parents), layers[: len(layers) - len(self._constant())])

    def invert_reduced(self, z: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        if self.value_dim > 1:
            return self._invert(z, parents)

        layers = self._active()
        u, log_slope = _inward(z, self.inputs.inward(parents), layers[: len(layers) - len(self._constant())])

        return u, log_slope.sum(-1)

    def _invert(self, x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        y, log_volume = self.outer.inward(x)
        context = self._context(self.inputs.inward(parents), y.split(1, dim=-1))
        u, log_slope = _inward(y, context, self._active())

        return u, (log_volume + log_slope).sum(-1)

    def _context(self, parents: Tensor, components: Sequence[Tensor]) -> Tensor:
        """Joins scaled parents and the components known so far; those not yet known are zero, and masked anyway."""
        if self.value_dim == 1:
            return parents

        known = [*components[: self.value_dim - 1]]
        unknown = parents.new_zeros(*parents.shape[:-1], self.value_dim - 1 - len(known))

        return torch.cat([parents, *known, unknown], dim=-1)

    def _active(self) -> "list[_Layer]":
        return [self.conditional, *self.backbone] if self.corrected else [*self.backbone]

    def _constant(self) -> "list[_Layer]":
        """The outermost layers, as far as they are the same for all parents."""
        layers = itertools.takewhile(lambda layer: layer.constant, reversed(self._active()))

        return [*layers][::-1]

    def _state(self) -> dict[str, Tensor]:
        return {key: value.clone() for key, value in self.state_dict().items()}

    def _fit(self, rows: Rows, train: Train) -> Outcome:
        gaussian = self._start(rows)

        if self.correction is not None or self.parents_dim + self.value_dim == 1:
            return self._checked(Outcome(train(self, "flow")), gaussian, rows)

        # Both start from the data alone: a correction that starts from the trained backbone inherits its poor optima.
        start = self._state()
        backbone, kept = train(self, "backbone"), self._state()
        self.load_state_dict(start)
        self.corrected.fill_(True)
        corrected = train(self, "correction")

        gain, error = gain_of(backbone, corrected)
        pays = gain > max(LEAST_GAIN, error)
        note = f"correction {'kept' if pays else 'left out'}: held-out gain {gain:.4f} ± {error:.4f} nats"
        if not pays:
            self.load_state_dict(kept)

        return self._checked(Outcome(corrected if pays else backbone, (note,)), gaussian, rows)

    @torch.no_grad()
    def _start(self, rows: Rows) -> dict[str, Tensor]:
        """Takes scales and first weights from the data; returns the weights of the linear law with Gaussian noise."""
        self.inputs.see(rows.parents)
        self.outer.see(rows.x)
        x, parents = rows.x[:ROWS_FOR_A_START], rows.parents[:ROWS_FOR_A_START]
        fit_gaussian(self.inputs.inward(parents), self.outer.inward(x)[0], self.bound.child.name)

        losses, states = [], []
        for straight in (True, False):
            z, _ = self.outer.inward(x)
            context = self._context(self.inputs.inward(parents), z.split(1, dim=-1))
            for layer in reversed(self._active()):
                layer.start(z, context, straight=straight)
                z, _ = layer.inward(z, context)
            losses.append(self.loss(x, parents).mean().item())
            states.append(self._state())

        # A spline through the quantiles is the better start unless the law is nearly linear, which it would bend.
        self.load_state_dict(states[0] if losses[0] < losses[1] else states[1])

        return states[0]

    @torch.no_grad()
    def _checked(self, outcome: Outcome, gaussian: dict[str, Tensor], rows: Rows) -> Outcome:
        """Falls back on the linear law with Gaussian noise where that scores clearly better on the held-out rows."""
        trained = self._state()
        self.load_state_dict(gaussian)
        held_out = self.loss(rows.held_x, rows.held_parents)
        gain, error = gain_of(held_out, outcome.held_out)
        if gain >= -max(LEAST_GAIN, error):
            self.load_state_dict(trained)
            return outcome

        note = f"a linear law with Gaussian noise is kept: held-out gain of the flow {gain:.4f} ± {error:.4f} nats"

        return Outcome(held_out, (*outcome.notes, note))


def _inward(z: Tensor, context: Tensor, layers: "Sequence[_Layer]") -> tuple[Tensor, Tensor]:
    """Maps through layers toward the noise, with the logarithm of the slope; both have shape `(*batch, value)`."""
    log_slope = torch.zeros_like(z)
    for layer in reversed(layers):
        z, log_part = layer.inward(z, context)
        log_slope = log_slope + log_part

    return z, log_slope


def _noise(z: Tensor, context: Tensor, layers: "Sequence[_Layer]") -> Tensor:
    """Maps through layers toward the noise."""
    for layer in reversed(layers):
        z = layer.only_inward(z, context)

    return z


class _Layer(nn.Module, ABC):
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

    @abstractmethod
    def start(self, z: Tensor, context: Tensor, *, straight: bool) -> None:
        """Takes a first guess of the weights from rows as they come in from the outside; a straight one is affine."""


class _Affine(_Layer):
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

    def start(self, z: Tensor, context: Tensor, *, straight: bool) -> None:
        """Least squares of each component on what it may see, and the spread of what remains."""
        for k, mask in enumerate(self.parameters_of.mask):
            shift, slope, residual = least_squares(context[:, : len(mask)] * mask, z[:, k : k + 1])
            self.shift[k] = shift[0]
            self.slope[k] = slope[:, 0] * mask
            self.log_spread[k] = residual.std(correction=0).log()


class _Spline(_Layer):
    """The monotone rational-quadratic spline on a box, the identity outside; written in the inward direction.

    At first it is the identity, with its knots where a standard normal variable has its mass.
    """

    def __init__(self, parameters: Parameters) -> None:
        super().__init__()
        self.parameters_of = parameters
        self.constant = isinstance(parameters, Constant)
        self.bins = (parameters.bias.shape[-1] + 1) // 3
        self._made: tuple[object, _Transform] | None = None
        self.normal = torch.linspace(-3.0, 3.0, self.bins + 1, dtype=torch.float64)[1:-1]
        self._place(self.normal.expand(len(parameters.bias), -1))

    def outward(self, z: Tensor, context: Tensor, components: slice) -> Tensor:
        outside: Tensor = self._transform(context, components)._inverse(z)

        return outside

    def only_inward(self, z: Tensor, context: Tensor) -> Tensor:
        inside: Tensor = self._transform(context, slice(None))._call(z)

        return inside

    def inward(self, z: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        inside, log_slope = self._transform(context, slice(None)).call_and_ladj(z)

        return inside, log_slope

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

        # Made once while the weights stay as they are: solvers ask for it again and again.
        bias = self.parameters_of.bias
        whole = range(len(bias))
        key = (whole[components], bias.data_ptr(), bias._version, bias.dtype)
        if self._made is None or self._made[0] != key:
            self._made = (key, self._make(bias[components]))

        return self._made[1]

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


def _unclip(clipped: Tensor, limit: float) -> Tensor:
    """Inverts zuko's soft clip `v / (1 + |v / limit|)` of spline parameters."""
    clipped = clipped.clamp(-0.95 * limit, 0.95 * limit)

    return clipped / (1 - clipped.abs() / limit)
