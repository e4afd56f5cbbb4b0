"""Names with any sign in them: written, read, and read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepbc import CausalGraph, SettingError
from deepbc.batches.conditions import parse_bounds, parse_conditions, parse_scope, parse_types, parse_weights
from deepbc.data.categories import Levels
from deepbc.notation.names import quote, split_names, unquote

SIGNS = "ab <>=-,;#{}[]\\\"'\n\r\t/*:|→$é\x85\u2028\ufeff0."
NAMES = st.text(st.sampled_from(SIGNS), min_size=1, max_size=8).filter(str.strip) | st.text(min_size=1).filter(
    lambda name: name.strip() and not any("\ud800" <= sign <= "\udfff" for sign in name)
)


def parents_of(draw, names):
    """A drawn graph in which causes may be named after their effects."""
    causes = {name: [cause for cause in names[:k] if draw(st.booleans())] for k, name in enumerate(names)}
    return {name: causes[name] for name in draw(st.permutations(names))}


@given(st.data())
def test_a_graph_is_read_as_it_was_written(data):
    names = data.draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    graph = CausalGraph(parents_of(data.draw, names))
    again = CausalGraph.parse(str(graph))
    assert again == graph
    assert list(again) == list(graph)


def words(names):
    return dict.fromkeys(names, Levels(("x", "y")))


@given(NAMES)
def test_a_quoted_name_is_that_name(name):
    for quoted in (quote(name, always=True), "'" + quote(name, always=True)[1:-1].replace("'", "\\'") + "'"):
        assert unquote(quoted) == name
        assert split_names(f" {quoted} , b") == [name, "b"]


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True))
def test_options_of_the_command_line_take_any_name_in_quotes(names):
    for name in names:
        quoted = quote(name, always=True)
        assert parse_conditions([f"{quoted}=3"], names) == {name: 3.0}
        between = parse_conditions([f"1 <= {quoted} <= 2"], names)[name]
        assert (between.lower, between.upper) == (1.0, 2.0)
        assert parse_conditions([f"{quoted} = a=b"], names, words(names)) == {name: "a=b"}
        assert parse_weights([f"{quoted}=2"], names) == {name: 2.0}
        assert parse_bounds([f"{quoted}=0,"], names) == {name: (0.0, None)}
        assert parse_types([f"{quoted}=low,high"], names) == {name: ["low", "high"]}
    assert parse_scope(", ".join(quote(name, always=True) for name in names), names) == names


def test_plain_names_are_written_without_quotes():
    for name in ("age", "New Jumbles Rock", "p44/42", "x-ray", "größe", "5 %", "f(x)", "a.b"):
        assert quote(name) == name
    assert str(CausalGraph({"d": [], "c": ["a", "b"], "a": [], "b": ["a"]})) == "d, c, a, b; d; a, b -> c; a -> b"
    assert str(CausalGraph({"a": [], "b": ["a"], "c": []})) == "a -> b; c"


def test_either_quote_and_escapes_are_read():
    graph = CausalGraph.parse(r""""tip->driver" -> "fare=$"; 'a, b' -> c; "say \"hi\"" -> 'it\'s'; "a\nb\\" """)
    assert list(graph) == ["tip->driver", "fare=$", "a, b", "c", 'say "hi"', "it's", "a\nb\\"]
    assert list(CausalGraph.parse('Parkinson\'s -> say "hi"')) == ["Parkinson's", 'say "hi"']


def test_known_names_need_no_quotes_where_they_mean_one_thing():
    names = ("fare=$", "tip->driver", "a,b", "a", "30<=x")
    assert parse_conditions(["fare=$=3", "tip->driver>=2"], names)["fare=$"] == 3.0
    assert repr(parse_conditions(["1<=tip->driver<=2"], names)) == "{'tip->driver': between(1.0, 2.0)}"
    assert parse_weights(["fare=$=5"], names) == {"fare=$": 5.0}
    assert parse_scope("a,b", names) == ["a,b"]
    assert parse_scope("a,b", ("a", "b", "a,b")) == ["a", "b"]
    assert parse_scope('"a,b",a', names) == ["a,b", "a"]
    # A name that holds quotes itself.
    assert parse_conditions(['"x"=3'], ['"x"']) == {'"x"': 3.0}
    assert parse_weights(['"x"=3'], ['"x"']) == {'"x"': 3.0}


def test_what_may_mean_two_things_asks_for_quotes():
    with pytest.raises(SettingError, match=r"""may be about 'a' or 'a=b'. Write "a" = ... or "a=b" = ..."""):
        parse_conditions(["a=b=c"], ["a", "a=b"], words(["a", "a=b"]))
    assert parse_conditions(['"a"=b=c'], ["a", "a=b"], words(["a", "a=b"])) == {"a": "b=c"}
    assert parse_conditions(['"a=b"=c'], ["a", "a=b"], words(["a", "a=b"])) == {"a=b": "c"}
    with pytest.raises(SettingError, match="in quotes"):
        parse_conditions(['"tip->driver=3'], ["tip->driver"])
