"""The values of an answer by variable, factual and counterfactual side by side, and how they are written."""

__all__ = ["Column", "columns_of"]

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepbc.data.categories import Levels
from deepbc.data.wording import step_of, write_exact, write_label, write_name, write_number

if TYPE_CHECKING:
    from deepbc.queries.results import Counterfactual

Numbers = np.ndarray[Any, np.dtype[Any]]

# A number that moves by less than this part of its standard deviation stays; solvers end within less.
STAYS, STAYS_RELATIVE = 1e-3, 1e-9
# Vectors of so many components are written out.
MOST_COMPONENTS = 4


@dataclass(frozen=True, slots=True)
class Column:
    """One variable of an answer.

    Args:
        name: The variable, as it is written.
        before: Factual numbers, codes for labels, with shape `(rows, components)`.
        after: Counterfactual numbers, with shape `(samples, rows, components)`; one sample where none were drawn.
        spread: The standard deviation of each component in the data of the fit; empty where it is not known.
        levels: The labels of a category.
        whole: Whether its values are whole numbers.
        image: Whether it is an image.
    """

    name: str
    before: Numbers
    after: Numbers
    spread: Numbers
    levels: Levels | None
    whole: bool
    image: bool

    @property
    def long(self) -> bool:
        """Whether its values are too long to be written out."""
        return self.image or self.before.shape[-1] > MOST_COMPONENTS

    @property
    def noun(self) -> str:
        """What it is called in a sentence."""
        if not self.image:
            return self.name

        return "the image" if self.name == "image" else f"the image {self.name}"

    def changed(self) -> Numbers:
        """Which values differ from the factual ones, with shape `(samples, rows)`."""
        return np.asarray(self.components_changed().any(-1))

    def rows_changed(self) -> Numbers:
        """In which rows any sample differs, with shape `(rows,)`."""
        return np.asarray(self.changed().any(0))

    def components_changed(self) -> Numbers:
        """Which components differ from the factual ones, with shape `(samples, rows, components)`."""
        before, after = np.broadcast_arrays(self.before, self.after)
        if self.levels or self.whole:
            return np.asarray(before != after)
        relative = STAYS_RELATIVE * np.maximum(np.abs(before), np.abs(after))
        limit = STAYS * self.spread if len(self.spread) else relative
        with np.errstate(invalid="ignore"):
            differ = np.abs(after - before) > limit

        return np.asarray(differ | (np.isfinite(before) != np.isfinite(after)))

    def write(self, value: Numbers, *beside: Numbers) -> str:
        """Writes a value of shape `(components,)`, in digits that tell it apart from others that stand beside it."""
        parts = [self.write_part(part, each, *(other[part] for other in beside)) for part, each in enumerate(value)]

        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def write_part(self, part: int, value: float, *beside: float) -> str:
        """Writes one component of a value."""
        value = float(value)
        if self.levels:
            return write_label(self.levels.items[int(value)])
        if self.whole and (not np.isfinite(value) or value == round(value)):
            return write_exact(value)

        return write_number(value, self.step(part, value, *map(float, beside)))

    def part_name(self, part: int) -> str:
        """The name of a component."""
        return self.name if self.before.shape[-1] == 1 else f"{self.name}[{part}]"

    def step(self, part: int, *values: float) -> float:
        """The step in which some values of a component are written."""
        return step_of(float(self.spread[part]) if len(self.spread) else None, *values)


def columns_of(cf: "Counterfactual") -> dict[str, Column]:
    """The values of an answer by variable; those of images are flattened."""
    queries = cf.batch[1:] if cf.diagnostics else cf.batch
    rows = queries.numel()
    samples = cf.batch[0] if cf.diagnostics else 1
    before, after = (dict(_codes(cf, values)) for values in (cf.factual.values, cf.values))
    columns = {}
    for name in cf.graph.order:
        shape = before[name].shape[len(queries) :]
        components = int(np.prod(shape, dtype=int))
        variable, kind = cf.variables.get(name), cf.factual.kinds.get(name)
        spread = np.asarray(variable.sd if variable and not variable.levels else (), dtype=float)
        columns[name] = Column(
            name=write_name(name),
            before=before[name].reshape(rows, components),
            after=after[name].reshape(samples, rows, components),
            spread=np.broadcast_to(spread, components) if len(spread) else spread,
            levels=kind.levels if kind else None,
            whole=bool(kind and kind.whole),
            image=len(shape) > 1,
        )

    return columns


def _codes(cf: "Counterfactual", values: Mapping[str, Any]) -> Iterator[tuple[str, Numbers]]:
    """The values by variable as arrays of numbers, labels as codes."""
    for name, each in values.items():
        kind = cf.factual.kinds.get(name)
        yield name, np.asarray(kind.levels.codes(each, name) if kind and kind.levels else each)
