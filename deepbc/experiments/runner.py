"""What an experiment is and leaves behind: rows, a figure, findings, and where they come from.

An experiment is a file with a frozen `Config` and its `quick` one, `run(config, fits)`, which returns rows with what is
to be said of their origin in `attrs`, `findings(rows)`, which says what they show, and `render(rows)`, which draws them
and computes nothing. `fits` is the folder in which long fits keep their state, so that a killed run goes on and two
experiments share a model.
"""

__all__ = ["Finding", "Made", "cells", "fit_folder", "gather", "keep", "keep_rows", "write_index"]

import io
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from torch import Tensor

from deepbc import __version__
from deepbc.errors import StorageError
from deepbc.plots import Cells, Figure
from deepbc.storage import write_bytes
from deepbc.training.checkpoint import fingerprint

RECORD = "provenance.json"
PACKAGES = ("deepbc", "torch", "zuko", "numpy", "matplotlib")


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence of the paper, or of ours, and whether the rows bear it out."""

    sentence: str
    holds: bool | np.bool


@dataclass(frozen=True, slots=True)
class Made:
    """What an experiment made.

    Args:
        findings: What its rows show.
        data: Where its data come from.
        folder: The folder with rows, figures and provenance.
    """

    findings: tuple[Finding, ...]
    data: str
    folder: Path

    @property
    def holds(self) -> bool:
        """Whether all findings hold."""
        return all(each.holds for each in self.findings)


def fit_folder(fits: Path, name: str, settings: Sequence[Any], data: Iterable[Tensor]) -> Path:
    """Names the folder of a fit by all that it depends on."""
    return fits / f"{name}-{fingerprint([__version__, *settings], data)[:8]}"


def gather(parts: Sequence[pandas.DataFrame], origin: dict[str, Any]) -> pandas.DataFrame:
    """Joins rows, one part below the other, and notes in `attrs` where they come from."""
    rows = pandas.concat(parts, ignore_index=True)
    rows.attrs |= origin

    return rows


def cells(title: str, rows: pandas.DataFrame, label: str, forms: Mapping[str, str], heads: Sequence[str]) -> Cells:
    """Makes a table of rows: the label of each, and its numbers in the format of their column; a gap is empty."""
    lines = [
        [row[label], *("" if row[name] != row[name] else f"{row[name]:{form}}" for name, form in forms.items())]
        for _, row in rows.iterrows()
    ]

    return Cells(title, ("", ""), ["", *heads], lines)


def keep_rows(folder: Path, rows: pandas.DataFrame) -> None:
    """Writes the rows, at once, whatever becomes of the rest; a record of older rows goes."""
    try:
        (folder / RECORD).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error.strerror or error}). Choose another.") from error
    write_bytes(folder / "rows.csv", rows.to_csv(index=False).encode())


def keep(folder: Path, figure: Figure, findings: Sequence[Finding], provenance: Mapping[str, Any]) -> Made:
    """Writes the figure as PNG and PDF, and last a record of where rows and figure come from."""
    record = {
        **provenance,
        "findings": {each.sentence: bool(each.holds) for each in findings},
        "commit": _commit(),
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}, {torch.get_num_threads()} threads",
    }
    for ending in ("png", "pdf"):
        drawn = io.BytesIO()
        figure.savefig(drawn, format=ending)
        write_bytes(folder / f"figure.{ending}", drawn.getvalue())
    write_bytes(folder / RECORD, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())

    return Made(tuple(findings), provenance["data"], folder)


def write_index(out: Path, names: Sequence[str]) -> None:
    """Writes a page of what the experiments in a folder found, from the records that they left there."""
    lines = ["# Results", "", "Each made by `deepbc reproduce NAME`, from the settings in its provenance."]
    for name in names:
        try:
            record = json.loads((out / name / RECORD).read_text())
            lines += ["", *_entry(name, record)]
        except (OSError, ValueError, KeyError):
            continue  # none, or one that was not written to its end
    write_bytes(out / "results.md", ("\n".join(lines) + "\n").encode())


def _entry(name: str, record: Mapping[str, Any]) -> list[str]:
    said = [f"- {'holds' if holds else '**fails**'}: {sentence}" for sentence, holds in record["findings"].items()]
    files = {"rows": "rows.csv", "figure": "figure.pdf", "provenance": RECORD}
    links = ", ".join(f"[{label}]({name}/{file})" for label, file in files.items())

    return [
        f"## {name}: {record['title']}",
        "",
        f"![{name}]({name}/figure.png)",
        "",
        *said,
        "",
        f"Data: {record['data']}. {record['seconds']:,.0f} s on {record['machine']}; a fit that an earlier run had "
        f"left is not counted. Files: {links}.",
    ]


def _commit() -> str | None:
    """The commit of the sources, where they lie in a clone."""
    folder = Path(__file__).parents[2] / ".git"
    try:
        head = (folder / "HEAD").read_text().strip()
        name = head.removeprefix("ref: ")
        return head if name == head else (folder / name).read_text().strip()
    except OSError:
        return None


def _processor() -> str:
    """The name of the processor, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))

    return next(named, platform.processor()) or "unknown processor"
