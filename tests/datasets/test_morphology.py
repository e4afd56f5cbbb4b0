import subprocess
import sys

import numpy as np
import pytest
import torch

from deepbc.datasets import morphology, morphomnist
from deepbc.datasets.morphology import measure_intensity, measure_thickness, redraw
from deepbc.errors import DataError, SettingError


def bar(width, grey=200, side=28):
    """A long upright bar of that many pixels."""
    image = np.zeros((side, side), np.uint8)
    image[2:-2, 10 : 10 + width] = grey
    return image


def slanted(width, grey=200.0):
    """A stroke between two points, `width` pixels wide, with soft edges."""
    y, x = np.mgrid[:28, :28] - 13.5
    along, across = 0.8 * y + 0.6 * x, 0.8 * x - 0.6 * y
    distance = np.hypot(np.maximum(abs(along) - 9, 0), across)
    return grey * np.clip(width / 2 - distance + 0.5, 0, 1)


@pytest.fixture(scope="module")
def digits(data_folder):
    """The first 200 digits of the published test split."""
    loaded = morphomnist.load("test", folder=data_folder / "morphomnist")
    return {name: value[:200] for name, value in loaded.values.items()}


@pytest.mark.parametrize("width", [2, 3, 4, 5, 6])
def test_bar_measures_to_its_width(width):
    # A skeleton runs into the corners of the ends, where it is near to the edge.
    assert measure_thickness(bar(width)).item() == pytest.approx(width, abs=0.3)


def test_measures_keep_the_axes_of_the_batch():
    images = np.stack([bar(2, 100), bar(3, 150), bar(4, 200)] * 2).reshape(2, 3, 28, 28)
    assert measure_intensity(images).tolist() == [[100, 150, 200]] * 2
    assert measure_thickness(torch.from_numpy(images)).shape == (2, 3)
    assert measure_thickness(images[0, 0]).shape == ()


def test_thickness_does_not_depend_on_grey_or_place():
    image = bar(4, 240)
    for other in (image // 2, image.astype(np.float32), np.roll(image, (1, -5), (0, 1)), image.T, image[::-1]):
        assert measure_thickness(other).item() == pytest.approx(measure_thickness(image).item(), abs=1e-9)


def test_enlargement_is_that_of_the_whole_image():
    from skimage.transform import resize

    image = np.random.default_rng(0).uniform(0, 255, (20, 28))
    whole = resize(image, (80, 112), order=3, mode="constant", clip=False)
    rows, columns = morphology._enlargement(20), morphology._enlargement(28)
    assert np.allclose(rows @ image @ columns.T, whole, atol=1e-9)


def test_threshold_on_distance_is_dilation_or_erosion_by_disk():
    from skimage.morphology import dilation, disk, erosion

    image = slanted(4)
    ink, edge = morphology._enlarged_ink(image), morphology._stroke(image).edge
    for radius in (1, 3, 6):
        assert np.array_equal(edge <= radius - 0.5, dilation(ink, disk(radius)))
        assert np.array_equal(edge < 0.5 - radius, erosion(ink, disk(radius)))


def test_published_images_measure_as_their_table_says(digits):
    t = measure_thickness(digits["image"]) - digits["thickness"]
    i = measure_intensity(digits["image"]) - digits["intensity"]
    assert t.abs().mean() < 0.1
    assert abs(t.mean()) < 0.05
    assert i.abs().mean() < 0.6
    for measure, name in ((measure_thickness, "thickness"), (measure_intensity, "intensity")):
        assert np.corrcoef(measure(digits["image"]), digits[name])[0, 1] > 0.98


def test_built_images_measure_as_wanted(digits):
    built = morphomnist.build(digits["image"], torch.zeros(200), seed=0)
    t = (measure_thickness(built.values["image"]) - built.values["thickness"]).abs()
    i = (measure_intensity(built.values["image"]) - built.values["intensity"]).abs()
    assert t.mean() < 0.015
    assert t.max() < 0.2
    assert i.mean() < 0.5
    assert i.max() < 4


def test_thin_digits_stay_whole(digits):
    thin = redraw(digits["image"][:40], 1.0, 100.0)
    for before, after in zip(digits["image"][:40].numpy(), thin.numpy(), strict=True):
        length = [
            morphology._tools().skeletonize(morphology._enlarged_ink(x.astype(float))).sum() for x in (before, after)
        ]
        assert length[1] > 0.5 * length[0]


def test_stroke_measures_to_its_width_at_a_slant():
    for width in (2, 3, 4, 5):
        assert measure_thickness(slanted(width)).item() == pytest.approx(width, abs=0.25)


def test_stroke_is_redrawn_to_any_thickness():
    wanted = torch.linspace(1.2, 8, 15, dtype=torch.float64)
    drawn = redraw(slanted(4), wanted, 180)
    assert drawn.dtype == torch.uint8
    assert (measure_thickness(drawn) - wanted).abs().max() < 0.1
    assert (measure_intensity(drawn) - 180).abs().max() <= 0.5
    assert (drawn.double().sum((1, 2)).diff() > 0).all()


def test_image_depends_on_its_own_row_alone():
    images, t, i = np.stack([bar(2), bar(3), bar(5)]), [3.0, 4.0, 2.0], [90.0, 140.0, 250.0]
    together = redraw(images, t, i)
    assert all(torch.equal(together[k], redraw(images[k], t[k], i[k])) for k in range(3))


@pytest.mark.parametrize(
    ("images", "thickness", "intensity", "message"),
    [
        (np.zeros((2, 28, 28)), 2.0, 100.0, "expected a stroke on every image, got one grey value in 2 of 2 rows"),
        (np.stack([bar(3), bar(3) * 0 + 7]), 2.0, 100.0, "got one grey value in row 1"),
        (bar(3) * 2.0, 2.0, 100.0, "images: expected finite numbers from 0 to 255, got 400"),
        (bar(3) * np.nan, 2.0, 100.0, "images: expected finite numbers"),
        (
            np.zeros(28),
            2.0,
            100.0,
            r"expected numbers of shape \(\*batch, height, width\), got float64 of shape \(28,\)",
        ),
        (np.array([["a"]]), 2.0, 100.0, "expected numbers of shape"),
        (bar(3), 0.0, 100.0, "'thickness': expected finite numbers of at least 0.1, got 0"),
        (bar(3), 2.0, 256.0, "'intensity': expected finite numbers from 1 to 255, got 256"),
        (np.stack([bar(3)] * 2), [2.0] * 3, 100.0, "Expected one number of rows"),
    ],
)
def test_bad_images_are_refused(images, thickness, intensity, message):
    with pytest.raises(DataError, match=message):
        redraw(images, thickness, intensity)


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.morphology", None)
    morphology._tools.cache_clear()
    with pytest.raises(SettingError, match=r"Strokes need scikit-image.*pip install 'deepbc\[data\]'"):
        measure_thickness(bar(3))
    assert measure_intensity(bar(3)).item() == 200


def test_data_sets_load_no_extra_before_its_use():
    program = (
        "import sys; from deepbc.datasets import morphomnist;"
        "print([name for name in ('skimage', 'scipy', 'pooch', 'pandas', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
