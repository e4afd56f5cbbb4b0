"""Commands that show what the method does: the demo, and the paper's figures."""

__all__ = ["demo", "reproduce"]

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from deepbc.cli.console import add_row, console, say


def reproduce(
    name: Annotated[str, typer.Argument(help="The experiment, such as figure-4, or all.")] = "",
    out: Annotated[Path, typer.Option(help="The folder; each experiment gets one of its own in it.")] = Path("results"),
    quick: Annotated[bool, typer.Option("--quick", help="Run on few rows, in seconds.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
) -> None:
    """Run an experiment of the paper, or one of ours: write its rows, its figure and where they come from.

    Each says which findings its rows bear out. The exit code is 1 where one does not hold.
    The rows are those of Morpho-MNIST, which is downloaded once; without a network they are drawn from its equations.
    Faces are those of CelebA where it lies in the folder celeba of DEEPBC_DATA or of the cache, drawn otherwise.
    Fits keep their state in the folder fits: a killed run goes on from there. Those of images take 15 minutes in full.
    """
    from deepbc.experiments import NAMES, reproduce, title

    if listed or not name:
        for each in NAMES:
            say(f"{each:14}{title(each)}")
        return

    holds = True
    for each in NAMES if name == "all" else [name]:
        made = reproduce(each, out, quick=quick)
        say(f"{each}: {made.folder / 'figure.png'} ({made.data})")
        for finding in made.findings:
            say(f"  {'holds' if finding.holds else 'FAILS'}  {finding.sentence}")
        holds = holds and made.holds
    if not holds:
        raise typer.Exit(1)


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the figure, the report and the model.")] = Path("demo"),
    rows: Annotated[int, typer.Option(min=100, help="How many digits to learn from.")] = 8_000,
    intensity: Annotated[float, typer.Option(min=65, max=254, help="The intensity to ask about.")] = 220.0,
    seed: Annotated[int, typer.Option(help="Same seed, same demo.")] = 0,
) -> None:
    """Learn from drawn digits, and ask: had the intensity been 220, what else would have been different?

    Asked both ways: interventional, which breaks the law of intensity, and backtracking, which keeps every law.
    The digits are drawn from strokes, so the true answer, numbers and image, stands beside the learned one.
    Writes figure.png, report.html (one page, opens from disk) and a saved model. Takes about two minutes on two cores.
    """
    from deepbc.cli.demo import run_demo

    made = run_demo(out, rows=rows, intensity=intensity, seed=seed)

    fits = Table("variable", "held-out nll (nats)", "epochs", "seconds", "notes", title=f"Fit to {rows:,} digits")
    for each in made.report:
        add_row(fits, each.name, f"{each.nll:.4f}", f"{each.epochs}", f"{each.seconds:.1f}", "; ".join(each.notes))
    console.print(fits)

    answers = Table(*made.columns, title=f"Had the intensity been {intensity:g} (learned / true)")
    for block in made.rows():
        for row in block:
            add_row(answers, *row)
        answers.add_section()
    console.print(answers)

    errors = Table("image", "error (grey levels)", title="Images against the true ones")
    for label, error in made.errors.items():
        add_row(errors, label, f"{error:.2f}")
    console.print(errors)
    say(f"figure: {made.figure}\nreport: {made.page}\nmodel:  {made.model}")
