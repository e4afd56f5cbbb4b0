import math

import numpy as np
import pytest
import torch
from scipy import interpolate, ndimage, spatial, stats

from deepbc.datasets import digits
from deepbc.datasets.digits import FORM, GLYPHS, LEAN, PARTS, PLACE, SLANT, Styles, draw, draw_styles, sample, truth
from deepbc.errors import DataError, SettingError
from deepbc.recipes import morphomnist


def plain(label: int, part: str = "", numbers: tuple[float, ...] = ()) -> Styles:
    """One style whose form is 0 but for one part."""
    form = {name: torch.zeros(length) for name, length in PARTS.items()}
    if part:
        form[part] = torch.tensor(numbers)
    return Styles(torch.tensor(label), torch.cat(list(form.values())).double())


def curve_points(label: int) -> np.ndarray:
    """Dense points on the plain digit, from a Hermite spline with central slopes, a parabola's at the two ends."""
    points = []
    for curve in GLYPHS[label].split(";"):
        p = np.array([[float(number) for number in point.split(",")] for point in curve.split()])
        slopes = np.gradient(p, axis=0, edge_order=2)
        points.append(interpolate.CubicHermiteSpline(range(len(p)), p, slopes)(np.linspace(0, len(p) - 1, 4000)))
    x, y = np.concatenate(points).T
    return np.stack([x - LEAN * y, y], axis=1) + 14


@pytest.mark.parametrize("label", range(10))
def test_pixels_follow_the_distance_to_the_curve(label):
    y, x = np.mgrid[:28, :28] + 0.5
    d, _ = spatial.cKDTree(curve_points(label)).query(np.stack([x, y], axis=-1))
    for t in (0.6, 2.5, 6.0):
        expected = 200 * np.minimum(np.maximum((t + 1) / 2 - d, 0), min(t, 1))
        assert np.allclose(draw(plain(label), t, 200), expected, rtol=0, atol=0.06 * 200)  # chords are off the curve


@pytest.mark.parametrize("label", range(10))
def test_distance_transform_measures_the_thickness(label):
    for t in (1.2, 3.0, 4.5):
        image = draw(plain(label), t, 255, size=560)
        radius = ndimage.distance_transform_edt(image > 127.5) / 20
        column, row = (20 * curve_points(label)).astype(int).T
        assert 2 * np.median(radius[row, column]) == pytest.approx(t, abs=0.1)


def test_ink_of_a_straight_stroke_is_its_area():
    length = 18 * math.hypot(1, LEAN)
    for t in (0.3, 1.0, 2.5, 6.0):
        ink = draw(plain(1), t, 100, size=280).double().sum().item() / 100 / 10**2
        assert ink == pytest.approx(t * length + math.pi * t**2 / 4, rel=2e-3)


def test_stroke_without_thickness_leaves_no_ink():
    assert not draw(draw_styles(10, seed=0), 0.0, 255).any()


def test_image_is_linear_in_the_intensity():
    styles = draw_styles(20, seed=0)
    white = draw(styles, 2.5, 255)
    assert torch.allclose(draw(styles, 2.5, 64), white * 64 / 255, atol=1e-4)
    assert not draw(styles, 2.5, 0).any()


def test_brightest_pixel_has_the_intensity():
    found = sample(1000, seed=0)
    thick = found.values["thickness"] > 2
    brightest = found.values["image"].amax((1, 2))
    assert torch.equal(brightest[thick], found.values["intensity"][thick].float())
    assert (brightest <= found.values["intensity"].float()).all()


def test_more_thickness_never_takes_ink_away():
    images = draw(draw_styles(50, seed=0), torch.linspace(0, 8, 20)[:, None].expand(20, 50), 255)
    assert (images.diff(dim=0) >= 0).all()


def test_place_shifts_the_image():
    moved = draw(plain(5, "place", (2 / PLACE, -1 / PLACE)), 2.0, 255)
    assert torch.allclose(moved, draw(plain(5), 2.0, 255).roll((-1, 2), dims=(0, 1)), atol=1e-3)


def test_slant_leans_the_stroke():
    image = draw(plain(1, "slant", (1.5,)), 2.0, 255, size=112)[28:-28]
    middle = (image * torch.arange(112)).sum(1) / image.sum(1)
    assert np.polyfit(np.arange(len(middle)), middle, 1)[0] == pytest.approx(-(LEAN + 1.5 * SLANT), rel=1e-3)


def test_digit_does_not_depend_on_its_batch():
    found = sample(600, seed=1)
    for k in (0, 17, 599):
        t, i = found.values["thickness"][k], found.values["intensity"][k]
        assert torch.allclose(draw(found.styles.select(k), t, i), found.values["image"][k], atol=1e-3)


def test_batch_axes_come_first():
    styles = draw_styles(6, seed=0)
    grid = Styles(styles.label.view(2, 3), styles.form.view(2, 3, FORM))
    flat = draw(styles, 2.0, 200)
    assert torch.equal(draw(grid, 2.0, 200), flat.view(2, 3, 28, 28))
    assert draw(styles, np.full((4, 6), 2.0), 200).shape == (4, 6, 28, 28)
    assert draw(styles.select(slice(0, 1)), [1.0, 2.0], 200).shape == (2, 28, 28)
    assert draw(styles.select(0), 2.0, 200, size=5).shape == (5, 5)
    assert sample(0, seed=0).values["image"].shape == (0, 28, 28)


def test_sample_is_what_a_model_is_fitted_to():
    values = sample(300, seed=0).values
    assert list(values) == list(digits.GRAPH)
    assert [value.dtype for value in values.values()] == [torch.float64, torch.float64, torch.float32]
    assert values["image"].shape == (300, 28, 28)
    assert 0 <= values["image"].min() < values["image"].max() <= 255


def test_thickness_and_intensity_follow_the_equations():
    values = sample(2000, seed=0).values
    world = morphomnist.truth().sample(2000, seed=0)
    assert all(torch.equal(values[name], world.values[name]) for name in world.values)
    noise = morphomnist.truth().abduct({name: values[name] for name in world.values})
    assert all(stats.kstest(each.numpy(), "norm").pvalue > 0.001 for each in noise.values())
    assert abs(stats.spearmanr(noise["thickness"], noise["intensity"]).statistic) < 0.05


def test_styles_are_uniform_classes_and_normal_forms():
    styles = draw_styles(5000, seed=0)
    assert stats.chisquare(torch.bincount(styles.label, minlength=10)).pvalue > 0.001
    assert stats.kstest(styles.form.flatten().numpy(), "norm").pvalue > 0.001


def test_seed_decides_the_digits():
    first, again, other = (sample(5, seed=seed).values["image"] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_truth_redraws_the_same_hand():
    found = sample(30, seed=0)
    assert torch.equal(truth(found.styles, found.values), found.values["image"])
    changed = {"thickness": found.values["thickness"] + 1, "intensity": torch.full((30,), 90.0)}
    images = truth(found.styles, changed)
    assert torch.equal(images, draw(found.styles, changed["thickness"], 90.0))
    assert ((images > 0) >= (found.values["image"] > 0)).all()


def test_strokes_stay_inside_the_frame():
    image = sample(2000, seed=2).values["image"]
    border = torch.ones(28, 28, dtype=torch.bool)
    border[1:-1, 1:-1] = False
    assert (image[:, border] > 0).any(1).float().mean() < 0.02


def test_nearest_neighbour_tells_the_classes_apart():
    found = sample(3000, seed=0)
    image = found.values["image"].flatten(1) / found.values["intensity"][:, None].float()
    label = found.styles.label.numpy()
    _, nearest = spatial.cKDTree(image[:2500].numpy()).query(image[2500:].numpy())
    assert (label[:2500][nearest] == label[2500:]).mean() > 0.97


STYLES = draw_styles(3, seed=0)
BAD = {
    "too few": (lambda: draw(STYLES, [1.0, 2.0], 200), DataError, "one number of rows .* 'thickness' (2,)"),
    "a column": (lambda: draw(STYLES, torch.ones(3, 1), 200), DataError, "one number of rows"),
    "thin": (lambda: draw(STYLES, [2, 2, -0.5], 200), DataError, "'thickness': .* at least 0, got -0.5 in row 2"),
    "gap": (lambda: draw(STYLES, [2, math.nan, 2], 200), DataError, "'thickness': .* got nan in row 1"),
    "endless": (lambda: draw(STYLES, math.inf, 200), DataError, "'thickness': expected finite .* got inf"),
    "glaring": (lambda: draw(STYLES, 2.0, 256), DataError, "'intensity': .* from 0 to 255, got 256"),
    "text": (lambda: draw(STYLES, "thick", 200), DataError, "'thickness': expected numbers"),
    "class": (lambda: draw(Styles(STYLES.label + 10, STYLES.form), 2, 200), DataError, "'label': .* from 0 to 9"),
    "half": (lambda: draw(Styles(STYLES.label + 0.5, STYLES.form), 2, 200), DataError, "'label': expected whole"),
    "short": (lambda: draw(Styles(STYLES.label, STYLES.form[:, 1:]), 2, 200), DataError, "'form': expected shape"),
    "lost": (lambda: draw(Styles(STYLES.label, STYLES.form * math.nan), 2, 200), DataError, "'form': .* got nan"),
    "far": (
        lambda: draw(Styles(STYLES.label, STYLES.form * 1e9), 2, 200),
        DataError,
        "'form': .* from 0 to 10, .* 3 of 3 rows",
    ),
    "no style": (lambda: draw(STYLES.label, 2, 200), SettingError, "styles: expected a Styles"),
    "size": (lambda: draw(STYLES, 2, 200, size=0), SettingError, "size: .* at least 1"),
    "rows": (lambda: sample(-1, seed=0), SettingError, "rows: .* at least 0"),
    "seed": (lambda: sample(1, seed=0.5), SettingError, "seed"),
    "missing": (lambda: truth(STYLES, {"thickness": 2.0}), DataError, "'intensity' is missing"),
}


@pytest.mark.parametrize(("call", "error", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message.replace("(2,)", r"\(2,\)")):
        call()
