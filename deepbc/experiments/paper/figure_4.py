"""Figure 4: thickness and intensity under both kinds of counterfactual, and what the wrong graph does.

(a) One factual row, asked for many intensities: (i) the noise that backtracking moves, (ii) where both kinds of answers
lie, and (iii) the same for thickness. (b) Antecedent thickness under several distances, with the right graph and with
the arrow reversed.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

from pathlib import Path
from typing import Any

import pandas

from deepbc.distances import Absolute, Power, Squared
from deepbc.experiments import digits_setup as setup
from deepbc.experiments.digits_setup import NAMES, Config
from deepbc.experiments.runner import Finding, gather
from deepbc.graph import CausalGraph
from deepbc.plots import Figure, Scatter, plot_panels
from deepbc.queries import backtrack, intervene

TITLE = "Thickness and intensity: backtracking, interventional, and the wrong graph"
WRONG = CausalGraph.parse("intensity -> thickness")
KINDS = ("backtracking", "interventional")
DISTANCES = {
    "absolute": Absolute(),
    "squared": Squared(),
    "4th power": Power(4.0),
    "weight 5 on I": Squared({"intensity": 5.0}),
}


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Fits both graphs and asks all questions; a row for each answer and for some of the data."""
    data, source = setup.numbers(config.rows, config.seed)
    point = setup.factual(data, 2.2, 120.0)
    graphs = {"right": setup.NUMBERS, "reversed": WRONG}
    models = {
        label: setup.fit_numbers(data, config.epochs, config.seed, fits, graph=graph) for label, graph in graphs.items()
    }

    parts = setup.background(models["right"], data, point)
    for name, values in setup.asked(config.antecedents).items():
        for kind, ask in (("backtracking", backtrack), ("interventional", intervene)):
            cf = ask(models["right"], point, {name: values})
            parts.append(setup.table(cf, kind=kind, graph="right", distance="squared"))
    for arrow, scm in models.items():
        for label, distance in DISTANCES.items():
            cf = backtrack(scm, point, {"thickness": setup.asked(config.antecedents)["thickness"]}, distance=distance)
            parts.append(setup.table(cf, kind="by distance", graph=arrow, distance=label))

    return gather(parts, {"data": source})


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What the paper says of this figure."""
    point = rows[rows.kind == "factual"].iloc[0]
    traced, forced = (rows[(rows.kind == kind) & (rows.asked == "intensity")] for kind in KINDS)
    both = [rows[(rows.kind == kind) & (rows.asked == "thickness")]["intensity"].to_numpy() for kind in KINDS]
    spread = {
        graph: part.groupby("value")["intensity"].agg(lambda each: each.max() - each.min())
        for graph, part in rows[rows.kind == "by distance"].groupby("graph")
    }

    return (
        Finding("every answer is converged", (rows.status.dropna() == "converged").all()),
        Finding("antecedent intensity moves thickness under backtracking", traced.thickness.std() > 0.1),
        Finding(
            "antecedent intensity never moves thickness under intervention", (forced.thickness == point.thickness).all()
        ),
        Finding("antecedent thickness gives both the same answer", abs(both[0] - both[1]).max() < 1e-6),
        Finding("with the right graph no distance changes the answer", spread["right"].max() < 1e-6),
        Finding("with the reversed graph distances do", spread["reversed"].max() > 1.0),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws the panels of (a) and of (b)."""
    data, point = rows[rows.kind == "data"], rows[rows.kind == "factual"]
    cloud = data["thickness"], data["intensity"]
    here = "factual", point["thickness"], point["intensity"]
    noises = ("noise of thickness", "noise of intensity")
    rest = "factual", point[noises[0]], point[noises[1]]

    def answers(name: str, kind: str, names: tuple[str, str]) -> tuple[str, Any, Any]:
        part = rows[(rows.kind == kind) & (rows.asked == name)]
        return kind, part[names[0]], part[names[1]]

    intensity, thickness = ([*(answers(name, kind, NAMES) for kind in KINDS), here] for name in NAMES[::-1])
    first = [
        Scatter("(a)(i) noise, asked: intensity", noises, None, [answers("intensity", "backtracking", noises), rest]),
        Scatter("(a)(ii) asked: intensity", NAMES, cloud, intensity),
        Scatter("(a)(iii) asked: thickness", NAMES, cloud, thickness),
    ]
    bands = [first]
    for graph, arrow in (("right", "T -> I"), ("reversed", "I -> T")):
        band = []
        for label in DISTANCES:
            part = rows[(rows.kind == "by distance") & (rows.graph == graph) & (rows.distance == label)]
            dots = ("backtracking", part["thickness"], part["intensity"])
            band.append(Scatter(f"(b) {arrow}, {label}", NAMES, cloud, [dots, here]))
        bands.append(band)

    return plot_panels(bands)
