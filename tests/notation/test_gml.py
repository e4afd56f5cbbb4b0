"""GML, against networkx."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepbc import CausalGraph, GraphError


@given(st.data())
def test_what_networkx_writes_is_read(data):
    names = data.draw(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=7, unique=True))
    names = [name for name in names if not any("\ud800" <= sign <= "\udfff" for sign in name)] or ["a"]
    graph = nx.DiGraph([(a, b) for k, b in enumerate(names) for a in names[:k] if data.draw(st.booleans())])
    graph.add_nodes_from(names, weight=0.5, nested={"x": [1, 2]})
    text = "\n".join(nx.generate_gml(graph))
    read = CausalGraph.parse(text)
    other = nx.parse_gml(text)
    assert list(read) == list(other)
    assert set(read.edges) == set(other.edges)


def test_entities_are_signs():
    text = 'graph [ directed 1 node [ id 0 label "&quot;&#38;&#x41;&eacute;&nothing;&#99999999;" ] ]'
    assert list(CausalGraph.parse(text)) == ['"&Aé&nothing;&#99999999;']


def test_other_programs_name_nodes_otherwise():
    igraph = """Creator "igraph version 0.10"
    Version 1
    # a comment
    graph [ directed 1 node [ id 0 name "a" x -1.5e3 ] node [ id 1 name "b" ] edge [ source 1 target 0 ] ]"""
    assert CausalGraph.parse(igraph).to_dict() == {"a": ["b"], "b": []}
    assert CausalGraph.parse("graph [ directed 1 node [ id 3 ] node [ id 4 ] edge [ source 3 target 4 ] ]").edges == (
        ("3", "4"),
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("graph [ node [ id 0 ] ]", "expected a directed graph, which has the line directed 1"),
        ("Version 1\ngraph [ directed 0 ]", "GML, line 2, column 1: expected a directed graph"),
        ("graph [ directed 1 ]", "empty"),
        ("graph [ directed 1\n node [ id 0 ", "line 2, column 7: the bracket [ is not closed"),
        ('graph [ directed 1 node [ id 0 label "x ] ]', 'column 38: the quote " is not closed'),
        ("graph [ directed 1 node [ label 3 ] ]", "this node has no id"),
        ("graph [ directed 1 node [ id 0 ] node [ id 0 ] ]", "the id 0 comes twice"),
        ('graph [ directed 1 node [ id 0 label "a" ] node [ id 1 label "a" ] ]', "two nodes have the name 'a'"),
        ("graph [ directed 1 node [ id 0 ] edge [ source 0 target 7 ] ]", "no node has the id 7"),
        ("graph [ directed 1 node [ id 0 ] edge [ source 0 ] ]", "this edge has no target"),
        ("graph [ directed 1 node [ id 0 ] edge [ source 0 target 0 ] ]", "its own parent"),
        ("graph [ directed 1 ] graph [ directed 1 ]", "expected one graph"),
        ("graph [ directed ]", "expected a value of directed, got ']'"),
        ("graph [ directed 1 ] ]", "expected a key such as graph, got ']'"),
        ("graph [ 1 ]", "expected a key such as node, got '1'"),
        ("graph [ directed 1 @ ]", "the sign '@'"),
        ("graph " + "[ a " * 5000, "at most 100 brackets"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text, part):
    with pytest.raises(GraphError) as caught:
        CausalGraph.parse(text)
    assert part in str(caught.value)
