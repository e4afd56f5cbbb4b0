"""What the experiments on faces share: the faces, drawn or of CelebA, the models of them, a person, and portraits."""

__all__ = [
    "Config",
    "Faces",
    "album",
    "fit_alone",
    "fit_drawn",
    "fit_faces",
    "load_faces",
    "person",
    "portraits",
    "read",
    "shown",
]

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas
import torch
from torch import Tensor, nn

from deepbc.data.reading import read_image
from deepbc.datasets import celeba, faces
from deepbc.evaluation.baselines import Latent
from deepbc.experiments.face_questions import ATTRIBUTES
from deepbc.experiments.runner import fit_folder
from deepbc.mechanisms import ConvVAE
from deepbc.plots import Cells, Panel, Pictures
from deepbc.recipes import faces as recipes
from deepbc.scm.model import SCM

# One fresh face for so many that are fitted.
FRESH = 5
# What stands before the name of an attribute in the column of what is read of it.
READ = "read "


@dataclass(frozen=True, slots=True)
class Config:
    """How an experiment on faces is run.

    Args:
        rows: The faces to fit; of CelebA at most as many as there are.
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


@dataclass(frozen=True, slots=True, eq=False)
class Faces:
    """Faces to fit, and fresh ones to ask about, which no network sees in training.

    Args:
        images: Bytes, which may be on disk, with shape `(rows, 3, size, size)`.
        labels: Whether each is old, male, bearded and bald, with shape `(rows,)`.
        fresh: The images of the fresh faces.
        source: Where they come from.
    """

    images: Tensor
    labels: Mapping[str, Tensor]
    fresh: Tensor
    source: str

    @property
    def data(self) -> str:
        """The faces in a few words."""
        return f"{len(self.images):,} {self.source} of {self.images.shape[-2]} x {self.images.shape[-1]}"


def load_faces(config: Config) -> Faces:
    """Reads CelebA where it is in the data folder or the cache; where it is not, draws as many faces."""
    fresh = max(config.queries, config.rows // FRESH)
    folder = celeba.find()
    if folder is None:
        drawn = faces.sample(config.rows, seed=config.seed, size=config.size).values
        labels = faces.labels(drawn, seed=config.seed)
        given = {name: (labels[label] == one).long() for name, (label, one) in celeba.ATTRIBUTES.items()}
        others = faces.sample(fresh, seed=config.seed + 1, size=config.size).values["image"]
        return Faces(drawn["image"], given, others, "drawn faces")

    def load(part: str, rows: int) -> celeba.CelebA:
        there = len(celeba.read_labels(folder, part=part)["age"])
        return celeba.load(folder, part=part, size=config.size, rows=min(rows, there))

    fitted, asked = load("train", config.rows), load("test", fresh)

    return Faces(
        read_image(fitted.images, "images"), fitted.labels, read_image(asked.images, "images"), "faces of CelebA"
    )


def fit_faces(config: Config, fits: Path) -> tuple[recipes.Fitted, Faces]:
    """Fits classifiers and a model to faces, or takes them from an earlier run with the same faces and settings."""
    given = load_faces(config)
    place = _fit_folder(fits, "faces", config, [given.images, *given.labels.values()])

    return recipes.fit(given.images, given.labels, epochs=config.epochs, seed=config.seed, checkpoint=place), given


def fit_alone(images: Tensor, readers: Mapping[str, nn.Module], config: Config, fits: Path) -> Latent:
    """Fits an autoencoder to images alone, with the settings of the model's, or takes it from an earlier run."""
    law = ConvVAE(**recipes.model().mechanisms["image"].settings())
    training = replace(recipes.training()["image"], epochs=config.epochs)
    place = _fit_folder(fits, "faces-alone", config, [images])

    return Latent.fit(images, readers, law=law, training=training, seed=config.seed, checkpoint=place)


def fit_drawn(values: Mapping[str, Tensor], config: Config, fits: Path) -> SCM:
    """Fits a model, with residuals, to drawn faces and their true attributes, or takes it from an earlier run."""
    scm, training = recipes.model(residual=True), {**recipes.training()}
    training["image"] = replace(training["image"], epochs=config.epochs)
    place = _fit_folder(fits, "faces-drawn", config, list(values.values()))
    scm.fit(values, seed=config.seed, training=training, checkpoint=place)

    return scm


def _fit_folder(fits: Path, name: str, config: Config, data: list[Tensor]) -> Path:
    return fit_folder(fits, name, [{"epochs": config.epochs, "seed": config.seed}], data)


def person(fitted: recipes.Fitted, images: Tensor, **wanted: float) -> dict[str, Tensor]:
    """Picks the face whose attributes are nearest to what is wanted, as a batch of one row."""
    read = fitted.classifiers.read(images)
    apart = torch.stack([(read[name] - value).square() for name, value in wanted.items()]).sum(0)
    row = apart.argmin().reshape(1)

    return {**{name: read[name][row] for name in ATTRIBUTES}, "image": images[row]}


def portraits(fitted: recipes.Fitted, values: Mapping[str, Any], **labels: Any) -> pandas.DataFrame:
    """A row for each face: labels, its attributes, what classifiers read from its image, and a column for each byte."""
    image = values["image"].flatten(1).double().round()
    pixels = pandas.DataFrame(image.numpy().astype(int), columns=[f"pixel {k}" for k in range(image.shape[1])])
    columns = {name: values[name].double().numpy() for name in ATTRIBUTES}
    columns |= {f"{READ}{name}": each.numpy() for name, each in fitted.classifiers.read(values["image"]).items()}

    return pandas.concat([pandas.DataFrame({**labels, **columns}, index=pixels.index), pixels], axis=1)


def album(rows: pandas.DataFrame) -> list[Panel]:
    """For each panel its portraits side by side, and below them their attributes, beside what is read of them."""
    panels: list[Panel] = []
    for title in dict.fromkeys(rows.panel):
        part = rows[rows.panel == title]
        pixels = torch.tensor(part[[name for name in part.columns if name.startswith("pixel ")]].to_numpy())
        side = round((pixels.shape[1] / 3) ** 0.5)
        panels.append(Pictures(title, ("", ""), pixels.reshape(1, len(part), 3, side, side), list(part.what)))
        cells = [
            [name, *(f"{said:.2f} ({read:.2f})" for said, read in zip(part[name], part[READ + name], strict=True))]
            for name in ATTRIBUTES
        ]
        panels.append(Cells("Attributes (as read from the portrait)", ("", ""), ["", *part.what], cells))

    return panels


def shown(rows: pandas.DataFrame, panel: str, what: str) -> "pandas.Series[float]":
    """The attributes of one portrait."""
    chosen: pandas.Series[float] = rows[(rows.panel == panel) & (rows.what == what)].iloc[0][[*ATTRIBUTES]]

    return chosen


def read(rows: pandas.DataFrame, panel: str, what: str, name: str) -> float:
    """What classifiers read of one attribute from one portrait."""
    return float(rows[(rows.panel == panel) & (rows.what == what)].iloc[0][READ + name])
