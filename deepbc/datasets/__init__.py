"""Data sets and the equations they come from."""

__all__ = ["morphomnist"]

from deepbc.datasets import morphomnist
