"""Questions put to a model."""

__all__ = ["backtrack", "intervene"]

from deepbc.queries.backtracking import backtrack
from deepbc.queries.interventional import intervene
