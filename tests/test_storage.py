import json
import math
import os
import shutil
import subprocess
import sys

import pytest
import torch
from laws import identity
from safetensors.torch import load_file, save_file

import deepbc as bc
from deepbc.recipes import morphomnist
from deepbc.storage import MANIFEST, WEIGHTS, _canonical, _checksum, write_folder

GRAPH = bc.CausalGraph.parse("thickness -> p44/42.x; thickness -> pair; pair, thickness -> score")


@bc.law("tests.score")
def score(parents):
    return parents["pair"].sum(-1, keepdim=True) * parents["thickness"]


@pytest.fixture(scope="module")
def fitted():
    """A model with every way of having weights: flow, linear, additive vector, given laws, a module."""
    data = morphomnist.truth().sample(200, seed=0).values
    pair = torch.stack([data["thickness"], data["intensity"]], dim=-1)
    mechanisms = {"pair": bc.Additive(hidden=[4]), "p44/42.x": bc.Flow(), "score": bc.Predictor(score)}
    scm = bc.SCM(GRAPH, mechanisms, bounds={"p44/42.x": (64, None), "pair": (0, 300)})
    scm.fit(
        {"thickness": data["thickness"], "p44/42.x": data["intensity"], "pair": pair}, training=bc.Training(epochs=3)
    )
    return scm


def rewrite(folder, change):
    """Changes the content of a manifest and mends its checksum, as someone who means harm would."""
    manifest = json.loads((folder / MANIFEST).read_text())
    change(manifest["content"])
    manifest["checksums"]["content"] = _checksum(_canonical(manifest["content"]))
    (folder / MANIFEST).write_text(json.dumps(manifest))


def reweigh(folder, key, value):
    """Fills one tensor of the weights with a value and mends the checksum."""
    tensors = load_file(folder / WEIGHTS)
    tensors[key].fill_(value)
    save_file(tensors, folder / WEIGHTS)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["checksums"][WEIGHTS] = _checksum((folder / WEIGHTS).read_bytes())
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_loaded_model_answers_as_the_saved_one(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = bc.SCM.load(str(tmp_path / "model"))
    world = fitted.sample(30, seed=0)
    assert loaded.graph == fitted.graph
    assert loaded.variables == fitted.variables
    assert loaded.bounds == {"p44/42.x": (64.0, math.inf), "pair": (0.0, 300.0)}
    assert torch.equal(loaded.log_prob(world.values), fitted.log_prob(world.values))
    assert torch.equal(loaded.sample(30, seed=0).values["score"], world.values["score"])
    assert sorted(os.listdir(tmp_path / "model")) == [MANIFEST, WEIGHTS]
    assert os.listdir(tmp_path) == ["model"]


def test_loaded_model_can_be_fitted_again(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = bc.SCM.load(tmp_path / "model")
    data = fitted.sample(100, seed=1).values
    report = loaded.fit(data, only=["thickness"], training=bc.Training(epochs=2))
    assert [each.name for each in report] == ["thickness"]


def test_model_loads_in_another_process(fitted, tmp_path):
    morphomnist.truth().save(tmp_path / "model")
    program = "import deepbc as bc, sys; print(bc.SCM.load(sys.argv[1]).sample(1, seed=0).values['intensity'].item())"
    call = [sys.executable, "-c", "import deepbc.recipes;" + program, str(tmp_path / "model")]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert float(done.stdout) == morphomnist.truth().sample(1, seed=0).values["intensity"].item()


def test_saving_replaces_an_older_model_whole(fitted, tmp_path):
    morphomnist.truth().save(tmp_path / "model")
    fitted.save(tmp_path / "model")
    assert bc.SCM.load(tmp_path / "model").graph == GRAPH
    assert os.listdir(tmp_path) == ["model"]


def test_saving_never_replaces_something_else(fitted, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("all I have")
    with pytest.raises(bc.StorageError, match="got something else"):
        fitted.save(tmp_path / "thesis")
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "manifest.json").write_text('{"name": "a web page"}')
    write_folder(tmp_path / "fit", "checkpoint", {}, {})
    for name in ("web", "fit"):
        with pytest.raises(bc.StorageError, match="got something else"):
            fitted.save(tmp_path / name)
    fitted.save(tmp_path / "mine")
    (tmp_path / "mine" / "notes.txt").write_text("added by hand")
    with pytest.raises(bc.StorageError, match="got something else"):
        fitted.save(tmp_path / "mine")
    (tmp_path / "file").write_text("x")
    with pytest.raises(bc.StorageError, match="got something else"):
        fitted.save(tmp_path / "file")
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "all I have"


def test_saving_fills_an_empty_folder(fitted, tmp_path):
    (tmp_path / "model").mkdir()
    fitted.save(tmp_path / "model")
    assert bc.SCM.load(tmp_path / "model").graph == GRAPH
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("folder", ["/", "y" * 300, "a\0b", 3])
def test_path_that_cannot_be_is_refused(fitted, folder):
    for call in (fitted.save, bc.SCM.load):
        with pytest.raises(bc.StorageError):
            call(folder)


def test_a_save_that_fails_leaves_the_old_model(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "model")

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("deepbc.storage.os.fsync", full)
    with pytest.raises(bc.StorageError, match="No space left on device"):
        morphomnist.truth().save(tmp_path / "model")
    assert bc.SCM.load(tmp_path / "model").graph == GRAPH
    assert os.listdir(tmp_path) == ["model"]


def test_law_without_a_name_cannot_be_saved(tmp_path):
    scm = bc.SCM(bc.CausalGraph({"a": []}), {"a": identity()})
    with pytest.raises(
        bc.StorageError, match=r"'a': the law 'identity.<locals>.<lambda>' cannot be saved.*@deepbc.law"
    ):
        scm.save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_module_behind_a_predictor_keeps_its_weights(tmp_path):
    net = bc.law("tests.net")(torch.nn.Linear(1, 1))
    laws = {"thickness": morphomnist.truth().mechanisms["thickness"], "score": bc.Predictor(net)}
    scm = bc.SCM(bc.CausalGraph.parse("thickness -> score"), laws)
    expected = scm.predict({"thickness": 0.3})["score"]
    scm.save(tmp_path / "model")
    with torch.no_grad():
        net.weight.add_(1.0)
    loaded = bc.SCM.load(tmp_path / "model")
    assert loaded.predict({"thickness": 0.3})["score"] == expected


def test_module_with_tied_weights_and_a_mask_is_saved(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    net[1].weight = net[0].weight
    net.register_buffer("mask", torch.tensor([-math.inf]))
    laws = {"thickness": morphomnist.truth().mechanisms["thickness"], "score": bc.Predictor(bc.law("tests.tied")(net))}
    scm = bc.SCM(bc.CausalGraph.parse("thickness -> score"), laws)
    scm.save(tmp_path / "model")
    loaded = bc.SCM.load(tmp_path / "model")
    assert loaded.predict({"thickness": 0.3})["score"] == scm.predict({"thickness": 0.3})["score"]


def test_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(bc.NotFittedError):
        bc.SCM(bc.CausalGraph({"a": []})).save(tmp_path / "model")


@pytest.mark.parametrize(
    ("harm", "part"),
    [
        (lambda f: shutil.rmtree(f), "no such folder"),
        (lambda f: (f / MANIFEST).unlink(), "holds no manifest.json, so it is no model of ours"),
        (lambda f: (shutil.rmtree(f), f.write_text("x")), "is a file, not a folder"),
        (lambda f: (f / WEIGHTS).unlink(), "cannot be read"),
        (lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-9]), "does not match its checksum"),
        (lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text()[:90]), "is not JSON"),
        (lambda f: (f / MANIFEST).write_text("[1, 2]"), "not a deepbc manifest"),
        (lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text().replace("300.0", "301.0")), "checksum"),
        (
            lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text().replace('"format": 2', '"format": 3')),
            "Update deepbc",
        ),
        *(
            (
                lambda f, came=came: (f / MANIFEST).write_text(
                    (f / MANIFEST).read_text().replace('"format": 2', f'"format": {came}')
                ),
                "this deepbc reads 2",
            )
            for came in ("-3", "true", "1", "2.0")
        ),
        (lambda f: (f / MANIFEST).write_text("[" * 100_000), "is not JSON"),
        (lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text().replace("pair", r"\ud800")), "is not JSON"),
        (lambda f: reweigh(f, "thickness/outer.scaling.scale", math.nan), "'outer.scaling.scale' of 'thickness'"),
        (
            lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text().replace('"model"', '"recipe"')),
            "expected a model",
        ),
        (
            lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text().replace(WEIGHTS, "../../etc/passwd")),
            "no other file",
        ),
        (
            lambda f: rewrite(f, lambda c: c["mechanisms"]["score"].update(kind="os.system")),
            "unknown mechanism 'os.system'",
        ),
        (
            lambda f: rewrite(f, lambda c: c["mechanisms"]["score"]["settings"].update(function={"law": "os:system"})),
            "does not define",
        ),
        (
            lambda f: rewrite(f, lambda c: c["mechanisms"]["thickness"]["settings"].update(points=-3)),
            "GaussianProcess points",
        ),
        (
            lambda f: rewrite(f, lambda c: c["mechanisms"]["p44/42.x"]["settings"].update(bins=9)),
            "the weights are not those",
        ),
        (lambda f: rewrite(f, lambda c: c["mechanisms"]["thickness"]["settings"].update(evil=1)), "evil"),
        (lambda f: rewrite(f, lambda c: c["mechanisms"].pop("score")), "nothing is said of the variable 'score'"),
        (lambda f: rewrite(f, lambda c: c["variables"].pop("score")), "nothing is said of the variable 'score'"),
        (lambda f: rewrite(f, lambda c: c["graph"]["thickness"].append("score")), "cycle"),
        (lambda f: rewrite(f, lambda c: c["graph"].clear()), "graph"),
        (lambda f: rewrite(f, lambda c: c.update(extra=1)), "extra"),
        (lambda f: rewrite(f, lambda c: c["variables"]["pair"].update(shape="x")), "variables.pair.shape"),
        (lambda f: rewrite(f, lambda c: c["variables"]["pair"].update(lower=1e9)), "lower < upper"),
        (lambda f: rewrite(f, lambda c: c["variables"]["pair"].update(shape=[-2])), "variables.pair.shape"),
        (lambda f: rewrite(f, lambda c: c["variables"]["pair"].update(sd=[1.0])), "standard deviations"),
        (lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text().replace("300.0", "NaN")), "is not a number"),
    ],
)
def test_damaged_or_foreign_folder_is_refused(fitted, tmp_path, harm, part):
    folder = tmp_path / "model"
    fitted.save(folder)
    harm(folder)
    with pytest.raises(bc.StorageError) as caught:
        bc.SCM.load(folder)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_link_out_of_the_folder_is_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    (tmp_path / "model" / WEIGHTS).rename(tmp_path / "elsewhere")
    (tmp_path / "model" / WEIGHTS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(bc.StorageError, match="is a link"):
        bc.SCM.load(tmp_path / "model")


def test_replacement_killed_half_way_is_put_back(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    (tmp_path / "model").rename(tmp_path / f".model.{'0' * 32}.old")
    assert bc.SCM.load(tmp_path / "model").graph == GRAPH
    fitted.save(tmp_path / "model")
    assert os.listdir(tmp_path) == ["model"]


def test_link_to_a_folder_is_followed(fitted, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "model")
    fitted.save(tmp_path / "link")
    fitted.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert bc.SCM.load(tmp_path / "link").graph == bc.SCM.load(tmp_path / "model").graph


def test_checkpoint_is_not_taken_for_a_model(tmp_path):
    write_folder(tmp_path / "x", "checkpoint", {}, {})
    with pytest.raises(bc.StorageError, match="expected a model, got a 'checkpoint'"):
        bc.SCM.load(tmp_path / "x")
