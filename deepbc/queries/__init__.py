"""Questions put to a model."""

__all__ = ["backtrack", "backtrack_samples", "intervene"]

from deepbc.queries.backtracking import backtrack
from deepbc.queries.interventional import intervene
from deepbc.queries.sampling import backtrack_samples
