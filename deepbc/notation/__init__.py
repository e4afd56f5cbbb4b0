"""How graphs are written: our own text, DOT, GML, DAGitty, lists of edges and the objects of other libraries.

Each reader returns the causes of every variable, in the order in which they come; what makes them a causal graph is
checked by the graph itself.
"""

__all__ = [
    "ENDINGS",
    "Parents",
    "edges_parents",
    "endpoints_parents",
    "is_file_name",
    "matrix_parents",
    "read_bidirected",
    "read_file",
    "read_text",
    "write_arrows",
]

from deepbc.notation.arrows import write_arrows
from deepbc.notation.bidirected import read_bidirected
from deepbc.notation.files import ENDINGS, is_file_name, read_file, read_text
from deepbc.notation.objects import edges_parents, endpoints_parents, matrix_parents
from deepbc.notation.sketch import Parents
