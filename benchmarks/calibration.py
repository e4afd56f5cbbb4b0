"""Whether backtracking samples have the density they should: simulation-based calibration on random models.

A counterfactual world is drawn from the density around a factual one, and what it has at the antecedent is asked of the
factual one. Then it is itself a draw of what is to be sampled, so that the ranks of its noises among the samples are
uniform. Each setting makes so many worlds, and prints how many ranks of noises lie in the outer tenths (0.1 each if
calibrated), the least p-value of a chi-squared test of uniform ranks over the noises, corrected for their number, and
the share of trusted rows.

References:
    Validating Bayesian inference algorithms with simulation-based calibration (Talts, Betancourt, Simpson, Vehtari and
    Gelman, 2018).
"""

import argparse
import time

import numpy as np
import torch
from many_causes import random_graph
from scipy import stats

import deepbc as bc

SAMPLES, BINS = 99, 20


def wavy_law(parents: list[str], chosen: np.random.Generator, waviness: float) -> bc.Equation:
    """Waves and products of parents, with a scale that depends on them and skewed noise."""
    size = {name: chosen.normal() for name in parents}
    speed = {name: waviness * chosen.uniform(0.5, 1.5) for name in parents}
    spread = {name: 0.3 * chosen.normal() for name in parents}

    def parts(given):
        mean = sum(size[name] * torch.sin(speed[name] * given[name]) for name in parents)
        scale = torch.exp(sum(spread[name] * torch.tanh(given[name]) for name in parents)) if parents else 1.0

        return mean, scale

    def predict(u, given):
        mean, scale = parts(given)
        return mean + scale * torch.sinh(0.4 * u) / 0.4

    def abduct(x, given):
        mean, scale = parts(given)
        return torch.asinh(0.4 * (x - mean) / scale) / 0.4

    return bc.Equation(predict=predict, abduct=abduct)


def wavy_model(causes: int, waviness: float, seed: int) -> bc.SCM:
    graph, chosen = random_graph(causes, seed), np.random.default_rng(seed)

    return bc.SCM(bc.CausalGraph(graph), {name: wavy_law(each, chosen, waviness) for name, each in graph.items()})


def calibrate(scm: bc.SCM, kind: str, rows: int, seed: int = 0) -> tuple[np.ndarray, bc.Counterfactual]:
    """The ranks of the true noises among the samples, `(noises, rows)`, and the answer."""
    names, stream = list(scm.graph), torch.Generator().manual_seed(seed)
    factual = scm.sample(rows, seed=seed)
    distance = bc.Absolute({names[0]: 1.5}) if kind == "absolute" else bc.Squared({names[0]: 2.0})
    noise = {}
    for name in names:
        uniform = torch.rand(rows, 1, generator=stream, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
        noise[name] = factual.noise[name] + distance.draw(uniform, distance.weights.get(name, 1.0)).flatten()
    world = scm.predict(noise)
    asked = {"several": [names[-1], names[len(names) // 2]]}.get(kind, [names[-1]])
    antecedent = {name: world[name] for name in asked}
    if kind == "interval":
        # A world inside of a fixed interval is a draw of what is truncated to it.
        width = 0.5 * world[names[-1]].std()
        cell = (world[names[-1]] / width).floor() * width
        antecedent = {names[-1]: bc.between(cell, cell + width)}
    cf = bc.backtrack_samples(scm, factual.values, antecedent, samples=SAMPLES, seed=seed, distance=distance)
    ranks = [(cf.noise[name] < noise[name]).sum(0).numpy() for name in names if name not in asked or len(asked) == 1]

    return np.array(ranks), cf


def judge(ranks: np.ndarray) -> tuple[float, float, float]:
    """The parts of the ranks in the outer tenths, and the least p-value, corrected for the number of noises."""
    bins = ranks * BINS // (SAMPLES + 1)
    p = [stats.chisquare(np.bincount(each, minlength=BINS)).pvalue for each in bins]
    tenth = (SAMPLES + 1) // 10

    return (ranks < tenth).mean(), (ranks > SAMPLES - tenth).mean(), min(1.0, min(p) * len(p))


KINDS = ("value", "several", "interval", "absolute")


def main(rows: int, most: int) -> None:
    torch.set_num_threads(1)
    print(f"{rows} worlds a line\n  causes  laws   asked      CPU s  trusted   low tenth  high tenth   least p")
    for causes in (each for each in (2, 6, 12, 31) if each <= most):
        for waviness, label in ((0.5, "mild"), (1.5, "wavy")):
            for kind in KINDS:
                scm = wavy_model(causes, waviness, seed=causes)
                start = time.process_time()
                ranks, cf = calibrate(scm, kind, rows)
                spent = time.process_time() - start
                trusted = (cf.status == "converged").mean()
                low, high, p = judge(ranks[:, np.asarray(cf.status == "converged")])
                print(
                    f"  {causes:6d}  {label}   {kind:9s} {spent:6.1f} {trusted:8.3f} {low:11.3f} {high:11.3f} {p:9.3g}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000, help="worlds a setting")
    parser.add_argument("--most", type=int, default=31, help="the largest number of causes")
    asked = parser.parse_args()
    main(asked.rows, asked.most)
