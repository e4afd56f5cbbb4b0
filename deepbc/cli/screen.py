"""What commands print, and where to."""

__all__ = ["console", "say"]

from rich.console import Console

console = Console()


def say(line: str) -> None:
    """Prints a line as it stands: a path may hold brackets, and is not to be broken."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)
