"""The rows that benchmarks fit and ask about."""

import os
from pathlib import Path

import pandas as pd

from deepbc.recipes import morphomnist

NAMES = ["thickness", "intensity"]


def tables() -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Rows to fit, rows to test, and their source: Morpho-MNIST where DEEPBC_DATA is set, else its equations."""
    folder = os.environ.get("DEEPBC_DATA")
    if folder:
        read = (pd.read_csv(Path(folder) / "morphomnist" / f"{part}-morpho.csv")[NAMES] for part in ("train", "t10k"))
        return *read, "Morpho-MNIST"
    truth = morphomnist.truth()
    return truth.sample(60_000, seed=0).to_frame(), truth.sample(10_000, seed=1).to_frame(), "drawn rows"
