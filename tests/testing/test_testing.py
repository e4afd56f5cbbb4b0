"""The contract tests say of a broken class what is broken."""

import math

import pytest
import torch

import deepbc as bc
from deepbc.solvers import Solution
from deepbc.testing import check_distance, check_mechanism, check_sampler, check_solver


class Least(bc.Solver):
    """Solves as another, and moves what may not move."""

    def solve(self, problem):
        found = bc.Exact().solve(problem)
        return Solution(torch.where(problem.movable, found.noises, found.noises + 1), found.status)


class Narrow(bc.Sampler):
    """Draws as another, half as wide."""

    solver = bc.Exact()

    def rounds(self, samples):
        return bc.Hamiltonian().rounds(samples)

    def sample(self, target, samples, streams, on_progress):
        draws = bc.Hamiltonian().sample(target, samples, streams, on_progress)
        draws.v.copy_((draws.v + draws.v.mean(0)) / 2)
        return draws


class SlowDraws(bc.Distance):
    """The squared distance, whose draws belong to half of it."""

    squared, drawable = True, True

    def _value(self, u_star, u):
        return (u_star - u).square().sum(-1)

    def draw(self, uniform, weight):
        return torch.special.ndtri(uniform) / math.sqrt(weight)


def law(predict, abduct):
    return bc.Equation(predict=predict, abduct=abduct)


BROKEN = {
    "inverse": (check_mechanism, law(lambda u, p: 2 * u, lambda x, p: x / 3), r"predict of abduct: expected"),
    "detached": (
        check_mechanism,
        law(lambda u, p: u + p["p"].detach().sum(-1, True), lambda x, p: x - p["p"].detach().sum(-1, True)),
        r"slopes by the parents: expected .* Compute with torch",
    ),
    "cost at rest": (check_distance, lambda u_star, u: (u_star - u).square().sum(-1) + 1, r"value at rest: expected 0"),
    "not convex": (check_distance, lambda u_star, u: (u_star - u).abs().sqrt().sum(-1), "expected a convex cost"),
    "shape": (check_distance, lambda u_star, u: (u_star - u).square().mean(), "expected a tensor of shape"),
    "draws": (check_distance, SlowDraws(), "draw: expected"),
    "fixed noise": (check_solver, Least(), r"noise that may not move: .* Return `problem.rest`"),
    "loose": (check_solver, bc.Linearized(penalty=1.0, steps=3), "noises: expected"),
    "narrow": (check_sampler, Narrow(), "standard deviations, as ratios: expected 1, got 0"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_contract_is_named(name):
    check, broken, part = BROKEN[name]
    with pytest.raises((AssertionError, bc.SettingError), match=part):
        check(broken)
