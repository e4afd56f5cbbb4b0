"""Classifiers on drawn faces, whose attributes and whose chances of a label are known."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import deepbc as bc
from deepbc.datasets import faces
from deepbc.recipes.classifiers import KIND, TRAINING, Classifiers, _platt, train_classifiers
from deepbc.storage import read_folder, write_folder
from deepbc.training.trainer import Trainer

SHORT = replace(TRAINING, epochs=10)
# Attribute, and the place of the label's threshold; the log-odds of a label are four times the distance to it.
THRESHOLDS = {"age": 0.8, "gender": 0.2}


def labelled(values, seed):
    drawn = faces.labels(values, seed=seed)
    return {"age": 1 - drawn["Young"], "gender": drawn["Male"]}


@pytest.fixture(scope="module")
def train():
    return faces.sample(2000, seed=0, size=32).values


@pytest.fixture(scope="module")
def test():
    return faces.sample(800, seed=1, size=32).values


@pytest.fixture(scope="module")
def made(train):
    return train_classifiers(train["image"], labelled(train, 0), training=SHORT, seed=0)


@pytest.mark.parametrize("name", THRESHOLDS)
def test_what_is_read_goes_with_the_true_attribute(made, test, name):
    read = made.read(test["image"])[name]
    assert read.dtype == torch.float64
    assert read.shape == (800,)
    assert np.corrcoef(read, test[name])[0, 1] > 0.7
    # Standardised on the rows of the training, which these are like.
    assert abs(read.mean()) < 0.15
    assert abs(read.std() - 1) < 0.15


@pytest.mark.parametrize("name", THRESHOLDS)
def test_accuracy_is_near_that_of_the_true_chances(made, test, name):
    labels = labelled(test, 1)[name] == 1
    right = ((made.probabilities(test["image"])[name] > 0.5) == labels).double().mean()
    best = ((test[name] > THRESHOLDS[name]) == labels).double().mean()
    assert right > best - 0.08
    told = made.accuracy[name]
    assert told.rows == 200
    assert abs(told.share - labelled(test, 1)[name].double().mean()) < 0.05
    assert abs(told.accuracy - right) < 0.07
    assert told.balanced > 0.7


@pytest.mark.parametrize("name", THRESHOLDS)
def test_probabilities_are_frequencies(made, test, name):
    chance, y = made.probabilities(test["image"])[name], labelled(test, 1)[name].double()
    for part in chance.argsort().tensor_split(4):
        error = (y[part].var() / len(part)).sqrt()
        assert abs(chance[part].mean() - y[part].mean()) < 0.08 + 2 * error
    # Beyond chance, in nats: less than saying how frequent the label is.
    log_loss = torch.nn.functional.binary_cross_entropy(chance, y)
    constant = torch.nn.functional.binary_cross_entropy(y.mean().expand_as(y), y)
    assert log_loss < 0.75 * constant


def test_rare_labels_weigh_as_much_and_stay_rare(made):
    weights = made.classifiers["age"].weights
    share = 0.23
    assert weights[1] / weights[0] == pytest.approx((1 - share) / share, rel=0.15)
    assert made.classifiers["age"].odds == pytest.approx(np.log(share / (1 - share)), abs=0.15)


def test_calibration_finds_the_slope_and_shift_of_known_odds():
    draw = np.random.default_rng(0)
    true = draw.normal(0, 2, 20_000)
    y = torch.tensor((draw.uniform(size=20_000) < 1 / (1 + np.exp(-true))).astype(float))
    slope, shift = _platt(torch.tensor(4 * (true - 1)), y).tolist()
    assert slope == pytest.approx(0.25, rel=0.05)
    assert shift == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("sign", [1, -1])
def test_calibration_stays_finite_and_never_turns_around(sign):
    logits = torch.linspace(-3, 3, 40, dtype=torch.float64)
    slope, shift = _platt(sign * logits, (logits > 0).double()).tolist()
    assert 0 < slope < 100
    assert abs(shift) < 10


def test_reading_can_be_differentiated(made, test):
    few = test["image"][:3].double().requires_grad_()
    read = made.read(few)["age"].sum()
    (slope,) = torch.autograd.grad(read, few)
    assert slope.shape == few.shape
    brighter = copy.deepcopy(made.classifiers["age"]).double()
    step = 1e-4 * slope / slope.norm()
    rise = (brighter((few + step).flatten(1)) - brighter((few - step).flatten(1))).sum()
    assert rise.item() == pytest.approx(2e-4 * slope.norm().item(), rel=1e-2)


def test_images_may_be_bytes_floats_or_one(made, test, tmp_path):
    few = test["image"][:5]
    expected = made.read(few)["gender"]
    np.save(tmp_path / "images.npy", few.numpy())
    for images in (few.numpy(), np.load(tmp_path / "images.npy", mmap_mode="r"), few.float(), few.double().tolist()):
        assert torch.equal(made.read(images)["gender"], expected)
    assert made.read(few[0])["gender"].item() == pytest.approx(expected[0].item(), abs=1e-4)
    assert made.read(few.reshape(5, 1, 3, 32, 32))["gender"].shape == (5, 1)


def test_a_classifier_is_a_predictor_of_an_image(made, test):
    # image -> gender: what would have to differ for the classifier to say something else?
    graph = bc.CausalGraph.parse("image -> gender")
    scm = bc.SCM(graph, {"image": bc.ConvVAE(noise=8, width=8), "gender": bc.Predictor(made.classifiers["gender"])})
    scm.fit({"image": test["image"][:200]}, seed=0, training=bc.Training(epochs=3, batch=32, pull=0.0))
    few = {"image": test["image"][:2]}
    before = scm.complete(values=few).values["gender"]
    assert torch.allclose(before, made.read(test["image"][:2])["gender"], atol=1e-3)
    cf = bc.backtrack(scm, few, {"gender": scm.predict(scm.abduct(few))["gender"] + 0.1})
    # Its ReLUs make corners, on which a solver may not be sure that it stands; but it is where it was asked to be.
    assert cf.error.max() < 1e-4
    assert (cf.distance > 0).all()


def test_saved_classifiers_read_the_same(made, test, tmp_path):
    made.save(tmp_path / "made")
    made.save(tmp_path / "made")
    again = Classifiers.load(tmp_path / "made")
    assert again.accuracy == made.accuracy
    assert all(torch.equal(each, again.read(test["image"])[name]) for name, each in made.read(test["image"]).items())
    assert repr(again) == repr(made)
    assert "age: " in repr(made)


def test_other_folders_are_refused(made, tmp_path):
    made.save(tmp_path / "made")
    content, tensors = read_folder(tmp_path / "made", KIND)
    for wrong in ({**content, "shape": [3]}, {"shape": [3, 32, 32]}, {**content, "accuracy": {"age": {"rows": 1}}}):
        write_folder(tmp_path / "made", KIND, wrong, tensors)
        with pytest.raises(bc.StorageError, match="Save it again"):
            Classifiers.load(tmp_path / "made")
    write_folder(tmp_path / "made", KIND, json.loads(json.dumps(content)), {})
    with pytest.raises(bc.StorageError, match="Save it again"):
        Classifiers.load(tmp_path / "made")


def test_a_killed_training_goes_on(train, tmp_path):
    few, labels = train["image"][:200], {name: each[:200] for name, each in labelled(train, 0).items()}
    short = replace(TRAINING, epochs=2)

    class KilledError(Exception):
        pass

    def kill(loop, adam, run, best, stage, save=Trainer._save):
        save(loop, adam, run, best, stage)
        if loop.name == "gender":
            raise KilledError

    whole = train_classifiers(few, labels, training=short, seed=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepbc.training.trainer.SECONDS_BETWEEN_SAVES", 0.0)
        patch.setattr("deepbc.training.trainer.Trainer._save", kill)
        with pytest.raises(KilledError):
            train_classifiers(few, labels, training=short, seed=3, checkpoint=tmp_path / "kept")
    again = train_classifiers(few, labels, training=short, seed=3, checkpoint=tmp_path / "kept")
    assert all(torch.equal(each, again.read(few)[name]) for name, each in whole.read(few).items())
    assert again.accuracy == whole.accuracy
    with pytest.raises(bc.FitError, match="another fit"):
        train_classifiers(few, labels, training=short, seed=4, checkpoint=tmp_path / "kept")


def test_training_leaves_the_random_numbers_of_torch_alone(train):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train_classifiers(
        train["image"][:60, :, ::2, ::2], {"y": torch.arange(60) % 2}, training=replace(TRAINING, epochs=1)
    )
    assert torch.equal(torch.rand(3), expected)


IMAGES, LABELS = torch.zeros(40, 3, 16, 16, dtype=torch.uint8), {"y": torch.arange(40) % 2}


@pytest.mark.parametrize(
    ("images", "labels", "error", "part"),
    [
        (IMAGES, {}, bc.SettingError, "mapping from attributes"),
        (IMAGES, [0, 1], bc.SettingError, "mapping from attributes"),
        (IMAGES, {"y": torch.arange(40)}, bc.DataError, "from 0 to 1"),
        (IMAGES, {"y": torch.full((40,), 0.5)}, bc.DataError, "whole numbers"),
        (IMAGES, {"y": torch.arange(40) < 3}, bc.DataError, "37 of 0 and 3 of 1"),
        (IMAGES, {"y": torch.arange(50) % 2}, bc.DataError, "one length"),
        (IMAGES[:, 0], LABELS, bc.DataError, "(channel, height, width)"),
        (IMAGES[..., :8], LABELS, bc.DataError, "at least 16 pixels"),
        (torch.full((40, 3, 16, 16), torch.nan), LABELS, bc.DataError, "missing value"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(images, labels, error, part):
    with pytest.raises(error) as caught:
        train_classifiers(images, labels)
    assert part in str(caught.value)


def test_images_of_another_size_are_not_read(made):
    with pytest.raises(bc.DataError, match="3, 32, 32"):
        made.read(torch.zeros(2, 3, 64, 64))
