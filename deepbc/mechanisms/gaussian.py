r"""What laws with additive Gaussian noise share: :math:`x = b(m + L u)` for a mean :math:`m` and a factor :math:`L`."""

__all__ = ["invert_gaussian", "predict_gaussian"]

import torch
from torch import Tensor

from deepbc.mechanisms.outer import Outer


def predict_gaussian(outer: Outer, mean: Tensor, factor: Tensor, u: Tensor) -> Tensor:
    """Computes values `(*batch, value)` from a mean `(*batch, value)`, a lower triangular factor and noise."""
    return outer.outward(mean + u @ factor.T)


def invert_gaussian(outer: Outer, mean: Tensor, factor: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the noise `(*batch, value)` and the log-volume of the inverse `(*batch,)`."""
    y, log_volume = outer.inward(x)
    u = torch.linalg.solve_triangular(factor, (y - mean).unsqueeze(-1), upper=False).squeeze(-1)

    return u, (log_volume - factor.diagonal().log()).sum(-1)
