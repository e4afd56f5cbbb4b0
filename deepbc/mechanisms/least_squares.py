"""Least squares, the closed form of a linear law and the start of every other."""

__all__ = ["least_squares"]

import torch
from torch import Tensor


def least_squares(inputs: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Regresses outputs on inputs and a constant; collinear inputs share their weight.

    Args:
        inputs: With shape `(rows, inputs)`.
        outputs: With shape `(rows, outputs)`.

    Returns:
        The constant `(outputs,)`, the slopes `(inputs, outputs)` and the residuals `(rows, outputs)`.
    """
    design = torch.cat([torch.ones_like(outputs[:, :1]), inputs], dim=-1)
    # On the CPU, where a solver for collinear inputs is at hand.
    solution = torch.linalg.lstsq(design.cpu(), outputs.cpu(), driver="gelsd").solution.to(design)

    return solution[0], solution[1:], outputs - design @ solution
