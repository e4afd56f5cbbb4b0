"""A model written down: its graph, types, bounds, mechanisms and training in a small YAML file.

.. code-block:: yaml

    graph: "age -> income, grade; age, income -> amount"
    types:
      age: integer
      grade: [low, middle, high]
    bounds:
      amount: [0, null]
    constraints:
      age: up
      grade: [low, middle]
    mechanisms:
      income: {kind: Linear}
      amount: {kind: Flow, bins: 16}
    training:
      amount: {epochs: 200}
    seed: 0

Only the graph is needed. It is text in any form that `CausalGraph.parse` reads, the name of a file beside this one, or
a mapping from each variable to its causes. What is wrong is said with the line at fault.
"""

__all__ = ["Spec", "read_graph", "read_spec"]

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deepbc._validation import pick
from deepbc.errors import DataError, DeepBCError, SettingError
from deepbc.graph import CausalGraph
from deepbc.mechanisms import Mechanism
from deepbc.notation import is_file_name
from deepbc.scm.model import SCM
from deepbc.training.trainer import Training

# Laws that are functions of the user's cannot be written down.
WRITABLE = ("Additive", "Categorical", "Censored", "Flow", "GaussianProcess", "Integer", "Linear")


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    graph: str | dict[str, list[str]]
    types: dict[str, str | list[str | int | float]] = Field(default_factory=dict)
    bounds: dict[str, tuple[float | None, float | None]] = Field(default_factory=dict)
    constraints: dict[str, str | list[bool | int | float | str | None]] = Field(default_factory=dict)
    mechanisms: dict[str, dict[str, Any]] = Field(default_factory=dict)
    training: dict[str, dict[str, Any]] = Field(default_factory=dict)
    seed: int = Field(default=0, strict=True)


@dataclass(frozen=True, slots=True)
class Spec:
    """What a file says.

    Args:
        scm: The model, not yet fitted.
        training: How variables are trained.
        seed: Where all random numbers of the fit come from.
    """

    scm: SCM
    training: dict[str, Training]
    seed: int


def read_spec(path: str | os.PathLike[str]) -> Spec:
    """Reads a model from a file.

    Raises:
        SettingError: The file is not what it should be; with the line at fault.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be read ({reason}). Mend the path.") from error
    try:
        tree, content = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        reason = str(getattr(error, "problem", None) or error).split("\n")[0]
        raise SettingError(f"{path}{line}: is not YAML ({reason}).") from error
    page = _Page(str(path), tree)
    page.check_once(tree)
    if not isinstance(content, dict):
        raise SettingError(f'{path}, line 1: expected a mapping with at least `graph`, as in graph: "a -> b".')
    types = content.get("types")
    for name, levels in types.items() if isinstance(types, dict) else ():
        if isinstance(levels, list) and any(isinstance(level, bool) for level in levels):
            raise SettingError(
                f"{page.at(['types', name])}: types.{name}: YAML reads yes, no, true and false as truth values. Write "
                f"levels in quotes, such as ['no', 'yes'], or `category` for a column of truth values."
            )

    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        # A graph is text or a mapping; of both the first complaint would be told.
        place = [part for part in first["loc"] if part in ("graph",) or not str(part).startswith(("str", "dict["))]
        raise SettingError(f"{page.at(place)}: {'.'.join(map(str, place)) or 'the file'}: {first['msg']}.") from error

    return _built(file, page)


def read_graph(text: str, folder: Path) -> CausalGraph:
    """Reads a graph from text, or from the file that the text names.

    Args:
        text: Either.
        folder: Where such a file lies.
    """
    path = folder / text

    return CausalGraph.read(path) if is_file_name(str(path)) else CausalGraph.parse(text)


def _built(file: _File, page: "_Page") -> Spec:
    with page.located("graph"):
        written = file.graph
        graph = read_graph(written, Path(page.path).parent) if isinstance(written, str) else CausalGraph(written)
    names = tuple(graph)
    mechanisms: dict[str, Mechanism] = {}
    for name, settings in file.mechanisms.items():
        with page.located("mechanisms", name):
            mechanisms[pick(name, names, "mechanisms")] = _mechanism(settings)
    training: dict[str, Training] = {}
    for name, settings in file.training.items():
        with page.located("training", name):
            training[pick(name, names, "training")] = Training(**settings)
    for name in file.bounds:
        with page.located("bounds", name):
            SCM(graph, bounds={name: file.bounds[name]})
    for name in file.constraints:
        with page.located("constraints", name):
            SCM(graph, constraints={name: file.constraints[name]})
    for name in file.types:
        with page.located("types", name):
            SCM(graph, types={name: file.types[name]})

    return Spec(
        SCM(graph, mechanisms, bounds=file.bounds, types=file.types, constraints=file.constraints), training, file.seed
    )


def _mechanism(settings: dict[str, Any]) -> Mechanism:
    kind = pick(str(settings.get("kind", "Flow")), WRITABLE, "kind")
    # A law within a law is written as any other.
    rest = {key: _mechanism(value) if isinstance(value, dict) else value for key, value in settings.items()}

    return Mechanism.kinds[kind](**{key: value for key, value in rest.items() if key != "kind"})


class _Page:
    """Creates a file that knows on which line each of its parts stands."""

    def __init__(self, path: str, tree: Any) -> None:
        self.path, self.tree = path, tree

    def at(self, place: Sequence[Any]) -> str:
        """Names the file and the line of a part, or of the nearest part around it."""
        node, line = self.tree, 1
        for part in place:
            node, line = _step(node, part, line)

        return f"{self.path}, line {line}"

    def check_once(self, node: Any) -> None:
        """Checks that no mapping has a key twice, of which the last would count."""
        if isinstance(node, yaml.SequenceNode):
            for part in node.value:
                self.check_once(part)
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            for k, (key, value) in enumerate(node.value):
                if key.value in keys[:k]:
                    raise SettingError(f"{self.path}, line {key.start_mark.line + 1}: {key.value!r} comes twice.")
                self.check_once(value)

    @contextmanager
    def located(self, *place: str) -> Iterator[None]:
        """Says where in the file something went wrong."""
        try:
            yield
        except (DeepBCError, TypeError) as error:
            # Python's own words for a setting that there is none of name the function as well.
            reason = str(error).partition("() got an ")[2] or str(error)
            raise SettingError(f"{self.at(place)}: {'.'.join(place)}: {reason}") from error


def _step(node: Any, part: Any, line: int) -> tuple[Any, int]:
    """Goes to a part of a node; where there is none, it stays."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part].start_mark.line + 1

    return None, line
