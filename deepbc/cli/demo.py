"""The main job in one call: fit a model with images to digits of known origin, ask it both ways, keep what came out."""

__all__ = ["Answers", "Demo", "run_demo"]

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from deepbc.cli.report_page import paragraph, picture, table, write_page
from deepbc.datasets import digits
from deepbc.plots import Pictures, Scatter, check_plots, plot_panels
from deepbc.queries import backtrack, intervene
from deepbc.queries.results import Counterfactual
from deepbc.recipes import morphomnist
from deepbc.scm.model import KIND
from deepbc.storage import check_place, make_folder
from deepbc.training.report import FitReport

NUMBERS = ("thickness", "intensity")
KINDS: Mapping[str, Callable[..., Counterfactual]] = {"interventional": intervene, "backtracking": backtrack}
ASKED, CLOUD = 5, 4000
# Fresh digits that say how far images are from the truth.
JUDGED = 500


@dataclass(frozen=True, slots=True)
class Answers:
    """What one kind of question brings.

    Args:
        learned: What the learned model answers.
        true: What the equations that generated the digits answer.
        image: The true counterfactual images, with shape `(rows, 28, 28)`.
    """

    learned: Counterfactual
    true: Counterfactual
    image: Tensor


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo made.

    Args:
        report: The report of the fit.
        intensity: What was asked.
        answers: The answers by kind, `"interventional"` and `"backtracking"`.
        errors: Mean absolute errors of fresh images against the true ones, in grey levels, by what was done.
        figure: The figure.
        page: The report of one page.
        model: The saved model.
    """

    # The names of the columns of `rows`.
    columns: ClassVar[Sequence[str]] = ("world", "thickness", "intensity", "distance", "status")

    report: FitReport
    intensity: float
    answers: Mapping[str, Answers]
    errors: Mapping[str, float]
    figure: Path
    page: Path
    model: Path

    def rows(self) -> list[list[list[str]]]:
        """The answers as text, learned and true, for each digit three rows: factual and both kinds."""
        before = self.answers["backtracking"].learned.factual.values
        blocks = []
        for k in range(ASKED):
            block = [["factual", f"{before['thickness'][k]:.2f}", f"{before['intensity'][k]:.1f}", "", ""]]
            for kind in KINDS:
                pair = (self.answers[kind].learned, self.answers[kind].true)
                cells = [" / ".join(f"{cf.values[name][k]:.{2 - i}f}" for cf in pair) for i, name in enumerate(NUMBERS)]
                distance = " / ".join(f"{cf.distance[k]:.2f}" for cf in pair)
                block.append([kind, *cells, distance, str(pair[0].status[k])])
            blocks.append(block)

        return blocks


def run_demo(folder: str | os.PathLike[str], *, rows: int = 8_000, intensity: float = 220.0, seed: int = 0) -> Demo:
    """Fits thickness, intensity and image, and asks what another intensity would have meant.

    Args:
        folder: Where the figure, the page and the model go.
        rows: The number of digits drawn.
        intensity: The intensity to ask about, between 64 and 255.
        seed: Where all random numbers come from.
    """
    check_plots()
    folder = make_folder(folder)
    check_place(folder / "model", KIND)
    data = digits.sample(rows, seed=seed).values
    fresh = _telling(digits.sample(JUDGED, seed=seed + 1), intensity)

    scm = morphomnist.model(residual=True)
    report = scm.fit(data, seed=seed)
    scm.save(folder / "model")
    truth, question = morphomnist.truth(), {"intensity": intensity}
    numbers = {name: fresh.values[name] for name in NUMBERS}
    answers, errors = {}, {}
    for kind, ask in KINDS.items():
        learned, true = ask(scm, fresh.values, question), ask(truth, numbers, question)
        image = digits.truth(fresh.styles, true.values)
        answers[kind] = Answers(learned, true, image)
        errors[kind] = _error(learned.values["image"], image)
        errors[f"{kind}, doing nothing"] = _error(fresh.values["image"], image)

    made = Demo(report, intensity, answers, errors, folder / "figure.png", folder / "report.html", folder / "model")
    _draw(made, data)
    _write(made, rows, seed)

    return made


def _telling(fresh: digits.Digits, intensity: float) -> digits.Digits:
    """Puts first some digits that are far from what is asked, so that there is something to see."""
    order = (fresh.values["intensity"] - intensity).abs().argsort(descending=True)
    first = order[: JUDGED // 2 : JUDGED // (2 * ASKED)]
    order = torch.cat([first, order[~torch.isin(order, first)]])

    return digits.Digits({name: column[order] for name, column in fresh.values.items()}, fresh.styles.select(order))


def _error(image: Tensor, true: Tensor) -> float:
    return (image - true).abs().mean().item()


def _draw(made: Demo, data: Mapping[str, Tensor]) -> None:
    """Draws where the answers lie, and the images side by side."""
    before = made.answers["backtracking"].learned.factual.values
    drawn = {kind: made.answers[kind].learned.values for kind in ("backtracking", "interventional")}
    worlds = {"factual": before, **drawn}
    dots = [(kind, each["thickness"][:ASKED], each["intensity"][:ASKED]) for kind, each in reversed(worlds.items())]
    cloud = (data["thickness"][:CLOUD], data["intensity"][:CLOUD])
    plane = Scatter("where the answers lie", NUMBERS, cloud, dots)

    tiles, columns, notes = [before["image"][:ASKED]], ["factual"], [_notes(before)]
    for kind, values in drawn.items():
        tiles += [values["image"][:ASKED], made.answers[kind].image[:ASKED]]
        columns += [kind, "truth"]
        notes += [_notes(values), _notes(made.answers[kind].true.values)]
    title = f"had the intensity been {made.intensity:g}"
    pictures = Pictures(title, ("", ""), torch.stack(tiles, dim=1), columns, (), list(zip(*notes, strict=True)))
    plot_panels([[plane, pictures]], width=8.4, heights=[4.0], path=made.figure)


def _notes(values: Mapping[str, Tensor]) -> list[str]:
    return [f"t {values['thickness'][k]:.1f}, i {values['intensity'][k]:.0f}" for k in range(ASKED)]


def _write(made: Demo, rows: int, seed: int) -> None:
    """Writes the page."""
    asked = f"{made.intensity:g}"
    caption = (
        "Left: thickness and intensity of the data (blue), five factual digits (red) and where both kinds of answers "
        "put them. Right: the digits as they would have looked, each beside the image that the strokes themselves give."
    )
    fits = [
        [each.name, each.mechanism, f"{each.nll:.4f}", f"{each.epochs}", f"{each.seconds:.1f}", "; ".join(each.notes)]
        for each in made.report
    ]
    errors = [[label, f"{error:.2f}"] for label, error in made.errors.items()]
    parts = [
        paragraph(
            f"A causal model of thickness, intensity and image was learned from {rows:,} digits (seed {seed}), with "
            f"the graph thickness -> intensity and both -> image. Then it was asked: had the intensity of these digits "
            f"been {asked}, what else would have been different? In these data thick digits are bright. A backtracking "
            f"answer keeps that law and traces the change back to its causes: the digit would have been another "
            f"thickness too. An interventional answer breaks the law of intensity, and thickness never hears of it."
        ),
        picture(made.figure, caption),
        paragraph("Learned / true. Distance: how far the noise had to move; status: did it hold.", "The answers"),
        table(made.columns, [row for block in made.rows() for row in block]),
        paragraph(
            f"Mean absolute error of {JUDGED} fresh images, in grey levels of 255, against the images that the strokes "
            f"give with the true counterfactual thickness and intensity; beside it the error of doing nothing.",
            "How far from the truth",
        ),
        table(("image", "error"), errors),
        paragraph("Each law was learned on its own; nll is on held-out rows, in nats.", "The fit"),
        table(("variable", "mechanism", "held-out nll", "epochs", "seconds", "notes"), fits),
    ]
    write_page(made.page, f"Had the intensity been {asked}", parts)
