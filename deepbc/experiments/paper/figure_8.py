"""The paper's figure 8: five samples of stochastic backtracking, each a face that could have been."""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

from pathlib import Path

import pandas

from deepbc.experiments.faces_setup import Config, album, fit_faces, person, portraits
from deepbc.experiments.runner import Finding, gather
from deepbc.plots import Figure, plot_panels
from deepbc.queries import backtrack_samples

TITLE = "Five faces that could have been: samples of stochastic backtracking"
PANEL, FACTUAL, BALD, SAMPLES = "had he been bald", "factual", 1.8, 5


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Asks a young man to be bald, and draws five answers; a row for each portrait."""
    fitted, faces = fit_faces(config, fits)
    man = person(fitted, faces.fresh, age=-0.7, gender=1.0, beard=0.8, bald=-0.3)
    cf = backtrack_samples(fitted.scm, man, {"bald": BALD}, samples=SAMPLES, seed=config.seed)
    parts = [portraits(fitted, man, panel=PANEL, what=FACTUAL, error=0.0, converged=True)]
    for k in range(SAMPLES):
        values = {name: each[k] for name, each in cf.values.items()}
        columns = {"error": cf.error[k].item(), "converged": bool((cf.status == "converged").all())}
        parts.append(portraits(fitted, values, panel=PANEL, what=f"{k + 1}", **columns))

    return gather(parts, {"data": faces.data})


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What the samples have in common, and what not."""
    drawn = rows[rows.what != FACTUAL]

    return (
        Finding("every sample is as bald as was asked", (drawn.error < 1e-6).all()),
        Finding("they differ in who they are", drawn[["age", "gender", "beard"]].std().min() > 0.05),
        Finding("and are converged", drawn.converged.all()),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws the portraits and their attributes."""
    return plot_panels([[panel] for panel in album(rows)], width=6.5, heights=[1.5, 1.5])
