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

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from deepbc._validation import check_count, check_units, near
from deepbc.data.variables import Family
from deepbc.errors import SettingError
from deepbc.mechanisms.base import FitOutcome, held_out_gain
from deepbc.mechanisms.gaussian import fit_gaussian
from deepbc.mechanisms.layered import Layered
from deepbc.mechanisms.layers import Affine, Layer
from deepbc.mechanisms.links import Inputs, Outer
from deepbc.mechanisms.splines import Spline
from deepbc.nn.conditioner import Conditioner, Constant, Parameters
from deepbc.training.trainer import Split, Train

LAYERS = ("affine", "constant affine", "spline", "conditional spline")
# One law replaces another if it gains so many nats and, by the one-standard-error rule (Breiman et al., 1984), more
# than its error.
LEAST_GAIN = 0.01
ROWS_FOR_A_START = 100_000


class Flow(Layered):
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
        if isinstance(layers, str) or not layers:
            raise SettingError(f"Flow layers: expected a list of layers such as ['affine', 'spline'], got {layers!r}.")
        for layer in layers:
            if layer not in LAYERS:
                hint = near(layer, LAYERS) or f"Known are: {', '.join(LAYERS)}."
                raise SettingError(f"Flow layers: unknown layer {layer!r}. {hint}")
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

        def layer(kind: str) -> Layer:
            if kind in ("affine", "constant affine"):
                return Affine(parameters(2) if kind == "affine" else Constant(components, 2))
            outputs = 3 * self.bins - 1
            return Spline(Constant(components, outputs) if kind == "spline" else parameters(outputs))

        self.outer = Outer(family.child)
        self.inputs = Inputs(family.parents)
        self.backbone = nn.ModuleList(layer(kind) for kind in self.layers)
        self.conditional = layer("conditional spline")
        self.register_buffer("corrected", torch.tensor(self.correction is True))

    def _active(self) -> list[Layer]:
        return [self.conditional, *self.backbone] if self.corrected else [*self.backbone]

    def _state(self) -> dict[str, Tensor]:
        return {key: value.clone() for key, value in self.state_dict().items()}

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        gaussian = self._start(rows)

        if self.correction is not None or self.parents_dim + self.value_dim == 1:
            return self._checked(FitOutcome(train(self, "flow")), gaussian, rows)

        # Both start from the data alone: a correction that starts from the trained backbone inherits its poor optima.
        start = self._state()
        backbone, kept = train(self, "backbone"), self._state()
        self.load_state_dict(start)
        self.corrected.fill_(True)
        corrected = train(self, "correction")

        gain, error = held_out_gain(backbone, corrected)
        pays = gain > max(LEAST_GAIN, error)
        note = f"correction {'kept' if pays else 'left out'}: held-out gain {gain:.4f} ± {error:.4f} nats"
        if not pays:
            self.load_state_dict(kept)

        return self._checked(FitOutcome(corrected if pays else backbone, (note,)), gaussian, rows)

    @torch.no_grad()
    def _start(self, rows: Split) -> dict[str, Tensor]:
        """Takes scales and first weights from the data; returns the weights of the linear law with Gaussian noise."""
        self.inputs.calibrate(rows.parents)
        self.outer.calibrate(rows.x)
        x, parents = rows.x[:ROWS_FOR_A_START], rows.parents[:ROWS_FOR_A_START]
        fit_gaussian(self.inputs.inward(parents), self.outer.inward(x)[0], self.bound.child.name)

        losses, states = [], []
        for straight in (True, False):
            z, _ = self.outer.inward(x)
            context = self._context(self.inputs.inward(parents), z.split(1, dim=-1))
            for layer in reversed(self._active()):
                layer.start(z, context, straight=straight)
                z, _ = layer.inward(z, context)
            losses.append(rows.loss(self, x, parents).mean().item())
            states.append(self._state())

        # A spline through the quantiles is the better start unless the law is nearly linear, which it would bend.
        self.load_state_dict(states[0] if losses[0] < losses[1] else states[1])

        return states[0]

    @torch.no_grad()
    def _checked(self, outcome: FitOutcome, gaussian: dict[str, Tensor], rows: Split) -> FitOutcome:
        """Falls back on the linear law with Gaussian noise where that scores clearly better on the held-out rows."""
        trained = self._state()
        self.load_state_dict(gaussian)
        held_out = rows.loss(self, rows.held_x, rows.held_parents)
        gain, error = held_out_gain(held_out, outcome.held_out)
        if gain >= -max(LEAST_GAIN, error):
            self.load_state_dict(trained)
            return outcome

        note = f"a linear law with Gaussian noise is kept: held-out gain of the flow {gain:.4f} ± {error:.4f} nats"

        return FitOutcome(held_out, (*outcome.notes, note))
