"""Three real tables: credits, river flows and proteins, with the graphs that go with them.

The files are not downloaded. They are looked for in `DEEPBC_DATA/tables`, then in the folder `tables` of the cache, and
are held against their SHA-256 sums; where one is missing, the error says which file to put where.

References:
    Statlog (German Credit Data) (Hofmann, 1994), UCI Machine Learning Repository.
    Causal Protein-Signaling Networks Derived from Multiparameter Single-Cell Data (Sachs et al., 2005).
    Hydrology data of the Environment Agency of England, Open Government Licence.
"""

__all__ = ["RIVER_GRAPH", "SOURCE", "german_credit", "protein_graph", "proteins", "rivers"]

import io
import re
from typing import Any

from deepbc.data.frames import DataFrame
from deepbc.datasets.download import Source, fetch, read_bytes
from deepbc.graph import CausalGraph

SOURCE = Source(
    "tables",
    None,
    {
        "german.data": "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
        "river.csv": "05c7d6de641cf148cb094c99891edbfb5db9e74a2156afb4b846bf5f4035034f",
        "sachs.csv": "fc331dcd0bc1d8765986b88cd1d23dd5a3f52e4ffc299fdf96de9d522ddf01aa",
        "sachs.gml": "75ea4ecfca633407d770d15535e240676f8d3ad91cbd42467a98cf49560d5112",
    },
    {
        "german.data": "the file of that name in the data set 'Statlog (German Credit Data)' of the UCI repository",
        "river.csv": "flows of the river Ribble, in docs/source/example_notebooks of the repository py-why/dowhy",
        "sachs.csv": "the 7,466 cells of Sachs et al. (2005), Science 308:523, 11 columns of numbers with their names",
        "sachs.gml": "their graph, falsify_sachs.gml in docs/source/example_notebooks of the repository py-why/dowhy",
    },
)

RIVER_GRAPH = CausalGraph.parse("Henthorn, Hodder Place, Whalley Weir -> New Jumbles Rock -> Samlesbury")

# The columns of german.data in their order; those that are not numbers hold the codes of the file, such as A11.
CREDIT = (
    "checking", "duration", "history", "purpose", "amount", "savings", "employment", "rate", "status", "debtors",
    "residence", "property", "age", "plans", "housing", "credits", "job", "dependants", "telephone", "foreign", "class",
)  # fmt: skip
MEN = ("A91", "A93", "A94")


def german_credit() -> DataFrame:
    """Reads 1,000 German credits.

    Returns:
        The numbers `duration` in months, `amount` in marks, `age` in years, `male` and `bad` (1 for a credit that went
        bad), `rate`, `residence`, `credits` and `dependants`. The other columns hold the codes of the file.
    """
    table = _read("german.data", sep=" ", header=None, names=CREDIT)
    table.insert(0, "male", table.pop("status").isin(MEN))
    table["bad"] = table.pop("class") == 2

    numbers = table.select_dtypes(["number", "bool"]).columns

    return table.astype(dict.fromkeys(numbers, float))


def rivers() -> DataFrame:
    """Reads 32,574 moments of the flow at five stations, in m³/s and in the order of time; see `RIVER_GRAPH`.

    Neighbouring rows are nearly the same, so a random split of them does not hold anything out.
    """
    return _read("river.csv")


def proteins() -> DataFrame:
    """Reads the amounts of eleven proteins in 7,466 cells: positive, strongly skewed, with ties at the floor of 1."""
    return _read("sachs.csv")


def protein_graph() -> CausalGraph:
    """Reads the graph of the proteins, with 19 edges."""
    text = read_bytes(fetch(SOURCE, ["sachs.gml"])["sachs.gml"]).decode()
    names = dict(re.findall(r'id (\d+)\s+label "([^"]+)"', text))
    parents: dict[str, list[str]] = {name: [] for name in names.values()}
    for cause, effect in re.findall(r"source (\d+)\s+target (\d+)", text):
        parents[names[effect]].append(names[cause])

    return CausalGraph(parents)


def _read(name: str, **options: Any) -> DataFrame:
    import pandas

    table: DataFrame = pandas.read_csv(io.BytesIO(read_bytes(fetch(SOURCE, [name])[name])), **options)

    return table
