"""DOT and DAGitty."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepbc import CausalGraph, GraphError

DOT = r"""
# who listens to whom
strict digraph "my \"graph\"" {
    rankdir=LR; graph [bgcolor="white"] node [shape=box, label="\N"]
    edge [color="#ff0000"; weight=2]
    age [label=<<b>Age</b>, in years>, pos="0,1!"];
    age -> income -> amount // the law of a loan
    age:s -> amount:n:sw [label="a -> b"] /* no
        edge here: x -> y */
    subgraph cluster_0 { label = "two"; {"tip->driver", fee} -> total }
    "a\
b" + " c" -> total
    _x1; -1.5; é;
    age -> income
}
"""


def test_dot_of_all_kinds_is_read():
    assert CausalGraph.parse(DOT).to_dict() == {
        "age": [],
        "income": ["age"],
        "amount": ["income", "age"],
        "tip->driver": [],
        "fee": [],
        "total": ["tip->driver", "fee", "ab c"],
        "ab c": [],
        "_x1": [],
        "-1.5": [],
        "é": [],
    }


def test_quotes_in_dot_are_those_of_graphviz():
    assert list(CausalGraph.parse(r'digraph { "a\"b" -> "c\\"; "x\y" }')) == ['a"b', "c\\\\", "x\\y"]


def test_labels_name_nodes_that_are_mere_numbers():
    # As causal-learn writes its graphs.
    text = 'digraph { 0 [label=X1]; 1 [label="X 2"]; 0 -> 1 [dir=both, arrowtail=none, arrowhead=normal]; }'
    assert CausalGraph.parse(text).to_dict() == {"X1": [], "X 2": ["X1"]}
    assert CausalGraph.parse("digraph { 0 [label=a]; 0 -> 1 }").to_dict() == {"0": [], "1": ["0"]}
    assert CausalGraph.parse("digraph { a [label=Age]; a -> b [label=x] }").to_dict() == {"a": [], "b": ["a"]}


def test_dagitty_is_read():
    text = """dag {
        bb="-3.1,-2,3,2"
        "a b" [pos="0,1"]
        x.1 [exposure,pos="0,1"]
        y-2 [outcome,pos="-1.5,0.2"]
        u [latent]
        "a b" -> x.1 -> y-2
        y-2 <- u -> x.1 [beta=0.5]
        {node edge} -> graph
    }"""
    assert CausalGraph.parse(text).to_dict() == {
        "a b": [], "x.1": ["a b", "u"], "y-2": ["x.1", "u"], "u": [], "node": [], "edge": [], "graph": ["node", "edge"],
    }  # fmt: skip
    assert CausalGraph.parse("dag{a->b b->c}").edges == (("a", "b"), ("b", "c"))
    assert CausalGraph.parse('dag { "a b" -> c ; x [exposure,pos="0,1"] ; a <- b }').edges == (("a b", "c"), ("b", "a"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("graph { a -- b }", "line 1, column 1: graph { ... } is undirected"),
        ("digraph {\n a -> b;\n b -- c }", "DOT, line 3, column 4: the edge b -- c has no direction"),
        ("digraph { a <-> b }", "column 13: the edge a <-> b stands for a common cause that is not measured"),
        ("digraph { a -> b [dir=both] }", "common cause"),
        ("digraph { edge [dir=none] a -> b }", "no direction"),
        ("digraph { a -> b [arrowhead=none] }", "no direction"),
        ("digraph { a -> b [dir=back] }", "Write b -> a"),
        ("digraph { a -> b [dir=both, arrowtail=odot] }", "leaves open"),
        ("digraph { a <- b }", "the edge a <- b is drawn backwards"),
        ("digraph { a -> b", "line 1, column 9: the brace { is not closed"),
        ('digraph {\n "a -> b }', 'line 2, column 2: the quote " is not closed'),
        ("digraph { a [x=y", "column 13: the bracket [ is not closed"),
        ("digraph { a [x=y -> b }", "expected an attribute such as color=red, got '->'"),
        ("digraph { a [x=] }", "expected a value of x, got ']'"),
        ("digraph { /* a -> b }", "the comment /* is not closed"),
        ("digraph { a -> }", "expected a variable, got '}'"),
        ("digraph { a.b -> c }", 'Put it in quotes: "a.b"'),
        ("digraph { a-b -> c }", 'Put it in quotes: "a-b"'),
        ("digraph { a -> b @ c }", "the sign '@' has no meaning here"),
        ("digraph { a -> b } digraph { c }", "nothing behind the last }"),
        ("digraph { node -> b }", 'a variable is written "node"'),
        ("digraph " + "{" * 5000, "at most 100 braces"),
        ("digraph {}", "empty"),
        ("digraph { // a\n}", "empty"),
        ("digraph { a -> b -> a }", "a -> b -> a"),
        ("digraph { a -> a }", "its own parent"),
        ("digraph { a -> b; a -> b }", "given twice"),
        ("dag {\n a <-> b }", "DAGitty, line 2, column 4: the edge a <-> b stands for a common cause"),
        ("dag { a -- b }", "no direction"),
        ("pag { a @-> b }", "stands for many graphs"),
        ("dag { a @-> b }", "leaves open"),
        ('dag { "a }', "not closed"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text, part):
    with pytest.raises(GraphError) as caught:
        CausalGraph.parse(text)
    assert part in str(caught.value)


@given(st.data())
def test_what_networkx_holds_is_read_from_dot(data):
    size = data.draw(st.integers(1, 7))
    names = data.draw(st.lists(st.text("ab {}->;[],=#/'é\n", min_size=1), min_size=size, max_size=size, unique=True))
    names = [name for name in names if name.strip()] or ["a"]
    pairs = [(names[i], names[j]) for j in range(len(names)) for i in range(j) if data.draw(st.booleans())]
    graph = nx.DiGraph(pairs)
    graph.add_nodes_from(names)
    lines = [f'"{node}" [x="1"]' for node in graph] + [f'"{cause}" -> "{effect}"' for cause, effect in graph.edges]
    for head in ("digraph G", "dag"):
        read = CausalGraph.parse(f"{head} {{ {data.draw(st.sampled_from([';', ' ', chr(10)])).join(lines)} }}")
        assert set(read) == set(graph)
        assert set(read.edges) == set(graph.edges)
