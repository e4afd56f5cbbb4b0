"""Figure 11: how weights and distances of the noises shape a backtracking answer.

(a) The same questions for intensity with a growing weight on the noise of thickness. (b) The same with other distances.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

import itertools
from pathlib import Path

import pandas

from deepbc.distances import Absolute, Power, Squared
from deepbc.experiments.digits_setup import NAMES, Config, asked, background, factual, fit_numbers, numbers, table
from deepbc.experiments.runner import Finding, gather
from deepbc.plots import Figure, Scatter, plot_panels
from deepbc.queries import backtrack, intervene

TITLE = "What weights and distances do to a backtracking answer"
WEIGHTS = (0.0, 1.0, 5.0, 25.0, 1000.0)
DISTANCES = {
    "absolute": Absolute(),
    "squared": Squared(),
    "4th power": Power(4.0),
    "T squared, I absolute": {"thickness": Squared(), "intensity": Absolute()},
    "T absolute, I squared": {"thickness": Absolute(), "intensity": Squared()},
}


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Asks for the same intensities with every weight and every distance; a row for each answer."""
    data, source = numbers(config.rows, config.seed)
    point = factual(data, 2.2, 120.0)
    scm = fit_numbers(data, config.epochs, config.seed, fits)
    question = {"intensity": asked(config.antecedents)["intensity"]}

    parts = background(scm, data, point)
    parts.append(table(intervene(scm, point, question), kind="interventional"))
    for weight in WEIGHTS:
        cf = backtrack(scm, point, question, distance=Squared({"thickness": weight}))
        parts.append(table(cf, kind="by weight", weight=weight))
    for label, distance in DISTANCES.items():
        cf = backtrack(scm, point, question, distance=distance)
        parts.append(table(cf, kind="by distance", distance=label))

    return gather(parts, {"data": source})


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What the paper says of this figure."""
    point = rows[rows.kind == "factual"].iloc[0]
    forced = rows[rows.kind == "interventional"].thickness.to_numpy()
    away = [abs(part.thickness.to_numpy() - forced) for _, part in rows[rows.kind == "by weight"].groupby("weight")]
    free = rows[(rows.kind == "by weight") & (rows.weight == 0)]
    by_distance = rows[rows.kind == "by distance"]
    spread = by_distance.groupby("value").thickness.agg(lambda each: each.max() - each.min())
    sparse = by_distance[by_distance.distance == "absolute"]
    noises = [f"noise of {name}" for name in NAMES]
    still = abs(sparse[noises] - point[noises].astype(float)).min(axis=1) < 1e-9

    return (
        Finding("every answer is converged", (rows.status.dropna() == "converged").all()),
        Finding(
            "a growing weight on thickness approaches the interventional answer monotonically",
            all((after <= before + 1e-9).all() for before, after in itertools.pairwise(away)),
        ),
        Finding("the largest weight comes within 0.01 of its thickness", away[-1].max() < 0.01),
        Finding(
            "without a weight on thickness it alone carries the change",
            abs(free["noise of intensity"] - point["noise of intensity"]).max() < 1e-6,
        ),
        Finding("other distances lead to other answers", spread.max() > 0.1),
        Finding("the absolute distance moves one noise alone", still.all()),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws a panel for each weight and each distance."""
    data, point = rows[rows.kind == "data"], rows[rows.kind == "factual"]
    forced = rows[rows.kind == "interventional"]
    cloud = data["thickness"], data["intensity"]
    around = [("interventional", forced.thickness, forced.intensity), ("factual", point.thickness, point.intensity)]

    def panel(title: str, part: pandas.DataFrame) -> Scatter:
        return Scatter(title, NAMES, cloud, [("backtracking", part.thickness, part.intensity), *around])

    weights, distances = (rows[rows.kind == kind] for kind in ("by weight", "by distance"))

    return plot_panels([
        [panel(f"(a) weight of T: {weight:g}", weights[weights.weight == weight]) for weight in WEIGHTS],
        [panel(f"(b) {label}", distances[distances.distance == label]) for label in DISTANCES],
    ])  # fmt: skip
