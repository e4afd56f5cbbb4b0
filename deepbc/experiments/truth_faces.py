"""Every method against the true counterfactual, where the paper could not look: on the attributes of drawn faces.

The factual rows come from the equations of the faces, and so do the true answers: backtracking in the true model, with
all noises and with two. Each method is judged by the mean absolute error of its attributes, in about standard
deviations: those that move all they like against the first truth, those that keep to two moves against the second.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deepbc.baselines import Tabular
from deepbc.experiments.base import Finding
from deepbc.experiments.portraits import ATTRIBUTES, Method, answers, draw_questions
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
OURS, WRONG, TABULAR, FORCED = "DeepBC", "wrong graph", "tabular explanation", "interventional"


@dataclass(frozen=True, slots=True)
class Config:
    """How the experiment is run.

    Args:
        rows: The faces to fit.
        epochs: The most passes over them.
        queries: How many questions are asked.
        seed: Where all random numbers come from.
    """

    rows: int = 30_000
    epochs: int = 200
    queries: int = 500
    seed: int = 0

    @classmethod
    def quick(cls) -> "Config":
        return cls(rows=10_000, epochs=100, queries=300)


def run(config: Config, fits: Path) -> "pandas.DataFrame":
    """Fits the right and the wrong graph and the regressors, asks all; a row for each question and method."""
    import pandas

    truth = faces.truth()
    data = truth.sample(config.rows, seed=config.seed).values
    training = Training(epochs=config.epochs)
    right, wrong = (_fitted(graph, data, training, config.seed) for graph in (faces.GRAPH, faces.WRONG))
    table = Tabular.fit(data, ATTRIBUTES, training=training, seed=config.seed)
    questions = draw_questions(truth.sample(config.queries, seed=config.seed + 1).values, config.seed)

    parts = []
    for kind, solver in SOLVERS.items():
        true = answers(questions, _backtracking(truth, solver))
        methods: dict[str, Method] = {
            OURS: _backtracking(right, solver),
            WRONG: _backtracking(wrong, solver),
            TABULAR: functools.partial(table.explain, right, solver=solver),
            FORCED: functools.partial(intervene, right),
        }
        for label, method in methods.items():
            found = answers(questions, method)
            columns = {name: found.values[name].numpy() for name in ATTRIBUTES}
            columns |= {f"true {name}": true.values[name].numpy() for name in ATTRIBUTES}
            told = {
                "kind": kind,
                "method": label,
                "query": range(config.queries),
                "asked": [ATTRIBUTES[place] for place in questions.asked.tolist()],
                "value": questions.value.numpy(),
                "error": observed(true.values, found.values, ATTRIBUTES, power=1).numpy(),
                "converged": found.converged.numpy(),
            }
            parts.append(pandas.DataFrame({**told, **columns}))

    rows = pandas.concat(parts, ignore_index=True)
    rows.attrs |= {"data": f"{config.rows:,} faces, their attributes alone"}

    return rows


def _backtracking(scm: SCM, solver: Solver) -> Method:
    return functools.partial(backtrack, scm, solver=solver)


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
    for label in (OURS, WRONG, FORCED, TABULAR):
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
