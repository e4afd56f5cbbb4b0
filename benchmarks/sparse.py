"""Sparse answers on mixed tables: the best pair of noises against brute force over pairs, values and grids.

Random models of numbers, classes and whole numbers (`tests/simulated_tables.py`), laws linear or additive, ten rows of
each: how often the exhaustive search is farther than brute force by a thousandth, how far the greedy one is beside it,
and what a row costs. `--rows 500` asks that many rows; `--first 1000` takes other models.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

import deepbc as bc

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from best_subsets import best_pair
from simulated_tables import draw_mixed

EACH = 10


def main(rows: int, first: int) -> None:
    costs: dict[str, list[float]] = {"exhaustive": [], "greedy": []}
    seconds = dict.fromkeys(costs, 0.0)
    truth: list[float] = []
    for seed in range(first, first + -(-rows // EACH)):
        scm, frame, target = draw_mixed(seed)
        asked = frame[target].to_numpy()[EACH : 2 * EACH] + 0.3
        for search, found in costs.items():
            solver = bc.Sparse(keep=2, by="variable", search=search)
            start = time.process_time()
            cf = bc.backtrack(scm, frame.iloc[:EACH], {target: asked}, solver=solver)
            seconds[search] += time.process_time() - start
            held = np.asarray(cf.status) == "converged"
            few = torch.stack([moved > 0 for moved in cf.moved.values()]).sum(0) <= 2
            found += np.where(held & few.numpy(), cf.distance.numpy(), np.inf).tolist()
        truth += [best_pair(scm, frame.iloc[[k]], target, asked[k]) for k in range(EACH)]
        print(f"model {seed} asked", flush=True)
        for k in range(EACH):
            exhaustive, greedy, least = costs["exhaustive"][k - EACH], costs["greedy"][k - EACH], truth[k - EACH]
            if exhaustive > 1.001 * least + 1e-9:
                print(
                    f"model {seed}, row {k}: exhaustive {exhaustive:.6f}, brute force {least:.6f}, greedy {greedy:.6f}"
                )

    exhaustive, greedy, least = (np.array(each) for each in (costs["exhaustive"], costs["greedy"], truth))
    print(f"{len(least)} rows of models {first} to {seed}")
    print(f"exhaustive farther than brute force by 0.1 %: {(exhaustive > 1.001 * least + 1e-9).sum()} rows")
    print(f"brute force farther than exhaustive by 0.1 %: {(least > 1.001 * exhaustive + 1e-9).sum()} rows")
    near = greedy <= 1.2 * np.minimum(exhaustive, least) + 1e-9
    print(f"greedy at most 1.2 times as far as the best: {near.mean():.1%}")
    for search, spent in seconds.items():
        print(f"{search}: {spent / len(least):.3f} CPU seconds a row")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    main(arguments.rows, arguments.first)
