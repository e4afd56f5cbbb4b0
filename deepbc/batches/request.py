"""A question in words, as a command line has it, put to a model."""

__all__ = ["Request", "ask", "columns_of", "labels_in"]

from dataclasses import dataclass
from typing import Any

import pandas

from deepbc.batches.conditions import parse_conditions, parse_constraints, parse_scope, parse_weights
from deepbc.data.constraints import FIXED, Constraint
from deepbc.distances import Squared
from deepbc.errors import SettingError
from deepbc.queries import backtrack, backtrack_samples, intervene
from deepbc.queries.results import Counterfactual
from deepbc.scm.model import SCM
from deepbc.solvers import Exact, Solver, Sparse


@dataclass(frozen=True, slots=True)
class Request:
    """What a question asks for, as words.

    Args:
        conditions: What is to hold.
        forced: Whether to break the law of what is asked.
        keep: How many noises may move at most.
        scope: Whose noises may move, with commas between names.
        weights: What moving a noise costs.
        samples: How many worlds to draw; None asks for the nearest.
        seed: Where samples come from.
        fixed: What may not change, with commas between.
        constraints: What else may not, such as `age=up`.
        inside: `seen` keeps numbers inside what the fit saw.
    """

    conditions: tuple[str, ...]
    forced: bool = False
    keep: int | None = None
    scope: str | None = None
    weights: tuple[str, ...] = ()
    samples: int | None = None
    seed: int = 0
    fixed: str | None = None
    constraints: tuple[str, ...] = ()
    inside: str | None = None


def columns_of(scm: SCM) -> dict[str, str]:
    """The columns that a table needs, and the variable of each; one that follows from others alone needs none."""
    columns: dict[str, str] = {}
    for name in scm.graph:
        shape = scm.variables[name].shape
        if len(shape) > 1:
            raise SettingError(f"Variable {name!r}: is an image, and no table holds one. Ask in Python.")
        if not scm.mechanisms[name].deterministic:
            columns |= {f"{name}[{k}]": name for k in range(shape[0])} if shape else {name: name}

    return columns


def labels_in(scm: SCM) -> dict[str, bool]:
    """Whether each column that a table needs holds labels."""
    return {column: name in scm.schema.levels for column, name in columns_of(scm).items()}


def ask(scm: SCM, rows: pandas.DataFrame, request: Request) -> Counterfactual:
    """Asks a model about all rows of a table."""
    names = tuple(scm.graph)
    asked = parse_conditions(request.conditions, names, scm.schema.levels)
    if request.forced:
        options = {"keep": "keep", "scope": "scope", "weights": "weight", "samples": "samples"}
        _refuse(request, **options, fixed="fix", constraints="constraint", inside="inside")
        return intervene(scm, rows, asked)

    settings: dict[str, Any] = {"distance": Squared(parse_weights(request.weights, names))}
    limits: dict[str, Constraint | None] = dict.fromkeys(
        parse_scope(request.fixed, names, "fix") if request.fixed else (), FIXED
    )
    limits |= parse_constraints(request.constraints, names, scm.schema.levels)
    settings |= {"constraints": limits, "inside": request.inside}
    if request.scope is not None:
        settings["scope"] = parse_scope(request.scope, names)
    if request.samples is not None:
        _refuse(request, keep="keep")
        return backtrack_samples(scm, rows, asked, samples=request.samples, seed=request.seed, **settings)

    solver: Solver = Exact() if request.keep is None else Sparse(keep=request.keep)

    return backtrack(scm, rows, asked, solver=solver, **settings)


def _refuse(request: Request, **options: str) -> None:
    """Refuses options that the kind of question has no use for, rather than pass them over."""
    for field, option in options.items():
        if getattr(request, field) not in (None, ()):
            kind = "--intervene" if request.forced else "--samples"
            raise SettingError(f"--{option}: has no meaning with {kind}. Leave one of them out.")
