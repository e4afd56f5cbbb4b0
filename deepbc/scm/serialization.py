"""A model as JSON and tensors, and back. The manifest names mechanisms and laws; it never holds code."""

__all__ = ["describe", "rebuild"]

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError
from torch import Tensor

from deepbc.data.categories import Levels
from deepbc.data.constraints import Constraint, read_constraints
from deepbc.data.grid import Grid
from deepbc.data.variables import Family, Variable, read_bounds
from deepbc.errors import GraphError, SettingError, StorageError, UnknownNameError
from deepbc.graph import CausalGraph
from deepbc.mechanisms import Mechanism
from deepbc.mechanisms.registry import law_called, name_of
from deepbc.numerics.seeding import generator
from deepbc.training.report import ColumnSummary, Curve, FitReport, VariableFit


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Variable(_Record):
    shape: tuple[PositiveInt, ...]
    lower: float | None
    upper: float | None
    sd: tuple[PositiveFloat, ...]
    levels: tuple[bool | float | str, ...] | None = None
    ordered: bool = False
    whole: bool = False
    span: tuple[float, float] | None = None
    floor: float | None = None
    ceiling: float | None = None
    step: PositiveFloat = 1.0
    offset: float = 0.0


class _Mechanism(_Record):
    kind: str
    settings: dict[str, Any]


class _Fit(_Record):
    name: str
    type: str
    mechanism: str
    nll: float | None
    rows: int
    curves: dict[str, Curve]
    seconds: float
    notes: tuple[str, ...]
    learned: NonNegativeInt = 0
    column: ColumnSummary | None = None
    misfits: tuple[str, ...] = ()
    r2: float | None = None
    auc: float | None = None


class _Model(_Record):
    graph: dict[str, list[str]] = Field(min_length=1)
    variables: dict[str, _Variable]
    mechanisms: dict[str, _Mechanism]
    report: tuple[_Fit, ...] = ()
    constraints: dict[str, str | tuple[bool | float | str | None, ...]] = Field(default_factory=dict)


def describe(
    graph: CausalGraph,
    variables: Mapping[str, Variable],
    mechanisms: Mapping[str, Mechanism],
    report: FitReport,
    constraints: Mapping[str, Constraint],
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Writes a model as the content of a manifest and the tensors beside it."""
    model = _Model(
        graph=graph.to_dict(),
        variables={name: _write_variable(variables[name]) for name in graph},
        mechanisms={name: _write_mechanism(name, mechanisms[name]) for name in graph},
        # A variable without a density has no likelihood, and JSON has no NaN.
        report=tuple(_Fit(**asdict(each) | {"nll": None if math.isnan(each.nll) else each.nll}) for each in report),
        constraints=dict(constraints),
    )
    tensors = {f"{name}/{key}": tensor for name in graph for key, tensor in mechanisms[name].state_dict().items()}

    return model.model_dump(mode="json"), tensors


def rebuild(
    content: Mapping[str, Any], tensors: Mapping[str, Tensor], *, where: str
) -> tuple[CausalGraph, dict[str, Variable], dict[str, Mechanism], FitReport, dict[str, Constraint]]:
    """Makes graph, variables, mechanisms, the report of the fit and constraints from what `describe` wrote.

    Raises:
        StorageError: The content is not a model of ours, or the tensors are not its weights.
    """
    try:
        model = _Model.model_validate(content)
        graph = CausalGraph(model.graph)
        variables = {name: _read_variable(name, model.variables[name]) for name in graph}
        families = {
            name: Family(variables[name], tuple(variables[parent] for parent in graph.parents(name))) for name in graph
        }
        mechanisms = {name: _read_mechanism(families[name], model.mechanisms[name], where) for name in graph}
        constraints = read_constraints(model.constraints, tuple(graph))
    except ValidationError as error:
        first = error.errors()[0]
        raise StorageError(f"{where}: is not a model: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from error
    except KeyError as error:
        raise StorageError(f"{where}: is not a model: nothing is said of the variable {error}.") from error
    except (GraphError, SettingError, UnknownNameError) as error:
        raise StorageError(f"{where}: is not a model: {error}") from error

    _load_weights(mechanisms, tensors, where)

    report = FitReport(tuple(_read_fit(each) for each in model.report))

    return graph, variables, mechanisms, report, constraints


def _read_fit(record: _Fit) -> VariableFit:
    return VariableFit(**dict(record) | {"nll": math.nan if record.nll is None else record.nll})


def _write_variable(variable: Variable) -> _Variable:
    lower, upper = _finite(variable.lower), _finite(variable.upper)

    items, ordered = (variable.levels.items, variable.levels.ordered) if variable.levels else (None, False)

    return _Variable(
        shape=variable.shape,
        lower=lower,
        upper=upper,
        sd=variable.sd,
        levels=items,
        ordered=ordered,
        whole=variable.whole,
        span=variable.span,
        floor=_finite(variable.floor),
        ceiling=_finite(variable.ceiling),
        step=variable.grid.step,
        offset=variable.grid.offset,
    )


def _read_variable(name: str, record: _Variable) -> Variable:
    bounds = read_bounds((record.lower, record.upper), f"Variable {name!r}")
    levels = None if record.levels is None else Levels(record.levels, record.ordered)

    floor = -math.inf if record.floor is None else record.floor
    ceiling = math.inf if record.ceiling is None else record.ceiling

    grid = Grid(record.step, record.offset)

    return Variable(name, record.shape, *bounds, record.sd, levels, record.whole, record.span, floor, ceiling, grid)


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def _write_mechanism(name: str, mechanism: Mechanism) -> _Mechanism:
    settings = {key: _write_setting(name, value) for key, value in mechanism.settings().items()}

    return _Mechanism(kind=type(mechanism).__name__, settings=settings)


def _write_setting(name: str, value: Any) -> Any:
    """Writes a setting; a mechanism within another by its kind, a function by its name."""
    if isinstance(value, Mechanism):
        return {"mechanism": _write_mechanism(name, value).model_dump()}

    return {"law": name_of(value, f"Variable {name!r}")} if callable(value) else value


def _read_mechanism(family: Family, record: _Mechanism, where: str) -> Mechanism:
    name = family.child.name
    try:
        return _made(record, f"{where}, variable {name!r}").bind(family, generator(0))
    except (TypeError, ValueError, KeyError, RuntimeError) as error:
        raise StorageError(f"{where}: variable {name!r} has settings that {record.kind} refuses: {error}") from error


def _made(record: _Mechanism, where: str) -> Mechanism:
    """Makes a mechanism that no variable has touched."""
    if record.kind not in Mechanism.kinds:
        raise StorageError(f"{where}: has the unknown mechanism {record.kind!r}. Import its module.")

    settings = {key: _read_setting(value, where) for key, value in record.settings.items()}

    kind = Mechanism.kinds[record.kind]

    return kind(**kind.read_settings(settings))


def _read_setting(value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        return value
    if "mechanism" in value:
        return _made(_Mechanism.model_validate(value["mechanism"]), where)

    return law_called(str(value["law"]), where)


def _load_weights(mechanisms: Mapping[str, Mechanism], tensors: Mapping[str, Tensor], where: str) -> None:
    tensors = _of_today(mechanisms, tensors, where)
    states = {name: mechanism.state_dict() for name, mechanism in mechanisms.items()}
    expected = {f"{name}/{key}": tuple(tensor.shape) for name, state in states.items() for key, tensor in state.items()}
    came = {key: tuple(tensor.shape) for key, tensor in tensors.items()}
    if expected != came:
        odd = min(expected.items() ^ came.items())[0]
        raise StorageError(f"{where}: the weights are not those of the manifest's mechanisms; {odd!r} differs.")

    for name, mechanism in mechanisms.items():
        for key in states[name]:
            # A module that people give may hold infinities, such as a mask.
            if not mechanism.given and not tensors[f"{name}/{key}"].isfinite().all():
                raise StorageError(f"{where}: the weights {key!r} of {name!r} are not finite. Fit the model again.")
        mechanism.load_state_dict({key: tensors[f"{name}/{key}"] for key in states[name]})


def _of_today(mechanisms: Mapping[str, Mechanism], tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Weights as today's mechanisms have them, each of which reads those that earlier versions saved."""
    # Names of variables may hold slashes; a key of a weight holds none.
    split = [(*key.rpartition("/")[::2], tensor) for key, tensor in tensors.items()]
    found = {key: tensor for key, tensor in tensors.items() if key.rpartition("/")[0] not in mechanisms}
    for name, mechanism in mechanisms.items():
        try:
            read = mechanism.read_weights({key: tensor for of, key, tensor in split if of == name})
        except StorageError as error:
            raise StorageError(f"{where}: variable {name!r} {error}") from error
        found |= {f"{name}/{key}": tensor for key, tensor in read.items()}

    return found
