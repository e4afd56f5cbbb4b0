"""A question put to every row of a table that may be larger than memory.

Rows are read, asked and written so many at a time, each time into a part of its own beside the output. A killed run
that is started again goes on after the parts that stand; at the end they are joined. A row that cannot be asked, for a
gap, a word or a value outside its bounds, is marked and does no harm to the others.
"""

__all__ = ["Batch", "run_batch"]

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepbc._checks import check_count
from deepbc.asking import Wishes, ask, columns_of
from deepbc.datasets.files import write_bytes
from deepbc.errors import DataError, SettingError, StorageError
from deepbc.progress import progress
from deepbc.scm import SCM
from deepbc.storage import make_folder
from deepbc.tables import check_ending, count_rows, join_tables, read_chunks, write_table
from deepbc.variables import OPEN

if TYPE_CHECKING:
    import pandas

BAD = "bad row"


@dataclass(frozen=True, slots=True)
class Batch:
    """What came of a batch.

    Args:
        rows: The number of rows.
        converged: How many of them have an answer that holds.
        bad: How many could not be asked.
        seconds: The time it took, that of earlier runs not counted.
        out: The table of answers.
    """

    rows: int
    converged: int
    bad: int
    seconds: float
    out: Path


def run_batch(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str],
    wishes: Wishes,
    out: str | os.PathLike[str],
    *,
    rows: int = 50_000,
    show: bool | None = None,
) -> Batch:
    """Asks every row of a table.

    Args:
        model: The folder of the model.
        data: The table, `.csv` or `.parquet`.
        wishes: What is asked for; not samples.
        out: The table of answers to write, with the number of each row in `row`.
        rows: How many rows are in memory at a time.
        show: Whether to show a progress bar; None shows it on a terminal.
    """
    check_count(rows, "rows", least=1)
    if wishes.samples is not None:
        raise SettingError("samples: a batch asks for the nearest worlds alone. Leave them out, or ask single rows.")
    start, out, scm = time.monotonic(), Path(out), SCM.load(model)
    names = tuple(columns_of(scm))
    check_ending(out)
    if os.path.realpath(out) == os.path.realpath(data):
        raise StorageError(f"{out}: is the table that is asked. Choose another name for the answers.")
    head = next(read_chunks(data, names, 1), None)
    if head is None or not len(head):
        raise DataError(f"{data}: has no rows to ask.")
    # A question that cannot be asked of any row is an error before any work.
    nothing = ask(scm, head.iloc[:0], wishes).to_frame()
    folder = _parts(out, {"wishes": asdict(wishes), "rows": rows, "model": _stamp(model), "data": _stamp(data)})

    counts = np.zeros(3, dtype=int)
    parts: list[Path] = []
    with progress("batch", -(-count_rows(data) // rows), show) as shown:
        for chunk in read_chunks(data, names, rows):
            part = folder / f"{len(parts):06d}{out.suffix.lower()}"
            parts.append(part)
            tally = part.with_suffix(".json")
            if not tally.exists():
                # Last, so that a part with its tally is whole.
                tally_of = _ask(scm, chunk, wishes, int(counts[0]), nothing, part)
                write_bytes(tally, json.dumps(tally_of).encode())
            counts += json.loads(tally.read_bytes())
            shown.tell(f"{counts[0]:,} rows")
            shown.advance()
    join_tables(parts, out)
    shutil.rmtree(folder)

    asked, converged, bad = counts.tolist()

    return Batch(asked, converged, bad, time.monotonic() - start, out)


def _ask(
    scm: SCM, chunk: "pandas.DataFrame", wishes: Wishes, first: int, nothing: "pandas.DataFrame", part: Path
) -> list[int]:
    """Asks the rows of a chunk and writes the answers; returns how many there are, hold, and could not be asked."""
    import pandas

    chunk.index = pandas.RangeIndex(first, first + len(chunk))
    possible = _possible(scm, chunk)
    status = nothing.columns[-1]
    frames = [nothing.assign(reason=""), *_asked(scm, chunk[possible], wishes, status)]
    frames.append(_marked(chunk[~possible], status, "It has a gap, a word, or a value outside its bounds."))
    answers = pandas.concat([each for each in frames if len(each)]).sort_index()
    numbers = [name for name in nothing.columns if name != status]
    answers = answers.reindex(columns=[*numbers, status, "reason"]).astype(dict.fromkeys(numbers, float))
    write_table(answers.rename_axis("row").reset_index(), part)

    return [len(answers), int((answers[status] == "converged").sum()), int((answers[status] == BAD).sum())]


def _asked(scm: SCM, rows: "pandas.DataFrame", wishes: Wishes, status: str) -> Iterator["pandas.DataFrame"]:
    """Asks rows; where that fails because of one of them, halves of them, until it is found."""
    if not len(rows):
        return
    try:
        cf = ask(scm, rows, wishes)
    except DataError as error:
        if len(rows) == 1:
            yield _marked(rows, status, str(error))
            return
        for half in (rows.iloc[: len(rows) // 2], rows.iloc[len(rows) // 2 :]):
            yield from _asked(scm, half, wishes, status)
        return

    reasons = ["" if each == "converged" else f"{each.reason} {each.remedy}".strip() for each in cf.status]
    yield cf.to_frame().set_index(rows.index).assign(reason=reasons)


def _marked(rows: "pandas.DataFrame", status: str, reason: str) -> "pandas.DataFrame":
    import pandas

    return pandas.DataFrame({status: BAD, "reason": reason}, index=rows.index)


def _possible(scm: SCM, chunk: "pandas.DataFrame") -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Which rows have a number within its bounds in every column."""
    values = chunk.to_numpy()
    bounds = np.array([scm.bounds.get(name, OPEN) for name in columns_of(scm).values()])

    return np.asarray((np.isfinite(values) & (values > bounds[:, 0]) & (values < bounds[:, 1])).all(1))


def _parts(out: Path, question: dict[str, Any]) -> Path:
    """Makes the folder of the parts, or takes up that of an earlier run which asked the same."""
    text = json.dumps(question, sort_keys=True)
    make_folder(out.parent)
    folder = make_folder(out.with_name(f"{out.name}.parts"))
    asked = folder / "question.json"
    if not asked.exists():
        if any(folder.iterdir()):
            raise StorageError(f"{folder}: expected parts of a batch, got something else. Choose another --out.")
        write_bytes(asked, text.encode())
    elif asked.read_text() != text:
        raise StorageError(
            f"{folder}: holds parts of another batch (other model, data, question or --chunk). Remove it to start "
            f"anew, or choose another --out."
        )

    return folder


def _stamp(path: str | os.PathLike[str]) -> list[Any]:
    """What tells whether a file, or the files of a folder, are still the same."""
    path = Path(path)
    files = sorted(path.iterdir()) if path.is_dir() else [path]

    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]
