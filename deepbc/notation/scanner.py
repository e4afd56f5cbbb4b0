"""Text cut into tokens that know where they stand, so that an error names the line and the column."""

__all__ = ["DEEPEST", "Token", "Tokens", "place"]

import re
from typing import NamedTuple, NoReturn

from deepbc.errors import GraphError

# Of brackets within brackets.
DEEPEST = 100
UNCLOSED = {
    '"': ("the quote", '"'),
    "'": ("the quote", "'"),
    "/*": ("the comment", "*/"),
    "<": ("the HTML", ">"),
}


def place(text: str, at: int) -> str:
    """Names the line and the column of a position, counted from 1."""
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


class Token(NamedTuple):
    """A piece of text.

    Args:
        kind: The group of the pattern that it matched; `"end"` behind the last.
        text: As it stands.
        at: Where it begins.
    """

    kind: str
    text: str
    at: int


class Tokens:
    """Creates the tokens of a text.

    Args:
        text: The text.
        pattern: Groups by name; what matches `skip` is left out, what matches `unclosed` is an error.
        language: What the text is written in, for errors.
    """

    def __init__(self, text: str, pattern: re.Pattern[str], language: str) -> None:
        self.text, self.language = text, language
        self._tokens = self._cut(pattern)
        self._next = 0

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one further on."""
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        """The next token, which is then behind us."""
        token = self.peek()
        self._next += 1

        return token

    def expect(self, sign: str, what: str) -> Token:
        """Takes a sign that has to come now."""
        if self.peek().kind != "sign" or self.peek().text != sign:
            self.refuse(what)

        return self.take()

    def is_sign(self, *signs: str) -> bool:
        """Whether one of these signs comes now."""
        return self.peek().kind == "sign" and self.peek().text in signs

    def refuse(self, expected: str) -> NoReturn:
        """Says that something else was expected than what comes now."""
        token = self.peek()
        came = "the end of the text" if token.kind == "end" else repr(token.text)
        self.fail(token.at, f"expected {expected}, got {came}.")

    def fail(self, at: int, reason: str) -> NoReturn:
        """Says what is wrong, and where."""
        raise GraphError(f"{self.language}, {place(self.text, at)}: {reason}")

    def _cut(self, pattern: re.Pattern[str]) -> list[Token]:
        tokens, at, end = list[Token](), 0, len(self.text)
        while at < end:
            found = pattern.match(self.text, at)
            if not found:
                self.fail(at, f"the sign {self.text[at]!r} has no meaning here. Put names that hold it in quotes.")
            kind = str(found.lastgroup)
            if kind == "unclosed":
                what, closing = UNCLOSED[found[0]]
                self.fail(at, f"{what} {found[0]} is not closed. Write {closing} at its end.")
            if kind != "skip":
                tokens.append(Token(kind, found[0], at))
            at = found.end()

        return [*tokens, Token("end", "", end)]
