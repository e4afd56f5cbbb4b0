"""The Pareto diagnostic against arviz, mixtures against scipy, weighted draws and chains against known densities."""

import math

import numpy as np
import pytest
import torch
from arviz_stats.base import array_stats
from scipy import integrate, stats

import deepbc as bc
from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.adaptive_importance import importance_samples, log_evidence
from deepbc.samplers.mixture import Mixture
from deepbc.samplers.pareto import pareto_k, pareto_reliable
from deepbc.samplers.split_hmc import Chains
from deepbc.samplers.standardized import Standardized
from deepbc.samplers.target import Target
from deepbc.solvers.problem import Cost, Term


def space(law, rows: int, free: int) -> Standardized:
    """Densities `exp(law(y) - |y|^2 / 2)` in standardized coordinates."""
    zero = torch.zeros(rows, free, dtype=torch.float64)
    half = torch.full((free,), 1.0, dtype=torch.float64)

    return Standardized(
        Target(zero, zero, zero, half, {}, lambda v, given: (v, law(v)), Cost([Term(bc.Squared(), 0.5, free)], zero))
    )


def streams(rows: int, seed: int = 0) -> Streams:
    return Streams.of(seed, [torch.arange(rows, dtype=torch.float64)[:, None]])


@pytest.mark.parametrize("count", [100, 1_000, 20_000])
def test_pareto_k_is_that_of_arviz(count):
    chosen = np.random.default_rng(0)
    log_weights = np.stack([spread * chosen.standard_t(5, size=count) for spread in (0.3, 0.6, 1.0, 2.0)])
    # Of log-likelihoods, whose reciprocals are the weights.
    theirs = [array_stats.psislw(-each)[1] for each in log_weights]
    assert np.allclose(pareto_k(torch.tensor(log_weights)), theirs, rtol=1e-8, atol=1e-8)


def test_equal_weights_are_reliable_and_no_weights_are_not():
    log_weights = torch.stack([torch.zeros(200), torch.full((200,), -torch.inf)]).double()
    assert pareto_k(log_weights)[0] == -torch.inf
    assert pareto_reliable(log_weights).tolist() == [True, False]


def mixture() -> tuple[Mixture, list]:
    """A mixture of three normal densities, and the same of scipy."""
    chosen = np.random.default_rng(1)
    mean, root = chosen.normal(size=(3, 2)), chosen.normal(size=(3, 2, 2))
    covariance = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(2)
    values, axes = np.linalg.eigh(covariance)
    symmetric = (axes * np.sqrt(values)[:, None]) @ axes.transpose(0, 2, 1)
    parts = (torch.tensor(each)[None] for each in (mean, symmetric, np.log([0.5, 0.3, 0.2])))

    return Mixture(*parts), [stats.multivariate_normal(*each) for each in zip(mean, covariance, strict=True)]


def test_mixture_has_the_density_that_it_draws_from():
    ours, theirs = mixture()
    y = ours.draw(20_000, streams(1))
    density = sum(weight * part.pdf(y[0].numpy()) for weight, part in zip([0.5, 0.3, 0.2], theirs, strict=True))
    assert np.allclose(ours.log_prob(y)[0].exp(), density)
    mean = sum(weight * part.mean for weight, part in zip([0.5, 0.3, 0.2], theirs, strict=True))
    assert np.allclose(y[0].mean(0), mean, atol=0.05)
    # The Kullback-Leibler divergence of a density to itself is 0, so its EM step leaves it where it is.
    fitted = ours.fitted(y, torch.zeros(1, 20_000, dtype=torch.float64))
    assert np.allclose(fitted.mean, ours.mean, atol=0.06)
    assert np.allclose(fitted.log_weight.exp(), ours.log_weight.exp(), atol=0.02)


def test_evidence_of_a_banana_is_that_of_quadrature():
    # The density exp(-10 (b - a^2)^2) times a standard normal one.
    def law(v):
        return -10 * (v[:, 1] - v[:, 0].square()).square()

    known, _ = integrate.dblquad(
        lambda b, a: math.exp(-10 * (b - a * a) ** 2 - 0.5 * (a * a + b * b)), -6, 6, -6, 6, epsabs=1e-8
    )
    off = log_evidence(space(law, 50, 2).target, 400, streams(50)) - math.log(known)
    assert off.mean().item() == pytest.approx(0, abs=4 * off.std().item() / math.sqrt(50))
    assert off.std() < 0.05


def unimproved(law, rows: int, free: int, y: torch.Tensor) -> Chains:
    """Chains with a standard normal approximation and proposal."""
    target, mean = space(law, rows, free), torch.zeros(rows, 1, free, dtype=torch.float64)
    normal = Mixture(mean, torch.eye(free).double().expand(rows, 1, free, free), mean[..., 0])
    steps = torch.full((rows,), 3)

    return Chains(
        target, streams(rows), normal, normal.mean, normal.root, y, *target.gradients(y), steps, torch.ones(rows), 0
    )


def test_chains_keep_a_skewed_density_from_a_poor_start():
    def law(v):
        return 3 * v[:, 0] - (2 * v[:, 0]).exp()

    chains = unimproved(law, 20, 1, torch.full((20, 200, 1), -3.0).double()).adapted()
    _, states = chains.run(20)
    ends = states[:, -1, :, 0].numpy()
    grid = np.linspace(-8, 4, 60_001)
    density = np.exp(3 * grid - np.exp(2 * grid) - 0.5 * grid**2)
    below = (density.cumsum() - density / 2) / density.sum()
    assert stats.kstest(ends.flatten(), lambda q: np.interp(q, grid, below)).pvalue > 0.01


def test_trajectories_alone_keep_a_density():
    def law(v):
        return -(v.square() - 1).square().sum(-1)

    grid = np.linspace(-4, 4, 40_001)
    density = np.exp(-((grid**2 - 1) ** 2) - 0.5 * grid**2)
    below = (density.cumsum() - density / 2) / density.sum()
    start = np.interp(np.random.default_rng(0).uniform(size=(10, 200, 2)), below, grid)
    chains = unimproved(law, 10, 2, torch.tensor(start))
    for _ in range(20):
        chains = chains.hamiltonian_move()
        assert (chains.rate > 0.4).all()
    assert stats.kstest(chains.y.flatten(), lambda q: np.interp(q, grid, below)).pvalue > 0.01
    assert abs(np.corrcoef(chains.y.flatten(), start.flatten())[0, 1]) < 0.2


def test_trajectories_of_a_normal_density_are_always_accepted():
    y = torch.randn(3, 50, 80, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    chains = unimproved(lambda v: 0 * v[:, 0], 3, 80, y).hamiltonian_move()
    assert torch.allclose(chains.rate, torch.ones(3).double())


def test_many_bent_dimensions_need_chains():
    # Independent skewed coordinates, of which each costs some of the weights: 60 of them cost all.
    def law(v):
        return (2 * v - (1.2 * v).exp()).sum(-1)

    target, random = space(law, 1, 100), streams(1)
    _, left, _ = importance_samples(target, 100, random, lambda: None)
    assert len(left) > 0
    draws = bc.Hamiltonian().sample(target.target, 100, random, lambda: None)
    assert draws.trusted.all()
    grid = np.linspace(-8, 6, 60_001)
    density = np.exp(2 * grid - np.exp(1.2 * grid) - 0.5 * grid**2)
    below = (density.cumsum() - density / 2) / density.sum()
    assert stats.kstest(draws.v.flatten(), lambda q: np.interp(q, grid, below)).pvalue > 0.01


def test_uneven_rows_do_not_depend_on_their_batch():
    # Each row takes its rounds and trajectories; what is rounded begins each of them anew.
    def law(v):
        return 3 * torch.sin(2 * v[:, 0] + v[:, 1]) - 4 * (v[:, 2] - v[:, 0].square()).square()

    target, random = space(law, 12, 3).target, streams(12)
    whole = bc.Hamiltonian().sample(target, 60, random, lambda: None)
    for rows in (torch.tensor([7]), torch.arange(12).flip(0), torch.tensor([3, 9, 1])):
        part = bc.Hamiltonian().sample(target.select(rows), 60, random.select(rows), lambda: None)
        assert torch.allclose(part.v, whole.v[:, rows], rtol=0, atol=1e-9)
        assert torch.equal(part.trusted, whole.trusted[rows])
