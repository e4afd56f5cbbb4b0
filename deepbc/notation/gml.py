"""GML, the graph modelling language: `graph [ directed 1 node [ id 0 label "a" ] edge [ source 0 target 1 ] ]`.

References:
    `GML: a portable graph file format <https://en.wikipedia.org/wiki/Graph_Modelling_Language>`_, Himsolt (1997).
"""

__all__ = ["GML_HEAD", "read_gml"]

import re
import sys
from dataclasses import dataclass
from html.entities import name2codepoint

from deepbc.notation.scanner import DEEPEST, Token, Tokens
from deepbc.notation.sketch import Parents, Sketch

SKIP = r"(?:\s|\#[^\n]*)*+"
# What may come first, such as `Creator "igraph"` and `Version 1`.
PAIR = rf'[A-Za-z]\w*+{SKIP}(?:"[^"]*"|[-+.\w]++){SKIP}'
GML_HEAD = re.compile(rf"{SKIP}(?:(?!graph\b){PAIR})*+graph{SKIP}\[")
GML = re.compile(
    r'(?P<skip>\s+|\#[^\n]*)|(?P<string>"[^"]*+")|(?P<unclosed>")|(?P<sign>[\[\]])'
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))|(?P<word>[A-Za-z]\w*)"
)
# Signs outside ASCII, as in HTML; but its rules for control characters are not those of GML.
ENTITY = re.compile(r"&(?:#(\d{1,8})|#[xX]([0-9a-fA-F]{1,8})|(\w+));")
# What names a node, the best first; igraph writes `name`.
NAMES = ("label", "name", "id")


@dataclass(slots=True)
class _Entry:
    """A key with its value.

    Args:
        key: The key.
        at: Where it stands.
        text: The value, if it is text or a number.
        entries: The entries in brackets otherwise.
    """

    key: str
    at: int
    text: str
    entries: "list[_Entry]"


def read_gml(text: str) -> Parents:
    """Reads a directed graph in GML. Nodes are named by their labels, or else by `name` or their ids."""
    tokens = Tokens(text, GML, "GML")
    graphs = [entry for entry in _entries(tokens, None) if entry.key == "graph" and not entry.text]
    if len(graphs) != 1:
        tokens.fail(0, f"expected one graph [ ... ], got {len(graphs)}.")
    graph = graphs[0]
    if _value(graph, "directed") not in ("1", "true"):
        tokens.fail(graph.at, "expected a directed graph, which has the line directed 1, got an undirected one.")

    return _parents(tokens, graph)


def _parents(tokens: Tokens, graph: _Entry) -> Parents:
    sketch, names = Sketch(), dict[str, str]()
    for node in (entry for entry in graph.entries if entry.key == "node"):
        number = _needed(tokens, node, "id")
        name = next(filter(None, (_value(node, key) for key in NAMES)))
        if number in names:
            tokens.fail(node.at, f"the id {number} comes twice. Give each node its own.")
        if name in sketch.parents:
            tokens.fail(node.at, f"two nodes have the name {name!r}. Rename one.")
        names[number] = name
        sketch.add(name)
    for edge in (entry for entry in graph.entries if entry.key == "edge"):
        ends = [_needed(tokens, edge, key) for key in ("source", "target")]
        for number in ends:
            if number not in names:
                tokens.fail(edge.at, f"no node has the id {number}. Add it: node [ id {number} ].")
        sketch.connect(*(names[number] for number in ends))

    return sketch.parents


def _entries(tokens: Tokens, start: Token | None, depth: int = 0) -> list[_Entry]:
    """Reads keys with their values, up to the bracket that closes them or to the end."""
    if start and depth > DEEPEST:
        tokens.fail(start.at, f"expected at most {DEEPEST} brackets within brackets.")
    entries = list[_Entry]()
    while tokens.peek().kind != "end" and not tokens.is_sign("]"):
        if tokens.peek().kind != "word":
            tokens.refuse("a key such as node")
        key = tokens.take()
        entries.append(_entry(tokens, key, depth))
    if start and tokens.peek().kind == "end":
        tokens.fail(start.at, "the bracket [ is not closed. Write ] at its end.")
    if not start and tokens.peek().kind != "end":
        tokens.refuse("a key such as graph")

    return entries


def _entry(tokens: Tokens, key: Token, depth: int) -> _Entry:
    if tokens.is_sign("["):
        entries = _entries(tokens, tokens.take(), depth + 1)
        tokens.take()
        return _Entry(key.text, key.at, "", entries)
    if tokens.peek().kind not in ("string", "number", "word"):
        tokens.refuse(f"a value of {key.text}")
    value = tokens.take()
    text = ENTITY.sub(_sign, value.text[1:-1]) if value.kind == "string" else value.text

    return _Entry(key.text, key.at, text, [])


def _sign(entity: re.Match[str]) -> str:
    """The sign that an entity stands for, or itself where there is none."""
    number, hexadecimal, name = entity.groups()
    code = int(number) if number else int(hexadecimal, 16) if hexadecimal else name2codepoint.get(name, -1)

    return chr(code) if 0 <= code <= sys.maxunicode else entity[0]


def _value(entry: _Entry, key: str) -> str:
    """The text of the first entry of a key, empty if there is none."""
    return next((each.text for each in entry.entries if each.key == key), "")


def _needed(tokens: Tokens, entry: _Entry, key: str) -> str:
    value = _value(entry, key)
    if not value:
        tokens.fail(entry.at, f"this {entry.key} has no {key}. Add it, such as {key} 0.")

    return value
