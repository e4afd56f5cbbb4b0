"""Our own text: names, commas, arrows, and `;` or a new line between statements."""

__all__ = ["read_arrows", "write_arrows"]

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from deepbc.errors import GraphError
from deepbc.notation.names import QUOTED, QUOTES, quote, unquote
from deepbc.notation.scanner import Token, place
from deepbc.notation.sketch import Parents, Sketch, refusal

TOKEN = re.compile(
    rf"(?P<space>[^\S\n]+)|(?P<end>[;\n])|(?P<arrow>->)|(?P<comma>,)|(?P<quoted>{QUOTED})"
    r"|(?P<bare>(?:[^,;\n-]|-(?!>))++)"
)
# Signs that, outside quotes, are an arrow of another kind, a comment or a bracket of another language.
NOT_IN_TEXT = frozenset("<>=#→←{}")
NOT_AT_START = ("-", "//", "/*")
LONGEST_SHOWN = 100


def read_arrows(text: str) -> Parents:
    """Reads `a, b -> c; c -> d; e`."""
    sketch = Sketch()
    for statement in _statements(text):
        groups = _Statement(text, statement).groups()
        for name in itertools.chain.from_iterable(groups):
            sketch.add(name)
        for causes, effects in itertools.pairwise(groups):
            for effect, cause in itertools.product(effects, causes):
                sketch.connect(cause, effect)

    return sketch.parents


def write_arrows(parents: Mapping[str, Sequence[str]]) -> str:
    """Writes the causes of every variable so that reading gives the same, in the same order."""
    heard = set(itertools.chain.from_iterable(parents.values()))
    statements, order = list[str](), dict[str, None]()
    for name, causes in parents.items():
        if causes:
            statements.append(f"{', '.join(map(quote, causes))} -> {quote(name)}")
        elif name not in heard:
            statements.append(quote(name))
        if causes or name not in heard:
            order |= dict.fromkeys([*causes, name])
    if list(order) != list(parents):
        statements.insert(0, ", ".join(map(quote, parents)))

    return "; ".join(statements)


def _statements(text: str) -> Iterator[list[Token]]:
    """The tokens of each statement that has any."""
    statement = list[Token]()
    for found in TOKEN.finditer(text):
        kind = str(found.lastgroup)
        if kind == "end" and statement:
            yield statement
            statement = []
        elif kind not in ("end", "space"):
            statement.append(Token(kind, found[0].rstrip() if kind == "bare" else found[0], found.start()))
    if statement:
        yield statement


class _Statement:
    """Creates a statement, from its tokens."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text, self.tokens = text, tokens

    def groups(self) -> list[list[str]]:
        """The names between arrows."""
        groups: list[list[str]] = [[]]
        missing = True
        for k, token in enumerate(self.tokens):
            if token.kind in ("quoted", "bare"):
                if not missing:
                    self._fail_after(k)
                groups[-1].append(self._name(k))
                missing = False
                continue
            if missing:
                break
            missing = True
            if token.kind == "arrow":
                groups.append([])
        if missing:
            self._fail("a name is missing.", "a, b -> c")

        return groups

    def _name(self, k: int) -> str:
        kind, name, at = self.tokens[k]
        if kind == "quoted":
            return unquote(name)
        if name[0] in QUOTES:
            where = place(self.text, at)
            self._fail(f"the quote {name[0]} at {where} is not closed.", f"{name[0]}a name{name[0]} -> b")
        self._check_sign(k)
        if set(name) & NOT_IN_TEXT or name.startswith(NOT_AT_START) or name.endswith("-"):
            self._fail(f"{name!r} is no name.", "a -> b", f" If it is one, put it in quotes: {quote(name)}.")

        return name

    def _check_sign(self, k: int) -> None:
        """Refuses edges that are no arrows, `a <-> b` and `a -- b`."""
        name = self.tokens[k].text
        if name.endswith("<") and self._arrow_to(k):
            self._fail(refusal(name[:-1].strip(), "<->", self._arrow_to(k)))
        left, sign, right = (each.strip() for each in name.partition("--"))
        if sign and left and right:
            self._fail(refusal(left, "--", right), hint=f" A name with -- in it stands in quotes: {quote(name)}.")

    def _fail_after(self, k: int) -> NoReturn:
        """Says that something stands behind a quoted name that is neither comma nor arrow."""
        before, came = (token.text for token in self.tokens[k - 1 : k + 1])
        if came == "<" and self._arrow_to(k):
            self._fail(refusal(unquote(before), "<->", self._arrow_to(k)))
        if came.startswith("--"):
            self._fail(refusal(unquote(before), "--", _unquoted(came[2:].strip()) or "b"))
        self._fail(f"after the quoted name {before} stands {came!r}.", "a, b -> c")

    def _arrow_to(self, k: int) -> str:
        """The name that an arrow points to from here, if one does."""
        later = self.tokens[k + 1 : k + 3]

        return _unquoted(later[1].text) if len(later) == 2 and later[0].kind == "arrow" else ""

    def _fail(self, reason: str, example: str = "", hint: str = "") -> NoReturn:
        first, last = self.tokens[0], self.tokens[-1]
        statement = self.text[first.at : last.at + len(last.text)]
        if len(statement) > LONGEST_SHOWN:
            statement = f"{statement[:LONGEST_SHOWN]}..."
        line = f" of {place(self.text, first.at).partition(',')[0]}" if "\n" in self.text else ""
        todo = f" Write {example!r}.{hint}" if example else hint
        raise GraphError(f"Cannot read the statement {statement!r}{line}: {reason}{todo}")


def _unquoted(name: str) -> str:
    return unquote(name) if name[:1] in QUOTES and name else name
