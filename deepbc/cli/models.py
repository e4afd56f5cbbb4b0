"""Commands for a table of yours: fit a model, look at it, ask it, draw from it."""

__all__ = ["Json", "ask", "batch", "fit", "fit_records", "report_table", "sample", "show"]

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from deepbc.cli.console import add_row, console, say

if TYPE_CHECKING:
    from deepbc.batches.spec import Spec
    from deepbc.data.categories import Levels
    from deepbc.queries.description import Column
    from deepbc.queries.results import Counterfactual
    from deepbc.scm.model import SCM
    from deepbc.training.report import ColumnSummary, FitReport

Data = Annotated[Path, typer.Argument(help="A table, .csv with a line of names or .parquet.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="The folder of a model.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Conditions = Annotated[
    list[str],
    typer.Option(
        "--if",
        help="What is to hold: 'a=3', 'a>=3', '3<=a<=4', 'b=word', 'b=word|other', 'b!=word', '\"a name\"=3'.",
        show_default=False,
    ),
]
Forced = Annotated[bool, typer.Option("--intervene", help="Break the law of what is asked, instead.")]
Keep = Annotated[int | None, typer.Option(min=1, help="At most so many noises may move.")]
Scope = Annotated[str | None, typer.Option(help="Whose noises may move: 'a,b'.")]
Weights = Annotated[list[str] | None, typer.Option(help="What moving a noise costs: 'a=5'.")]
Fixed = Annotated[str | None, typer.Option("--fix", help="What may not change: 'a,b'.")]
Constraints = Annotated[
    list[str] | None,
    typer.Option("--constraint", help="How it may change: 'a=up', 'a=down', 'a=18,40', 'b=word|other', 'a=free'."),
]
Inside = Annotated[str | None, typer.Option(help="'seen' keeps numbers inside what the fit saw.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows that have gaps or words.")]


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="The folder for the model.", show_default=False)],
    graph: Annotated[
        str | None, typer.Option(help="Who listens to whom: 'a -> b; a, b -> c', or a file, .dot, .gml, ...")
    ] = None,
    spec: Annotated[Path | None, typer.Option(help="A YAML file with graph, types, bounds, mechanisms.")] = None,
    bounds: Annotated[list[str] | None, typer.Option(help="What a value never leaves: 'b=0,100', 'b=0,'.")] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help="What values are: 'b=real', 'b=integer', 'b=grid', 'b=category', 'b=censored' or 'b=low,high'.",
        ),
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A folder in which a killed fit is kept, to go on.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same data, same model; 0 where none is given.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="A column, for example of a place or a month: its rows are held out together.")
    ] = None,
    drop_missing: DropMissing = False,
    as_json: Json = False,
) -> None:
    """Learn a causal model of the columns of a table, one law for every variable of a graph.

    Columns of words, and of two values, are categories; those of whole numbers hold integers, those of coarse steps lie
    on a grid, those with many rows at an end are censored; all others are real. Columns that the graph does not name
    are left out. Prints what each column is taken for and what is odd about it, then how well each law predicts rows
    that it did not see. What a graph may be written in is said by deepbc graph --help.

    Example: deepbc fit data.csv --graph "age -> income; age, income -> amount" --bounds amount=0, --out model
    """
    from deepbc.data.tables import check_whole, read_table, with_types
    from deepbc.scm.model import KIND
    from deepbc.storage import check_place

    model = _spec(graph, spec, bounds or (), types or ())
    scm = model.scm
    check_place(out, KIND)
    labels = {name: declared == "category" or not isinstance(declared, str) for name, declared in scm.types.items()}
    others = () if groups is None or groups in scm.graph else (groups,)
    columns = read_table(data, (*scm.graph, *others), labels | dict.fromkeys(others, True))
    table = with_types(check_whole(columns, data, drop=drop_missing))
    chosen = model.seed if seed is None else seed
    said: set[str] = set()

    def tell(columns: "Mapping[str, ColumnSummary]") -> None:
        _print_columns(columns)
        said.update(warning for each in columns.values() for warning in each.warnings)

    on_columns = None if as_json else tell
    report = scm.fit(
        table, seed=chosen, training=model.training, checkpoint=checkpoint, on_columns=on_columns, groups=groups
    )
    scm.save(out)

    if as_json:
        _print_json(fit_records(report))
        return
    console.print(report_table(report))
    _print_warnings([warning for warning in report.warnings if warning not in said])
    say(f"model: {out}")


def show(model: Model, as_json: Json = False) -> None:
    """Show a model: its graph, its laws, and what its fit reported."""
    from deepbc.data.wording import write_exact, write_label
    from deepbc.notation.names import quote
    from deepbc.scm.model import SCM

    scm = SCM.load(model)
    if as_json:
        _print_json({"graph": scm.graph.to_dict(), "variables": _variables(scm), "report": fit_records(scm.report)})
        return

    for name in scm.graph.order:
        say(f"{', '.join(map(quote, scm.graph.parents(name))) or '(no cause)'} -> {quote(name)}")
    laws = Table("variable", "type", "law", "values", title="Variables")
    for name, record in _variables(scm).items():
        ends = ["" if end is None else write_exact(end) for end in record["bounds"]]
        values = ", ".join(map(write_label, record["levels"])) or (" to ".join(ends) if any(ends) else "")
        add_row(laws, name, record["type"], record["mechanism"], values)
    console.print(laws)
    if scm.report.variables:
        console.print(report_table(scm.report))
        _print_warnings(scm.report.warnings)


def ask(
    model: Model,
    data: Data,
    row: Annotated[list[int], typer.Option(help="The row to ask about, counted from 0; several are asked in turn.")],
    condition: Conditions,
    intervene: Forced = False,
    keep: Keep = None,
    scope: Scope = None,
    weight: Weights = None,
    fix: Fixed = None,
    constraint: Constraints = None,
    inside: Inside = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Draw so many worlds instead of the nearest.")] = None,
    seed: Annotated[int, typer.Option(help="Where samples come from.")] = 0,
    as_json: Json = False,
) -> None:
    """Ask about rows of a table: had this been so, what else would have been different, and why?

    The answer is the nearest world in which the condition holds and every law is kept. Moved says which noise carried
    the change. The exit code is 1 where an answer does not hold.

    Example: deepbc ask model data.csv --row 11 --if "amount=2000"
    """
    from deepbc.batches.request import Request, columns_of, labels_in
    from deepbc.batches.request import ask as put
    from deepbc.data.tables import check_whole, pick_rows, read_table
    from deepbc.scm.model import SCM

    scm = SCM.load(model)
    limits = tuple(constraint or ())
    request = Request(tuple(condition), intervene, keep, scope, tuple(weight or ()), samples, seed, fix, limits, inside)
    table = read_table(data, tuple(columns_of(scm)), labels_in(scm))
    cf = put(scm, check_whole(pick_rows(table, row), data), request)

    if as_json:
        _print_json(_records(cf, row))
    elif samples:
        _print_samples(cf, row)
    else:
        _print_answers(cf, row)
    if not (cf.status == "converged").all():
        raise typer.Exit(1)


def batch(
    model: Model,
    data: Data,
    condition: Conditions,
    out: Annotated[Path, typer.Option(help="The table of answers, .csv or .parquet.", show_default=False)],
    intervene: Forced = False,
    keep: Keep = None,
    scope: Scope = None,
    weight: Weights = None,
    fix: Fixed = None,
    constraint: Constraints = None,
    inside: Inside = None,
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="A column to copy into the answers; several are copied in turn.")
    ] = None,
    chunk: Annotated[int | None, typer.Option(min=1, help="How many rows are asked at a time.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="How many parts are asked at once; one a core.")] = None,
    as_json: Json = False,
) -> None:
    """Ask about every row of a table, which may be larger than memory.

    A killed run that is started again goes on where it was: finished parts wait beside the output. A row that cannot be
    asked, because of a gap or a value outside its bounds, is marked as a bad row; the others are answered. The exit
    code is 0 once every row has its line, whatever it says; 1 where all of them are bad.

    Example: deepbc batch model data.csv --if "amount=2000" --id name --out answers.parquet
    """
    from deepbc.batches.request import Request
    from deepbc.batches.run import run_batch

    limits = tuple(constraint or ())
    request = Request(
        tuple(condition), intervene, keep, scope, tuple(weight or ()), fixed=fix, constraints=limits, inside=inside
    )
    made = run_batch(model, data, request, out, ids=ids or (), rows=chunk, workers=workers)
    counts = {"rows": made.rows, "converged": made.converged, "failed": made.failed, "bad": made.bad}
    if as_json:
        _print_json(counts | {"seconds": round(made.seconds, 1), "out": str(made.out)})
    else:
        words = ", ".join(f"{count:,} {word}" for word, count in counts.items() if word != "rows")
        say(f"{made.rows:,} rows in {made.seconds:.1f} s: {words}")
        say(f"answers: {made.out}")
    if made.bad == made.rows:
        raise typer.Exit(1)


def sample(
    model: Model,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000_000, help="How many rows.")] = 10,
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file; otherwise CSV is printed.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same rows.")] = 0,
) -> None:
    """Draw rows from a model."""
    from deepbc.data.tables import write_table
    from deepbc.scm.model import SCM

    frame = SCM.load(model).sample(count, seed=seed).to_frame()
    if out is None:
        frame.to_csv(sys.stdout, index=False)
        return
    write_table(frame, out)
    say(f"{len(frame):,} rows: {out}")


def _spec(graph: str | None, path: Path | None, bounds: Sequence[str], types: Sequence[str]) -> "Spec":
    """The model that the words of a command, or a file, describe."""
    from deepbc.batches.conditions import parse_bounds, parse_types
    from deepbc.batches.spec import Spec, read_graph, read_spec
    from deepbc.errors import SettingError
    from deepbc.scm.model import SCM

    if (graph is None) == (path is None) or (path is not None and (bounds or types)):
        raise SettingError(
            "fit: expected --graph, with --bounds and --type if you like, or --spec with all in its file."
        )
    if path is not None:
        return read_spec(path)
    known = read_graph(str(graph), Path())
    names = tuple(known)

    return Spec(SCM(known, bounds=parse_bounds(bounds, names), types=parse_types(types, names)), {}, 0)


def _variables(scm: "SCM") -> dict[str, dict[str, Any]]:
    from deepbc.data.variables import OPEN

    return {
        name: {
            "type": scm.variables[name].kind,
            "mechanism": repr(scm.mechanisms[name]),
            "bounds": [end if math.isfinite(end) else None for end in scm.bounds.get(name, OPEN)],
            "levels": list(scm.schema.levels[name].items) if name in scm.schema.levels else [],
        }
        for name in scm.graph.order
    }


def fit_records(report: "FitReport") -> list[dict[str, Any]]:
    return json.loads(report.to_frame().to_json(orient="records", double_precision=15))  # type: ignore[no-any-return] # a list


def report_table(report: "FitReport") -> Table:
    table = Table("variable", "law", "held-out nll (nats)", "skill", "held-out rows", "seconds", "notes", title="Fit")
    for each in report:
        numbers = (f"{each.nll:.4f}", each.skill, f"{each.rows:,}", f"{each.seconds:.1f}")
        add_row(table, each.name, each.mechanism, *numbers, "; ".join(each.notes))

    return table


def _print_columns(columns: "Mapping[str, ColumnSummary]") -> None:
    """Prints what each column is taken for, and what is odd about it, before anything is learned."""
    rows = next(iter(columns.values())).rows
    table = Table("variable", "type", "from", "values", title=f"Columns: {rows:,} rows")
    for name, each in columns.items():
        add_row(table, name, each.type, each.origin, each.values)
    console.print(table)
    for column in columns.values():
        _print_warnings(column.warnings)


def _print_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        say(f"warning: {warning}")


def _print_answers(cf: "Counterfactual", rows: Sequence[int]) -> None:
    """Prints a table for each row, each variable before and after, what its noise carried, and the answer in words."""
    from deepbc.queries.description import columns_of

    columns = columns_of(cf)
    for k, row in enumerate(rows):
        table = Table("variable", "factual", "counterfactual", "moved", title=f"Row {row}: {cf.status[k]}")
        for name, column in columns.items():
            before, after = column.before[k], column.after[0, k]
            for part, mark in enumerate(_labels(cf, name, len(before))):
                one, other = before[part], after[part]
                values = column.write_part(part, one, other), column.write_part(part, other, one)
                add_row(table, mark, *values, "" if part else _moved(cf, name, k))
        console.print(table)
        say(f"distance {cf.distance[k].item():.4g}, error {cf.error[k].item():.1e} sd; * asked")
        say(cf.describe(k))


def _print_samples(cf: "Counterfactual", rows: Sequence[int]) -> None:
    """Prints a table for each row: each variable before, and the mean and spread of its samples, or their shares."""
    from deepbc.queries.description import columns_of

    columns = columns_of(cf)
    for k, row in enumerate(rows):
        table = Table("variable", "factual", "mean", "sd", "5 %", "95 %", title=f"Row {row}: {cf.status[k]}")
        for name, column in columns.items():
            before, drawn = column.before[k], column.after[:, k]
            marks = _labels(cf, name, len(before))
            if column.levels:
                add_row(table, marks[0], column.write(before), _shares(drawn, column.levels))
                continue
            for part, mark in enumerate(marks):
                add_row(table, mark, *_spread(column, part, before[part], drawn[:, part]))
        console.print(table)
        say(f"{cf.batch[0]:,} samples; * asked")
        say(cf.describe(k))


def _spread(column: "Column", part: int, before: float, drawn: Any) -> list[str]:
    """A number before, and the mean, standard deviation, 5 and 95 % quantiles of its samples."""
    import numpy

    from deepbc.data.wording import write_number

    numbers = [float(each) for each in (drawn.mean(), drawn.std(), *numpy.quantile(drawn, [0.05, 0.95]))]
    step = column.step(part, before, *numbers)

    return [column.write_part(part, before, *numbers), *(write_number(each, step) for each in numbers)]


def _moved(cf: "Counterfactual", name: str, k: int) -> str:
    """What a noise carried, to a hundredth or so of the distance."""
    from deepbc.data.wording import step_of, write_number

    return write_number(cf.moved[name][k].item(), 10 * step_of(None, cf.distance[k].item()))


def _shares(codes: Any, levels: "Levels") -> str:
    """How often each label came, most often first."""
    from deepbc.data.wording import write_label

    shares = [float((codes == code).mean()) for code in range(len(levels))]
    order = sorted(range(len(levels)), key=lambda code: -shares[code])

    return ", ".join(f"{write_label(levels.items[code])} {shares[code]:.0%}" for code in order if shares[code] > 0)


def _labels(cf: "Counterfactual", name: str, components: int) -> list[str]:
    """The name of a variable, or of each component of a vector; a star where it was asked about."""
    mark = " *" if name in cf.antecedent else ""

    return [f"{name}{mark}"] if components == 1 else [f"{name}[{k}]{mark}" for k in range(components)]


def _records(cf: "Counterfactual", rows: Sequence[int]) -> list[dict[str, Any]]:
    """A record for each answer, or for each sample: its row, values, evidence, reason of failure and sentence."""
    frame = cf.to_frame().reset_index(drop=True)
    # A variable may have the name of a column of ours.
    row, reason, sentence = (f"answer {k}" if k in frame.columns else k for k in ("row", "reason", "sentence"))
    reasons = ["" if each == "converged" else each.explain() for each in cf.status]
    records = json.loads(frame.to_json(orient="records", double_precision=15))
    said = [cf.describe(k) for k in range(len(rows))]
    places = [k % len(rows) for k in range(len(records))]

    return [
        {row: rows[k], **record, reason: reasons[k], sentence: said[k]}
        for k, record in zip(places, records, strict=True)
    ]


def _print_json(content: Any) -> None:
    sys.stdout.write(json.dumps(content, indent=2) + "\n")
