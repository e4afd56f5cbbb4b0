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

from deepbc.nn.mlp_jacobian import ALL, Moving, Network, derive_network, run_network


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

    def derive(self, context: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor]:
        """Computes the parameters of a lone component and their derivatives, without a graph of what led to them.

        Args:
            context: Parents, with shape `(rows, parents)`.
            moving: Which of the parents are derived by.

        Returns:
            The parameters, with shape `(rows, outputs)`, and their derivatives, `(rows, outputs, moving)`.
        """
        raise TypeError("parameters that are constant have no derivatives")


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
        masked = context if alone else context.unsqueeze(-2) * self.mask[components]
        if self.layers and not torch.is_grad_enabled():
            return self._run(masked.unsqueeze(-2) if alone else masked, components)

        outputs = _each(masked, self.linear[components], self.bias[components])
        if self.layers:
            hidden = masked
            for layer in self.layers:
                hidden = layer(hidden, components)
            outputs = outputs + _each(hidden, _column_major(self.last[components]))

        return outputs.unsqueeze(-2) if alone else outputs

    def derive(self, context: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor]:
        if not self.layers:
            return _each(context, self.linear, self.bias), self.linear[:, moving].mT.expand(len(context), -1, -1)

        return derive_network(self._network(0), context, moving)

    def _run(self, masked: Tensor, components: slice) -> Tensor:
        """Computes the parameters `(*batch, components, outputs)` without a graph of what led to them."""
        *batch, count, inputs = masked.shape
        rows = masked.reshape(math.prod(batch), count, inputs)
        numbers = range(len(self.mask))[components]
        parts = [run_network(self._network(number), rows[:, k]) for k, number in enumerate(numbers)]
        joined = torch.stack(parts, dim=1) if count > 1 else parts[0]

        return joined.reshape(*batch, count, self.bias.shape[-1])

    def _network(self, component: int) -> Network:
        layers = (layer for layer in self.layers if isinstance(layer, _Units))

        return Network(
            [(layer.weight[component], layer.bias[component]) for layer in layers],
            _column_major(self.last[component]),
            self.linear[component],
            self.bias[component],
        )


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


def _column_major(last: Tensor) -> Tensor:
    """Weights of few outputs, laid out so that products with them take half the time."""
    return last.mT.contiguous().mT


def _each(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiplies `(*batch, components, inputs)` by `(components, inputs, outputs)`, component by component.

    One component has no axis of its own.
    """
    if len(weight) == 1:
        return nn.functional.linear(inputs, weight[0].T, None if bias is None else bias[0])

    product = torch.einsum("...ki,kio->...ko", inputs, weight)

    return product if bias is None else product + bias
