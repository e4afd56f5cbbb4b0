"""What is modelled: a variable with its type, bounds and spread, and a variable together with its parents."""

__all__ = ["OPEN", "Family", "Kind", "Variable", "common_batch", "flatten", "interior", "read_bounds", "unflatten"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from deepbc._validation import NUMBERS, check_batches, check_finite, check_shape, name_rows
from deepbc.data.categories import Levels
from deepbc.data.grid import WHOLE, Grid
from deepbc.errors import DataError, SettingError
from deepbc.numerics.batched import concat_last

OPEN = (-math.inf, math.inf)
# Rows of images per chunk of reading.
CHUNK = 1024


@dataclass(frozen=True, slots=True)
class Variable:
    r"""A variable as the model sees it.

    Args:
        name: The name, as in the graph.
        shape: The shape of one value: `()` for a scalar, `(dim,)` for a vector.
        lower: The lower bound, minus infinity where there is none.
        upper: The upper bound, infinity where there is none.
        sd: The standard deviation of each component in the data of the fit, or one of all (images); 1 where no data was
            seen or it is constant, and for the indicators of a category.
        levels: The levels of a category; None for numbers.
        whole: Whether its values are whole numbers, or others of equal steps, which may attain their bounds.
        span: The least and the largest number of the data of the fit; None where no scalar numbers were seen.
        floor: The least value, where many rows share it because nothing below shows; minus infinity where none do.
        ceiling: The largest value, where many rows share it because nothing above shows; infinity where none do.
        grid: The steps of its values, where these are equal.
    """

    name: str
    shape: tuple[int, ...] = ()
    lower: float = -math.inf
    upper: float = math.inf
    sd: tuple[float, ...] = ()
    levels: Levels | None = None
    whole: bool = False
    span: tuple[float, float] | None = None
    floor: float = -math.inf
    ceiling: float = math.inf
    grid: Grid = WHOLE

    def __post_init__(self) -> None:
        where = f"Variable {self.name!r}"
        _check_bounds(self.lower, self.upper, where)
        dim = 1 if len(self.shape) > 1 else self.dim
        if len(self.sd) not in (0, dim) or not all(0 < each < math.inf for each in self.sd):
            raise SettingError(f"{where}: expected {dim} positive standard deviations or none, got {tuple(self.sd)}.")
        if self.levels is not None and self.bounded:
            raise SettingError(f"{where}: a category has levels, not bounds. Take the bounds away.")

    @classmethod
    def seen(cls, name: str, column: Tensor, bounds: tuple[float, float], kind: "Kind | None" = None) -> Self:
        r"""Creates the variable that a column of data shows.

        Args:
            name: The name.
            column: The data, with shape `(rows, *shape)`; codes for a category.
            bounds: The declared bounds, infinite where open.
            kind: What its values are, where that is known.
        """
        kind = kind or Kind()
        if kind.whole:
            bounds = kind.grid.ends(*bounds)
        bounds = (max(bounds[0], kind.floor), min(bounds[1], kind.ceiling))
        shape = tuple(column.shape[1:])
        if kind.levels and not kind.levels.ordered:
            return cls(name, shape, *bounds, levels=kind.levels)
        rows = flatten(column, shape, f"Variable {name!r}")
        sd = _spread_of_all(rows) if len(shape) > 1 else rows.std(0, correction=0)

        scalar = not shape and not kind.levels
        span = (float(column.min()), float(column.max())) if scalar and len(column) else None

        sds = tuple(sd.where(sd > 0, 1.0).tolist())

        return cls(name, shape, *bounds, sds, kind.levels, kind.whole, span, kind.floor, kind.ceiling, kind.grid)

    @classmethod
    def of_dim(cls, name: str, dim: int, bounds: tuple[float, float]) -> Self:
        """Creates a variable of which only the dimension is known; one component is a scalar."""
        return cls(name, () if dim == 1 else (dim,), *bounds)

    @property
    def dim(self) -> int:
        """The number of components of a value as laws see it."""
        return self.levels.dim if self.levels else math.prod(self.shape)

    @property
    def discrete(self) -> bool:
        """Whether its values are a category's or whole numbers."""
        return self.levels is not None or self.whole

    @property
    def censored(self) -> bool:
        """Whether many rows share its least or its largest value, because nothing beyond shows."""
        return math.isfinite(self.floor) or math.isfinite(self.ceiling)

    @property
    def latent(self) -> "Variable":
        """The variable that would show if nothing were censored."""
        lower, upper = self.support

        return replace(self, lower=lower, upper=upper, floor=-math.inf, ceiling=math.inf)

    @property
    def values_kind(self) -> "Kind":
        """What its values are."""
        return Kind(self.levels, self.whole, self.floor, self.ceiling, self.grid)

    @property
    def sorted(self) -> bool:
        """Whether one of two values is the larger one."""
        return not self.shape and (self.levels is None or self.levels.ordered)

    @property
    def support(self) -> tuple[float, float]:
        """The open interval in which a law moves; half a step wider than the bounds of whole numbers.

        It goes on beyond a floor or a ceiling.
        """
        if self.whole:
            return self.lower - self.grid.step / 2, self.upper + self.grid.step / 2

        return (
            -math.inf if math.isfinite(self.floor) else self.lower,
            math.inf if math.isfinite(self.ceiling) else self.upper,
        )

    @property
    def kind(self) -> str:
        """The type: image, vector, category, ordered, integer, grid, censored, bounded or real."""
        if self.levels is not None:
            return "ordered" if self.levels.ordered else "category"
        if self.whole:
            return "integer" if self.grid == WHOLE else "grid"
        if self.censored:
            return "censored"
        if len(self.shape) > 1:
            return "image"
        if self.shape:
            return "vector"
        return "bounded" if self.bounded else "real"

    @property
    def bounded(self) -> bool:
        """Whether a bound is declared on either side."""
        return math.isfinite(self.lower) or math.isfinite(self.upper)

    def rows(self, column: Tensor, where: str) -> Tensor:
        r"""Checks values and brings them to the shape `(*batch, dim)` that mechanisms work on.

        Args:
            column: Values :math:`x`, with shape `(*batch, *shape)`; codes for a category.
            where: What the values are, for an error.
        """
        rows = self.encode(column, where)
        check_finite(rows, where)
        if self.bounded:
            attained = self.whole or len(self.shape) > 1
            sides = attained or self.lower == self.floor, attained or self.upper == self.ceiling
            _check_inside(rows, self.lower, self.upper, where, attained=sides)

        return rows

    def encode(self, column: Tensor, where: str) -> Tensor:
        """Brings values to the shape `(*batch, dim)`, whatever their bounds."""
        if self.levels:
            return self.levels.rows(column)

        rows = flatten(column, self.shape, where)
        if self.whole and (bad := (rows.isfinite() & ~self.grid.holds(rows)).any(-1)).any():
            raise DataError(
                f"{where}: expected {self.grid}, got {rows[bad][0, 0].item():g} in {name_rows(bad)}. Round it, or "
                f"declare the variable as real."
            )

        return self.grid.snap(rows.double()) if self.whole and self.grid != WHOLE else rows

    def legal(self, column: "np.ndarray[Any, Any]") -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Which entries of a column, or of a component of one, `rows` would take, with shape `(rows,)`."""
        if self.levels:
            return self.levels.legal(column)
        lower, upper = self.support
        inside = (column > lower) & (column < upper) & (column >= self.lower) & (column <= self.upper)
        whole = self.grid.holds(torch.tensor(column, dtype=torch.float64)).numpy() if self.whole else True

        return np.asarray(np.isfinite(column) & inside & whole)

    def harden(self, rows: Tensor) -> Tensor:
        """The class or whole number that values of a smooth stand-in are nearest to, with their shape."""
        if self.whole:
            return self.grid.snap(rows).clamp(self.lower, self.upper)

        return self.levels.harden(rows) if self.levels else rows

    def inside(self, rows: Tensor) -> Tensor:
        """Moves values that rounding to another precision put on a bound to the last number inside."""
        if not self.bounded or self.whole:
            return rows

        first, last = interior(*self.support, rows.dtype)

        return rows.clamp(max(first, self.floor), min(last, self.ceiling))


@dataclass(frozen=True, slots=True)
class Kind:
    """What the values of a variable are: those of a category, whole numbers, or else any numbers.

    Args:
        levels: The levels of a category.
        whole: Whether they are whole numbers.
        floor: The least value, where nothing below shows.
        ceiling: The largest value, where nothing above shows.
        grid: Their steps, where they are equal.
    """

    levels: Levels | None = None
    whole: bool = False
    floor: float = -math.inf
    ceiling: float = math.inf
    grid: Grid = WHOLE

    @property
    def censored(self) -> bool:
        """Whether nothing shows beyond one of the values."""
        return math.isfinite(self.floor) or math.isfinite(self.ceiling)


@dataclass(frozen=True, slots=True)
class Family:
    """A variable and its parents, in the order in which its mechanism sees them."""

    child: Variable
    parents: tuple[Variable, ...]

    @property
    def parents_dim(self) -> int:
        """The dimension of all parents together."""
        return sum(parent.dim for parent in self.parents)

    def check_fits(self, other: Self) -> None:
        """A mechanism of this family can take the place of one of another: same names, types and bounds."""
        bounds = [(family.child.lower, family.child.upper) for family in (self, other)]
        types = [
            [(each.name, each.shape, each.values_kind) for each in (*family.parents, family.child)]
            for family in (self, other)
        ]
        if types[0] != types[1] or bounds[0] != bounds[1]:
            raise SettingError(
                f"replace: expected a mechanism of the family {other}, got one of {self}. Give an unfitted mechanism "
                f"and call fit(data, only=[...])."
            )

    def join(self, rows: Mapping[str, Tensor], empty: Tensor) -> Tensor:
        """Joins the rows of the parents, with shape `(*batch, parents)`; `empty` has shape `(*batch, 0)`."""
        return concat_last([rows[parent.name] for parent in self.parents], empty)

    def __str__(self) -> str:
        bounds = f" in ({self.child.lower:g}, {self.child.upper:g})" if self.child.bounded else ""
        shapes = [f"{each.name!r} {each.kind if each.discrete else each.shape}" for each in (*self.parents, self.child)]
        return f"{', '.join(shapes[:-1])} -> {shapes[-1]}{bounds}"

    def split(self, parents: Tensor) -> dict[str, Tensor]:
        r"""Splits the parents by name.

        Args:
            parents: Parents :math:`x_{pa}`, with shape `(*batch, parents)`.

        Returns:
            For each parent its values, with shape `(*batch, dim)`.
        """
        parts = parents.split([parent.dim for parent in self.parents], dim=-1) if self.parents else ()

        return {parent.name: part for parent, part in zip(self.parents, parts, strict=True)}


def flatten(column: Tensor, shape: tuple[int, ...], where: str) -> Tensor:
    """Brings a column of shape `(*batch, *shape)` to the shape `(*batch, dim)`."""
    check_shape(tuple(column.shape), shape, where)

    return column.reshape((*column.shape[: column.ndim - len(shape)], math.prod(shape)))


def unflatten(rows: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Brings rows of shape `(*batch, dim)` back to the shape `(*batch, *shape)`."""
    return rows.reshape((*rows.shape[:-1], *shape))


def _spread_of_all(rows: Tensor) -> Tensor:
    """The standard deviation of all components together, a chunk at a time, with shape `(1,)`."""
    count, total, square = 0, 0.0, 0.0
    for chunk in rows.split(CHUNK):
        chunk = chunk.double()
        count, total = count + chunk.numel(), total + chunk.sum().item()
        square += chunk.square().sum().item()

    return torch.tensor([max(0.0, square / count - (total / count) ** 2)], dtype=torch.float64).sqrt()


def read_bounds(bounds: Any, where: str) -> tuple[float, float]:
    """Reads a pair of bounds in which None is an open side."""
    pair = isinstance(bounds, Sequence) and len(bounds) == 2
    if not pair or not all(bound is None or isinstance(bound, NUMBERS) for bound in bounds):
        raise SettingError(f"{where}: expected a pair of bounds such as (0, None), got {bounds!r}.")

    lower = -math.inf if bounds[0] is None else float(bounds[0])
    upper = math.inf if bounds[1] is None else float(bounds[1])
    _check_bounds(lower, upper, where)

    return lower, upper


def interior(lower: float, upper: float, dtype: torch.dtype) -> tuple[float, float]:
    """Finds the first and the last number strictly inside the bounds."""
    low, high = torch.tensor([lower, upper], dtype=dtype)

    return torch.nextafter(low, high).item(), torch.nextafter(high, low).item()


def common_batch(rows: Mapping[str, Tensor]) -> torch.Size:
    """Finds the one batch shape of rows of shape `(*batch, dim)`: a single row goes with many, other shapes agree."""
    return check_batches({name: column.shape[:-1] for name, column in rows.items()})


def _check_inside(rows: Tensor, lower: float, upper: float, where: str, *, attained: tuple[bool, bool]) -> None:
    """Every row lies inside the bounds, strictly on sides that are not attained; rows have shape `(*batch, dim)`."""
    # Images may be many, and on disk: nothing of their size is made unless something is wrong.
    least, largest = (end.item() for end in rows.aminmax()) if rows.numel() else (math.inf, -math.inf)
    above = lower < least or (attained[0] and lower == least)
    below = largest < upper or (attained[1] and largest == upper)
    if above and below:
        return

    outside = ((rows < lower) | (rows > upper)).any(-1)
    if outside.any():
        raise DataError(
            f"{where}: expected values inside the bounds ({lower:g}, {upper:g}), got {rows[outside][0].tolist()} in "
            f"{name_rows(outside)}. Widen the bounds or drop these rows."
        )

    touching = ((rows == lower) & (not attained[0]) | (rows == upper) & (not attained[1])).any(-1)
    raise DataError(
        f"{where}: expected values strictly inside the bounds ({lower:g}, {upper:g}), got {name_rows(touching)} on a "
        f"bound. A continuous law never attains its bound: move the bound a little outward, leave it open with "
        f"None, or drop these rows."
    )


def _check_bounds(lower: float, upper: float, where: str) -> None:
    if not lower < upper:
        raise SettingError(f"{where}: expected bounds (lower, upper) with lower < upper, got ({lower:g}, {upper:g}).")
