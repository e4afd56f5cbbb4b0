r"""Figure 9: how fast each solver lowers the penalised loss, and how well it meets the antecedent.

.. math:: \sum_{\text{questions}} d(u', u) + \lambda \, (F_I(u') - i^*)^2

Adam with three learning rates and the paper's linearisation, with three penalties :math:`\lambda`, for 200 iterations;
and `Exact`, which has no penalty. The second part of the table asks many rows; on some of them linearisation cycles.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas
import torch
from torch import Tensor

from deepbc.experiments import digits_setup as setup
from deepbc.experiments.digits_setup import asked, factual, fit_numbers, numbers
from deepbc.experiments.runner import Finding, gather
from deepbc.numerics.batched import concat_last
from deepbc.numerics.seeding import generator
from deepbc.plots import Cells, Figure, Lines, plot_panels
from deepbc.queries import backtrack
from deepbc.queries.results import Counterfactual
from deepbc.scm.model import SCM
from deepbc.solvers import Exact, Gradient, Linearized, Solver
from deepbc.solvers.problem import Problem, Solution

TITLE = "Solvers: loss over iterations, and the error of the antecedent"
PENALTIES = (10.0, 1e3, 1e6)
RATES = (1.0, 0.1, 1e-3)
# A loss is at its floor within so much of it; and how many iterations "about 5" may be.
NEAR, ABOUT_FIVE = 0.01, 7
# A row cycles where the last of many iterations still moves a noise by more than this.
MOVES = 2e-3


@dataclass(frozen=True, slots=True)
class Config(setup.Config):
    """How the experiment is run, beside what `digits_setup.Config` says.

    Args:
        iterations: The iterations of each solver.
        many: How many rows are asked for the intensity of another one.
    """

    iterations: int = 200
    many: int = 2000

    @classmethod
    def quick(cls) -> "Config":
        return cls(rows=2_000, epochs=25, antecedents=7, many=200)


class _Watched(Solver):
    """Runs a solver, and notes the loss of all rows together wherever it looks."""

    pins = False

    def __init__(self, solver: Solver, penalty: float) -> None:
        self.solver, self.penalty, self.feasibility_tolerance = solver, penalty, solver.feasibility_tolerance
        self.losses: list[float] = []

    def solve(self, problem: Problem) -> Solution:
        def law(v: Tensor, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
            implied, values = problem.law(v, given)
            missed = (values - problem.lower).detach().square().sum()
            cost = problem.cost.value(concat_last([v, implied], v).detach(), problem.rest).sum()
            self.losses.append((cost + self.penalty * missed).item())
            return implied, values

        return self.solver.solve(replace(problem, law=law))


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Runs every solver; a row for each iteration, and one for each end."""
    data, source = numbers(config.rows, config.seed)
    point = factual(data, 2.2, 120.0)
    scm = fit_numbers(data, config.epochs, config.seed, fits)
    question = {"intensity": asked(config.antecedents)["intensity"]}

    parts = []
    for penalty in PENALTIES:
        solvers: dict[str, Solver] = {
            f"Adam, {rate:g}": Gradient(penalty=penalty, learning_rate=rate, steps=config.iterations) for rate in RATES
        }
        solvers["linearisation"] = Linearized(penalty=penalty, steps=config.iterations)
        for label, solver in solvers.items():
            watched = _Watched(solver, penalty)
            cf = backtrack(scm, point, question, solver=watched)
            losses = {"iteration": range(len(watched.losses)), "loss": watched.losses}
            parts.append(pandas.DataFrame({"kind": "trace", "solver": label, "penalty": penalty, **losses}))
            parts.append(_end(label, penalty, cf))
        both = [Linearized(penalty=penalty, steps=config.iterations - less) for less in (1, 0)]
        parts.append(_many(scm, data, config, "linearisation", both, penalty))

    exact = backtrack(scm, point, question)
    loss = {"iteration": [0], "loss": [exact.distance.sum().item()]}
    parts.append(pandas.DataFrame({"kind": "trace", "solver": "Exact", **loss}))
    parts.append(_end("Exact", None, exact))
    parts.append(_many(scm, data, config, "Exact", [Exact()] * 2, None))

    return gather(parts, {"data": source})


def _end(solver: str, penalty: float | None, cf: Counterfactual) -> pandas.DataFrame:
    columns = {"squared error": cf.error.square().sum().item(), "questions": len(cf.error)}

    return pandas.DataFrame([{"kind": "end", "solver": solver, "penalty": penalty, **columns}])


def _many(
    scm: SCM, data: Mapping[str, Tensor], config: Config, label: str, solvers: Sequence[Solver], penalty: float | None
) -> pandas.DataFrame:
    """Asks many rows for the intensity of another, and looks whether the last iteration still moved them."""
    rows = {name: column[: config.many] for name, column in data.items()}
    other = torch.randperm(len(data["intensity"]), generator=generator(config.seed, "other"))[: config.many]
    last, cf = (backtrack(scm, rows, {"intensity": data["intensity"][other]}, solver=each) for each in solvers)
    moves = torch.stack([(cf.noise[name] - last.noise[name]).abs() for name in cf.noise]).amax(0)
    columns = {"row": range(config.many), "error": cf.error.numpy(), "last move": moves.numpy()}

    return pandas.DataFrame(
        {"kind": "many", "solver": label, "penalty": penalty, **columns, "status": cf.status.astype(str)}
    )


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What the paper says of this figure, and what it leaves out: rows on which the steps cycle."""
    trace, many, ends = (rows[rows.kind == kind] for kind in ("trace", "many", "end"))
    losses = {key: part.loss.to_numpy() for key, part in trace.groupby(["solver", "penalty"])}
    floors = [losses["linearisation", penalty] for penalty in PENALTIES]
    slow = [losses[f"Adam, {min(RATES):g}", penalty] for penalty in PENALTIES]
    arrival = max(int((loss > (1 + NEAR) * loss[-1]).nonzero()[0][-1]) + 1 for loss in floors)
    exact, theirs = many[many.solver == "Exact"], many[many.solver != "Exact"]
    cycles = theirs["last move"] > MOVES
    end = ends[ends.solver == "Exact"]

    return (
        Finding(f"linearisation is at its floor after {arrival} iterations, about 5", arrival <= ABOUT_FIVE),
        Finding(
            "Adam with the least learning rate is far from it to the last",
            all(loss[-1] > 2 * floor[-1] for loss, floor in zip(slow, floors, strict=True)),
        ),
        Finding(f"among many rows linearisation cycles on {cycles.mean():.0%}", cycles.any()),
        Finding("every row on which it cycles says so", (theirs.status[cycles] == "not converged").all()),
        Finding("Exact meets every antecedent", exact.error.max() < 1e-6 and (end["squared error"] < 1e-12).all()),
        Finding("and is converged", (exact.status == "converged").all()),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws the losses of each penalty, and the table."""
    trace, ends, many = (rows[rows.kind == kind] for kind in ("trace", "end", "many"))
    labels = tuple(dict.fromkeys(trace.solver))
    panels = []
    for penalty in PENALTIES:
        part = trace[(trace.penalty == penalty) | trace.penalty.isna()]
        lines = {each: (line.iteration.to_numpy(), line.loss.to_numpy()) for each, line in part.groupby("solver")}
        names = ("iteration", "loss of all questions")
        panels.append(Lines(f"penalty {penalty:g}", names, {each: lines[each] for each in labels}))

    cells = []
    for label in labels:
        part = ends[ends.solver == label]
        errors = [f"{each:.2g}" for each in part["squared error"]]
        groups = many[many.solver == label].groupby("penalty", dropna=False)["last move"]
        cycles = [f"{(moves > MOVES).sum()} of {len(moves)}" for _, moves in groups]
        cells.append([label, *_three(errors), *_three(cycles)])
    columns = ["", *(f"error, {each:g}" for each in PENALTIES), *(f"cycles, {each:g}" for each in PENALTIES)]
    caption = "Summed squared errors of the antecedent (sd), and on how many rows a solver cycles, by penalty"

    return plot_panels([panels, [Cells(caption, ("", ""), columns, cells)]], heights=[2.5, 1.6])


def _three(texts: list[str]) -> list[str]:
    """One text for each penalty; a solver without one has the same for all, and one that was not asked has none."""
    return texts if len(texts) == len(PENALTIES) else (texts * len(PENALTIES) or [""] * len(PENALTIES))
