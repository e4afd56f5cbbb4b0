r"""Networks that turn parents into the parameters of a law.

Component :math:`k` of a vector may depend on the parents and on the components before it, never on itself or on those
after it. With the context :math:`c = [x_{pa}, x_1, \dots, x_{D-1}]` and a mask :math:`M_k` that lets through the
parents and :math:`x_{<k}`,

.. math:: h_k(c) = a_k + A_k (M_k c) + B_k \, g_k(M_k c), \qquad g_k = \sigma \circ \, \dots \circ \sigma,

where :math:`g_k` is a small network of logistic units :math:`\sigma`. It is bounded, so far from the data :math:`h_k`
is linear: what it learned between the rows it does not blow up beyond them.
"""

__all__ = ["Conditioner", "Constant", "Parameters"]

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn

# So many numbers of a hidden layer at a time: they stay in a processor's cache.
BLOCK = 262_144


class Parameters(nn.Module, ABC):
    """What computes the parameters of a law's components."""

    bias: nn.Parameter
    # Which part of the context each component may depend on, with shape `(components, inputs)`.
    mask: Tensor

    @abstractmethod
    def forward(self, context: Tensor, components: slice) -> Tensor:
        r"""Computes the parameters of the given components.

        Args:
            context: Parents and components :math:`c`, with shape `(*batch, parents + components - 1)`.
            components: Which components to compute.

        Returns:
            The parameters, with shape `(*batch, components, outputs)`, or without `batch` where they are constant.
        """


class Constant(Parameters):
    """Creates parameters that depend on nothing; zero at first.

    Args:
        components: The number of components.
        outputs: The number of parameters of a component.
    """

    def __init__(self, components: int, outputs: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(components, outputs, dtype=torch.float64))
        self.register_buffer("mask", torch.zeros(components, 0, dtype=torch.float64), persistent=False)

    def forward(self, context: Tensor, components: slice) -> Tensor:
        return self.bias[components]


class Conditioner(Parameters):
    """Creates parameters that depend on the context, linearly plus by a bounded network; zero at first.

    Args:
        components: The number of components :math:`D`.
        parents: The dimension of the parents.
        outputs: The number of parameters of a component.
        hidden: The number of units of each hidden layer of a component; none leaves the linear part alone.
        generator: The source of the first weights.
    """

    def __init__(
        self, components: int, parents: int, outputs: int, hidden: Sequence[int], generator: Generator
    ) -> None:
        super().__init__()

        inputs = parents + components - 1
        order = torch.arange(inputs) - parents
        mask = (order < torch.arange(components)[:, None]).double()
        self.register_buffer("mask", mask, persistent=False)

        sizes = [inputs, *hidden]
        pairs = itertools.pairwise(sizes)
        self.bias = nn.Parameter(torch.zeros(components, outputs, dtype=torch.float64))
        self.linear = nn.Parameter(torch.zeros(components, inputs, outputs, dtype=torch.float64))
        self.layers = nn.ModuleList(_Units(components, rows, columns, generator) for rows, columns in pairs)
        self.last = nn.Parameter(torch.zeros(components, sizes[-1] if hidden else 0, outputs, dtype=torch.float64))

    def forward(self, context: Tensor, components: slice) -> Tensor:
        # Each component sees its own part of the context, and one without siblings all of it.
        alone = len(self.mask) == 1
        seen = context if alone else context.unsqueeze(-2) * self.mask[components]

        outputs = _each(seen, self.linear[components], self.bias[components])
        if self.layers:
            # Where nothing is kept for a derivative, what a block of rows needs on the way can serve the next one.
            whole = torch.is_grad_enabled() or context.ndim == 1
            blocks = (seen,) if whole else self._blocks(seen)
            outputs = outputs + _joined([self._network(block, components) for block in blocks])

        return outputs.unsqueeze(-2) if alone else outputs

    def derive(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the parameters of a lone component and their derivatives, without a graph of what led to them.

        Args:
            context: Parents, with shape `(rows, parents)`.

        Returns:
            The parameters, with shape `(rows, outputs)`, and their derivatives, `(rows, outputs, parents)`.
        """
        outputs, slopes = _each(context, self.linear, self.bias), self.linear.mT
        if not self.layers:
            return outputs, slopes.expand(len(context), -1, -1)

        sweep = self._sweep_outward if context.shape[-1] <= outputs.shape[-1] else self._sweep_inward
        added, bent = (_joined(parts) for parts in zip(*map(sweep, self._blocks(context)), strict=True))

        return outputs + added, slopes + bent

    @property
    def _units(self) -> "list[_Units]":
        return [layer for layer in self.layers if isinstance(layer, _Units)]

    def _blocks(self, seen: Tensor) -> tuple[Tensor, ...]:
        blocks: tuple[Tensor, ...] = seen.split(max(1, BLOCK // self.last.shape[:2].numel()))

        return blocks

    def _network(self, seen: Tensor, components: slice) -> Tensor:
        hidden = seen
        for layer in self.layers:
            hidden = layer(hidden, components)

        return _each(hidden, self.last[components])

    def _sweep_outward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """The network and its derivatives, one input after the other."""
        hidden = seen
        sweeps: list[Tensor] = []
        for layer in self._units:
            hidden, weight = layer(hidden, slice(None)), layer.weight[0]
            # Only the first layer sees the inputs themselves.
            sweeps = [sweep @ weight for sweep in sweeps] or [*weight]
            sweeps = [_slope(hidden).mul_(sweep) for sweep in sweeps]

        return _each(hidden, self.last), torch.stack([sweep @ self.last[0] for sweep in sweeps], dim=-1)

    def _sweep_inward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """The network and its derivatives, one output after the other."""
        hidden, slopes = seen, []
        for layer in self.layers:
            hidden = layer(hidden, slice(None))
            slopes.append(_slope(hidden))
        sweeps = [*self.last[0].T]
        for layer, slope in zip(reversed(self._units), reversed(slopes), strict=True):
            sweeps = [(slope * sweep) @ layer.weight[0].T for sweep in sweeps]

        return _each(hidden, self.last), torch.stack(sweeps, dim=-2)


class _Units(nn.Module):
    """A layer of logistic units, one set per component."""

    def __init__(self, components: int, inputs: int, outputs: int, generator: Generator) -> None:
        super().__init__()
        # Logistic units of twice the slope are `tanh` units, which take more than twice as long.
        scale = 2 / math.sqrt(max(inputs, 1))
        weight = torch.randn(components, inputs, outputs, generator=generator, dtype=torch.float64)
        bias = torch.randn(components, outputs, generator=generator, dtype=torch.float64)
        self.weight = nn.Parameter(scale * weight)
        self.bias = nn.Parameter(2 * bias)

    def forward(self, hidden: Tensor, components: slice) -> Tensor:
        # In place, because memory that is touched for the first time is what a large batch waits for.
        return _each(hidden, self.weight[components], self.bias[components]).sigmoid_()


def _slope(hidden: Tensor) -> Tensor:
    """The slope of logistic units, by their values."""
    return torch.addcmul(hidden, hidden, hidden, value=-1)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([*parts]) if len(parts) > 1 else parts[0]


def _each(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiplies `(*batch, components, inputs)` by `(components, inputs, outputs)`, component by component.

    One component has no axis of its own.
    """
    if len(weight) == 1:
        return nn.functional.linear(inputs, weight[0].T, None if bias is None else bias[0])

    product = torch.einsum("...ki,kio->...ko", inputs, weight)

    return product if bias is None else product + bias
