"""Pairs with a common cause, as people write them."""

import pytest

import deepbc as bc
from deepbc.notation import read_bidirected


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a<->b", [("a", "b")]),
        (" a <-> b , c<->d;\n e <-> f ", [("a", "b"), ("c", "d"), ("e", "f")]),
        ("net income <-> b-c", [("net income", "b-c")]),
        ("\"tip->driver\" <-> 'a,b'", [("tip->driver", "a,b")]),
        (r'"a \"b\"" <-> c', [('a "b"', "c")]),
        ('"x<->y"<->z', [("x<->y", "z")]),
        ("größe <-> 体重", [("größe", "体重")]),
        ("", []),
        ("a <-> b;", [("a", "b")]),
    ],
)
def test_pairs_are_read(text, pairs):
    assert read_bidirected(text) == pairs


@pytest.mark.parametrize(
    "text", ["a", "a -> b", "a <- b", "a <-> ", "<-> b", "a <-> b <-> c", 'a <-> "b', "a<->b x<->"]
)
def test_what_is_no_pair_is_said(text):
    with pytest.raises(bc.GraphError, match=r"Cannot read the common cause .*expected two names with <-> between"):
        read_bidirected(text)
