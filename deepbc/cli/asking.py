"""From the words of a command to a question."""

__all__ = ["Wishes", "answer"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepbc._checks import pick
from deepbc.conditions import parse_conditions, parse_weights
from deepbc.distances import Squared
from deepbc.errors import DataError, SettingError
from deepbc.queries import backtrack, backtrack_samples, intervene
from deepbc.results import Counterfactual
from deepbc.scm import SCM
from deepbc.solvers import Exact, Solver, Sparse

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a question asks for, as words.

    Args:
        conditions: What is to hold.
        forced: Whether to break the law of what is asked.
        keep: How many noises may move at most.
        scope: Whose noises may move, with commas between.
        weights: How dear noises are.
        samples: How many worlds to draw; None asks for the nearest.
        seed: Where samples come from.
    """

    conditions: Sequence[str]
    forced: bool
    keep: int | None
    scope: str | None
    weights: Sequence[str]
    samples: int | None
    seed: int


def answer(scm: SCM, table: "pandas.DataFrame", rows: Sequence[int], wishes: Wishes) -> Counterfactual:
    """Asks about rows of a table.

    Args:
        scm: The model.
        table: The table.
        rows: Which rows, counted from 0.
        wishes: What is asked for.
    """
    names = tuple(scm.graph)
    asked = parse_conditions(wishes.conditions, names)
    for row in rows:
        if not 0 <= row < len(table):
            raise DataError(f"row {row}: expected 0 to {len(table) - 1:,}, as many as the table has.")
    factual = table.iloc[list(rows)]
    if wishes.forced:
        _refuse(wishes, keep="keep", scope="scope", weights="weight", samples="samples")
        return intervene(scm, factual, asked)

    settings: dict[str, Any] = {"distance": Squared(parse_weights(wishes.weights, names))}
    if wishes.scope is not None:
        settings["scope"] = [pick(each.strip(), names, "scope") for each in wishes.scope.split(",")]
    if wishes.samples is not None:
        _refuse(wishes, keep="keep")
        return backtrack_samples(scm, factual, asked, samples=wishes.samples, seed=wishes.seed, **settings)

    solver: Solver = Exact() if wishes.keep is None else Sparse(keep=wishes.keep)

    return backtrack(scm, factual, asked, solver=solver, **settings)


def _refuse(wishes: Wishes, **options: str) -> None:
    """Refuses options that the kind of question has no use for, rather than pass them over."""
    for field, option in options.items():
        if getattr(wishes, field) not in (None, ()):
            kind = "--intervene" if wishes.forced else "--samples"
            raise SettingError(f"--{option}: has no meaning with {kind}. Leave one of them out.")
