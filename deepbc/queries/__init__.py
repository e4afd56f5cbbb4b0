"""Questions to a model: backtracking and interventional counterfactuals, and samples of them."""

__all__ = [
    "Counterfactual",
    "Diagnostics",
    "Status",
    "at_least",
    "at_most",
    "backtrack",
    "backtrack_samples",
    "between",
    "intervene",
    "one_of",
    "other_than",
]

from deepbc.queries.antecedents import at_least, at_most, between, one_of, other_than
from deepbc.queries.backtracking import backtrack
from deepbc.queries.interventional import intervene
from deepbc.queries.results import Counterfactual, Diagnostics
from deepbc.queries.sampling import backtrack_samples
from deepbc.queries.status import Status
