"""Questions put to a model."""

__all__ = ["intervene"]

from deepbc.queries.interventional import intervene
