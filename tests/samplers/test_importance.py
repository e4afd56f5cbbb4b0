"""The Pareto diagnostic against arviz, mixtures against scipy, weighted draws and chains against known densities."""

import math

import numpy as np
import pytest
import torch
from arviz_stats.base import array_stats
from scipy import integrate, stats

import deepbc as bc
from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.adaptive_importance import more_draws
from deepbc.samplers.bridge_sampling import bridge
from deepbc.samplers.mixture import Mixture
from deepbc.samplers.pareto import pareto_k, pareto_reliable
from deepbc.samplers.split_hmc import Chains
from deepbc.samplers.target import Standardized, Target
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
    target, random, draws = space(law, 50, 2), streams(50), None
    for number in range(8):
        draws = more_draws(target, draws, 400, random, number)
    assert draws.reliable().all()
    off = draws.log_evidence - math.log(known)
    assert off.mean().item() == pytest.approx(0, abs=4 * off.std().item() / math.sqrt(50) + 1e-9)
    assert off.std() < 0.05


def test_chains_keep_a_skewed_density_from_a_poor_start():
    def law(v):
        return 3 * v[:, 0] - (2 * v[:, 0]).exp()

    target, random = space(law, 20, 1), streams(20)
    draws = more_draws(target, None, 100, random, 0)
    chains = Chains(target, torch.full((20, 200, 1), -3.0).double(), draws.mixture, draws.fitted, random)
    chains.adapt()
    ends = chains.run(20)[:, -1, :, 0].numpy()
    grid = np.linspace(-8, 4, 60_001)
    density = np.exp(3 * grid - np.exp(2 * grid) - 0.5 * grid**2)
    below = (density.cumsum() - density / 2) / density.sum()
    assert stats.kstest(ends.flatten(), lambda q: np.interp(q, grid, below)).pvalue > 0.01


def test_hamiltonian_moves_alone_keep_a_density():
    # Of one normal density the moves are exact rotations; of another one the acceptance step makes them right.
    target, random = space(lambda v: -(v.square() - 1).square().sum(-1), 10, 2), streams(10)
    draws = more_draws(target, None, 100, random, 0)
    start, _ = draws.resample(100, random)
    chains = Chains(target, start, draws.mixture, draws.fitted, random)
    for number in range(60):
        chains._hamiltonian(number)
    grid = np.linspace(-4, 4, 40_001)
    density = np.exp(-((grid**2 - 1) ** 2) - 0.5 * grid**2)
    below = (density.cumsum() - density / 2) / density.sum()
    assert stats.kstest(chains.y.flatten(), lambda q: np.interp(q, grid, below)).pvalue > 0.01


def test_bridge_has_the_constant_of_a_normal_density():
    chosen = np.random.default_rng(0)
    q, p = chosen.normal(size=(30, 2_000)), 1 + 0.5 * chosen.normal(size=(30, 1_000))
    ratio = [2.0 + stats.norm(1, 0.5).logpdf(each) - stats.norm.logpdf(each) for each in (q, p)]
    log_z = bridge(*(torch.tensor(each) for each in ratio))
    assert log_z.mean().item() == pytest.approx(2.0, abs=0.02)
    assert log_z.std() < 0.06
