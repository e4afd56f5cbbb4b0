"""DOT, the language of Graphviz, and DAGitty, which has its form and more kinds of edges.

References:
    `The DOT Language <https://graphviz.org/doc/info/lang.html>`_.

    `Robust causal inference using directed acyclic graphs: the R package dagitty
    <https://doi.org/10.1093/ije/dyw341>`_, Textor et al. (2016), for the text of DAGitty.
"""

__all__ = ["DAGITTY_HEAD", "DOT_HEAD", "read_dagitty", "read_dot"]

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from deepbc.notation.scanner import DEEPEST, Token, Tokens
from deepbc.notation.sketch import Parents, Sketch, refusal

# Spaces and comments, possessive so that they are passed once.
SKIP = r"(?:\s|//[^\n]*|/\*[\s\S]*?\*/|\#[^\n]*)*+"
STRING = r'"(?:[^"\\]|\\[\s\S])*+"'
NAME = rf"(?:(?:{STRING}|[\w.-]++){SKIP})?"
DOT_HEAD = re.compile(rf"{SKIP}(?i:strict\b{SKIP})?(?i:digraph|graph)\b{SKIP}{NAME}\{{")
DAGITTY_HEAD = re.compile(rf"{SKIP}(?:dag|pdag|mag|pag)\b{SKIP}{NAME}\{{")

BLANKS = rf"(?P<skip>\s+|//[^\n]*|/\*[\s\S]*?\*/|\#[^\n]*)|(?P<string>{STRING})|(?P<unclosed>/\*|\")"
# The HTML of a value, with its sign: brackets within are those of tags.
HTML = r"(?P<html>=\s*<(?:[^<>]|<[^<>]*>)*+>)"


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What differs between the two.

    Args:
        name: What it is called.
        pattern: Its tokens.
        identifier: What a name without quotes has to be, if not just any word.
        keywords: Words that begin a list of defaults.
        kinds: Words that the text may begin with, and what is wrong with each, if anything.
    """

    name: str
    pattern: re.Pattern[str]
    identifier: re.Pattern[str]
    keywords: tuple[str, ...]
    kinds: Mapping[str, str]


NOT_A_DAG = "stands for many graphs at once, and the model needs one. Choose one of them and write it as dag { ... }."
DOT = _Dialect(
    "DOT",
    re.compile(
        rf"{BLANKS}|{HTML}|(?P<edge><->|->|<-|--)|(?P<word>[\w.]+(?:-(?![->])[\w.]+)*|-[\w.]+)"
        r"|(?P<sign>[{}\[\];,=:+])"
    ),
    re.compile(r"[^\W\d]\w*|-?(?:\.\d+|\d+(?:\.\d*)?)"),
    ("node", "edge", "graph"),
    {
        "digraph": "",
        "graph": "is undirected: its edges do not say what is cause and what is effect. Write digraph, and -> for --.",
    },
)
DAGITTY = _Dialect(
    "DAGitty",
    re.compile(
        rf"{BLANKS}|(?P<edge><->|->|<-|--|@->|<-@|@-@|@--|--@)"
        r"|(?P<word>(?:[^\s{}\[\];,=\"<>@-]|-(?![->@]))+)|(?P<sign>[{}\[\];,=])"
    ),
    re.compile(r"[\s\S]+"),
    (),
    {"dag": "", "pdag": "", "mag": NOT_A_DAG, "pag": NOT_A_DAG},
)


def read_dot(text: str) -> Parents:
    """Reads a directed graph in DOT. Nodes are named by their IDs, or by their labels where IDs are mere numbers."""
    return _Parser(text, DOT).read()


def read_dagitty(text: str) -> Parents:
    """Reads a graph of DAGitty. A variable that it calls latent is a variable as any other."""
    return _Parser(text, DAGITTY).read()


@dataclass(slots=True)
class _Nodes:
    """One end of an edge: nodes, and where they stand."""

    names: list[str]
    at: int


@dataclass(slots=True)
class _Defaults:
    """Attributes that edges have unless they say otherwise; a sub-graph takes them over and keeps its own to itself."""

    edge: dict[str, str] = field(default_factory=dict)


class _Parser:
    """Creates a parser of a text, by recursive descent."""

    def __init__(self, text: str, dialect: _Dialect) -> None:
        self.dialect = dialect
        self.tokens = Tokens(text, dialect.pattern, dialect.name)
        self.sketch = Sketch()
        self.labels: dict[str, str] = {}
        self.depth = 0

    def read(self) -> Parents:
        """Reads the whole text."""
        tokens, kinds = self.tokens, self.dialect.kinds
        if self._is_word("strict"):
            tokens.take()
            self.sketch.merge = True
        if not self._is_word(*kinds):
            tokens.refuse(f"{next(iter(kinds))} {{ ... }}")
        kind = tokens.take()
        wrong = kinds[kind.text.lower()]
        if wrong:
            tokens.fail(kind.at, f"{kind.text} {{ ... }} {wrong}")
        if tokens.peek().kind in ("word", "string"):
            tokens.take()
        self._block(_Defaults())
        if tokens.peek().kind != "end":
            tokens.refuse("nothing behind the last }, for one text holds one graph")

        return self._named()

    def _block(self, defaults: _Defaults) -> list[str]:
        """Reads statements between braces; returns the nodes that come in them."""
        tokens = self.tokens
        start = tokens.expect("{", "{")
        self.depth += 1
        if self.depth > DEEPEST:
            tokens.fail(start.at, f"expected at most {DEEPEST} braces within braces. Write them one after the other.")
        names: dict[str, None] = {}
        while not tokens.is_sign("}"):
            if tokens.is_sign(";", ","):
                tokens.take()
            elif tokens.peek().kind == "end":
                tokens.fail(start.at, "the brace { is not closed. Write } at its end.")
            else:
                names |= dict.fromkeys(self._statement(defaults))
        tokens.take()
        self.depth -= 1

        return list(names)

    def _statement(self, defaults: _Defaults) -> list[str]:
        """Reads defaults, an attribute of the graph, nodes or a chain of edges; returns the nodes."""
        tokens = self.tokens
        following = tokens.peek(1)
        if self._is_word(*self.dialect.keywords):
            kind = tokens.take().text.lower()
            if not tokens.is_sign("["):
                tokens.refuse(f'[ after {kind}, which is a word of {self.dialect.name}; a variable is written "{kind}"')
            attributes = self._attributes()
            if kind == "edge":
                defaults.edge |= attributes
            return []
        if tokens.peek().kind in ("word", "string") and (following.kind == "html" or following.text == "="):
            self._attribute()
            return []

        ends, signs = [self._nodes(defaults)], list[Token]()
        while tokens.peek().kind == "edge":
            signs.append(tokens.take())
            ends.append(self._nodes(defaults))
        attributes = self._attributes()
        if signs:
            self._connect(ends, signs, defaults.edge | attributes)
        elif "label" in attributes:
            self.labels |= dict.fromkeys(ends[0].names, attributes["label"])

        return list(itertools.chain.from_iterable(end.names for end in ends))

    def _nodes(self, defaults: _Defaults) -> _Nodes:
        """Reads one end of an edge: a node, several with commas between, or a sub-graph."""
        tokens = self.tokens
        at = tokens.peek().at
        if self._is_word("subgraph"):
            tokens.take()
            if tokens.peek().kind in ("word", "string"):
                tokens.take()
        if tokens.is_sign("{"):
            return _Nodes(self._block(_Defaults(dict(defaults.edge))), at)

        names = [self._node()]
        while tokens.is_sign(",") and tokens.peek(1).kind in ("word", "string"):
            tokens.take()
            names.append(self._node())

        return _Nodes(names, at)

    def _node(self) -> str:
        name = self._identifier("a variable")
        self.sketch.add(name)
        while self.tokens.is_sign(":"):  # the place at which an edge meets the node
            self.tokens.take()
            self._identifier("a port")

        return name

    def _identifier(self, what: str) -> str:
        """Reads a name, bare or between quotes; quoted parts may be joined by a plus."""
        tokens = self.tokens
        token = tokens.peek()
        if token.kind == "word":
            if not self.dialect.identifier.fullmatch(token.text):
                tokens.fail(token.at, f'{token.text!r} is no name in DOT. Put it in quotes: "{token.text}".')
            return tokens.take().text
        if token.kind != "string":
            tokens.refuse(what)

        name = _plain(tokens.take().text)
        while tokens.is_sign("+") and tokens.peek(1).kind == "string":
            tokens.take()
            name += _plain(tokens.take().text)

        return name

    def _attributes(self) -> dict[str, str]:
        """Reads lists of attributes in brackets, if there are any."""
        tokens, attributes = self.tokens, dict[str, str]()
        while tokens.is_sign("["):
            start = tokens.take()
            while not tokens.is_sign("]"):
                if tokens.is_sign(",", ";"):
                    tokens.take()
                elif tokens.peek().kind == "end":
                    tokens.fail(start.at, "the bracket [ is not closed. Write ] at its end.")
                else:
                    attributes |= [self._attribute()]
            tokens.take()

        return attributes

    def _attribute(self) -> tuple[str, str]:
        """Reads one attribute; one without a value is true."""
        tokens = self.tokens
        if tokens.peek().kind not in ("word", "string"):
            tokens.refuse("an attribute such as color=red")
        name = _plain(tokens.take().text)
        if tokens.peek().kind == "html":
            return name, tokens.take().text
        if not tokens.is_sign("="):
            return name, "true"
        tokens.take()
        if tokens.peek().kind == "word":
            return name, tokens.take().text

        return name, self._identifier(f"a value of {name}")

    def _connect(self, ends: list[_Nodes], signs: list[Token], attributes: Mapping[str, str]) -> None:
        """Adds the edges of a chain, each end with each."""
        for (left, right), sign in zip(itertools.pairwise(ends), signs, strict=True):
            for one, other in itertools.product(left.names, right.names):
                drawn = _drawn(sign.text, attributes)
                if drawn == "->":
                    self.sketch.connect(one, other)
                elif drawn == "<-" and self.dialect is DAGITTY:
                    self.sketch.connect(other, one)
                else:
                    self.tokens.fail(sign.at, refusal(one, drawn, other))

    def _named(self) -> Parents:
        """The graph, with labels in place of numbers, where each node has a number and a label of its own."""
        parents, labels = self.sketch.parents, self.labels
        mere = all(name.isdecimal() for name in parents) and set(labels) == set(parents)
        if not mere or len(set(labels.values())) < len(labels) or not all(map(str.strip, labels.values())):
            return parents

        return {labels[name]: [labels[cause] for cause in causes] for name, causes in parents.items()}

    def _is_word(self, *words: str) -> bool:
        """Whether one of these words of the language comes now, in whatever case."""
        token = self.tokens.peek()

        return token.kind == "word" and token.text.lower() in words


def _plain(text: str) -> str:
    r"""What stands between quotes: `\"` is a quote, a line that ends in a backslash goes on; all else is as it is."""
    if not text.startswith('"'):
        return text

    return re.sub(r'\\(["\\]|\r?\n)', lambda found: _ESCAPES.get(found[1], ""), text[1:-1])


# Graphviz leaves two backslashes two.
_ESCAPES = {'"': '"', "\\": "\\\\"}


def _drawn(sign: str, attributes: Mapping[str, str]) -> str:
    """The edge as attributes have it drawn, with heads at either end, both or none."""
    direction = attributes.get("dir", "forward")
    if sign != "->" or direction == "forward":
        return "--" if sign == "->" and attributes.get("arrowhead") == "none" else sign
    tail = direction in ("back", "both") and attributes.get("arrowtail", "normal") != "none"
    head = direction in ("forward", "both") and attributes.get("arrowhead", "normal") != "none"
    if tail and "odot" in attributes.get("arrowtail", ""):
        return "o->"

    return {(False, True): "->", (True, True): "<->", (True, False): "<-", (False, False): "--"}[tail, head]
