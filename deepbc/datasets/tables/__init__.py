"""Real tables: readers, the graphs that go with them, and simulated counterparts."""

__all__ = [
    "COUNTERPARTS",
    "GRAPHS",
    "RIVER_GRAPH",
    "SOURCE",
    "SOURCES",
    "adult",
    "compas",
    "german_credit",
    "insurance",
    "law_school",
    "mpg",
    "protein_graph",
    "proteins",
    "rivers",
    "simulate",
    "titanic",
]

from deepbc.datasets.tables.counterparts import COUNTERPARTS, simulate
from deepbc.datasets.tables.graphs import GRAPHS
from deepbc.datasets.tables.local import RIVER_GRAPH, SOURCE, german_credit, protein_graph, proteins, rivers
from deepbc.datasets.tables.published import SOURCES, adult, compas, insurance, law_school, mpg, titanic
