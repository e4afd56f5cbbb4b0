"""The paper's figure 6: a beard for an old woman, by methods that keep changes few."""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

from pathlib import Path

import pandas

from deepbc.evaluation.baselines import Tabular
from deepbc.experiments.face_questions import ATTRIBUTES
from deepbc.experiments.faces_setup import Config, album, fit_faces, person, portraits, read, shown
from deepbc.experiments.runner import Finding, gather
from deepbc.plots import Figure, plot_panels
from deepbc.queries import backtrack, intervene
from deepbc.solvers import Sparse

TITLE = "A beard for an old woman: sparse backtracking, tabular explanation, intervention"
PANEL, FACTUAL, OURS, TABULAR, FORCED = "had she a beard", "factual", "sparse DeepBC", "tabular", "interventional"
BEARD = 1.5


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Asks an old woman to have a beard, in three ways; a row for each portrait."""
    fitted, faces = fit_faces(config, fits)
    table = Tabular.fit(fitted.attributes, ATTRIBUTES, seed=config.seed)
    woman = person(fitted, faces.fresh, age=1.5, gender=-1.0, beard=-0.8, bald=-0.3)
    asked = {"beard": BEARD}
    drawn = {
        FACTUAL: woman,
        OURS: backtrack(fitted.scm, woman, asked, solver=Sparse(keep=2)).values,
        TABULAR: table.explain(fitted.scm, woman, asked, solver=Sparse(keep=1)).values,
        FORCED: intervene(fitted.scm, woman, asked).values,
    }
    parts = [portraits(fitted, values, panel=PANEL, what=what) for what, values in drawn.items()]

    return gather(parts, {"data": faces.data})


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """The story of the paper's figure."""
    before, ours, table, forced = (shown(rows, PANEL, what) for what in (FACTUAL, OURS, TABULAR, FORCED))

    return (
        Finding("sparse DeepBC makes her more male", ours.gender > before.gender + 0.3),
        Finding("and her portrait shows a beard", read(rows, PANEL, OURS, "beard") > before.beard + 1),
        Finding("it keeps her age", abs(ours.age - before.age) < 1e-6),
        Finding("and baldness follows downstream", ours.bald > before.bald + 0.05),
        Finding("the tabular explanation leaves baldness as it was", abs(table.bald - before.bald) < 1e-6),
        Finding(
            "an intervention changes the beard alone", abs(forced.drop("beard") - before.drop("beard")).max() < 1e-6
        ),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws the portraits and their attributes."""
    return plot_panels([[panel] for panel in album(rows)], width=5.5, heights=[1.7, 1.5])
