"""Tables on disk: CSV and Parquet, told apart by the ending of their name."""

__all__ = [
    "check_ending",
    "check_whole",
    "column_names",
    "count_rows",
    "join_tables",
    "pick_rows",
    "read_chunks",
    "read_table",
    "with_types",
    "write_table",
]

import csv
import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pandas

from deepbc._validation import pick
from deepbc.data.dates import check_no_date_text, check_no_dates
from deepbc.errors import DataError, DeepBCError, SettingError, StorageError
from deepbc.storage import replacing

ENDINGS = {".csv": "CSV", ".parquet": "Parquet"}
TRUTHS = {"true", "false"}
# As text, so that a word in one row does not change how the others are read; and no first column as an index.
PLAIN: dict[str, Any] = {"dtype": str, "index_col": False, "keep_default_na": False, "na_values": [""]}
# Words for a gap, in columns of labels that nobody declared.
GAPS = {"NA", "N/A", "NaN", "nan", "null", "NULL", "None", "none", "n/a", "#N/A", "<NA>"}


def read_table(
    path: str | os.PathLike[str], names: Sequence[str], labels: Mapping[str, bool] | None = None
) -> pandas.DataFrame:
    """Reads columns of numbers and of labels. An empty cell comes as a gap, as does a word among numbers.

    Args:
        path: The file, `.csv` (with a line of names) or `.parquet`.
        names: The columns to read.
        labels: Whether each column that is named holds labels; any other holds labels if most of its cells are no
            numbers.

    Raises:
        DataError: The file is missing, is no table, lacks a column or has one that is neither of numbers nor labels.
    """
    path = Path(path)
    ending = _check(path, names)
    with _told(path, ending):
        # Rows are those of the file, whatever index pandas may have stored with them.
        frame = pandas.read_csv(path, **PLAIN) if ending == ".csv" else _pandas(_parquet(path).read().select(names))

    return _columns(frame, names, labels or {}, path)


def read_chunks(
    path: str | os.PathLike[str],
    names: Sequence[str],
    rows: int,
    labels: Mapping[str, bool] | None = None,
    ids: Sequence[str] = (),
) -> Iterator[pandas.DataFrame]:
    """Reads as `read_table` does, so many rows at a time, and guesses nothing: a word in place of a number is a gap.

    Args:
        path: The file.
        names: The columns.
        rows: The rows of a chunk.
        labels: Whether each column holds labels; one that is not named holds numbers.
        ids: Other columns, which come behind these and are as they are: text in CSV, in Parquet of any type.
    """
    path = Path(path)
    labels = dict.fromkeys(names, False) | dict(labels or {})
    ending = _check(path, (*names, *ids))
    chunks = _chunks(path, ending, rows, names, ids)
    while True:
        with _told(path, ending):
            chunk = next(chunks, None)
        if chunk is None:
            return
        yield pandas.concat([_columns(chunk[0], names, labels, path, words=True), chunk[1]], axis=1)


def _chunks(
    path: Path, ending: str, rows: int, names: Sequence[str], ids: Sequence[str]
) -> Iterator[tuple[pandas.DataFrame, pandas.DataFrame]]:
    """The columns of names, and those of ids."""
    if ending == ".csv":
        with pandas.read_csv(path, chunksize=rows, **PLAIN) as reader:
            yield from ((chunk, chunk[list(ids)].astype("string")) for chunk in reader)
    else:
        for batch in _parquet(path).iter_batches(rows):
            yield _pandas(batch.select(names)), _pandas(_decoded(batch.select(ids)), types_mapper=pandas.ArrowDtype)


def _pandas(table: Any, **settings: Any) -> pandas.DataFrame:
    """A table of pyarrow as a data frame with the rows counted from 0."""
    return table.to_pandas(ignore_metadata=True, **settings)  # type: ignore[no-any-return] # a data frame


def _decoded(batch: Any) -> Any:
    """The same with labels in place of codes, so that all parts of a table have one type."""
    from pyarrow import RecordBatch, types

    columns = [each.dictionary_decode() if types.is_dictionary(each.type) else each for each in batch.columns]

    return RecordBatch.from_arrays(columns, names=batch.schema.names)


def column_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Reads the names of the columns of a table, and nothing else of it."""
    path = Path(path)
    ending = check_ending(path)
    if path.is_dir():
        raise DataError(f"{path}: expected a file, got a folder. Give the file.")
    with _told(path, ending):
        if ending == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as file:
                there = next(csv.reader(file), [])
        else:
            there = [str(name) for name in _parquet(path).schema_arrow.names]
    if not there:
        raise DataError(f"{path}: cannot be read as {ENDINGS[ending]} (it is empty).")

    return tuple(there)


def _check(path: Path, names: Sequence[str]) -> str:
    """Checks that a table has each of the columns once, and returns its ending."""
    there = column_names(path)
    for name in names:
        if name not in there and len(there) == 1 and (sign := re.search(r"[;\t|]", there[0])):
            raise DataError(f"{path}: expected commas between cells, got {sign[0]!r}. Write it with commas.")
        pick(name, there, str(path))
        if there.count(name) > 1:
            raise DataError(f"{path}: the column {name!r} comes twice. Drop or rename one.")

    return check_ending(path)


def _columns(
    frame: pandas.DataFrame, names: Sequence[str], labels: Mapping[str, bool], path: Path, *, words: bool = False
) -> pandas.DataFrame:
    """The columns, as numbers or labels; one of numbers may hold nothing but words, where that is said."""
    frame.columns = [str(name) for name in frame.columns]
    columns = {}
    for name in names:
        column = frame[name]
        check_no_dates(column.to_numpy(), f"{path}, {name!r}")
        if column.dtype.kind not in "iufbOU" and not isinstance(
            column.dtype, pandas.StringDtype | pandas.CategoricalDtype
        ):
            raise DataError(f"{path}, {name!r}: expected numbers or labels, got {column.dtype}. Convert it first.")
        if labels.get(name):
            columns[name] = _labels(column)
            continue
        numbers = _numbers(column)
        if name not in labels and (column.notna() & numbers.isna()).sum() > numbers.notna().sum():
            columns[name] = _labels(column.mask(column.isin(GAPS)))
        else:
            if (not words or column.dtype.kind == "b") and column.notna().any() and numbers.isna().all():
                first = column[column.notna()].iloc[0]
                check_no_date_text([first], f"{path}, {name!r}")
                raise DataError(
                    f"{path}, {name!r}: expected numbers, got the text {first!r}. Convert the column first."
                )
            columns[name] = numbers

    return pandas.DataFrame(columns, index=frame.index)


def _numbers(column: "pandas.Series[Any]") -> "pandas.Series[Any]":
    """The numbers in a column, with gaps for all else; truth values and categories are no numbers."""
    labelled = column.dtype.kind == "b" or isinstance(column.dtype, pandas.CategoricalDtype)
    if labelled or pandas.api.types.infer_dtype(column, skipna=True) == "boolean":
        return pandas.Series(float("nan"), index=column.index)

    return pandas.to_numeric(column, errors="coerce").astype(float)


def _labels(column: "pandas.Series[Any]") -> "pandas.Series[Any]":
    """Labels as they are, with None in gaps. A category keeps its order."""
    if isinstance(column.dtype, pandas.CategoricalDtype):
        return column

    return column.astype(object).where(column.notna(), None)


def with_types(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The same table, which is to be learned from, with columns of the words true and false as truth values."""
    typed = frame.copy(deep=False)
    for name in frame.columns:
        column = frame[name]
        if column.dtype == object and {str(label).lower() for label in column.unique()} <= TRUTHS:
            typed[name] = column.map(lambda label: str(label).lower() == "true")

    return typed


def check_whole(frame: pandas.DataFrame, path: str | os.PathLike[str], *, drop: bool = False) -> pandas.DataFrame:
    """Drops rows with gaps, or refuses them.

    Args:
        frame: The rows.
        path: Where they come from, for an error.
        drop: Whether to drop rows with gaps; otherwise one is an error that counts them.
    """
    gaps = frame.isna()
    rows = gaps.any(axis=1)
    if rows.any() and not drop:
        worst, count = gaps.sum().idxmax(), int(gaps.sum().max())
        raise DataError(
            f"{path}: {int(rows.sum()):,} of {len(frame):,} rows have gaps or words, most in {worst!r} ({count:,}), "
            f"the first is row {rows.idxmax()}. Fill them, or leave these rows out (fit: --drop-missing)."
        )

    return frame[~rows]


def pick_rows(table: pandas.DataFrame, rows: Sequence[int]) -> pandas.DataFrame:
    """Picks rows of a table, counted from 0."""
    for row in rows:
        if not 0 <= row < len(table):
            raise DataError(f"row {row}: expected 0 to {len(table) - 1:,}, as many as the table has.")

    return table.iloc[list(rows)]


def count_rows(path: str | os.PathLike[str]) -> int:
    """Counts the rows of a table without reading it; of a CSV file its lines, which may be more."""
    path = Path(path)
    ending = check_ending(path)
    with _told(path, ending):
        if ending == ".parquet":
            return int(_parquet(path).metadata.num_rows)
        with path.open("rb") as file:
            return max(0, sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) - 1)


def write_table(frame: pandas.DataFrame, path: str | os.PathLike[str]) -> None:
    """Writes a table, whole or not at all, without its index."""
    path = Path(path)
    with _whole(path) as (ending, fresh):
        if ending == ".csv":
            frame[:0].to_csv(fresh, index=False)
            # By default a carriage return in a text is not quoted, and ends a line for those who read it.
            returns = any(frame[name].astype(str).str.contains("\r", regex=False).any() for name in _texts(frame))
            quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
            frame.to_csv(fresh, mode="a", header=False, index=False, quoting=quoting)
        else:
            frame.to_parquet(fresh, index=False)


def _texts(frame: pandas.DataFrame) -> list[str]:
    return [name for name in frame.columns if frame[name].dtype.kind not in "iufbMm"]


def join_tables(parts: Sequence[Path], path: Path) -> None:
    """Joins tables of the same columns, as `write_table` wrote them, into one; in memory there is one at a time."""
    with _whole(path) as (ending, fresh):
        if ending == ".csv":
            _join_lines(parts, fresh)
        else:
            from pyarrow.parquet import ParquetWriter

            with ParquetWriter(fresh, _parquet(parts[0]).schema_arrow) as whole:
                for part in parts:
                    whole.write_table(_parquet(part).read())


def _join_lines(parts: Sequence[Path], fresh: Path) -> None:
    # A name may hold a line break, so the names are more than a line.
    names = len(pandas.read_csv(parts[0], nrows=0, **PLAIN).to_csv(index=False).encode())
    with fresh.open("wb") as whole:
        for k, part in enumerate(parts):
            with part.open("rb") as lines:
                lines.seek(names if k else 0)
                shutil.copyfileobj(lines, whole)


@contextmanager
def _whole(path: Path) -> Iterator[tuple[str, Path]]:
    """Hands out the ending, and another name to write to, which takes the place of the file at the end."""
    ending = check_ending(path)
    with _told(path, ending, StorageError), replacing(path) as fresh:
        yield ending, fresh


def _parquet(path: Path) -> Any:
    from pyarrow.parquet import ParquetFile

    return ParquetFile(path)


@contextmanager
def _told(path: Path, ending: str, kind: type[DeepBCError] = DataError) -> Iterator[None]:
    """Says in our own words what is wrong with a file."""
    verb = "read" if kind is DataError else "written"
    try:
        with warnings.catch_warnings():
            # That lines have more cells than there are names, which would be lost.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            yield
    except DeepBCError:
        raise
    except ImportError as error:
        raise SettingError("Parquet needs pyarrow. Install it with: pip install 'deepbc[parquet]'.") from error
    except FileNotFoundError as error:
        raise kind(f"{path}: cannot be {verb}: no such file or folder. Mend the path.") from error
    except (OSError, ValueError, csv.Error, pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
        reason = " ".join(str(error).split())
        raise kind(f"{path}: cannot be {verb} as {ENDINGS[ending]} ({reason}).") from error


def check_ending(path: Path) -> str:
    """Checks that a name has the ending of a table we know, and returns it."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise DataError(f"{path}: expected a name that ends in {' or '.join(ENDINGS)}, got {ending or 'no ending'!r}.")

    return ending
