"""The paper's table 1: five methods by three metrics, on faces with attributes that classifiers read.

Factual rows are drawn from the fitted model, an attribute of each is asked to be a standard normal number. DeepBC, the
wrong graph and the tabular explanation move at most two noises or columns. All metrics are those of the model with the
right graph; methods are compared question by question.
*Missed* is how far an answer is from what was asked, *own error* how far it is in the eyes of its method: a tabular
explanation has the value that was asked by assignment, whatever its regressor predicts. A deep explanation that is not
converged reaches what was asked, but may not be the nearest.
"""

__all__ = ["PAPER", "TITLE", "Config", "findings", "render", "run"]

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas
import torch
from torch import Tensor

from deepbc.evaluation.baselines import Latent, Tabular
from deepbc.evaluation.metrics import causal, missed, observed, plausible
from deepbc.experiments.face_questions import ATTRIBUTES, Answers, Method, answers, draw_questions, of_attributes
from deepbc.experiments.faces_setup import Config, fit_alone, fit_faces
from deepbc.experiments.runner import Finding, gather
from deepbc.plots import Cells, Figure, plot_panels
from deepbc.queries import backtrack, intervene
from deepbc.recipes import faces
from deepbc.scm.model import SCM
from deepbc.solvers import Exact, Sparse

TITLE = "Five methods by plausibility, closeness and causal compliance, on faces"
TABULAR, FORCED, DEEP, WRONG, OURS = "Tabular CE", "Interventional", "Deep CE", "Wrong graph", "DeepBC"
# The paper's means and standard deviations, on CelebA.
PAPER: Mapping[str, Mapping[str, tuple[float, float]]] = {
    metric: dict(zip((TABULAR, FORCED, DEEP, WRONG, OURS), figures, strict=True))
    for metric, figures in {
        "obs SQU": ((1.778, 1.883), (0.513, 0.892), (0.852, 0.691), (0.690, 1.076), (0.611, 0.985)),
        "obs ABS": ((0.879, 0.575), (0.345, 0.317), (0.720, 0.305), (0.545, 0.451), (0.451, 0.372)),
        "causal SQU": ((2.304, 2.620), (0.674, 1.140), (1.286, 0.983), (0.504, 0.893), (0.498, 0.930)),
        "causal ABS": ((1.080, 0.748), (0.314, 0.265), (0.887, 0.360), (0.400, 0.327), (0.310, 0.270)),
        "plausible": ((0.984, 1.424), (0.374, 0.439), (0.153, 0.281), (0.311, 0.373), (0.301, 0.358)),
    }.items()
}
FULL = "DeepBC, all noises"
KEEP = 2
# An attribute is reached where it is off by so many standard deviations at most.
NEAR = 0.01


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Fits classifiers, models and regressors, asks all methods; a row for each question and method."""
    fitted, given = fit_faces(config, fits)
    right = fitted.scm.part(ATTRIBUTES)
    latent = fit_alone(given.images, fitted.classifiers.classifiers, config, fits)
    methods = _methods(fitted, latent, config.seed)
    questions = draw_questions(fitted.scm.sample(config.queries, seed=config.seed + 1).values, config.seed)

    parts = []
    for label, method in methods.items():
        found = answers(questions, method)
        asked = [ATTRIBUTES[each] for each in questions.asked.tolist()]
        columns = {"method": label, "query": range(config.queries), "asked": asked, "value": questions.value.numpy()}
        each = [missed(right, found.values, {name: questions.value}) for name in ATTRIBUTES]
        columns["missed"] = torch.stack(each)[questions.asked, range(config.queries)].numpy()
        parts.append(pandas.DataFrame({**columns, **_scored(right, questions.factual, found)}))

    accuracy = {name: round(each.accuracy, 3) for name, each in fitted.classifiers.accuracy.items()}

    return gather(parts, {"data": given.data, "accuracy": accuracy})


def _methods(fitted: faces.Fitted, latent: Latent, seed: int) -> dict[str, Method]:
    scm, few = fitted.scm, Sparse(keep=KEEP)
    right = scm.part(ATTRIBUTES)
    wrong = faces.model(faces.without_image(faces.WRONG))
    wrong.fit(fitted.attributes, seed=seed)
    table = Tabular.fit(fitted.attributes, ATTRIBUTES, seed=seed)

    return {
        TABULAR: of_attributes(functools.partial(table.explain, right, solver=few)),
        FORCED: of_attributes(functools.partial(intervene, right)),
        DEEP: functools.partial(latent.explain, scm, solver=Exact(starts=0, steps=30)),
        WRONG: of_attributes(functools.partial(backtrack, wrong, solver=few)),
        OURS: of_attributes(functools.partial(backtrack, right, solver=few)),
        FULL: of_attributes(functools.partial(backtrack, right)),
    }


def _scored(scm: SCM, factual: Mapping[str, Tensor], found: Answers) -> "dict[str, object]":
    """The metrics of answers, one a row."""
    metrics = {
        "obs SQU": observed(factual, found.values, ATTRIBUTES),
        "obs ABS": observed(factual, found.values, ATTRIBUTES, power=1),
        "causal SQU": causal(scm, factual, found.values),
        "causal ABS": causal(scm, factual, found.values, power=1),
        "plausible": plausible(scm, found.values, constant=False),
        "plausible, full": plausible(scm, found.values),
    }
    values = {name: found.values[name].numpy() for name in ATTRIBUTES}

    return {
        **{name: each.numpy() for name, each in metrics.items()},
        **values,
        "own error": found.error.numpy(),
        "converged": found.converged.numpy(),
    }


def _paired(rows: pandas.DataFrame, metric: str, other: str) -> tuple[float, float]:
    """The mean difference of another method to DeepBC, question by question, and its standard error."""
    table = rows.pivot(index="query", columns="method", values=metric)
    gap = table[other] - table[OURS]

    return float(gap.mean()), float(gap.std() / len(gap) ** 0.5)


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """Whether DeepBC keeps to the causal laws as closely as the paper says."""
    causal_gaps = {other: _paired(rows, "causal SQU", other) for other in (TABULAR, FORCED, DEEP, WRONG)}
    ours = rows[rows.method.isin([OURS, FULL])]

    return (
        Finding("every answer of DeepBC is converged", ours.converged.all()),
        Finding("every metric of every answer is a number", np.isfinite(rows[[*PAPER]]).all(axis=None)),
        Finding(
            "every method comes within 0.05 of what was asked on three rows of four",
            rows.groupby("method").missed.quantile(0.75).max() < 0.05,
        ),
        *(
            Finding(
                f"DeepBC is better by the squared causal metric than {other}, by 3 standard errors", gap >= 3 * error
            )
            for other, (gap, error) in causal_gaps.items()
        ),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws the table: means and standard deviations, the paper's means, and differences to DeepBC."""
    methods = (TABULAR, FORCED, DEEP, WRONG, OURS)
    cells = []
    for metric, paper in PAPER.items():
        parts = {method: rows[rows.method == method][metric] for method in methods}
        gaps = {method: _paired(rows, metric, method) for method in methods if method != OURS}
        cells += [
            [metric, *(f"{part.mean():.3f} ± {part.std():.3f}" for part in parts.values())],
            ["- DeepBC", *(f"{gap:+.3f} ± {error:.3f}" for gap, error in gaps.values()), ""],
            ["paper", *("{:.3f} ± {:.3f}".format(*paper[method]) for method in methods)],
        ]
    own = [rows[rows.method == method] for method in methods]
    full = [f"{part['plausible, full'].mean():.3f} ± {part['plausible, full'].std():.3f}" for part in own]
    cells += [
        ["with its constant", *full],
        ["missed", *(f"{part.missed.mean():.4f}" for part in own)],
        ["own error", *(f"{part['own error'].mean():.4f}" for part in own)],
        [f"within {NEAR:g}", *(f"{(part.missed <= NEAR).mean():.1%}" for part in own)],
        ["converged", *(f"{part.converged.mean():.1%}" for part in own)],
    ]
    title = "Mean ± standard deviation; mean difference ± its standard error; the paper's figures, on CelebA"

    return plot_panels([[Cells(title, ("", ""), ["", *methods], cells)]], width=7.0, heights=[5.6])
