"""An answer in plain sentences: what was asked, what would have been different, and what the change traces back to."""

__all__ = ["Column", "columns_of", "describe"]

from deepbc.queries.description.columns import Column, columns_of
from deepbc.queries.description.describe import describe
