"""How the values of people become the rows that laws see, and back: shapes, types, precision, device."""

__all__ = ["Schema", "check_move", "read_names"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_count, check_finite, check_names, naming_rows, pick
from deepbc.data.categories import Levels
from deepbc.data.columns import index_of
from deepbc.data.reading import read
from deepbc.data.variables import Variable, common_batch, flatten, unflatten
from deepbc.data.world import World
from deepbc.errors import NotFittedError, SettingError
from deepbc.mechanisms import Mechanism


@dataclass(frozen=True, slots=True)
class Schema:
    """What each variable of a model is, and how its rows lie in memory.

    Args:
        variables: The variables that the model knows, causes and effects in the order of the graph.
        mechanisms: Their laws.
        device: Where rows are.
        dtype: The precision of all rows but those of a law that has its own.
    """

    variables: Mapping[str, Variable]
    mechanisms: Mapping[str, Mechanism]
    device: torch.device
    dtype: torch.dtype

    @property
    def levels(self) -> dict[str, Levels]:
        """The levels of each variable that is a category."""
        return {name: each.levels for name, each in self.variables.items() if each.levels}

    @property
    def images(self) -> tuple[str, ...]:
        """The variables that are images."""
        return tuple(name for name, mechanism in self.mechanisms.items() if mechanism.domain == "image")

    def check_fitted(self) -> None:
        """Raises NotFittedError unless every law is ready."""
        waiting = [name for name, mechanism in self.mechanisms.items() if mechanism.family is None]
        if waiting:
            names = ", ".join(map(repr, waiting))
            raise NotFittedError(f"The model has no fitted mechanism for {names}. Call scm.fit(data) first.")

    def read_values(self, data: Any, *, strict: bool = False) -> dict[str, Tensor]:
        """Reads and checks values by variable, as rows of shape `(*batch, value)`.

        Args:
            data: The values; those of a table may have other columns beside them.
            strict: Whether a table may have none either.
        """
        self.check_fitted()
        names = tuple(self.mechanisms)
        with naming_rows(index_of(data)):
            columns = read({} if data is None else data, "values", names, self.images, self.levels, strict=strict)
            check_names(columns, names, "values", optional=names)
            rows = {name: self.variables[name].rows(columns[name], f"Variable {name!r}") for name in columns}

        return {name: self.place(each, name) for name, each in rows.items()}

    def read_noise(self, data: Any) -> dict[str, Tensor]:
        """Reads and checks noise by variable, as rows of shape `(*batch, noise)`."""
        self.check_fitted()
        names = tuple(self.mechanisms)
        columns = read({} if data is None else data, "noise", names)
        check_names(columns, names, "noise", optional=names)
        rows = {name: flatten(columns[name], self._noise_shape(name), f"noise of {name!r}") for name in columns}
        for name, each in rows.items():
            check_finite(each, f"noise of {name!r}")

        return {name: each.to(device=self.device, dtype=self.dtype) for name, each in rows.items()}

    def place(self, rows: Tensor, name: str) -> Tensor:
        """Gives rows of values the device and the precision of their law, inside their bounds whatever is rounded."""
        placed = rows.to(device=self.device, dtype=self.mechanisms[name].precision or self.dtype)

        # Images may attain their bounds.
        return placed if name in self.images else self.variables[name].inside(placed)

    def place_data(self, columns: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Gives rows of a fit their device and precision; images stay as they came, however many bytes a number has."""
        images = self.images

        return {
            name: rows.to(self.device) if name in images else self.place(rows, name) for name, rows in columns.items()
        }

    def empty(self, batch: Sequence[int]) -> Tensor:
        """The parents of a root, with shape `(*batch, 0)`."""
        return torch.empty(*batch, 0, device=self.device, dtype=self.dtype)

    def sd(self, name: str) -> Tensor:
        """The standard deviation of each component of a variable in the data of its fit; 1 where a law is given."""
        sd = torch.tensor(self.variables[name].sd or (1.0,), dtype=self.dtype, device=self.device)

        return sd.expand(self.variables[name].dim)

    def show_world(self, x: Mapping[str, Tensor], u: Mapping[str, Tensor]) -> World:
        """Brings values and noise of every variable, as rows, to the shapes and units in which people see them."""
        values = {name: self.show(name, x[name]) for name in self.mechanisms}
        noise = {name: self._show(u[name], self._noise_shape(name)) for name in self.mechanisms}
        kinds = {name: each.values_kind for name, each in self.variables.items() if each.discrete}

        return World(values, noise, common_batch(x), kinds)

    def show(self, name: str, rows: Tensor) -> Any:
        """Brings values of a variable, as rows, to the shape in which people see them; those of a category as labels.

        Labels of text come as an array of objects, all else as a tensor.
        """
        levels = self.variables[name].levels
        if levels:
            return levels.labels(levels.of_rows(rows.detach().nan_to_num()))

        return self._show(rows, self.variables[name].shape, self.mechanisms[name].precision)

    def _show(self, rows: Tensor, shape: tuple[int, ...], precision: torch.dtype | None = None) -> Tensor:
        shown = unflatten(rows.detach(), shape).to(device="cpu", dtype=precision or torch.float64)

        # A copy, so that a result can be written to without touching the input, or another result.
        return shown.clone(memory_format=torch.contiguous_format)

    def _noise_shape(self, name: str) -> tuple[int, ...]:
        dim = self.mechanisms[name].noise_dim
        return () if dim == 1 else (dim,)


def read_names(chosen: Sequence[str] | None, known: Sequence[str], where: str) -> tuple[str, ...]:
    """The chosen variables, or all; a lone name is one."""
    if chosen is None:
        return tuple(known)

    listed = (chosen,) if isinstance(chosen, str) else tuple(chosen)
    check_count(len(listed), f"number of variables in {where}", least=1)

    return tuple(pick(name, known, where) for name in listed)


def check_move(
    device: torch.device | str | None, dtype: torch.dtype, bounds: Mapping[str, tuple[float, float]]
) -> None:
    """The device is there, and the precision can tell the bounds of every variable apart."""
    if isinstance(device, torch.dtype):
        raise SettingError(f"to: expected a device such as 'cuda', got {device}. Write to(dtype={device}).")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise SettingError(f"to: the device {device!r} cannot be used ({reason}). Choose another.") from error

    if dtype not in (torch.float32, torch.float64):
        raise SettingError(f"to: expected the dtype torch.float32 or torch.float64, got {dtype!r}.")
    for name, pair in bounds.items():
        low, high = torch.tensor(pair, dtype=dtype)
        if not torch.nextafter(low, high) < high or [low.isinf(), high.isinf()] != [math.isinf(each) for each in pair]:
            raise SettingError(
                f"to: expected a precision that tells the bounds {pair} of {name!r} apart, got {dtype}. Keep "
                f"torch.float64, or measure the variable in other units."
            )
