"""The paper's figures and ours, one file each."""

__all__ = ["NAMES", "reproduce", "title"]

import importlib
import os
import time
from dataclasses import asdict
from typing import Any

from deepbc._checks import pick
from deepbc.experiments.base import Made, keep

# Each name and its file; loaded when it is asked for.
NAMES = {"figure-4": "figure_4"}


def reproduce(name: str, folder: str | os.PathLike[str], *, quick: bool = False) -> Made:
    """Runs an experiment, and writes its rows, its figure and where they come from into a folder.

    Args:
        name: The name, such as `figure-4`.
        folder: The folder to write into; it is made where there is none.
        quick: Whether to run it on few rows, in seconds.
    """
    file = _file(name)
    config = file.Config.quick() if quick else file.Config()
    start = time.monotonic()
    rows = file.run(config)
    provenance = {"name": name, "title": file.TITLE, "config": asdict(config), **rows.attrs}
    provenance["seconds"] = round(time.monotonic() - start, 1)

    return keep(folder, rows, file.render(rows), file.findings(rows), provenance)


def title(name: str) -> str:
    """Says what an experiment is about."""
    said: str = _file(name).TITLE

    return said


def _file(name: str) -> Any:
    return importlib.import_module(f"deepbc.experiments.{NAMES[pick(name, tuple(NAMES), 'experiment')]}")
