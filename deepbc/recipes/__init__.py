"""Ready models for data sets."""

__all__ = ["faces", "morphomnist"]

from deepbc.recipes import faces, morphomnist
