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
    level: Annotated[float, typer.Option(help="How often a right model may be rejected.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Same seed, same report.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="A figure to write, .png or .svg.", show_default=False)] = None,
    drop_missing: DropMissing = False,
    as_json: Json = False,
) -> None:
    """Hold a model against a table: do its laws fit, and do the independences hold that its graph claims?

    Rows that the fit did not see are the better judges. Of more than 5,000 rows so many are drawn. The exit code is 0
    where the data contradicts nothing, 1 where it does. Arrow directions within an equivalence class are not tested.

    Example: deepbc check model new.csv --plot check.png
    """
    from deepbc._validation import check_choice
    from deepbc.batches.request import columns_of, labels_in
    from deepbc.data.tables import check_whole, read_table
    from deepbc.evaluation.check import check as check_model
    from deepbc.plots import check_plots
    from deepbc.scm.model import SCM

    if plot is not None:
        check_choice(plot.suffix.lower(), FIGURES, "--plot, the ending")
        check_plots()
    scm = SCM.load(model)
    table = check_whole(read_table(data, tuple(columns_of(scm)), labels_in(scm)), data, drop=drop_missing)
    report = check_model(scm, table, seed=seed, level=level)
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
    table = Table("variable", "verdict", "gain (nats)", "noise off by", "depends", "on most")
    for each in report:
        gain = "" if math.isnan(each.gain) else f"{each.gain:+.3f}"
        noise, others = _with_p(each.gap, each.gap_p), _with_p(each.dependence, each.dependence_p)
        add_row(table, each.name, each.verdict, gain, noise, others, each.dependence_on)
    console.print(table)
    say(report.explain())


def _with_p(size: float, p: float) -> str:
    """How large something is, and how likely that would be."""
    return "" if math.isnan(size) else f"{size:.2f}, p {p:.1g}"


def _told(report: "CheckReport") -> dict[str, Any]:
    """The report as JSON has it, which knows no NaN."""
    from deepbc.evaluation.check import DIRECTIONS

    record = {"verdict": report.verdict, "accepted": report.accepted, **asdict(report), "not_tested": DIRECTIONS}

    return {key: _plain(each) for key, each in record.items()}


def _plain(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _plain(each) for key, each in content.items()}
    if isinstance(content, tuple):
        return [_plain(each) for each in content]

    return None if isinstance(content, float) and math.isnan(content) else content
