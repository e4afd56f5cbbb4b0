"""The contract test of a sampler, on correlated normal densities."""

__all__ = ["check_sampler"]

import math

import torch
from torch import Tensor

from deepbc.distances import Squared
from deepbc.numerics.counter_rng import Streams
from deepbc.samplers import Draws, Sampler, Target
from deepbc.solvers import Cost, Term
from deepbc.testing.contract import ROUNDING, Contract, normal

ROWS, FREE = 5, 2
# A mean is off by this many standard errors once in 10^9 tests, of as many independent draws as this part of all.
ERRORS, LEAST_EFFECTIVE = 6.0, 0.5


def check_sampler(sampler: Sampler, *, samples: int = 400) -> None:
    """Tests a sampler: shapes, progress, the same draws for a row by itself, means and standard deviations.

    Args:
        sampler: The sampler.
        samples: How many samples to draw; means may be off by their standard errors.

    Raises:
        AssertionError: A part of the contract is broken; it says which.
    """
    contract, (target, mean, sd) = Contract(sampler), _target()
    calls: list[None] = []
    draws = sampler.sample(target, samples, Streams.of(0, [target.rest]), lambda: calls.append(None))
    rounds = sampler.rounds(samples)
    contract.holds("on_progress", len(calls) == rounds, f"{rounds} calls, as `rounds` says", len(calls), "Mend either.")
    contract.shape("draws", draws.v, (samples, ROWS, FREE), "Samples come first, then rows.")
    for name in ("r_hat", "effective", "acceptance", "trusted"):
        contract.shape(name, getattr(draws, name), (ROWS,), "Say it of each row.")
    other = _draw(sampler, target, samples, seed=1).v
    contract.holds("another seed", bool((other != draws.v).any()), "other draws", "the same", "Draw from the streams.")
    for k in range(ROWS):
        alone = _draw(sampler, target.select(torch.tensor([k])), samples).v[:, 0]
        contract.near("a row alone", alone, draws.v[:, k], ROUNDING, "All random numbers come from its streams.")

    error = ERRORS / math.sqrt(LEAST_EFFECTIVE * samples)
    contract.near("means, in standard deviations", (draws.v.mean(0) - mean) / sd, 0.0, error, "Run longer chains.")
    contract.near(
        "standard deviations, as ratios", draws.v.std(0) / sd, 1.0, error / 2**0.5, "Check the acceptance step."
    )


def _draw(sampler: Sampler, target: Target, samples: int, seed: int = 0) -> Draws:
    return sampler.sample(target, samples, Streams.of(seed, [target.rest]), lambda: None)


def _target() -> tuple[Target, Tensor, Tensor]:
    """Normal densities exp(-v' P v - |v - u|^2), with their means and standard deviations."""
    root, rest = normal(ROWS, FREE**2, "root").reshape(ROWS, FREE, FREE), normal(ROWS, FREE)

    def law(v: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
        return v, -(v.unsqueeze(-2) @ precision @ v.unsqueeze(-1)).flatten()

    prior_sd, cost = torch.full((FREE,), 0.5**0.5, dtype=torch.float64), Cost([Term(Squared(), 1.0, FREE)], rest)
    target = Target(rest, rest, rest, prior_sd, root @ root.mT, law, cost)
    covariance = torch.linalg.inv(2 * (root @ root.mT + torch.eye(FREE, dtype=torch.float64)))
    mean = (covariance @ (2 * rest).unsqueeze(-1)).squeeze(-1)

    return target, mean, covariance.diagonal(dim1=-2, dim2=-1).sqrt()
