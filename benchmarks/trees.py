"""Decisions of trees, explained: rows of two mixed tables that a forest and boosted trees refuse, by deepbc and DiCE.

Each row is asked: had it been accepted, what would have been different? What cannot change is fixed for all. For each
row 10,000 draws of the noises, of which those count that the user's own model accepts, say what can be reached, and how
cheaply; no solver or search of deepbc takes part in them. dice-ml, where it is installed, answers the same rows by its
methods `random` and `genetic`. It knows no graph, so answers are compared twice: by the noise that they imply under the
causal model (each value given, of a class the nearest noise that leads to it), and by their columns, as DiCE counts:
changes of numbers in median absolute deviations, and classes that changed.

Needs scikit-learn, and for the comparison dice-ml: `pip install 'deepbc[bench]'`. Rows and versions of a run are
in benchmarks/results (so far 50 rows of the census table), and `--show` prints its table without either.
`--rows 20 --seed 100` tries other tables, rows and forests.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import platform
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from mixed_tables import CENSUS, CREDIT, census, credit

import deepbc as bc

RESULTS = Path(__file__).parent / "results"
# Graph, table, target, the label that is wished for, and what cannot change.
TABLES = {
    "census": (CENSUS, census, "income", ">50K", ["age", "sex", "race"]),
    "credit": (CREDIT, credit, "repaid", "yes", ["age", "sex", "purpose"]),
}
MODELS = ("random forest", "gradient boosting")
METHODS = ("deepbc", "dice random", "dice genetic")
LEARNED, DRAWS, LARGEST = 2_000, 10_000, 3.0


def classifier(kind: str, table: pd.DataFrame, accepted: pd.Series, seed: int):
    """A pipeline of scikit-learn: classes become indicators, trees decide."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    trees = {
        "random forest": RandomForestClassifier(100, min_samples_leaf=5, random_state=seed),
        "gradient boosting": GradientBoostingClassifier(random_state=seed),
    }
    encoder = make_column_transformer((OneHotEncoder(), labels_of(table)), remainder="passthrough")
    return make_pipeline(encoder, trees[kind]).fit(table, accepted)


def labels_of(table: pd.DataFrame) -> list[str]:
    return [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]


def draw_worlds(scm: bc.SCM, pipe, rows: pd.DataFrame, scope: list[str], seed: int) -> np.ndarray:
    """The least distance of draws of each row's noises that the classifier accepts; infinite where there is none."""
    stream, rest = np.random.default_rng(seed), scm.abduct(rows)
    least = []
    for k in range(len(rows)):
        size, noise, cost = stream.uniform(0, LARGEST, (DRAWS, 1)), {}, np.zeros(DRAWS)
        for name in rows:
            u = rest[name][k].numpy().reshape(1, -1)
            # Half of the draws move every noise in scope, half about half of them.
            moves = (stream.uniform(size=(DRAWS, 1)) < 0.5) | (np.arange(DRAWS)[:, None] % 2 == 0)
            step = size * stream.standard_normal((DRAWS, u.shape[1])) * (moves & (name in scope))
            noise[name], cost = np.squeeze(u + step), cost + (step**2).sum(1)
        drawn = scm.predict(noise)
        table = pd.DataFrame({name: np.asarray(drawn[name]).reshape(-1) for name in rows})
        least.append(np.where(pipe.predict(table) == 1, cost, np.inf).min())
    return np.array(least)


def ask_deepbc(scm: bc.SCM, pipe, rows: pd.DataFrame, scope: list[str]) -> tuple[pd.DataFrame, list[str], float]:
    judged = scm.extend("accepted", bc.Predictor(pipe), parents=list(rows))
    begin = time.process_time()
    cf = bc.backtrack(judged, rows, {"accepted": bc.at_least(0.5)}, scope=scope)
    spent = time.process_time() - begin
    return cf.to_frame()[list(rows)].reset_index(drop=True), [str(each) for each in cf.status], spent


def ask_dice(method: str, pipe, rows: pd.DataFrame, scope: list[str], learned: pd.DataFrame, seed: int):
    """One answer of DiCE for each row, as it comes; None where it finds none."""
    import dice_ml

    numbers = [name for name in rows if name not in labels_of(rows)]
    data = dice_ml.Data(dataframe=learned, continuous_features=numbers, outcome_name="accepted")
    explainer = dice_ml.Dice(data, dice_ml.Model(model=pipe, backend="sklearn"), method=method)
    options = {"random_seed": seed} if method == "random" else {}
    answers, begin = [], time.process_time()
    np.random.seed(seed)  # the genetic method draws from it
    for k in range(len(rows)):
        try:
            made = explainer.generate_counterfactuals(
                rows.iloc[[k]], total_CFs=1, desired_class="opposite", features_to_vary=scope, verbose=False, **options
            )
            found = made.cf_examples_list[0].final_cfs_df
        except Exception as error:
            found, said = None, type(error).__name__
            print(f"    row {k}: {said}")
        answers.append(None if found is None or not len(found) else found.iloc[0][list(rows)])
    spent = time.process_time() - begin
    table = pd.DataFrame([rows.iloc[k] if each is None else each for k, each in enumerate(answers)])
    statuses = ["none" if each is None else "found" for each in answers]
    return table.reset_index(drop=True).astype(rows.dtypes.to_dict()), statuses, spent


def judge(scm: bc.SCM, pipe, rows: pd.DataFrame, after: pd.DataFrame, learned: pd.DataFrame) -> pd.DataFrame:
    """Both distances of answers, and how they keep to the causal model."""
    labels = labels_of(rows)
    numbers = [name for name in rows if name not in labels]
    spread = (learned[numbers] - learned[numbers].median()).abs().median()
    changed = after.to_numpy() != rows.to_numpy()
    # Every value is given, so its noise is implied: of a class the nearest that leads to it.
    implied = bc.backtrack(scm, rows, {name: after[name].tolist() for name in rows})
    moved = np.stack([implied.moved[name] for name in rows], axis=1)
    typical = scm.log_prob(learned[list(rows)]).quantile(0.01)
    return pd.DataFrame(
        {
            "flipped": pipe.predict(after) == 1,
            "noise distance": np.where(implied.status == "converged", implied.distance, np.inf),
            "columns distance": (after[numbers].astype(float) - rows[numbers].astype(float))
            .abs()
            .div(spread)
            .sum(axis=1)
            + (after[labels] != rows[labels]).sum(axis=1),
            "columns changed": changed.sum(1),
            # What is paid by variables that stay as they were although their causes changed.
            "held against laws": (moved * ~changed).sum(1) / moved.sum(1).clip(1e-12),
            "unlikely": (scm.log_prob(after) < typical).numpy(),
        }
    )


def run(name: str, count: int, seed: int, peers: bool) -> Iterator[pd.DataFrame]:
    """The rows of every model and method on one table."""
    graph, draw, target, wished, fixed = TABLES[name]
    learned, fresh = draw(LEARNED, seed=seed), draw(20 * count + 1_000, seed=seed + 1)
    names = [each for each in learned if each != target]
    scm = bc.SCM(graph.part(names))
    scm.fit(learned, seed=0, progress=False)
    accepted = (learned[target] == wished).astype(int)
    scope = [each for each in names if each not in fixed]
    for kind in MODELS:
        pipe = classifier(kind, learned[names], accepted, seed)
        rows = fresh[names][pipe.predict(fresh[names]) == 0].head(count).reset_index(drop=True)
        least = draw_worlds(scm, pipe, rows, scope, seed)
        for method in METHODS if peers else METHODS[:1]:
            known = learned[names].assign(accepted=accepted)
            if method == "deepbc":
                after, statuses, spent = ask_deepbc(scm, pipe, rows, scope)
            else:
                after, statuses, spent = ask_dice(method.split()[1], pipe, rows, scope, known, seed)
            part = judge(scm, pipe, rows, after, known)
            part.insert(0, "status", statuses)
            part["draws distance"], part["CPU seconds"] = least, spent / len(rows)
            for position, (key, value) in enumerate({"table": name, "model": kind, "method": method}.items()):
                part.insert(position, key, value)
            part.insert(3, "row", range(len(rows)))
            yield part


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each table, model and method."""

    def line(part: pd.DataFrame) -> pd.Series:
        answered = part["status"].isin(["converged", "found"]) & part["flipped"]
        can = np.isfinite(part["draws distance"])
        held = part[answered]
        return pd.Series(
            {
                "rows": len(part),
                "answered": answered.sum(),
                "draws answer, it not": (can & ~answered).sum(),
                "farther than draws": (held["noise distance"] > 1.01 * held["draws distance"]).sum(),
                "infeasible": (part["status"] == "infeasible").sum(),
                "CPU s a row": part["CPU seconds"].mean().round(3),
                "noise distance": held["noise distance"].median().round(2),
                "columns distance": held["columns distance"].median().round(2),
                "columns changed": held["columns changed"].mean().round(2),
                "held against laws": f"{held['held against laws'].mean():.0%}",
                "unlikely": f"{held['unlikely'].mean():.0%}",
            }
        )

    keys = ["table", "model", "method"]
    return pd.DataFrame({key: line(part) for key, part in rows.groupby(keys, sort=False)}).T.rename_axis(keys)


def show(rows: pd.DataFrame) -> None:
    with pd.option_context("display.width", 250, "display.max_columns", None):
        print(summarise(rows).reset_index().to_string(index=False))


def versions() -> dict[str, str]:
    packages = ("torch", "numpy", "pandas", "scikit-learn", "dice-ml")
    found = {each: importlib.metadata.version(each) for each in packages if importlib.util.find_spec(_module(each))}
    return {"python": platform.python_version(), "deepbc": bc.__version__, **found}


def _module(package: str) -> str:
    return {"scikit-learn": "sklearn", "dice-ml": "dice_ml"}.get(package, package)


def main(count: int, seed: int, out: Path | None) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="dice_ml|sklearn|raiutils")
    if not importlib.util.find_spec("sklearn"):
        print("scikit-learn is not installed: no trees. `--show` prints the rows that a full run left.")
        return
    peers = bool(importlib.util.find_spec("dice_ml"))
    if not peers:
        print("dice-ml is not installed, so deepbc is measured alone; `pip install 'deepbc[bench]'` has it.")
    parts = []
    for name in TABLES:
        for part in run(name, count, seed, peers):
            parts.append(part)
            rows = pd.concat(parts, ignore_index=True)
            # Each part is kept once it is there: a run takes half an hour.
            if out is not None:
                save(rows, out, {"rows": count, "seed": seed, "learned": LEARNED, "draws": DRAWS, "threads": 1})
    show(rows)


def save(rows: pd.DataFrame, out: Path, settings: dict[str, int]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    rows.to_csv(out / "trees.csv", index=False, float_format="%.6g")
    (out / "trees.json").write_text(json.dumps({**settings, "versions": versions()}, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    if given.show:
        show(pd.read_csv(RESULTS / "trees.csv"))
    else:
        main(given.rows, given.seed, given.out)
