"""What the contract tests share: rows drawn at random, differences, and errors that say what was expected."""

__all__ = ["DIFFERENCE", "ROUNDING", "Contract", "differences", "normal"]

import math
from collections.abc import Callable

import torch
from torch import Tensor

from deepbc.numerics.seeding import generator

# Relative errors of rounding and of a central difference, and the step of that.
ROUNDING, DIFFERENCE, STEP = 1e-8, 1e-4, 1e-5


class Contract:
    """Creates the contract of one object.

    Args:
        subject: What is tested; errors begin with it.
    """

    def __init__(self, subject: object) -> None:
        self.subject = subject

    def holds(self, part: str, holds: Tensor | bool, expected: object, came: object, remedy: str) -> None:
        """Raises unless a condition holds everywhere."""
        if not bool(torch.as_tensor(holds).all()):
            raise AssertionError(f"{self.subject!r}, {part}: expected {expected}, got {came}. {remedy}")

    def shape(self, part: str, came: Tensor, shape: tuple[int, ...], remedy: str) -> None:
        """Raises unless a tensor has a shape."""
        self.holds(part, came.shape == shape, f"shape {shape}", tuple(came.shape), remedy)

    def near(self, part: str, came: Tensor, expected: Tensor | float, tolerance: float, remedy: str) -> None:
        """Raises unless two tensors agree to a part of the larger of 1 and what is expected."""
        expected = torch.as_tensor(expected, dtype=came.dtype).expand_as(came)
        off = ((came - expected).abs() / expected.abs().clamp_min(1.0)).nan_to_num(nan=math.inf).flatten()
        if (off > tolerance).any():
            wanted, got = (f"{each.flatten()[off.argmax()].item():.9g}" for each in (expected, came))
            self.holds(part, False, wanted, got, remedy)


def normal(rows: int, dim: int, purpose: str = "noise") -> Tensor:
    """Draws standard-normal rows that are the same in each run."""
    return torch.randn(rows, dim, generator=generator(0, "testing", purpose), dtype=torch.float64)


def differences(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The derivatives of a function of each row, `(rows,)`, by each component, with the shape of the rows."""
    slopes = torch.zeros_like(at)
    with torch.no_grad():
        for k, step in enumerate(STEP * torch.eye(at.shape[-1], dtype=at.dtype)):
            slopes[:, k] = (function(at + step) - function(at - step)) / (2 * STEP)

    return slopes
