r"""Several functions that are sums of the same Gaussian bumps.

.. math:: h_j(c) = \sum_k \alpha_{kj} \exp\Bigl(-\tfrac12 \lVert (M^\top \tau(c) - z_k) / \ell \rVert^2\Bigr),

where :math:`\tau` is :math:`\operatorname{arsinh}` for components with heavy tails, and the identity for others. Far
from all points :math:`z_k` they are zero.
"""

__all__ = ["Bumps"]

import torch
from torch import Tensor, nn

from deepbc.nn.mlp_jacobian import ALL, Moving

# Rows per block of a computation of derivatives, whose bumps then stay in the cache.
BLOCK = 1024


class Bumps(nn.Module):
    """Creates functions of some numbers; zero at first.

    Args:
        inputs: How many numbers they see.
        outputs: How many functions there are.
        points: The most bumps.
    """

    weight: Tensor
    points: Tensor
    lengths: Tensor
    metric: Tensor
    squashed: Tensor
    used: Tensor

    def __init__(self, inputs: int, outputs: int, points: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(points, outputs, dtype=torch.float64))
        self.register_buffer("points", torch.zeros(points, inputs, dtype=torch.float64))
        self.register_buffer("lengths", torch.ones(inputs, dtype=torch.float64))
        self.register_buffer("metric", torch.eye(inputs, dtype=torch.float64))
        self.register_buffer("squashed", torch.zeros(inputs, dtype=torch.bool))
        self.register_buffer("used", torch.zeros((), dtype=torch.int64))

    def see(self, metric: Tensor, squashed: Tensor) -> None:
        r"""Sets what the bumps see.

        Args:
            metric: The matrix :math:`M`, with shape `(inputs, inputs)`.
            squashed: Which numbers are seen through `asinh`, with shape `(inputs,)`.
        """
        self.metric.copy_(metric)
        self.squashed.copy_(squashed)

    def set(self, points: Tensor, weight: Tensor, lengths: Tensor) -> None:
        r"""Sets the bumps.

        Args:
            points: The points :math:`z_k`, with shape `(points, inputs)`.
            weight: The weights :math:`\alpha`, with shape `(points, outputs)`.
            lengths: The length scales :math:`\ell`, with shape `(inputs,)`.
        """
        self.points.zero_()
        self.weight.zero_()
        self.points[: len(points)], self.weight[: len(points)] = points / lengths, weight
        self.lengths.copy_(lengths)
        self.used.fill_(len(points))

    def seen(self, context: Tensor) -> Tensor:
        """What the bumps see of numbers, both with shape `(*batch, inputs)`."""
        return torch.where(self.squashed, context.asinh(), context) @ self.metric

    def forward(self, context: Tensor) -> Tensor:
        """Computes the functions, with shape `(*batch, outputs)`, of numbers with shape `(*batch, inputs)`."""
        count = int(self.used)

        return self._heights(self.seen(context) / self.lengths, count) @ self.weight[:count]

    @torch.no_grad()
    def derive(self, context: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor]:
        """Computes the functions `(rows, outputs)` and their derivatives `(rows, outputs, moving)`."""
        count = int(self.used)
        weight, metric = self.weight[:count], self.metric[moving] / self.lengths
        # What a bump adds to each derivative but for where the row is.
        steep = weight.unsqueeze(-1) * (self.points[:count] @ metric.T).unsqueeze(-2)
        parts = [self._derive(block, steep, metric, moving) for block in context.split(BLOCK)]
        values, derivatives = zip(*parts, strict=True)

        return torch.cat(values), torch.cat(derivatives)

    def _derive(self, block: Tensor, steep: Tensor, metric: Tensor, moving: Moving) -> tuple[Tensor, Tensor]:
        seen = self.seen(block) / self.lengths
        heights = self._heights(seen, len(steep))
        value = heights @ self.weight[: len(steep)]
        inner = (heights @ steep.flatten(1)).unflatten(-1, steep.shape[1:])
        inner = inner - value.unsqueeze(-1) * (seen @ metric.T).unsqueeze(-2)
        into = torch.where(self.squashed[moving], torch.rsqrt(1 + block[:, moving].square()), 1.0)

        return value, inner * into.unsqueeze(-2)

    def _heights(self, seen: Tensor, count: int) -> Tensor:
        points = self.points[:count]
        offset = 0.5 * seen.square().sum(-1, keepdim=True)

        return (seen @ points.T - 0.5 * points.square().sum(-1) - offset).exp()
