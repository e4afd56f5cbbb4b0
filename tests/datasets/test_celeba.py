"""Folders of faces written by hand, in the layouts that people have."""

import os
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import deepbc as bc
from deepbc.data.reading import read_image
from deepbc.datasets import celeba
from deepbc.datasets.image_cache import Cut
from deepbc.errors import DataError, SettingError, StorageError

OFFICIAL = """6
Bald Male Mustache No_Beard Young
000001.jpg -1  1 -1  1  1
000002.jpg -1 -1 -1  1 -1
000003.jpg  1  1  1 -1 -1
000004.jpg -1  1 -1 -1  1
000005.jpg -1 -1 -1  1  1
000006.jpg  1  1 -1  1 -1
"""
NAMES = tuple(f"00000{k}.jpg" for k in range(1, 7))
PARTITION = "000001.jpg 0\n000002.jpg 2\n000003.jpg 0\n000004.jpg 1\n000005.jpg 0\n000006.jpg 2\n"
# Read off the table by hand: old is not young, bearded is not beardless.
LABELS = {
    "age": [0, 1, 1, 0, 0, 1],
    "gender": [1, 0, 1, 1, 0, 1],
    "beard": [0, 0, 1, 1, 0, 0],
    "bald": [0, 0, 1, 0, 0, 1],
}


def face(k, width=178, height=218):
    """A frame of white around a field of one colour, which is as large as what is kept."""
    whole = np.full((height, width, 3), 255, np.uint8)
    whole[34:184, 14:164] = colour(k)
    return Image.fromarray(whole)


def colour(k):
    return (40 * k, 200 - 30 * k, 90)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no folder of data."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DEEPBC_DATA", raising=False)
    return tmp_path / "home" / "deepbc"


@pytest.fixture
def folder(tmp_path):
    """The official layout, with six faces."""
    home = tmp_path / "faces"
    (home / "img_align_celeba").mkdir(parents=True)
    (home / "list_attr_celeba.txt").write_text(OFFICIAL)
    (home / "list_eval_partition.txt").write_text(PARTITION)
    for k, name in enumerate(NAMES):
        face(k).save(home / "img_align_celeba" / name, quality=100, subsampling=0)
    return home


def as_csv(text, no="-1"):
    lines = [line.split() for line in text.splitlines()[1:]]
    rows = [[line[0], *(no if field == "-1" else field for field in line[1:])] for line in lines[1:]]
    return "".join(",".join(row) + "\n" for row in [["image_id", *lines[0]], *rows])


def check_faces(faces):
    assert faces.names == NAMES
    assert {name: label.tolist() for name, label in faces.labels.items()} == LABELS
    assert all(label.dtype == torch.float64 for label in faces.labels.values())
    for k, image in enumerate(faces.images):
        assert np.abs(image.astype(int) - np.reshape(colour(k), (3, 1, 1))).max() <= 6


def test_official_layout_is_read(folder):
    faces = celeba.load(folder, part="all")
    assert faces.images.shape == (6, 3, 64, 64)
    assert faces.images.dtype == np.uint8
    check_faces(faces)


def test_folders_of_the_official_download_are_read(folder):
    (folder / "Img").mkdir()
    for name, place in (("list_attr_celeba.txt", "Anno"), ("list_eval_partition.txt", "Eval")):
        (folder / place).mkdir()
        (folder / name).rename(folder / place / name)
    (folder / "img_align_celeba").rename(folder / "Img" / "img_align_celeba")
    check_faces(celeba.load(folder, part="all"))
    assert celeba.load(folder, part="valid").names == ("000004.jpg",)


def test_layout_of_kaggle_is_read(folder):
    (folder / "img_align_celeba").rename(folder / "inner")
    (folder / "img_align_celeba").mkdir()
    (folder / "inner").rename(folder / "img_align_celeba" / "img_align_celeba")
    (folder / "list_attr_celeba.txt").unlink()
    (folder / "list_attr_celeba.csv").write_text(as_csv(OFFICIAL))
    (folder / "list_eval_partition.txt").unlink()
    (folder / "list_eval_partition.csv").write_text("image_id,partition\n" + PARTITION.replace(" ", ","))
    check_faces(celeba.load(folder, part="all"))
    assert celeba.load(folder, part="test").names == ("000002.jpg", "000006.jpg")


@pytest.mark.parametrize("place", ["images", "."])
def test_table_of_ones_and_zeros_beside_pictures_is_read(place, folder):
    os.makedirs(folder / place, exist_ok=True)
    for name in NAMES:
        (folder / "img_align_celeba" / name).rename(folder / place / name)
    (folder / "img_align_celeba").rmdir()
    (folder / "list_attr_celeba.txt").unlink()
    (folder / "people.csv").write_text(as_csv(OFFICIAL, no="0"))
    check_faces(celeba.load(folder, part="all"))


def test_rows_come_in_the_order_of_names(folder):
    lines = OFFICIAL.splitlines()
    (folder / "list_attr_celeba.txt").write_text("\n".join([*lines[:2], *lines[:1:-1]]))
    check_faces(celeba.load(folder, part="all"))


def test_pictures_of_other_sizes_keep_their_largest_square(folder):
    stripes = np.zeros((20, 50, 3), np.uint8)
    stripes[:, 15:35] = np.random.default_rng(0).integers(0, 256, (20, 20, 3))
    for name in NAMES:
        Image.fromarray(stripes).save(folder / "img_align_celeba" / name, "PNG")
    faces = celeba.load(folder, part="all", size=20)
    assert all(np.array_equal(image, np.moveaxis(stripes[:, 15:35], -1, 0)) for image in faces.images)


@pytest.mark.parametrize(
    ("part", "kept"), [("train", [0, 2, 4]), ("valid", [3]), ("test", [1, 5]), ("all", [0, 1, 2, 3, 4, 5])]
)
def test_parts_are_those_of_the_partition(part, kept, folder):
    faces = celeba.load(folder, part=part)
    assert faces.names == tuple(NAMES[k] for k in kept)
    for name, label in faces.labels.items():
        assert label.tolist() == [LABELS[name][k] for k in kept]
    middles = [[round(float(channel) / 10) for channel in image[:, 32, 32]] for image in faces.images]
    assert middles == [[round(channel / 10) for channel in colour(k)] for k in kept]


def test_last_names_are_held_out_where_no_partition_is(folder):
    (folder / "list_eval_partition.txt").unlink()
    names = [celeba.load(folder, part=part).names for part in ("train", "valid", "test", "all")]
    assert names == [NAMES[:4], NAMES[4:5], NAMES[5:], NAMES]


@pytest.mark.parametrize(("count", "parts"), [(1, (0, 0, 1)), (2, (0, 1, 1)), (20, (16, 2, 2)), (21, (15, 3, 3))])
def test_held_out_parts_are_tenths_rounded_up(count, parts, tmp_path):
    names = [f"{k:02}" for k in range(count)]
    assert tuple(celeba._chosen(tmp_path, names, part).sum() for part in ("train", "valid", "test")) == parts


def test_faces_are_counted_without_looking_at_them(folder, monkeypatch):
    monkeypatch.setattr(Cut, "read", None)
    parts = ("train", "valid", "test", "all")
    assert [len(celeba.read_labels(folder, part=part)["age"]) for part in parts] == [3, 1, 2, 6]
    with pytest.raises(SettingError, match="part"):
        celeba.read_labels(folder, part="trian")


def test_some_rows_are_the_first_of_all(folder, cache, monkeypatch):
    seen, read = [], Cut.read
    monkeypatch.setattr(Cut, "read", lambda cut, path: seen.append(os.path.basename(path)) or read(cut, path))
    few, whole = celeba.load(folder, part="all", rows=2), celeba.load(folder, part="all")
    assert few.names == NAMES[:2]
    assert np.array_equal(few.images, whole.images[:2])
    assert {name: label.tolist() for name, label in few.labels.items()} == {n: LABELS[n][:2] for n in LABELS}
    assert seen == list(NAMES)
    celeba.load(folder, part="all", size=32)
    assert len(seen) == 12
    assert len(list((cache / "pictures").glob("celeba-all-*.npy"))) == 2


def test_table_may_change_without_the_pictures(folder, monkeypatch):
    celeba.load(folder, part="all")
    monkeypatch.setattr(Cut, "read", None)
    (folder / "list_attr_celeba.txt").write_text(OFFICIAL.replace("000001.jpg -1  1", "000001.jpg -1 -1"))
    assert celeba.load(folder, part="all").labels["gender"].tolist() == [0, 0, 1, 1, 0, 1]


def test_two_folders_share_a_cache(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "others")
    face(0).save(other / "img_align_celeba" / "000006.jpg")
    first, second = (celeba.load(home, part="all", cache=tmp_path / "both") for home in (folder, other))
    check_faces(first)
    assert np.array_equal(second.images[0][:, 20:40, 20:40], second.images[5][:, 20:40, 20:40])
    assert len(list((tmp_path / "both").glob("*.npy"))) == 2


def test_set_is_found_in_the_data_folder_then_the_cache(folder, cache, tmp_path, monkeypatch):
    assert celeba.find() is None
    shutil.copytree(folder, cache / "celeba")
    assert celeba.find() == cache / "celeba"
    check_faces(celeba.load(part="all"))
    shutil.copytree(folder, tmp_path / "data" / "celeba")
    (tmp_path / "data" / "celeba" / "list_eval_partition.txt").write_text(PARTITION.replace(" 2", " 0"))
    monkeypatch.setenv("DEEPBC_DATA", str(tmp_path / "data"))
    assert celeba.find() == tmp_path / "data" / "celeba"
    assert celeba.load().names == tuple(name for name in NAMES if name != "000004.jpg")


def test_missing_set_says_what_to_put_where(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPBC_DATA", str(tmp_path / "data"))
    # A path that is mistaken is never taken for a set that is not there.
    with pytest.raises(DataError, match=r"DEEPBC_DATA: expected a folder that holds celeba/, got .*data'"):
        celeba.find()
    (tmp_path / "data").mkdir()
    assert celeba.find() is None
    with pytest.raises(DataError) as said:
        celeba.load()
    for part in (
        str(tmp_path / "data" / "celeba"),
        str(cache / "celeba"),
        "got no list_attr_celeba.txt there",
        "img_align_celeba.zip",
        "mmlab.ie.cuhk.edu.hk",
        "folder=",
        "DEEPBC_DATA",
    ):
        assert part in str(said.value)

    (tmp_path / "data" / "celeba").mkdir()
    with pytest.raises(DataError, match=r"celeba: expected list_attr_celeba\.txt in it, got a folder without"):
        celeba.find()


def replace(name, old, new):
    return lambda home: (home / name).write_text((home / name).read_text().replace(old, new))


TABLE = "list_attr_celeba.txt"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shutil.rmtree, r"faces: expected a folder with list_attr_celeba.txt .* got no folder"),
        (lambda home: (home / TABLE).unlink(), "got neither. Put the file there; it is published at https"),
        (replace(TABLE, "Young", "Yung"), "celeba.txt: expected one column 'Young', got none .*mean 'Yung'"),
        (replace(TABLE, "000002.jpg -1", "000002.jpg 2"), "celeba.txt, line 4, 'Bald': expected 1 or -1 or 0, got '2'"),
        (replace(TABLE, "000002.jpg -1", "000002.jpg 0"), "celeba.txt: expected 1 and -1, or 1 and 0, got all three"),
        (replace(TABLE, "000002", "000001"), "celeba.txt, line 4: expected each file once, got 000001.jpg again"),
        (replace(TABLE, "6\n", "202599\n"), "celeba.txt: expected files, 202,599, as its first line says, got 6"),
        (replace(TABLE, "000002.jpg -1", "000002.jpg"), "celeba.txt, line 4: .* got 5 fields"),
        (replace("list_eval_partition.txt", "000004.jpg 1\n", ""), "partition.txt: .* got none for 000004.jpg"),
        (
            replace("list_eval_partition.txt", "4.jpg 1", "4.jpg 3"),
            "line 4, 'partition': expected 0 or 1 or 2, got '3'",
        ),
        (replace("list_eval_partition.txt", " 0", " 2"), "expected faces in the part 'train', got none of 6"),
        (lambda home: (home / "img_align_celeba" / NAMES[2]).unlink(), "img_align_celeba/000003.jpg: .* not there"),
        (lambda home: shutil.rmtree(home / "img_align_celeba"), "000001.jpg: .* nor are 2 others of 3"),
        (lambda home: (home / "img_align_celeba" / NAMES[2]).write_bytes(b"\xff\xd8"), "000003.jpg: .* cannot be read"),
    ],
)
def test_bad_folder_is_told(spoil, message, folder):
    spoil(folder)
    with pytest.raises(DataError, match=message):
        celeba.load(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "validation"}, "part: expected 'train' or 'valid' or 'test' or 'all', got 'validation'"),
        ({"size": 0}, "size: expected a whole number of at least 1 and at most 4096, got 0"),
        ({"size": 64.0}, "size: expected a whole number"),
        ({"rows": 0}, "rows: expected a whole number of at least 1 and at most 3, got 0"),
        ({"rows": 4}, "rows: expected a whole number of at least 1 and at most 3, got 4"),
    ],
)
def test_bad_arguments_are_refused(options, message, folder):
    with pytest.raises(SettingError, match=message):
        celeba.load(folder, **options)


def test_cache_that_cannot_be_written_is_told(folder):
    with pytest.raises(StorageError, match="Choose another folder with cache="):
        celeba.load(folder, cache=folder / TABLE)


def test_images_are_fitted_from_disk(folder):
    faces = celeba.load(folder, part="all", size=16)
    assert read_image(faces.values["image"], "image").data_ptr() == faces.images.ctypes.data
    scm = bc.SCM(celeba.GRAPH, {"image": bc.ConvVAE(noise=2), "beard": bc.Linear(), "bald": bc.Linear()})
    scm.fit(
        {name: np.concatenate([column] * 8) for name, column in faces.values.items()}, training=bc.Training(epochs=1)
    )
    assert scm.sample(3, seed=0).values["image"].shape == (3, 3, 16, 16)
