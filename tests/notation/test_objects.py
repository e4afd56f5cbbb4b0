"""Graphs that other libraries hold."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepbc import CausalGraph, GraphError


class Node:
    """A node as causal-learn has it."""

    def __init__(self, name):
        self.name = name

    def get_name(self):
        return self.name


class General:
    """A graph as causal-learn has it."""

    def __init__(self, marks, names):
        self.graph, self.names = np.array(marks), names

    def get_nodes(self):
        return [Node(name) for name in self.names]


class BayesianNetwork(nx.DiGraph):
    """A network as pgmpy has it."""


def test_pairs_of_anything_are_edges():
    assert CausalGraph.from_edges([(1, "b"), ["b", "c"]], nodes=["d"]).to_dict() == {
        "d": [], "1": [], "b": ["1"], "c": ["b"],
    }  # fmt: skip
    table = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"]})
    assert CausalGraph.from_edges(table.to_numpy()).edges == (("a", "b"), ("b", "c"))


def test_a_network_of_pgmpy_is_read():
    model = BayesianNetwork([("rain", "wet"), ("sprinkler", "wet")])
    assert CausalGraph.from_pgmpy(model).to_dict() == {"rain": [], "wet": ["rain", "sprinkler"], "sprinkler": []}


@given(st.data())
def test_matrices_hold_the_same_graph(data):
    size = data.draw(st.integers(1, 7))
    names = [f"v{k}" for k in data.draw(st.permutations(range(size)))]
    entries = data.draw(st.lists(st.integers(0, 1), min_size=size**2, max_size=size**2))
    order = data.draw(st.permutations(range(size)))
    matrix = np.triu(np.array(entries).reshape(size, size), 1)[np.ix_(order, order)]
    graph = CausalGraph.from_matrix(matrix, names)
    assert set(graph.edges) == set(nx.relabel_nodes(nx.DiGraph(matrix), dict(enumerate(names))).edges)
    assert CausalGraph.from_matrix(pd.DataFrame(matrix == 1, names, names)) == graph

    # As causal-learn has it: -1 at the end of the cause, 1 at the other.
    marks = matrix.T - matrix
    assert CausalGraph.from_causal_learn(General(marks, names)) == graph
    assert CausalGraph.from_causal_learn(SimpleNamespace(G=General(marks, names))) == graph
    assert CausalGraph.from_causal_learn(marks, names) == graph


def test_a_bare_matrix_of_causal_learn_has_names_of_its_own():
    assert CausalGraph.from_causal_learn([[0, -1], [1, 0]]).edges == (("X1", "X2"),)


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: CausalGraph.from_edges(["ab"]), "expected pairs such as ('a', 'b'), got 'ab'"),
        (lambda: CausalGraph.from_edges([("a", "b", 3)]), "got ('a', 'b', 3)"),
        (lambda: CausalGraph.from_edges([3]), "got 3"),
        (lambda: CausalGraph.from_edges([(1, 2), ("1", 3)]), "from_edges: two nodes have one name"),
        (lambda: CausalGraph.from_edges([]), "empty"),
        (lambda: CausalGraph.from_edges([("a", "b"), ("a", "b")]), "given twice"),
        (lambda: CausalGraph.from_matrix([[0, 1], [0, 0]]), "expected names"),
        (lambda: CausalGraph.from_matrix([[0, 1]], ["a", "b"]), "got int64 of shape (1, 2)"),
        (lambda: CausalGraph.from_matrix([["x"]], ["a"]), "expected a matrix of numbers"),
        (lambda: CausalGraph.from_matrix([[0, 0.5], [0, 0]], ["a", "b"]), "got 0.5. Of weights give matrix != 0"),
        (lambda: CausalGraph.from_matrix([[0, np.nan], [0, 0]], ["a", "b"]), "got nan"),
        (lambda: CausalGraph.from_matrix([[0, 1], [0, 0]], ["a", "a"]), "the name 'a' comes twice"),
        (lambda: CausalGraph.from_matrix([[1]], ["a"]), "its own parent"),
        (lambda: CausalGraph.from_matrix(pd.DataFrame([[0]], ["a"], ["b"])), "the same names in the same order"),
        (lambda: CausalGraph.from_causal_learn([[0, -1], [-1, 0]]), "the edge X1 -- X2 has no direction"),
        (lambda: CausalGraph.from_causal_learn([[0, 1], [1, 0]]), "the edge X1 <-> X2 stands for a common cause"),
        (lambda: CausalGraph.from_causal_learn([[0, 2], [1, 0]]), "the edge X1 o-> X2 leaves open"),
        (lambda: CausalGraph.from_causal_learn([[0, 2], [2, 0]], ["a", "b c"]), 'the edge a o-o "b c" leaves open'),
        (lambda: CausalGraph.from_causal_learn(-1 + np.eye(3)), "Others that are no arrows: X1 -- X3, X2 -- X3."),
        (lambda: CausalGraph.from_causal_learn(-1 + np.eye(9)), "and 30 more"),
        (lambda: CausalGraph.from_causal_learn([[0, 1], [0, 0]]), "the edge X1"),
    ],
)  # fmt: skip
def test_what_is_no_causal_graph_is_said(make, part):
    with pytest.raises(GraphError) as caught:
        make()
    assert part in str(caught.value)
