"""The command line. Commands import what they need when they run, so that `deepbc --help` answers at once."""

__all__ = ["main"]

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from deepbc import __version__
from deepbc.errors import DeepBCError

app = typer.Typer(
    name="deepbc",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Deep backtracking counterfactuals: learn a causal model, ask what would have been different.",
)
console = Console()


def main() -> None:
    """Runs the command line. Our own errors are one line and exit code 2."""
    try:
        app()
    except DeepBCError as error:
        Console(stderr=True).print(f"deepbc: {error}", style="red", highlight=False, markup=False)
        sys.exit(2)


def _version(asked: bool) -> None:
    if asked:
        console.print(f"deepbc {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Deep backtracking counterfactuals: learn a causal model, ask what would have been different."""


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="The experiment, such as figure-4, or all.")] = "",
    out: Annotated[Path, typer.Option(help="The folder; each experiment gets one of its own in it.")] = Path("results"),
    quick: Annotated[bool, typer.Option("--quick", help="Run on few rows, in seconds.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
) -> None:
    """Run an experiment of the paper again: write its rows, its figure and where they come from.

    Each says which findings of the paper its rows bear out. The exit code is 1 where one does not hold.
    The rows are those of Morpho-MNIST, which is downloaded once; without a network they are drawn from its equations.
    """
    from deepbc.experiments import NAMES, reproduce, title

    if listed or not name:
        for each in NAMES:
            console.print(f"{each}  {title(each)}", highlight=False)
        return

    holds = True
    for each in NAMES if name == "all" else [name]:
        made = reproduce(each, out / each, quick=quick)
        for finding in made.findings:
            console.print(f"{'holds' if finding.holds else 'FAILS'}  {finding.sentence}", highlight=False)
        console.print(f"{each}: {made.folder / 'figure.png'}", highlight=False)
        holds = holds and made.holds
    if not holds:
        raise typer.Exit(1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the figure and the model.")] = Path("demo"),
    rows: Annotated[int, typer.Option(min=100, help="How many rows to draw from the paper's equations.")] = 20_000,
    intensity: Annotated[float, typer.Option(min=65, max=254, help="The intensity to ask about.")] = 220.0,
    seed: Annotated[int, typer.Option(help="Same seed, same demo.")] = 0,
) -> None:
    """Fit thickness -> intensity, and ask: had the intensity been 220, what would that have meant?

    Asked both ways: interventional, which breaks the law of intensity, and backtracking, which keeps every law.
    The rows come from the known equations of Morpho-MNIST, so the table shows the true answer beside the learned one.
    Writes figure.png and a saved model into the folder.
    """
    from deepbc.demo import run_demo

    made = run_demo(out, rows=rows, intensity=intensity, seed=seed)

    fits = Table("variable", "held-out nll (nats)", "epochs", "seconds", "notes", title=f"Fit to {rows:,} rows")
    for each in made.report:
        fits.add_row(each.name, f"{each.nll:.4f}", f"{each.epochs}", f"{each.seconds:.1f}", "; ".join(each.notes))
    console.print(fits)

    title = f"Had the intensity been {intensity:g} (learned / true)"
    answers = Table("world", "thickness", "intensity", "moved noise", "status", title=title)
    before = made.learned.backtracking.factual.values
    for row in range(len(before["intensity"])):
        answers.add_row("factual", f"{before['thickness'][row]:.2f}", f"{before['intensity'][row]:.1f}")
        for way in ("interventional", "backtracking"):
            pair = [getattr(made.learned, way), getattr(made.true, way)]
            answers.add_row(
                way,
                " / ".join(f"{answer.values['thickness'][row]:.2f}" for answer in pair),
                " / ".join(f"{answer.values['intensity'][row]:.1f}" for answer in pair),
                " / ".join(f"{answer.distance[row]:.2f}" for answer in pair),
                pair[0].status[row],
            )
        answers.add_section()
    console.print(answers)
    console.print(f"figure: {made.figure}\nmodel:  {made.model}", highlight=False)
