"""From a folder of labelled faces to a model, through the installed program."""

import json

import numpy as np
import pytest
import torch
from labelled_faces import write_celeba
from program import complaints

import deepbc as bc
from deepbc.datasets import celeba, faces
from deepbc.recipes.classifiers import Classifiers

ROWS = 500
QUICK = ["--size", "32", "--epochs", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Drawn faces in the official layout."""
    home = tmp_path_factory.mktemp("data") / "celeba"
    write_celeba(home, ROWS)
    return home


@pytest.fixture(scope="module")
def made(folder, command, tmp_path_factory):
    """A model, and what was said of it."""
    out = tmp_path_factory.mktemp("made")
    done = command("fit-celeba", folder, "--out", out, *QUICK)
    assert done.returncode == 0, done.stderr
    return out, done


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """A cache of its own, before the program starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def test_what_is_said(made):
    out, done = made
    assert complaints(done.stderr) == []
    for part in ("age", "gender", "beard", "bald", "image", "balanced", "held-out nll", str(out / "model")):
        assert part in done.stdout
    # The state that a killed run would need is gone.
    assert sorted(path.name for path in out.iterdir()) == ["classifiers", "model"]


def test_model_and_classifiers_answer_questions(made, folder):
    out, _ = made
    scm, classifiers = bc.SCM.load(out / "model"), Classifiers.load(out / "classifiers")
    few = celeba.load(folder, size=32, rows=4).images
    values = {**classifiers.read(few), "image": few}
    cf = bc.backtrack(scm, values, {"beard": 1.0})
    assert (cf.status == "converged").all()
    assert cf.values["image"].shape == (4, 3, 32, 32)
    # The labels mean what the attributes are called.
    rows = faces.sample(ROWS, seed=0, size=32).values
    read = classifiers.read(rows["image"])
    assert all(np.corrcoef(read[name], rows[name])[0, 1] > 0.3 for name in ("age", "gender", "beard"))


def test_options_and_json(folder, command, tmp_path):
    words = ["fit-celeba", folder, "--out", tmp_path / "out", *QUICK, "--rows", "300", "--graph", "wrong", "--json"]
    done = command(*words, "--checkpoint", tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told["classifiers"]) == {"age", "gender", "beard", "bald"}
    assert told["classifiers"]["age"]["rows"] == 30
    assert [each["variable"] for each in told["report"]] == ["gender", "bald", "age", "beard", "image"]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["classifiers", "model"]
    before = bc.SCM.load(tmp_path / "out" / "model")

    # Again, from what was kept: the same model, without another epoch.
    again = command(*words, "--checkpoint", tmp_path / "kept")
    assert json.loads(again.stdout)["classifiers"] == told["classifiers"]
    after = bc.SCM.load(tmp_path / "out" / "model")
    assert torch.equal(before.sample(3, seed=0).values["image"], after.sample(3, seed=0).values["image"])
    other = command(*words, "--checkpoint", tmp_path / "kept", "--seed", "1")
    assert other.returncode == 2
    assert "another fit" in other.stderr


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--graph", "right"], "'paper' or 'wrong' or 'full'"),
        (["--preset", "ours"], "'default' or 'paper'"),
        (["--preset", "paper", "--size", "32"], "64 x 64 or 128 x 128"),
        (["--rows", "9999"], "rows"),
        (["--rows", "12"], "at least 10 rows of each label"),
    ],
)
def test_bad_words_are_one_line_and_exit_with_2(words, part, folder, command, tmp_path):
    done = command("fit-celeba", folder, "--out", tmp_path / "out", "--size", "32", *words)
    assert done.returncode == 2
    assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_what_is_wrong_is_said_before_pictures_are_decoded(folder, command, tmp_path):
    table = (folder / "list_attr_celeba.txt").read_text().splitlines()
    (tmp_path / "one").mkdir()
    nobody = [" ".join([*line.split()[:-1], "-1"]) for line in table[2:]]
    (tmp_path / "one" / "list_attr_celeba.txt").write_text("\n".join([*table[:2], *nobody]))
    # Not one picture is there.
    done = command("fit-celeba", tmp_path / "one", "--out", tmp_path / "out", "--size", "32")
    assert done.returncode == 2
    assert "labels, 'bald': expected at least 10 rows of each label, got 400 of 0 and 0 of 1" in done.stderr
    done = command("fit-celeba", tmp_path / "one", "--out", tmp_path / "out", "--size", "32", "--preset", "paper")
    assert "--size" in done.stderr


def test_folders_of_others_stay(folder, command, tmp_path):
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "thesis.tex").write_text("x")
    done = command("fit-celeba", folder, "--out", tmp_path, "--size", "16", "--epochs", "1", "--rows", "200")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "checkpoint").iterdir()] == ["thesis.tex"]


def test_missing_folders_and_taken_places_are_told(folder, command, tmp_path):
    gone = command("fit-celeba", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert gone.returncode == 2
    assert "list_attr_celeba.txt" in gone.stderr
    (tmp_path / "out" / "model").mkdir(parents=True)
    (tmp_path / "out" / "model" / "thesis.tex").write_text("x")
    taken = command("fit-celeba", folder, "--out", tmp_path / "out")
    assert taken.returncode == 2
    assert "thesis.tex" not in taken.stderr
    assert "Choose another name" in taken.stderr
