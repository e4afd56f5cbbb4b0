"""What a batch costs: rows per second and memory, killed half way and started again.

A million rows are drawn from a model of thickness -> intensity, and each is asked for the intensity 200. The program is
killed once a third of the parts stand, and started again; every row must come out once. `--rows 50000` draws fewer.

Then two simulated tables of numbers, classes and whole numbers (`mixed_tables`) are asked by the program, too.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from mixed_tables import CENSUS, INSURANCE, census, insurance

import deepbc as bc
from deepbc.recipes import morphomnist

PROGRAM = Path(sys.executable).parent / "deepbc"
CHUNK = 50_000
# Graph, table, rows to learn from, rows to ask, and the question of each mixed table.
MIXED = {
    "insurance": (INSURANCE, insurance, 1_300, 10_000, "charges=5000"),
    "census": (CENSUS, census, 8_000, 32_000, "income=>50K"),
}


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth = morphomnist.truth()
        scm = bc.SCM(truth.graph, bounds={"intensity": (64, 255)})
        scm.fit(truth.sample(5_000, seed=0).values, seed=0)
        scm.save(folder / "model")
        for start in range(0, rows, CHUNK):
            part = truth.sample(min(CHUNK, rows - start), seed=start + 1).to_frame()
            part.to_csv(folder / "rows.csv", mode="a", header=not start, index=False)

        out = folder / "answers.parquet"
        words = [PROGRAM, "batch", folder / "model", folder / "rows.csv", "--if", "intensity=200", "--out", out]
        parts = -(-rows // CHUNK)
        begin = time.monotonic()
        first = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        while len(list(folder.glob("answers.parquet.parts/*.json"))) <= parts // 3 and first.poll() is None:
            time.sleep(0.05)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        stood = len(list(folder.glob("answers.parquet.parts/*.json"))) - 1
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        spent = time.monotonic() - begin

        numbers = pd.read_parquet(out, columns=["row", "status", "intensity"])
        once = numbers["row"].tolist() == list(range(rows))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{rows:,} rows, killed after {stood} of {parts} parts and started again: {rows / spent:,.0f} rows/s")
        print(f"every row once: {once}; converged: {(numbers['status'] == 'converged').mean():.2%}")
        print(f"peak memory of the program: {peak:,.0f} MB")


def ask_mixed(name: str) -> None:
    graph, draw, learned, rows, question = MIXED[name]
    with tempfile.TemporaryDirectory() as folder:
        model, data, out = (Path(folder) / each for each in ("model", "rows.csv", "answers.parquet"))
        scm = bc.SCM(graph)
        begin = time.monotonic()
        scm.fit(draw(learned), seed=0)
        fitted = time.monotonic() - begin
        scm.save(model)
        draw(rows, seed=1).to_csv(data, index=False)
        begin = time.monotonic()
        words = [PROGRAM, "batch", model, data, "--if", question, "--out", out]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        spent = time.monotonic() - begin
        table = pd.read_parquet(out, columns=["status", "certainty"])
        held, certain = (table["status"] == "converged").mean(), (table["certainty"] == 1).mean()
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{name}: fitted in {fitted:.0f} s; {rows:,} rows in {spent:.0f} s, {rows / spent:,.0f} rows/s")
        print(f"converged: {held:.2%}; no choice left out: {certain:.2%}; peak memory so far: {peak:,.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    main(parser.parse_args().rows)
    for name in MIXED:
        ask_mixed(name)
