import gzip

import numpy as np
import pytest
import torch
from scipy import stats

from deepbc.datasets.download import Source
from deepbc.datasets.idx import write_idx
from deepbc.datasets.morphomnist import abduct_thickness, build, load, predict_thickness
from deepbc.errors import DataError, SettingError, StorageError
from deepbc.recipes import morphomnist

IMAGES, LABELS, TABLE = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "t10k-morpho.csv"


@pytest.fixture
def strokes():
    """Six upright bars as plain images, two of them alike, and their labels."""
    images = np.zeros((6, 28, 28), np.uint8)
    for k, width in enumerate((2, 3, 4, 5, 6, 2)):
        images[k, 4:24, 8 : 8 + width] = 255
    return images, np.arange(6)


@pytest.fixture
def folder(strokes, tmp_path):
    """A folder with a set of six digits as its test split."""
    build(*strokes, seed=0).save(tmp_path / "set", "test")
    return tmp_path / "set"


def test_thickness_is_the_gamma_quantile_of_its_noise_far_out():
    u = np.linspace(-10, 10, 401)
    gamma = stats.gamma(10, loc=0.5, scale=0.2)
    expected = np.where(u < 0, gamma.ppf(stats.norm.cdf(u)), gamma.isf(stats.norm.sf(u)))
    t = predict_thickness(torch.tensor(u)[:, None], {})[:, 0]
    assert np.allclose(t, expected, rtol=1e-11, atol=0)
    assert np.allclose(abduct_thickness(t[:, None], {})[:, 0], u, rtol=0, atol=1e-10)


def test_derivatives_of_the_quantile_pass_gradcheck():
    u = torch.linspace(-4, 4, 9, dtype=torch.float64)[:, None].requires_grad_()
    t = predict_thickness(u, {}).detach().requires_grad_()
    for function, point in ((predict_thickness, u), (abduct_thickness, t)):
        assert torch.autograd.gradcheck(lambda x, f=function: f(x, {}), point)
        assert torch.autograd.gradgradcheck(lambda x, f=function: f(x, {}), point)


def test_thickness_below_the_support_has_no_noise():
    assert abduct_thickness(torch.tensor([[0.4]], dtype=torch.float64), {}).isnan().all()


def test_real_rows_follow_the_equations(morphomnist_tables):
    _, test = morphomnist_tables
    scm = morphomnist.truth()
    for name, nll in (("thickness", 0.9268), ("intensity", 4.1955)):
        assert -scm.log_prob(test, of=[name]).mean().item() == pytest.approx(nll, abs=1e-4)
    for noise in scm.abduct(test).values():
        assert stats.kstest(noise.numpy(), "norm").pvalue > 0.1


def test_published_splits_have_their_rows(data_folder, morphomnist_tables):
    for split, table in zip(("train", "test"), morphomnist_tables, strict=True):
        loaded = load(split)
        assert loaded.values["image"].shape == (len(table), 28, 28)
        assert loaded.values["image"].dtype == torch.uint8
        assert loaded.labels.shape == (len(table),)
        assert loaded.labels.unique().tolist() == list(range(10))
        for name in ("thickness", "intensity"):
            assert np.allclose(loaded.values[name], table[name], rtol=1e-15)


def test_saved_set_comes_back(strokes, folder):
    built, loaded = build(*strokes, seed=0), load("test", folder=folder)
    assert loaded.labels.tolist() == list(range(6))
    for name, value in built.values.items():
        assert torch.equal(loaded.values[name], value)
    assert sorted(path.name for path in folder.iterdir()) == sorted([IMAGES, LABELS, TABLE])
    assert (folder / TABLE).read_text().startswith("index,thickness,intensity\n0,")


def test_saving_overwrites_nothing(strokes, folder):
    with pytest.raises(StorageError, match=f"got {IMAGES}, {LABELS}, {TABLE}. Choose another folder"):
        build(*strokes, seed=1).save(folder, "test")
    build(*strokes, seed=1).save(folder, "train")
    assert len(list(folder.iterdir())) == 6


def test_built_row_depends_on_its_own_image(strokes):
    images, labels = strokes
    whole, some = build(images, labels, seed=3), build(images[[4, 1]], labels[[4, 1]], seed=3)
    for name, value in whole.values.items():
        assert torch.equal(value[[4, 1]], some.values[name])
    assert whole.values["thickness"].unique().numel() == 6
    assert not torch.equal(build(images, labels, seed=4).values["thickness"], whole.values["thickness"])


def test_built_rows_follow_the_equations(strokes, monkeypatch):
    monkeypatch.setattr("deepbc.datasets.morphomnist.redraw", lambda images, *wanted, show: torch.from_numpy(images))
    built = build(np.concatenate([strokes[0]] * 500), np.zeros(3000), seed=0)
    noise = morphomnist.truth().abduct({name: built.values[name] for name in ("thickness", "intensity")})
    assert all(stats.kstest(each.numpy(), "norm").pvalue > 0.05 for each in noise.values())
    assert abs(np.corrcoef(noise["thickness"], noise["intensity"])[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        (IMAGES, lambda path: path.unlink(), r"cannot be read \(No such file"),
        (LABELS, lambda path: path.unlink(), r"cannot be read \(No such file"),
        (TABLE, lambda path: path.unlink(), r"cannot be read \(No such file"),
        (IMAGES, lambda path: path.write_bytes(path.read_bytes()[:-20]), "expected a whole gzip file"),
        (IMAGES, lambda path: path.write_bytes(gzip.compress(b"PNG")), "expected an idx file"),
        (
            IMAGES,
            lambda path: write_idx(path, np.zeros((6, 32, 32), "u1")),
            r"shape \(rows, 28, 28\), got uint8 of shape",
        ),
        (IMAGES, lambda path: write_idx(path, np.zeros((6, 28, 28), "f4")), "expected bytes of shape .* got float32"),
        (LABELS, lambda path: write_idx(path, np.zeros((6, 1), "u1")), r"expected bytes of shape \(rows\), got"),
        (LABELS, lambda path: write_idx(path, np.zeros(5, "u1")), f"expected 6 rows, as many as {IMAGES} has, got 5"),
        (TABLE, lambda path: path.write_text("index,thickness,intensity\n0,1,2\n"), "expected 6 rows, .* got 1"),
        (TABLE, lambda path: path.write_text(""), "expected the column 'thickness', got none"),
        (TABLE, lambda path: path.write_text("index,thickness\n"), "column 'intensity', got index, thickness"),
        (TABLE, lambda path: edit(path, 3, "2,thick,100"), "line 4: expected a finite number in column 2, got 'thick'"),
        (TABLE, lambda path: edit(path, 3, "2,2.5"), "line 4: expected a finite number in column 3, got ''"),
        (TABLE, lambda path: edit(path, 1, "0,nan,100"), "line 2: expected a finite number in column 2, got 'nan'"),
    ],
)
def test_bad_file_of_a_set_is_named(name, spoil, message, folder):
    spoil(folder / name)
    with pytest.raises(DataError, match=message) as caught:
        load("test", folder=folder)
    assert str(folder / name) in str(caught.value)


def edit(path, line, text):
    lines = path.read_text().splitlines()
    lines[line] = text
    path.write_text("\n".join(lines) + "\n")


def test_another_set_is_not_taken_for_the_published(folder, monkeypatch):
    folder.rename(folder.with_name("morphomnist"))
    monkeypatch.setenv("DEEPBC_DATA", str(folder.parent))
    with pytest.raises(DataError, match=f"{IMAGES}: expected a file with the SHA-256 sum 13163afd"):
        load("test")


def test_missing_set_is_told_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DEEPBC_DATA", raising=False)
    monkeypatch.setattr("deepbc.datasets.download.RETRIES", 0)
    nowhere = Source("morphomnist", "http://127.0.0.1:9/", {IMAGES: "0", LABELS: "0", TABLE: "0"})
    monkeypatch.setattr("deepbc.datasets.morphomnist.SOURCE", nowhere)
    with pytest.raises(DataError, match=f"{IMAGES}: is not in .* set DEEPBC_DATA to a folder that holds morphomnist/"):
        load("test")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda images, labels: load("valid"), SettingError, "split: expected 'train' or 'test', got 'valid'"),
        (lambda images, labels: build(images[:, 2:], labels), DataError, r"shape \(\*batch, 28, 28\), got uint8"),
        (lambda images, labels: build(images[0], labels[0]), DataError, r"got \(\) beside \(height, width\)"),
        (lambda images, labels: build(images, labels[:1]), DataError, r"got \(1,\) beside \(6, height, width\)"),
        (lambda images, labels: build(images, labels - 0.5), DataError, "labels: expected whole numbers from 0 to 255"),
        (lambda images, labels: build(images * 0, labels), DataError, "expected a stroke on every image"),
        (lambda images, labels: build(images, labels, seed="x"), SettingError, "seed: expected a whole number"),
    ],
)
def test_bad_arguments_are_refused(call, error, message, strokes):
    with pytest.raises(error, match=message):
        call(*strokes)
