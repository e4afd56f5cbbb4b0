"""The contract of samplers, and draws against closed forms and quadrature."""

import numpy as np
import pytest
import torch
from scipy import stats

import deepbc as bc
from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.target import Target
from deepbc.solvers.problem import Cost, Term
from deepbc.testing import check_sampler

SAMPLERS = [bc.Hamiltonian(), bc.Langevin(step=0.02, steps=300)]


def target(law, rest: torch.Tensor, given=None) -> Target:
    """A density without a law of its own but for what is added to the squared distance."""
    free = rest.shape[-1]
    spread = torch.full((free,), 0.5**0.5, dtype=torch.float64)

    return Target(rest, rest, rest, spread, given or {}, law, Cost([Term(bc.Squared(), 1.0, free)], rest))


def draw(sampler, of: Target, samples: int, seed: int = 0):
    return sampler.sample(of, samples, Streams.of(seed, [of.rest]), lambda: None)


def normal_target(rows: int, free: int) -> tuple[Target, torch.Tensor, torch.Tensor]:
    """Correlated normal densities, with their means and covariances."""
    stream = torch.Generator().manual_seed(free)
    root = torch.randn(rows, free, free, generator=stream, dtype=torch.float64)
    precision = root @ root.mT
    rest = torch.randn(rows, free, generator=stream, dtype=torch.float64)
    of = target(
        lambda v, given: (v, -(v.unsqueeze(-2) @ given["p"] @ v.unsqueeze(-1)).flatten()), rest, {"p": precision}
    )
    covariance = torch.linalg.inv(2 * (precision + torch.eye(free, dtype=torch.float64)))

    return of, (covariance @ (2 * rest).unsqueeze(-1)).squeeze(-1), covariance


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_contract(sampler):
    check_sampler(sampler)


@pytest.mark.parametrize("free", [1, 3, 8])
def test_hamiltonian_draws_of_normal_densities(free):
    of, mean, covariance = normal_target(100, free)
    draws = draw(bc.Hamiltonian(), of, 1000)
    sd = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    off = (draws.v.mean(0) - mean) / sd * 1000**0.5
    assert off.square().mean() < 1.1
    centred = (draws.v - mean) / sd
    products = (centred.unsqueeze(-1) * centred.unsqueeze(-2)).mean(0)
    assert (products - covariance / sd.unsqueeze(-1) / sd.unsqueeze(-2)).abs().mean() < 0.046
    assert (draws.v.std(0) / sd).mean() == pytest.approx(1, abs=0.01)
    assert draws.trusted.all()
    assert draws.effective.min() > 800
    assert (draws.r_hat < 1.02).double().mean() >= 0.99


ODD_DENSITIES = {
    "skewed": lambda v: 3 * v - (2 * v).exp(),
    "wide tails": lambda v: 0.99 * v.square() - 3 * v.square().log1p() - 2 * v.abs(),
    "two modes": lambda v: -2 * (v.square() - 0.5).square() + v.square(),
    "steep": lambda v: -400 * (v - 0.3).square(),
    "wall": lambda v: torch.where(v > 0, 2 * v.clamp_min(1e-300).log(), -torch.inf),
}


@pytest.mark.parametrize("name", ODD_DENSITIES)
def test_hamiltonian_draws_of_other_densities(name):
    added = ODD_DENSITIES[name]
    rest = torch.linspace(0.1, 1, 40, dtype=torch.float64)[:, None]
    draws = draw(bc.Hamiltonian(), target(lambda v, given: (v, added(v[:, 0])), rest), 400)
    assert draws.trusted.all()

    grid = torch.linspace(-8, 8, 160_001, dtype=torch.float64)
    log_density = added(grid) - (grid - rest).square()
    density = (log_density - log_density.amax(-1, keepdim=True)).exp()
    below = ((density.cumsum(-1) - density / 2) / density.sum(-1, keepdim=True)).numpy()
    rejected = [
        stats.kstest(draws.v[:, row, 0], lambda q, row=row: np.interp(q, grid, below[row])).pvalue < 0.05
        for row in range(len(rest))
    ]
    assert np.mean(rejected) < 0.2


def test_what_has_no_density_is_not_trusted():
    nowhere = target(lambda v, given: (v, torch.full_like(v[:, 0], torch.nan) * v[:, 0]), torch.zeros(3, 1).double())
    assert not draw(bc.Hamiltonian(), nowhere, 40).trusted.any()


def narrow_and_wide(rows: int) -> tuple[Target, float]:
    """Densities of a wide mode and of one that is 10 times as narrow, and the mass of the narrow one."""
    place, precision, weight = 1.0, 100.0, 5.0

    def law(v, given):
        narrow = np.log(weight * precision) - precision * (v - place).square().sum(-1)
        return v, torch.logaddexp(narrow, torch.zeros_like(narrow))

    rest = torch.linspace(0, 1e-6, rows, dtype=torch.float64)[:, None].expand(-1, 2).contiguous()
    # Both parts are normal densities, and the product of two normal ones is a third.
    part = precision / (precision + 1)
    odds = weight * part * np.exp(-2 * place**2 * part)

    return target(law, rest), odds / (1 + odds)


def test_draws_are_true_to_both_modes():
    of, mass = narrow_and_wide(40)
    draws = draw(bc.Hamiltonian(), of, 1000)
    found = ((draws.v - 1).square().sum(-1) < 0.3**2).double().mean().item()
    assert found == pytest.approx(mass, rel=0.1)
    assert draws.trusted.all()


def test_langevin_at_the_papers_setting_hardly_moves():
    of, _, covariance = normal_target(4, 1)
    draws = draw(bc.Langevin(), of, 100)
    assert (draws.v.std(0) < 0.5 * covariance[:, 0].sqrt()).all()
    assert not draws.trusted.any()


def test_langevin_that_diverges_says_so():
    of, _, _ = normal_target(3, 2)
    draws = draw(bc.Langevin(step=5.0, steps=200), of, 20)
    assert draws.v.isnan().any()
    assert not draws.trusted.any()
