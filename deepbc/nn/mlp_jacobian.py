r"""Networks of logistic units with their derivatives, without a graph of what led to them.

A unit's slope follows from its value, :math:`\sigma' = \sigma (1 - \sigma)`, so that derivatives are swept through the
layers beside the values: outward, an input after the other, or back inward, an output after the other. Rows pass in
blocks, all of which use the same few sheets of memory: memory that is touched for the first time is what a large batch
would wait for.
"""

__all__ = ["Network", "derive_network", "run_network"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# So many numbers of a hidden layer at a time. A power of two, like the chunks of rows in which laws are asked, so that
# rows fall into the same blocks however they come, with as many units as by default: products of other sizes may differ
# in their last digit.
BLOCK = 262_144


@dataclass(frozen=True, slots=True)
class Network:
    """A network of logistic units, and a linear part beside it.

    Args:
        layers: The weights `(inputs, units)` of each layer and its biases `(units,)`; at least one layer and one input.
        last: The weights of the outputs by the last units, with shape `(units, outputs)`.
        linear: Their weights by the inputs, with shape `(inputs, outputs)`.
        bias: Their biases, with shape `(outputs,)`.
    """

    layers: Sequence[tuple[Tensor, Tensor]]
    last: Tensor
    linear: Tensor
    bias: Tensor


@torch.no_grad()
def run_network(network: Network, seen: Tensor) -> Tensor:
    """Computes the outputs, with shape `(rows, outputs)`, of inputs with shape `(rows, inputs)`."""

    def run(block: Tensor, sheets: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return (_outputs(network, block, _values(block, network.layers, sheets)[-1]),)

    return _in_blocks(run, seen, network, sheets=2)[0]


@torch.no_grad()
def derive_network(network: Network, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the outputs as `run_network` does, and their derivatives, with shape `(rows, outputs, inputs)`."""
    inputs, outputs = network.linear.shape
    if inputs <= outputs:
        found, *slopes = _in_blocks(_sweep_outward(network), seen, network, sheets=2 + inputs)
        return found, torch.stack(slopes, dim=-1)

    found, *slopes = _in_blocks(_sweep_inward(network), seen, network, sheets=2 + len(network.layers))

    return found, torch.stack(slopes, dim=-2)


# Computes columns of a block of rows, on sheets of memory.
_Run = Callable[[Tensor, Sequence[Tensor]], tuple[Tensor, ...]]


def _in_blocks(run: _Run, seen: Tensor, network: Network, sheets: int) -> list[Tensor]:
    widest = max(len(bias) for _, bias in network.layers)
    blocks = seen.split(max(1, BLOCK // widest))
    # In one piece: libraries that return much freed memory to the system return many pieces sooner than one.
    room = seen.new_empty(sheets, len(blocks[0]) * widest).unbind()
    parts = [run(block, room) for block in blocks]

    return [torch.cat(part) for part in zip(*parts, strict=True)] if len(parts) > 1 else [*parts[0]]


def _values(block: Tensor, layers: Sequence[tuple[Tensor, Tensor]], sheets: Sequence[Tensor]) -> list[Tensor]:
    """The values of each layer's units, on the sheets in turn; those of layers further back may be gone."""
    values: list[Tensor] = []
    for k, (weight, bias) in enumerate(layers):
        sums = _on(sheets[k % len(sheets)], block, weight)
        values.append(torch.addmm(bias, values[-1] if values else block, weight, out=sums).sigmoid_())

    return values


def _sweep_outward(network: Network) -> _Run:
    """The outputs, and their derivatives by each input."""
    (first, _), *others = network.layers

    def run(block: Tensor, sheets: Sequence[Tensor]) -> tuple[Tensor, ...]:
        spare, own, *free = sheets
        (hidden,) = _values(block, network.layers[:1], [own])
        swept = [_steepen(by, hidden, _on(sheet, block, first)) for by, sheet in zip(first, free, strict=True)]
        for weight, bias in others:
            (hidden,) = _values(hidden, [(weight, bias)], [spare])
            spare, own = own, spare
            for k, sweep in enumerate(swept):
                after = torch.mm(sweep, weight, out=_on(spare, block, weight))
                swept[k] = _steepen(after, hidden, after)
                spare, free[k] = free[k], spare

        pairs = zip(network.linear, swept, strict=True)

        return _outputs(network, block, hidden), *(torch.addmm(by, sweep, network.last) for by, sweep in pairs)

    return run


def _sweep_inward(network: Network) -> _Run:
    """The outputs, and the derivatives of each by all inputs."""
    (first, _), *others = network.layers

    def run(block: Tensor, sheets: Sequence[Tensor]) -> tuple[Tensor, ...]:
        spare, other, *kept = sheets
        values = _values(block, network.layers, kept)
        slopes = []
        for sweep, by in zip(network.last.T, network.linear.T, strict=True):
            for hidden, (weight, _) in zip(reversed(values[1:]), reversed(others), strict=True):
                steep = _steepen(sweep, hidden, _on(spare, block, weight))
                sweep = torch.mm(steep, weight.T, out=_on(other, block, weight.T))
            slopes.append(torch.addmm(by, _steepen(sweep, values[0], _on(spare, block, first)), first.T))

        return _outputs(network, block, values[-1]), *slopes

    return run


def _steepen(sweep: Tensor, hidden: Tensor, sheet: Tensor) -> Tensor:
    """Multiplies by the slopes of logistic units, of which the values are given."""
    steep: Tensor = torch.ops.aten.sigmoid_backward.grad_input(sweep, hidden, grad_input=sheet)

    return steep


def _outputs(network: Network, block: Tensor, hidden: Tensor) -> Tensor:
    return torch.addmm(network.bias, block, network.linear).add_(hidden @ network.last)


def _on(sheet: Tensor, block: Tensor, weight: Tensor) -> Tensor:
    """The place on a sheet for what weights make of a block of rows."""
    rows, width = len(block), weight.shape[-1]

    return sheet[: rows * width].view(rows, width)
