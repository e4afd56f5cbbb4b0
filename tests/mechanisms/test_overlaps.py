"""The overlap of two regions of the noise, against counts of draws, sums and closed forms."""

import pytest
import torch

from deepbc.mechanisms.overlaps import _count, overlap
from deepbc.mechanisms.regions import Interval, Wedge

DRAWS = 1_000_000


def labels(count):
    """All labels of a category as indicators, the base first."""
    return torch.cat([torch.zeros(1, count), torch.eye(count)]).double()


@pytest.mark.parametrize(("count", "shift"), [(2, 0.3), (3, 1.0), (4, 2.0), (3, 0.0)])
def test_overlaps_of_classes_are_those_of_draws(count, shift):
    draw = torch.Generator().manual_seed(count)
    u = torch.randn(DRAWS, count, generator=draw, dtype=torch.double)
    means = torch.randn(count, generator=draw).double()
    moved = means + shift * torch.randn(count, generator=draw).double()
    was, now = (torch.cat([torch.ones(DRAWS, 1), each + u], -1).argmax(-1) for each in (means, moved))
    every = labels(count)
    for old in range(count + 1):
        before = Wedge(every[[old]].expand(count + 1, -1), means.expand(count + 1, -1), 1.0)
        mass, mean = overlap(before, Wedge(every, moved.expand(count + 1, -1), 1.0))
        assert mass.sum().item() == pytest.approx(before.log_mass()[0].exp().item(), abs=1e-3)
        for new in range(count + 1):
            there = (was == old) & (now == new)
            assert mass[new].item() == pytest.approx(there.double().mean().item(), abs=2.5e-3)
            if there.sum() > 5_000:
                assert torch.allclose(mean[new], u[there].mean(0), atol=6 / there.sum().sqrt())


def test_overlaps_of_intervals_are_normal_masses():
    old, new = (
        Interval(torch.tensor([[low]]).double(), torch.tensor([[high]]).double()) for low, high in ((-1, 1), (0, 3))
    )
    mass, mean = overlap(old, new)
    normal = torch.distributions.Normal(0.0, 1.0)
    assert mass.item() == pytest.approx((normal.cdf(torch.tensor(1.0)) - 0.5).item(), abs=1e-6)
    density = [normal.log_prob(torch.tensor(float(x))).exp().item() for x in (0, 1)]
    assert mean.item() == pytest.approx((density[0] - density[1]) / mass.item(), abs=1e-5)
    apart = Interval(torch.tensor([[2.0]]).double(), torch.tensor([[3.0]]).double())
    assert overlap(old, apart)[0].item() == 0


def test_regions_of_any_kind_are_counted():
    every, means = labels(3), torch.tensor([0.5, -0.2, 1.0]).double()
    old = Wedge(every[[2]].expand(4, -1), means.expand(4, -1), 1.0)
    new = Wedge(every, (means + torch.tensor([0.4, -0.3, 0.2])).expand(4, -1), 1.0)
    exact, counted = overlap(old, new), _count(old, new)
    assert torch.allclose(exact[0], counted[0], atol=0.01)
    there = exact[0] > 0.02
    assert torch.allclose(exact[1][there], counted[1][there], atol=0.1)
