"""A world: a value and a noise for every variable."""

__all__ = ["World"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from deepbc.data.frames import DataFrame, frame
from deepbc.data.variables import Kind


@dataclass(frozen=True, slots=True, eq=False)
class World:
    r"""A world that obeys the causal laws.

    Args:
        values: For each variable its values :math:`x`, in the data's own units, with shape `(*batch, *shape)`; labels
            of text as an array of objects.
        noise: For each variable its noise :math:`u`, with shape `(*batch,)` if it has one component and
            `(*batch, noise)` otherwise.
        batch: The batch shape: `()` for one world, `(rows,)` for many.
        kinds: What the values of categories and whole numbers are.
        index: The labels of the rows, where they came in a data frame.
    """

    values: Mapping[str, Any]
    noise: Mapping[str, Tensor]
    batch: torch.Size
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    index: Any = None

    def to_frame(self) -> DataFrame:
        """Writes the values as a data frame: a row per world, a column per number; images are left out."""
        return frame(self.values, self.batch, kinds=self.kinds, index=self.index)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {tuple(value.shape)}" for name, value in self.values.items())
        return f"World({shapes})"
