"""One contract for every mechanism, `deepbc.testing.check_mechanism`; a new one is a line in MECHANISMS."""

import functools

import pytest
import torch

import deepbc as bc
from deepbc.numerics.seeding import generator
from deepbc.testing import check_mechanism


def shear(u, parents):
    return torch.cat([u[:, :1], u[:, 1:] * u[:, :1].cosh()], dim=-1)


def unshear(x, parents):
    return torch.cat([x[:, :1], x[:, 1:] / x[:, :1].cosh()], dim=-1)


def by_parents(u, parents):
    return parents["p"].sum(-1, keepdim=True) + (0.3 * u).sinh()


def from_parents(x, parents):
    return (x - parents["p"].sum(-1, keepdim=True)).asinh() / 0.3


# A law, and what its rows are like.
MECHANISMS = {
    "flow of a root": (bc.Flow(), {"parents": 0}),
    "flow": (bc.Flow(), {}),
    "flow with a correction": (bc.Flow(correction=True), {}),
    "flow between two bounds": (bc.Flow(), {"parents": 1, "bounds": (0.0, 1.0)}),
    "flow above a bound": (bc.Flow(), {"parents": 1, "bounds": (-2.0, None)}),
    "flow below a bound": (bc.Flow(), {"parents": 1, "bounds": (None, 3.0)}),
    "flow of a vector": (bc.Flow(), {"shape": (3,)}),
    "flow of a root vector": (bc.Flow(correction=True), {"shape": (2,), "parents": 0, "bounds": (0.0, None)}),
    "flow with the spline at the noise": (bc.Flow(layers=["spline", "spline", "affine"]), {}),
    "flow with a constant scale": (bc.Flow(layers=["constant affine", "spline", "affine"]), {"shape": (2,)}),
    "flow of conditional splines": (bc.Flow(layers=["conditional spline"] * 2, hidden=[8]), {}),
    "linear flow": (bc.Flow(hidden=[]), {"shape": (2,), "parents": 1}),
    "Gaussian process": (bc.GaussianProcess(), {}),
    "Gaussian process of a root": (bc.GaussianProcess(), {"parents": 0}),
    "Gaussian process of a vector": (bc.GaussianProcess(points=16), {"shape": (2,)}),
    "Gaussian process of a root vector": (bc.GaussianProcess(points=16), {"shape": (2,), "parents": 0}),
    "Gaussian process between bounds": (bc.GaussianProcess(), {"parents": 1, "bounds": (0.0, 1.0)}),
    "linear": (bc.Linear(), {}),
    "linear of a root": (bc.Linear(), {"parents": 0}),
    "linear of a vector": (bc.Linear(), {"shape": (3,)}),
    "linear between bounds": (bc.Linear(), {"parents": 1, "bounds": (0.0, 1.0)}),
    "additive": (bc.Additive(), {}),
    "additive of a vector": (bc.Additive(), {"shape": (2,), "bounds": (0.0, None)}),
    "equation": (bc.Equation(predict=by_parents, abduct=from_parents), {}),
    "equation of a vector": (
        bc.Equation(predict=shear, abduct=unshear, noise=2, value=2),
        {"shape": (2,), "parents": 0},
    ),
    "predictor": (bc.Predictor(lambda parents: parents["p"].prod(-1)), {}),
    "predictor by a module": (bc.Predictor(torch.nn.Linear(2, 2), value=2), {"shape": (2,)}),
    "category": (bc.Categorical(), {}),
    "category of a root": (bc.Categorical(points=0, hidden=[]), {"parents": 0}),
    "ordered category": (bc.Categorical(points=8), {"ordered": True}),
    "whole number": (bc.Integer(), {"bounds": (0, None)}),
    "whole number by a Gaussian process": (bc.Integer(bc.GaussianProcess()), {"bounds": (0, None)}),
    "whole number, linear": (bc.Integer(bc.Linear()), {"parents": 1}),
    "censored number": (bc.Censored(), {}),
    "censored number, linear": (bc.Censored(bc.Linear()), {"parents": 1}),
    "censored number below a bound": (bc.Censored(bc.Additive()), {"parents": 1, "bounds": (None, 3.0)}),
    "image": (bc.ConvVAE(noise=4, width=8), {"shape": (8, 8)}),
    "image in colour with its rest": (bc.ConvVAE(noise=4, width=8, residual=True), {"shape": (8, 8, 3), "parents": 1}),
}
# Those of numbers that have noise; of these, those that are learned.
NOISY = [
    name
    for name in MECHANISMS
    if not name.startswith(("predictor", "image", "category", "ordered", "censored")) and "whole" not in name
]
LEARNED = [name for name in NOISY if not name.startswith("equation")]
# Those that are learned by gradients.
WEIGHTED = [name for name in LEARNED if not name.startswith(("linear", "Gaussian")) or "flow" in name]
NUMBERS = [name for name in NOISY if "shape" not in MECHANISMS[name][1]]


@functools.cache
def fitted(name):
    law, drawn = MECHANISMS[name]
    short = (
        bc.Training(epochs=2, batch=64, pull=0.0) if name.startswith("image") else bc.Training(epochs=30, patience=5)
    )
    return check_mechanism(law, training=short, **drawn).mechanisms["x"]


@pytest.mark.parametrize("name", MECHANISMS)
def test_contract(name):
    fitted(name)


@pytest.mark.parametrize("name", NOISY)
def test_predict_inverts_abduct_far_out(name):
    mechanism = fitted(name)
    stream = generator(1, name)
    grid = torch.linspace(-10, 10, 2001, dtype=torch.float64)
    u = torch.stack([grid[torch.randperm(2001, generator=stream)] for _ in range(mechanism.noise_dim)], dim=-1)
    parents = 2 * torch.randn(2001, mechanism.parents_dim, generator=stream, dtype=torch.float64)

    x = mechanism.predict(u, parents)
    again = mechanism.predict(mechanism.abduct(x, parents), parents)

    assert torch.isfinite(x).all()
    assert torch.isfinite(again).all()
    assert ((again - x).abs() <= 1e-9 * x.abs() + 1e-12).all()
    assert torch.isfinite(mechanism.log_prob(x, parents)).all()


@pytest.mark.parametrize("name", NOISY)
def test_log_volume_far_out_is_that_of_the_autograd_jacobian(name):
    mechanism = fitted(name)
    u = 10 * torch.randn(8, mechanism.noise_dim, generator=generator(3, name), dtype=torch.float64).sign()
    parents = torch.randn(8, mechanism.parents_dim, generator=generator(4, name), dtype=torch.float64)
    x = mechanism.predict(u, parents)

    for row in range(8):
        jacobian = torch.autograd.functional.jacobian(lambda each: mechanism.abduct(each, parents[row]), x[row])  # noqa: B023
        expected = torch.linalg.slogdet(jacobian).logabsdet
        assert abs(mechanism.log_volume(x[row], parents[row]) - expected) < 1e-8


def test_log_volume_of_an_equation_is_the_closed_form():
    stream = generator(10)
    x = 10 * torch.randn(50, 2, generator=stream, dtype=torch.float64)
    parents = torch.randn(50, 2, generator=stream, dtype=torch.float64)
    # u = asinh(x - p1 - p2) / 0.3
    expected = -(0.3 * (1 + (x[:, 0] - parents.sum(-1)).square()).sqrt()).log()
    assert torch.allclose(fitted("equation").log_volume(x[:, :1], parents), expected, rtol=0, atol=1e-12)
    # u = (x1, x2 / cosh(x1))
    volume = fitted("equation of a vector").log_volume(x, parents[:, :0])
    assert torch.allclose(volume, -x[:, 0].cosh().log(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NUMBERS)
def test_density_integrates_to_one(name):
    mechanism = fitted(name)
    parents = torch.randn(mechanism.parents_dim, generator=generator(4, name), dtype=torch.float64)
    ends = mechanism.predict(torch.tensor([[-8.0], [8.0]], dtype=torch.float64), parents.expand(2, -1)).squeeze(-1)
    x = mechanism.predict(torch.linspace(-8, 8, 20_001, dtype=torch.float64)[:, None], parents.expand(20_001, -1))

    density = mechanism.log_prob(x, parents.expand(20_001, -1)).exp()

    assert (x.squeeze(-1).diff() > 0).all()
    assert ends[0] < ends[1]
    assert abs(torch.trapezoid(density, x.squeeze(-1)).item() - 1) < 1e-3


@pytest.mark.parametrize("name", ["additive of a vector", "flow of a root vector"])
def test_vector_density_integrates_to_one(name):
    mechanism = fitted(name)
    parents = torch.zeros(mechanism.parents_dim, dtype=torch.float64)
    u = torch.linspace(-7, 7, 401, dtype=torch.float64)
    corners = mechanism.predict(torch.cartesian_prod(u, u), parents.expand(401**2, -1))
    logs = [
        torch.linspace(low.log().item(), high.log().item(), 1201, dtype=torch.float64)
        for low, high in zip(corners.amin(0), corners.amax(0), strict=True)
    ]
    points = torch.cartesian_prod(*logs).exp()

    density = (mechanism.log_prob(points, parents.expand(len(points), -1)) + points.log().sum(-1)).exp()

    integral = torch.trapezoid(torch.trapezoid(density.reshape(1201, 1201), logs[1]), logs[0])
    assert abs(integral.item() - 1) < 1e-3


@pytest.mark.parametrize("name", [name for name in NOISY if "bounds" in MECHANISMS[name][1]])
def test_predictions_never_leave_the_bounds(name):
    mechanism = fitted(name)
    low, high = mechanism.bound.child.lower, mechanism.bound.child.upper
    u = 100 * torch.randn(2000, mechanism.noise_dim, generator=generator(5), dtype=torch.float64)
    parents = 100 * torch.randn(2000, mechanism.parents_dim, generator=generator(6), dtype=torch.float64)
    x = mechanism.predict(u, parents)
    assert ((x > low) & (x < high)).all()
    assert torch.isfinite(mechanism.abduct(x, parents)).all()


@pytest.mark.parametrize("name", WEIGHTED)
def test_gradients_reach_every_weight(name):
    mechanism = fitted(name)
    weights = dict(mechanism.named_parameters())
    if not getattr(mechanism, "corrected", True):
        weights = {key: each for key, each in weights.items() if not key.startswith("conditional")}
    u, p = (torch.randn(400, dim, dtype=torch.float64) for dim in (mechanism.noise_dim, mechanism.parents_dim))
    x = mechanism.predict(u, p)
    mechanism.requires_grad_(True)
    try:
        mechanism.loss(x, p).mean().backward()
        for key, weight in weights.items():
            assert weight.grad is not None, key
            assert torch.isfinite(weight.grad).all(), key
            assert weight.numel() == 0 or "mask" in key or weight.grad.abs().sum() > 0, key
    finally:
        mechanism.requires_grad_(False)
        mechanism.zero_grad()


@pytest.mark.parametrize("name", [*NOISY, "predictor", "predictor by a module"])
def test_kind_of_inverse_is_stated(name):
    mechanism = fitted(name)
    assert mechanism.exact
    assert mechanism.pinnable == (name in NOISY)
    assert mechanism.deterministic == (name not in NOISY)
    assert mechanism.given == (name not in LEARNED)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (
            lambda m: m.predict(torch.zeros(5, 2), torch.zeros(5, 2)),
            "expected noise with shape (*batch, 1), got (5, 2)",
        ),
        (lambda m: m.abduct(torch.zeros(5, 1), torch.zeros(5, 3)), "expected parents with shape (*batch, 2)"),
        (lambda m: m.abduct(torch.zeros(()), torch.zeros(2)), "got ()"),
        (lambda m: m.log_prob(torch.zeros(5, 1), torch.zeros(4, 2)), "one number of rows"),
    ],
)
def test_wrong_shapes_are_named(call, part):
    with pytest.raises(bc.DataError) as caught:
        call(fitted("flow"))
    assert part in str(caught.value)


def test_a_mechanism_alone_is_not_ready():
    with pytest.raises(bc.NotFittedError, match="has no variable yet"):
        bc.Flow().predict(torch.zeros(3, 1), torch.zeros(3, 0))
