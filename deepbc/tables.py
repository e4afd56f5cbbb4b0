"""Tables on disk: CSV and Parquet, told apart by the ending of their name."""

__all__ = ["read_table", "write_table"]

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deepbc._checks import pick
from deepbc.errors import DataError, SettingError, StorageError

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
    ending = _ending(path)
    try:
        frame = pandas.read_csv(path) if ending == ".csv" else pandas.read_parquet(path)
    except ImportError as error:
        raise SettingError("Parquet needs pyarrow. Install it with: pip install 'deepbc[parquet]'.") from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file. Mend the path.") from error
    except (OSError, ValueError, pandas.errors.ParserError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read as {ENDINGS[ending]} ({reason}).") from error

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


def write_table(frame: "pandas.DataFrame", path: str | os.PathLike[str]) -> None:
    """Writes a table, whole or not at all, without its index."""
    path = Path(path)
    fresh = path.with_name(f".{path.name}.new")
    try:
        if _ending(path) == ".csv":
            frame.to_csv(fresh, index=False)
        else:
            frame.to_parquet(fresh, index=False)
        fresh.replace(path)
    except ImportError as error:
        raise SettingError("Parquet needs pyarrow. Install it with: pip install 'deepbc[parquet]'.") from error
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error.strerror or error}). Choose another.") from error
    finally:
        fresh.unlink(missing_ok=True)


def _ending(path: Path) -> str:
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise DataError(f"{path}: expected a name that ends in {' or '.join(ENDINGS)}, got {ending or 'no ending'!r}.")

    return ending
