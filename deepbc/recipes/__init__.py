"""Ready models for data sets."""

__all__ = ["morphomnist"]

from deepbc.recipes import morphomnist
