"""The paper's figure 12: several antecedents, a change that its own noise absorbs, and a wrong graph, on faces.

For (b) bearded men are asked to have less of a beard, and the one is shown in whom the beard's own noise carries most
of it: that there is such a man is what a tabular explanation cannot say. How much it carries in others is recorded.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

from pathlib import Path

import pandas
import torch
from torch import Tensor

from deepbc.evaluation.baselines import Tabular
from deepbc.experiments.face_questions import ATTRIBUTES
from deepbc.experiments.faces_setup import Config, album, fit_faces, person, portraits, shown
from deepbc.experiments.runner import Finding, gather
from deepbc.plots import Figure, plot_panels
from deepbc.queries import backtrack, intervene
from deepbc.recipes import faces
from deepbc.solvers import Sparse

TITLE = "Faces: several antecedents, a change absorbed by its own noise, a wrong graph"
SEVERAL, MORE = "(a) i. had she a beard, and been young", "(a) ii. had he been old, and not bald"
ABSORBED, WRONG = "(b) had he less of a beard", "(c) had she a beard, by another graph"
FACTUAL, ONE, BOTH = "factual", "one antecedent", "both"
CARRIED = "carried by its own noise"
OURS, FORCED, TABULAR, RIGHT, OTHER = "DeepBC", "interventional", "tabular", "right graph", "wrong graph"
BEARD, YOUNG, OLD, HAIRY = 1.5, -1.0, 1.5, -0.5
# This part of the faces, the most male and bearded, is asked to have so much less of a beard.
PART, LESS = 0.1, 1.0


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Asks three questions in several ways; a row for each portrait."""
    fitted, given = fit_faces(config, fits)
    scm, few = fitted.scm, Sparse(keep=2)
    table = Tabular.fit(fitted.attributes, ATTRIBUTES, seed=config.seed)
    wrong = faces.model(faces.without_image(faces.WRONG))
    wrong.fit(fitted.attributes, seed=config.seed)
    woman = person(fitted, given.fresh, age=1.5, gender=-1.0, beard=-0.8, bald=-0.3)
    man, shares = _shaven(fitted, given.fresh)
    asked = {"beard": man["beard"] - LESS}
    # What a model of the attributes says is drawn with the factual noise of the image.
    alone = backtrack(wrong, {name: woman[name] for name in ATTRIBUTES}, {"beard": BEARD}, solver=few).values

    answers = [
        (SEVERAL, FACTUAL, woman),
        (SEVERAL, ONE, backtrack(scm, woman, {"beard": BEARD}).values),
        (SEVERAL, BOTH, backtrack(scm, woman, {"beard": BEARD, "age": YOUNG}).values),
        (MORE, FACTUAL, man),
        (MORE, ONE, backtrack(scm, man, {"age": OLD}).values),
        (MORE, BOTH, backtrack(scm, man, {"age": OLD, "bald": HAIRY}).values),
        (ABSORBED, FACTUAL, man),
        (ABSORBED, OURS, backtrack(scm, man, asked, solver=few).values),
        (ABSORBED, FORCED, intervene(scm, man, asked).values),
        (ABSORBED, TABULAR, table.explain(scm, man, asked, solver=Sparse(keep=1)).values),
        (WRONG, FACTUAL, woman),
        (WRONG, RIGHT, backtrack(scm, woman, {"beard": BEARD}, solver=few).values),
        (WRONG, OTHER, intervene(scm, woman, {name: alone[name] for name in ATTRIBUTES}).values),
    ]
    parts = [portraits(fitted, values, panel=panel, what=what) for panel, what, values in answers]
    typical = [round(share, 3) for share in shares.quantile(shares.new_tensor([0.25, 0.5, 0.75])).tolist()]
    origin = {"data": given.data, "bearded men": len(shares), "carried by the beard's own noise": typical}
    rows = gather(parts, origin)
    rows.insert(2, CARRIED, shares.max().item() * ((rows.panel == ABSORBED) & (rows.what == OURS)))

    return rows


def _shaven(fitted: faces.Fitted, images: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Asks bearded men to have less of a beard: the one whose own noise carries most of it, and the shares of all."""
    read = fitted.classifiers.read(images)
    men = torch.minimum(read["gender"], read["beard"]).topk(max(1, int(PART * len(images)))).indices
    rows = {name: read[name][men] for name in ATTRIBUTES}
    asked = {"beard": rows["beard"] - LESS}
    cf = backtrack(fitted.scm.part(ATTRIBUTES), rows, asked, solver=Sparse(keep=2))
    shares = cf.moved["beard"] / cf.distance
    one = shares.argmax().reshape(1)

    return {**{name: rows[name][one] for name in ATTRIBUTES}, "image": images[men[one]]}, shares


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What the paper's panels say."""
    she, he = shown(rows, SEVERAL, BOTH), shown(rows, MORE, BOTH)
    missed = max(abs(she.beard - BEARD), abs(she.age - YOUNG), abs(he.age - OLD), abs(he.bald - HAIRY))
    man, ours, table = (shown(rows, ABSORBED, what) for what in (FACTUAL, OURS, TABULAR))
    right, wrong = (shown(rows, WRONG, what) for what in (RIGHT, OTHER))
    changed = max(abs(ours[name] - man[name]) for name in ("age", "gender"))

    return (
        Finding("several antecedents hold at once", missed < 1e-6),
        Finding("there is a man who shaves mostly by the noise of his beard", rows[CARRIED].max() > 0.5),
        Finding(
            "his age and gender change less than a tabular explanation changes an attribute",
            changed < 0.75 * abs(table.drop("beard") - man.drop("beard")).max(),
        ),
        Finding("the wrong graph leads to another answer", abs(right - wrong).max() > 0.1),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws the portraits and their attributes."""
    return plot_panels([[panel] for panel in album(rows)], width=6.0, heights=[1.7, 1.5] * 4)
