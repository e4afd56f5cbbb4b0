r"""The one pass that completes a world: for each variable its value or its noise is given, its law yields the other.

What is given of a variable is a *source*. Abduction, prediction, interventions, modes and samples are this pass with
other sources:

.. math:: x_i = f_i(x_{pa(i)}, u_i) \quad \text{or} \quad u_i = f_i^{-1}(x_{pa(i)}, x_i), \qquad i = 1, \dots, n.
"""

__all__ = [
    "Completed",
    "Completion",
    "Known",
    "Model",
    "Nearest",
    "Noise",
    "Reduced",
    "Source",
    "Value",
    "check_laws",
    "complete_checked",
    "complete_read",
    "complete_rows",
    "draw_noise",
    "join_parents",
    "read_forced",
    "sources",
]

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from deepbc._validation import check_contradiction, check_possible, hint_missing, name_rows, naming_rows
from deepbc.data.columns import index_of, left_out
from deepbc.data.variables import common_batch
from deepbc.errors import DataError
from deepbc.graph import CausalGraph
from deepbc.mechanisms import Mechanism
from deepbc.numerics.batched import concat_last
from deepbc.numerics.seeding import generator
from deepbc.scm.schema import Schema

# Value, noise, and what choosing them adds to the log-density `(rows,)`, where that is asked.
Completion = tuple[Tensor, Tensor, Tensor | None]


class Source(Protocol):
    """What is given of one variable, as rows `(*batch, dim)`; with its parents its law yields the rest."""

    def complete(self, law: Mechanism, parents: Tensor) -> Completion: ...


@dataclass(frozen=True, slots=True)
class Value:
    """Its value: the noise is abducted."""

    x: Tensor

    def complete(self, law: Mechanism, parents: Tensor) -> Completion:
        return self.x, law.abduct(self.x, parents), None


@dataclass(frozen=True, slots=True)
class Noise:
    """Its noise: the value is predicted."""

    u: Tensor

    def complete(self, law: Mechanism, parents: Tensor) -> Completion:
        return law.predict(self.u, parents), self.u, None


@dataclass(frozen=True, slots=True)
class Known:
    """Value and noise, which hold whatever its law says."""

    x: Tensor
    u: Tensor

    def complete(self, law: Mechanism, parents: Tensor) -> Completion:
        return self.x, self.u, None


@dataclass(frozen=True, slots=True)
class Nearest:
    """Its value, to which many noises lead: that nearest to a noise `rest` is taken."""

    x: Tensor
    rest: Tensor

    def complete(self, law: Mechanism, parents: Tensor) -> Completion:
        return self.x, law.nearest(self.x, parents, self.rest), None


@dataclass(frozen=True, slots=True)
class Reduced:
    """Its value, beside what `Mechanism.reduce` made of it once for many passes.

    Args:
        x: The value.
        z: What was reduced.
        volume: Whether the log-volume of the abduction, but for a part that parents do not change, is asked.
    """

    x: Tensor
    z: Tensor
    volume: bool = False

    def complete(self, law: Mechanism, parents: Tensor) -> Completion:
        if self.volume:
            return self.x, *law.invert_reduced(self.z, parents)

        return self.x, law.abduct_reduced(self.z, parents), None


@dataclass(frozen=True, slots=True)
class Completed:
    """Values `(*batch, value)` and noise `(*batch, noise)` by variable, and terms of the log-density `(*batch,)`."""

    x: dict[str, Tensor]
    u: dict[str, Tensor]
    log_density: dict[str, Tensor]


class Model(Protocol):
    """What the pass needs of a model."""

    @property
    def schema(self) -> Schema: ...

    @property
    def graph(self) -> CausalGraph: ...

    @property
    def mechanisms(self) -> Mapping[str, Mechanism]: ...


def sources(values: Mapping[str, Tensor], noise: Mapping[str, Tensor]) -> dict[str, Source]:
    """What values and noise by variable give; a variable of which both are given is left as it is."""
    given: dict[str, Source] = {name: Noise(u) for name, u in noise.items()}
    given |= {name: Known(x, noise[name]) if name in noise else Value(x) for name, x in values.items()}

    return given


def complete_rows(
    model: Model, given: Mapping[str, Source], empty: Tensor, names: Collection[str] | None = None
) -> Completed:
    r"""Passes through the graph once, causes before effects, and fills in what is missing.

    Args:
        model: The graph and its laws.
        given: What is given of each variable; of one without noise nothing need be.
        empty: A tensor of shape `(*batch, 0)`: the parents of a root, and the noise of a law that has none.
        names: The variables to complete, with all causes of each; None completes all.
    """
    done = Completed({}, {}, {})
    batch = empty.shape[:-1]
    for name in model.graph.order:
        if names is not None and name not in names:
            continue
        parents = concat_last([done.x[parent] for parent in model.graph.parents(name)], empty)
        x, u, log_density = given.get(name, Noise(empty)).complete(model.mechanisms[name], parents)
        done.x[name], done.u[name] = x.expand(*batch, -1), u.expand(*batch, -1)
        if log_density is not None:
            done.log_density[name] = log_density

    return done


def join_parents(model: Model, name: str, x: Mapping[str, Tensor]) -> Tensor:
    """The parents of a variable side by side, with shape `(*batch, parents)`, from values of them and of itself."""
    return concat_last([x[parent] for parent in model.graph.parents(name)], x[name][..., :0])


def draw_noise(model: Model, name: str, rows: int, seed: int | None) -> Tensor:
    """Draws standard-normal noise of a variable, `(rows, noise)`; the part that no question moves is 0."""
    dim = model.mechanisms[name].noise_dim
    noise = torch.randn(rows, dim, generator=generator(seed, name, "noise"), dtype=torch.float64)
    noise[:, dim - model.mechanisms[name].fixed_noise_dim :] = 0.0

    return noise.to(device=model.schema.device, dtype=model.schema.dtype)


def complete_read(model: Model, values: Any, noise: Any = None, *, abduct: bool = True) -> Completed:
    """Reads values and noise as people hand them in, completes them, and checks that every law yields a number.

    Args:
        model: The model.
        values: Values by variable, in the data's own units; those of a `Predictor` may be left out.
        noise: Noise by variable of those that have no value.
        abduct: Whether noise is asked too; without, what has a value gets noise of no components.
    """
    read, read_noise = model.schema.read_values(values), model.schema.read_noise(noise)
    others = () if values is None else left_out(values, tuple(model.graph), "values")
    with naming_rows(index_of(values)):
        return complete_checked(model, read, read_noise, abduct=abduct, others=others)


def complete_checked(
    model: Model,
    values: Mapping[str, Tensor],
    noise: Mapping[str, Tensor],
    *,
    abduct: bool = True,
    others: Collection[str] = (),
) -> Completed:
    """Completes rows as they were read, and checks them; one that is missing may be among other columns."""
    deterministic = {name for name, mechanism in model.mechanisms.items() if mechanism.deterministic}
    free = {name: rows for name, rows in values.items() if name not in deterministic}
    _check_one_source(free, noise, [name for name in model.graph if name not in deterministic], others)

    given = sources(free, noise if abduct else {name: rows[..., :0] for name, rows in free.items()})
    done = complete_rows(model, given, model.schema.empty(common_batch({**noise, **free})))
    check_laws(model, done)
    for name in deterministic & values.keys():
        check_contradiction(values[name].expand_as(done.x[name]), done.x[name], f"Variable {name!r}")

    return done


def read_forced(model: Model, values: Any, rows: int) -> dict[str, Tensor]:
    """Reads values to which variables are forced, as rows of shape `(rows, value)`; a prediction cannot be forced."""
    read = model.schema.read_values(values, strict=True)
    for name, each in read.items():
        if model.mechanisms[name].deterministic:
            raise DataError(f"do: {name!r} is a prediction from others, with no noise to imply. Force its causes.")
        if each.shape[:-1] not in ((), (1,), (rows,)):
            raise DataError(f"do: expected one value of {name!r}, or one for each of {rows} rows, got {len(each)}.")

    return {name: each.expand(rows, -1) for name, each in read.items()}


def check_laws(model: Model, done: Completed) -> None:
    """Every law yielded a number, and given laws kept the declared bounds."""
    for name, variable in model.schema.variables.items():
        where = f"Variable {name!r}"
        check_possible(done.u[name], "value", "noise", where)
        check_possible(done.x[name], "noise", "value", where)
        if model.mechanisms[name].given:
            _check_kept(done.x[name], variable.lower, variable.upper, where)


def _check_one_source(
    values: Collection[str], noise: Collection[str], expected: Iterable[str], others: Collection[str]
) -> None:
    """Every variable is given by its value or by its noise, not by both and not by none."""
    for name in expected:
        if name in values and name in noise:
            raise DataError(f"Variable {name!r}: expected its value or its noise, got both. Leave out one.")
        if name not in values and name not in noise:
            hint = hint_missing(name, others)
            raise DataError(f"Variable {name!r}: expected its value or its noise, got neither. {hint}Give one.")


def _check_kept(rows: Tensor, lower: float, upper: float, where: str) -> None:
    """A given law kept the bounds that were declared for its variable; rows have shape `(*batch, dim)`."""
    outside = ((rows < lower) | (rows > upper)).any(-1)
    if outside.any():
        raise DataError(
            f"{where}: its law left the declared bounds ({lower:g}, {upper:g}) in {name_rows(outside)}, with "
            f"{rows[outside][0].tolist()}. Mend the law or the bounds."
        )
