r"""Networks of logistic units with their derivatives, without a graph of what led to them.

A unit's slope follows from its value, :math:`\sigma' = \sigma (1 - \sigma)`, so that derivatives are swept through the
layers beside the values: outward, an input after the other, or back inward, an output after the other. Rows pass in
blocks, all of which use one preallocated workspace: memory that is touched for the first time is what a large batch
would wait for.
"""

__all__ = ["ALL", "Moving", "Network", "derive_network", "run_network"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Numbers of a hidden layer per block. A power of two, like the chunks of rows in which laws are asked, so that
# rows fall into the same blocks however they come, with as many units as by default: products of other sizes may differ
# in their last digit.
BLOCK = 262_144

# Which inputs are derived by: their numbers, or all of them.
Moving = list[int] | slice
ALL = slice(None)


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
def run_network(network: Network, x: Tensor) -> Tensor:
    """Computes the outputs, with shape `(rows, outputs)`, of inputs with shape `(rows, inputs)`."""

    def run(block: Tensor, workspace: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return (_outputs(network, block, _values(block, network.layers, workspace)[-1]),)

    return _in_blocks(run, x, network, buffers=2)[0]


@torch.no_grad()
def derive_network(network: Network, x: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor]:
    """Computes the outputs as `run_network` does, and their derivatives by the inputs that move.

    Args:
        network: The network.
        x: The inputs, with shape `(rows, inputs)`.
        moving: Which of them move.

    Returns:
        The outputs, with shape `(rows, outputs)`, and their derivatives, with shape `(rows, outputs, moving)`.
    """
    count, outputs = network.linear[moving].shape
    if not count:
        return run_network(network, x), x.new_zeros(len(x), outputs, 0)
    if count <= outputs:
        found, *slopes = _in_blocks(_forward_mode(network, moving), x, network, buffers=2 + count)
        return found, torch.stack(slopes, dim=-1)

    found, *slopes = _in_blocks(_reverse_mode(network, moving), x, network, buffers=2 + len(network.layers))

    return found, torch.stack(slopes, dim=-2)


# Computes columns of a block of rows, in a workspace.
_Run = Callable[[Tensor, Sequence[Tensor]], tuple[Tensor, ...]]


def _in_blocks(run: _Run, x: Tensor, network: Network, buffers: int) -> list[Tensor]:
    widest = max(len(bias) for _, bias in network.layers)
    blocks = x.split(max(1, BLOCK // widest))
    # In one piece: libraries that return much freed memory to the system return many pieces sooner than one.
    workspace = x.new_empty(buffers, len(blocks[0]) * widest).unbind()
    parts = [run(block, workspace) for block in blocks]

    return [torch.cat(part) for part in zip(*parts, strict=True)] if len(parts) > 1 else [*parts[0]]


def _values(block: Tensor, layers: Sequence[tuple[Tensor, Tensor]], workspace: Sequence[Tensor]) -> list[Tensor]:
    """The values of each layer's units, in one buffer after the other; those of layers further back may be gone."""
    values: list[Tensor] = []
    for k, (weight, bias) in enumerate(layers):
        sums = _view(workspace[k % len(workspace)], block, weight)
        values.append(torch.addmm(bias, values[-1] if values else block, weight, out=sums).sigmoid_())

    return values


def _forward_mode(network: Network, moving: Moving) -> _Run:
    """The outputs, and their derivatives by each input that moves."""
    (first, _), *others = network.layers
    by_first, by_linear = first[moving], network.linear[moving]

    def run(block: Tensor, workspace: Sequence[Tensor]) -> tuple[Tensor, ...]:
        spare, own, *free = workspace
        (hidden,) = _values(block, network.layers[:1], [own])
        swept = [
            _times_slope(by, hidden, _view(buffer, block, first)) for by, buffer in zip(by_first, free, strict=True)
        ]
        for weight, bias in others:
            (hidden,) = _values(hidden, [(weight, bias)], [spare])
            spare, own = own, spare
            for k, sweep in enumerate(swept):
                after = torch.mm(sweep, weight, out=_view(spare, block, weight))
                swept[k] = _times_slope(after, hidden, after)
                spare, free[k] = free[k], spare

        pairs = zip(by_linear, swept, strict=True)

        return _outputs(network, block, hidden), *(torch.addmm(by, sweep, network.last) for by, sweep in pairs)

    return run


def _reverse_mode(network: Network, moving: Moving) -> _Run:
    """The outputs, and the derivatives of each by all inputs that move."""
    (first, _), *others = network.layers
    by_first, by_linear = first[moving], network.linear[moving]

    def run(block: Tensor, workspace: Sequence[Tensor]) -> tuple[Tensor, ...]:
        spare, other, *kept = workspace
        values = _values(block, network.layers, kept)
        slopes = []
        for sweep, by in zip(network.last.T, by_linear.T, strict=True):
            for hidden, (weight, _) in zip(reversed(values[1:]), reversed(others), strict=True):
                steep = _times_slope(sweep, hidden, _view(spare, block, weight))
                sweep = torch.mm(steep, weight.T, out=_view(other, block, weight.T))
            slopes.append(torch.addmm(by, _times_slope(sweep, values[0], _view(spare, block, first)), by_first.T))

        return _outputs(network, block, values[-1]), *slopes

    return run


def _times_slope(sweep: Tensor, hidden: Tensor, buffer: Tensor) -> Tensor:
    """Multiplies by the slopes of logistic units, of which the values are given."""
    steep: Tensor = torch.ops.aten.sigmoid_backward.grad_input(sweep, hidden, grad_input=buffer)

    return steep


def _outputs(network: Network, block: Tensor, hidden: Tensor) -> Tensor:
    return torch.addmm(network.bias, block, network.linear).add_(hidden @ network.last)


def _view(buffer: Tensor, block: Tensor, weight: Tensor) -> Tensor:
    """The part of a buffer for what weights make of a block of rows."""
    rows, width = len(block), weight.shape[-1]

    return buffer[: rows * width].view(rows, width)
