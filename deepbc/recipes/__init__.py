"""Ready models for data sets."""

__all__ = ["faces", "morphomnist", "tables"]

from deepbc.recipes import faces, morphomnist, tables
