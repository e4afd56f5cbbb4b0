"""Grids: whole numbers, and numbers that are a whole number of equal steps apart, such as half units and tens."""

__all__ = ["WHOLE", "Grid", "decimals_of"]

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.errors import SettingError

# The most decimals of a step, and how far from a grid, in steps, a number may be that was rounded on its way here.
MOST_DECIMALS, ROUNDING = 6, 1e-3


@dataclass(frozen=True, slots=True)
class Grid:
    """The numbers `offset + k * step` for whole numbers k; whole numbers themselves by default.

    Args:
        step: The step, of no more than six decimals.
        offset: The least number of the grid that is not negative.

    Example:
        >>> Grid(0.1).snap(torch.tensor([0.34], dtype=torch.float64)).item()
        0.3
    """

    step: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (self.step > 0 and 0 <= self.offset < self.step) or decimals_of(self.step, self.offset) is None:
            raise SettingError(
                f"Grid: expected a step above 0 and an offset below it, of six decimals at most, got {self.step!r} and "
                f"{self.offset!r}."
            )

    @property
    def integral(self) -> bool:
        """Whether all its numbers are whole."""
        return self.step == round(self.step) and self.offset == round(self.offset)

    def at(self, number: Tensor) -> Tensor:
        """The numbers of the grid, from whole ones that count its steps."""
        # As one quotient of whole numbers it is the number that people write, to the last digit.
        scale: int = 10 ** (decimals_of(self.step, self.offset) or 0)

        return (round(self.offset * scale) + number * round(self.step * scale)) / scale

    def count(self, x: Tensor) -> Tensor:
        """How many steps numbers are from the offset, in fractions where they lie between two of the grid."""
        return (x - self.offset) / self.step

    def snap(self, x: Tensor) -> Tensor:
        """The number of the grid nearest to each; infinities stay."""
        return self._kept(x, self.count(x).round())

    def above(self, x: Tensor) -> Tensor:
        """The first number of the grid that is not below each; infinities stay."""
        count = self.count(x)

        return self._kept(x, torch.where(self.holds(x), count.round(), count.ceil()))

    def below(self, x: Tensor) -> Tensor:
        """The last number of the grid that is not above each; infinities stay."""
        count = self.count(x)

        return self._kept(x, torch.where(self.holds(x), count.round(), count.floor()))

    def holds(self, x: Tensor) -> Tensor:
        """Which numbers are of the grid, as far as rounding on their way here lets one tell."""
        count = self.count(x)
        slack = 0.0 if self == WHOLE else ROUNDING

        return (count - count.round()).abs() <= slack

    def ends(self, lower: float, upper: float) -> tuple[float, float]:
        """The first and the last number of the grid between two, infinite where these are."""
        pair = torch.tensor([lower, upper], dtype=torch.float64)

        return self.above(pair[:1]).item(), self.below(pair[1:]).item()

    def _kept(self, x: Tensor, number: Tensor) -> Tensor:
        return torch.where(x.isfinite(), self.at(number), x)

    def __str__(self) -> str:
        if self == WHOLE:
            return "whole numbers"

        return f"steps of {self.step:g}" + (f" from {self.offset:g}" if self.offset else "")


def decimals_of(*numbers: float) -> int | None:
    """The decimals that numbers have; None where they are more than six."""
    for decimals in range(MOST_DECIMALS + 1):
        if all(math.isclose(x * 10**decimals, round(x * 10**decimals), rel_tol=1e-9, abs_tol=1e-9) for x in numbers):
            return decimals

    return None


#: Whole numbers.
WHOLE = Grid()
