"""Every method against the true counterfactual, where the paper could not look: on the attributes of drawn faces.

The factual rows come from the equations of the faces, and so do the true answers: backtracking in the true model, with
all noises and with two. Each method is judged by the mean absolute error of its attributes, in about standard
deviations: those that move all they like against the first truth, those that keep to two moves against the second. An
intervention and a deep explanation, which know no such choice, are held against both. A deep explanation sees images
alone: what it reads from them, a network learned from images and their true attributes.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from deepbc.baselines import Latent, Tabular
from deepbc.datasets import faces as drawn
from deepbc.experiments import portraits
from deepbc.experiments.base import Finding
from deepbc.experiments.judge import train_judge
from deepbc.experiments.questions import ATTRIBUTES, Answers, Method, Questions, answers, draw_questions, of_attributes
from deepbc.graph import CausalGraph
from deepbc.metrics import observed
from deepbc.plots import Cells, plot_panels
from deepbc.queries import backtrack, intervene
from deepbc.recipes import faces
from deepbc.scm import SCM
from deepbc.solvers import Exact, Solver, Sparse
from deepbc.training import Training

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from torch import Tensor

TITLE = "Every method against the true counterfactual, on the attributes of drawn faces"
SOLVERS: Mapping[str, Solver] = {"all noises": Exact(), "two noises": Sparse(keep=2)}
TRUE, OURS, WRONG = "truth", "DeepBC", "wrong graph"
FORCED, TABULAR, DEEP = "interventional", "tabular explanation", "deep explanation"
JUDGING = Training(batch=64, learning_rate=1e-3, patience=3, average=100, pull=0.0, validation=0.1)


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
    images: portraits.Config = field(default_factory=portraits.Config)
    queries: int = 500
    seed: int = 0

    @classmethod
    def quick(cls) -> "Config":
        return cls(rows=10_000, epochs=100, images=portraits.Config.quick(), queries=300)


def run(config: Config, fits: Path) -> "pandas.DataFrame":
    """Fits the right and the wrong graph and the regressors, asks all; a row for each question and method."""
    import pandas

    truth = faces.truth()
    data = truth.sample(config.rows, seed=config.seed).values
    training = Training(epochs=config.epochs)
    right, wrong = (_fitted(graph, data, training, config.seed) for graph in (faces.GRAPH, faces.WRONG))
    table = Tabular.fit(data, ATTRIBUTES, training=training, seed=config.seed)
    latent = _latent(config, fits)
    factual = drawn.sample(config.queries, seed=config.seed + 1, size=config.images.size).values
    questions = draw_questions(factual, config.seed)

    # These know no choice of noises.
    same = {
        FORCED: answers(questions, of_attributes(functools.partial(intervene, right))),
        DEEP: answers(questions, functools.partial(latent.explain, right, solver=Exact(places=0, steps=30))),
    }

    parts = []
    for kind, solver in SOLVERS.items():
        methods: dict[str, Method] = {
            TRUE: functools.partial(backtrack, truth, solver=solver),
            OURS: functools.partial(backtrack, right, solver=solver),
            WRONG: functools.partial(backtrack, wrong, solver=solver),
            TABULAR: functools.partial(table.explain, right, solver=solver),
        }
        found = {label: answers(questions, of_attributes(method)) for label, method in methods.items()} | same
        true = found.pop(TRUE)
        parts += [_judged(questions, each, true).assign(kind=kind, method=label) for label, each in found.items()]

    rows = pandas.concat(parts, ignore_index=True)
    rows.attrs |= {"data": f"attributes of {config.rows:,} drawn faces, images of {config.images.rows:,}"}

    return rows


def _latent(config: Config, fits: Path) -> Latent:
    """Learns an autoencoder of images, and what reads their true attributes."""
    values = drawn.sample(config.images.rows, seed=config.seed, size=config.images.size).values
    judge = train_judge(values, ATTRIBUTES, replace(JUDGING, epochs=config.images.epochs), config.seed, fits)

    return portraits.fit_alone(values["image"], {name: judge.reader(name) for name in ATTRIBUTES}, config.images, fits)


def _judged(questions: Questions, found: Answers, true: Answers) -> "pandas.DataFrame":
    """A row for each question: what was asked, the answer, the true one, and how far they are apart."""
    import pandas

    columns = {
        "asked": [ATTRIBUTES[place] for place in questions.asked.tolist()],
        "value": questions.value.numpy(),
        "error": observed(true.values, found.values, ATTRIBUTES, power=1).numpy(),
        "converged": found.converged.numpy(),
        **{name: found.values[name].numpy() for name in ATTRIBUTES},
        **{f"true {name}": true.values[name].numpy() for name in ATTRIBUTES},
    }

    return pandas.DataFrame(columns).rename_axis("query").reset_index()


def _fitted(graph: CausalGraph, data: "Mapping[str, Tensor]", training: Training, seed: int) -> SCM:
    scm = faces.model(faces.without_image(graph))
    scm.fit(data, seed=seed, training=dict.fromkeys(ATTRIBUTES, training))

    return scm


def findings(rows: "pandas.DataFrame") -> tuple[Finding, ...]:
    """What a learned model is worth beside the truth, and beside other methods."""
    errors = rows.groupby(["kind", "method"])["error"].mean()
    ours = {kind: errors[kind, OURS] for kind in SOLVERS}
    next_best = {kind: errors[kind].drop(OURS).min() for kind in SOLVERS}

    return (
        Finding("every answer of DeepBC is converged", bool(rows[rows.method == OURS].converged.all())),
        *(
            Finding(
                f"with {kind} DeepBC has at most half the error of the next best method",
                bool(ours[kind] <= 0.5 * next_best[kind]),
            )
            for kind in SOLVERS
        ),
        Finding(
            "with all noises it is within 0.1 standard deviations of the truth, on average", ours["all noises"] < 0.1
        ),
    )


def render(rows: "pandas.DataFrame") -> "Figure":
    """Draws the table: the mean error of each method and its standard error."""
    cells = []
    for label in (OURS, WRONG, FORCED, TABULAR, DEEP):
        line = [label]
        for kind in SOLVERS:
            part = rows[(rows.kind == kind) & (rows.method == label)]["error"]
            line.append(f"{part.mean():.3f} ± {part.std() / len(part) ** 0.5:.3f}")
        cells.append(line)
    heads = ["", *(f"{kind},\nagainst their truth" for kind in SOLVERS)]

    return plot_panels(
        [[Cells("Mean absolute error of the attributes, and its standard error", ("", ""), heads, cells)]],
        width=5.0,
        heights=[1.6],
    )
