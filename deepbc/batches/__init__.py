"""Questions over files of rows, and the specifications in which people write models down."""

__all__ = ["run_batch"]

from deepbc.batches.run import run_batch
