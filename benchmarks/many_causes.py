"""What backtracking samples cost with many causes, and whether they are right where the truth is a closed form.

Linear-Gaussian laws on random graphs: 8 queries of 400 samples, whose noises are normal with a known mean and
covariance. Laws fitted to drawn rows: 10 queries of 100 samples. Times are CPU seconds of one thread, after one small
question to warm up. Of the moments the root mean square error in Monte-Carlo standard errors is printed, which is 1 if
samples are independent draws of the truth, and the mean ratio of standard deviations, noise by noise. `--most 20`
leaves out the larger models.
"""

import argparse
import math
import random
import time

import numpy as np
import torch

import deepbc as bc

LINEAR, FITTED = (5, 6, 20, 40, 80), (6, 12, 31)
LINEAR_QUERIES, LINEAR_SAMPLES = 8, 400
FITTED_QUERIES, FITTED_SAMPLES = 10, 100
PARENTS, FIT_ROWS = 3, 1_000


def random_graph(causes: int, seed: int) -> dict[str, list[str]]:
    """A graph of so many variables that are all causes of a last one, each with few parents."""
    chosen = random.Random(seed)
    names = [f"x{k}" for k in range(causes + 1)]
    parents = {name: chosen.sample(names[:k], min(k, chosen.randint(1, PARENTS))) for k, name in enumerate(names)}
    childless = set(names[:-1]) - {each for listed in parents.values() for each in listed}
    for name in sorted(childless):
        # Its next one in order takes it as a parent, so that the last variable is downstream of all.
        parents[names[names.index(name) + 1]].append(name)

    return parents


def linear_law(weights: dict[str, float], scale: float) -> bc.Equation:
    def mean(parents):
        return sum(weight * parents[name] for name, weight in weights.items())

    return bc.Equation(
        predict=lambda u, parents: mean(parents) + scale * u, abduct=lambda x, parents: (x - mean(parents)) / scale
    )


def linear_model(causes: int, seed: int) -> tuple[bc.SCM, np.ndarray]:
    """A linear-Gaussian model and the row of its matrix from noises to the last variable."""
    graph, chosen = random_graph(causes, seed), np.random.default_rng(seed)
    laws, rows = {}, {}
    for k, (name, parents) in enumerate(graph.items()):
        weights = {parent: chosen.normal() / math.sqrt(len(parents)) for parent in parents}
        scale = chosen.uniform(0.5, 1.5)
        laws[name] = linear_law(weights, scale)
        rows[name] = scale * np.eye(causes + 1)[k] + sum(weight * rows[each] for each, weight in weights.items())

    return bc.SCM(bc.CausalGraph(graph), laws), rows[name]


def waves(causes: int, seed: int, rows: int) -> tuple[bc.CausalGraph, dict[str, torch.Tensor]]:
    """Rows of non-linear laws: products and waves of parents, with noise that is skewed or depends on them."""
    graph, chosen = random_graph(causes, seed), np.random.default_rng(seed)
    x = {}
    for name, parents in graph.items():
        u = chosen.normal(size=rows)
        signal = sum(chosen.normal() * np.sin(x[each] * chosen.uniform(0.5, 1.5)) for each in parents) + u * 0
        spread = 0.6 * np.exp(0.3 * np.tanh(x[parents[0]])) if parents else 1.0
        x[name] = signal + spread * (u + 0.15 * u**2)

    return bc.CausalGraph(graph), {name: torch.tensor(each) for name, each in x.items()}


def timed(call):
    start = time.process_time()
    result = call()

    return time.process_time() - start, result


def race_linear(causes: int) -> None:
    scm, gain = linear_model(causes, seed=causes)
    world = scm.sample(LINEAR_QUERIES, seed=1)
    last = f"x{causes}"
    asked = {last: world.values[last].flip(0) + 1.0}
    bc.backtrack_samples(scm, {name: each[:1] for name, each in world.values.items()}, {last: 0.5}, samples=8, seed=0)
    spent, cf = timed(lambda: bc.backtrack_samples(scm, world.values, asked, samples=LINEAR_SAMPLES, seed=0))

    factual = torch.stack([cf.factual.noise[name] for name in scm.graph], -1).numpy()
    noise = torch.stack([cf.noise[name] for name in scm.graph], -1).numpy()
    size = gain @ gain
    mean = factual + np.outer(asked[last].numpy() - factual @ gain, gain) / size
    covariance = 0.5 * (np.eye(causes + 1) - np.outer(gain, gain) / size)
    sd = np.sqrt(covariance.diagonal())
    moved = sd > 1e-6
    z = (noise.mean(0) - mean)[:, moved] / sd[moved] * math.sqrt(LINEAR_SAMPLES)
    ratio = noise.std(0, ddof=1)[:, moved] / sd[moved]
    spread = (ratio - 1) * math.sqrt(2 * LINEAR_SAMPLES)
    print(
        f"  linear {causes:4d} {spent:9.2f} {said(cf)} {math.sqrt((z**2).mean()):10.2f} "
        f"{math.sqrt((spread**2).mean()):10.2f} {ratio.mean():8.3f} {cf.error.max().item():9.1e}",
        flush=True,
    )


def race_fitted(causes: int, law: type) -> None:
    graph, rows = waves(causes, seed=causes, rows=FIT_ROWS + FITTED_QUERIES)
    scm = bc.SCM(graph, {name: law() for name in graph})
    fit, _ = timed(lambda: scm.fit({name: each[:FIT_ROWS] for name, each in rows.items()}, seed=0))
    factual = {name: each[FIT_ROWS:] for name, each in rows.items()}
    last = f"x{causes}"
    asked = {last: rows[last][:FITTED_QUERIES]}
    bc.backtrack_samples(scm, {name: each[:1] for name, each in factual.items()}, {last: 0.5}, samples=8, seed=0)
    mode, _ = timed(lambda: bc.backtrack(scm, factual, asked))
    spent, cf = timed(lambda: bc.backtrack_samples(scm, factual, asked, samples=FITTED_SAMPLES, seed=0))
    label = f"{law.__name__.lower()[:6]} {causes:4d}"
    print(f"  {label:11s} {spent:9.2f} {said(cf)}   mode {mode:.2f} s, fit {fit:.0f} s", flush=True)


def said(cf: bc.Counterfactual) -> str:
    trusted = int((cf.status == "converged").sum())

    return f"{trusted:5d}/{len(cf.status):<3d} {cf.diagnostics.effective.min().item():9.0f}"


def main(most: int) -> None:
    torch.set_num_threads(1)
    print("  laws causes   CPU s  converged   eff. min   means/se  spreads/se    sd ratio   error")
    for causes in (each for each in LINEAR if each <= most):
        race_linear(causes)
    for law in (bc.Additive, bc.Flow):
        for causes in (each for each in FITTED if each <= most):
            race_fitted(causes, law)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=80, help="the largest number of causes")
    main(parser.parse_args().most)
