"""Models with known laws, for tests."""

import torch

import deepbc as bc


def identity() -> bc.Equation:
    """x = u"""
    return bc.Equation(predict=lambda u, parents: u, abduct=lambda x, parents: x)


def weighted(weights: dict[str, float], scale: float = 1.0) -> bc.Equation:
    """x = sum of weighted parents + scale u"""

    def mean(parents):
        return sum(weight * parents[name] for name, weight in weights.items())

    return bc.Equation(
        predict=lambda u, parents: mean(parents) + scale * u, abduct=lambda x, parents: (x - mean(parents)) / scale
    )


def growing() -> bc.SCM:
    """x1 = u1, x2 = exp(0.8 x1) u2: oracle O5's model, whose volume term matters."""
    return bc.SCM(
        bc.CausalGraph.parse("x1 -> x2"),
        {
            "x1": identity(),
            "x2": bc.Equation(
                predict=lambda u, parents: torch.exp(0.8 * parents["x1"]) * u,
                abduct=lambda x, parents: torch.exp(-0.8 * parents["x1"]) * x,
            ),
        },
    )
