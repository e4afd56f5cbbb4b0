"""What must not change: constraints on variables, as people declare them."""

__all__ = ["FIXED", "UP", "WORDS", "Constraint", "read_constraints"]

from collections.abc import Mapping, Sequence
from typing import Any

from deepbc._validation import pick
from deepbc.data.categories import Label
from deepbc.errors import SettingError

WORDS = FIXED, UP, DOWN = "fixed", "up", "down"
# A word, the ends of a range of numbers with None for an open one, or the labels that will do.
Constraint = str | tuple[Label | None, ...]


def read_constraints(
    given: Any, names: Sequence[str], declared: Mapping[str, Constraint] | None = None
) -> dict[str, Constraint]:
    """Reads constraints by variable.

    Args:
        given: For each variable `"fixed"`, `"up"`, `"down"`, a pair of numbers, or a list of labels; None lifts what is
            declared.
        names: The variables.
        declared: What holds of the variables that are not given.
    """
    if not isinstance(given, Mapping):
        raise SettingError(f"constraints: expected a mapping such as {{'sex': 'fixed'}}, got {type(given).__name__}.")

    for name in given:
        pick(name, names, "constraints")
    read = {name: _read_one(name, each) for name, each in given.items() if each is not None}

    return {**{name: each for name, each in (declared or {}).items() if name not in given}, **read}


def _read_one(name: str, given: Any) -> Constraint:
    if isinstance(given, str) and given in WORDS:
        return given
    if isinstance(given, Sequence | set | frozenset) and not isinstance(given, str) and len(given):
        return tuple(sorted(given, key=repr)) if isinstance(given, set | frozenset) else tuple(given)

    raise SettingError(
        f"constraint on {name!r}: expected 'fixed', 'up', 'down', a range such as (18, None), or a list of labels, "
        f"got {given!r}."
    )
