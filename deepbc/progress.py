"""A progress bar on a terminal, nothing in a pipe."""

__all__ = ["Progress", "progress"]

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How long work tells where it is: `describe` it in a sentence, `advance` by one part."""

    describe: Callable[[str], None]
    advance: Callable[[], None]


@contextmanager
def progress(title: str, parts: int, show: bool | None) -> Iterator[Progress]:
    """Shows a bar of so many parts on standard error for the time of the work.

    Args:
        title: What is being done.
        parts: The number of parts.
        show: Whether to show it; None shows it where standard error is a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield Progress(lambda sentence: None, lambda: None)
        return

    # Loaded only here: most fits run in pipes, and rich takes a while.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    status = TextColumn("{task.description}")
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), status)
    with Bars(*columns, console=Console(stderr=True, force_terminal=show), transient=True) as bars:
        task = bars.add_task("", total=parts)
        yield Progress(lambda sentence: bars.update(task, description=sentence), lambda: bars.advance(task))
