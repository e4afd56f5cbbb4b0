"""What an experiment is and leaves behind: rows, a figure, findings, and where they come from.

An experiment is a file with a frozen `Config` and its `quick` one, `run(config, fits)`, which returns rows with what is
to be said of their origin in `attrs`, `findings(rows)`, which says what they show, and `render(rows)`, which draws them
and computes nothing. `fits` is the folder in which long fits keep their state, so that a killed run goes on and two
experiments share a model.
"""

__all__ = ["Finding", "Made", "keep"]

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from deepbc.errors import StorageError

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
