r"""The causal graph: which variable listens to which.

A graph names the parents of every variable. Everything else follows: the order in which a world is completed, the
ancestors that may carry a change, the descendants that follow it.

Example:
    >>> graph = CausalGraph.parse("thickness -> intensity; thickness, intensity -> image")
    >>> graph.parents("image")
    ('thickness', 'intensity')
    >>> graph.ancestors("image")
    ('thickness', 'intensity')
    >>> print(graph)
    thickness -> intensity; thickness, intensity -> image
"""

__all__ = ["CausalGraph"]

import heapq
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from deepbc._validation import near, pick
from deepbc.errors import GraphError
from deepbc.notation import edges_parents, endpoints_parents, matrix_parents, read_file, read_text, write_arrows


class CausalGraph:
    r"""Creates an immutable causal graph from the parents of each variable.

    Args:
        parents: A mapping from every variable to the names of its parents. The order of the variables and of each
            variable's parents is kept.

    Raises:
        GraphError: The graph is empty, has a cycle, a self-loop, a duplicate edge or an unknown parent.

    Example:
        >>> graph = CausalGraph({"age": [], "income": ["age"], "loan": ["age", "income"]})
        >>> graph.order
        ('age', 'income', 'loan')
        >>> graph.descendants("income")
        ('loan',)
    """

    __slots__ = ("_children", "_order", "_parents")

    def __init__(self, parents: Mapping[str, Iterable[str]]) -> None:
        if not isinstance(parents, Mapping):
            raise GraphError(f"Expected a mapping from each variable to its parents, got {type(parents).__name__}.")
        if not parents:
            raise GraphError("The graph is empty. Name at least one variable, for example CausalGraph({'x': []}).")

        self._parents = {name: _names(name, listed) for name, listed in parents.items()}

        for name, listed in self._parents.items():
            _check_parents(name, listed, self._parents)

        children: dict[str, list[str]] = {name: [] for name in self._parents}
        for name, listed in self._parents.items():
            for parent in listed:
                children[parent].append(name)

        self._children = {name: tuple(listed) for name, listed in children.items()}
        self._order = _topological_order(self._parents, self._children)

    @classmethod
    def parse(cls, text: str) -> Self:
        r"""Reads a graph from text: names, commas, arrows, and `;` or a new line between statements.

        What begins as DOT (`digraph {`), GML (`graph [`) or DAGitty (`dag {`) is read as that.

        Args:
            text: For example `"a, b -> c; c -> d; e"`. A chain `"a -> b -> c"` and a lone name are statements too.
                A name with a sign that means something stands between quotes, `'"tip->driver" -> total'`, in which a
                backslash goes before a quote, and `\n` is a line break.

        Example:
            >>> CausalGraph.parse("a, b -> c -> d").edges
            (('a', 'c'), ('b', 'c'), ('c', 'd'))
            >>> CausalGraph.parse("digraph { {a b} -> c -> d }").edges
            (('a', 'c'), ('b', 'c'), ('c', 'd'))
        """
        if not isinstance(text, str):
            raise GraphError(f"parse: expected text such as 'a -> b', got {type(text).__name__}.")

        return cls(read_text(text))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        r"""Reads a graph from a file.

        Args:
            path: The file, of which the ending says what it is: `.dot` or `.gv`, `.gml`, `.dagitty`, `.txt` with text
                as `parse` takes it, or `.csv` with a cause and an effect a line. The columns of a `.csv` file are
                those that a header calls `from,to`, `source,target`, `cause,effect` or `parent,child`, or the only
                two.

        Raises:
            DataError: The file is missing, or is not UTF-8 text.
            GraphError: What stands in it is no causal graph; with the line where that is known.
        """
        try:
            return cls(read_file(path))
        except GraphError as error:
            where = "" if str(error).startswith(f"{path}:") else f"{path}: "
            raise GraphError(f"{where}{error}") from error

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[Any, Any]], nodes: Iterable[Any] = ()) -> Self:
        r"""Creates a graph from pairs of a cause and an effect.

        Args:
            edges: The pairs. What is no text becomes a name by `str`.
            nodes: Further variables, or all of them in an order of yours.

        Example:
            >>> CausalGraph.from_edges([("a", "b"), ("b", "c")], nodes=["d"]).to_dict()
            {'d': [], 'a': [], 'b': ['a'], 'c': ['b']}
        """
        return cls(edges_parents(edges, nodes, where="from_edges"))

    @classmethod
    def from_matrix(cls, matrix: Any, names: Iterable[str] | None = None) -> Self:
        r"""Creates a graph from an adjacency matrix.

        Args:
            matrix: 0 and 1, with shape `(variables, variables)`: 1 in row i and column j says that i causes j.
            names: The variables. A data frame with the same names on both sides needs none.

        Example:
            >>> CausalGraph.from_matrix([[0, 1], [0, 0]], ["a", "b"]).edges
            (('a', 'b'),)
        """
        return cls(matrix_parents(matrix, names))

    @classmethod
    def from_networkx(cls, graph: Any) -> Self:
        r"""Reads a graph from a `networkx.DiGraph`, whose nodes become names by `str`."""
        if not graph.is_directed():
            raise GraphError("from_networkx: expected a directed graph, got an undirected one. Use networkx.DiGraph.")

        return cls(edges_parents(graph.edges(), graph.nodes(), where="from_networkx"))

    @classmethod
    def from_pgmpy(cls, model: Any) -> Self:
        r"""Reads the graph of a Bayesian network of pgmpy, or of whatever has `nodes()` and directed `edges()`."""
        return cls(edges_parents(model.edges(), model.nodes(), where="from_pgmpy"))

    @classmethod
    def from_causal_learn(cls, graph: Any, names: Iterable[str] | None = None) -> Self:
        r"""Reads what causal-learn found, if every edge of it is an arrow.

        Args:
            graph: Its graph, what holds one as `G`, or the matrix of one: -1 at `[i, j]` and 1 at `[j, i]` say that
                i causes j.
            names: The variables, if not the nodes of the graph; of a matrix `X1`, `X2`, ... by default.

        Raises:
            GraphError: An edge is no arrow: undirected, with a circle or with heads at both ends. It is named.
        """
        return cls(endpoints_parents(graph, names))

    @property
    def order(self) -> tuple[str, ...]:
        """The variables, every parent before its children; ties keep the order in which they were named."""
        return self._order

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """The pairs (parent, child)."""
        return tuple((parent, name) for name, listed in self._parents.items() for parent in listed)

    def parents(self, name: str) -> tuple[str, ...]:
        """Names the direct causes of a variable, in the order in which its mechanism sees them."""
        return self._parents[pick(name, self._parents, "graph")]

    def children(self, name: str) -> tuple[str, ...]:
        """Names the direct effects of a variable."""
        return self._children[pick(name, self._parents, "graph")]

    def ancestors(self, *names: str) -> tuple[str, ...]:
        """Names all direct and indirect causes of the given variables, without themselves, in topological order."""
        return self._closure(names, self._parents)

    def descendants(self, *names: str) -> tuple[str, ...]:
        """Names all direct and indirect effects of the given variables, without themselves, in topological order."""
        return self._closure(names, self._children)

    def to_mermaid(self) -> str:
        r"""Writes the graph as a Mermaid flowchart.

        Example:
            >>> print(CausalGraph.parse("a -> b").to_mermaid())
            graph TD
                n0["a"]
                n1["b"]
                n0 --> n1
        """
        number = {name: f"n{i}" for i, name in enumerate(self)}
        nodes = [f'    {number[name]}["{name.replace(chr(34), "#quot;")}"]' for name in self]
        arrows = [f"    {number[cause]} --> {number[effect]}" for cause, effect in self.edges]

        return "\n".join(["graph TD", *nodes, *arrows])

    def part(self, names: Iterable[str]) -> "CausalGraph":
        """Creates the graph of some variables alone, with all causes of each; effects of theirs are left out."""
        kept = {pick(name, tuple(self), "part") for name in names}
        for name in (each for each in self if each in kept):
            for cause in self.parents(name):
                if cause not in kept:
                    raise GraphError(f"part: {cause!r} is a cause of {name!r} and left out. Name it too.")

        return CausalGraph({name: self.parents(name) for name in self if name in kept})

    def to_dict(self) -> dict[str, list[str]]:
        """Writes the graph as a mapping from every variable to its parents, as the constructor takes it."""
        return {name: list(listed) for name, listed in self._parents.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._parents)

    def __len__(self) -> int:
        return len(self._parents)

    def __contains__(self, name: object) -> bool:
        return name in self._parents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CausalGraph) and self._parents == other._parents

    def __hash__(self) -> int:
        return hash(frozenset(self._parents.items()))

    def __str__(self) -> str:
        """Writes the graph as text that `parse` takes."""
        return write_arrows(self._parents)

    def __repr__(self) -> str:
        return f"CausalGraph({self.to_dict()})"

    def _closure(self, names: tuple[str, ...], step: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        reached: set[str] = set()
        frontier = [neighbour for name in names for neighbour in step[pick(name, self._parents, "graph")]]

        while frontier:
            name = frontier.pop()
            if name not in reached:
                reached.add(name)
                frontier.extend(step[name])

        return tuple(name for name in self._order if name in reached and name not in names)


def _names(name: str, listed: Iterable[str]) -> tuple[str, ...]:
    if not isinstance(name, str) or not name.strip():
        raise GraphError(f"A variable needs a name: expected non-empty text, got {name!r}.")
    if any("\ud800" <= sign <= "\udfff" for sign in name):
        raise GraphError(
            f"Variable {name!r}: expected a name that can be written as UTF-8, got half a sign. Rename it."
        )
    if not isinstance(listed, Iterable):
        raise GraphError(f"Variable {name!r}: expected a list of parents, got {listed!r}. Write [].")
    if isinstance(listed, str):
        raise GraphError(f"Variable {name!r}: expected a list of parents, got the text {listed!r}. Write [{listed!r}].")

    return tuple(listed)


def _check_parents(name: str, listed: tuple[str, ...], known: Mapping[str, tuple[str, ...]]) -> None:
    seen = set[str]()
    for parent in listed:
        if parent == name:
            raise GraphError(f"Variable {name!r} is its own parent ({name} -> {name}). Remove the self-loop.")
        if parent in seen:
            raise GraphError(f"The edge {parent} -> {name} is given twice. Remove one.")
        seen.add(parent)
        if parent not in known:
            hint = near(parent, known) or f"Add {parent!r}: [] to the graph."
            raise GraphError(f"Variable {name!r} has the unknown parent {parent!r}. {hint}")


def _topological_order(
    parents: Mapping[str, tuple[str, ...]], children: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    number = {name: i for i, name in enumerate(parents)}
    waiting = {name: len(listed) for name, listed in parents.items()}
    ready = [number[name] for name in parents if not waiting[name]]
    names, order = list(parents), list[str]()

    while ready:
        order.append(names[heapq.heappop(ready)])
        for child in children[order[-1]]:
            waiting[child] -= 1
            if not waiting[child]:
                heapq.heappush(ready, number[child])

    if len(order) < len(parents):
        cycle = " -> ".join(_cycle({name: listed for name, listed in parents.items() if waiting[name]}))
        raise GraphError(f"The graph has a cycle: {cycle}. Causes must come before effects; remove one of its edges.")

    return tuple(order)


def _cycle(parents: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Follows parents, of which every variable here has one, until one comes again; first name first."""
    path = [next(iter(parents))]
    visited = {path[0]: 0}

    while True:
        cause = next(parent for parent in parents[path[-1]] if parent in parents)
        if cause in visited:
            cycle = path[visited[cause] :][::-1]
            number = {name: i for i, name in enumerate(parents)}
            first = cycle.index(min(cycle, key=number.__getitem__))
            return [*cycle[first:], *cycle[:first], cycle[first]]
        visited[cause] = len(path)
        path.append(cause)
