"""Learned counterfactuals against the true ones, where the paper could not look: on digits drawn from strokes.

The true thickness and intensity come from the equations, the true image is the same style drawn with them. The error of
an image, in grey levels a pixel, stands beside that of the factual image, as if nothing had been done, beside that of
the decoder alone, which draws the factual image again, and beside that of the image's law with the true numbers.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas
from torch import Tensor

from deepbc.datasets import digits
from deepbc.experiments.digits_setup import NAMES, Ask, fit_images, gallery, others, pixels, with_residual
from deepbc.experiments.runner import Finding, cells, gather
from deepbc.plots import Figure, plot_panels
from deepbc.queries import backtrack, intervene
from deepbc.recipes import morphomnist

TITLE = "Learned counterfactuals against the true ones, on digits drawn from strokes"
QUESTIONS: Mapping[str, tuple[Ask, str]] = {
    "backtracking, intensity": (backtrack, "intensity"),
    "interventional, intensity": (intervene, "intensity"),
    "interventional, thickness": (intervene, "thickness"),
}
SHOWN = 4


@dataclass(frozen=True, slots=True)
class Config:
    """How the experiment is run.

    Args:
        rows: The digits to fit.
        epochs: The most passes over the images.
        queries: How many fresh digits are asked.
        seed: Where all random numbers come from.
    """

    rows: int = 30_000
    epochs: int = 30
    queries: int = 2_000
    seed: int = 0

    @classmethod
    def quick(cls) -> "Config":
        return cls(rows=4_000, epochs=8, queries=200)


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Fits a model and asks it and the truth; a row for each line of the table, and for some images."""
    model, report = fit_images(digits.sample(config.rows, seed=config.seed).values, config.epochs, config.seed, fits)
    fresh = digits.sample(config.queries, seed=config.seed + 1)
    kept = with_residual(model, True)
    again = model.predict(model.abduct(fresh.values))["image"]

    parts = []
    for label, (ask, name) in QUESTIONS.items():
        question = {name: others(fresh.values[name], config.seed)}
        true = ask(morphomnist.truth(), {each: fresh.values[each] for each in NAMES}, question)
        image = digits.truth(fresh.styles, true.values)
        learned, exact = (ask(scm, fresh.values, question) for scm in (model, kept))
        law = intervene(model, fresh.values, {each: true.values[each] for each in NAMES})
        errors = {
            "thickness": _error(learned.values["thickness"], true.values["thickness"]),
            "intensity": _error(learned.values["intensity"], true.values["intensity"]),
            "image": _error(learned.values["image"], image),
            "image, with residual": _error(exact.values["image"], image),
            "image, true numbers": _error(law.values["image"], image),
            "doing nothing": _error(fresh.values["image"], image),
            "decoder alone": _error(again, fresh.values["image"]),
            "not converged": int((learned.status != "converged").sum()),
        }
        parts.append(pandas.DataFrame([{"kind": "line", "label": label, **errors}]))
        drawn = {"factual": fresh.values, "learned": learned.values, "residual": exact.values, "true": {"image": image}}
        for what, values in drawn.items():
            parts.append(pixels(values["image"][:SHOWN]).assign(kind="image", label=label, what=what))

    return gather(parts, {"data": f"{config.rows:,} digits", "minutes of training": round(report.seconds / 60, 1)})


def _error(learned: Tensor, true: Tensor) -> float:
    return (learned - true).abs().mean().item()


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What a learned model is worth beside the truth."""
    lines = rows[rows.kind == "line"].set_index("label")
    asked = lines[lines.index.str.endswith("intensity")]

    return (
        Finding("every answer is converged", (lines["not converged"] == 0).all()),
        Finding(
            "images are at most 1.5 times as far from the truth, on average, as the decoder is from factual ones",
            (lines.image < 1.5 * lines["decoder alone"]).all(),
        ),
        Finding(
            "with a residual they are nearer to the truth, on average, than the factual ones",
            (lines["image, with residual"] < lines["doing nothing"]).all(),
        ),
        Finding("thickness is within 0.1 of the truth, on average", lines.thickness.max() < 0.1),
        Finding("intensity is what was asked", asked.intensity.max() < 1e-6),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws the table, and below it some images of each question."""
    lines = rows[rows.kind == "line"]
    images = ("image", "image, with residual", "image, true numbers", "doing nothing", "decoder alone")
    forms = {"thickness": ".3f", "intensity": ".2f", **dict.fromkeys(images, ".2f")}
    heads = [name.replace(", ", ",\n") for name in forms]
    table = cells("Mean absolute errors against the truth", lines, "label", forms, heads)

    return plot_panels([[table], gallery(rows, tuple(QUESTIONS))], heights=[1.4, 2.4])
