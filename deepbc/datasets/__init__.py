"""Data sets and the equations they come from."""

__all__ = ["celeba", "digits", "faces", "idx", "morphology", "morphomnist", "tables"]

from deepbc.datasets import celeba, digits, faces, idx, morphology, morphomnist, tables
