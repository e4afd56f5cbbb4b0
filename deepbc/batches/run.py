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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from deepbc._validation import check_count
from deepbc.batches.request import Request, ask, columns_of, labels_in
from deepbc.batches.workers import cores, side_by_side
from deepbc.data.tables import check_ending, count_rows, join_tables, read_chunks, write_table
from deepbc.errors import DataError, SettingError, StorageError
from deepbc.progress import progress
from deepbc.scm.model import SCM
from deepbc.storage import MANIFEST, locked, make_folder, write_bytes

BAD = "bad row"
# A table has so many parts by default, more if one would have more rows than the last. Smaller tables have fewer, of no
# more than 2,048 rows, but a multiple of 4, so that a few cores end together; those of up to 1,024 rows have one.
PARTS, TOGETHER, SMALLEST_PART, SMALL_PART, LARGEST_PART = 16, 4, 1024, 2048, 50_000
GAPPED = {"f": "float64", "i": "Int64", "b": "boolean", "O": "string"}
# No variable has this name.
REASON = "\0reason"


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

    @property
    def failed(self) -> int:
        """How many were asked and have no answer that holds."""
        return self.rows - self.converged - self.bad


def run_batch(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str],
    request: Request,
    out: str | os.PathLike[str],
    *,
    ids: Sequence[str] = (),
    rows: int | None = None,
    workers: int | None = None,
    show: bool | None = None,
) -> Batch:
    """Asks every row of a table.

    Args:
        model: The folder of the model.
        data: The table, `.csv` or `.parquet`.
        request: What is asked for; not samples.
        out: The table of answers to write, with the number of each row in `row`.
        ids: Columns of the table that are copied to the front of the answers, as they are.
        rows: How many rows are asked at a time; by default a sixteenth of the table, of small ones more, at most
            50,000.
        workers: How many such parts are asked side by side; None is one for each core.
        show: Whether to show a progress bar; None shows it on a terminal.
    """
    if rows is not None:
        check_count(rows, "rows", least=1)
    workers = cores() if workers is None else workers
    check_count(workers, "workers", least=1)
    if request.samples is not None:
        raise SettingError("samples: a batch asks for the nearest worlds alone. Leave them out, or ask single rows.")
    start, out, scm = time.monotonic(), Path(out), SCM.load(model)
    names = tuple(columns_of(scm))
    check_ending(out)
    if os.path.realpath(out) == os.path.realpath(data):
        raise StorageError(f"{out}: is the table that is asked. Choose another name for the answers.")
    if out.is_dir():
        raise StorageError(f"{out}: is a folder. Choose another name for the answers.")
    ids = _read_ids(ids, names)
    head = next(read_chunks(data, names, 1, labels_in(scm), ids), None)
    if head is None or not len(head):
        raise DataError(f"{data}: has no rows to ask.")
    # A question that cannot be asked of any row is an error before any work.
    nothing = ask(scm, head[list(names)].iloc[:0], request).to_frame()
    _check_free(ids, (*nothing.columns, *_own_names(nothing)))
    make_folder(out.parent)
    with locked(out):
        total = count_rows(data)
        rows = rows or _rows_of_parts(total)
        work = _Work(scm, Path(model), Path(data), request, out, rows, nothing, ids)
        asked, converged, bad = work.answer(-(-total // rows), workers, show)

    return Batch(asked, converged, bad, time.monotonic() - start, out)


@dataclass(frozen=True, slots=True)
class _Work:
    """The parts of a batch.

    Args:
        scm: The model.
        model: Its folder.
        data: The table.
        request: What is asked for.
        out: The table of answers.
        rows: How many rows a part has.
        nothing: The answers of no rows.
        ids: The columns that are copied.
    """

    scm: SCM
    model: Path
    data: Path
    request: Request
    out: Path
    rows: int
    nothing: pandas.DataFrame
    ids: tuple[str, ...]

    def answer(self, parts: int, workers: int, show: bool | None) -> list[int]:
        """Asks part after part and joins them; returns how many rows there are, hold, and could not be asked."""
        stamps = {"model": _stamp(self.model / MANIFEST), "data": _stamp(self.data)}
        folder = _parts(self.out, {"wishes": asdict(self.request), "ids": self.ids, "rows": self.rows, **stamps})

        tallies: list[list[int]] = []
        with side_by_side(self._ask, min(workers, parts)) as run, progress("batch", parts, show) as shown:
            for tally in run(self._chunks(folder)):
                tallies.append(tally)
                shown.describe(f"{sum(each[0] for each in tallies):,} rows")
                shown.advance()
        if stamps != {"model": _stamp(self.model / MANIFEST), "data": _stamp(self.data)}:
            raise DataError(
                f"{self.data}: the table or the model changed while it was asked. Remove {folder} and start anew."
            )
        join_tables([self._part(folder, number) for number in range(len(tallies))], self.out)
        shutil.rmtree(folder)

        return [sum(each) for each in zip(*tallies, strict=True)]

    def _chunks(self, folder: Path) -> Iterator[tuple[pandas.DataFrame, int, Path]]:
        """The rows of each part, the number of the first, and where the answers go."""
        first = 0
        chunks = read_chunks(self.data, tuple(columns_of(self.scm)), self.rows, labels_in(self.scm), self.ids)
        for number, chunk in enumerate(chunks):
            yield chunk, first, self._part(folder, number)
            first += len(chunk)

    def _ask(self, chunk: pandas.DataFrame, first: int, part: Path) -> list[int]:
        if tally := _tally(part):
            return tally
        chunk.index = pandas.RangeIndex(first, first + len(chunk))
        answers = _answers(self.scm, chunk[list(columns_of(self.scm))], self.request, self.nothing)
        tally = [len(answers), *(int((answers[self._status] == word).sum()) for word in ("converged", BAD))]
        row, reason = _own_names(self.nothing)
        answers = answers.rename(columns={REASON: reason}).rename_axis(row).reset_index()
        copied = chunk[list(self.ids)].reset_index(drop=True)
        write_table(pandas.concat([copied, answers], axis=1), part)
        # Last, so that a part with its tally is whole.
        write_bytes(part.with_suffix(".json"), json.dumps(tally).encode())

        return tally

    @property
    def _status(self) -> str:
        """The column of the status, which may be called otherwise where a variable has that name."""
        return str(self.nothing.columns[-1])

    def _part(self, folder: Path, number: int) -> Path:
        return folder / f"{number:06d}{self.out.suffix.lower()}"


def _answers(scm: SCM, chunk: pandas.DataFrame, request: Request, nothing: pandas.DataFrame) -> pandas.DataFrame:
    """Asks the rows of a chunk, whose index has their numbers; the answers have the types of `nothing`."""
    possible = _possible(scm, chunk)
    status = nothing.columns[-1]
    frames = [nothing.assign(**{REASON: ""}), *_asked(scm, chunk[possible], request, status)]
    frames.append(_marked(chunk[~possible], status, "It has a gap, an unknown label, or a value outside its bounds."))
    answers = pandas.concat([each for each in frames if len(each)]).sort_index()
    numbers = [name for name in nothing.columns if name != status]
    # Types that can hold a gap, so that every part has the same.
    types = {name: GAPPED[nothing[name].dtype.kind] for name in numbers}

    return answers.reindex(columns=[*numbers, status, REASON]).astype(types)


def _own_names(nothing: pandas.DataFrame) -> list[str]:
    """The names of the columns of the number of a row and of its reason.

    A variable may have one of them: that column then is called otherwise, as in the frame of an answer.
    """
    return [f"answer {name}" if name in nothing else name for name in ("row", "reason")]


def _rows_of_parts(total: int) -> int:
    """How many rows of a table are asked at a time."""
    if total <= SMALLEST_PART:
        return total
    parts = min(PARTS, TOGETHER * -(-total // (TOGETHER * SMALL_PART)))

    return min(LARGEST_PART, -(-total // parts))


def _read_ids(ids: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The columns that are copied, each once, beside those that are asked; a lone name is one."""
    listed = (ids,) if isinstance(ids, str) else tuple(ids)
    for name in listed:
        if listed.count(name) > 1:
            raise SettingError(f"--id {name!r}: it is named twice. Name it once.")
    _check_free(listed, names)

    return listed


def _check_free(ids: Sequence[str], taken: Sequence[str]) -> None:
    """No column that is copied has the name of another column of the answers."""
    for name in ids:
        if name in taken:
            raise SettingError(
                f"--id {name!r}: the answers have a column of that name already. Leave it out, or rename it in the "
                f"table."
            )


def _tally(part: Path) -> list[int] | None:
    """What was counted in a part of an earlier run, if it stands."""
    try:
        tally: list[int] = json.loads(part.with_suffix(".json").read_bytes())
    except (OSError, ValueError):
        return None

    return tally if part.exists() else None


def _asked(scm: SCM, rows: pandas.DataFrame, request: Request, status: str) -> Iterator[pandas.DataFrame]:
    """Asks rows; where that fails because of one of them, halves of them, until it is found."""
    if not len(rows):
        return
    try:
        cf = ask(scm, rows, request)
    except DataError as error:
        if len(rows) == 1:
            yield _marked(rows, status, str(error))
            return
        for half in (rows.iloc[: len(rows) // 2], rows.iloc[len(rows) // 2 :]):
            yield from _asked(scm, half, request, status)
        return

    reasons = ["" if each == "converged" else f"{each.reason} {each.remedy}".strip() for each in cf.status]
    yield cf.to_frame().set_index(rows.index).assign(**{REASON: reasons})


def _marked(rows: pandas.DataFrame, status: str, reason: str) -> pandas.DataFrame:
    return pandas.DataFrame({status: BAD, REASON: reason}, index=rows.index)


def _possible(scm: SCM, chunk: pandas.DataFrame) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Which rows have a number within its bounds, or a known label, in every column."""
    possible = np.ones(len(chunk), dtype=bool)
    for column, name in columns_of(scm).items():
        possible &= scm.variables[name].legal(chunk[column].to_numpy())

    return possible


def _parts(out: Path, question: dict[str, Any]) -> Path:
    """Makes the folder of the parts, or takes up that of an earlier run which asked the same."""
    text = json.dumps(question, sort_keys=True)
    folder = make_folder(out.with_name(f"{out.name}.parts"))
    asked = folder / "question.json"
    if not asked.exists():
        if any(folder.iterdir()):
            raise StorageError(f"{folder}: expected parts of a batch, got something else. Choose another --out.")
        write_bytes(asked, text.encode())
    elif asked.read_text() != text:
        raise StorageError(
            f"{folder}: holds parts of another batch (other model, data, question, --id or --chunk). Remove it to "
            f"start anew, or choose another --out."
        )

    return folder


def _stamp(path: Path) -> list[int]:
    """What tells whether a file is still the same."""
    known = path.stat()

    return [known.st_size, known.st_mtime_ns]
