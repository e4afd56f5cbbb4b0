r"""What laws with additive Gaussian noise share: :math:`x = b(m + L u)` for a mean :math:`m` and a factor :math:`L`."""

__all__ = ["fit_gaussian", "invert_gaussian", "predict_gaussian"]

import torch
from torch import Tensor

from deepbc.errors import FitError
from deepbc.mechanisms.least_squares import least_squares
from deepbc.mechanisms.links import Outer

LEAST_SPREAD = 1e-9


def fit_gaussian(inputs: Tensor, outputs: Tensor, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Fits the linear law in closed form, to scaled rows, where least squares is well conditioned.

    Args:
        inputs: The parents, with shape `(rows, inputs)`.
        outputs: The variable, with shape `(rows, outputs)`.
        name: The variable, for the error where no noise is left.

    Returns:
        The constant `(outputs,)`, the slopes `(inputs, outputs)` and the factor `(outputs, outputs)`.
    """
    shift, slope, residual = least_squares(inputs, outputs)
    factor, failed = torch.linalg.cholesky_ex(residual.T @ residual / len(outputs))
    if failed or factor.diagonal().min() < LEAST_SPREAD:
        raise FitError(
            f"Variable {name!r}: in the rows to learn from, it is constant or an exact linear function of its parents "
            f"or of its own components, so no noise is left. Model it as a Predictor, or take it out of the graph."
        )

    return shift, slope, factor


def predict_gaussian(outer: Outer, mean: Tensor, factor: Tensor, u: Tensor) -> Tensor:
    """Computes values `(*batch, value)` from a mean `(*batch, value)`, a lower triangular factor and noise."""
    return outer.outward(mean + u @ factor.T)


def invert_gaussian(outer: Outer, mean: Tensor, factor: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the noise `(*batch, value)` and the log-volume of the inverse `(*batch,)`."""
    y, log_volume = outer.inward(x)
    u = torch.linalg.solve_triangular(factor, (y - mean).unsqueeze(-1), upper=False).squeeze(-1)

    return u, (log_volume - factor.diagonal().log()).sum(-1)
