"""Morpho-MNIST: handwritten digits, the thickness of their strokes and their intensity.

Thickness and intensity follow the equations of `deepbc.datasets.morphomnist_equations`, and an image is a digit of
MNIST, redrawn with its thickness and intensity. `load` reads the set as published, `build` makes another from plain
MNIST.

References:
    Deep Structural Causal Models for Tractable Counterfactual Inference (Pawlowski et al., 2020), section 4.
    Morpho-MNIST: Quantitative Assessment and Diagnostics for Representation Learning (Castro et al., 2019).
"""

__all__ = [
    "GRAPH",
    "SOURCE",
    "MorphoMNIST",
    "abduct_intensity",
    "abduct_thickness",
    "build",
    "laws",
    "load",
    "predict_intensity",
    "predict_thickness",
]

import csv
import hashlib
import io
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepbc._validation import check_choice, check_images, check_range
from deepbc.data.reading import read_column
from deepbc.datasets.download import Source, fetch, read_bytes
from deepbc.datasets.idx import read_idx, write_idx
from deepbc.datasets.morphology import redraw
from deepbc.datasets.morphomnist_equations import (
    GRAPH,
    abduct_intensity,
    abduct_thickness,
    laws,
    predict_intensity,
    predict_thickness,
)
from deepbc.errors import DataError, StorageError
from deepbc.numerics.counter_rng import Streams
from deepbc.storage import write_bytes

SOURCE = Source(
    "morphomnist",
    "https://raw.githubusercontent.com/biomedia-mira/deepscm/master/assets/data/morphomnist/",
    {
        "train-images-idx3-ubyte.gz": "8a846d7d026cf533748d486a92a7208376a52bcb402862f98c011dc93ac53d81",
        "train-labels-idx1-ubyte.gz": "8a0213d79ebe93baeea57efee6d03f97fe6271e1912657a5cf6e7e55fc87238a",
        "train-morpho.csv": "40176771d8f050502ffcd995247d70392f332d03b0a3dc8f99ebd35ffefb673b",
        "t10k-images-idx3-ubyte.gz": "13163afd89dc4073b274b037485cf583d3ef58c3dd7ff65563fd6d8c21098068",
        "t10k-labels-idx1-ubyte.gz": "c3a7e01fcb887415fb67b58c21d195e212206472670865e798b7fb03d3504e2d",
        "t10k-morpho.csv": "426911a6baba7f1009de28f2d76bf86c8a91815ecc9ac0f454ef52dab2f19f43",
    },
)
PREFIXES = {"train": "train", "test": "t10k"}
COLUMNS = ("thickness", "intensity")
SIDE = 28


@dataclass(frozen=True, slots=True, eq=False)
class MorphoMNIST:
    """Digits with their thickness, their intensity and their class.

    Args:
        values: Thickness and intensity, float64 with shape `(rows,)`, and image, uint8 with shape `(rows, 28, 28)`.
        labels: Which digit it is, int64 with shape `(rows,)`.
    """

    values: Mapping[str, Tensor]
    labels: Tensor

    def save(self, folder: str | os.PathLike[str], split: str) -> None:
        """Writes the three files of a split as the published set has them.

        Args:
            folder: The folder to write into; made where there is none. Files that are there are not overwritten.
            split: `"train"` or `"test"`.
        """
        files = _files(split)
        there = [name for name in files if os.path.lexists(Path(folder) / name)]
        if there:
            raise StorageError(f"{folder}: expected none of our files, got {', '.join(there)}. Choose another folder.")

        images, labels, table = (Path(folder) / name for name in files)
        write_idx(images, self.values["image"].numpy())
        write_idx(labels, self.labels.to(torch.uint8).numpy())
        write_bytes(table, _text(self.values))


def load(
    split: str = "train", *, folder: str | os.PathLike[str] | None = None, show: bool | None = None
) -> MorphoMNIST:
    """Loads a split of the published set from `DEEPBC_DATA/morphomnist` or the cache, or downloads it into the cache.

    Args:
        split: `"train"`, 60,000 digits, or `"test"`, 10,000.
        folder: A folder with a set of your own, as `save` writes it; then nothing is downloaded, nor held against the
            published SHA-256 sums.
        show: Whether to show the progress of downloads; None shows it where standard error is a terminal.

    Raises:
        DataError: A file is missing and cannot be downloaded, or is not what it should be.
    """
    files = _files(split)
    paths = fetch(SOURCE, files, show=show) if folder is None else {name: Path(folder) / name for name in files}
    images, labels = (_bytes(paths[name], shape) for name, shape in ((files.images, (SIDE, SIDE)), (files.labels, ())))
    values = _columns(paths[files.table])

    for name, rows in ((files.labels, len(labels)), (files.table, len(values["thickness"]))):
        if rows != len(images):
            raise DataError(
                f"{paths[name]}: expected {len(images):,} rows, as many as {files.images} has, got {rows:,}. Take all "
                f"files from one set."
            )

    return MorphoMNIST(values | {"image": images}, labels.long())


def build(images: Any, labels: Any, *, seed: int | None = None, show: bool | None = None) -> MorphoMNIST:
    """Builds a set from plain MNIST: draws thickness and intensity by their equations, then redraws the digits.

    Args:
        images: Grey values from 0 to 255, with shape `(rows, 28, 28)`.
        labels: Which digit it is, a whole number, with shape `(rows,)`.
        seed: Same seed, same set; None draws a fresh one. What a digit gets depends on the seed and on its own image.
        show: Whether to show the progress; None shows it where standard error is a terminal.
    """
    array = check_images(images, "images", (SIDE, SIDE))
    classes = read_column(labels, "labels")
    batch = array.shape[:-2]
    if len(batch) != 1 or classes.shape != batch:
        raise DataError(
            f"labels: expected shape (rows,) beside images of shape (rows, height, width), got {tuple(classes.shape)} "
            f"beside ({', '.join([*map(str, batch), 'height', 'width'])}). Give one label for each image."
        )
    check_range(classes, 0, 255, "labels", whole=True)

    u_t, u_i = Streams.of(seed, [_fingerprints(array)]).normal(2, "morphomnist").unbind(-1)
    thickness = predict_thickness(u_t, {})
    intensity = predict_intensity(u_i, {"thickness": thickness})
    image = redraw(array, thickness, intensity, show=show)

    return MorphoMNIST({"thickness": thickness, "intensity": intensity, "image": image}, classes.long())


class _Files(NamedTuple):
    images: str
    labels: str
    table: str


def _files(split: str) -> _Files:
    prefix = PREFIXES[check_choice(split, tuple(PREFIXES), "split")]

    return _Files(f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz", f"{prefix}-morpho.csv")


def _bytes(path: Path, shape: tuple[int, ...]) -> Tensor:
    """Reads rows of bytes, each of the given shape."""
    array = read_idx(path)
    if array.dtype != np.uint8 or array.ndim != 1 + len(shape) or array.shape[1:] != shape:
        expected = ", ".join(["rows", *map(str, shape)])
        raise DataError(
            f"{path}: expected bytes of shape ({expected}), got {array.dtype} of shape {array.shape}. Take the file of "
            f"this name from the set."
        )

    return torch.from_numpy(array)


def _columns(path: Path) -> dict[str, Tensor]:
    """Reads thickness and intensity from a table with a line of names."""
    lines = csv.reader(io.StringIO(read_bytes(path).decode("utf-8-sig", errors="replace"), newline=""))
    names = next(lines, [])
    for name in COLUMNS:
        if name not in names:
            raise DataError(f"{path}: expected the column {name!r}, got {', '.join(names) or 'none'}. Name it so.")

    rows = list(lines)
    places = [names.index(name) for name in COLUMNS]
    numbers = [[_number(row, place, f"{path}, line {line}") for place in places] for line, row in enumerate(rows, 2)]
    columns = torch.tensor(numbers, dtype=torch.float64).reshape(-1, len(COLUMNS))

    return {name: columns[:, k].clone() for k, name in enumerate(COLUMNS)}


def _number(row: list[str], place: int, where: str) -> float:
    text = row[place] if place < len(row) else ""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{where}: expected a finite number in column {place + 1}, got {text!r}. Mend the line.")

    return number


def _text(values: Mapping[str, Tensor]) -> bytes:
    """Words a table as the published ones are."""
    rows = zip(*(values[name].tolist() for name in COLUMNS), strict=True)
    lines = [",".join(["index", *COLUMNS]), *(f"{k},{t!r},{i!r}" for k, (t, i) in enumerate(rows))]

    return "".join(f"{line}\n" for line in lines).encode()


def _fingerprints(images: NDArray[Any]) -> Tensor:
    """A number for each image, which other images do not have; 48 bits, which a float64 holds."""
    digests = [hashlib.sha256(image.astype(np.float64).tobytes()).digest() for image in images]

    return torch.tensor([[float(int.from_bytes(digest[:6]))] for digest in digests], dtype=torch.float64)
