"""Judges a fit from plain tensors: does the data bear out what the model claims? It never sees a model."""

__all__ = [
    "DIRECTIONS",
    "ENOUGH",
    "MOST_ROWS",
    "SAMPLES",
    "CheckReport",
    "Claim",
    "Evidence",
    "Rows",
    "VariableCheck",
    "judge",
]

from deepbc.evaluation.check.model_check import ENOUGH, MOST_ROWS, SAMPLES, judge
from deepbc.evaluation.check.observations import Evidence, Rows
from deepbc.evaluation.check.report import DIRECTIONS, CheckReport, Claim, VariableCheck
