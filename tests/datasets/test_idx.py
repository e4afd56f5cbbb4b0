import gzip
import struct

import numpy as np
import pytest

import deepbc as bc
from deepbc.datasets.idx import read_idx, write_idx

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
PLAIN = b"\0\0\x08\x03" + struct.pack(">3I", 2, 3, 4) + bytes(range(24))
ZIPPED = gzip.compress(PLAIN, mtime=0)


def test_bytes_are_read_as_the_format_says(tmp_path):
    (tmp_path / "plain").write_bytes(PLAIN)
    (tmp_path / "zipped.gz").write_bytes(ZIPPED)
    for name in ("plain", "zipped.gz"):
        assert np.array_equal(read_idx(tmp_path / name), IMAGES)


def test_bytes_are_written_as_the_format_says(tmp_path):
    write_idx(tmp_path / "plain", IMAGES)
    write_idx(tmp_path / "zipped.gz", IMAGES)
    assert (tmp_path / "plain").read_bytes() == PLAIN
    assert gzip.decompress((tmp_path / "zipped.gz").read_bytes()) == PLAIN
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "zipped.gz"]


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "f4", "f8", ">i4", "<f8"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4)])
def test_arrays_of_every_type_come_back(dtype, shape, tmp_path):
    array = np.random.default_rng(0).uniform(0, 100, shape).astype(dtype)
    write_idx(tmp_path / "array.gz", array)
    read = read_idx(tmp_path / "array.gz")
    assert np.array_equal(read, array)
    assert read.dtype == np.dtype(dtype).newbyteorder("=")
    assert read.flags.writeable


def test_same_array_gives_the_same_file(tmp_path):
    for name in ("a.gz", "b.gz"):
        write_idx(tmp_path / name, IMAGES)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.gz", None, "cannot be read"),
        ("a.gz", b"", "got an empty file"),
        ("a.gz", PLAIN, "expected a gzip file, got 00 00 08 03 as its first bytes"),
        ("a.gz", b"<html>", "expected a gzip file"),
        ("a.gz", ZIPPED[:-12], "expected a whole gzip file"),
        ("a.gz", ZIPPED[:12] + b"\xff\xff" + ZIPPED[14:], "a damaged one"),
        ("a.gz", ZIPPED[:-8] + bytes(8), "a damaged one"),
        ("a", ZIPPED, "expected an idx file, .* got 1f 8b"),
        ("a", b"\0\0\x07\x01" + PLAIN[4:], "got 00 00 07 01"),
        ("a", b"\0\0", "got 00 00"),
        ("a", PLAIN[:10], "expected a header of 16 bytes, got 10: it was cut short"),
        ("a", PLAIN[:-1], r"expected 24 bytes for the shape \(2, 3, 4\) in its header, got 23: it was cut short"),
        ("a", PLAIN + b"\0", "got 25: it holds more than it says"),
        ("a", b"\0\0\x0e\x02" + b"\xff" * 8, "got 0: it was cut short"),
    ],
    ids=range(14),
)
def test_bad_file_is_named_with_what_is_wrong(name, content, message, tmp_path):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(bc.errors.DataError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_array_of_another_type_is_refused(tmp_path):
    with pytest.raises(bc.errors.DataError, match=r"expected an array of uint8, .* got int64\. Convert it"):
        write_idx(tmp_path / "a.gz", np.arange(3))


def test_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(bc.errors.StorageError, match=r"a\.gz: cannot be written"):
        write_idx(tmp_path / "file" / "a.gz", IMAGES)
