"""Data sets and the equations they come from."""

__all__ = ["digits", "idx", "morphology", "morphomnist"]

from deepbc.datasets import digits, idx, morphology, morphomnist
