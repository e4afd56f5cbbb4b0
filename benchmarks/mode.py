"""What a backtracking answer costs: `Exact` against the paper's algorithm 1, and against one forward pass.

The rows are those of Morpho-MNIST where DEEPBC_DATA is set, else as many drawn from its equations. A query is a random
test row, and as antecedent the intensity of another one. The solvers run in turn and the least of three times counts,
as it does for the forward pass: one `predict` of the same batch. Times depend on the memory that the process keeps:
fresh memory costs `Linearized` more than `Exact`. How often a query's law was derived, and how often only looked at,
are counts, the same on every machine. `--rows 2000` fits fewer rows, to try.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import torch
from rows import Queries, draw_queries, peak, seconds, tables

import deepbc as bc
from deepbc.recipes import morphomnist
from deepbc.solvers.problem import Problem

SOLVERS = {"Exact": bc.Exact(), "Exact, one start": bc.Exact(starts=0), "Linearized": bc.Linearized(steps=30)}
SIZES = (1, 100, 1_000, 10_000, 100_000)
MEMORY_SIZES = (1_000, 10_000, 100_000)
ROUNDS = 3
# The slow solver's largest batch is timed once.
ONCE = ("Linearized", 100_000)


def race(scm: bc.SCM, queries: Queries, count: int) -> dict[str, float]:
    """Runs the solvers in turn, prints a line for each, and returns the least time of each."""
    times = {name: [] for name in ("forward", *SOLVERS)}
    answers = {}
    noise = scm.abduct(queries[0])
    for turn in range(ROUNDS):
        times["forward"].append(seconds(lambda: scm.predict(noise))[0])
        for name, solver in SOLVERS.items():
            if (name, count) == ONCE and turn:
                continue
            spent, answers[name] = seconds(lambda solver=solver: bc.backtrack(scm, *queries, solver=solver))
            times[name].append(spent)

    best = {name: min(each) for name, each in times.items()}
    for name, cf in answers.items():
        misses = [int((~(cf.error <= limit)).sum()) for limit in (1e-6, 1e-2)]
        print(
            f"  {name:17s} {count:8,d} {count / best[name]:11,.0f} {best[name] / best['forward']:11.1f} "
            f"{misses[0]:10,d} {misses[1]:10,d} {cf.error.max().item():12.1e}"
        )

    return best


@contextlib.contextmanager
def counted():
    """Counts the rows of which laws are derived, and those at which they are looked, by solvers."""
    rows, methods = dict.fromkeys(("linearize", "evaluate"), 0), {}

    def counting(name):
        def method(problem, v):
            rows[name] += len(v)
            return methods[name](problem, v)

        return method

    for name in rows:
        methods[name] = getattr(Problem, name)
        setattr(Problem, name, counting(name))
    try:
        yield rows
    finally:
        for name, method in methods.items():
            setattr(Problem, name, method)


def race_all(scm: bc.SCM, test: pd.DataFrame) -> None:
    bc.backtrack(scm, *draw_queries(test, 100))

    print("  solver             queries   queries/s    forwards  > 1e-6 sd  > 1e-2 sd  largest (sd)")
    best = {count: race(scm, draw_queries(test, count), count) for count in SIZES}
    for count in (1_000, 10_000):
        ratio = best[count]["Linearized"] / best[count]["Exact"]
        print(f"  Linearized takes {ratio:.1f} times as long as Exact at {count:,} queries")
    for name, solver in SOLVERS.items():
        with counted() as rows:
            bc.backtrack(scm, *draw_queries(test, 10_000), solver=solver)
        derived, looked = (each / 10_000 for each in rows.values())
        print(f"  {name} derives the law {derived:.1f} times a query and looks at it {looked:.1f} times")


def measure_alone(model: Path, test: Path, count: int) -> None:
    """Measures memory in a process of its own."""
    words = [sys.executable, __file__, "--memory", str(count), "--model", str(model), "--test", str(test)]
    subprocess.run(words, check=True)


def measure_memory(model: Path, test: pd.DataFrame, count: int) -> None:
    """Prints the peak memory of a process that asks so many queries, above that of an import, in MB."""
    imported = peak()
    bc.backtrack(bc.SCM.load(model), *draw_queries(test, count))
    print(f"  Exact at {count:,} queries: {peak() - imported:,.0f} MB at its peak, above an import")


def main(rows: int | None) -> None:
    train, test, source = tables()
    train = train.head(rows) if rows else train
    print(f"fit to {len(train):,} rows ({source}), {torch.get_num_threads()} threads")
    for title, bounds in (("bounds (64, 255)", {"intensity": (64, 255)}), ("no bounds", {})):
        scm = bc.SCM(morphomnist.truth().graph, bounds=bounds)
        scm.fit(train, seed=0)
        print(f"\n{title}")
        race_all(scm, test)
        sys.stdout.flush()
        with tempfile.TemporaryDirectory() as folder:
            model, table = Path(folder) / "model", Path(folder) / "test.csv"
            scm.save(model)
            test.to_csv(table, index=False)
            for count in MEMORY_SIZES:
                measure_alone(model, table, count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, help="fit only so many rows")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--test", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory:
        measure_memory(asked.model, pd.read_csv(asked.test), asked.memory)
    else:
        main(asked.rows)
