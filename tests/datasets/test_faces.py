import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn.functional import avg_pool2d

import deepbc as bc
from deepbc.datasets import face_equations, faces
from deepbc.datasets.face_painter import PARTS
from deepbc.datasets.faces import ATTRIBUTES, FORM, Styles, draw, draw_styles, labels, sample, truth
from deepbc.errors import DataError, SettingError

SWEEP = torch.linspace(-3, 3, 25, dtype=torch.float64)
PLAIN = {"age": 0.0, "gender": 0.0, "beard": -0.8, "bald": -0.5}


def styled(**numbers: float) -> Styles:
    """One style whose numbers are 0 but for the parts that are given."""
    form = {name: torch.zeros(length, dtype=torch.float64) for name, length in PARTS.items()}
    for name, number in numbers.items():
        form[name][0] = number
    return Styles(torch.cat(list(form.values())))


# Black hair, light skin, a bright wall: what is dark is hair.
CONTRAST = styled(hair_colour=-3.0, skin=-3.0, background=2.0, clothes=1.0)


def swept(style: Styles, name: str, **others: float) -> torch.Tensor:
    """Brightness of the sweep of one attribute, with shape `(25, 128, 128)`."""
    return draw(style, **{**PLAIN, **others, name: SWEEP}, size=128).mean(1)


def changed(name: str, **others: float) -> torch.Tensor:
    """Where an attribute changes anything, over its sweep and several styles in the middle of the image."""
    found = torch.zeros(128, 128, dtype=torch.bool)
    styles = draw_styles(6, seed=0).form
    place = [sum(list(PARTS.values())[: list(PARTS).index(part)]) for part in ("place", "tilt")]
    styles[:, place[0] : place[1] + 1] = 0
    for form in styles:
        images = draw(Styles(form), **{**PLAIN, **others, name: SWEEP}, size=128)
        found |= ((images - images[0]).abs() > 0.5).any(0).any(0)
    return found


@pytest.mark.parametrize(("fine", "coarse", "most"), [(128, 64, 0.5), (64, 32, 1.0), (128, 32, 1.0), (128, 16, 2.0)])
def test_face_is_the_same_at_every_size(fine, coarse, most):
    found = sample(50, seed=3, size=16)
    values = {name: found.values[name] for name in ATTRIBUTES}
    pooled = avg_pool2d(draw(found.styles, **values, size=fine), fine // coarse)
    drawn = draw(found.styles, **values, size=coarse)
    assert (pooled - drawn).abs().mean() < most  # of 255; one face is 40 away from another
    assert (pooled - drawn).mean((0, 2, 3)).abs().max() < 0.4 * most


@pytest.mark.parametrize("size", [16, 17, 28, 64, 128])
def test_shapes_and_range_hold_at_every_size(size):
    image = sample(3, seed=0, size=size).values["image"]
    assert image.shape == (3, 3, size, size)
    assert image.dtype == torch.uint8
    assert image.float().std() > 20
    drawn = draw(draw_styles(200, seed=1), 1.0, 1.0, 1.0, 1.0, size=16)
    assert drawn.dtype == torch.float32
    assert 0 <= drawn.min() < drawn.max() <= 255


def test_batch_axes_come_first():
    styles = draw_styles(6, seed=0)
    flat = draw(styles, 0.5, 1.0, 1.0, 0.0, size=16)
    assert torch.equal(draw(Styles(styles.form.view(2, 3, FORM)), 0.5, 1, 1, 0, size=16), flat.view(2, 3, 3, 16, 16))
    assert draw(styles, np.full((4, 6), 2.0), 0, 0, 0, size=16).shape == (4, 6, 3, 16, 16)
    assert draw(styles.select(slice(0, 1)), [1.0, 2.0], 0, 0, 0, size=16).shape == (2, 3, 16, 16)
    assert draw(styles.select(0), 0, 0, 0, 0, size=16).shape == (3, 16, 16)
    assert sample(0, seed=0).values["image"].shape == (0, 3, 64, 64)


def test_face_does_not_depend_on_its_batch(monkeypatch):
    found = sample(100, seed=1, size=32)
    for k in (0, 17, 99):
        one = truth(found.styles.select(k), {name: found.values[name][k] for name in ATTRIBUTES}, size=32)
        assert (one - found.values["image"][k]).abs().max() <= 0.501  # rounded
    whole = truth(found.styles, found.values, size=32)
    monkeypatch.setattr(faces, "CHUNK", 7 * 32**2)
    assert torch.allclose(truth(found.styles, found.values, size=32), whole, rtol=0, atol=1e-3)


def test_seed_decides_the_faces():
    first, again, other = (sample(5, seed=seed, size=32).values["image"] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    finer = sample(5, seed=0, size=64)
    assert (avg_pool2d(finer.values["image"].float(), 2) - first).abs().mean() < 1.5


def test_sample_is_what_a_model_is_fitted_to():
    found = sample(80, seed=0, size=16)
    assert list(found.values) == [*ATTRIBUTES, "image"]
    assert [found.values[name].dtype for name in ATTRIBUTES] == [torch.float64] * 4
    scm = bc.SCM(faces.GRAPH, {**face_equations.laws(), "image": bc.ConvVAE(noise=2, width=4)})
    scm.fit(found.values, seed=0, training=bc.Training(epochs=1))
    row = {name: value[0] for name, value in found.values.items()}
    assert bc.intervene(scm, row, {"beard": 2.0}).values["image"].shape == (3, 16, 16)


def test_attributes_follow_the_equations():
    values = sample(2000, seed=0, size=16).values
    world = bc.SCM(face_equations.GRAPH, face_equations.laws()).sample(2000, seed=0)
    assert all(torch.equal(values[name], world.values[name]) for name in ATTRIBUTES)


def test_styles_are_standard_normal():
    form = draw_styles(2000, seed=0).form
    assert stats.kstest(form.flatten().numpy(), "norm").pvalue > 0.001
    assert (torch.corrcoef(form.T) - torch.eye(FORM)).abs().max() < 5 / math.sqrt(2000)


def test_truth_redraws_the_same_person():
    found = sample(20, seed=0)
    assert torch.equal(truth(found.styles, found.values).round().byte(), found.values["image"])
    values = {**found.values, "bald": torch.full((20,), 3.0)}
    others = (found.values[name] for name in ("age", "gender", "beard"))
    assert torch.equal(truth(found.styles, values), draw(found.styles, *others, 3.0))


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_a_style_is_seen(part):
    start = sum(list(PARTS.values())[: list(PARTS).index(part)])
    form = torch.zeros(1 + PARTS[part], FORM, dtype=torch.float64)
    for k in range(PARTS[part]):
        form[k + 1, start + k] = 1.5
    images = draw(Styles(form), 0.0, 0.0, 0.5, -0.5)
    assert ((images[1:] - images[0]).abs().amax((1, 2, 3)) > 10).all()


def test_beard_changes_the_lower_face_alone():
    for gender in (-1.0, 1.0):
        found = changed("beard", gender=gender)
        assert not found[:55].any()  # the eyes are at 61
        assert not found[:75, 45:83].any()  # nor between the cheeks, above the tip of the nose
        assert found[80:115, 45:83].any(1).all()


def test_bald_changes_the_top_of_the_head_alone():
    for gender in (-1.0, 1.0):
        found = changed("bald", gender=gender)
        assert not found[65:].any()
        assert found[15:30, 50:78].all()


def test_beard_only_darkens_and_comes_with_its_value():
    images = swept(CONTRAST, "beard", gender=1.5)
    assert (images.diff(dim=0) <= 1e-2).all()
    chin = images[:, 98:106, 55:73].mean((1, 2))
    assert chin[0] - chin[SWEEP <= -0.5].min() < 0.03 * (chin[0] - chin[-1])
    assert chin[0] - chin[SWEEP <= 2][-1] > 0.9 * (chin[0] - chin[-1])
    assert chin[0] - chin[-1] > 100


def test_longer_beards_hang_lower():
    bearded = swept(CONTRAST, "beard", gender=1.5) < 70
    lowest = torch.where(bearded.any(2), torch.arange(128), 0).amax(1)[SWEEP > 1.2]
    assert (lowest.diff() >= 0).all()
    assert lowest[-1] - lowest[0] >= 4


def test_hair_shrinks_and_its_line_rises_as_a_head_balds():
    dark = swept(CONTRAST, "bald", gender=1.5) < 90
    hair = dark[:, :45].sum((1, 2))
    assert (hair.diff() <= 0).all()
    assert hair[-1] < 0.25 * hair[0]
    line = torch.where(dark[:, :45, 60:68].all(2), torch.arange(45), 0).amax(1)
    assert (line.diff() <= 0).all()
    assert line[0] - line[SWEEP == 1][0] > 5


def test_hair_turns_grey_and_skin_wrinkles_with_age():
    images = swept(CONTRAST, "age", gender=1.5)
    grey = images[:, 12:22, 54:74].mean((1, 2))
    assert (grey.diff() > 0).all()
    assert grey[-1] - grey[0] > 100
    rough = images[:, 39:46, 54:74].std((1, 2))
    assert (rough.diff() > 0).all()
    assert rough[-1] > 3 * rough[0]


def test_gender_shortens_hair_thickens_brows_and_pales_lips():
    images = draw(CONTRAST, **{**PLAIN, "gender": SWEEP}, size=128)
    dark = images.mean(1) < 90
    hair, brows = dark[:, 70:, :36].sum((1, 2)), (255 - images.mean(1))[:, 45:58, 35:93].mean((1, 2))
    lips = (images[:, 0] - images[:, 1])[:, 88:96, 56:72].mean((1, 2))
    assert (hair.diff() <= 0).all()
    assert hair[0] > hair[-1] + 500
    assert (brows[SWEEP > -2].diff() > 0).all()
    assert (lips.diff() < 0).all()


def test_gradient_reaches_every_attribute():
    for name in ATTRIBUTES:
        for at in (-1.5, 0.3, 1.7):
            point = torch.tensor(at, dtype=torch.float64, requires_grad=True)
            value = draw(CONTRAST, **{**PLAIN, "gender": 0.5, name: point}, size=128).double().mean()
            (slope,) = torch.autograd.grad(value, point)
            near = draw(CONTRAST, **{**PLAIN, "gender": 0.5, name: [at - 0.002, at + 0.002]}, size=128).double()
            low, high = near.mean((1, 2, 3))
            assert slope != 0
            assert slope.item() == pytest.approx((high - low).item() / 0.004, rel=0.02, abs=1e-3)


def test_far_attributes_and_styles_still_draw():
    far = draw(Styles(torch.full((2, FORM), 1e9, dtype=torch.float64)), [1e300, -1e300], 1e300, -1e300, 1e300)
    assert far.isfinite().all()
    assert 0 <= far.min() < far.max() <= 255


def test_labels_are_as_frequent_as_documented():
    u = np.linspace(-10, 10, 4001)
    weight = stats.norm.pdf(u) * (u[1] - u[0])
    age = u + (np.sqrt(1 + u**2) - 1.3545) / 4
    young = (weight / (1 + np.exp((age - 0.8) / 0.25))).sum()
    noise = {name: torch.randn(40_000, generator=torch.Generator().manual_seed(k)) for k, name in enumerate(ATTRIBUTES)}
    found = bc.SCM(face_equations.GRAPH, face_equations.laws()).predict(noise)
    rate = {name: each.double().mean().item() for name, each in labels(found, seed=0).items()}
    assert rate["Young"] == pytest.approx(young, abs=0.01)
    assert rate == pytest.approx({"Young": 0.77, "Male": 0.42, "No_Beard": 0.82, "Bald": 0.08}, abs=0.015)
    documented = [line.split() for line in faces.__doc__.splitlines() if line.startswith(tuple(rate))]
    assert {line[0]: float(line[-1]) for line in documented} == pytest.approx(rate, abs=0.015)


def test_labels_have_logistic_noise():
    rows = 40_000
    thresholds = {"age": 0.8, "gender": 0.2, "beard": 1.1, "bald": 1.6}
    for shift, high in ((0.0, 0.5), (0.25, 0.7311), (-0.5, 0.1192)):
        given = {name: torch.full((rows,), threshold + shift) for name, threshold in thresholds.items()}
        rate = {name: each.double().mean().item() for name, each in labels(given, seed=1).items()}
        expected = {"Young": 1 - high, "Male": high, "No_Beard": 1 - high, "Bald": high}
        assert rate == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(rows))
    drawn = labels(given, seed=1)
    noise = np.corrcoef(np.stack([each.numpy() for each in drawn.values()]))
    assert np.abs(noise - np.eye(4)).max() < 5 / math.sqrt(rows)
    assert all(torch.equal(labels(given, seed=1)[name], each) for name, each in drawn.items())
    assert not torch.equal(labels(given, seed=2)["Male"], drawn["Male"])


STYLES = draw_styles(3, seed=0)
BAD = {
    "too few": (lambda: draw(STYLES, [1.0, 2.0], 0, 0, 0), DataError, "one number of rows .* 'age' (2,)"),
    "a column": (lambda: draw(STYLES, 0, torch.ones(3, 1), 0, 0), DataError, "one number of rows"),
    "gap": (lambda: draw(STYLES, 0, 0, [2, math.nan, 2], 0), DataError, "'beard': .*NaN.* in row 1"),
    "endless": (lambda: draw(STYLES, 0, 0, 0, math.inf), DataError, "'bald': expected finite .* infinity"),
    "text": (lambda: draw(STYLES, "old", 0, 0, 0), DataError, "'age': expected numbers"),
    "truth values": (lambda: draw(STYLES, 0, torch.tensor(True), 0, 0), DataError, "'gender': expected numbers"),
    "short": (lambda: draw(Styles(STYLES.form[:, 1:]), 0, 0, 0, 0), DataError, "'form': expected shape"),
    "lost": (lambda: draw(Styles(STYLES.form * math.nan), 0, 0, 0, 0), DataError, "'form': .*NaN"),
    "no style": (lambda: draw(STYLES.form, 0, 0, 0, 0), SettingError, "styles: expected a Styles"),
    "small": (lambda: draw(STYLES, 0, 0, 0, 0, size=15), SettingError, "size: .* at least 16 and at most 128, got 15"),
    "large": (lambda: sample(1, seed=0, size=129), SettingError, "size: .* got 129"),
    "half": (lambda: sample(1, seed=0, size=32.5), SettingError, "size: .* got 32.5"),
    "rows": (lambda: sample(-1, seed=0), SettingError, "rows: .* at least 0"),
    "seed": (lambda: sample(1, seed=0.5), SettingError, "seed"),
    "missing": (lambda: truth(STYLES, {"age": 2.0, "gender": 1.0, "bald": 0.0}), DataError, "'beard' is missing"),
    "no values": (lambda: labels({"age": 1.0}), DataError, "'gender' is missing"),
    "gap in values": (lambda: labels(dict.fromkeys(ATTRIBUTES, math.nan)), DataError, "'age': .*NaN"),
}


@pytest.mark.parametrize(("call", "error", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message.replace("(2,)", r"\(2,\)")):
        call()
