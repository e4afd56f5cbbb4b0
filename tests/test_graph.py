import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepbc import CausalGraph, GraphError, UnknownNameError

# a -> c <- b,  c -> d,  e alone
TEXT = "a, b -> c; c -> d; e"


def random_parents(draw, most=8):
    size = draw(st.integers(1, most))
    names = [f"v{i}" for i in range(size)]
    return {name: [cause for cause in names[:i] if draw(st.booleans())] for i, name in enumerate(names)}


def test_text_and_mapping_give_the_same_graph():
    mapping = {"a": [], "b": [], "c": ["a", "b"], "d": ["c"], "e": []}
    assert CausalGraph.parse(TEXT) == CausalGraph(mapping)
    assert hash(CausalGraph.parse(TEXT)) == hash(CausalGraph(mapping))


def test_chain_and_lines_are_statements():
    assert CausalGraph.parse("a -> b -> c\n\n d").edges == (("a", "b"), ("b", "c"))
    assert list(CausalGraph.parse("New Jumbles Rock -> p44/42")) == ["New Jumbles Rock", "p44/42"]


def test_names_of_a_mapping_are_free():
    assert list(CausalGraph({"#items": [], "p<0.05\n\xa0": ["#items"]})) == ["#items", "p<0.05\n\xa0"]
    assert list(CausalGraph.parse("x-ray -> t-cell")) == ["x-ray", "t-cell"]


def test_relations_of_a_small_graph():
    graph = CausalGraph.parse(TEXT)
    assert graph.parents("c") == ("a", "b")
    assert graph.children("c") == ("d",)
    assert graph.ancestors("d") == ("a", "b", "c")
    assert graph.ancestors("c", "d") == ("a", "b")
    assert graph.descendants("a") == ("c", "d")
    assert graph.descendants("e") == ()
    assert len(graph) == 5
    assert "e" in graph
    assert "f" not in graph


def test_order_of_parents_and_variables_is_kept():
    graph = CausalGraph({"z": ["b", "a"], "b": [], "a": []})
    assert list(graph) == ["z", "b", "a"]
    assert graph.parents("z") == ("b", "a")
    assert graph.order == ("b", "a", "z")


def test_mermaid_names_every_edge():
    text = CausalGraph.parse('say "hi" -> b').to_mermaid()
    assert text.splitlines() == ["graph TD", '    n0["say #quot;hi#quot;"]', '    n1["b"]', "    n0 --> n1"]


def test_graph_cannot_be_changed():
    graph = CausalGraph.parse("a -> b")
    graph.to_dict()["b"].append("c")
    assert graph.parents("b") == ("a",)
    with pytest.raises(AttributeError):
        graph.order = ()


@pytest.mark.parametrize(
    ("make", "error", "part"),
    [
        (lambda: CausalGraph({}), GraphError, "empty"),
        (lambda: CausalGraph.parse(" ; "), GraphError, "empty"),
        (lambda: CausalGraph.parse("a -> b -> a"), GraphError, ": a -> b -> a."),
        (lambda: CausalGraph.parse("x -> a; a -> b; b -> c; c -> a; c -> y"), GraphError, "a -> b -> c -> a"),
        (lambda: CausalGraph({"a": ["a"]}), GraphError, "a -> a"),
        (lambda: CausalGraph.parse("a -> b; a -> b"), GraphError, "a -> b is given twice"),
        (lambda: CausalGraph({"intensity": ["thicknes"], "thickness": []}), GraphError, "'thickness'?"),
        (lambda: CausalGraph({"a": ["zzz"]}), GraphError, "Add 'zzz': []"),
        (lambda: CausalGraph({"b": "a", "a": []}), GraphError, "Write ['a']"),
        (lambda: CausalGraph({"": []}), GraphError, "non-empty text"),
        (lambda: CausalGraph({3: []}), GraphError, "got 3"),
        (lambda: CausalGraph.parse("a, -> b"), GraphError, "a name is missing"),
        (lambda: CausalGraph.parse("a -> "), GraphError, "a name is missing"),
        (lambda: CausalGraph.parse("a --> b"), GraphError, "'a -' is no name. Write 'a -> b'."),
        (lambda: CausalGraph.parse("a -> b; b <- c"), GraphError, "Cannot read the statement 'b <- c'"),
        (lambda: CausalGraph.parse("a => b"), GraphError, "'a => b' is no name"),
        (lambda: CausalGraph.parse("a → b"), GraphError, "'a → b' is no name"),
        (lambda: CausalGraph.parse("# who listens to whom\na -> b"), GraphError, "'# who listens to whom' is no name"),
        (lambda: CausalGraph.parse(None), GraphError, "parse: expected text such as 'a -> b', got NoneType."),
        (lambda: CausalGraph({"a\ud800": []}), GraphError, "'a\\ud800': expected a name that can be written as UTF-8"),
        (lambda: CausalGraph.from_networkx(nx.DiGraph([(1, "1")])), GraphError, "two nodes have one name"),
        (lambda: CausalGraph.from_networkx(nx.Graph([("a", "b")])), GraphError, "DiGraph"),
        (lambda: CausalGraph.parse("thickness -> b").parents("thicknes"), UnknownNameError, "Did you mean 'thickness'"),
        (lambda: CausalGraph.parse("a -> b").ancestors("q"), UnknownNameError, "Known are: 'a', 'b'"),
    ],
)
def test_bad_graphs_say_what_is_wrong(make, error, part):
    with pytest.raises(error) as caught:
        make()
    assert part in str(caught.value)
    assert str(caught.value).endswith((".", "?"))
    assert not str(caught.value).endswith(("..", "?."))


@given(st.data())
def test_relations_agree_with_networkx(data):
    parents = random_parents(data.draw)
    graph = CausalGraph(parents)
    other = nx.DiGraph([(cause, name) for name, causes in parents.items() for cause in causes])
    other.add_nodes_from(parents)

    assert set(CausalGraph.from_networkx(other).edges) == set(other.edges)
    position = {name: i for i, name in enumerate(graph.order)}
    assert all(position[cause] < position[effect] for cause, effect in graph.edges)
    for name in graph:
        assert set(graph.ancestors(name)) == nx.ancestors(other, name)
        assert set(graph.descendants(name)) == nx.descendants(other, name)


def test_cycle_of_many_variables_is_named_in_full():
    size = 2000
    parents = {f"v{i}": [f"v{(i - 1) % size}"] for i in range(size)}
    with pytest.raises(GraphError) as caught:
        CausalGraph(parents)
    assert str(caught.value).count(" -> ") == size
