"""Graphs that other libraries hold: nodes and edges, and matrices."""

__all__ = ["edges_parents", "endpoints_parents", "matrix_parents"]

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepbc.errors import GraphError
from deepbc.notation.sketch import Parents, Sketch, refusal

# Marks at the ends of an edge in causal-learn.
NO_EDGE, TAIL, ARROW, CIRCLE = 0, -1, 1, 2
MOST_NAMED = 5


def edges_parents(edges: Iterable[Any], nodes: Iterable[Any] = (), *, where: str) -> Parents:
    """Reads pairs of a cause and an effect, and further variables, which come first."""
    sketch, originals = Sketch(), dict[str, Any]()

    def named(node: Any) -> str:
        if originals.setdefault(str(node), node) != node:
            raise GraphError(f"{where}: two nodes have one name, as 1 and '1' do. Rename one.")
        return str(node)

    for node in nodes:
        sketch.add(named(node))
    for edge in edges:
        ends = list(edge) if isinstance(edge, Iterable) and not isinstance(edge, str) else []
        if len(ends) != 2:
            raise GraphError(f"{where}: expected pairs such as ('a', 'b'), got {edge!r}.")
        sketch.connect(*map(named, ends))

    return sketch.parents


def matrix_parents(matrix: Any, names: Iterable[str] | None) -> Parents:
    """Reads a matrix of 0 and 1, whose rows cause its columns; a data frame has the names itself."""
    where = "from_matrix"
    if names is None:
        if not hasattr(matrix, "columns"):
            raise GraphError(f"{where}: expected names, one for each row. Give names=['a', 'b', ...].")
        names = list(map(str, matrix.columns))
        if names != list(map(str, matrix.index)):
            raise GraphError(f"{where}: expected rows and columns of the same names in the same order.")
    array, listed = _square(matrix, names, where)
    wrong = ~np.isin(array, (0, 1))
    if wrong.any():
        raise GraphError(
            f"{where}: expected 0 and 1, where a row causes a column, got {array[wrong][0]}. Of weights give "
            f"matrix != 0; a matrix of causal-learn is read by from_causal_learn."
        )

    return _connected(listed, array == 1)


def endpoints_parents(graph: Any, names: Iterable[str] | None) -> Parents:
    """Reads a graph of causal-learn, or its matrix, in which `[i, j]` is the mark at the end i of the edge i, j."""
    where = "from_causal_learn"
    # What its algorithms return holds the graph as `G`.
    graph = getattr(graph, "G", graph)
    if hasattr(graph, "get_nodes"):
        names = [node.get_name() for node in graph.get_nodes()] if names is None else names
        graph = graph.graph
    elif names is None:
        names = [f"X{k + 1}" for k in range(len(graph))]
    marks, listed = _square(graph, names, where)
    arrows = (marks == TAIL) & (marks.T == ARROW)
    refused = np.triu((marks != NO_EDGE) | (marks.T != NO_EDGE)) & ~arrows & ~arrows.T
    if refused.any():
        raise GraphError(f"{where}: {_refused(marks, refused, listed)}")

    return _connected(listed, arrows)


def _square(matrix: Any, names: Iterable[str], where: str) -> tuple[NDArray[Any], list[str]]:
    array, listed = np.asarray(matrix), list(names)
    if array.dtype.kind not in "biuf" or array.shape != (len(listed), len(listed)):
        raise GraphError(
            f"{where}: expected a matrix of numbers with a row and a column for each of the {len(listed)} names, got "
            f"{array.dtype} of shape {array.shape}."
        )
    for name in listed:
        if listed.count(name) > 1:
            raise GraphError(f"{where}: the name {name!r} comes twice. Rename one.")

    return array, listed


def _connected(names: Sequence[str], arrows: NDArray[np.bool_]) -> Parents:
    return {name: [names[i] for i in np.flatnonzero(arrows[:, j]).tolist()] for j, name in enumerate(names)}


def _refused(marks: NDArray[Any], refused: NDArray[np.bool_], names: Sequence[str]) -> str:
    """Says which edges are no arrows, the first of them with what to do."""
    left = {TAIL: "-", ARROW: "<", CIRCLE: "o"}
    right = left | {ARROW: ">"}
    edges = []
    for i, j in np.argwhere(refused).tolist():
        sign = f"{left.get(marks[i, j], '?')}-{right.get(marks[j, i], '?')}"
        edges.append((names[i], sign.replace("---", "--"), names[j]))
    others = [f"{a} {sign} {b}" for a, sign, b in edges[1 : MOST_NAMED + 1]]
    more = f" and {len(edges) - 1 - len(others)} more" if len(edges) > MOST_NAMED + 1 else ""

    return refusal(*edges[0]) + (f" Others that are no arrows: {', '.join(others)}{more}." if others else "")
