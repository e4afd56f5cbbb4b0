"""Held-out log loss of classes given their causes, beside logistic regression and boosted trees.

German credit (`DEEPBC_DATA/tables/german.data`; levels of fewer than 20 rows are joined) and simulated tables with
known probabilities, of which those marked as unseen were not looked at while the law was designed. Of every split the
rows to learn from are drawn anew. Peers need scikit-learn and no deepbc, so that they can run in an environment of
their own: cross-validated logistic regression on standardised and one-hot columns, and gradient boosting of both kinds
with early stopping.

`--methods` takes `deepbc` and the peers' names; `--out` adds the rows to a CSV file, and `--show` prints its table:
log loss above the better of the peers' means, with the standard error over splits.
"""

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parent / "results" / "classes.csv"
PEERS = ("logistic regression", "histogram boosting", "gradient boosting")
METHODS = ("deepbc", *PEERS)
TEST_ROWS = 5_000


@dataclass(frozen=True)
class Simulated:
    """A table with known probabilities: `columns` of a generator and a number of rows, `scores` of the columns.

    Labels have the softmax of scores `(rows, labels)`; ordered ones the steps of a logistic curve at `cuts`.
    """

    columns: object
    scores: object
    cuts: tuple[float, ...] = ()
    unseen: bool = False

    def draw(self, rows, seed):
        stream = np.random.default_rng(seed)
        table = self.columns(stream, rows)
        scores = self.scores(table)
        if self.cuts:
            below = 1 / (1 + np.exp(scores[:, None] - np.array(self.cuts)))
            chances = np.diff(below, prepend=0.0, append=1.0)
        else:
            odds = np.exp(scores - scores.max(1, keepdims=True))
            chances = odds / odds.sum(1, keepdims=True)
        codes = (stream.uniform(size=(rows, 1)) > chances.cumsum(1)[:, :-1]).sum(1)
        table["y"] = [f"l{code}" for code in codes]
        return table, -np.log(chances[np.arange(rows), codes])


def numbers(names, heavy=()):
    def columns(stream, rows):
        return pd.DataFrame(
            {name: stream.standard_t(3, rows) if name in heavy else stream.normal(size=rows) for name in names}
        )

    return columns


def mixed(stream, rows):
    table = numbers("ab")(stream, rows)
    table["k"] = stream.choice(["p", "q", "r", "s", "t", "v"], size=rows, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    table["m"] = np.where(stream.uniform(size=rows) < 0.4, "yes", "no")
    return table


def two(score):
    return np.stack([0 * score, score], 1)


def mixed_scores(t):
    effect = t.k.map({"p": 0.0, "q": 0.8, "r": -0.6, "s": 1.2, "t": -1.0, "v": 0.4}).to_numpy()
    yes = (t.m == "yes").to_numpy()
    return np.stack(
        [0 * t.a, t.a * np.where(yes, 1.5, -0.5), effect + 0.5 * t.b, np.cos(1.5 * t.b) + effect * t.a / 2], 1
    )


def many_scores(t):
    weights = np.random.default_rng(7).normal(size=(5, 8)) * 0.4
    return t[list("abcde")].to_numpy() @ weights + np.linspace(0.4, -0.4, 8)


TABLES = {
    "linear": Simulated(numbers("abc"), lambda t: two((1.5 * t.a - t.b + 0.3).to_numpy())),
    "waves": Simulated(numbers("abc"), lambda t: two((2 * np.sin(2 * t.a) + 1.5 * t.b * t.c).to_numpy())),
    "mixed labels": Simulated(mixed, mixed_scores),
    "ordered levels": Simulated(
        numbers("abcd", heavy="ab"),
        lambda t: (1.2 * np.tanh(t.a) + np.abs(t.c) - 0.4 * t.b).to_numpy(),
        cuts=(-0.8, 0.4, 1.4, 2.4),
        unseen=True,
    ),
    "rules": Simulated(
        numbers("abcdef"),
        lambda t: two(np.where(t.a > 0.3, np.where(t.b > 0, 1.8, -0.8), np.where(t.c > 0.5, 1.0, -1.5))),
        unseen=True,
    ),
    "eight labels": Simulated(numbers("abcdefghij"), many_scores, unseen=True),
}
# Rows to learn from, and how many splits.
SIZES = {"simulated": ((300, 5), (1_000, 5)), "German credit": ((300, 10), (800, 10))}


def german():
    path = Path(os.environ.get("DEEPBC_DATA", "../shared/data")) / "tables" / "german.data"
    table = pd.read_csv(path, sep=" ", header=None, names=[f"x{k}" for k in range(20)] + ["y"])
    table["y"] = np.where(table.y == 2, "bad", "good")
    for name in table.columns[:-1]:
        if table[name].dtype.kind != "i":
            counts = table[name].value_counts()
            rare = set(counts.index[counts < 20])
            table[name] = table[name].map(lambda label: "rare" if label in rare else label)  # noqa: B023
            if len(rare) and counts[list(rare)].sum() < 20:
                table[name] = table[name].replace("rare", counts.index[0])
    return table


def splits(name):
    """Rows to learn from, rows to test, the truth's log loss on these, and number of the split."""
    if name == "German credit":
        table = german()
        for rows, count in SIZES[name]:
            for split in range(count):
                order = np.random.default_rng(split).permutation(len(table))
                yield table.iloc[order[:rows]], table.iloc[order[rows:]], np.nan, split
        return
    for rows, count in SIZES["simulated"]:
        for split in range(count):
            test, truth = TABLES[name].draw(TEST_ROWS, 10_000)
            yield TABLES[name].draw(rows, split)[0], test, truth.mean(), split


def deepbc(train, test, levels, law=None):
    import deepbc as bc

    causes = [name for name in train if name != "y"]
    laws = {
        name: bc.Linear() if train[name].dtype.kind in "if" else bc.Categorical(points=0, hidden=[]) for name in causes
    }
    types = {name: "real" for name in causes if train[name].dtype.kind in "if" and train[name].nunique() > 2}
    laws = {name: law for name, law in laws.items() if name in types or train[name].dtype.kind not in "if"}
    scm = bc.SCM(
        bc.CausalGraph({**{name: [] for name in causes}, "y": causes}),
        {**laws, "y": law or bc.Categorical()},
        types={**types, **({"y": levels} if levels else {})},
    )
    begin = time.process_time()
    scm.fit(train, seed=0, progress=False)
    return -scm.log_prob(test, of=["y"]).mean().item(), time.process_time() - begin


def peer(name, train, test):
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.metrics import log_loss
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    model = {
        "logistic regression": LogisticRegressionCV(Cs=15, cv=5, scoring="neg_log_loss", max_iter=2_000),
        "histogram boosting": HistGradientBoostingClassifier(
            learning_rate=0.05, max_iter=500, early_stopping=True, n_iter_no_change=10, random_state=0
        ),
        "gradient boosting": GradientBoostingClassifier(
            learning_rate=0.05, n_estimators=500, subsample=0.7, n_iter_no_change=10, random_state=0
        ),
    }[name]
    causes = [each for each in train if each != "y"]
    numeric = [each for each in causes if train[each].dtype.kind in "if"]
    labels = [each for each in causes if each not in numeric]
    seen = ColumnTransformer(
        [("n", StandardScaler(), numeric), ("l", OneHotEncoder(handle_unknown="ignore", sparse_output=False), labels)]
    )
    pipe = make_pipeline(seen, model)
    begin = time.process_time()
    pipe.fit(train[causes], train.y)
    seconds = time.process_time() - begin
    return log_loss(test.y, pipe.predict_proba(test[causes]), labels=pipe.classes_), seconds


def run(names, methods):
    for name in names:
        levels = [f"l{k}" for k in range(len(TABLES[name].cuts) + 1)] if name in TABLES and TABLES[name].cuts else None
        for train, test, truth, split in splits(name):
            for method in methods:
                loss, seconds = deepbc(train, test, levels) if method == "deepbc" else peer(method, train, test)
                row = {"table": name, "rows": len(train), "split": split, "method": method}
                yield {**row, "log_loss": round(loss, 5), "truth": round(truth, 5), "seconds": round(seconds, 3)}


def show(rows):
    """The log loss of each method, and ours above the better peer, with its standard error over splits."""
    table = rows.pivot_table(index=["table", "rows", "split"], columns="method", values="log_loss")
    means = table.groupby(level=[0, 1]).mean()
    best = means[[each for each in PEERS if each in means]].idxmin(axis=1)
    lines = []
    for key, group in table.groupby(level=[0, 1]):
        gap = group["deepbc"] - group[best[key]]
        seconds = rows[(rows.table == key[0]) & (rows.rows == key[1])].groupby("method").seconds.mean()
        lines.append(
            {
                "table": key[0] + (" *" if key[0] in TABLES and TABLES[key[0]].unseen else ""),
                "rows": key[1],
                "truth": rows[(rows.table == key[0])].truth.mean(),
                **{each: means.loc[key, each] for each in METHODS},
                "above the best": gap.mean(),
                "±": gap.std() / np.sqrt(len(gap)),
                "CPU s": seconds["deepbc"],
            }
        )
    print(pd.DataFrame(lines).to_string(index=False, float_format=lambda x: f"{x:.3f}"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["German credit", *TABLES])
    parser.add_argument("--methods", nargs="+", default=["deepbc"], choices=METHODS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    if asked.show:
        show(pd.read_csv(asked.out or RESULTS))
        return
    rows = []
    for row in run(asked.tables, asked.methods):
        rows.append(row)
        print(row, flush=True)
    if asked.out:
        new = pd.DataFrame(rows)
        if asked.out.exists():
            old = pd.read_csv(asked.out)
            again = set(zip(new.table, new.method, strict=True))
            old = old[[pair not in again for pair in zip(old.table, old.method, strict=True)]]
            new = pd.concat([old, new])
        new.to_csv(asked.out, index=False)


if __name__ == "__main__":
    main()
