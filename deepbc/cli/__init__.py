"""The command line. Commands import what they need when they run, so that `deepbc --help` answers at once."""

__all__ = ["main"]

import io
import sys
from typing import Annotated

import typer
from rich.console import Console

from deepbc import __version__
from deepbc.cli import check, faces, figures, graphs, models
from deepbc.cli.console import say
from deepbc.errors import DeepBCError

app = typer.Typer(
    name="deepbc",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Deep backtracking counterfactuals: learn a causal model, ask what would have been different.",
)
COMMANDS = (
    graphs.graph, models.fit, models.show, check.check, models.ask, models.batch, models.sample, faces.fit_celeba,
    figures.demo, figures.reproduce,
)  # fmt: skip
for command in COMMANDS:
    app.command()(command)


def main() -> None:
    """Runs the command line. Our own errors, and those of the system, are one line and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal may lack a letter; better another sign than none at all.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except (DeepBCError, OSError, MemoryError) as error:
        Console(stderr=True).print(f"deepbc: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(2)


def _version(asked: bool) -> None:
    if asked:
        say(f"deepbc {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Deep backtracking counterfactuals: learn a causal model, ask what would have been different."""
