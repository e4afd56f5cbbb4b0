"""The spline without a graph against zuko's transform, and against itself by differences."""

import pytest
import torch

from deepbc.mechanisms.splines import Spline
from deepbc.nn.conditioner import Constant
from deepbc.nn.mlp_jacobian import ALL
from deepbc.training.adam import Adam


@pytest.fixture
def spline():
    made = Spline(Constant(1, 23)).requires_grad_(False)
    stream = torch.Generator().manual_seed(0)
    made.parameters_of.bias.add_(torch.randn(1, 23, generator=stream, dtype=torch.float64))
    return made


def places():
    inside = torch.linspace(-5, 5, 4001, dtype=torch.float64)
    return torch.cat([inside, inside * 3])[:, None]


def test_values_are_those_of_zuko(spline):
    at = places()
    none = at[:, :0]
    expected = spline.only_inward(at, none), spline.outward(at, none, slice(None))
    with torch.no_grad():
        inside, outside = spline.only_inward(at, none), spline.outward(at, none, slice(None))
    assert torch.allclose(inside, expected[0], rtol=0, atol=1e-13)
    assert torch.allclose(outside, expected[1], rtol=0, atol=1e-13)
    assert torch.allclose(spline._bins().outward(inside), at, rtol=0, atol=1e-11)


def test_slopes_are_those_of_differences(spline):
    at = places() + 1e-4
    bins, h = spline._bins(), 1e-6
    for plain, sloped in ((bins.inward, bins.inward_and_jacobian), (bins.outward, bins.outward_and_jacobian)):
        value, slope = sloped(at)
        assert torch.equal(value, plain(at))
        assert torch.allclose(slope, (plain(at + h) - plain(at - h)) / (2 * h), rtol=1e-4, atol=1e-6)


def test_spline_is_the_identity_outside_its_box(spline):
    far = torch.tensor([[5.1], [-7.3], [41.7], [-1e9], [1e200], [-1e300]], dtype=torch.float64)
    for sloped in (spline._bins().inward_and_jacobian, spline._bins().outward_and_jacobian):
        value, slope = sloped(far)
        assert torch.equal(value, far)
        assert torch.equal(slope, torch.ones_like(far))


def test_infinities_stay(spline):
    ends = torch.tensor([[torch.inf], [-torch.inf]], dtype=torch.float64)
    with torch.no_grad():
        assert torch.equal(spline.only_inward(ends, ends[:, :0]), ends)
        assert torch.equal(spline.outward(ends, ends[:, :0], slice(None)), ends)


def test_weights_that_an_optimiser_moves_are_seen(spline):
    at = places()
    optimiser = Adam(spline, 0.1)
    for _ in range(3):
        spline.only_inward(at, at[:, :0]).square().sum().backward()
        optimiser.step()
        with torch.no_grad():
            seen = spline.only_inward(at, at[:, :0])
            assert torch.equal(spline.inward_and_jacobian(at, at[:, :0], ALL)[0], spline._bins().inward(at))
        assert torch.allclose(seen, spline.only_inward(at, at[:, :0]), rtol=0, atol=1e-13)


def test_new_weights_are_seen(spline):
    at = places()
    with torch.no_grad():
        before = spline.only_inward(at, at[:, :0])
        spline.parameters_of.bias.mul_(0.5)
        after = spline.only_inward(at, at[:, :0])
    assert (before - after).abs().max() > 1e-2
    assert torch.allclose(after, spline.only_inward(at, at[:, :0]), rtol=0, atol=1e-13)
