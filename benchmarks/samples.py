"""What backtracking samples cost: the default sampler against the paper's algorithm 2, and whether they are right.

The rows are those of Morpho-MNIST where DEEPBC_DATA is set, else as many drawn from its equations. A query is a random
test row, and as antecedent the intensity of another one. Truth is quadrature of the fitted model's own density. The
paper's sampler starts every sample at the mode and runs for so short a time that its samples are too narrow; how long
it would have to run follows from how much of the true spread it reached: `1 - exp(-2 t / tau)` of the variance after
the time `t`. `--rows 2000` fits fewer rows, to try.
"""

import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import torch
from rows import Queries, draw_queries, peak, seconds, tables

import deepbc as bc
from deepbc.recipes import morphomnist
from deepbc.samplers.target import Target

QUERIES, SAMPLES = 50, 400
MEMORY_QUERIES, MEMORY_SAMPLES = 1_000, 100
POINTS = 4_001


class Counter:
    """Counts the densities that samplers evaluate, one for each row of a batch."""

    def __init__(self) -> None:
        self.count, self.plain = 0, Target.log_prob

    def __enter__(self) -> "Counter":
        def counted(target: Target, v: torch.Tensor) -> torch.Tensor:
            self.count += len(v)
            return self.plain(target, v)

        Target.log_prob = counted
        return self

    def __exit__(self, *failure: object) -> None:
        Target.log_prob = self.plain


@torch.no_grad()
def true_spread(scm: bc.SCM, queries: Queries) -> torch.Tensor:
    """The standard deviation of the noise of thickness in each query, by quadrature."""
    factual, asked = queries
    u = scm.abduct(factual)
    grid = torch.linspace(-9, 9, POINTS, dtype=torch.float64)
    rows = len(u["thickness"])
    t = scm.mechanisms["thickness"].predict(grid[:, None], grid[:, None][:, :0]).repeat(rows, 1)
    x = asked["intensity"].repeat_interleave(POINTS)[:, None]
    law = scm.mechanisms["intensity"]
    cost = (grid - u["thickness"][:, None]).square()
    cost = cost + (law.abduct(x, t).reshape(rows, -1) - u["intensity"][:, None]).square()
    log_density = law.log_volume(x, t).reshape(rows, -1) - cost
    density = torch.softmax(log_density, dim=-1)
    mean = (density * grid).sum(-1, keepdim=True)

    return (density * (grid - mean).square()).sum(-1).sqrt()


def run(scm: bc.SCM, queries: Queries, sampler: bc.Sampler, truth: torch.Tensor) -> tuple[float, float, float]:
    """Prints a line, and returns effective samples per second and per density, and the share of the true spread."""
    with Counter() as counter:
        spent, cf = seconds(lambda: bc.backtrack_samples(scm, *queries, samples=SAMPLES, seed=0, sampler=sampler))
    share = cf.noise["thickness"].std(0) / truth
    worth = cf.diagnostics.effective.clamp(max=SAMPLES).sum().item()
    trusted = int((cf.status == "converged").sum())
    print(
        f"  {type(sampler).__name__:12s} {spent:8.1f} {worth / spent:12,.0f} {counter.count / worth:12,.1f} "
        f"{share.mean().item():10.3f} {cf.diagnostics.r_hat.max().item():8.3f} {trusted:8d} "
        f"{cf.error.max().item():12.1e}"
    )

    return worth / spent, counter.count / worth, share.square().mean().sqrt().item()


def memory(model: Path, test: Path) -> float:
    """The peak memory of a fresh process that draws many samples, above that of an import, in MB."""
    words = [sys.executable, __file__, "--model", str(model), "--test", str(test)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def measure_memory(model: Path, test: Path) -> None:
    imported = peak()
    bc.backtrack_samples(
        bc.SCM.load(model), *draw_queries(pd.read_csv(test), MEMORY_QUERIES), samples=MEMORY_SAMPLES, seed=0
    )
    print(peak() - imported)


def main(rows: int | None) -> None:
    train, test, source = tables()
    train = train.head(rows) if rows else train
    print(f"fit to {len(train):,} rows ({source}), {torch.get_num_threads()} threads")
    scm = bc.SCM(morphomnist.truth().graph, bounds={"intensity": (64, 255)})
    scm.fit(train, seed=0)
    queries = draw_queries(test, QUERIES)
    truth = true_spread(scm, queries)
    bc.backtrack_samples(scm, *draw_queries(test, 2), samples=20, seed=0)

    print(f"\n{QUERIES} queries, {SAMPLES} samples each")
    print("  sampler       seconds  effective/s  densities/e.     spread    R-hat  trusted   error (sd)")
    ours, per_sample, _ = run(scm, queries, bc.Hamiltonian(), truth)
    paper = bc.Langevin()
    theirs, their_gradients, share = run(scm, queries, paper, truth)
    print(f"  {ours / theirs:.0f} times as many samples a second as the paper's, which are worth less than they seem")

    # Draws of a chain in its own density are worth one for every two autocorrelation times.
    steps = -2 * paper.steps / math.log1p(-min(share**2, 0.999))
    slower = 2 * steps / paper.steps
    print(
        f"  The paper's chains forget within {steps:,.0f} steps; calibrated they take {2 * steps:,.0f} densities an "
        f"effective sample:\n  ours are {ours / theirs * slower:,.0f} times as many a second, for "
        f"{their_gradients * slower / per_sample:,.0f} times fewer densities"
    )

    with tempfile.TemporaryDirectory() as folder:
        scm.save(Path(folder) / "model")
        test.to_csv(Path(folder) / "test.csv", index=False)
        used = memory(Path(folder) / "model", Path(folder) / "test.csv")
    print(f"  {MEMORY_QUERIES:,} queries of {MEMORY_SAMPLES} samples: {used:,.0f} MB at the peak, above an import")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, help="fit only so many rows")
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--test", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.model:
        measure_memory(asked.model, asked.test)
    else:
        main(asked.rows)
