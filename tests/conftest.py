"""What tests share: one thread a worker, the folder of real data, and the installed program."""

import itertools
import os
from pathlib import Path

import pandas as pd
import pytest
import torch
from program import start_program

# Workers run side by side on few cores.
torch.set_num_threads(1)


def pytest_collection_modifyitems(config, items):
    """Gives each worker its share of the slow tests first, the slowest before all, so that none is left to the end.

    Workers begin with equal parts of all tests, one part after the other.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    minutes = {item: mark.kwargs.get("minutes", 0.5) for item in items if (mark := item.get_closest_marker("slow"))}
    shares = [[] for _ in range(workers)]
    for item in sorted(minutes, key=lambda item: -minutes[item]):
        min(shares, key=lambda share: sum(minutes[each] for each in share)).append(item)

    quick = iter([item for item in items if item not in minutes])
    ends = [len(items) * (k + 1) // workers for k in range(workers)]
    ordered = []
    for share, end in zip(shares, ends, strict=True):
        ordered += share
        ordered += itertools.islice(quick, max(0, end - len(ordered)))
    items[:] = [*ordered, *quick]


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


@pytest.fixture(scope="session")
def command(tmp_path_factory):
    """Runs the program with words, in a folder of its own."""
    with start_program(tmp_path_factory.mktemp("command")) as run:
        yield run
