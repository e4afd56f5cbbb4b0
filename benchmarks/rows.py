"""What benchmarks share: the rows that they fit and ask about, time and memory."""

import os
import time
from pathlib import Path

import pandas as pd
import torch

from deepbc.recipes import morphomnist

NAMES = ["thickness", "intensity"]

# Factual rows, and for each the intensity to ask for.
Queries = tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]


def tables() -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Rows to fit, rows to test, and their source: Morpho-MNIST where DEEPBC_DATA is set, else its equations."""
    folder = os.environ.get("DEEPBC_DATA")
    if folder:
        read = (pd.read_csv(Path(folder) / "morphomnist" / f"{part}-morpho.csv")[NAMES] for part in ("train", "t10k"))
        return *read, "Morpho-MNIST"
    truth = morphomnist.truth()
    return truth.sample(60_000, seed=0).to_frame(), truth.sample(10_000, seed=1).to_frame(), "drawn rows"


def draw_queries(test: pd.DataFrame, count: int) -> Queries:
    """Draws rows, and the intensities of others: without repeating a row as long as there are rows, then with."""
    stream = torch.Generator().manual_seed(0)
    table = torch.tensor(test[NAMES].to_numpy())
    if count <= len(table):
        rows, others = (torch.randperm(len(table), generator=stream)[:count] for _ in range(2))
    else:
        rows, others = (torch.randint(len(table), (count,), generator=stream) for _ in range(2))

    return {name: table[rows, k] for k, name in enumerate(NAMES)}, {"intensity": table[others, 1]}


def seconds(call) -> tuple[float, object]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def peak() -> float:
    """The peak memory of this process in MB; `getrusage` would begin with that of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
