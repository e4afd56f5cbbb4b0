"""What `check` sees and what it costs: right graphs without a finding, graphs without a true edge with one, seconds.

The edge a -> c is left out, so that c is claimed to be independent of a given b, and is not. Each data set is fitted
with both graphs and checked at an overall level of 1 %, on as many new rows as were fitted, and on the fitted ones.
The flows, 160 of them, take about 40 minutes on one core, so `make bench` leaves this out.
"""

import time

import numpy as np
import torch

import deepbc as bc

SETS, LEVEL = 20, 0.01
RIGHT, MISSING = "a -> b; a, b -> c; c -> d", "a -> b -> c -> d"


def linear(rows: int, seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    a = draw.normal(size=rows)
    b = 0.7 * a + draw.normal(size=rows)
    c = 0.6 * b + 0.6 * a + draw.normal(size=rows)
    return {"a": a, "b": b, "c": c, "d": 0.5 * c + draw.normal(size=rows)}


def nonlinear(rows: int, seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    a = draw.gamma(3.0, size=rows)
    b = np.sin(a) + 0.3 * a + 0.5 * draw.normal(size=rows)
    c = 0.4 * b**2 + np.tanh(a - 2) + 0.5 * draw.normal(size=rows)
    return {"a": a, "b": b, "c": c, "d": np.exp(0.4 * c) * (1 + 0.3 * draw.normal(size=rows))}


def fitted(graph: str, law: type[bc.Mechanism], data: dict[str, np.ndarray]) -> bc.SCM:
    scm = bc.SCM(bc.CausalGraph.parse(graph), {name: law() for name in data})
    scm.fit(data, seed=0, progress=False)
    return scm


def table() -> None:
    print(f"{SETS} data sets a line, overall level {LEVEL:.0%}")
    print(
        "data       laws    rows fitted  rows checked            right: no finding  a -> c removed: a finding  rejected"
    )
    for make, law, rows in ((linear, bc.Linear, 500), (linear, bc.Linear, 2000), (nonlinear, bc.Flow, 2000)):
        counts = {"new": [0, 0, 0], "of the fit": [0, 0, 0]}
        for seed in range(SETS):
            old, new = make(rows, 2 * seed), make(rows, 2 * seed + 1)
            models = [fitted(graph, law, old) for graph in (RIGHT, MISSING)]
            for kind, data in (("new", new), ("of the fit", old)):
                reports = [bc.check(scm, data, level=LEVEL) for scm in models]
                counts[kind][0] += reports[0].grade == "not seen"
                counts[kind][1] += reports[1].grade != "not seen"
                counts[kind][2] += not reports[1].accepted
        for kind, (quiet, found, rejected) in counts.items():
            told = f"{make.__name__:10s} {law.__name__:7s} {rows:11,d}  {rows:12,d} {kind:10s}"
            print(f"{told} {quiet:11d} of {SETS} {found:20d} of {SETS} {rejected:8d}", flush=True)


def seconds() -> None:
    for make, law in ((linear, bc.Linear), (nonlinear, bc.Flow)):
        scm, data = fitted(RIGHT, law, make(2000, 0)), make(100_000, 1)
        start = time.perf_counter()
        report = bc.check(scm, data)
        took = time.perf_counter() - start
        print(
            f"check of 100,000 rows, {law.__name__} laws: {took:.2f} s, {report.rows:,} rows tested, {report.verdict}"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    seconds()
    table()
