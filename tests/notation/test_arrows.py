"""Our own text: what cannot be read is said, with the place."""

import pytest

from deepbc import CausalGraph, GraphError


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('"a -> b', 'the quote " at line 1, column 1 is not closed'),
        ("a -> c;\nb -> 'c", "statement \"b -> 'c\" of line 2: the quote ' at line 2, column 6 is not closed"),
        ('"a" b -> c', "after the quoted name \"a\" stands 'b'"),
        ('"a" "b"', "after the quoted name \"a\" stands '\"b\"'"),
        ("a <-> b", "the edge a <-> b stands for a common cause that is not measured"),
        ('c, a<->"b c"', 'u -> a; u -> "b c"'),
        ('"a b" <-> c', 'the edge "a b" <-> c stands for a common cause'),
        ('"a" -- "b c"', 'the edge a -- "b c" has no direction'),
        ("a -- b", "the edge a -- b has no direction"),
        ("// a", "'// a' is no name"),
        ("/* a */", "'/* a */' is no name"),
        ("{a b} -> c", "If it is one, put it in quotes: \"{a b}\""),
        ("'' -> a", "expected non-empty text"),
        ("a,", "a name is missing"),
        ("", "empty"),
        ("a," * 10_000, "a,a,a,..."),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(text, part):
    with pytest.raises(GraphError) as caught:
        CausalGraph.parse(text)
    assert part in str(caught.value)


def test_line_ends_of_any_system_and_a_byte_order_mark_are_read():
    assert CausalGraph.parse("\ufeffa\r\nb -> c\r\n").to_dict() == {"a": [], "b": [], "c": ["b"]}


def test_ten_thousand_causes_are_read_at_once():
    names = [f"v{k}" for k in range(10_000)]
    graph = CausalGraph.parse(f"{', '.join(names)} -> y")
    assert graph.parents("y") == tuple(names)
