"""Six public tables, asked as people ask them: a fit, a check on rows it did not see, and a few hundred questions.

Each study (`deepbc.recipes.tables`) asks rows that lack an outcome what else would have been different had they had it:
by backtracking *within limits*, where nothing changes that cannot, and *without limits*; and an intervention forces a
cause. What comes back is judged row by row, against the columns of the answers themselves.

A table that cannot be had is replaced by its simulated counterpart, which the rows and the record say; so are all in a
quick run, which needs no network. Of large tables some rows are drawn. Levels of fewer than five rows are left out,
for nothing can be learned of them.
"""

__all__ = ["TITLE", "Config", "findings", "render", "run"]

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from deepbc.datasets.download import VARIABLE
from deepbc.errors import DataError, SettingError
from deepbc.evaluation.check.model_check import check
from deepbc.experiments.runner import Finding, cells, gather
from deepbc.plots import Bars, Figure, plot_panels
from deepbc.queries import backtrack, intervene
from deepbc.queries.results import Counterfactual
from deepbc.recipes.tables import STUDIES, Study
from deepbc.scm.model import SCM
from deepbc.training.trainer import Training

TITLE = "Six public tables: what carries a change, within what cannot change and without"
WITHIN, WITHOUT, FORCED = "within limits", "without limits", "intervention"
# The part of the rows that the check gets, and the rows that a level needs.
FRESH, RARE = 0.25, 5
# An answer is certain where no more than this was left out; values are the same within this.
LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Config:
    """How the experiment is run.

    Args:
        rows: The most rows of a table, a quarter of which the fit does not see.
        questions: How many rows are asked, if so many lack the outcome.
        lifted: How many of them are asked without limits too, which may take a hundred times as long.
        epochs: The most passes over the rows in a fit.
        simulated: Whether to take the simulated counterparts, whatever is at hand.
        seed: Where all random numbers come from.
    """

    rows: int = 1_000
    questions: int = 200
    lifted: int = 10
    epochs: int = 100
    simulated: bool = False
    seed: int = 0

    @classmethod
    def quick(cls) -> "Config":
        return cls(rows=400, questions=12, lifted=12, epochs=20, simulated=True)


def run(config: Config, fits: Path) -> pandas.DataFrame:
    """Fits, checks and asks each table; a row for each table, for each share of a noise, and for each answer."""
    parts, origins = [], []
    for study in STUDIES.values():
        table, origin = _table(study, config)
        parts += [part.assign(table=study.name, data=origin) for part in _studied(study, table, config)]
        origins.append(f"{study.name} ({origin})")

    return gather(parts, {"data": ", ".join(origins)})


def _table(study: Study, config: Config) -> tuple[pandas.DataFrame, str]:
    """The columns of the graph in some rows, without rare levels, and where they come from."""
    table, origin = _read(study, config)
    table = table[list(study.graph)].sample(min(config.rows, len(table)), random_state=config.seed)
    for name in table.select_dtypes(exclude="number"):
        common = table[name].map(table[name].value_counts()).astype(int) >= RARE
        table = table[common].copy()
        if isinstance(table[name].dtype, pandas.CategoricalDtype):
            table[name] = table[name].cat.remove_unused_categories()

    return table, f"{len(table):,} rows, {origin}"


def _read(study: Study, config: Config) -> tuple[pandas.DataFrame, str]:
    if not config.simulated:
        try:
            return study.read(), "public"
        except (DataError, SettingError):
            # A folder of data that is named is expected to have the table.
            if os.environ.get(VARIABLE):
                raise

    return study.simulate(config.rows, seed=config.seed), "simulated"


def _studied(study: Study, table: pandas.DataFrame, config: Config) -> list[pandas.DataFrame]:
    """A row of the table, and rows for its answers."""
    fresh = table.sample(frac=FRESH, random_state=config.seed)
    lacking = table[~study.holds(table)]
    asked = lacking.sample(min(config.questions, len(lacking)), random_state=config.seed)
    scm, clock = study.model(), _Clock()
    report = scm.fit(table.drop(fresh.index), seed=config.seed, training=Training(epochs=config.epochs), progress=False)
    seconds = {"fit": clock.lap()}
    checked = check(scm, fresh, seed=config.seed)
    seconds["check"] = clock.lap()
    lifted = dict.fromkeys(study.constraints)
    questions: Mapping[str, Callable[[], Counterfactual]] = {
        WITHIN: lambda: backtrack(scm, asked, study.outcome),
        WITHOUT: lambda: backtrack(scm, asked[: config.lifted], study.outcome, constraints=lifted),
        FORCED: lambda: intervene(scm, asked, study.action),
    }
    answers: dict[str, Counterfactual] = {}
    for kind, ask in questions.items():
        answers[kind] = ask()
        seconds[kind] = clock.lap()

    line = {"verdict": checked.verdict, "grade": checked.grade, "nll": report.nll, "warnings": len(report.warnings)}
    line |= {"rows": len(table), **{f"seconds of {what}": spent for what, spent in seconds.items()}}
    told = [_told(study, scm, cf).assign(kind=kind) for kind, cf in answers.items()]

    return [pandas.DataFrame([line]).assign(kind="table"), *_shares(answers), *told]


class _Clock:
    """Counts the processor seconds from lap to lap."""

    def __init__(self) -> None:
        self.start = time.process_time()

    def lap(self) -> float:
        start, self.start = self.start, time.process_time()

        return round(self.start - start, 2)


def _told(study: Study, scm: SCM, cf: Counterfactual) -> pandas.DataFrame:
    """A row for each answer: its evidence, and what the values themselves say."""
    moved = np.stack([np.asarray(column) for column in cf.moved.values()], axis=-1)
    unseen = np.any([np.asarray(column) for column in cf.unseen.values()], axis=0)
    caused = {*study.action, *(each for name in study.action for each in scm.graph.descendants(name))}
    fixed = {name: "fixed" for name in scm.graph if name not in caused}
    columns = {
        "row": cf.index,
        "status": np.asarray(cf.status).astype(str),
        **{name: np.asarray(getattr(cf, name)) for name in ("certainty", "distance", "error", "farthest")},
        "unseen": unseen,
        "outcome": study.holds(cf.values),
        "beyond limits": _crossed(study.constraints, cf),
        "other than caused": _crossed(fixed, cf),
        "carrier": np.asarray(list(cf.moved), dtype=object)[moved.argmax(-1)],
    }

    return pandas.DataFrame(columns)


def _crossed(constraints: Mapping[str, Any], cf: Counterfactual) -> np.ndarray[Any, np.dtype[np.bool]]:
    """Says for each row whether a value that is fixed changed, or one went the way that it cannot."""
    crossed = np.zeros(tuple(cf.batch), dtype=bool)
    for name, way in constraints.items():
        after, before = np.asarray(cf.values[name]), np.asarray(cf.factual.values[name])
        if way == "fixed":
            crossed |= np.asarray(after != before, dtype=bool)
        else:
            crossed |= after < before if way == "up" else after > before

    return crossed


def _shares(answers: Mapping[str, Counterfactual]) -> list[pandas.DataFrame]:
    """The share of the distance that each noise carries, over all converged answers together."""
    parts = []
    for kind in (WITHIN, WITHOUT):
        cf = answers[kind]
        held = np.asarray(cf.status) == "converged"
        carried = {name: float(np.asarray(column)[held].sum()) for name, column in cf.moved.items()}
        whole = sum(carried.values()) or 1.0
        shares = [carried[name] / whole for name in carried]
        parts.append(pandas.DataFrame({"variable": list(carried), "share": shares, "carried": kind}))

    return [part.assign(kind="share") for part in parts]


def findings(rows: pandas.DataFrame) -> tuple[Finding, ...]:
    """What answers on real tables are worth."""
    answers = rows[rows.kind.isin([WITHIN, WITHOUT])]
    within, without, forced = (rows[rows.kind == kind] for kind in (WITHIN, WITHOUT, FORCED))
    held, grades = answers[answers.status == "converged"], rows[rows.kind == "table"].grade
    both = within.merge(without, on=["table", "row"], suffixes=("", " without"))
    sure = (both.status == "converged") & (np.minimum(both.certainty, both["certainty without"]) > 1 - LEAST)
    nearer = both.distance < both["distance without"] * (1 - LEAST) - LEAST

    return (
        Finding("every answer is converged or infeasible", answers.status.isin(["converged", "infeasible"]).all()),
        Finding("without limits every answer is converged", (without.status == "converged").all()),
        Finding("every converged answer has the outcome", held.outcome.astype(bool).all() and held.error.max() < LEAST),
        Finding("within limits nothing changes that cannot", not within["beyond limits"].astype(bool).any()),
        Finding("limits bring no answer nearer, where both are certain", not (sure & nearer).any()),
        Finding(
            "within limits the chance that a nearer world was missed is at most 2 % in each table, on average",
            held[held.kind == WITHIN].groupby("table").certainty.mean().min() >= 0.98,
        ),
        Finding(
            "in each table at most one answer in ten has a number that the fit never saw",
            held.groupby("table").unseen.apply(_part).max() <= 0.1,
        ),
        Finding(
            "an intervention changes nothing but what it causes", not forced["other than caused"].astype(bool).any()
        ),
        Finding("no check finds a strong contradiction", (grades != "strong").all()),
    )


def render(rows: pandas.DataFrame) -> Figure:
    """Draws a table of evidence, and for each table which noises carry the change within limits."""
    lines = rows[rows.kind == "table"].set_index("table")
    told = {kind: rows[rows.kind == kind].groupby("table") for kind in (WITHIN, WITHOUT, FORCED)}
    columns: dict[str, Any] = {"rows": lines.rows}
    for kind in (WITHIN, WITHOUT):
        converged = rows[(rows.kind == kind) & (rows.status == "converged")].groupby("table")
        columns |= {
            f"converged {kind}": told[kind].status.apply(lambda each: (each == "converged").mean()),
            f"distance {kind}": converged.distance.mean(),
            f"certainty {kind}": converged.certainty.mean(),
            f"unseen {kind}": converged.unseen.apply(_part),
        }
    columns["beyond"] = told[WITHOUT]["beyond limits"].apply(_part)
    columns["outcome"] = told[FORCED].outcome.apply(_part)
    columns["fit"] = lines["seconds of fit"]
    table = pandas.DataFrame(columns).loc[list(lines.index)].reset_index()
    table["check"] = lines.verdict.to_numpy()
    both = [".0%", ".2f", ".3f", ".0%"]
    forms = dict(zip(columns, [",.0f", *both, *both, ".0%", ".0%", ".0f"], strict=True)) | {"check": ""}
    words = ("converged,", "distance,", "certainty,", "unseen,")
    heads = ["rows", *(f"{word}\n{kind.split()[0]}" for kind in (WITHIN, WITHOUT) for word in words)]
    heads += ["beyond\nlimits", "outcome,\nforced", "fit\n(CPU s)", "check"]
    title = "Answers within the limits of what cannot change; and without them, for the first rows"
    shown = cells(title, table, "table", forms, heads)
    bars = [_bars(name, rows) for name in lines.index]

    return plot_panels([[shown], bars[:3], bars[3:]], width=8.5, heights=[2.1, 1.9, 1.9])


def _part(truths: "pandas.Series[bool]") -> float:
    return float(truths.astype(bool).mean())


def _bars(name: str, rows: pandas.DataFrame) -> Bars:
    shares = rows[(rows.kind == "share") & (rows.table == name) & (rows.carried == WITHIN)]
    shares = shares[shares.share > 0]
    lengths = dict(zip(shares.variable, shares.share, strict=True))

    return Bars(f"{name}: {STUDIES[name].asked}", ("share of the distance", ""), lengths)
