"""Every method against the true counterfactual, where the paper could not look: on the attributes of drawn faces.

The factual rows come from the equations of the faces, and so do the true answers: backtracking in the true model, with
all noises and with two. Each method is scored by the mean absolute error of its attributes, in about standard
deviations: those that move all they like against the first truth, those that keep to two moves against the second. An
intervention and a deep explanation, which know no such choice, are held against both. A deep explanation sees images
alone: what it reads from them, a network learned from images and their true attributes.
Portraits are held against those that the renderer draws of the true answer in the factual style, in grey levels. A deep
explanation makes its own; for all others one autoencoder draws the attributes with the factual noise of the image. All
keep what the autoencoder misses in the factual portrait, so that what is scored is the change.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas
import torch
from torch import Tensor

from deepbc.datasets import faces as drawn
from deepbc.evaluation.baselines import Latent, Tabular
from deepbc.evaluation.metrics import observed
from deepbc.experiments import faces_setup
from deepbc.experiments.attribute_reader import train_reader
from deepbc.experiments.face_questions import (
    ATTRIBUTES,
    Answers,
    Method,
    Questions,
    answers,
    draw_questions,
    of_attributes,
)
from deepbc.experiments.runner import Finding, gather
from deepbc.graph import CausalGraph
from deepbc.plots import Cells, Figure, plot_panels
from deepbc.queries import backtrack, intervene
from deepbc.recipes import faces
from deepbc.scm.model import SCM
from deepbc.solvers import Exact, Solver, Sparse
from deepbc.training.trainer import Training

TITLE = "Every method against the true counterfactual, on the attributes of drawn faces"
SOLVERS: Mapping[str, Solver] = {"all noises": Exact(), "two noises": Sparse(keep=2)}
OURS, WRONG, FORCED, NOTHING = "DeepBC", "wrong graph", "interventional", "doing nothing"
TABULAR, DEEP = "tabular explanation", "deep explanation"
STEPS = Exact(starts=0, steps=30)
READING = Training(batch=64, learning_rate=1e-3, patience=3, average=100, pull=0.0, validation=0.1)


@dataclass(frozen=True, slots=True)
class Config:
    """How the experiment is run.

    Args:
        rows: The faces whose attributes are fitted.
        epochs: The most passes over them.
        images: The faces whose images are fitted, and how.
        queries: How many questions are asked.
        seed: Where all random numbers come from.
    """

    rows: int = 30_000
    epochs: int = 200
    images: faces_setup.Config = field(default_factory=faces_setup.Config)
    queries: int = 500
    seed: int = 0

    @classmethod
    def quick(cls) -> "Config":
        return cls(rows=10_000, epochs=100, images=faces_setup.Config.quick(), queries=300)


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Fits the right and the wrong graph and the regressors, asks all; a row for each question and method."""
    truth = faces.truth()
    data = truth.sample(config.rows, seed=config.seed).values
    training = Training(epochs=config.epochs)
    right, wrong = (_fitted(graph, data, training, config.seed) for graph in (faces.GRAPH, faces.WRONG))
    table = Tabular.fit(data, ATTRIBUTES, training=training, seed=config.seed)
    drawer, latent = _image_models(config, fits)
    fresh = drawn.sample(config.queries, seed=config.seed + 1, size=config.images.size)
    questions = draw_questions(fresh.values, config.seed)

    # These know no choice of noises.
    same = {
        FORCED: answers(questions, of_attributes(functools.partial(intervene, right))),
        DEEP: _kept(answers(questions, functools.partial(latent.explain, drawer, solver=STEPS)), questions, latent),
        NOTHING: _unchanged(questions),
    }

    parts = []
    for kind, solver in SOLVERS.items():
        methods: dict[str, Method] = {
            OURS: functools.partial(backtrack, right, solver=solver),
            WRONG: functools.partial(backtrack, wrong, solver=solver),
            TABULAR: functools.partial(table.explain, right, solver=solver),
        }
        found = {label: answers(questions, of_attributes(method)) for label, method in methods.items()} | same
        true = answers(questions, of_attributes(functools.partial(backtrack, truth, solver=solver))).values
        true["image"] = drawn.truth(fresh.styles, true, size=config.images.size)
        for label, each in found.items():
            parts.append(_scored(questions, _portrayed(each, questions, drawer), true).assign(kind=kind, method=label))

    return gather(parts, {"data": f"attributes of {config.rows:,} drawn faces, images of {config.images.rows:,}"})


def _image_models(config: Config, fits: Path) -> tuple[SCM, Latent]:
    """Learns to draw portraits from true attributes; and, from images alone, an autoencoder and what reads them."""
    values = drawn.sample(config.images.rows, seed=config.seed, size=config.images.size).values
    reader = train_reader(values, ATTRIBUTES, replace(READING, epochs=config.images.epochs), config.seed, fits)
    readers = {name: reader.of(name) for name in ATTRIBUTES}
    latent = faces_setup.fit_alone(values["image"], readers, config.images, fits)

    return faces_setup.fit_drawn(values, config.images, fits), latent


def _kept(found: Answers, questions: Questions, latent: Latent) -> Answers:
    """Adds to portraits what the autoencoder of a deep explanation misses in the factual ones."""
    scm = next(iter(latent.models.values()))
    factual = questions.factual["image"].double()
    again = scm.predict(scm.abduct({"image": questions.factual["image"]}))["image"].double()
    images = (found.values["image"].double() + factual - again).clamp(0.0, 255.0)

    return replace(found, values={**found.values, "image": images})


def _unchanged(questions: Questions) -> Answers:
    """The factual rows, as if they were answers."""
    none = torch.full_like(questions.value, torch.nan)

    return Answers(dict(questions.factual), none, none.isfinite())


def _portrayed(found: Answers, questions: Questions, drawer: SCM) -> Answers:
    """Answers with portraits: where a method has none, its attributes are drawn with the factual noise of the image."""
    if "image" in found.values:
        return found
    forced = {name: found.values[name] for name in ATTRIBUTES}

    return replace(found, values={**forced, "image": intervene(drawer, questions.factual, forced).values["image"]})


def _scored(questions: Questions, found: Answers, true: Mapping[str, Tensor]) -> pandas.DataFrame:
    """A row for each question: what was asked, the answer, the true one, and how far they are apart."""
    apart = (found.values["image"].double() - true["image"].double()).abs().flatten(1).mean(1)
    columns = {
        "asked": [ATTRIBUTES[place] for place in questions.asked.tolist()],
        "value": questions.value.numpy(),
        "error": observed(true, found.values, ATTRIBUTES, power=1).numpy(),
        "image error": apart.numpy(),
        "converged": found.converged.numpy(),
        **{name: found.values[name].numpy() for name in ATTRIBUTES},
        **{f"true {name}": true[name].numpy() for name in ATTRIBUTES},
    }

    return pandas.DataFrame(columns).rename_axis("query").reset_index()


def _fitted(graph: CausalGraph, data: "Mapping[str, Tensor]", training: Training, seed: int) -> SCM:
    scm = faces.model(faces.without_image(graph))
    scm.fit(data, seed=seed, training=dict.fromkeys(ATTRIBUTES, training))

    return scm


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What a learned model is worth beside the truth, and beside other methods."""
    errors, images = (rows.groupby(["kind", "method"])[name].mean() for name in ("error", "image error"))
    next_best = {kind: errors[kind].drop([OURS, NOTHING]).min() for kind in SOLVERS}

    return (
        Finding("every answer of DeepBC is converged", rows[rows.method == OURS].converged.all()),
        Finding("every error is a number", np.isfinite(rows[["error", "image error"]]).all(axis=None)),
        *(
            Finding(
                f"with {kind} DeepBC has at most half the error of the next best method",
                errors[kind, OURS] <= 0.5 * next_best[kind],
            )
            for kind in SOLVERS
        ),
        Finding(
            "with all noises it is within 0.1 standard deviations of the truth, on average",
            errors["all noises", OURS] < 0.1,
        ),
        *(
            Finding(
                f"with {kind} its portraits are nearer to the true ones than those of explanations without causes",
                images[kind, OURS] < images[kind][[TABULAR, DEEP]].min(),
            )
            for kind in SOLVERS
        ),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws the table: the mean error of each method and its standard error."""
    cells = []
    for label in (OURS, WRONG, FORCED, TABULAR, DEEP, NOTHING):
        line = [label]
        for column, digits in (("error", 3), ("image error", 2)):
            for kind in SOLVERS:
                part = rows[(rows.kind == kind) & (rows.method == label)][column]
                line.append(f"{part.mean():.{digits}f} ± {part.std() / len(part) ** 0.5:.{digits}f}")
        cells.append(line)
    heads = ["", *(f"{what},\n{kind}" for what in ("attributes", "portrait") for kind in SOLVERS)]
    title = "Mean absolute error against the true counterfactual: standard deviations, grey levels"

    return plot_panels([[Cells(title, ("", ""), heads, cells)]], width=6.5, heights=[1.9])
