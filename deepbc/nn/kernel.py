r"""Functions that are linear plus a sum of bumps, as the mean of a Gaussian process is.

.. math:: h(c) = a + \beta^\top c + \sum_k \alpha_k \kappa\Bigl(-\tfrac12 \lVert (\tau(c) - z_k) / \ell \rVert^2\Bigr),

where :math:`\kappa` is a radial kernel, and :math:`\tau` is :math:`\operatorname{arsinh}` for components with heavy
tails, and the identity for others. Far from all points :math:`z_k` it is linear. While it learns, :math:`(a, \beta,
\alpha) = T v` with :math:`v` standard normal a priori.
"""

__all__ = ["Kernel", "KernelFunction"]

from collections.abc import Callable

import torch
from torch import Tensor, nn

from deepbc.nn.conditioner import Parameters
from deepbc.nn.mlp_jacobian import ALL, Moving
from deepbc.numerics.radial_kernels import KERNELS, RadialKernel

# Rows per block of a computation without a graph, whose bumps then stay in the cache.
BLOCK = 1024


class KernelFunction(nn.Module):
    """Creates a function of some numbers; zero at first.

    Args:
        inputs: How many numbers it sees.
        points: The most bumps.
    """

    constant: Tensor
    slope: Tensor
    weight: Tensor
    points: Tensor
    lengths: Tensor
    squashed: Tensor
    used: Tensor
    kernel: Tensor

    def __init__(self, inputs: int, points: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.register_buffer("constant", torch.zeros((), dtype=torch.float64))
        self.register_buffer("slope", torch.zeros(inputs, dtype=torch.float64))
        self.register_buffer("weight", torch.zeros(points, dtype=torch.float64))
        self.register_buffer("points", torch.zeros(points, inputs, dtype=torch.float64))
        self.register_buffer("lengths", torch.ones(inputs, dtype=torch.float64))
        self.register_buffer("squashed", torch.zeros(inputs, dtype=torch.bool))
        self.register_buffer("used", torch.zeros((), dtype=torch.int64))
        # The number of the radial kernel.
        self.register_buffer("kernel", torch.zeros((), dtype=torch.int64))
        self.whitened: nn.Parameter | None = None
        self.transform: Tensor | None = None
        # The last rows that were seen while it learns, and their coordinates: most often they are the same again.
        self.last: tuple[Tensor, Tensor] | None = None

    @property
    def bent(self) -> bool:
        """Whether it is anything but a constant."""
        return bool(self.used) or bool((self.slope != 0).any())

    def place(self, points: Tensor, lengths: Tensor, squashed: Tensor, kernel: RadialKernel = KERNELS[0]) -> None:
        r"""Sets where the bumps are, and what they see.

        Args:
            points: The points :math:`z_k`, with shape `(points, inputs)`.
            lengths: The length scales :math:`\ell`, with shape `(inputs,)`.
            squashed: Which components they see through `asinh`, with shape `(inputs,)`.
            kernel: The radial kernel :math:`\kappa`.
        """
        self.kernel.fill_(KERNELS.index(kernel))
        self.lengths.copy_(lengths)
        self.squashed.copy_(squashed)
        self.used.fill_(len(points))
        self.points.zero_()
        self.points[: len(points)] = points / lengths

    def learn(self, transform: Tensor, start: Tensor) -> None:
        """Starts to learn: the coefficients are a matrix `(coefficients, coefficients)` times what is learned."""
        self.transform, self.whitened = transform, nn.Parameter(start.clone())

    def settle(self) -> None:
        """Keeps what was learned."""
        if self.whitened is None:
            return
        with torch.no_grad():
            constant, slope, weight = self._coefficients()
        self.constant.copy_(constant)
        self.slope.copy_(slope)
        self.weight.zero_()
        self.weight[: len(weight)] = weight
        self.whitened = self.transform = self.last = None

    def forward(self, context: Tensor) -> Tensor:
        """Computes the function, with shape `(*batch,)`, of numbers with shape `(*batch, inputs)`."""
        if self.whitened is not None:
            return self._coordinates(context) @ self.whitened

        constant, slope, weight = self._coefficients()
        if torch.is_grad_enabled():
            value = constant + context @ slope
            return value + self._bumps(context, len(weight)) @ weight if len(weight) else value

        rows = context.reshape(context.shape[:-1].numel(), self.inputs)

        def run(block: Tensor) -> tuple[Tensor, ...]:
            value = block @ slope + constant
            return (value + self._bumps(block, len(weight)) @ weight if len(weight) else value,)

        return _in_blocks(run, rows)[0].reshape(context.shape[:-1])

    @torch.no_grad()
    def derive(self, context: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor]:
        """Computes the function `(rows,)`, and its gradient `(rows, moving)`, of numbers `(rows, inputs)`."""
        constant, slope, weight = self._coefficients()
        points, lengths = self.points[: len(weight), moving], self.lengths[moving]
        kernel, squashes = self._radial(), bool(self.squashed[moving].any())

        def run(block: Tensor) -> tuple[Tensor, ...]:
            value = block @ slope + constant
            if not len(weight):
                return value, slope[moving].expand(len(block), -1)
            seen = self._seen(block)
            bumps, steepness = kernel.with_slope(self._exponent(seen, len(weight)))
            pulls = steepness * weight
            inner = (pulls @ points).sub_(seen[:, moving] * pulls.sum(-1, keepdim=True)).div_(lengths)
            if squashes:
                inner *= torch.where(self.squashed[moving], torch.rsqrt(1 + block[:, moving].square()), 1.0)
            return value + bumps @ weight, inner.add_(slope[moving])

        value, gradient = _in_blocks(run, context)

        return value, gradient

    @torch.no_grad()
    def _coordinates(self, context: Tensor) -> Tensor:
        """What is multiplied by what is learned, with shape `(*batch, coefficients)`."""
        if self.last is None or not torch.equal(self.last[0], context):
            assert self.transform is not None  # noqa: S101 # it learns
            parts = [context.new_ones(*context.shape[:-1], 1), context, self._bumps(context, self._count())]
            self.last = context, torch.cat(parts, dim=-1) @ self.transform

        return self.last[1]

    def _coefficients(self) -> tuple[Tensor, Tensor, Tensor]:
        """The constant, the slopes and the weights of the bumps."""
        if self.whitened is None or self.transform is None:
            return self.constant, self.slope, self.weight[: self._count()]

        coefficients = self.transform @ self.whitened

        return coefficients[0], coefficients[1 : 1 + self.inputs], coefficients[1 + self.inputs :]

    def _count(self) -> int:
        return int(self.used)

    def _radial(self) -> RadialKernel:
        return KERNELS[int(self.kernel)]

    def _seen(self, context: Tensor) -> Tensor:
        """What the bumps see, in length scales."""
        seen = torch.where(self.squashed, context.asinh(), context) if self.squashed.any() else context

        return seen / self.lengths

    def _bumps(self, context: Tensor, count: int) -> Tensor:
        return self._radial().value(self._exponent(self._seen(context), count))

    def _exponent(self, seen: Tensor, count: int) -> Tensor:
        """The logarithm of a Gaussian bump at each of the points, of what is seen."""
        points = self.points[:count]
        offset = seen.square().sum(-1, keepdim=True).mul_(0.5)

        return (seen @ points.T).sub_(points.square().sum(-1).mul_(0.5)).sub_(offset)


class Kernel(Parameters):
    """Creates parameters that are functions of the context, each of its own; zero at first.

    Args:
        components: The number of components.
        parents: The dimension of the parents.
        outputs: The number of parameters of a component.
        points: The most bumps of a function.
    """

    def __init__(self, components: int, parents: int, outputs: int, points: int) -> None:
        super().__init__()
        inputs = parents + components - 1
        order = torch.arange(inputs) - parents
        mask = (order < torch.arange(components)[:, None]).double()
        self.register_buffer("mask", mask, persistent=False)
        self.outputs = outputs
        self.functions = nn.ModuleList(
            KernelFunction(parents + k, points) for k in range(components) for _ in range(outputs)
        )

    def of(self, component: int) -> list[KernelFunction]:
        """The functions of a component."""
        some = self.functions[component * self.outputs : (component + 1) * self.outputs]

        return [each for each in some if isinstance(each, KernelFunction)]

    def forward(self, context: Tensor, components: slice) -> Tensor:
        numbers = range(len(self.mask))[components]
        rows = [torch.stack([each(context[..., : each.inputs]) for each in self.of(k)], dim=-1) for k in numbers]

        return torch.stack(rows, dim=-2)

    def derive(self, context: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor]:
        values, gradients = zip(*(each.derive(context, moving) for each in self.of(0)), strict=True)

        return torch.stack(values, dim=-1), torch.stack(gradients, dim=-2)


def _in_blocks(run: Callable[[Tensor], tuple[Tensor, ...]], rows: Tensor) -> list[Tensor]:
    """Runs a computation on blocks of rows, so that what it needs on the way stays small."""
    parts = [run(block) for block in rows.split(BLOCK)]

    return [torch.cat(part) for part in zip(*parts, strict=True)] if len(parts) > 1 else [*parts[0]]
