"""Picture files as one memory-mapped array of bytes, decoded once.

Pictures are cut to a centred square, brought to one size and written into a `.npy` file of a cache, a stretch of rows
at a time; so memory holds a few megabytes of them, however many there are. A manifest beside the file lists the
stretches that are on disk with their SHA-256 sums, and is replaced as a whole after each. Hence a killed run goes on
where it was, and what was changed, cut short or not written to the end is decoded again.

The name of the file holds a stamp of all that its bytes come from: the paths of the pictures, their sizes and times,
and how they are cut. A changed folder so gets another file, and the old one is removed. Several processes may write
one file: they put the same bytes in the same places.
"""

__all__ = ["Cut", "open_pictures"]

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from deepbc.errors import DataError, SettingError, StorageError
from deepbc.progress import progress
from deepbc.storage import write_bytes

# Changes with the way pictures are decoded, so that no other way's bytes are taken for ours.
VERSION = 1
# The bytes of a stretch, about.
STRETCH = 4 << 20
# What Pillow calls pictures of more than a byte for each channel; it would cut them to white.
WIDE = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")
# How many digits of the stamp are in the name.
DIGITS = 16
DROP = "or drop its line from the table."

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Cut:
    """How a picture becomes a square of three channels.

    Args:
        size: The side of the square in pixels.
        crops: For pictures of some width and height, the side of the centred square that is kept. Of pictures of any
            other size it is the largest one.
    """

    size: int
    crops: Mapping[tuple[int, int], int]

    def read(self, path: str) -> Bytes:
        """Reads a picture, with shape `(3, size, size)`; turned as its camera noted, grey ones with equal channels.

        It is resized by Pillow's triangle filter ("bilinear"), which is as wide as the step from one new pixel to the
        next: it averages where a picture shrinks. Nothing outside the crop enters.

        Raises:
            DataError: It is no picture, was cut short, or has more than a byte for each channel.
        """
        pillow, turn = _tools()
        try:
            with pillow.open(path) as picture:
                turn(picture, in_place=True)
                if picture.mode in WIDE:
                    raise ValueError("more than 8 bits a channel")
                square = picture.convert("RGB").crop(self._box(*picture.size))
        except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
            raise DataError(
                f"{path}: expected a picture of 8 bits a channel, got one that cannot be read ({_reason(error)}). "
                f"Replace it by a whole copy, {DROP}"
            ) from error

        pixels = np.asarray(square.resize((self.size, self.size), pillow.Resampling.BILINEAR))

        return np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def _box(self, width: int, height: int) -> tuple[int, int, int, int]:
        """The left, upper, right and lower end of what is kept."""
        side = self.crops.get((width, height), min(width, height))
        left, top = (width - side) // 2, (height - side) // 2

        return left, top, left + side, top + side


def open_pictures(paths: Sequence[str], cut: Cut, place: Path, *, rows: int, show: bool | None = None) -> Bytes:
    """Opens the first pictures of a list as an array on disk, which is only read; decodes those that are not there yet.

    Args:
        paths: The files of all pictures.
        cut: How they are cut.
        place: Where the array lies: a folder, made where there is none, and the beginning of the file's name.
        rows: How many pictures are wanted.
        show: Whether to show the progress; None shows it where standard error is a terminal.

    Returns:
        Bytes with shape `(rows, 3, size, size)`.

    Raises:
        DataError: A picture is missing or cannot be read.
        StorageError: The array cannot be written.
    """
    shape = (3, cut.size, cut.size)
    stamp = _stamp(paths, cut)
    store = _Store(place.with_name(f"{place.name}-{stamp[:DIGITS]}.npy"), stamp, _header((len(paths), *shape)), shape)

    stretches = store.standing(rows)
    done = stretches[-1][0] if stretches else 0
    if done < rows:
        if not done:
            _remove_others(place, store.path)
        store.extend(stretches, paths[:rows], cut, show)

    return np.memmap(store.path, np.uint8, "r", offset=len(store.header), shape=(rows, *shape))


# The number of the row after the last of a stretch, and the SHA-256 sum of its bytes.
Stretch = tuple[int, str]


@dataclass(frozen=True, slots=True)
class _Store:
    """The array on disk and its manifest."""

    path: Path
    stamp: str
    header: bytes
    shape: tuple[int, int, int]

    def standing(self, rows: int) -> list[Stretch]:
        """The stretches on disk that are as they were written, one after the other until they hold so many rows."""
        try:
            file = self.path.open("rb")
        except OSError:
            return []

        standing: list[Stretch] = []
        start = 0
        with file:
            if file.read(len(self.header)) != self.header:
                return []
            for stop, digest in self._listed():
                # All that are held in memory at once.
                if start >= rows or not start < stop <= start + self._step:
                    break
                if hashlib.sha256(file.read((stop - start) * self._stride)).hexdigest() != digest:
                    break
                standing.append((stop, digest))
                start = stop

        return standing

    def extend(self, stretches: list[Stretch], paths: Sequence[str], cut: Cut, show: bool | None) -> None:
        """Decodes the pictures after those that are on disk."""
        starts = range(stretches[-1][0] if stretches else 0, len(paths), self._step)
        with self._opened() as file, progress("Decoding pictures", len(starts), show) as bar:
            self._put(file, 0, self.header)
            for start in starts:
                part = paths[start : start + self._step]
                bar.describe(f"{start:,} of {len(paths):,} pictures")
                block = b"".join(cut.read(path).tobytes() for path in part)
                self._put(file, len(self.header) + start * self._stride, block)
                # What the manifest lists is on disk before it is listed.
                stretches.append((start + len(part), hashlib.sha256(block).hexdigest()))
                listed = {"stamp": self.stamp, "stretches": stretches}
                write_bytes(self._manifest, json.dumps(listed, indent=1).encode())
                bar.advance()

    @property
    def _stride(self) -> int:
        """The bytes of a row."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def _step(self) -> int:
        """The rows of a whole stretch."""
        return max(1, STRETCH // self._stride)

    @property
    def _manifest(self) -> Path:
        return self.path.with_suffix(".json")

    def _listed(self) -> list[Stretch]:
        """The stretches in the manifest; none where it is missing, damaged or another's."""
        try:
            content = json.loads(self._manifest.read_bytes())
            listed = [(int(stop), str(digest)) for stop, digest in content["stretches"]]
            return listed if content["stamp"] == self.stamp else []
        except (OSError, ValueError, TypeError, KeyError):
            return []

    def _opened(self) -> BinaryIO:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Neither made anew nor cut: another process may be reading it.
            self.path.touch()
            return self.path.open("r+b")
        except OSError as error:
            raise self._failure(error) from error

    def _put(self, file: BinaryIO, place: int, block: bytes) -> None:
        # By a plain write, which tells a full disk as an error; a write to mapped memory would end the process.
        try:
            file.seek(place)
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> StorageError:
        return StorageError(f"{self.path}: cannot be written ({_reason(error)}). Choose another folder with cache=.")


def _header(shape: tuple[int, ...]) -> bytes:
    """The beginning of a `.npy` file of bytes."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})

    return file.getvalue()


def _stamp(paths: Sequence[str], cut: Cut) -> str:
    digest = hashlib.sha256(repr((VERSION, cut.size, sorted(cut.crops.items()))).encode())
    missing = []
    for path in paths:
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            missing.append(path)
        else:
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode(errors="surrogateescape"))
    if missing:
        others = f", nor are {len(missing) - 1:,} others of {len(paths):,}" if len(missing) > 1 else ""
        raise DataError(f"{missing[0]}: expected a picture, but it is not there{others}. Put it there, {DROP}")

    return digest.hexdigest()


def _remove_others(place: Path, path: Path) -> None:
    """Removes what an earlier state of the folder left; who still reads it keeps it."""
    for other in place.parent.glob(f"{place.name}-{'[0-9a-f]' * DIGITS}.*"):
        if other.stem != path.stem:
            with suppress(OSError):
                other.unlink()


def _tools() -> tuple[ModuleType, Any]:
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError as error:
        raise SettingError("Pictures need Pillow. Install it with: pip install 'deepbc[data]'.") from error

    return Image, ImageOps.exif_transpose


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
