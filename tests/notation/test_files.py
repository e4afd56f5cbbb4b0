"""Graphs in files, by their ending."""

import time

import networkx as nx
import pytest

from deepbc import CausalGraph, DataError, GraphError

# a -> b, a -> c
EDGES = {"a": [], "b": ["a"], "c": ["a"]}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.dot", "digraph { a -> {b c} }"),
        ("g.gv", "// a graph\ndigraph{a->b a->c}"),
        ("g.GML", "\n".join(nx.generate_gml(nx.DiGraph([("a", "b"), ("a", "c")])))),
        ("g.dagitty", "dag { b <- a -> c }"),
        ("g.txt", "\ufeffa -> b\na -> c\n"),
        ("g.txt", "digraph { a -> b, c }"),
        ("g.csv", "from,to\na,b\na,c\n"),
        ("g.csv", "\ufeffFrom,To\r\na,b\r\na,c\r\n"),
        ("g.csv", "a,b\na, c\n\n"),
        ("g.csv", '"","weight","effect","cause"\n1,0.5,b,a\n2,0.5,c,a\n'),
        ("g.csv", "parent,child\na,b\na,c\na\n"),
    ],
)
def test_files_are_read_by_their_ending(name, text, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    graph = CausalGraph.read(tmp_path / name)
    assert {name: list(graph.parents(name)) for name in sorted(graph)} == EDGES


def test_a_lone_cell_is_a_variable(tmp_path):
    (tmp_path / "g.csv").write_text('from,to\n"x, y",\na,b\n,c\nd\n')
    assert CausalGraph.read(tmp_path / "g.csv").to_dict() == {"x, y": [], "a": [], "b": ["a"], "c": [], "d": []}


@pytest.mark.parametrize(
    ("name", "content", "error", "part"),
    [
        ("g.png", b"", GraphError, "g.png: expected a name that ends in one of .dot"),
        ("g", b"", GraphError, "'no ending'"),
        ("g.dot", b"a -> b", GraphError, "g.dot: DOT, line 1, column 1: expected digraph { ... }, got 'a'"),
        ("g.gml", b"a -> b", GraphError, "g.gml: GML, line 1, column 3: the sign '-'"),
        ("g.dot", "digraph { größe }".encode("latin-1"), DataError, "g.dot: is not UTF-8 text (at byte 12)"),
        ("g.txt", "a -> b".encode("utf-16"), DataError, "is not UTF-8"),
        ("g.txt", b"", GraphError, "g.txt: The graph is empty"),
        ("g.csv", b"", GraphError, "g.csv: The graph is empty"),
        ("g.csv", b"age,income,amount\n1,2,3\n", GraphError, "line 1: expected two columns, from and to"),
        ("g.csv", b"from,to\na,b,c\n", GraphError, "line 2: expected two columns"),
        ("g.csv", b'from,to\n"a,b\n', GraphError, "is not CSV"),
        ("g.csv", b"a,b\nb,a\n", GraphError, "g.csv: The graph has a cycle: a -> b -> a."),
        ("g.dot", b"digraph { a -> }", GraphError, "g.dot: DOT, line 1, column 16"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(name, content, error, part, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error) as caught:
        CausalGraph.read(tmp_path / name)
    assert part in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        CausalGraph.read(tmp_path / "g.dot")
    (tmp_path / "folder.dot").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        CausalGraph.read(tmp_path / "folder.dot")


def test_ten_thousand_edges_take_no_time():
    edges = [(f"v{k // 2}", f"v{k}") for k in range(1, 10_001)]
    texts = {
        "own": "; ".join(f"{cause} -> {effect}" for cause, effect in edges),
        "dot": f"digraph {{ {' '.join(f'{cause} -> {effect} [w=1];' for cause, effect in edges)} }}",
        "dag": f"dag {{ {chr(10).join(f'{cause} -> {effect}' for cause, effect in edges)} }}",
        "gml": "\n".join(nx.generate_gml(nx.DiGraph(edges))),
    }
    for text in texts.values():
        start = time.process_time()
        assert len(CausalGraph.parse(text).edges) == 10_000
        # A tenth of it on a quiet machine.
        assert time.process_time() - start < 5
