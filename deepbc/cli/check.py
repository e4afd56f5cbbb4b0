"""The command that holds a model against data."""

__all__ = ["check"]

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from deepbc.cli.console import add_row, console, say
from deepbc.cli.models import Data, DropMissing, Json, Model

if TYPE_CHECKING:
    from deepbc.evaluation.check import CheckReport

FIGURES = (".png", ".svg", ".pdf")


def check(
    model: Model,
    data: Data,
    level: Annotated[float, typer.Option(help="How often a right model may be found to be off.")] = 0.01,
    confounded: Annotated[
        list[str] | None,
        typer.Option(help="A common cause that is not in the graph: 'a<->b', '\"a name\" <-> b'.", show_default=False),
    ] = None,
    antecedent: Annotated[
        str | None,
        typer.Option("--for", help="Judge what the answer to a question about these depends on: 'a,b'."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same report.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="A figure to write, .png or .svg.", show_default=False)] = None,
    drop_missing: DropMissing = False,
    as_json: Json = False,
) -> None:
    """Hold a model against a table: do its laws fit, and do the independences hold that its graph claims?

    Each finding that is not chance is graded by its size: negligible, some, strong. A strong one rejects the model,
    some is a warning (doubtful). Edges that would explain what the graph does not are listed, the strongest first.

    Rows that the fit did not see are the better judges. Of more than 5,000 rows so many are drawn. The exit code is 1
    where a strong finding contradicts the model, 0 otherwise. Arrow directions within an equivalence class are not
    tested.

    Example: deepbc check model new.csv --for amount --confounded "age<->income" --plot check.png
    """
    from deepbc._validation import check_choice
    from deepbc.batches.request import columns_of, labels_in
    from deepbc.data.tables import check_whole, read_table
    from deepbc.evaluation.check import check as check_model
    from deepbc.notation import read_bidirected
    from deepbc.notation.names import split_names
    from deepbc.plots import check_plots
    from deepbc.scm.model import SCM

    if plot is not None:
        check_choice(plot.suffix.lower(), FIGURES, "--plot, the ending")
        check_plots()
    scm = SCM.load(model)
    table = check_whole(read_table(data, tuple(columns_of(scm)), labels_in(scm)), data, drop=drop_missing)
    pairs = [pair for text in confounded or () for pair in read_bidirected(text)]
    names = split_names(antecedent) if antecedent is not None else ()
    report = check_model(scm, table, seed=seed, level=level, confounded=pairs, antecedent=names)
    if plot is not None:
        report.plot(plot)

    if as_json:
        sys.stdout.write(json.dumps(_told(report), indent=2) + "\n")
    else:
        _print(report)
        if plot is not None:
            say(f"figure: {plot}")
    if not report.accepted:
        raise typer.Exit(1)


def _print(report: "CheckReport") -> None:
    asked = [f"for {', '.join(report.antecedent)}"] if report.antecedent else []
    table = Table("variable", "verdict", *asked, "gain (nats)", "noise off by (sd)", "depends", "on most")
    for each in report:
        role = [each.role] if asked else []
        gain = "" if math.isnan(each.gain) else f"{each.gain:+.3f}"
        noise = _graded(each.misfit, each.misfit_grade, each.gap_p)
        grade = "expected" if each.dependence_expected else each.dependence_grade
        others = _graded(each.dependence_size, grade, each.dependence_p)
        add_row(table, each.name, each.verdict, *role, gain, noise, others, each.dependence_on)
    console.print(table)
    if report.edges:
        _print_edges(report)
    say(report.explain())


def _print_edges(report: "CheckReport") -> None:
    """Prints the edges to try, those that explain most first."""
    asked = [f"for {', '.join(report.antecedent)}"] if report.antecedent else []
    table = Table("edge to try", *asked, "strength", "nats a row", "mends")
    for edge in report.edges:
        role = ["matters" if edge.matters else report[edge.effect].role] if asked else []
        mended = "; ".join(f"{earlier}, {later}" for later, earlier in edge.mends)
        strength = _graded(edge.strength, edge.grade, edge.p)
        add_row(table, f"{edge.cause} -> {edge.effect}", *role, strength, f"{edge.nats:.3f}", mended)
    console.print(table)


def _graded(size: float, grade: str, p: float) -> str:
    """How large something is, what grade that is, and how likely that would be."""
    told = [f"{size:.2f}", grade] + ([] if math.isnan(p) else [f"p {p:.1g}"])

    return "" if math.isnan(size) else ", ".join(told)


def _told(report: "CheckReport") -> dict[str, Any]:
    """The report as JSON has it, which knows no NaN."""
    from deepbc.evaluation.check import DIRECTIONS

    record = {
        "verdict": report.verdict,
        "accepted": report.accepted,
        "grade": report.grade,
        **asdict(report),
        "not_tested": DIRECTIONS,
    }

    return {key: _plain(each) for key, each in record.items()}


def _plain(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _plain(each) for key, each in content.items()}
    if isinstance(content, tuple):
        return [_plain(each) for each in content]

    return None if isinstance(content, float) and math.isnan(content) else content
