"""The contract test of a distance."""

__all__ = ["check_distance"]

from collections.abc import Callable

import torch
from torch import Tensor

from deepbc.distances import Distance, read_distance
from deepbc.testing.contract import DIFFERENCE, ROUNDING, Contract, differences, normal

ROWS, DIM = 40, 3
# Points of a quadrature, and how far it goes beyond the largest draw.
POINTS, FAR = 400_001, 2.0


def check_distance(distance: Distance | Callable[[Tensor, Tensor], Tensor]) -> None:
    """Tests a distance: zero and least at rest, convex, its derivatives, and its draws if it is `drawable`.

    Raises:
        AssertionError: A part of the contract is broken; it says which.
    """
    contract = Contract(distance)
    d = distance if isinstance(distance, Distance) else read_distance(distance, ["x"]).of("x")
    u = normal(ROWS, DIM)
    one, other = u + normal(ROWS, DIM, "one"), u + 2 * normal(ROWS, DIM, "other")
    for batch in ((), (5,), (2, 3)):
        contract.shape(
            "value", d.value(one[0].expand(*batch, -1), u[0].expand(*batch, -1)), batch, "Sum the last axis."
        )
    contract.near("value at rest", d.value(u, u), 0.0, 0.0, "Nothing may cost anything where nothing moves.")
    cost, chord = d.value(one, u), (d.value(one, u) + d.value(other, u)) / 2
    contract.holds("value", cost > 0, "more than 0 off rest", cost.min().item(), "Only rest costs nothing.")
    bent = chord * (1 + ROUNDING) - d.value((one + other) / 2, u)
    contract.holds("value", bent >= 0, "a convex cost", "one above its chord", "Solvers and samplers need convexity.")
    if d.squared:
        contract.near("squared", cost, (one - u).square().sum(-1), ROUNDING, "Set it to False.")

    slope = differences(lambda z: d.value(z, u), one)
    contract.near("gradient", d.gradient(one, u), slope, DIFFERENCE, "Mend `_gradient`, or leave it out.")
    for k in range(DIM):
        second = differences(lambda z: d.gradient(z, u)[:, k], one)[:, k]  # noqa: B023 # called at once
        enough = d.curvature(one, u)[:, k] >= second * (1 - DIFFERENCE) - DIFFERENCE
        contract.holds("curvature", enough, "second derivatives, or more", "less", "Mend `_curvature`.")
    if d.drawable:
        _check_draws(contract, d)


def _check_draws(contract: Contract, distance: Distance) -> None:
    """Draws have the distribution function of exp(-w d), by quadrature."""
    weight, uniform = 1.7, (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    moves = distance.draw(uniform.unsqueeze(-1), weight).squeeze(-1).sort().values
    grid = torch.linspace(-FAR, FAR, POINTS, dtype=torch.float64).unsqueeze(-1) * moves.abs().amax()
    density = (-weight * distance.value(grid, torch.zeros_like(grid))).exp()
    below = ((density.cumsum(0) - density / 2) / density.sum())[torch.searchsorted(grid.squeeze(-1), moves)]
    contract.near("draw", below, uniform, DIFFERENCE, "Draws are moves, of density exp(-weight * cost).")
