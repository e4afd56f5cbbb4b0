"""Pictures on disk, against arrays of which they were made and against a second implementation of the filter."""

import errno
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deepbc.datasets import image_cache
from deepbc.datasets.image_cache import Cut, open_pictures
from deepbc.errors import DataError, SettingError, StorageError

COUNT = 23
SMALL = Cut(8, {})


def pixels(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def channels_first(array):
    return np.moveaxis(array, -1, 0)


@pytest.fixture
def paths(tmp_path):
    """Pictures of 8 x 8 pixels, which come back as they are."""
    folder = tmp_path / "set"
    folder.mkdir()
    for k in range(COUNT):
        Image.fromarray(pixels(8, 8, k)).save(folder / f"{k:02}.png")
    return [str(folder / f"{k:02}.png") for k in range(COUNT)]


@pytest.fixture
def truth():
    return np.stack([channels_first(pixels(8, 8, k)) for k in range(COUNT)])


@pytest.fixture
def place(tmp_path):
    return tmp_path / "cache" / "set"


@pytest.fixture(autouse=True)
def four_at_a_time(monkeypatch):
    monkeypatch.setattr(image_cache, "STRETCH", 4 * 3 * 8 * 8)


@pytest.fixture
def reads(monkeypatch):
    """The paths of all pictures that were decoded."""
    seen, read = [], Cut.read
    monkeypatch.setattr(Cut, "read", lambda cut, path: seen.append(path) or read(cut, path))
    return seen


def array_of(place):
    (path,) = place.parent.glob("*.npy")
    return path


# How pictures are cut


@pytest.mark.parametrize(
    ("width", "height", "left", "top", "side"),
    [(178, 218, 14, 34, 150), (218, 178, 20, 0, 178), (64, 64, 0, 0, 64), (31, 20, 5, 0, 20), (20, 31, 0, 5, 20)],
)
def test_centred_square_is_kept(width, height, left, top, side, tmp_path):
    whole = pixels(height, width)
    Image.fromarray(whole).save(tmp_path / "a.png")
    cut = Cut(side, {(178, 218): 150}).read(str(tmp_path / "a.png"))
    assert np.array_equal(cut, channels_first(whole[top : top + side, left : left + side]))


def test_nothing_outside_the_crop_enters(tmp_path):
    whole = np.zeros((218, 178, 3), np.uint8)
    whole[...] = (255, 0, 0)
    whole[34:109, 14:89], whole[34:109, 89:164] = (0, 0, 200), (0, 100, 0)
    whole[109:184, 14:89], whole[109:184, 89:164] = (0, 100, 200), (0, 0, 0)
    Image.fromarray(whole).save(tmp_path / "a.png")
    red, green, blue = Cut(50, {(178, 218): 150}).read(str(tmp_path / "a.png"))
    assert not red.any()
    # The four fields, but for a pixel on both sides of their borders.
    for rows, columns, expected in (
        (slice(24), slice(24), (0, 200)),
        (slice(24), slice(26, 50), (100, 0)),
        (slice(26, 50), slice(24), (100, 200)),
        (slice(26, 50), slice(26, 50), (0, 0)),
    ):
        assert (green[rows, columns] == expected[0]).all()
        assert (blue[rows, columns] == expected[1]).all()


def triangle(old, new):
    """The weights of a triangle as wide as two new pixels, or as two old ones where those are wider."""
    step = old / new
    centres, places = (np.arange(new) + 0.5) * step, np.arange(old) + 0.5
    weights = np.maximum(0, 1 - np.abs(places - centres[:, None]) / max(step, 1.0))
    return weights / weights.sum(1, keepdims=True)


@pytest.mark.parametrize(("old", "new"), [(150, 64), (150, 50), (150, 128), (20, 32)])
def test_resizing_is_a_triangle_filter(old, new, tmp_path):
    whole = pixels(old, old)
    Image.fromarray(whole).save(tmp_path / "a.png")
    weights = triangle(old, new)
    expected = np.einsum("ai,bj,ijc->cab", weights, weights, whole, optimize=True)
    assert np.abs(Cut(new, {}).read(str(tmp_path / "a.png")) - expected).max() <= 1.01


def test_slope_shrinks_to_the_averages_of_its_blocks(tmp_path):
    x, y = np.meshgrid(np.arange(150), np.arange(150))
    whole = np.stack([x, y, (x + y) / 2], -1).astype(np.uint8)
    Image.fromarray(whole).save(tmp_path / "a.png")
    blocks = whole.reshape(50, 3, 50, 3, 3).mean((1, 3))
    inside = np.s_[:, 1:-1, 1:-1]
    assert np.abs(Cut(50, {}).read(str(tmp_path / "a.png")) - channels_first(blocks))[inside].max() <= 1


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "CMYK"])
def test_pictures_of_other_kinds_get_three_channels(mode, tmp_path):
    grey = np.kron(np.array([[0, 255], [255, 0]], np.uint8), np.ones((4, 4), np.uint8))
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.fromarray(np.stack([grey] * 3, -1)).convert(mode).save(path)
    assert np.array_equal(Cut(8, {}).read(str(path)), np.stack([grey] * 3))


def test_picture_is_turned_as_its_camera_noted(tmp_path):
    whole, exif = pixels(8, 8), Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees, clockwise
    Image.fromarray(whole).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(SMALL.read(str(tmp_path / "a.png")), channels_first(np.rot90(whole, -1)))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:200]), "cannot be read"),
        (lambda path: path.write_bytes(b""), "cannot identify image"),
        (lambda path: path.write_text("<html>"), "cannot identify image"),
        (lambda path: Image.fromarray(np.full((8, 8), 9000, np.uint16)).save(path), "more than 8 bits a channel"),
    ],
    ids=["cut short", "empty", "a page", "16 bits"],
)
def test_bad_picture_is_named(spoil, message, paths, place, tmp_path):
    spoil(tmp_path / "set" / "09.png")
    with pytest.raises(DataError, match=message) as caught:
        open_pictures(paths, SMALL, place, rows=COUNT)
    assert str(caught.value).startswith(f"{paths[9]}: expected a picture")
    assert "Replace it by a whole copy" in str(caught.value)


def test_jpeg_cut_short_is_named(tmp_path):
    Image.fromarray(pixels(218, 178)).save(tmp_path / "a.jpg")
    content = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"a\.jpg: .* truncated"):
        SMALL.read(str(tmp_path / "a.jpg"))


# How they are kept


def test_array_holds_the_pictures_and_is_only_read(paths, place, truth):
    images = open_pictures(paths, SMALL, place, rows=COUNT)
    assert isinstance(images, np.memmap)
    assert images.dtype == np.uint8
    assert np.array_equal(images, truth)
    assert np.array_equal(np.load(array_of(place)), truth)
    with pytest.raises(ValueError, match="read-only"):
        images[0] = 0


def test_pictures_are_decoded_once(paths, place, truth, reads):
    for rows in (5, 3, COUNT, 10, COUNT):
        assert np.array_equal(open_pictures(paths, SMALL, place, rows=rows), truth[:rows])
    assert reads == paths


def test_bad_picture_hinders_only_rows_that_need_it(paths, place, truth, reads):
    Path(paths[9]).write_bytes(Path(paths[9]).read_bytes()[:100])
    for _ in range(2):
        with pytest.raises(DataError):
            open_pictures(paths, SMALL, place, rows=COUNT)
    assert np.array_equal(open_pictures(paths, SMALL, place, rows=9), truth[:9])
    assert reads == [*paths[:10], *paths[8:10], paths[8]]


def test_killed_run_goes_on_where_it_was(paths, place, truth, reads):
    program = f"""
import os, signal
from pathlib import Path
from deepbc.datasets import image_cache
image_cache.STRETCH, read, seen = {image_cache.STRETCH}, image_cache.Cut.read, []
def stop(cut, path):
    seen.append(path)
    if len(seen) == 15:
        os.kill(os.getpid(), signal.SIGKILL)
    return read(cut, path)
image_cache.Cut.read = stop
image_cache.open_pictures({paths!r}, image_cache.Cut(8, {{}}), Path({str(place)!r}), rows={COUNT})
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert np.array_equal(open_pictures(paths, SMALL, place, rows=COUNT), truth)
    assert reads == paths[12:]


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


ROW = 3 * 8 * 8


@pytest.mark.parametrize(
    ("spoil", "first"),
    [
        (lambda array, manifest: flip(array, -1), 20),
        (lambda array, manifest: flip(array, 128 + 9 * ROW), 8),
        (lambda array, manifest: flip(array, 20), 0),
        (lambda array, manifest: array.write_bytes(array.read_bytes()[: 128 + 13 * ROW]), 12),
        (lambda array, manifest: array.write_bytes(b""), 0),
        (lambda array, manifest: array.unlink(), 0),
        (lambda array, manifest: manifest.unlink(), 0),
        (lambda array, manifest: manifest.write_bytes(manifest.read_bytes()[:50]), 0),
        (lambda array, manifest: manifest.write_text("[1]"), 0),
        (lambda array, manifest: edit(manifest, stamp="other"), 0),
        (lambda array, manifest: edit(manifest, stretches=[[-1, "x"]]), 0),
        (lambda array, manifest: edit(manifest, stretches=[[10**9, "x"]]), 0),
        (lambda array, manifest: edit(manifest, stretches=None), 0),
    ],
)
def test_what_was_changed_is_decoded_again(spoil, first, paths, place, truth, reads):
    open_pictures(paths, SMALL, place, rows=COUNT)
    reads.clear()
    spoil(array_of(place), array_of(place).with_suffix(".json"))
    assert np.array_equal(open_pictures(paths, SMALL, place, rows=COUNT), truth)
    assert reads == paths[first:]


def test_changed_folder_is_decoded_anew(paths, place, truth):
    before = open_pictures(paths, SMALL, place, rows=COUNT)
    Image.fromarray(pixels(8, 8, 99)).save(paths[3])
    after = open_pictures(paths, SMALL, place, rows=COUNT)
    assert np.array_equal(after[3], channels_first(pixels(8, 8, 99)))
    assert np.array_equal(np.delete(after, 3, 0), np.delete(truth, 3, 0))
    assert np.array_equal(before, truth)
    assert len(os.listdir(place.parent)) == 2


def test_another_list_or_cut_is_another_array(paths, place, truth):
    assert np.array_equal(open_pictures(paths[::-1], SMALL, place, rows=COUNT), truth[::-1])
    assert np.array_equal(open_pictures(paths, Cut(4, {(8, 8): 4}), place, rows=COUNT), truth[:, :, 2:6, 2:6])
    assert open_pictures(paths, Cut(4, {}), place, rows=COUNT).shape == (COUNT, 3, 4, 4)


def test_place_that_begins_alike_is_left_alone(paths, place, truth, reads):
    for name in ("set-b", "set", "set-b"):
        assert np.array_equal(open_pictures(paths, SMALL, place.with_name(name), rows=COUNT), truth)
    assert reads == paths * 2


def test_several_writers_make_one_array(paths, place, truth):
    with ThreadPoolExecutor(4) as pool:
        for images in pool.map(lambda _: open_pictures(paths, SMALL, place, rows=COUNT), range(4)):
            assert np.array_equal(images, truth)


def test_memory_holds_one_stretch(tmp_path, monkeypatch):
    monkeypatch.setattr(image_cache, "STRETCH", 1 << 20)
    Image.fromarray(pixels(16, 16)).save(tmp_path / "a.jpg")
    content, count = (tmp_path / "a.jpg").read_bytes(), 2000
    paths = [str(tmp_path / f"{k}.jpg") for k in range(count)]
    for path in paths:
        Path(path).write_bytes(content)

    # Other threads of the process only add to a peak, so the lesser of two counts.
    peaks = {"decoded": [], "held against its sums": []}
    for place in (tmp_path / "one", tmp_path / "other"):
        for kind in peaks:
            tracemalloc.start()
            images = open_pictures(paths, Cut(64, {}), place, rows=count)
            peaks[kind].append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert images.nbytes == count * 3 * 64 * 64 > 20 << 20
    assert all(min(each) < 4 << 20 for each in peaks.values()), peaks


def test_missing_pictures_are_named_and_counted(paths, place):
    os.unlink(paths[4])
    with pytest.raises(DataError, match=r"04\.png: expected a picture, but it is not there\. Put it there, or drop"):
        open_pictures(paths, SMALL, place, rows=2)
    os.unlink(paths[7])
    with pytest.raises(DataError, match=rf"04\.png: .* nor are 1 others of {COUNT}\."):
        open_pictures(paths, SMALL, place, rows=2)


def test_full_disk_is_told(paths, place, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"cannot be written \(No space left on device\)\. Choose another folder"):
        open_pictures(paths, SMALL, place, rows=COUNT)


def test_cache_that_is_no_folder_is_told(paths, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot be written .* Choose another folder with cache="):
        open_pictures(paths, SMALL, tmp_path / "file" / "set", rows=COUNT)


def test_only_decoding_needs_pillow(paths, place, truth, monkeypatch):
    open_pictures(paths, SMALL, place, rows=9)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert np.array_equal(open_pictures(paths, SMALL, place, rows=9), truth[:9])
    with pytest.raises(SettingError, match=r"need Pillow\. Install it with: pip install 'deepbc\[data\]'"):
        open_pictures(paths, SMALL, place, rows=COUNT)


def test_progress_is_shown_when_asked_for(paths, place, capfd):
    open_pictures(paths, SMALL, place, rows=9, show=True)
    assert "Decoding pictures" in capfd.readouterr().err
    open_pictures(paths, SMALL, place, rows=COUNT)
    assert capfd.readouterr() == ("", "")
