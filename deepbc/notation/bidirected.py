r"""Pairs of variables with a common cause that is not in the graph: `a <-> b`, with commas, `;` or new lines between.

Example:
    >>> read_bidirected('a <-> b; "tip->driver" <-> c')
    [('a', 'b'), ('tip->driver', 'c')]
"""

__all__ = ["read_bidirected"]

import re

from deepbc.errors import GraphError
from deepbc.notation.names import QUOTED, unquote

NAME = rf"(?:{QUOTED}|[^\s,;<>\"'](?:[^,;<>\n]*[^\s,;<>])?)"
PAIR = re.compile(rf"\s*(?P<first>{NAME})\s*<->\s*(?P<second>{NAME})\s*(?:[,;\n]|\Z)")


def read_bidirected(text: str) -> list[tuple[str, str]]:
    """Reads pairs of names, each bare or quoted."""
    pairs, at = list[tuple[str, str]](), 0
    while text[at:].strip():
        found = PAIR.match(text, at)
        if not found:
            raise GraphError(
                f"Cannot read the common cause {text[at:].strip()!r}: expected two names with <-> between. Write "
                f"'a <-> b'; a name with a sign that means something stands in quotes, '\"tip->driver\" <-> b'."
            )
        pairs.append((_name(found["first"]), _name(found["second"])))
        at = found.end()

    return pairs


def _name(text: str) -> str:
    return unquote(text) if text[0] in "\"'" else text
