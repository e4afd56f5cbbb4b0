"""One contract for every mechanism; a new one is a line in MECHANISMS."""

import math

import pytest
import torch

import deepbc as bc
from deepbc.data.variables import OPEN, Family, Variable
from deepbc.numerics.seeding import generator
from deepbc.training.checkpoint import Checkpoint
from deepbc.training.distributed import Share
from deepbc.training.trainer import Split, Trainer, Training

SHORT = Training(epochs=30, patience=5)


def shear(u, parents):
    return torch.cat([u[:, :1], u[:, 1:] * u[:, :1].cosh()], dim=-1)


def unshear(x, parents):
    return torch.cat([x[:, :1], x[:, 1:] / x[:, :1].cosh()], dim=-1)


def by_parents(u, parents):
    return parents["p"].sum(-1, keepdim=True) + (0.3 * u).sinh()


def from_parents(x, parents):
    return (x - parents["p"].sum(-1, keepdim=True)).asinh() / 0.3


# name -> (mechanism, value dimension, parents' dimension, bounds)
MECHANISMS = {
    "flow of a root": (lambda: bc.Flow(), 1, 0, OPEN),
    "flow": (lambda: bc.Flow(), 1, 2, OPEN),
    "flow with a correction": (lambda: bc.Flow(correction=True), 1, 2, OPEN),
    "flow between two bounds": (lambda: bc.Flow(), 1, 1, (0.0, 1.0)),
    "flow above a bound": (lambda: bc.Flow(), 1, 1, (-2.0, math.inf)),
    "flow below a bound": (lambda: bc.Flow(), 1, 1, (-math.inf, 3.0)),
    "flow of a vector": (lambda: bc.Flow(), 3, 2, OPEN),
    "flow of a root vector": (lambda: bc.Flow(correction=True), 2, 0, (0.0, math.inf)),
    "flow with the spline at the noise": (lambda: bc.Flow(layers=["spline", "spline", "affine"]), 1, 2, OPEN),
    "flow with a constant scale": (lambda: bc.Flow(layers=["constant affine", "spline", "affine"]), 2, 2, OPEN),
    "flow of conditional splines": (lambda: bc.Flow(layers=["conditional spline"] * 2, hidden=[8]), 1, 2, OPEN),
    "linear flow": (lambda: bc.Flow(hidden=[]), 2, 1, OPEN),
    "linear": (lambda: bc.Linear(), 1, 2, OPEN),
    "linear of a root": (lambda: bc.Linear(), 1, 0, OPEN),
    "linear of a vector": (lambda: bc.Linear(), 3, 2, OPEN),
    "linear between bounds": (lambda: bc.Linear(), 1, 1, (0.0, 1.0)),
    "additive": (lambda: bc.Additive(), 1, 2, OPEN),
    "additive of a vector": (lambda: bc.Additive(), 2, 2, (0.0, math.inf)),
    "equation": (lambda: bc.Equation(predict=by_parents, abduct=from_parents), 1, 2, OPEN),
    "equation of a vector": (lambda: bc.Equation(predict=shear, abduct=unshear, noise=2, value=2), 2, 0, OPEN),
    "predictor": (lambda: bc.Predictor(lambda parents: parents["p"].prod(-1)), 1, 2, OPEN),
    "predictor by a module": (lambda: bc.Predictor(torch.nn.Linear(2, 2), value=2), 2, 2, OPEN),
}
NOISY = [name for name in MECHANISMS if not name.startswith("predictor")]
LEARNED = [name for name in NOISY if not name.startswith("equation")]
NUMBERS = [name for name, (_, value, _, _) in MECHANISMS.items() if value == 1]


def draw(value, parents, bounds, rows=400):
    """Rows of a skewed law that depends on the parents, inside the bounds."""
    stream = generator(0, "rows")
    p = torch.randn(rows, parents, generator=stream, dtype=torch.float64)
    x = torch.randn(rows, value, generator=stream, dtype=torch.float64).cumsum(-1)
    x = (0.5 * x).exp() + p.sum(-1, keepdim=True) + 0.2 * p.square().sum(-1, keepdim=True)
    low, high = bounds
    if math.isfinite(low) and math.isfinite(high):
        x = low + (high - low) * torch.sigmoid(x)
    elif math.isfinite(low):
        x = low + x.exp()
    elif math.isfinite(high):
        x = high - (-x).exp()
    return x, p


def rows_of(x, p):
    return Split(x, p, torch.arange(300), torch.arange(300, len(x)))


@pytest.fixture(scope="module")
def fitted():
    """Every mechanism, fitted once."""
    made = {}
    for name, (make, value, parents, bounds) in MECHANISMS.items():
        family = Family(
            Variable("x", () if value == 1 else (value,), *bounds), (Variable("p", (parents,)),) if parents else ()
        )
        mechanism = make().bind(family, generator(0, name))
        rows = rows_of(*draw(value, parents, bounds))
        if name == "predictor by a module" or name == "predictor":
            x = mechanism.predict(rows.parents[:, :0], rows.parents)
            rows = Split(x, rows.parents, *[torch.arange(len(x))] * 2)
        loop = Trainer(SHORT, rows, "x", 0, Share(), Checkpoint(None, ""), lambda *told: None)
        mechanism.fit(rows, loop)
        made[name] = mechanism
    return made


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("batch", [(), (5,), (2, 3), (0,)])
def test_shapes_follow_the_batch(fitted, name, batch):
    mechanism = fitted[name]
    u = torch.randn(*batch, mechanism.noise_dim, dtype=torch.float64)
    parents = torch.randn(*batch, mechanism.parents_dim, dtype=torch.float64)

    x = mechanism.predict(u, parents)

    assert x.shape == (*batch, mechanism.value_dim)
    assert mechanism.abduct(x, parents).shape == (*batch, mechanism.noise_dim)
    assert mechanism.log_prob(x, parents).shape == batch
    assert mechanism.log_volume(x, parents).shape == batch


@pytest.mark.parametrize("name", NOISY)
def test_predict_inverts_abduct_far_out(fitted, name):
    mechanism = fitted[name]
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
def test_abduct_inverts_predict_in_the_data(fitted, name):
    mechanism = fitted[name]
    stream = generator(2, name)
    u = torch.randn(500, mechanism.noise_dim, generator=stream, dtype=torch.float64)
    parents = torch.randn(500, mechanism.parents_dim, generator=stream, dtype=torch.float64)
    assert (mechanism.abduct(mechanism.predict(u, parents), parents) - u).abs().max() < 1e-8


def differences(law, inputs, step=1e-5):
    """The derivatives of a law `(rows, 1)` by each column of its inputs, from a little to both sides."""
    columns = [(law(inputs + way) - law(inputs - way)) / (2 * step) for way in step * torch.eye(inputs.shape[-1])]
    return torch.cat([inputs[:, :0], *columns], dim=-1)


@pytest.mark.parametrize("name", NUMBERS)
def test_slopes_are_those_of_differences(fitted, name):
    mechanism = fitted[name]
    stream = generator(4, name)
    u = 1.5 * torch.randn(60, mechanism.noise_dim, generator=stream, dtype=torch.float64)
    parents = torch.randn(60, mechanism.parents_dim, generator=stream, dtype=torch.float64)

    x, by_noise, by_parents = mechanism.predict_and_jacobian(u, parents)

    with torch.no_grad():
        assert torch.equal(x, mechanism.predict(u, parents))
    assert torch.allclose(by_noise, differences(lambda u: mechanism.predict(u, parents), u), rtol=1e-5, atol=1e-7)
    expected = differences(lambda parents: mechanism.predict(u, parents), parents)
    assert torch.allclose(by_parents, expected, rtol=1e-5, atol=1e-7)
    if name in NOISY:
        again, by_parents = mechanism.abduct_and_jacobian(mechanism.reduce(x), parents)
        assert torch.allclose(again, u, rtol=0, atol=1e-8)
        expected = differences(lambda parents: mechanism.abduct(x, parents), parents)
        assert torch.allclose(by_parents, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NOISY)
def test_log_volume_is_that_of_the_autograd_jacobian(fitted, name):
    mechanism = fitted[name]
    stream = generator(3, name)
    u = 2 * torch.randn(20, mechanism.noise_dim, generator=stream, dtype=torch.float64)
    parents = torch.randn(20, mechanism.parents_dim, generator=stream, dtype=torch.float64)
    u = torch.cat([u, u[:8].sign() * 10])
    parents = torch.cat([parents, parents[:8]])
    x = mechanism.predict(u, parents)

    for row in range(28):
        jacobian = torch.autograd.functional.jacobian(lambda each: mechanism.abduct(each, parents[row]), x[row])  # noqa: B023
        expected = torch.linalg.slogdet(jacobian).logabsdet
        assert abs(mechanism.log_volume(x[row], parents[row]) - expected) < 1e-8
        # Far out, next to a bound, the value tells less of the noise.
        normal = torch.distributions.Normal(0, 1).log_prob(u[row]).sum()
        assert row >= 20 or abs(mechanism.log_prob(x[row], parents[row]) - expected - normal) < 1e-7


def test_log_volume_of_an_equation_is_the_closed_form(fitted):
    stream = generator(10)
    x = 10 * torch.randn(50, 2, generator=stream, dtype=torch.float64)
    parents = torch.randn(50, 2, generator=stream, dtype=torch.float64)
    # u = asinh(x - p1 - p2) / 0.3
    expected = -(0.3 * (1 + (x[:, 0] - parents.sum(-1)).square()).sqrt()).log()
    assert torch.allclose(fitted["equation"].log_volume(x[:, :1], parents), expected, rtol=0, atol=1e-12)
    # u = (x1, x2 / cosh(x1))
    volume = fitted["equation of a vector"].log_volume(x, parents[:, :0])
    assert torch.allclose(volume, -x[:, 0].cosh().log(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in NOISY if MECHANISMS[name][1] == 1])
def test_density_integrates_to_one(fitted, name):
    mechanism = fitted[name]
    parents = torch.randn(mechanism.parents_dim, generator=generator(4, name), dtype=torch.float64)
    ends = mechanism.predict(torch.tensor([[-8.0], [8.0]], dtype=torch.float64), parents.expand(2, -1)).squeeze(-1)
    x = mechanism.predict(torch.linspace(-8, 8, 20_001, dtype=torch.float64)[:, None], parents.expand(20_001, -1))

    density = mechanism.log_prob(x, parents.expand(20_001, -1)).exp()

    assert (x.squeeze(-1).diff() > 0).all()
    assert ends[0] < ends[1]
    assert abs(torch.trapezoid(density, x.squeeze(-1)).item() - 1) < 1e-3


@pytest.mark.parametrize("name", ["additive of a vector", "flow of a root vector"])
def test_vector_density_integrates_to_one(fitted, name):
    mechanism = fitted[name]
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


@pytest.mark.parametrize("name", [name for name in NOISY if MECHANISMS[name][3] != OPEN])
def test_predictions_never_leave_the_bounds(fitted, name):
    low, high = MECHANISMS[name][3]
    mechanism = fitted[name]
    u = 100 * torch.randn(2000, mechanism.noise_dim, generator=generator(5), dtype=torch.float64)
    parents = 100 * torch.randn(2000, mechanism.parents_dim, generator=generator(6), dtype=torch.float64)
    x = mechanism.predict(u, parents)
    assert ((x > low) & (x < high)).all()
    assert torch.isfinite(mechanism.abduct(x, parents)).all()


@pytest.mark.parametrize("name", [name for name in LEARNED if not name.startswith("linear") or "flow" in name])
def test_gradients_reach_every_weight(fitted, name):
    mechanism = fitted[name]
    weights = dict(mechanism.named_parameters())
    if not getattr(mechanism, "corrected", True):
        weights = {key: each for key, each in weights.items() if not key.startswith("conditional")}
    x, p = draw(*MECHANISMS[name][1:])
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


@pytest.mark.parametrize("name", MECHANISMS)
def test_settings_make_the_same_mechanism_again(fitted, name):
    mechanism = fitted[name]
    again = type(mechanism)(**mechanism.settings()).bind(mechanism.family, generator(7))
    again.load_state_dict(mechanism.state_dict())
    u = torch.randn(10, mechanism.noise_dim, generator=generator(8), dtype=torch.float64)
    parents = torch.randn(10, mechanism.parents_dim, generator=generator(9), dtype=torch.float64)
    assert torch.equal(again.predict(u, parents), mechanism.predict(u, parents))
    assert repr(again) == repr(mechanism)
    assert repr(again).startswith(type(mechanism).__name__)


@pytest.mark.parametrize("name", MECHANISMS)
def test_kind_of_inverse_is_stated(fitted, name):
    mechanism = fitted[name]
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
def test_wrong_shapes_are_named(fitted, call, part):
    with pytest.raises(bc.DataError) as caught:
        call(fitted["flow"])
    assert part in str(caught.value)


def test_a_mechanism_alone_is_not_ready():
    with pytest.raises(bc.NotFittedError, match="has no variable yet"):
        bc.Flow().predict(torch.zeros(3, 1), torch.zeros(3, 0))
