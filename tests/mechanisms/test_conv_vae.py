"""The law of an image, on bars whose place, length and brightness are known."""

import copy

import numpy as np
import pytest
import torch

import deepbc as bc
from deepbc.datasets import digits
from deepbc.nn.paper import PaperDrawer, PaperReader
from deepbc.training.trainer import Trainer

GRAPH = bc.CausalGraph.parse("light -> image")
SHORT = {"image": bc.Training(epochs=12, batch=64, learning_rate=3e-3, average=30, pull=0.0, clip=1e4)}


def bars(rows: int, shape=(12, 10), seed: int = 0, top: float = 255.0) -> dict[str, torch.Tensor]:
    """Images of one bar, in a column of its own, as bright as `light` says."""
    draw = np.random.default_rng(seed)
    light = draw.uniform(0.3, 1.0, rows)
    place = draw.integers(1, shape[-1] - 2, rows)
    image = np.zeros((rows, *shape))
    for k in range(rows):
        image[k, ..., 2:-2, place[k] : place[k] + 2] = top * light[k]
    return {"light": torch.tensor(light), "image": torch.tensor(image, dtype=torch.float32)}


@pytest.fixture(scope="module")
def data():
    return bars(1500)


@pytest.fixture(scope="module")
def fitted(data):
    scm = bc.SCM(GRAPH, {"light": bc.Linear(), "image": bc.ConvVAE(noise=4, width=16)})
    report = scm.fit(data, seed=0, training=SHORT)
    return scm, report


def with_residual(scm: bc.SCM, data) -> bc.SCM:
    """The same model that keeps what the decoder misses."""
    other = bc.SCM(
        GRAPH, {"light": bc.Linear(), "image": bc.ConvVAE(noise=4, width=16, residual=True)}, bounds={"image": (0, 255)}
    )
    other.fit(data, seed=0, training=SHORT)
    return other


def test_reconstructions_are_near_and_obey_new_parents(fitted):
    scm, report = fitted
    test = bars(200, seed=1)
    again = scm.predict(scm.abduct(test))["image"]
    assert (again - test["image"]).abs().mean() < 0.15 * test["image"].mean()

    dark = bc.intervene(scm, test, {"light": 0.4})
    brightest = dark.values["image"].flatten(1).amax(1)
    assert (brightest - 0.4 * 255).abs().mean() < 15
    assert (dark.status == "converged").all()
    notes = " ".join(entry.notes[0] for entry in report if entry.name == "image")
    assert "upper bound" in notes


def read_from_noise(scm: bc.SCM, test: dict[str, torch.Tensor]) -> float:
    """How much of the parents' variance a regression on powers of the noise reads, on rows it did not see."""
    u = scm.abduct(test)["image"].numpy()
    known = np.column_stack([np.ones(len(u)), u, u**2])
    parts = []
    for name in ("thickness", "intensity"):
        value = test[name].numpy()
        weights = np.linalg.lstsq(known[:1000], value[:1000], rcond=None)[0]
        parts.append(1 - np.mean((known[1000:] @ weights - value[1000:]) ** 2) / np.var(value[1000:]))
    return np.mean(parts)


@pytest.mark.slow
def test_the_probe_leaves_less_to_read(monkeypatch):
    graph = bc.CausalGraph.parse("thickness, intensity -> image")
    training = {"image": bc.Training(epochs=8, batch=128, learning_rate=2e-3, average=30, pull=0.0, clip=1e4)}
    train, test = digits.sample(6000, seed=0).values, digits.sample(2000, seed=1).values
    read = {}
    for strength in (0.0, 100.0):
        monkeypatch.setattr("deepbc.mechanisms.conv_vae.APART", strength)
        scm = bc.SCM(graph, {**dict.fromkeys(("thickness", "intensity"), bc.Linear()), "image": bc.ConvVAE(noise=16)})
        scm.fit(train, seed=0, training=training)
        read[strength] = read_from_noise(scm, test)
    assert read[100.0] < 0.7 * read[0.0]


def test_fitted_images_can_be_copied(fitted):
    scm, _ = fitted
    assert copy.deepcopy(scm).sample(2, seed=0).values["image"].shape == (2, 12, 10)


def test_images_are_float32_and_noise_float64(fitted, data):
    scm, _ = fitted
    one = {"light": 0.5, "image": data["image"][0]}
    for values, batch in ((one, ()), ({"light": data["light"][:5], "image": data["image"][:5]}, (5,))):
        u = scm.abduct(values)
        assert u["image"].shape == (*batch, 4)
        assert u["image"].dtype == torch.float64
        x = scm.predict(u)["image"]
        assert x.shape == (*batch, 12, 10)
        assert x.dtype == torch.float32
        assert x.min() >= 0
        assert x.max() <= data["image"].max()


def test_figures_show_images(fitted, tmp_path):
    scm, _ = fitted
    test = bars(6, seed=3)
    pairs = bc.backtrack(scm, test, {"light": 0.5}).plot(tmp_path / "pairs.png").axes[1].images[0].get_array()
    # Four rows of a factual and a counterfactual image, each with a frame of one pixel.
    assert pairs.shape == (4 * 14, 2 * 12, 3)
    low, high = test["image"][:4].min(), test["image"][:4].max()
    assert np.allclose(pairs[1:13, 1:11, 0], (test["image"][0] - low) / (high - low), atol=0.1)
    cf = bc.backtrack_samples(scm, test, {"light": 0.5}, samples=9, seed=0)
    assert cf.plot(tmp_path / "samples.png").axes[1].images[0].get_array().shape == (4 * 14, 6 * 12, 3)


def test_frames_leave_images_out(fitted):
    scm, _ = fitted
    test = bars(3, seed=3)
    frame = bc.backtrack(scm, test, {"light": 0.5}).to_frame()
    assert {"light", "factual light", "moved light", "moved image"} <= set(frame)
    assert not any("[" in name for name in frame)
    assert list(scm.complete(values=test).to_frame()) == ["light"]


def test_an_image_says_it_has_no_exact_density(fitted, data):
    scm, _ = fitted
    assert scm.log_prob(data, of=["light"]).shape == (1500,)
    with pytest.raises(bc.SettingError, match="no exact density"):
        scm.log_prob(data)


def test_residual_returns_the_factual_image(fitted, data):
    plain, _ = fitted
    scm = with_residual(plain, data)
    test = bars(60, seed=2)
    u = scm.abduct(test)
    assert u["image"].shape == (60, 4 + 120)
    assert (scm.predict(u)["image"] - test["image"]).abs().max() < 1e-3
    same = bc.backtrack(scm, test, {"light": test["light"]})
    assert torch.equal(same.values["image"], test["image"])
    # What is kept does not vary in samples of a question, costs nothing and is nothing in new worlds.
    drawn = bc.backtrack_samples(scm, test, {"light": 0.7}, samples=3, seed=0)
    assert torch.equal(drawn.noise["image"][..., 4:], u["image"][:, 4:].expand(3, -1, -1))
    assert (drawn.noise["image"][..., :4] != u["image"][:, :4]).all()
    assert (drawn.farthest < 8).all()
    assert (scm.sample(5, seed=0).noise["image"][:, 4:] == 0).all()
    moved = bc.backtrack(scm, test, {"light": 0.7})
    assert moved.values["image"].max() <= data["image"].max()
    assert (moved.moved["image"] == 0).all()


def test_clipped_pixels_are_counted(fitted, data):
    kept = with_residual(fitted[0], data)
    few = {name: column[:50] for name, column in data.items()}
    assert not bc.intervene(kept, few, {"light": few["light"]}).clipped.any()

    cf = bc.intervene(kept, few, {"light": 1.0 - 0.5 * few["light"]})
    missed = cf.noise["image"][:, 4:]
    bare = {**cf.noise, "image": torch.cat([cf.noise["image"][:, :4], torch.zeros_like(missed)], dim=1)}
    whole = kept.predict(bare)["image"].flatten(1) + missed
    beyond = (whole < -1.0) | (whole > data["image"].max() + 1.0)
    assert cf.clipped.tolist() == beyond.sum(1).tolist()
    assert cf.clipped.any()
    assert not bc.intervene(fitted[0], few, {"light": 1.0}).clipped.any()


def test_residual_is_no_coordinate_upstream(data):
    # image -> mean, a predictor: the noise of the image is sought, what was missed stays.
    graph = bc.CausalGraph.parse("light -> image; image -> mean")
    mean = bc.Predictor(lambda parents: parents["image"].mean(-1, keepdim=True))
    scm = bc.SCM(graph, {"light": bc.Linear(), "image": bc.ConvVAE(noise=4, width=8, residual=True), "mean": mean})
    scm.fit(data, seed=0, training=SHORT)
    middle = ((data["light"] > 0.6) & (data["light"] < 0.8)).nonzero()[:2, 0]
    row = {name: each[middle] for name, each in data.items()}
    before = scm.complete(values=row).values["mean"]
    cf = bc.backtrack(scm, row, {"mean": 0.9 * before})
    assert (cf.noise["image"][:, 4:] == scm.abduct(row)["image"][:, 4:]).all()
    assert (cf.status == "converged").all()
    assert cf.error.max() < 1e-5


@pytest.mark.parametrize("kind", ["bytes", "numbers", "disk"])
def test_bytes_floats_and_files_fit_alike(data, kind, tmp_path):
    whole = data["image"].round().to(torch.uint8).numpy()
    if kind == "disk":
        np.save(tmp_path / "image.npy", whole)
        whole = np.load(tmp_path / "image.npy", mmap_mode="r")
    images = {"bytes": whole, "numbers": whole.astype(np.float64), "disk": whole}[kind]
    scm = bc.SCM(GRAPH, {"light": bc.Linear(), "image": bc.ConvVAE(noise=2, width=8)}, bounds={"image": (0, 255)})
    one = bc.Training(epochs=1, batch=256, pull=0.0)
    report = scm.fit({"light": data["light"], "image": images}, seed=0, training=one)
    other = bc.SCM(GRAPH, {"light": bc.Linear(), "image": bc.ConvVAE(noise=2, width=8)}, bounds={"image": (0, 255)})
    expected = other.fit({"light": data["light"], "image": data["image"].round()}, seed=0, training=one)
    assert report["image"].nll == pytest.approx(expected["image"].nll, rel=1e-5)


def test_a_killed_fit_goes_on(data, tmp_path):
    def fit(epochs: int, folder) -> bc.SCM:
        scm = bc.SCM(GRAPH, {"light": bc.Linear(), "image": bc.ConvVAE(noise=2, width=8)})
        training = {"image": bc.Training(epochs=epochs, batch=256, pull=0.0)}
        scm.fit(data, seed=0, training=training, checkpoint=folder)
        return scm

    class KilledError(Exception):
        pass

    whole = fit(3, None).mechanisms["image"].state_dict()
    seen = []

    def kill(loop, adam, run, best, stage, save=Trainer._save):
        save(loop, adam, run, best, stage)
        seen.append(stage)
        if stage == "autoencoder" and len(seen) > 1:
            raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepbc.training.trainer.SECONDS_BETWEEN_SAVES", 0.0)
        patch.setattr("deepbc.training.trainer.Trainer._save", kill)
        with pytest.raises(KilledError):
            fit(3, tmp_path / "kept")
    again = fit(3, tmp_path / "kept").mechanisms["image"].state_dict()
    assert all(torch.equal(whole[key], again[key]) for key in whole)


def test_saved_models_predict_the_same(fitted, data, tmp_path):
    scm, _ = fitted
    scm.save(tmp_path / "model")
    u = scm.sample(4, seed=0).noise
    assert torch.equal(bc.SCM.load(tmp_path / "model").predict(u)["image"], scm.predict(u)["image"])
    single = scm.to(dtype=torch.float32)
    assert torch.allclose(single.predict(u)["image"], scm.predict(u)["image"], atol=0.5)


@pytest.mark.parametrize("shape", [(5, 7), (28, 28), (3, 9, 8), (9, 8, 3), (40, 33)])
def test_images_of_any_size_and_channels(shape):
    grey = bars(80, (shape[0], shape[1]) if shape[-1] == 3 else shape[-2:], top=1.0)["image"]
    image = grey.unsqueeze(-1).expand(-1, *shape) if shape[-1] == 3 else grey
    image = grey.unsqueeze(1).expand(-1, *shape) if shape[0] == 3 else image
    scm = bc.SCM(bc.CausalGraph({"image": []}), {"image": bc.ConvVAE(noise=3, width=8)})
    scm.fit({"image": image}, seed=0, training=bc.Training(epochs=1, batch=32, pull=0.0))
    assert scm.predict(scm.abduct({"image": image}))["image"].shape == image.shape


def test_the_papers_networks_have_the_papers_sizes():
    reader, drawer = PaperReader(2, 64), PaperDrawer(2, 32)
    sizes, features = [], torch.zeros(1, 1, 28, 28)
    for layer in reader.layers:
        features = layer(features)
        sizes.append(tuple(features.shape[1:]))
    assert sizes == [(8, 14, 14), (16, 7, 7), (32, 3, 3), (64, 1, 1)]
    assert drawer(torch.zeros(1, 32), torch.zeros(1, 2)).shape == (1, 1, 28, 28)
    assert [layer.out_channels for layer in drawer.layers] == [64, 32, 16, 1]

    data = bars(64, (28, 28), top=1.0)
    scm = bc.SCM(GRAPH, {"light": bc.Linear(), "image": bc.ConvVAE(preset="paper")})
    scm.fit(data, seed=0, training=bc.Training(epochs=1, batch=32, pull=0.0))
    assert scm.abduct(data)["image"].shape == (64, 32)


def test_fits_leave_the_random_numbers_of_torch_alone(data):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    few = {name: each[:100] for name, each in data.items()}
    bc.SCM(GRAPH, {"light": bc.Linear(), "image": bc.ConvVAE(noise=2, width=8)}).fit(
        few, training=bc.Training(epochs=1, pull=0.0)
    )
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda: bc.ConvVAE(noise=0), bc.SettingError, "noise"),
        (lambda: bc.ConvVAE(preset="papers"), bc.SettingError, "'default' or 'paper'"),
        (lambda: bc.ConvVAE(beta=-1.0), bc.SettingError, "beta"),
        (lambda: bc.ConvVAE(residual=1), bc.SettingError, "residual"),
        (lambda: fit(bc.ConvVAE(), torch.rand(50, 7)), bc.DataError, "(height, width)"),
        (lambda: fit(bc.ConvVAE(), torch.rand(50, 5, 9, 9)), bc.DataError, "1, 3 or 4 channels"),
        (lambda: fit(bc.ConvVAE(preset="paper"), torch.rand(50, 9, 9)), bc.DataError, "28 x 28"),
        (lambda: fit(bc.ConvVAE(), torch.zeros(50, 9, 9)), bc.DataError, "every row has the value 0"),
        (lambda: fit(bc.ConvVAE(), torch.full((50, 9, 9), torch.nan)), bc.DataError, "missing value"),
    ],
)
def test_what_cannot_be_is_refused(call, error, part):
    with pytest.raises(error) as caught:
        call()
    assert part in str(caught.value)


def fit(mechanism, images):
    bc.SCM(GRAPH, {"light": bc.Linear(), "image": mechanism}).fit(
        {"light": torch.rand(len(images)), "image": images}, seed=0
    )
