"""Reports of one page: HTML with its figures inside, which opens from disk and asks no network."""

__all__ = ["paragraph", "picture", "table", "write_page"]

import base64
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from deepbc.errors import StorageError

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; font-size: 0.9rem; margin: 1rem 0; }
th, td { padding: 0.25rem 0.8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; } figure { margin: 1rem 0; } figcaption { color: #555; font-size: 0.9rem; }
.wide { overflow-x: auto; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; } th, td { border-color: #444; }
  img { background: white; } figcaption { color: #aaa; } }
"""


def paragraph(text: str, heading: str = "") -> str:
    """Makes a paragraph, under a heading if there is one."""
    above = f"<h2>{escape(heading)}</h2>\n" if heading else ""

    return f"{above}<p>{escape(text)}</p>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Makes a table of text."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "\n".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)

    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def picture(path: str | os.PathLike[str], caption: str) -> str:
    """Puts a PNG file into the page itself."""
    inside = base64.b64encode(Path(path).read_bytes()).decode()
    image = f'<img alt="{escape(caption)}" src="data:image/png;base64,{inside}">'

    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def write_page(path: str | os.PathLike[str], title: str, parts: Sequence[str]) -> None:
    """Writes the page.

    Args:
        path: The file.
        title: The title.
        parts: What the functions above made, from top to bottom.
    """
    page = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
    )
    try:
        Path(path).write_text("\n".join([page, *parts, "</body>\n</html>\n"]), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error.strerror or error}). Choose another.") from error
