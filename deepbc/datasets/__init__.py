"""Data sets and the equations they come from."""

__all__ = ["digits", "idx", "morphology", "morphomnist", "tables"]

from deepbc.datasets import digits, idx, morphology, morphomnist, tables
