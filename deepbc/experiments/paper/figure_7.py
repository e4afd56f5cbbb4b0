"""The paper's figure 7: a mechanism is swapped for a hand-made one by which women have beards, and all others stay.

The law of the image stays too. It was learned from faces among which no woman has a beard, so that her portrait need
not show the beard that she now has: what classifiers read from it stands beside the attribute.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

from collections.abc import Mapping
from pathlib import Path

import pandas
from torch import Tensor

from deepbc.experiments.faces_setup import Config, album, fit_faces, person, portraits, read, shown
from deepbc.experiments.runner import Finding, gather
from deepbc.mechanisms import Equation
from deepbc.plots import Figure, plot_panels
from deepbc.queries import backtrack

TITLE = "Modularity: a law by which women have beards"
PANEL, FACTUAL, LEARNED, MADE = "had this face a beard", "factual", "learned law", "hand-made law"
BEARD, SLOPE, NOISE = 1.5, -0.9, 0.4


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Asks a face between the sexes to have a beard, under both laws; a row for each portrait."""
    fitted, faces = fit_faces(config, fits)
    swapped = fitted.scm.replace("beard", Equation(predict=_beard, abduct=_noise))
    face = person(fitted, faces.fresh, age=0.0, gender=0.0, beard=-0.5, bald=-0.3)
    drawn = {
        FACTUAL: face,
        LEARNED: backtrack(fitted.scm, face, {"beard": BEARD}).values,
        MADE: backtrack(swapped, face, {"beard": BEARD}).values,
    }
    parts = [portraits(fitted, values, panel=PANEL, what=what) for what, values in drawn.items()]

    return gather(parts, {"data": faces.data})


def _beard(u: Tensor, parents: Mapping[str, Tensor]) -> Tensor:
    return SLOPE * parents["gender"] + NOISE * u


def _noise(x: Tensor, parents: Mapping[str, Tensor]) -> Tensor:
    return (x - SLOPE * parents["gender"]) / NOISE


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What the swap changes."""
    before, learned, made = (shown(rows, PANEL, what) for what in (FACTUAL, LEARNED, MADE))

    return (
        Finding("by the learned law a beard makes the face more male", learned.gender > before.gender + 0.05),
        Finding("by the hand-made one more female", made.gender < before.gender - 0.3),
        Finding(
            "the portrait by the learned law shows more of a beard", read(rows, PANEL, LEARNED, "beard") > before.beard
        ),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws the portraits and their attributes."""
    return plot_panels([[panel] for panel in album(rows)], width=4.5, heights=[1.7, 1.5])
