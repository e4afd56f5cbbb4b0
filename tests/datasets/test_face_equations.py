import numpy as np
import pytest
import torch
from scipy import signal, stats

import deepbc as bc
from deepbc.datasets import face_equations
from deepbc.datasets.face_equations import GRAPH, laws

NAMES = ("age", "gender", "beard", "bald")


# The equations a second time, in numpy.
def skewed(u):
    return u + (np.sqrt(1 + u**2) - 1.3545) / 4


def gender_of(u):
    return 0.2 + 0.6 * np.sinh(np.arcsinh(8 * (u - 0.2)) / 2)


def beard_of(age, gender):
    """Mean and standard deviation, given the causes."""
    h = 1 / (1 + np.exp(-4 * (gender - 0.2)))
    return -0.85 + h * (1.95 + 0.5 * np.tanh(age)), 0.1 + 0.7 * h


def simulate(rows, seed):
    u = np.random.default_rng(seed).standard_normal((4, rows))
    age, gender = skewed(u[0]), gender_of(u[1])
    middle, scale = beard_of(age, gender)
    return np.stack([age, gender, middle + scale * u[2], 0.35 * age + 0.5 * gender + 0.78 * skewed(u[3])])


@pytest.fixture(scope="module")
def moments():
    """Means and covariances by quadrature over the noises of age and gender, which is exact to rounding."""
    u = np.linspace(-10, 10, 2001)
    weight = stats.norm.pdf(u) * (u[1] - u[0])
    both = weight[:, None] * weight
    age, gender = np.broadcast_arrays(skewed(u)[:, None], gender_of(u))
    middle, scale = beard_of(age, gender)
    bald = 0.35 * age + 0.5 * gender + 0.78 * (weight * skewed(u)).sum()
    given = np.stack([age, gender, middle, bald])

    mean = (both * given).sum((1, 2))
    away = given - mean[:, None, None]
    covariance = np.einsum("iab,jab,ab->ij", away, away, both)
    covariance[2, 2] += (both * scale**2).sum()
    covariance[3, 3] += 0.78**2 * ((weight * skewed(u) ** 2).sum() - (weight * skewed(u)).sum() ** 2)
    return mean, covariance


@pytest.fixture(scope="module")
def scm():
    return bc.SCM(GRAPH, laws())


def test_noise_comes_back_far_out(scm):
    grid = torch.linspace(-6, 6, 13, dtype=torch.float64)
    u = dict(zip(NAMES, torch.cartesian_prod(*[grid] * 4).unbind(-1), strict=True))
    again = scm.abduct(scm.predict(u))
    assert all(torch.allclose(again[name], u[name], rtol=0, atol=1e-12) for name in NAMES)


def test_laws_increase_in_their_noise(scm):
    u = {name: torch.zeros(1201, dtype=torch.float64) for name in NAMES}
    for name in NAMES:
        x = scm.predict({**u, name: torch.linspace(-6, 6, 1201, dtype=torch.float64)})[name]
        assert (x.diff() > 0).all()


def test_derivatives_pass_gradcheck():
    u = torch.linspace(-4, 4, 9, dtype=torch.float64)[:, None].requires_grad_()
    parents = {"age": u.detach().flip(0).requires_grad_(), "gender": 0.4 * u.detach().roll(3, 0).requires_grad_()}
    for name in NAMES:
        for way in ("predict", "abduct"):
            function = getattr(face_equations, f"{way}_{name}")

            def of(x, age, gender, function=function):
                return function(x, {"age": age, "gender": gender})

            assert torch.autograd.gradcheck(of, (u, parents["age"], parents["gender"]))
            assert torch.autograd.gradgradcheck(of, (u, parents["age"], parents["gender"]))


@pytest.mark.parametrize(("age", "gender"), [(0.0, 0.2), (2.0, -1.0), (-1.5, 1.2)])
@pytest.mark.parametrize("name", NAMES)
def test_density_is_that_of_simulated_rows(scm, name, age, gender):
    u = np.random.default_rng(0).standard_normal(20_000)
    middle, scale = beard_of(age, gender)
    rows = {"age": skewed(u), "gender": gender_of(u), "beard": middle + scale * u}
    rows["bald"] = 0.35 * age + 0.5 * gender + 0.78 * skewed(u)

    grid = np.linspace(rows[name].min() - 2, rows[name].max() + 2, 20_001)
    given = {
        **dict.fromkeys(NAMES, np.zeros_like(grid)),
        "age": age + 0 * grid,
        "gender": gender + 0 * grid,
        name: grid,
    }
    density = scm.log_prob(given, of=[name]).exp().numpy()
    mass = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    assert mass[-1] == pytest.approx(1, abs=1e-4)
    assert stats.kstest(rows[name], lambda x: np.interp(x, grid, mass)).pvalue > 0.01


def test_sample_has_the_moments_of_the_equations(scm, moments):
    mean, covariance = moments
    values = scm.sample(200_000, seed=0).values
    x = np.stack([values[name].numpy() for name in NAMES])
    assert np.allclose(x.mean(1), mean, rtol=0, atol=5 / np.sqrt(200_000))
    assert np.allclose(np.cov(x), covariance, rtol=0, atol=5 * 2 / np.sqrt(200_000))  # beard is skew
    other = simulate(200_000, seed=1)
    assert all(stats.ks_2samp(one, two).pvalue > 0.001 for one, two in zip(x, other, strict=True))


def test_documented_moments_are_those_of_the_equations(moments):
    mean, covariance = moments
    sd = np.sqrt(np.diag(covariance))
    lines = [line.split() for line in face_equations.__doc__.splitlines() if line.startswith(NAMES)]
    documented = np.array([[float(number) for number in line[1:]] for line in lines])
    assert [line[0] for line in lines] == list(NAMES)
    assert np.array_equal(documented, np.column_stack([mean, sd, covariance / np.outer(sd, sd)]).round(2))


def test_attributes_are_about_standardised(moments):
    mean, covariance = moments
    assert np.abs(mean).max() < 0.05
    assert np.abs(np.sqrt(np.diag(covariance)) - 1).max() < 0.05


def test_gender_has_two_humps_and_age_is_skew():
    x = simulate(400_000, seed=0)
    density, _ = np.histogram(x[1], bins=60, range=(-3, 3), density=True)
    density = np.convolve(density, np.ones(5) / 5, mode="same")
    peaks, _ = signal.find_peaks(density, prominence=0.1)
    assert len(peaks) == 2
    assert density[peaks[0] : peaks[1]].min() < 0.6 * density[peaks].min()
    assert stats.skew(x[0]) > 0.3


def test_women_have_no_beard_at_any_age(scm):
    age = torch.linspace(-3, 3, 61, dtype=torch.float64)
    women, men = (
        scm.complete(values={"age": age, "gender": gender}, noise={"beard": 0.0, "bald": 0.0}).values["beard"]
        for gender in (-1.0, 1.2)
    )
    assert women.max() < -0.7
    assert women.max() - women.min() < 0.02
    assert (men.diff() > 0).all()
    assert men[-1] - men[-11] < 0.2 * (men[35] - men[25])  # it saturates


def test_linear_law_explains_bald_nearly_as_well_as_its_own():
    age, gender, _, bald = simulate(100_000, seed=0)
    causes = np.column_stack([np.ones_like(age), age, gender])
    weights, *_ = np.linalg.lstsq(causes, bald, rcond=None)
    miss = bald - causes @ weights
    assert (weights[1:] > 0.3).all()
    assert 0.5 < miss.var() / bald.var() < 0.75
    assert abs(stats.skew(miss)) < 0.5


def test_beard_of_an_old_woman_is_traced_to_gender(scm):
    woman = {"age": 1.5, "gender": -1.0, "beard": -0.8, "bald": 0.0}
    for solver in (bc.Exact(), bc.Sparse(keep=1), bc.Sparse(keep=2)):
        cf = bc.backtrack(scm, woman, {"beard": 1.5}, solver=solver)
        assert cf.values["gender"] > 0.2
        assert cf.values["age"].item() == pytest.approx(1.5, abs=0.1)
        assert cf.values["bald"] > 0.5
        assert cf.moved["gender"] > 10 * (cf.moved["age"] + cf.moved["beard"])


def test_saved_model_predicts_the_same(scm, tmp_path):
    world = scm.sample(50, seed=0)
    scm.save(tmp_path / "model")
    loaded = bc.SCM.load(tmp_path / "model").predict(world.noise)
    assert all(torch.equal(loaded[name], world.values[name]) for name in NAMES)
