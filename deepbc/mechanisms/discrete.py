"""Laws of categories and of whole numbers: every value is a region of the noise."""

__all__ = ["Discrete"]

from typing import ClassVar

import torch
from torch import Tensor

from deepbc.mechanisms.atomic import Atomic


class Discrete(Atomic):
    """The law of a category or of whole numbers.

    To add one, set `domain` to `"category"` or `"integer"`, and write `_region`, `_hard`, `_soft`, `_build`, `_fit` and
    `settings`. Where one noise decides, a region is an `Interval`; any other subclasses `Region`. A category of K
    levels is K - 1 indicators, an ordered one its place, whole numbers are themselves (`deepbc.data.categories`).
    """

    discrete: ClassVar[bool] = True

    def _invert(self, x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the noise, and a volume of none: a class is not a value among many nearby."""
        return self._abduct(x, parents), torch.zeros_like(x[..., 0])
