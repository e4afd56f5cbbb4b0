r"""Networks of logistic units with their derivatives, without a graph of what led to them.

A unit's slope follows from its value, :math:`\sigma' = \sigma (1 - \sigma)`, so that derivatives are swept through the
layers beside the values: outward, an input after the other, or back inward, an output after the other. Rows pass in
blocks, all of which use the same few sheets of memory: memory that is touched for the first time is what a large batch
would wait for.
"""

__all__ = ["Units", "derive_network", "run_network"]

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# The weights `(inputs, units)` of a layer and its biases `(units,)`.
Units = tuple[Tensor, Tensor]

# So many numbers of a hidden layer at a time: they stay in a processor's cache.
BLOCK = 393_216


@torch.no_grad()
def run_network(seen: Tensor, layers: Sequence[Units], last: Tensor) -> Tensor:
    """Computes the outputs of a network, with shape `(rows, outputs)`.

    Args:
        seen: What the network sees, with shape `(rows, inputs)`.
        layers: The layers of logistic units, at least one.
        last: The weights of the outputs, with shape `(units, outputs)`.
    """

    def run(block: Tensor, sheets: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return (_values(block, layers, sheets)[-1] @ last,)

    return _in_blocks(run, seen, layers, sheets=2)[0]


@torch.no_grad()
def derive_network(seen: Tensor, layers: Sequence[Units], last: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the outputs of a network as `run_network` does, and their derivatives, `(rows, outputs, inputs)`."""
    inputs, outputs = seen.shape[-1], last.shape[-1]
    if inputs <= outputs:
        found, *slopes = _in_blocks(_sweep_outward(layers, last), seen, layers, sheets=2 + inputs)
        return found, torch.stack(slopes, dim=-1)

    found, *slopes = _in_blocks(_sweep_inward(layers, last), seen, layers, sheets=2 + len(layers))

    return found, torch.stack(slopes, dim=-2)


# Computes columns of a block of rows, on sheets of memory.
_Run = Callable[[Tensor, Sequence[Tensor]], tuple[Tensor, ...]]


def _in_blocks(run: _Run, seen: Tensor, layers: Sequence[Units], sheets: int) -> list[Tensor]:
    widest = max(len(bias) for _, bias in layers)
    blocks = seen.chunk(max(1, -(-len(seen) * widest // BLOCK)))
    # In one piece: libraries that return much freed memory to the system return many pieces sooner than one.
    room = seen.new_empty(sheets, len(blocks[0]) * widest)
    parts = [run(block, room.unbind()) for block in blocks]

    return [torch.cat(part) for part in zip(*parts, strict=True)] if len(parts) > 1 else [*parts[0]]


def _values(block: Tensor, layers: Sequence[Units], sheets: Sequence[Tensor]) -> list[Tensor]:
    """The values of each layer's units, on the sheets in turn; those of layers further back may be gone."""
    values: list[Tensor] = []
    for k, (weight, bias) in enumerate(layers):
        sums = _on(sheets[k % len(sheets)], block, weight)
        values.append(torch.addmm(bias, values[-1] if values else block, weight, out=sums).sigmoid_())

    return values


def _sweep_outward(layers: Sequence[Units], last: Tensor) -> _Run:
    """The outputs, and their derivatives by each input."""
    (first, _), *others = layers

    def run(block: Tensor, sheets: Sequence[Tensor]) -> tuple[Tensor, ...]:
        spare, own, *free = sheets
        (hidden,) = _values(block, layers[:1], [own])
        swept = [_steepen(by, hidden, _on(sheet, block, first)) for by, sheet in zip(first, free, strict=True)]
        for weight, bias in others:
            (hidden,) = _values(hidden, [(weight, bias)], [spare])
            spare, own = own, spare
            for k, sweep in enumerate(swept):
                after = torch.mm(sweep, weight, out=_on(spare, block, weight))
                swept[k] = _steepen(after, hidden, after)
                spare, free[k] = free[k], spare

        return hidden @ last, *(sweep @ last for sweep in swept)

    return run


def _sweep_inward(layers: Sequence[Units], last: Tensor) -> _Run:
    """The outputs, and the derivatives of each by all inputs."""
    (first, _), *others = layers

    def run(block: Tensor, sheets: Sequence[Tensor]) -> tuple[Tensor, ...]:
        spare, other, *kept = sheets
        values = _values(block, layers, kept)
        slopes = []
        for sweep in last.T:
            for hidden, (weight, _) in zip(reversed(values[1:]), reversed(others), strict=True):
                steep = _steepen(sweep, hidden, _on(spare, block, weight))
                sweep = torch.mm(steep, weight.T, out=_on(other, block, weight.T))
            slopes.append(_steepen(sweep, values[0], _on(spare, block, first)) @ first.T)

        return values[-1] @ last, *slopes

    return run


def _steepen(sweep: Tensor, hidden: Tensor, sheet: Tensor) -> Tensor:
    """Multiplies by the slopes of logistic units, of which the values are given."""
    steep: Tensor = torch.ops.aten.sigmoid_backward.grad_input(sweep, hidden, grad_input=sheet)

    return steep


def _on(sheet: Tensor, block: Tensor, weight: Tensor) -> Tensor:
    """The place on a sheet for what weights make of a block of rows."""
    rows, width = len(block), weight.shape[-1]

    return sheet[: rows * width].view(rows, width)
