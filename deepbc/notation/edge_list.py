"""Lists of edges as CSV: a cause and an effect a line."""

__all__ = ["read_edge_list"]

import csv
import io
import itertools

from deepbc.errors import GraphError
from deepbc.notation.sketch import Parents, Sketch

HEADERS = (("from", "to"), ("source", "target"), ("cause", "effect"), ("parent", "child"))
EXPECTED = "expected two columns, from and to, or a line of names that has them"


def read_edge_list(text: str) -> Parents:
    """Reads edges from two columns that a header names, or from the only two; a lone name is a variable."""
    lines = _lines(text)
    if not lines:
        return {}
    names = [cell.lower() for cell in lines[0][1]]
    header = next((pair for pair in HEADERS if set(pair) <= set(names)), None)
    cause, effect = map(names.index, header) if header else (0, 1)

    sketch = Sketch()
    for number, cells in lines[1:] if header else lines:
        if len(cells) > (len(names) if header else 2):
            raise GraphError(f"line {number}: {EXPECTED}, got {len(cells)} cells: {', '.join(cells)[:60]!r}.")
        padded = [*cells, *itertools.repeat("", len(names) + 2 - len(cells))]
        ends = list(filter(None, (padded[cause], padded[effect])))
        if len(ends) == 2:
            sketch.connect(*ends)
        elif ends:
            sketch.add(ends[0])

    return sketch.parents


def _lines(text: str) -> list[tuple[int, list[str]]]:
    """The cells of each line that has any, and the number of the line."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except csv.Error as error:
        raise GraphError(
            f"line {reader.line_num}: is not CSV ({error}). Put cells with commas in double quotes."
        ) from error

    return [(number, cells) for number, cells in rows if any(cells)]
