"""Tables on disk: CSV and Parquet, told apart by the ending of their name."""

__all__ = ["check_ending", "count_rows", "join_tables", "pick_rows", "read_chunks", "read_table", "write_table"]

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepbc._checks import pick
from deepbc.errors import DataError, DeepBCError, SettingError, StorageError

if TYPE_CHECKING:
    import pandas

ENDINGS = {".csv": "CSV", ".parquet": "Parquet"}


def read_table(
    path: str | os.PathLike[str], names: Sequence[str] | None = None, *, drop_missing: bool = False
) -> "pandas.DataFrame":
    """Reads a table.

    Args:
        path: The file, `.csv` (with a line of names) or `.parquet`.
        names: The columns to read; None reads all.
        drop_missing: Whether rows with gaps in these columns are dropped. Otherwise a gap is an error that counts them.

    Raises:
        DataError: The file is missing, is no table, lacks a column or has gaps.
    """
    import pandas

    path = Path(path)
    ending = check_ending(path)
    with _told(path, ending):
        frame = pandas.read_csv(path) if ending == ".csv" else pandas.read_parquet(path)

    frame.columns = [str(name) for name in frame.columns]
    if names is not None:
        frame = frame[[pick(name, tuple(frame.columns), str(path)) for name in names]]

    return _whole(frame, path, drop_missing)


def _whole(frame: "pandas.DataFrame", path: Path, drop_missing: bool) -> "pandas.DataFrame":
    gaps = frame.isna()
    rows = int(gaps.any(axis=1).sum())
    if rows and not drop_missing:
        worst = gaps.sum().idxmax()
        raise DataError(
            f"{path}: {rows:,} of {len(frame):,} rows have gaps, most in {worst!r} ({int(gaps[worst].sum()):,}). Fill "
            f"them, or drop these rows (--drop-missing)."
        )

    return frame[~gaps.any(axis=1)] if rows else frame


def pick_rows(table: "pandas.DataFrame", rows: Sequence[int]) -> "pandas.DataFrame":
    """Picks rows of a table, counted from 0."""
    for row in rows:
        if not 0 <= row < len(table):
            raise DataError(f"row {row}: expected 0 to {len(table) - 1:,}, as many as the table has.")

    return table.iloc[list(rows)]


def read_chunks(path: str | os.PathLike[str], names: Sequence[str], rows: int) -> Iterator["pandas.DataFrame"]:
    """Reads columns of numbers so many rows at a time; what is no number comes as a gap.

    Args:
        path: The file.
        names: The columns.
        rows: The rows of a chunk.
    """
    import pandas

    path = Path(path)
    ending = check_ending(path)
    with _told(path, ending):
        if ending == ".csv":
            head = pandas.read_csv(path, nrows=0)
        else:
            head = _parquet(path).schema_arrow.empty_table().to_pandas()
    for name in names:
        pick(name, tuple(map(str, head.columns)), str(path))

    chunks = _chunks(path, ending, names, rows)
    while True:
        with _told(path, ending):
            chunk = next(chunks, None)
        if chunk is None:
            return
        yield chunk[list(names)].apply(pandas.to_numeric, errors="coerce").astype(float)


def count_rows(path: str | os.PathLike[str]) -> int:
    """Counts the rows of a table without reading it; of a CSV file its lines, which may be more."""
    path = Path(path)
    ending = check_ending(path)
    with _told(path, ending):
        if ending == ".parquet":
            return int(_parquet(path).metadata.num_rows)
        with path.open("rb") as file:
            return max(0, sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) - 1)


def _chunks(path: Path, ending: str, names: Sequence[str], rows: int) -> Iterator["pandas.DataFrame"]:
    import pandas

    if ending == ".csv":
        # As text, so that a word in one row does not change how the others are read.
        yield from pandas.read_csv(path, usecols=list(names), chunksize=rows, dtype=str)
    else:
        yield from (batch.to_pandas() for batch in _parquet(path).iter_batches(rows, columns=list(names)))


def _parquet(path: Path) -> Any:
    from pyarrow.parquet import ParquetFile

    return ParquetFile(path)


def join_tables(parts: Sequence[Path], path: Path) -> None:
    """Joins tables of the same columns into one, which is then whole; in memory there is one at a time."""
    fresh = path.with_name(f".{path.name}.new")
    with _told(path, check_ending(path), StorageError):
        if check_ending(path) == ".csv":
            with fresh.open("wb") as whole:
                for k, part in enumerate(parts):
                    with part.open("rb") as lines:
                        head = lines.readline()
                        whole.write(b"" if k else head)
                        shutil.copyfileobj(lines, whole)
        else:
            from pyarrow.parquet import ParquetWriter

            with ParquetWriter(fresh, _parquet(parts[0]).schema_arrow) as whole:
                for part in parts:
                    whole.write_table(_parquet(part).read())
        fresh.replace(path)


@contextmanager
def _told(path: Path, ending: str, kind: type[DeepBCError] = DataError) -> Iterator[None]:
    """Says in our own words what is wrong with a file."""
    import pandas

    try:
        yield
    except DeepBCError:
        raise
    except ImportError as error:
        raise SettingError("Parquet needs pyarrow. Install it with: pip install 'deepbc[parquet]'.") from error
    except FileNotFoundError as error:
        raise kind(f"{path}: no such file. Mend the path.") from error
    except (OSError, ValueError, pandas.errors.ParserError) as error:
        reason = " ".join(str(error).split())
        verb = "read" if kind is DataError else "written"
        raise kind(f"{path}: cannot be {verb} as {ENDINGS[ending]} ({reason}).") from error


def write_table(frame: "pandas.DataFrame", path: str | os.PathLike[str]) -> None:
    """Writes a table, whole or not at all, without its index."""
    path = Path(path)
    ending = check_ending(path)
    fresh = path.with_name(f".{path.name}.new")
    try:
        with _told(path, ending, StorageError):
            if ending == ".csv":
                frame.to_csv(fresh, index=False)
            else:
                frame.to_parquet(fresh, index=False)
            fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def check_ending(path: Path) -> str:
    """Checks that a name has the ending of a table we know, and returns it."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise DataError(f"{path}: expected a name that ends in {' or '.join(ENDINGS)}, got {ending or 'no ending'!r}.")

    return ending
