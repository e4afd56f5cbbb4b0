"""Graphs in files and in text, told apart by their ending and by what they begin with."""

__all__ = ["ENDINGS", "is_file_name", "read_file", "read_text"]

import os
import re
from collections.abc import Callable
from pathlib import Path

from deepbc.errors import DataError, GraphError
from deepbc.notation.arrows import read_arrows
from deepbc.notation.dot import DAGITTY_HEAD, DOT_HEAD, read_dagitty, read_dot
from deepbc.notation.edge_list import read_edge_list
from deepbc.notation.gml import GML_HEAD, read_gml
from deepbc.notation.sketch import Parents

Reader = Callable[[str], Parents]

HEADS: tuple[tuple[re.Pattern[str], Reader], ...] = (
    (DOT_HEAD, read_dot),
    (DAGITTY_HEAD, read_dagitty),
    (GML_HEAD, read_gml),
)
# What reads a file that does not begin as any of these.
ENDINGS: dict[str, Reader] = {
    ".dot": read_dot,
    ".gv": read_dot,
    ".gml": read_gml,
    ".dagitty": read_dagitty,
    ".txt": read_arrows,
    ".csv": read_edge_list,
}


def read_text(text: str, otherwise: Reader = read_arrows) -> Parents:
    """Reads a graph in whatever language its text begins."""
    text = text.removeprefix("\ufeff")
    reader = next((reader for head, reader in HEADS if head.match(text)), otherwise)

    return reader(text)


def read_file(path: str | os.PathLike[str]) -> Parents:
    """Reads a graph from a file, by the ending of its name."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise GraphError(f"{path}: expected a name that ends in one of {known}, got {ending or 'no ending'!r}.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 text (at byte {error.start}). Save it as UTF-8.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}). Mend the path.") from error

    return read_edge_list(text) if ending == ".csv" else read_text(text, ENDINGS[ending])


def is_file_name(text: str) -> bool:
    """Whether text that stands for a graph is the name of a file: one that is there, or one with a known ending."""
    if os.path.isfile(text):  # which, unlike Path's own, takes text of any length
        return True

    return Path(text).suffix.lower() in ENDINGS and not re.search(r"->|[;\n{\[]", text)
