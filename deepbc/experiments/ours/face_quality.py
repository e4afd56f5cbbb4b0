"""How good the models of faces are: classifiers, laws, and portraits that come back, obey and can be undone.

*Effectiveness* is how far an attribute that a classifier reads from a portrait misses the value that was forced, that
of another face, in standard deviations. Beside it the same for portraits of backtracking, in which causes change too,
and for the factual portrait, as if nothing had been done. *Composition* and *reversibility* are mean absolute errors of
pixels, in grey levels, beside that of the mean portrait.
All are of fresh faces, and so is the check of the laws: whether noises are standard normal (*gap*, the largest distance
of two distribution functions) and do not depend on those of other variables.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

import functools
import math
from collections.abc import Mapping
from pathlib import Path

import pandas
import torch
from torch import Tensor

from deepbc.evaluation.check import CheckReport, check
from deepbc.evaluation.metrics import composition, effectiveness, reversibility
from deepbc.experiments.face_questions import ATTRIBUTES
from deepbc.experiments.faces_setup import Config, fit_faces
from deepbc.experiments.runner import Finding, cells, gather
from deepbc.numerics.seeding import generator
from deepbc.plots import Cells, Figure, plot_panels
from deepbc.queries import backtrack, intervene
from deepbc.recipes.classifiers import Classifiers
from deepbc.training.report import FitReport

TITLE = "How good the models of faces are: classifiers, laws and portraits"


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Fits, and asks each attribute of fresh faces to be that of others; a row for each attribute and each law."""
    fitted, given = fit_faces(config, fits)
    fresh = {**fitted.classifiers.read(given.fresh), "image": given.fresh}
    rows = {name: column[: config.queries] for name, column in fresh.items()}
    order = torch.randperm(len(rows["image"]), generator=generator(config.seed, "others"))
    mean = torch.from_numpy(given.images.numpy().mean(0))
    shared = {
        "kind": "attribute",
        "composition": composition(fitted.scm, rows).mean().item(),
        "mean portrait": (rows["image"].double() - mean).abs().mean().item(),
    }

    lines = []
    for name in ATTRIBUTES:
        asked = {name: rows[name][order]}
        read = functools.partial(_read, fitted.classifiers, name)
        forced, traced = (effectiveness(ask(fitted.scm, rows, asked), read, name) for ask in (intervene, backtrack))
        classifier = fitted.classifiers.accuracy[name]
        lines.append(
            {
                **shared,
                "variable": name,
                "share": classifier.share,
                "accuracy": classifier.accuracy,
                "balanced": classifier.balanced,
                "log loss": classifier.log_loss,
                "calibration": classifier.calibration,
                "effectiveness": forced.mean().item(),
                "by backtracking": traced.mean().item(),
                "doing nothing": (rows[name] - asked[name]).abs().mean().item(),
                "reversibility": reversibility(fitted.scm, rows, asked, intervene).mean().item(),
                "seconds": classifier.seconds,
            }
        )
    checked = check(fitted.scm, fresh, seed=config.seed)
    parts = [pandas.DataFrame(lines), _laws(fitted.report, checked).assign(kind="law")]

    return gather(parts, {"data": given.data, "check": checked.explain(), "fresh faces": len(given.fresh)})


def _laws(report: FitReport, checked: CheckReport) -> pandas.DataFrame:
    """How the fit of each variable went, and what fresh faces say of its law."""
    fits, checks = report.to_frame(), checked.to_frame()

    return fits[["variable", "nll", "epochs", "seconds"]].merge(
        checks[["variable", "verdict", "gap", "gap_p", "dependence", "dependence_on", "dependence_p"]], on="variable"
    )


def _read(classifiers: Classifiers, name: str, values: Mapping[str, Tensor]) -> Tensor:
    return classifiers.read(values["image"])[name]


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What can be relied on."""
    laws, rows = (rows[rows.kind == kind] for kind in ("law", "attribute"))
    effects = rows[rows.variable.isin(["beard", "bald"])]
    guess = rows["share"].map(lambda p: -p * math.log(p) - (1 - p) * math.log(1 - p))

    return (
        Finding("every classifier tells more than the frequencies of its labels", (rows["log loss"] < guess).all()),
        Finding(
            "every attribute that is forced is nearer to what was asked than in the factual portrait",
            (rows.effectiveness < rows["doing nothing"]).all(),
        ),
        Finding("portraits come back better than as the mean one", (rows.composition < rows["mean portrait"]).all()),
        Finding(
            "beards and baldness show better where backtracking changes their causes than where they are forced",
            (effects["by backtracking"] < effects.effectiveness).all(),
        ),
        Finding("the noises of fresh faces are near to standard normal", laws.gap.max() < 0.1),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws the tables."""
    attributes, laws = (rows[rows.kind == kind] for kind in ("attribute", "law"))
    accuracies = {"accuracy": ".1%", "balanced": ".1%", "log loss": ".3f", "calibration": ".3f", "seconds": ".0f"}
    qualities = ["effectiveness", "by backtracking", "doing nothing", "reversibility", "composition", "mean portrait"]
    fits = {"nll": ".3f", "epochs": ".0f", "seconds": ".1f", "verdict": "", "gap": ".3f", "dependence": ".3f"}
    panels = [
        _table("Classifiers, on faces that they did not see", attributes, accuracies),
        _table("Portraits of fresh faces", attributes, dict.fromkeys(qualities, ".2f")),
        _table("The fit of each law, and its check on fresh faces", laws, fits | {"dependence_on": ""}),
    ]

    return plot_panels([[each] for each in panels], width=7.0, heights=[1.5, 1.6, 1.9])


def _table(title: str, rows: pandas.DataFrame, digits: Mapping[str, str]) -> Cells:
    return cells(title, rows, "variable", digits, [name.replace(" ", "\n").replace("_", "\n") for name in digits])
