"""The command that reads a graph, shows it and draws it."""

__all__ = ["graph"]

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from deepbc.cli.check import FIGURES
from deepbc.cli.console import add_row, console, say
from deepbc.cli.models import Json

if TYPE_CHECKING:
    from deepbc.graph import CausalGraph


def graph(
    written: Annotated[
        str, typer.Argument(metavar="FILE_OR_TEXT", help="A file of a graph, or its text.", show_default=False)
    ],
    data: Annotated[
        Path | None, typer.Option(help="A table, .csv or .parquet, to hold its columns against the graph.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A figure to write, .png or .svg.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Read a causal graph: show who listens to whom, draw it, and compare it with the columns of a table.

    A graph is text such as 'age -> income; age, income -> amount'. A name that holds signs stands in quotes:
    '"tip->driver" -> total'. Text may also be DOT, 'digraph { ... }', DAGitty, 'dag { ... }', or GML.

    A file is .dot or .gv, .gml, .dagitty, .txt with any such text, or .csv with the columns from and to.

    The exit code is 1 where the table lacks a column of the graph.

    Example: deepbc graph loans.dot --data loans.csv --out graph.png
    """
    from deepbc._validation import check_choice
    from deepbc.batches.spec import read_graph

    if out is not None:
        from deepbc.plots import check_plots

        check_choice(out.suffix.lower(), FIGURES, "--out, the ending")
        check_plots()
    known = read_graph(written, Path())
    record = _record(known)
    if data is not None:
        from deepbc.data.tables import column_names

        record["data"] = _compared(known, column_names(data))
    if out is not None:
        from deepbc.plots import plot_graph

        plot_graph(known, out)

    if as_json:
        sys.stdout.write(json.dumps(record, indent=2) + "\n")
    else:
        _print(record, data)
        if out is not None:
            say(f"figure: {out}")
    if record.get("data", {}).get("missing"):
        raise typer.Exit(1)


def _record(graph: "CausalGraph") -> dict[str, Any]:
    roots = [name for name in graph.order if not graph.parents(name)]
    leaves = [name for name in graph.order if not graph.children(name)]

    return {
        "text": str(graph),
        "parents": {name: list(graph.parents(name)) for name in graph.order},
        "counts": {"variables": len(graph), "edges": len(graph.edges), "roots": len(roots), "leaves": len(leaves)},
        "roots": roots,
        "leaves": leaves,
        "isolated": [name for name in roots if name in leaves] if len(graph) > 1 else [],
    }


def _compared(graph: "CausalGraph", columns: Collection[str]) -> dict[str, Any]:
    """What the table lacks, with the columns that may be meant, and what the graph does not name."""
    further = [name for name in columns if name not in graph]

    return {
        "missing": {name: _similar(name, further) for name in graph if name not in columns},
        "not_in_graph": further,
    }


def _similar(name: str, columns: Collection[str]) -> list[str]:
    """The columns whose names look like one, whatever the case of their letters."""
    import difflib

    folded = {column.casefold(): column for column in columns}
    if name.casefold() in folded:
        return [folded[name.casefold()]]

    return [folded[each] for each in difflib.get_close_matches(name.casefold(), folded, n=3)]


def _print(record: dict[str, Any], data: Path | None) -> None:
    counts = record["counts"]
    table = Table("variable", "causes", title="In causal order")
    for name, causes in record["parents"].items():
        add_row(table, name, ", ".join(causes))
    console.print(table)
    words = {"variables": "variable", "edges": "edge", "roots": "root", "leaves": "leaf"}
    say(", ".join(f"{count:,} {words[what] if count == 1 else what}" for what, count in counts.items()))
    if record["isolated"]:
        say(f"without causes and effects: {_listed(record['isolated'])}")
    if data is not None:
        _print_columns(record["data"], data)


def _print_columns(compared: dict[str, Any], data: Path) -> None:
    for name, similar in compared["missing"].items():
        hint = f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
        say(f"{data}: has no column {name!r}.{hint}")
    if not compared["missing"]:
        say(f"{data}: has a column for every variable")
    if compared["not_in_graph"]:
        say(f"columns that the graph does not name, which a fit leaves out: {_listed(compared['not_in_graph'])}")


def _listed(names: Collection[str]) -> str:
    from deepbc.notation.names import quote

    return ", ".join(map(quote, names))
