"""Data sets and the equations they come from."""

__all__ = ["digits", "faces", "idx", "morphology", "morphomnist", "tables"]

from deepbc.datasets import digits, faces, idx, morphology, morphomnist, tables
