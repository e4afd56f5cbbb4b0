"""How good the models of faces are: classifiers, and portraits that come back, obey and can be undone.

*Effectiveness* is how far an attribute that a classifier reads from a portrait misses the value that was forced, that
of another face, in standard deviations; beside it the same for the factual portrait, as if nothing had been done.
*Composition* and *reversibility* are mean absolute errors of pixels, in grey levels, beside that of the mean portrait.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from deepbc.classifiers import Classifiers
from deepbc.datasets import faces
from deepbc.experiments.base import Finding
from deepbc.experiments.portraits import ATTRIBUTES, Config, fit_faces
from deepbc.metrics import composition, effectiveness, reversibility
from deepbc.plots import Cells, plot_panels
from deepbc.queries import intervene
from deepbc.seeds import generator

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

TITLE = "How good the models of faces are: classifiers and portraits"


def run(config: Config, fits: Path) -> "pandas.DataFrame":
    """Fits, and forces each attribute of fresh faces to that of others; a row for each attribute."""
    import pandas

    fitted, images = fit_faces(config, fits)
    # Faces that no network saw.
    fresh = faces.sample(config.queries, seed=config.seed + 1, size=config.size).values["image"]
    rows = {**fitted.classifiers.read(fresh), "image": fresh}
    order = torch.randperm(config.queries, generator=generator(config.seed, "others"))
    mean = images.double().mean(0)
    told = {
        "composition": composition(fitted.scm, rows).mean().item(),
        "mean portrait": (rows["image"].double() - mean).abs().mean().item(),
        "seconds": fitted.report.seconds,
    }

    lines = []
    for name in ATTRIBUTES:
        asked = {name: rows[name][order]}
        cf = intervene(fitted.scm, rows, asked)
        classifier = fitted.classifiers.accuracy[name]
        missed = effectiveness(cf, functools.partial(_read, fitted.classifiers, name), name)
        lines.append(
            {
                "attribute": name,
                "share": classifier.share,
                "accuracy": classifier.accuracy,
                "balanced": classifier.balanced,
                "log loss": classifier.log_loss,
                "calibration": classifier.calibration,
                "effectiveness": missed.mean().item(),
                "doing nothing": (rows[name] - asked[name]).abs().mean().item(),
                "reversibility": reversibility(fitted.scm, rows, asked, intervene).mean().item(),
                **told,
            }
        )
    table = pandas.DataFrame(lines)
    table.attrs |= {"data": config.data}

    return table


def _read(classifiers: Classifiers, name: str, values: Mapping[str, Tensor]) -> Tensor:
    return classifiers.read(values["image"])[name]


def findings(rows: "pandas.DataFrame") -> tuple[Finding, ...]:
    """What can be relied on."""
    guess = rows["share"].map(lambda p: -p * math.log(p) - (1 - p) * math.log(1 - p))

    return (
        Finding(
            "every classifier tells more than the frequencies of its labels", bool((rows["log loss"] < guess).all())
        ),
        Finding(
            "every attribute that is forced is nearer to what was asked than in the factual portrait",
            bool((rows.effectiveness < rows["doing nothing"]).all()),
        ),
        Finding(
            "portraits come back better than as the mean one", bool((rows.composition < rows["mean portrait"]).all())
        ),
    )


def render(rows: "pandas.DataFrame") -> "Figure":
    """Draws the table."""
    digits = {"accuracy": ".1%", "balanced": ".1%", "log loss": ".3f", "calibration": ".3f"}
    names = [*digits, "effectiveness", "doing nothing", "reversibility", "composition", "mean portrait"]
    cells = [
        [line.attribute, *(f"{line[name]:{digits.get(name, '.2f')}}" for name in names)] for _, line in rows.iterrows()
    ]
    heads = ["", *(name.replace(" ", "\n") for name in names)]

    return plot_panels(
        [[Cells("Classifiers on held-out rows, and portraits", ("", ""), heads, cells)]], width=7.0, heights=[1.6]
    )
