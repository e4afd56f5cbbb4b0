"""What tests share: one thread a worker, and the folder of real data."""

import os
from pathlib import Path

import pandas as pd
import pytest
import torch

# Workers run side by side on few cores.
torch.set_num_threads(1)


def pytest_collection_modifyitems(items):
    """Runs the slow tests first, the slowest before all, so that no worker starts one when the others are done."""
    marks = {item: item.get_closest_marker("slow") for item in items}
    items.sort(key=lambda item: -marks[item].kwargs.get("minutes", 0.5) if marks[item] else 0.0)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("DEEPBC_DATA")
    if not folder:
        pytest.skip("needs real data: set DEEPBC_DATA to the folder that holds morphomnist/ and tables/")
    return Path(folder)


@pytest.fixture(scope="session")
def morphomnist_tables(data_folder) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Thickness and intensity of the 60,000 training and the 10,000 test rows."""
    names = ["thickness", "intensity"]
    return tuple(pd.read_csv(data_folder / "morphomnist" / f"{part}-morpho.csv")[names] for part in ("train", "t10k"))
