"""What the experiments share: the rows they start from, what they find, and how both are kept.

An experiment is a file with a frozen `Config` and its `quick` one, `run(config)`, which returns rows with what is to be
said of their origin in `attrs`, `findings(rows)`, which says what they show, and `render(rows)`, which draws them and
computes nothing.
"""

__all__ = ["Finding", "Made", "factual", "keep", "numbers"]

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from deepbc.datasets import morphomnist
from deepbc.datasets.files import VARIABLE
from deepbc.errors import DataError, SettingError, StorageError
from deepbc.recipes import morphomnist as recipes

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

PACKAGES = ("deepbc", "torch", "zuko", "numpy", "matplotlib")


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence of the paper, or of ours, and whether the rows bear it out."""

    sentence: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Made:
    """What an experiment made: its findings, and the folder with rows, figures and provenance."""

    findings: tuple[Finding, ...]
    folder: Path

    @property
    def holds(self) -> bool:
        """Whether all findings hold."""
        return all(each.holds for each in self.findings)


def numbers(rows: int | None, seed: int) -> tuple[Mapping[str, Tensor], str]:
    """Reads thickness and intensity of Morpho-MNIST, all rows or the first; where the set cannot be had, draws as many.

    A set that `DEEPBC_DATA` names and that cannot be read is an error.

    Returns:
        The columns, and where they come from.
    """
    try:
        values = morphomnist.load("train").values
        source = "Morpho-MNIST"
    except (DataError, SettingError):
        if os.environ.get(VARIABLE):
            raise
        values = recipes.truth().sample(rows or 60_000, seed=seed).values
        source = "drawn from the equations of Morpho-MNIST"

    return {name: values[name][:rows] for name in ("thickness", "intensity")}, source


def factual(data: Mapping[str, Tensor], thickness: float, intensity: float) -> dict[str, float]:
    """Picks the row that is nearest to a point, in standard deviations."""
    t, i = data["thickness"], data["intensity"]
    nearest = ((t - thickness) / t.std()).square().add(((i - intensity) / i.std()).square()).argmin()

    return {name: column[nearest].item() for name, column in data.items()}


def keep(
    folder: str | os.PathLike[str],
    rows: "pandas.DataFrame",
    figure: "Figure",
    findings: Sequence[Finding],
    provenance: Mapping[str, Any],
) -> Made:
    """Writes rows, the figure as PNG and PDF, and a record of where they come from."""
    folder = Path(folder)
    record = {
        **provenance,
        "findings": {each.sentence: bool(each.holds) for each in findings},
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} threads",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        rows.to_csv(folder / "rows.csv", index=False)
        for ending in ("png", "pdf"):
            figure.savefig(folder / f"figure.{ending}")
        (folder / "provenance.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error.strerror or error}). Choose another.") from error

    return Made(tuple(findings), folder)
