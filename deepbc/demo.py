"""The main job in one call: fit a model to rows of known origin, ask it both ways, and keep what came out."""

__all__ = ["Answers", "Demo", "run_demo"]

import os
from dataclasses import dataclass
from pathlib import Path

from deepbc.errors import StorageError
from deepbc.graph import CausalGraph
from deepbc.plots import plot_plane
from deepbc.queries import backtrack, intervene
from deepbc.recipes import morphomnist
from deepbc.results import Counterfactual, FitReport
from deepbc.scm import SCM


@dataclass(frozen=True, slots=True)
class Answers:
    """What one model answers, if the law of the antecedent is broken and if every law is kept."""

    interventional: Counterfactual
    backtracking: Counterfactual


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo made.

    Args:
        report: The report of the fit.
        learned: What the learned model answers.
        true: What the equations that generated the rows answer.
        figure: The figure.
        model: The saved model.
    """

    report: FitReport
    learned: Answers
    true: Answers
    figure: Path
    model: Path


def run_demo(folder: str | os.PathLike[str], *, rows: int = 20_000, intensity: float = 220.0, seed: int = 0) -> Demo:
    """Fits thickness -> intensity and asks what another intensity would have meant.

    Args:
        folder: Where the figure and the model go.
        rows: The number of rows drawn from the paper's equations.
        intensity: The intensity to ask about, between 64 and 255.
        seed: Where all random numbers come from.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be made a folder ({error.strerror}). Choose another.") from error
    truth = morphomnist.truth()
    data = truth.sample(rows, seed=seed)

    scm = SCM(CausalGraph.parse("thickness -> intensity"), bounds={"intensity": (64, 255)})
    report = scm.fit(data.values, seed=seed)
    factual = truth.sample(5, seed=seed + 1)
    learned, true = (
        Answers(*(ask(model, factual.values, {"intensity": intensity}) for ask in (intervene, backtrack)))
        for model in (scm, truth)
    )

    scm.save(folder / "model")
    cloud, points, forced, traced = (
        (values["thickness"][:4000], values["intensity"][:4000])
        for values in (data.values, factual.values, learned.interventional.values, learned.backtracking.values)
    )
    answers = {"interventional": forced, "backtracking": traced}
    plot_plane(cloud, points, answers, ("thickness", "intensity"), folder / "figure.png")

    return Demo(report, learned, true, folder / "figure.png", folder / "model")
