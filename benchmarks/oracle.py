"""`Exact` against an independent multi-start with a hundred starts, on random models in the settings that people ask.

Rows worse than the best known by a thousandth (of it, at least of 1) although `converged`; rows that are lost, that is
not `converged` where a world is known; CPU milliseconds a row in batches of 100; and how certainty is calibrated. The
truth is kept in a folder (`--cache`), so that solvers can be compared quickly. `--first` takes other models.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from oracle_models import SETTINGS, Model, Question, draw_model, draw_question, score_of
from oracle_search import search

import deepbc as bc

ROWS = 100


@dataclass(frozen=True)
class Case:
    """A model and a setting."""

    wavy: bool
    causes: int
    seed: int
    setting: str

    def draw(self) -> tuple[Model, Question]:
        model = draw_model(self.seed, self.causes, wavy=self.wavy, score=score_of(self.setting))
        return model, draw_question(model, self.setting, self.seed, ROWS)

    @property
    def file(self) -> str:
        """Where the truth is kept: to be cleared when models or search change."""
        kind = "wavy" if self.wavy else "mild"
        return f"{kind}-{self.causes}-{self.seed}-{''.join(c for c in self.setting if c.isalnum())}.npy"

    def truth(self, folder: Path) -> np.ndarray:
        file = folder / self.file
        if not file.exists():
            np.save(file, search(*self.draw()).numpy())
        return np.load(file)


@dataclass(frozen=True)
class Result:
    """What became of the rows of a case."""

    case: Case
    worse: np.ndarray
    lost: np.ndarray
    converged: np.ndarray
    unsure: np.ndarray
    certainty: np.ndarray
    milliseconds: float
    gain: np.ndarray


def ask(case: Case, solver: bc.Solver, folder: Path) -> Result:
    truth = case.truth(folder)
    model, question = case.draw()
    scm = model.scm()
    start = time.process_time()
    cf = question.ask(scm, model, solver)
    spent = time.process_time() - start
    converged, distance = np.asarray(cf.status) == "converged", cf.distance.numpy()
    best = np.minimum(truth, np.where(converged, distance, np.inf))
    slack = 1e-3 * np.maximum(best, 1)
    met = cf.error.numpy() <= 1e-6
    right = met & (distance <= best + slack)
    return Result(
        case=case,
        worse=converged & (distance > best + slack),
        lost=~converged & ~right & np.isfinite(truth),
        converged=converged,
        unsure=~converged & right,
        certainty=np.asarray(cf.certainty),
        milliseconds=1e3 * spent / ROWS,
        gain=truth - distance,
    )


def cases(seeds: range, causes: list[int], settings: list[str], kinds: list[bool]) -> Iterator[Case]:
    for wavy in kinds:
        for setting in settings:
            for count in causes:
                for seed in seeds:
                    yield Case(wavy, count, seed, setting)


def show(title: str, results: list[Result]) -> None:
    worse, lost, unsure = (np.concatenate([getattr(r, name) for r in results]) for name in ("worse", "lost", "unsure"))
    held = np.concatenate([r.converged for r in results])
    sure = np.concatenate([r.certainty for r in results])[held]
    largest = max(results, key=lambda r: r.milliseconds)
    mean = np.mean([r.milliseconds for r in results])
    print(
        f"{title:32s} {len(worse):7,d} {worse.mean():7.2%} {lost.mean():7.2%} {unsure.mean():7.2%} {mean:7.2f} "
        f"{largest.milliseconds:7.2f} {(sure >= 0.99).mean():7.1%} {1 - sure.mean():7.2%}",
        flush=True,
    )


def show_calibration(results: list[Result]) -> None:
    sure = np.concatenate([r.certainty[r.converged] for r in results])
    right = np.concatenate([~r.worse[r.converged] for r in results])
    order = np.argsort(sure, kind="stable")
    print("certainty, by tenths of the answers: mean certainty, share of the best known")
    for part in np.array_split(order, 10):
        print(f"  {sure[part].mean():.3f}  {right[part].mean():.3f}  {right[part].mean() - sure[part].mean():+.3f}")


def main(asked: argparse.Namespace) -> None:
    settings = [each for each in SETTINGS if not asked.setting or each in asked.setting]
    kinds = {"mild": [False], "wavy": [True], "both": [False, True]}[asked.kind]
    seeds = range(asked.first, asked.first + asked.models)
    options = {} if asked.effort is None else {asked.effort[0]: int(asked.effort[1])}
    solver = bc.Exact(**options)
    print(f"{solver}, models from {asked.first}, causes {asked.causes}")
    titles = ("rows", "worse", "lost", "unsure", "ms/row", "most", ">=.99", "doubt")
    print(f"{'':32s} " + " ".join(f"{each:>7s}" for each in titles))
    for wavy in kinds:
        results = []
        for setting in settings:
            some = [ask(case, solver, asked.cache) for case in cases(seeds, asked.causes, [setting], [wavy])]
            show(f"{'wavy' if wavy else 'mild'}, {setting}", some)
            if asked.each:
                for r in some:
                    counts = f"worse {r.worse.sum():3d} lost {r.lost.sum():3d} unsure {r.unsure.sum():3d}"
                    print(f"    {r.case.causes:3d} {r.case.seed:4d} {counts} {r.milliseconds:8.2f} ms")
            results += some
        show("wavy, all" if wavy else "mild, all", results)
        show_calibration(results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1, help="models of each kind and number of causes")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--causes", type=int, nargs="+", default=[1, 3, 6, 12])
    parser.add_argument("--setting", nargs="+", help="only these settings")
    parser.add_argument("--kind", choices=["mild", "wavy", "both"], default="both")
    parser.add_argument("--effort", nargs=2, metavar=("NAME", "VALUE"), help="a setting of Exact")
    parser.add_argument("--each", action="store_true", help="a line for each model as well")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()))
    main(parser.parse_args())
