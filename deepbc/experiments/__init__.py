"""The paper's figures and ours, one file each."""

__all__ = ["NAMES", "reproduce", "title"]

import importlib
import os
import time
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from deepbc._validation import pick
from deepbc.experiments.runner import Made, keep, keep_rows, write_index
from deepbc.plots import check_plots
from deepbc.storage import make_folder

# Each name and its file; loaded when it is asked for.
NAMES = {
    **{f"figure-{number}": f"paper.figure_{number}" for number in range(4, 13)},
    "truth-digits": "ours.truth_digits",
    "image-quality": "ours.image_quality",
    "face-quality": "ours.face_quality",
    "table-1": "paper.table_1",
    "truth-faces": "ours.truth_faces",
    "public-tables": "ours.public_tables",
}


def reproduce(name: str | ModuleType, out: str | os.PathLike[str], *, quick: bool = False) -> Made:
    """Runs an experiment, and writes its rows, its figure and where they come from into a folder of its name.

    Args:
        name: The name, such as `figure-4`, or a module of your own that has `TITLE`, `Config`, `run`, `findings` and
            `render` (`deepbc.experiments.runner` says what each is); its folder has the name of the module.
        out: The folder of all experiments; it is made where there is none. Its results.md shows what all of them
            found. Fits keep their state in its folder `fits`: a killed run goes on from there, and experiments share
            models; it may be removed.
        quick: Whether to run it on few rows, in seconds; the folder then is named so.
    """
    file: Any = _file(name) if isinstance(name, str) else name
    known = name if isinstance(name, str) else name.__name__.rpartition(".")[2]
    config = file.Config.quick() if quick else file.Config()
    check_plots()
    label = f"{known}-quick" if quick else known
    folder = make_folder(Path(out) / label)
    start = time.monotonic()
    rows = file.run(config, Path(out) / "fits")
    provenance = {"name": label, "title": file.TITLE, "config": asdict(config), **rows.attrs}
    provenance["seconds"] = round(time.monotonic() - start, 1)

    keep_rows(folder, rows)
    made = keep(folder, file.render(rows), file.findings(rows), provenance)
    write_index(Path(out), [each for one in dict.fromkeys((*NAMES, known)) for each in (one, f"{one}-quick")])

    return made


def title(name: str) -> str:
    """Says what an experiment is about."""
    return str(_file(name).TITLE)


def _file(name: str) -> Any:
    return importlib.import_module(f"deepbc.experiments.{NAMES[pick(name, tuple(NAMES), 'experiment')]}")
