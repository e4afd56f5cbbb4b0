"""Does the data bear out what a model claims? A question like the others: `check(scm, rows)`."""

__all__ = ["DIRECTIONS", "CheckReport", "Claim", "MissingEdge", "VariableCheck", "check"]

from deepbc.evaluation.check.missing_edges import MissingEdge
from deepbc.evaluation.check.model_check import check
from deepbc.evaluation.check.report import DIRECTIONS, CheckReport, Claim, VariableCheck
