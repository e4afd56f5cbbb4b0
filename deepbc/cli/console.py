"""What commands print, and where to."""

__all__ = ["add_row", "console", "say"]

from rich.console import Console
from rich.markup import escape
from rich.table import Table

console = Console()


def say(line: str) -> None:
    """Prints a line as it stands: a path may hold brackets, and is not to be broken."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def add_row(table: Table, *cells: str) -> None:
    """Adds a row of a table as it stands: a name may hold brackets."""
    table.add_row(*map(escape, cells))
