"""What the experiments start from: rows of Morpho-MNIST, a factual one, questions, and fitted models."""

__all__ = [
    "NAMES",
    "NUMBERS",
    "PIXELS",
    "Ask",
    "Config",
    "asked",
    "background",
    "factual",
    "fit_images",
    "fit_numbers",
    "gallery",
    "images",
    "numbers",
    "others",
    "pictures",
    "pixels",
    "table",
    "with_residual",
]

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas
import torch
from torch import Tensor

from deepbc.datasets import digits, morphomnist
from deepbc.datasets.download import VARIABLE
from deepbc.errors import DataError, SettingError
from deepbc.experiments.runner import fit_folder
from deepbc.graph import CausalGraph
from deepbc.mechanisms import ConvVAE
from deepbc.numerics.seeding import generator
from deepbc.plots import Pictures
from deepbc.queries.results import Counterfactual
from deepbc.recipes import morphomnist as recipes
from deepbc.scm.model import SCM
from deepbc.training.report import FitReport
from deepbc.training.trainer import Training

NAMES = ("thickness", "intensity")
NUMBERS = CausalGraph.parse("thickness -> intensity")
# A question: `backtrack` or `intervene`.
Ask = Callable[..., Counterfactual]

# The columns of an image in a table.
SIDE = 28
PIXELS = [f"pixel {k}" for k in range(SIDE**2)]
# Points that show the density of the data; bins, in another of which values are asked for.
CLOUD, BINS = 4000, 9


@dataclass(frozen=True, slots=True)
class Config:
    """How an experiment on thickness and intensity is run.

    Args:
        rows: The rows to fit; None fits all 60,000.
        epochs: The most passes over the rows in a fit.
        antecedents: How many values are asked for.
        seed: Where all random numbers come from.
    """

    rows: int | None = None
    epochs: int = 500
    antecedents: int = 15
    seed: int = 0

    @classmethod
    def quick(cls) -> "Config":
        return cls(rows=2_000, epochs=25, antecedents=7)


def numbers(rows: int | None, seed: int) -> tuple[Mapping[str, Tensor], str]:
    """Reads thickness and intensity of Morpho-MNIST, all rows or the first; where the set cannot be had, draws as many.

    A set that `DEEPBC_DATA` names and that cannot be read is an error.

    Returns:
        The columns, and where they come from.
    """
    values = _load("train")
    if values is None:
        drawn = recipes.truth().sample(rows or 60_000, seed=seed).values
        return {name: drawn[name] for name in NAMES}, "drawn from the equations of Morpho-MNIST"

    return {name: values[name][:rows] for name in NAMES}, "Morpho-MNIST"


def images(split: str, rows: int | None, seed: int) -> tuple[Mapping[str, Tensor], str]:
    """Reads Morpho-MNIST with its images, as `numbers` does; where it cannot be had, draws digits from strokes."""
    values = _load(split)
    if values is None:
        count = rows or {"train": 60_000, "test": 10_000}[split]
        drawn = digits.sample(count, seed=seed + (split == "test"))
        return drawn.values, "digits drawn from strokes with the equations of Morpho-MNIST"

    return {name: column[:rows] for name, column in values.items()}, "Morpho-MNIST"


def _load(split: str) -> Mapping[str, Tensor] | None:
    try:
        return morphomnist.load(split).values
    except (DataError, SettingError):
        if os.environ.get(VARIABLE):
            raise
        return None


def factual(data: Mapping[str, Tensor], thickness: float, intensity: float) -> dict[str, Tensor]:
    """Picks the row that is nearest to a point, in standard deviations."""
    t, i = data["thickness"], data["intensity"]
    nearest = ((t - thickness) / t.std()).square().add(((i - intensity) / i.std()).square()).argmin()

    return {name: column[nearest] for name, column in data.items()}


def asked(count: int) -> dict[str, Tensor]:
    """The values that the paper's figures ask for."""
    return {"intensity": torch.linspace(75.0, 245.0, count), "thickness": torch.linspace(1.3, 4.5, count)}


def fit_numbers(data: Mapping[str, Tensor], epochs: int, seed: int, fits: Path, *, graph: CausalGraph = NUMBERS) -> SCM:
    """Fits thickness and intensity, or takes the model from an earlier run with the same data and settings."""
    scm = recipes.model(graph)
    columns = {name: data[name] for name in NAMES}
    training = {name: Training(epochs=epochs) for name in NAMES}
    _fit(scm, columns, training, seed, fits, "numbers")

    return scm


def fit_images(
    data: Mapping[str, Tensor], epochs: int, seed: int, fits: Path, *, preset: str = "default"
) -> tuple[SCM, FitReport]:
    """Fits thickness, intensity and image, or takes the model from an earlier run with the same data and settings."""
    scm = recipes.model(preset=preset)
    training = {"image": ConvVAE.default_training, **recipes.training(preset=preset)}
    training["image"] = replace(training["image"], epochs=epochs)

    return scm, _fit(scm, data, training, seed, fits, f"images-{preset}")


def _fit(
    scm: SCM, data: Mapping[str, Tensor], training: Mapping[str, Training], seed: int, fits: Path, name: str
) -> FitReport:
    settings = [repr(scm), {variable: asdict(each) for variable, each in training.items()}, seed]

    return scm.fit(data, seed=seed, training=training, checkpoint=fit_folder(fits, name, settings, data.values()))


def with_residual(scm: SCM, residual: bool) -> SCM:
    """The same weights, with and without what the decoder misses."""
    image: Any = scm.mechanisms["image"].copy()
    image.residual = residual

    return scm.replace("image", image)


def others(values: Tensor, seed: int) -> Tensor:
    """Draws, for each row, one of the observed values that lie in another bin."""
    low, high = values.aminmax()
    bins = ((values - low) / (high - low) * BINS).floor().clamp_max(BINS - 1)
    stream = generator(seed, "others")
    drawn = values.clone()
    for k in range(BINS):
        elsewhere, here = values[bins != k], bins == k
        drawn[here] = elsewhere[torch.randint(len(elsewhere), (int(here.sum()),), generator=stream)]

    return drawn


def background(scm: SCM, data: Mapping[str, Tensor], point: Mapping[str, Tensor]) -> list[pandas.DataFrame]:
    """Rows of some of the data, and one of the factual point and its noise."""
    cloud = {name: data[name][:CLOUD].numpy() for name in NAMES}
    noise = {f"noise of {name}": u.item() for name, u in scm.abduct(point).items() if name in NAMES}
    here = {name: point[name].item() for name in NAMES}

    return [pandas.DataFrame({"kind": "data", **cloud}), pandas.DataFrame([{"kind": "factual", **here, **noise}])]


def table(cf: Counterfactual, **labels: Any) -> pandas.DataFrame:
    """A row for each answer: labels, what was asked, thickness and intensity, their noise, the error and the status."""
    name, value = next(iter(cf.antecedent.items()))
    columns = {**labels, "asked": name, "value": value.numpy()}
    for name in NAMES:
        columns |= {name: cf.values[name].numpy(), f"noise of {name}": cf.noise[name].numpy()}

    return pandas.DataFrame({**columns, "error": cf.error.numpy(), "status": [str(each) for each in cf.status]})


def pixels(image: Tensor) -> pandas.DataFrame:
    """A row for each image, a column for each pixel."""
    return pandas.DataFrame(image.reshape(-1, SIDE**2).double().round(decimals=1).numpy(), columns=PIXELS)


def pictures(rows: pandas.DataFrame) -> Tensor:
    """The images of rows, with shape `(rows, 28, 28)`."""
    return torch.tensor(rows[PIXELS].to_numpy()).reshape(-1, SIDE, SIDE)


def gallery(rows: pandas.DataFrame, labels: Sequence[str]) -> list[Pictures]:
    """A panel for each label: below one another the images of its rows, side by side what they are."""
    panels = []
    for label in labels:
        part = rows[(rows.kind == "image") & (rows.label == label)]
        whats = list(dict.fromkeys(part.what))
        tiles = torch.stack([pictures(part[part.what == what]) for what in whats], dim=1)
        panels.append(Pictures(label, ("", ""), tiles, whats))

    return panels
