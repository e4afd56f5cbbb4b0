"""What the experiments on faces share: the model, a person of the data, portraits, and the questions of the table."""

__all__ = [
    "ATTRIBUTES",
    "Answers",
    "Config",
    "Method",
    "Questions",
    "album",
    "answers",
    "draw_questions",
    "fit_faces",
    "person",
    "portraits",
    "shown",
]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from deepbc.datasets import faces
from deepbc.plots import Cells, Panel, Pictures
from deepbc.recipes import faces as recipes
from deepbc.results import Counterfactual
from deepbc.seeds import generator

if TYPE_CHECKING:
    import pandas

ATTRIBUTES = ("age", "gender", "beard", "bald")
# What a label of CelebA says where ours is 1.
LABELS = {"age": ("Young", 0), "gender": ("Male", 1), "beard": ("No_Beard", 0), "bald": ("Bald", 1)}
Columns = dict[str, Tensor]
# Answers what rows would have been, had one attribute been another.
Method = Callable[[Columns, Columns], Counterfactual]


@dataclass(frozen=True, slots=True)
class Config:
    """How an experiment on faces is run.

    Args:
        rows: The faces to fit.
        size: The height and width of an image.
        epochs: The most passes over the faces, for each network.
        queries: How many questions are asked, where there are many.
        seed: Where all random numbers come from.
    """

    rows: int = 10_000
    size: int = 64
    epochs: int = 30
    queries: int = 500
    seed: int = 0

    @classmethod
    def quick(cls) -> "Config":
        return cls(rows=1_500, size=32, epochs=6, queries=200)

    @property
    def data(self) -> str:
        """Where the rows come from."""
        return f"{self.rows:,} drawn faces of {self.size} x {self.size}"


def fit_faces(config: Config, fits: Path) -> tuple[recipes.Fitted, Tensor]:
    """Draws faces and fits classifiers and a model, or takes them from an earlier run with the same settings.

    Returns:
        What was fitted, and the images.
    """
    drawn = faces.sample(config.rows, seed=config.seed, size=config.size)
    labels = faces.labels(drawn.values, seed=config.seed)
    told = {name: (labels[label] == one).long() for name, (label, one) in LABELS.items()}
    place = fits / f"faces-{config.rows}-{config.size}-{config.epochs}-{config.seed}"
    image = drawn.values["image"]

    return recipes.fit(image, told, epochs=config.epochs, seed=config.seed, checkpoint=place), image


def person(fitted: recipes.Fitted, images: Tensor, **wanted: float) -> dict[str, Tensor]:
    """Picks the face whose attributes are nearest to what is wanted, as a batch of one row."""
    apart = torch.stack([(fitted.attributes[name] - value).square() for name, value in wanted.items()]).sum(0)
    row = apart.argmin().reshape(1)

    return {**{name: fitted.attributes[name][row] for name in ATTRIBUTES}, "image": images[row]}


def portraits(values: Mapping[str, Any], **labels: Any) -> "pandas.DataFrame":
    """A row for each face: labels, its attributes, and a column for each byte of its image."""
    import pandas

    image = values["image"].flatten(1).double().round()
    pixels = pandas.DataFrame(image.numpy().astype(int), columns=[f"pixel {k}" for k in range(image.shape[1])])
    columns = {name: values[name].double().numpy() for name in ATTRIBUTES}

    return pandas.concat([pandas.DataFrame({**labels, **columns}, index=pixels.index), pixels], axis=1)


def album(rows: "pandas.DataFrame") -> list[Panel]:
    """For each panel its portraits side by side, and below them their attributes."""
    panels: list[Panel] = []
    for title in dict.fromkeys(rows.panel):
        part = rows[rows.panel == title]
        pixels = torch.tensor(part[[name for name in part.columns if name.startswith("pixel ")]].to_numpy())
        side = round((pixels.shape[1] / 3) ** 0.5)
        panels.append(Pictures(title, ("", ""), pixels.reshape(1, len(part), 3, side, side), list(part.what)))
        cells = [[name, *(f"{value:.2f}" for value in part[name])] for name in ATTRIBUTES]
        panels.append(Cells("", ("", ""), ["", *part.what], cells))

    return panels


def shown(rows: "pandas.DataFrame", panel: str, what: str) -> "pandas.Series[float]":
    """The attributes of one portrait."""
    chosen: pandas.Series[float] = rows[(rows.panel == panel) & (rows.what == what)].iloc[0][[*ATTRIBUTES]]

    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Factual rows, and for each an attribute and the value that it is asked to have.

    Args:
        factual: The values of all variables, with shape `(rows, ...)`.
        asked: The place of the attribute among the four, with shape `(rows,)`.
        value: The value.
    """

    factual: Mapping[str, Tensor]
    asked: Tensor
    value: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The attributes of the answers of one method, and whether each is converged, with shape `(rows,)`."""

    values: Columns
    converged: Tensor


def draw_questions(factual: Mapping[str, Tensor], seed: int) -> Questions:
    """Draws an attribute for each row, all alike, and a standard normal value for it."""
    rows = len(factual[ATTRIBUTES[0]])
    asked = torch.randint(len(ATTRIBUTES), (rows,), generator=generator(seed, "asked"))
    value = torch.randn(rows, generator=generator(seed, "value"), dtype=torch.float64)

    return Questions(factual, asked, value)


def answers(questions: Questions, method: Method) -> Answers:
    """Puts all questions to a method, those about one attribute together."""
    values = {name: torch.empty_like(questions.value) for name in ATTRIBUTES}
    converged = torch.zeros_like(questions.asked, dtype=torch.bool)
    for place, name in enumerate(ATTRIBUTES):
        rows = (questions.asked == place).nonzero().squeeze(-1)
        if not len(rows):
            continue
        factual = {each: column[rows] for each, column in questions.factual.items()}
        cf = method(factual, {name: questions.value[rows]})
        for each in ATTRIBUTES:
            values[each][rows] = cf.values[each]
        converged[rows] = torch.from_numpy(cf.status == "converged")

    return Answers(values, converged)
