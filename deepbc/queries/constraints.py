"""Constraints on the answer: what must stay, may only rise or fall, or has to lie in a range or among some labels.

The factual value is always allowed: a range or a list never forces a change, it forbids one.
"""

__all__ = ["Limits", "read_limits"]

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import NUMBERS
from deepbc.data.constraints import FIXED, UP, Constraint, read_constraints
from deepbc.data.variables import Variable
from deepbc.errors import SettingError
from deepbc.queries.asked import Asked
from deepbc.scm import SCM

SEEN = "seen"


@dataclass(frozen=True, slots=True)
class Limits:
    """What must hold beside the antecedent.

    Args:
        asked: For each variable that is limited, what it has to be.
        scope: The variables whose noise may move.
    """

    asked: Mapping[str, Asked]
    scope: tuple[str, ...]


def read_limits(
    scm: SCM,
    x: Mapping[str, Tensor],
    scope: Sequence[str],
    antecedent: Collection[str],
    given: Any = None,
    inside: str | None = None,
) -> Limits:
    """Reads the constraints of a question and of its model.

    Args:
        scm: The model; what it declares holds where the question does not say otherwise.
        x: Factual values by variable, with shape `(rows, value)`.
        scope: The variables whose noise may move.
        antecedent: The variables of the antecedent.
        given: The constraints of the question.
        inside: `"seen"` keeps numbers inside the range that the fit saw.
    """
    if inside not in (None, SEEN):
        raise SettingError(f"inside: expected 'seen' or None, got {inside!r}.")
    declared = read_constraints(given or {}, tuple(scm.graph), scm.constraints)
    asked = {name: _limit(scm.variables[name], x[name], each) for name, each in declared.items()}
    for name in scm.graph if inside else ():
        variable = scm.variables[name]
        if variable.levels is None and not variable.shape:
            seen = _range(x[name], *_seen(scm, name))
            asked[name] = seen if name not in asked else _both(asked[name], seen)

    fixed = {name for name, each in declared.items() if each == FIXED and name not in antecedent}
    still = _immovable(scm, fixed, scope)

    return Limits(
        {name: each for name, each in asked.items() if name not in still},
        tuple(name for name in scope if name not in still & fixed),
    )


def _immovable(scm: SCM, fixed: Collection[str], scope: Collection[str]) -> set[str]:
    """The variables that cannot change: fixed or out of scope, as are all of their causes."""
    still: set[str] = set()
    for name in scm.graph.order:
        if (name in fixed or name not in scope) and still.issuperset(scm.graph.parents(name)):
            still.add(name)

    return still


def _limit(variable: Variable, x: Tensor, constraint: Constraint) -> Asked:
    where = f"constraint on {variable.name!r}"
    if constraint == FIXED:
        return Asked.value(x)
    if isinstance(constraint, str):
        if not variable.sorted:
            raise SettingError(
                f"{where}: {constraint!r} needs an order, which a {variable.kind} lacks. List its labels."
            )
        open_end = torch.full_like(x, torch.inf)
        return Asked(x, open_end, True) if constraint == UP else Asked(-open_end, x, True)
    if variable.levels:
        codes = variable.levels.codes(list(constraint), where).long().to(x.device)
        there = torch.zeros(len(variable.levels), dtype=torch.bool, device=x.device)
        there[codes] = True
        return _also_factual(Asked.one_of(there.expand(len(x), -1), x), variable, x)

    return _range(x, *_ends(variable, constraint, where))


def _ends(variable: Variable, constraint: tuple[Any, ...], where: str) -> tuple[float, float]:
    """The ends of a range of numbers, infinite where open, and whole where the numbers are."""
    numbers = all(each is None or isinstance(each, NUMBERS) for each in constraint)
    if variable.shape or len(constraint) != 2 or not numbers:
        raise SettingError(
            f"{where}: expected the two ends of a range of numbers such as (18, None), got {constraint!r}."
        )
    low = -math.inf if constraint[0] is None else float(constraint[0])
    high = math.inf if constraint[1] is None else float(constraint[1])
    if variable.whole:
        low, high = variable.grid.ends(low, high)
    if low > high:
        raise SettingError(
            f"{where}: expected a lower end that is not above the upper one, got {constraint!r}. Swap them."
        )

    return low, high


def _range(x: Tensor, low: float, high: float) -> Asked:
    return Asked(x.clamp(max=low), x.clamp(min=high), True)


def _also_factual(aim: Asked, variable: Variable, x: Tensor) -> Asked:
    labels = aim.labels
    assert labels is not None and variable.levels is not None  # noqa: S101, PT018 # the caller made it so
    codes = variable.levels.of_rows(x).long().unsqueeze(-1)

    return Asked.one_of(labels.scatter(-1, codes, True), x)


def _both(one: Asked, other: Asked) -> Asked:
    return one.within(other, 0)[0]


def _seen(scm: SCM, name: str) -> tuple[float, float]:
    span = scm.variables[name].span
    if span is None and scm.mechanisms[name].given:
        return -math.inf, math.inf
    if span is None:
        raise SettingError(f"inside='seen': the model does not know which values of {name!r} were seen. Fit it again.")

    return span
