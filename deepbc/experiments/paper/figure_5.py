"""Figure 5: digits as they would have looked, had their intensity been another.

Backtracking draws bright digits thick, as the data have them; intervention keeps their thickness.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas
import torch

from deepbc.experiments import digits_setup as setup
from deepbc.experiments.digits_setup import NAMES
from deepbc.experiments.runner import Finding, gather
from deepbc.plots import Figure, Pictures, plot_panels
from deepbc.queries import backtrack, intervene

TITLE = "Digits as they would have looked: backtracking and interventional"
# Thickness and intensity near which digits are chosen: thin and dark, middling, thick and bright.
POINTS = ((1.9, 95.0), (2.4, 140.0), (3.2, 205.0))
KINDS: Mapping[str, setup.Ask] = {"backtracking": backtrack, "interventional": intervene}
# The ink of an image: pixels beyond this part of its brightest.
INK = 0.5


@dataclass(frozen=True, slots=True)
class Config(setup.Config):
    """How the experiment is run: as those on thickness and intensity, but images take fewer passes."""

    epochs: int = 30
    antecedents: int = 7

    @classmethod
    def quick(cls) -> "Config":
        return cls(rows=6_000, epochs=8, antecedents=5)


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Asks some test digits for other intensities; a row for each image."""
    data, source = setup.images("train", config.rows, config.seed)
    test, _ = setup.images("test", None, config.seed)
    scm, report = setup.fit_images(data, config.epochs, config.seed, fits)

    parts = []
    for digit, place in enumerate(POINTS):
        point = setup.factual(test, *place)
        here = pandas.DataFrame([{"kind": "factual", "digit": digit, **{name: point[name].item() for name in NAMES}}])
        parts.append(pandas.concat([here, setup.pixels(point["image"])], axis=1))
        for kind, ask in KINDS.items():
            cf = ask(scm, point, {"intensity": setup.asked(config.antecedents)["intensity"]})
            parts.append(
                pandas.concat([setup.table(cf, kind=kind, digit=digit), setup.pixels(cf.values["image"])], axis=1)
            )

    return gather(parts, {"data": source, "minutes of training": round(report.seconds / 60, 1)})


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What the paper says of this figure, on thickness and on the ink of the images."""
    thickness, ink = {}, {}
    for (kind, digit), part in rows.groupby(["kind", "digit"]):
        drawn = part[setup.PIXELS].to_numpy()
        inked = (drawn > INK * drawn.max(1, keepdims=True)).sum(1)
        ink[kind, digit] = math.log(inked[-1] / inked[0])
        thickness[kind, digit] = part.thickness.to_numpy()
    digits = range(len(POINTS))
    traced, forced = ([ink[kind, digit] for digit in digits] for kind in KINDS)

    return (
        Finding("every answer is converged", (rows.status.dropna() == "converged").all()),
        Finding(
            "antecedent intensity moves thickness along under backtracking",
            all((np.diff(thickness["backtracking", digit]) > 0).all() for digit in digits),
        ),
        Finding(
            "it never moves thickness under intervention",
            all((thickness["interventional", k] == thickness["factual", k]).all() for k in digits),
        ),
        Finding(
            "under backtracking the brightest image has more than 1.5 times the ink of the darkest",
            all(grown > math.log(1.5) for grown in traced),
        ),
        Finding(
            "under intervention it changes by less than half of that factor, on a logarithmic scale",
            all(abs(one) < 0.5 * other for one, other in zip(forced, traced, strict=True)),
        ),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws two bands of images for each digit."""
    values = sorted(rows[rows.kind == "backtracking"].intensity.round(3).unique())
    bands, labels, notes = [], [], []
    for digit in range(len(POINTS)):
        for kind in KINDS:
            part = rows[(rows.digit == digit) & rows.kind.isin(["factual", kind])]
            bands.append(setup.pictures(part))
            labels.append(kind)
            notes.append([f"t {each:.1f}" for each in part.thickness])
    columns = ["factual", *(f"i = {each:.0f}" for each in values)]
    panel = Pictures("", ("", ""), torch.stack(bands), columns, labels, notes)

    return plot_panels([[panel]], width=0.72 * len(columns) + 1.2, heights=[0.72 * len(bands) + 0.3])
