"""Names for laws that people write, so that a model that contains them can be saved and loaded.

A saved model never holds code. It holds the name of the law, and the program that loads it must have given that name to
a law of its own before.
"""

__all__ = ["law", "law_called", "name_of"]

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from deepbc.errors import SettingError, StorageError

Law = TypeVar("Law", bound=Callable[..., Any])

_laws: dict[str, Callable[..., Any]] = {}


def law(name: str) -> Callable[[Law], Law]:
    """Gives a function or a torch module a name under which models may refer to it.

    Args:
        name: The name; one per program.

    Example:
        >>> import torch
        >>> @law("doc.double")
        ... def double(u, parents):
        ...     return 2 * u
        >>> net = law("doc.score")(torch.nn.Linear(2, 1))
    """

    def register(function: Law) -> Law:
        known = _laws.get(name)
        if known is not None and known is not function and not _written_again(known, function):
            raise SettingError(f"law {name!r}: the name is taken by {_origin(known)}. Choose another.")
        _laws[name] = function
        return function

    return register


def name_of(function: Callable[..., Any], where: str) -> str:
    """Finds the name of a law.

    Raises:
        StorageError: It has none, so a model with it cannot be saved.
    """
    for name, known in _laws.items():
        if known is function:
            return name

    raise StorageError(
        f"{where}: the law {getattr(function, '__qualname__', type(function).__name__)!r} cannot be saved, because a "
        f"model holds no code. Give it a name with @deepbc.law('my-law') where it is defined; the program that loads "
        f"the model must do the same."
    )


def law_called(name: str, where: str) -> Callable[..., Any]:
    """Finds a law by its name."""
    if name not in _laws:
        raise StorageError(
            f"{where}: the model refers to the law {name!r}, which this program does not define. Import the module "
            f"that registers it with @deepbc.law({name!r}) before loading."
        )

    return _laws[name]


def _written_again(known: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """Whether this is the same function, defined anew, as when the cell of a notebook runs twice."""
    functions = isinstance(known, FunctionType) and isinstance(function, FunctionType)

    return functions and _origin(known) == _origin(function) and "<lambda>" not in _origin(function)


def _origin(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"
