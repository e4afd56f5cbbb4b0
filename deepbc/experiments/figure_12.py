"""The paper's figure 12: several antecedents, a change that its own noise absorbs, and a wrong graph, on faces."""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

from pathlib import Path
from typing import TYPE_CHECKING

from deepbc.baselines import Tabular
from deepbc.experiments.base import Finding
from deepbc.experiments.portraits import Config, album, fit_faces, person, portraits, shown
from deepbc.experiments.questions import ATTRIBUTES
from deepbc.plots import plot_panels
from deepbc.queries import backtrack, intervene
from deepbc.recipes import faces
from deepbc.solvers import Sparse

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

TITLE = "Faces: several antecedents, a change absorbed by its own noise, a wrong graph"
SEVERAL, ABSORBED, WRONG = "(a) several antecedents", "(b) had he less of a beard", "(c) another graph"
FACTUAL, ONE, BOTH = "factual", "beard", "beard and age"
OURS, FORCED, TABULAR, RIGHT, OTHER = "DeepBC", "interventional", "tabular", "right graph", "wrong graph"
BEARD, YOUNG, LESS = 1.5, -1.0, 0.4


def run(config: Config, fits: Path) -> "pandas.DataFrame":
    """Asks three questions in several ways; a row for each portrait."""
    import pandas

    fitted, given = fit_faces(config, fits)
    scm, few = fitted.scm, Sparse(keep=2)
    table = Tabular.fit(fitted.attributes, ATTRIBUTES, seed=config.seed)
    wrong = faces.model(faces.without_image(faces.WRONG))
    wrong.fit(fitted.attributes, seed=config.seed)
    woman = person(fitted, given.fresh, age=1.5, gender=-1.0, beard=-0.8, bald=-0.3)
    man = person(fitted, given.fresh, age=0.0, gender=1.3, beard=0.8, bald=0.0)
    # What a model of the attributes says is drawn with the factual noise of the image.
    alone = backtrack(wrong, {name: woman[name] for name in ATTRIBUTES}, {"beard": BEARD}, solver=few).values

    answers = [
        (SEVERAL, FACTUAL, woman),
        (SEVERAL, ONE, backtrack(scm, woman, {"beard": BEARD}).values),
        (SEVERAL, BOTH, backtrack(scm, woman, {"beard": BEARD, "age": YOUNG}).values),
        (ABSORBED, FACTUAL, man),
        (ABSORBED, OURS, backtrack(scm, man, {"beard": LESS}, solver=few).values),
        (ABSORBED, FORCED, intervene(scm, man, {"beard": LESS}).values),
        (ABSORBED, TABULAR, table.explain(scm, man, {"beard": LESS}, solver=Sparse(keep=1)).values),
        (WRONG, FACTUAL, woman),
        (WRONG, RIGHT, backtrack(scm, woman, {"beard": BEARD}, solver=few).values),
        (WRONG, OTHER, intervene(scm, woman, {name: alone[name] for name in ATTRIBUTES}).values),
    ]
    parts = [portraits(values, panel=panel, what=what) for panel, what, values in answers]
    rows = pandas.concat(parts, ignore_index=True)
    rows.attrs |= {"data": given.data}

    return rows


def findings(rows: "pandas.DataFrame") -> tuple[Finding, ...]:
    """What the paper's panels say."""
    both = shown(rows, SEVERAL, BOTH)
    man, ours, table = (shown(rows, ABSORBED, what) for what in (FACTUAL, OURS, TABULAR))
    right, wrong = (shown(rows, WRONG, what) for what in (RIGHT, OTHER))

    return (
        Finding("several antecedents hold at once", bool(max(abs(both.beard - BEARD), abs(both.age - YOUNG)) < 1e-6)),
        Finding(
            "a man has less of a beard with a smaller change than a tabular explanation makes",
            bool(abs(ours.gender - man.gender) < 0.75 * abs(table.drop("beard") - man.drop("beard")).max()),
        ),
        Finding("the wrong graph leads to another answer", bool(abs(right - wrong).max() > 0.1)),
    )


def render(rows: "pandas.DataFrame") -> "Figure":
    """Draws the portraits and their attributes."""
    return plot_panels([[panel] for panel in album(rows)], width=5.5, heights=[1.7, 1.5] * 3)
