"""CelebA: faces of celebrities, and whether they are old, male, bearded and bald.

The set is not downloaded, as its publishers ask for agreement; put it where `load` looks. These layouts are read: the
official one, with `list_attr_celeba.txt` (also under `Anno`) and `img_align_celeba/000001.jpg` (also under `Img`), that
of Kaggle, with `list_attr_celeba.csv` and a folder in the folder, and one of your own, with the pictures in `images` or
beside a single table whose first column names them. A table says 1 or -1, or 1 or 0.

The attributes are named by what 1 means, so two of them are turned: `age` is 1 where the table denies `Young`, and
`beard` where it denies `No_Beard`; `gender` is `Male`, and `bald` is `Bald`. Of a picture of 178 x 218 pixels, as the
published ones are, the centred square of 150 x 150 is kept, of any other the largest centred square.

References:
    Deep Learning Face Attributes in the Wild (Liu et al., 2015): the set.
    CausalVAE: Disentangled Representation Learning via Neural Structural Causal Models (Yang et al., 2021): the graph.
"""

__all__ = ["GRAPH", "CelebA", "find", "load", "read_labels"]

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepbc._validation import check_choice, check_count
from deepbc.datasets.attribute_lists import read_listing
from deepbc.datasets.download import VARIABLE, cache_folder, given_folder
from deepbc.datasets.image_cache import Cut, open_pictures
from deepbc.errors import DataError
from deepbc.graph import CausalGraph

GRAPH = CausalGraph.parse("age, gender -> beard, bald; age, gender, beard, bald -> image")

# For each of ours the published attribute, and what its table says where ours is 1.
ATTRIBUTES = {"age": ("Young", False), "gender": ("Male", True), "beard": ("No_Beard", False), "bald": ("Bald", True)}
VALUES = {"1": 1, "-1": -1, "0": 0}

CROPS = {(178, 218): 150}
LARGEST = 4096

NAME = "celeba"
TABLES = ("list_attr_celeba.txt", "Anno/list_attr_celeba.txt", "list_attr_celeba.csv")
PARTITIONS = ("list_eval_partition.txt", "Eval/list_eval_partition.txt", "list_eval_partition.csv")
FOLDERS = ("img_align_celeba/img_align_celeba", "img_align_celeba", "Img/img_align_celeba", "images", ".")
PARTS = {"train": [0], "valid": [1], "test": [2], "all": [0, 1, 2]}
ORIGIN = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"


@dataclass(frozen=True, slots=True, eq=False)
class CelebA:
    """Faces with their attributes, in the order of their names.

    Args:
        images: Bytes on disk, which are only read, with shape `(rows, 3, size, size)`: red, green and blue.
        labels: age, gender, beard and bald, 0 or 1, float64 with shape `(rows,)`.
        names: The names of the files.
    """

    images: NDArray[np.uint8]
    labels: Mapping[str, Tensor]
    names: tuple[str, ...]

    @property
    def values(self) -> dict[str, Any]:
        """The labels and the image, as `SCM.fit` takes them."""
        return {**self.labels, "image": self.images}


def load(
    folder: str | os.PathLike[str] | None = None,
    *,
    part: str = "train",
    size: int = 64,
    rows: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    show: bool | None = None,
) -> CelebA:
    """Reads a part of CelebA. Its images are decoded once, into a file of the cache; a killed run goes on where it was.

    Args:
        folder: Where the set is; None looks for `celeba` in `DEEPBC_DATA`, then in the cache folder.
        part: `"train"`, `"valid"`, `"test"` or `"all"`, by the published partition where the folder has it. Otherwise
            the last tenth of the names in their order is the test part, the tenth before it the validation part, both
            rounded up, and all before them is for training.
        size: The side of the images in pixels.
        rows: How many rows to take, the first ones of the part; None takes all. Only these are decoded.
        cache: The folder for the decoded images; None takes `pictures` in the cache folder. They need
            `3 * size * size` bytes a row there: 2.5 GB for all faces at the size of 64.
        show: Whether to show the progress; None shows it where standard error is a terminal.

    Raises:
        DataError: The folder, a table or a picture is missing or not what it should be.
        StorageError: The cache cannot be written.
    """
    check_count(size, "size", least=1, most=LARGEST)
    home = _home(folder)
    names, labels, chosen = _listed(home, part)
    check_count(len(chosen) if rows is None else rows, "rows", least=1, most=len(chosen))

    pictures = _pictures(home, names[0])
    paths = [os.path.join(pictures, names[row]) for row in chosen]
    mark = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    place = Path(cache_folder() / "pictures" if cache is None else cache) / f"{NAME}-{part}-{size}-{mark}"
    images = open_pictures(paths, Cut(size, CROPS), place, rows=rows or len(paths), show=show)
    chosen = chosen[: len(images)]

    return CelebA(
        images, {name: column[chosen] for name, column in labels.items()}, tuple(names[row] for row in chosen)
    )


def read_labels(
    folder: str | os.PathLike[str] | None = None, *, part: str = "train", rows: int | None = None
) -> Mapping[str, Tensor]:
    """Reads the labels of a part from the tables alone, without a picture; arguments are those of `load`."""
    _, labels, chosen = _listed(_home(folder), part)
    check_count(len(chosen) if rows is None else rows, "rows", least=1, most=len(chosen))

    return {name: column[chosen[:rows]] for name, column in labels.items()}


def find() -> Path | None:
    """Looks where `load` does: the folder that holds the set, or None where there is none.

    Raises:
        DataError: `DEEPBC_DATA` names no folder, or a folder of that name lacks the table of attributes.
    """
    for place in _places():
        if _table(place) is not None:
            return place
        if place.is_dir():
            raise DataError(
                f"{place}: expected {TABLES[0]} in it, got a folder without. Put it there, or take the folder away."
            )

    return None


def _places() -> list[Path]:
    return [place for place in (given_folder(NAME), cache_folder() / NAME) if place is not None]


def _home(folder: str | os.PathLike[str] | None) -> Path:
    home = find() if folder is None else folder
    if home is None:
        raise DataError(
            f"{NAME}: expected the set in {' or '.join(map(str, _places()))}, got no {TABLES[0]} there. It cannot be "
            f"downloaded freely: get img_align_celeba.zip and {TABLES[0]} from {ORIGIN} and unpack them into that "
            f"folder, or give folder=, or set {VARIABLE} to a folder that holds {NAME}/."
        )

    return Path(os.path.realpath(home))


def _table(home: Path) -> Path | None:
    """The table of attributes: the published one, or else the only one there is."""
    own = sorted(path for path in home.glob("*.csv") if path.name not in PARTITIONS)

    return _first(home, TABLES) or (own[0] if len(own) == 1 else None)


def _first(home: Path, names: Sequence[str]) -> Path | None:
    return next((home / name for name in names if os.path.isfile(home / name)), None)


def _pictures(home: Path, name: str) -> Path:
    """The folder that holds the picture of that name, or the first of those that are there."""
    folders = [home / folder for folder in FOLDERS if os.path.isdir(home / folder)]

    return next((folder for folder in folders if os.path.isfile(folder / name)), folders[0])


def _listed(home: Path, part: str) -> tuple[list[str], dict[str, Tensor], NDArray[np.intp]]:
    """Reads the names and labels of all faces, and which of them belong to a part."""
    check_choice(part, tuple(PARTS), "part")
    names, labels = _attributes(home)
    chosen = np.flatnonzero(_chosen(home, names, part))
    if not len(chosen):
        raise DataError(
            f"{home}: expected faces in the part {part!r}, got none of {len(names):,}. Choose another part."
        )

    return names, labels, chosen


def _attributes(home: Path) -> tuple[list[str], dict[str, Tensor]]:
    """Reads the names of the files, in their order, and their labels."""
    table = _table(home)
    if table is None:
        came = "neither" if os.path.isdir(home) else "no folder"
        raise DataError(
            f"{home}: expected a folder with {TABLES[0]} or a single table that ends in .csv, got {came}. Put the file "
            f"there; it is published at {ORIGIN}."
        )

    listed = read_listing(table, [attribute for attribute, _ in ATTRIBUTES.values()], VALUES)
    names = sorted(listed)
    columns = np.array([listed[name] for name in names], np.int8).T
    if (columns == 0).any() and (columns == -1).any():
        raise DataError(f"{table}: expected 1 and -1, or 1 and 0, got all three. Write -1 or 0 throughout.")
    labels = {
        ours: torch.from_numpy(((column == 1) == one).astype(np.float64))
        for (ours, (_, one)), column in zip(ATTRIBUTES.items(), columns, strict=True)
    }

    return names, labels


def _chosen(home: Path, names: Sequence[str], part: str) -> NDArray[np.bool_]:
    """Which of the names, which are in their order, belong to a part."""
    table = _first(home, PARTITIONS)
    if table is None:
        tenth = -(-len(names) // 10)
        codes = [0] * len(names) + [1] * tenth + [2] * tenth
        return np.isin(codes[-len(names) :], PARTS[part])

    listed = read_listing(table, ["partition"], {"0": 0, "1": 1, "2": 2})
    for name in names:
        if name not in listed:
            raise DataError(f"{table}: expected a line for every face, got none for {name}. Add it, or drop the table.")

    return np.isin([listed[name][0] for name in names], PARTS[part])
