"""idx files, in which MNIST is published: a header and the numbers of one array, mostly gzipped.

The header is two zero bytes, a byte for the type, a byte for the number of axes, and the length of each axis; all
numbers are big-endian.

References:
    The MNIST database of handwritten digits (LeCun, Cortes and Burges, 1998): the format.
"""

__all__ = ["read_idx", "write_idx"]

import gzip
import math
import os
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepbc.datasets.download import read_bytes
from deepbc.errors import DataError
from deepbc.storage import write_bytes

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
AGAIN = "Download it again, or give another file."

Path = str | os.PathLike[str]


def read_idx(path: Path) -> NDArray[Any]:
    """Reads an idx file, gzipped if its name ends in `.gz`.

    Raises:
        DataError: The file is missing, is not gzipped or not idx, or holds too little or too much.
    """
    content = _content(path)
    kind, axes = content[2:3], content[3:4]
    if len(content) < 4 or content[:2] != b"\0\0" or kind[0] not in TYPES:
        raise DataError(
            f"{path}: expected an idx file, which begins with 00 00 and a known type, got "
            f"{content[:4].hex(' ') or 'an empty file'}. {AGAIN}"
        )

    dtype, start = np.dtype(TYPES[kind[0]]), 4 + 4 * axes[0]
    if len(content) < start:
        raise DataError(f"{path}: expected a header of {start} bytes, got {len(content)}: it was cut short. {AGAIN}")
    shape = struct.unpack(f">{axes[0]}I", content[4:start])
    expected, came = math.prod(shape) * dtype.itemsize, len(content) - start
    if came != expected:
        what = "was cut short" if came < expected else "holds more than it says"
        raise DataError(
            f"{path}: expected {expected:,} bytes for the shape {shape} in its header, got {came:,}: it {what}. {AGAIN}"
        )

    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def write_idx(path: Path, array: NDArray[Any]) -> None:
    """Writes an idx file, gzipped if its name ends in `.gz`; the same array gives the same bytes."""
    array = np.asarray(array)
    kinds = {np.dtype(name).newbyteorder("="): kind for kind, name in TYPES.items()}
    dtype = array.dtype.newbyteorder("=")
    if dtype not in kinds:
        known = ", ".join(str(each) for each in kinds)
        raise DataError(f"{path}: expected an array of {known}, got {array.dtype}. Convert it.")

    kind = kinds[dtype]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape)
    content = header + array.astype(TYPES[kind]).tobytes()
    write_bytes(path, gzip.compress(content, mtime=0) if _zipped(path) else content)


def _content(path: Path) -> bytes:
    content = read_bytes(path)
    if not _zipped(path):
        return content

    try:
        return gzip.decompress(content)
    except EOFError as error:
        raise DataError(f"{path}: expected a whole gzip file, got {len(content):,} bytes of one. {AGAIN}") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        came = (
            f"{content[:4].hex(' ')} as its first bytes" if content[:2] != b"\x1f\x8b" else f"a damaged one ({error})"
        )
        raise DataError(f"{path}: expected a gzip file, got {came}. {AGAIN}") from error


def _zipped(path: Path) -> bool:
    return os.fspath(path).endswith(".gz")
