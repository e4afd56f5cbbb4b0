"""Models of faces: age, gender, beard and bald, as classifiers read them, and the image.

They are those of CelebA, and of the drawn faces that share its graph. `fit` goes the whole way from images and labels
to a model: a classifier for each attribute, its standardised logits as the values of the attribute, a flow for each and
an autoencoder of the image.
"""

__all__ = ["FULL", "GRAPH", "WRONG", "Fitted", "fit", "model", "training", "truth", "without_image"]

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from deepbc._validation import check_choice, check_graph, check_image_shape, check_names
from deepbc.datasets import face_equations
from deepbc.graph import CausalGraph
from deepbc.mechanisms import ConvVAE, Flow, Mechanism
from deepbc.recipes.classifiers import TRAINING, Classifiers, train_classifiers
from deepbc.scm.model import SCM
from deepbc.training.report import FitReport
from deepbc.training.trainer import Training

GRAPH = CausalGraph.parse("age, gender -> beard; age, gender -> bald; age, gender, beard, bald -> image")
# The wrong graph, of which the paper shows what it does to answers, and one that leaves out no edge.
WRONG = CausalGraph.parse("gender -> bald -> age; age, gender -> beard; age, gender, beard, bald -> image")
FULL = CausalGraph.parse(
    "age -> gender; age, gender -> beard; age, gender, beard -> bald; age, gender, beard, bald -> image"
)

PRESETS = ("default", "paper")
PIXELS = (0.0, 255.0)
# The dimension of the noise of an image: ours, and the paper's.
NOISE, PAPER_NOISE = 64, 512
IMAGE = replace(ConvVAE.default_training, batch=32, average=200)
# The paper's flows from the noise outward (appendix B.3.2). Their networks have a single hidden unit; bald has none,
# because it is linear in its causes and little else than noise.
LAYERS, UNITS, STRAIGHT = ("constant affine", *["spline"] * 10, "affine"), (1,), "bald"


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What a fit to labelled images makes.

    Args:
        scm: The model.
        classifiers: What reads the attributes.
        report: How the fit of the model went.
        attributes: The standardised logits that the model was fitted to, with shape `(rows,)`.
    """

    scm: SCM
    classifiers: Classifiers
    report: FitReport
    attributes: Mapping[str, Tensor]


def model(graph: CausalGraph = GRAPH, *, preset: str = "default", residual: bool = False) -> SCM:
    """Creates a model that is yet to be fitted, with `fit(data, training=training(graph, preset=preset))`.

    Args:
        graph: The graph, of some or all of age, gender, beard, bald and image; another one is a call, not a copy.
        preset: `"default"`, our mechanisms, or `"paper"`, its flows and its autoencoder, for images of 64 x 64 or
            128 x 128.
        residual: Whether the image keeps what its decoder misses.

    Example:
        >>> model(without_image(WRONG), preset="paper")
        SCM(gender: Flow, bald: Flow, age: Flow, beard: Flow; not fitted)
    """
    check_graph(graph, CausalGraph)
    paper = check_choice(preset, PRESETS, "preset") == "paper"
    mechanisms: dict[str, Mechanism] = {}
    for name in graph:
        if name == "image":
            mechanisms[name] = ConvVAE(noise=PAPER_NOISE if paper else NOISE, preset=preset, residual=residual)
        elif paper:
            mechanisms[name] = Flow(layers=LAYERS, hidden=() if name == STRAIGHT else UNITS, correction=False)

    return SCM(graph, mechanisms, bounds={"image": PIXELS} if "image" in graph else {})


def training(graph: CausalGraph = GRAPH, *, preset: str = "default") -> Mapping[str, Training]:
    """Returns how the variables are trained: as their mechanisms do, or by the paper's table (appendix B.3.1).

    Where their mechanisms do, the image is learned in smaller batches: there are fewer faces than digits, and what an
    autoencoder of faces needs is steps.

    The paper's autoencoder learns at a rate of 1e-6, at which it would need weeks; here the rate is 1e-3. The arguments
    are those of `model`.
    """
    check_graph(graph, CausalGraph)
    if check_choice(preset, PRESETS, "preset") == "default":
        return {"image": IMAGE} if "image" in graph else {}

    flow = Training(epochs=1000, batch=64, learning_rate=1e-3, patience=2, average=1, pull=0.0, validation=0.2)
    image = replace(flow, batch=128, patience=50, clip=1e4)

    return {name: image if name == "image" else flow for name in graph}


def fit(
    images: Any,
    labels: Mapping[str, Any],
    graph: CausalGraph = GRAPH,
    *,
    preset: str = "default",
    epochs: int | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Fitted:
    """Fits a model to labelled images: classifiers, then flows of their standardised logits and an autoencoder.

    Args:
        images: Bytes, in memory or as a memory map, with shape `(rows, 3, size, size)`.
        labels: Whether each face is old, male, bearded and bald, as `age`, `gender`, `beard` and `bald`: 0 or 1.
        graph: The graph.
        preset: As for `model`.
        epochs: The most passes over the rows, for each classifier and each mechanism; None leaves it to them.
        seed: Same seed, same machine, same data: same model.
        checkpoint: A folder in which the state is kept. A killed fit that is started again goes on from there.
        progress: Whether to show a progress bar; None shows it on a terminal.
    """
    scm = model(graph, preset=preset)
    names = tuple(without_image(graph))
    asked = {name: labels[name] for name in names if name in labels}
    check_names(asked, names, "labels")
    # Said before hours of work rather than after.
    check_image_shape(tuple(images.shape[1:]), preset, "images")
    folders = [None if checkpoint is None else Path(checkpoint) / part for part in ("classifiers", "model")]

    learned = _shortened({"": TRAINING}, epochs)[""]
    classifiers = train_classifiers(
        images, asked, training=learned, seed=seed, checkpoint=folders[0], progress=progress
    )
    attributes = classifiers.read(images)

    chosen = {name: law.default_training for name, law in scm.mechanisms.items()}
    table = _shortened({**chosen, **training(graph, preset=preset)}, epochs)
    data = {**attributes, "image": images} if "image" in graph else attributes
    report = scm.fit(data, seed=seed, training=table, checkpoint=folders[1], progress=progress)

    return Fitted(scm, classifiers, report, attributes)


def truth() -> SCM:
    """Creates the model of the four attributes whose laws are the equations of the drawn faces.

    Example:
        >>> world = truth().sample(3, seed=0)
        >>> world.values["beard"].shape
        torch.Size([3])
    """
    return SCM(face_equations.GRAPH, face_equations.laws())


def without_image(graph: CausalGraph) -> CausalGraph:
    """The graph of the attributes alone; an image, which has no effects, is left out."""
    return CausalGraph({name: parents for name, parents in graph.to_dict().items() if name != "image"})


def _shortened(table: Mapping[str, Training], epochs: int | None) -> dict[str, Training]:
    """The same training, with at most so many epochs."""
    return {name: each if epochs is None else replace(each, epochs=epochs) for name, each in table.items()}
