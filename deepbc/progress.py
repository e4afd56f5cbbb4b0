"""How far long work is: a bar on a terminal, and a line now and then elsewhere, for work that asks for it."""

__all__ = ["Progress", "progress"]

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

# Seconds of work before the first line where there is no terminal, and between two lines.
FIRST, BETWEEN = 20.0, 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How long work tells where it is: `describe` it in a sentence, `advance` by one part."""

    describe: Callable[[str], None]
    advance: Callable[[], None]


@contextmanager
def progress(title: str, parts: int, show: bool | None, *, lines: bool = False) -> Iterator[Progress]:
    """Shows a bar of so many parts on standard error for the time of the work.

    Args:
        title: What is being done.
        parts: The number of parts.
        show: Whether to show it; None shows it where standard error is a terminal.
        lines: Whether long work says now and then how far it is, in a line, where None finds no terminal.
    """
    if show is None and lines and not sys.stderr.isatty():
        spoken = _Lines(title, _Clock(parts))
        yield Progress(spoken.describe, spoken.advance)
        return
    if not (sys.stderr.isatty() if show is None else show):
        yield Progress(lambda sentence: None, lambda: None)
        return

    # Loaded only here: most fits run in pipes, and rich takes a while.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    status = TextColumn("{task.fields[left]} {task.description}")
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), status)
    clock = _Clock(parts)

    def advance() -> None:
        clock.advance()
        bars.update(task, advance=1, left=clock.left())

    with Bars(*columns, console=Console(stderr=True, force_terminal=show), transient=True) as bars:
        task = bars.add_task("", total=parts, left="")
        yield Progress(lambda sentence: bars.update(task, description=sentence, left=clock.left()), advance)


@dataclass(slots=True)
class _Clock:
    """When parts were done, and when the others will be if they take as long."""

    parts: int
    start: float = field(default_factory=lambda: time.monotonic())
    done: int = 0
    last: float = 0.0

    def advance(self) -> None:
        self.done, self.last = self.done + 1, self.seconds()

    def seconds(self) -> float:
        return time.monotonic() - self.start

    def left(self) -> str:
        """The time that is left, in words; none before a part is done, or where the next takes longer."""
        if not 0 < self.done < self.parts:
            return ""
        each, current = self.last / self.done, self.seconds() - self.last
        if current > each:
            return ""

        return f"about {_duration(each * (self.parts - self.done) - current)} left"


@dataclass(slots=True)
class _Lines:
    """Says in a line now and then how far long work is."""

    title: str
    clock: _Clock
    sentence: str = ""
    due: float = FIRST

    def describe(self, sentence: str) -> None:
        self.sentence = sentence
        self._say()

    def advance(self) -> None:
        self.clock.advance()
        self._say()

    def _say(self) -> None:
        seconds = self.clock.seconds()
        if seconds < self.due:
            return
        self.due = seconds + BETWEEN
        done = f"{self.clock.done} of {self.clock.parts} done after {_duration(seconds)}"
        said = ", ".join(filter(None, (f"{self.title}: {done}", self.clock.left())))
        sys.stderr.write(f"{said}; {self.sentence}\n" if self.sentence else f"{said}\n")
        sys.stderr.flush()


def _duration(seconds: float) -> str:
    """A duration in words.

    Example:
        >>> _duration(0.2), _duration(47), _duration(200), _duration(9000)
        ('1 s', '47 s', '3 min', '2.5 h')
    """
    if seconds < 120:
        return f"{max(1, round(seconds))} s"

    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
