r"""Figure 10: samples of counterfactual thickness, ours beside the paper's Langevin dynamics and beside the truth.

Thickness has a single noise, so its density given the antecedent is known by quadrature:

.. math:: \log p(u_T') = -(u_T' - u_T)^2 - (g(u_T') - u_I)^2 + \log |g'| + \text{const},

with :math:`g` the noise of intensity that the antecedent implies and :math:`g'` its derivative by intensity.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas
import torch
from torch import Tensor

from deepbc.experiments import digits_setup as setup
from deepbc.experiments.digits_setup import asked, factual, fit_numbers, numbers
from deepbc.experiments.runner import Finding, gather
from deepbc.plots import Boxes, Figure, plot_panels
from deepbc.queries import backtrack_samples
from deepbc.samplers import Hamiltonian, Langevin
from deepbc.scm.model import SCM

TITLE = "Samples of counterfactual thickness: ours, the paper's and quadrature"
SAMPLERS = {"ours": Hamiltonian(), "Langevin": Langevin()}
# The grid of the quadrature: how far from the factual noise, in standard deviations, and how fine.
REACH, POINTS = 8.0, 8001


@dataclass(frozen=True, slots=True)
class Config(setup.Config):
    """How the experiment is run, beside what `digits_setup.Config` says.

    Args:
        samples: How many samples are drawn for each antecedent.
    """

    antecedents: int = 9
    samples: int = 400

    @classmethod
    def quick(cls) -> "Config":
        return cls(rows=2_000, epochs=25, antecedents=3)


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Draws samples both ways and computes as many quantiles; a row for each, and one for the factual point."""
    data, source = numbers(config.rows, config.seed)
    point = factual(data, 2.2, 120.0)
    scm = fit_numbers(data, config.epochs, config.seed, fits)
    values = asked(config.antecedents)["intensity"].double()

    parts = [pandas.DataFrame([{"kind": "factual", "thickness": point["thickness"].item()}])]
    for label, sampler in SAMPLERS.items():
        question = {"intensity": values}
        cf = backtrack_samples(scm, point, question, samples=config.samples, seed=config.seed, sampler=sampler)
        for k, value in enumerate(values.tolist()):
            columns = {"thickness": cf.values["thickness"][:, k].numpy(), "status": str(cf.status[k])}
            parts.append(pandas.DataFrame({"kind": label, "asked": value, **columns}))
    for value in values.tolist():
        quantiles = _quantiles(scm, point, value, config.samples)
        parts.append(pandas.DataFrame({"kind": "quadrature", "asked": value, "thickness": quantiles.numpy()}))

    return gather(parts, {"data": source})


def _quantiles(scm: SCM, point: Mapping[str, Tensor], value: float, count: int) -> Tensor:
    """Computes evenly spaced quantiles of thickness from its density on a grid."""
    rest = scm.abduct(point)
    grid = rest["thickness"] + torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64)
    world = scm.complete(values={"intensity": torch.full_like(grid, value)}, noise={"thickness": grid})
    g = world.noise["intensity"]
    # The density of intensity given thickness is that of its noise times the derivative.
    log_derivative = scm.log_prob(world.values, of=["intensity"]) + 0.5 * g.square()
    log_density = -(grid - rest["thickness"]).square() - (g - rest["intensity"]).square() + log_derivative
    below = (log_density - log_density.max()).exp().cumsum(0)
    levels = (torch.arange(count, dtype=torch.float64) + 0.5) / count

    found: Tensor = world.values["thickness"][torch.searchsorted(below / below[-1], levels)]

    return found


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What calibrated samples must show, and what the paper's settings do."""
    moments = rows[rows.kind != "factual"].groupby(["kind", "asked"]).thickness.agg(["mean", "std", "count"])
    true, ours, theirs = (moments.loc[kind] for kind in ("quadrature", "ours", "Langevin"))
    off = abs(ours["mean"] - true["mean"]) / (true["std"] / ours["count"] ** 0.5)
    status = {kind: rows[rows.kind == kind].status for kind in ("ours", "Langevin")}

    return (
        Finding("ours are converged", (status["ours"] == "converged").all()),
        Finding("ours have the mean of the quadrature, within 4 standard errors", off.max() < 4),
        # The standard deviation of 400 samples is off by 15 % once in 10,000 times.
        Finding("ours have its standard deviation, within 15 %", abs(ours["std"] / true["std"] - 1).max() < 0.15),
        Finding("Langevin's are less than half as wide", (theirs["std"] / true["std"]).max() < 0.5),
        Finding("and say so", (status["Langevin"] != "converged").all()),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws three boxes for each antecedent."""
    places = sorted(rows.asked.dropna().unique())
    labels = {"ours": "samples, ours", "Langevin": "samples, Langevin as in the paper", "quadrature": "quadrature"}
    boxes = {
        label: [rows[(rows.kind == kind) & (rows.asked == place)].thickness for place in places]
        for kind, label in labels.items()
    }
    line = "factual", rows[rows.kind == "factual"].thickness.item()

    return plot_panels(
        [[Boxes("", ("antecedent intensity", "thickness"), places, boxes, line)]], width=5.6, heights=[3.2]
    )
