"""Reads the data of a fit: what each variable is, and its rows."""

__all__ = ["DataReader"]

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_contradiction, check_finite, check_names, check_table
from deepbc.data.dates import check_no_date_text
from deepbc.data.reading import read
from deepbc.data.variables import OPEN, Family, Kind, Variable, flatten, unflatten
from deepbc.errors import DataError
from deepbc.mechanisms import Mechanism
from deepbc.numerics.seeding import generator
from deepbc.scm.type_inference import Declaration

# A category of more levels is taken for a name or an index.
MOST_LEVELS = 100
CHUNK = 1024


@dataclass(frozen=True, slots=True)
class DataReader:
    """Reads the data of a fit: what each variable is, and its rows of shape `(rows, dim)`.

    Args:
        declaration: The graph, its laws and bounds.
        known: Variables of which all that are not to be fitted stay as they are; the others keep their shape.
        names: The variables to fit. Where all variables are known, only these and their causes need data.
        kinds: What the values of variables are; those that are not named are numbers.
    """

    declaration: Declaration
    known: Mapping[str, Variable]
    names: Collection[str]
    kinds: Mapping[str, Kind]

    def read(
        self, data: Mapping[Any, Any], others: Collection[str] = ()
    ) -> tuple[dict[str, Variable], dict[str, Tensor], dict[str, Tensor]]:
        """Reads the columns; that of a `Predictor` may be absent.

        Args:
            data: The columns by variable.
            others: The names of the columns of a table that were left out.

        Returns:
            The variables, their columns as they came, codes for labels, and their rows.
        """
        graph, laws = self.declaration.graph, self.declaration.mechanisms
        deterministic = {name for name, mechanism in laws.items() if mechanism.deterministic}
        images = [name for name, mechanism in laws.items() if mechanism.domain == "image"]
        levels = {name: kind.levels for name, kind in self.kinds.items() if kind.levels}
        columns = read(data, "data", tuple(graph), images, levels)
        unused = set(self.known) - {*self.names, *graph.ancestors(*self.names)}
        check_names(columns, tuple(graph), "data", optional=deterministic | unused, others=others)
        check_table({name: tuple(column.shape) for name, column in columns.items()})

        variables: dict[str, Variable] = {}
        rows: dict[str, Tensor] = {}
        for name in graph.order:
            if name in unused:
                variables[name] = self.known[name]
                continue
            column = columns.get(name)
            if name in deterministic:
                parents = tuple(variables[parent] for parent in graph.parents(name))
                variable = Variable.of_dim(name, laws[name].value or 1, OPEN)
                column = _predicted(laws[name], Family(variable, parents), rows, column)
            assert column is not None  # noqa: S101 # every other variable has one
            variables[name] = self._variable(name, column)
            columns[name], rows[name] = column, variables[name].rows(column, f"Variable {name!r}")
            self._check_learnable(variables[name], column, rows[name])

        return variables, columns, rows

    def _variable(self, name: str, column: Tensor) -> Variable:
        """The variable that a column shows, or the one that was known before."""
        found = Variable.seen(name, column, self.declaration.bounds.get(name, OPEN), self.kinds.get(name))
        before = self.known.get(name, found)
        if found.shape != before.shape:
            raise DataError(
                f"Variable {name!r}: expected values of shape {before.shape} as before, got {found.shape}. Fit all "
                f"variables anew."
            )

        return found if name in self.names else before

    def _check_learnable(self, variable: Variable, column: Tensor, rows: Tensor) -> None:
        """Every level has rows, and numbers are not constant; many a pixel is."""
        where, mechanism = f"Variable {variable.name!r}", self.declaration.mechanisms[variable.name]
        if variable.levels and variable.name in self.names:
            counts = column.long().bincount(minlength=len(variable.levels))
            _check_level_counts(variable.levels.items, counts.tolist(), MOST_LEVELS, where)
        elif not variable.levels and not mechanism.given:
            _check_varies(rows.reshape(-1, 1) if mechanism.domain == "image" else rows, where)


def _predicted(mechanism: Mechanism, family: Family, rows: Mapping[str, Tensor], column: Tensor | None) -> Tensor:
    """Computes the column of a deterministic variable from those of its parents; one that is given has to agree."""
    where, shape = f"Variable {family.child.name!r}", family.child.shape
    bound = mechanism.bind(family, generator(0))
    given = torch.cat([rows[parent.name] for parent in family.parents], dim=-1)
    # Images may be bytes, and are large.
    values = torch.cat([bound.predict(part[:, :0].double(), part.double()) for part in given.split(CHUNK)]).detach()
    check_finite(values, f"{where}, its Predictor")
    if column is not None:
        check_contradiction(flatten(column, shape, where), values, where)

    return unflatten(values, shape)


def _check_varies(rows: Tensor, where: str) -> None:
    """No component is constant; rows have shape `(batch, dim)`."""
    low, high = rows.amin(0).double(), rows.amax(0).double()
    constant = high - low <= 1e-15 * torch.maximum(low.abs(), high.abs())
    if constant.any():
        component = int(constant.nonzero()[0])
        part = f" (component {component})" if rows.shape[-1] > 1 else ""
        raise DataError(
            f"{where}{part}: every row has the value {rows[0, component].item():g}. A constant has no noise to learn; "
            f"take the variable out of the graph."
        )


def _check_level_counts(labels: Sequence[object], counts: Sequence[int], most: int, where: str) -> None:
    """Every level of a category has rows to learn from, and there are not as many levels as an index has."""
    if len(labels) > most or min(counts) < 2:
        check_no_date_text(labels, where)
    if len(labels) > most:
        raise DataError(
            f"{where}: expected at most {most} levels, got {len(labels)}, such as {labels[0]!r} and {labels[1]!r}. Is "
            f"it a name, a date or an index? Take it out of the graph, or join levels; numbers are declared as real or "
            f"integer."
        )
    for label, count in zip(labels, counts, strict=True):
        if count < 2:
            raise DataError(
                f"{where}: the level {label!r} has {'one row' if count else 'no row'}, from which nothing can be "
                f"learned. Drop the row or join the level with another."
            )
