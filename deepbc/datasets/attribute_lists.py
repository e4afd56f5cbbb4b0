"""Listings of files: on each line the name of a file, then a few whole numbers.

A listing whose name ends in `.csv` is CSV with a line of names. In any other, blanks separate the fields, and it begins
with a line that has the number of files and one that has the names of the columns, or at once with the files.
"""

__all__ = ["read_listing"]

import csv
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deepbc._validation import near
from deepbc.datasets.download import read_bytes
from deepbc.errors import DataError

# The fields of a line, and its number.
Line = tuple[int, list[str]]


def read_listing(path: Path, columns: Sequence[str], known: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Reads some columns of a listing.

    Args:
        path: The file.
        columns: The names of the columns, which are also those of a file that names none.
        known: The numbers that may stand there, by their text.

    Returns:
        For each file its numbers, one for each column.

    Raises:
        DataError: A column is missing, or a line has too few fields, another number or the name of an earlier one.
    """
    lines = _lines(path)
    names, count, lines = _opening(lines, columns, comma=path.suffix == ".csv")
    _check_columns(path, columns, names)
    places = [1 + names.index(column) for column in columns]

    listed: dict[str, tuple[int, ...]] = {}
    for number, fields in lines:
        where = f"{path}, line {number}"
        if len(fields) != 1 + len(names) or not fields[0]:
            raise DataError(
                f"{where}: expected a file name and as many values as there are columns, {len(names)}, got "
                f"{len(fields)} fields. Mend the line."
            )
        if fields[0] in listed:
            raise DataError(f"{where}: expected each file once, got {fields[0]} again. Drop one of its lines.")
        listed[fields[0]] = tuple(_number(fields[place], known, f"{where}, {names[place - 1]!r}") for place in places)

    if not listed or (count is not None and len(listed) != count):
        expected = "at least 1" if count is None else f"{count:,}, as its first line says,"
        raise DataError(f"{path}: expected files, {expected} got {len(listed):,}. Replace it by a whole copy.")

    return listed


def _lines(path: Path) -> Iterator[Line]:
    """The lines that are not empty. One at a time: all fields of the published listing would fill 500 MB."""
    text = io.StringIO(read_bytes(path).decode("utf-8-sig", errors="replace"), newline=None)
    if path.suffix != ".csv":
        yield from ((number, line.split()) for number, line in enumerate(text, 1) if line.strip())
        return

    reader = csv.reader(text)
    try:
        yield from ((reader.line_num, [field.strip() for field in fields]) for fields in reader if fields)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: is no line of CSV ({error}). Mend the line.") from error


def _opening(
    lines: Iterator[Line], columns: Sequence[str], *, comma: bool
) -> tuple[list[str], int | None, Iterator[Line]]:
    """The names of the columns, the number of files where it is told, and the lines of the files."""
    number, first = next(lines, (1, []))
    if comma:
        return first[1:], None, lines
    if len(first) == 1 and first[0].isdecimal():
        return next(lines, (2, []))[1], int(first[0]), lines

    return list(columns), None, itertools.chain([(number, first)] if first else [], lines)


def _check_columns(path: Path, columns: Sequence[str], names: Sequence[str]) -> None:
    for column in columns:
        if names.count(column) != 1:
            came = "none" if column not in names else "several"
            hint = near(column, names) if column not in names else ""
            raise DataError(
                f"{path}: expected one column {column!r}, got {came} among {', '.join(names) or 'no names'}. "
                f"{hint or 'Mend its names.'}"
            )


def _number(text: str, known: Mapping[str, int], where: str) -> int:
    if text not in known:
        raise DataError(f"{where}: expected {' or '.join(known)}, got {text!r}. Mend the line.")

    return known[text]
