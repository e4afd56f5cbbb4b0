"""How near learned laws are to the truth, and what they cost, on simulated models with known equations (`law_models`).

For every model, number of rows and seed: nats above the truth on fresh rows (the divergence of Kullback and Leibler),
errors of do() and of backtracking against the answers of the true equations in standard deviations (root mean square,
and median over rows), and CPU seconds of the fit. The nearest worlds of truth and model alike are found by 200 starts
of a solver of this file's own, so that the package's solvers play no part.

`--law` takes the mechanism of all variables: `default`, `Flow`, `GaussianProcess`, ... `--out` writes rows as CSV.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from law_models import MODELS

import deepbc as bc

TEST_ROWS, QUESTIONS, STARTS, STEPS = 10_000, 100, 200, 40


def nearest(residual, free, starts, seed):
    """The least sum of squares from many starts: damped Gauss-Newton steps by finite differences, all at once.

    `residual` takes noises `(rows, free)` of repeated questions and their numbers, and returns `(rows, terms)`.
    """
    questions, dim = free.shape
    draw = np.random.default_rng(seed)
    spread = draw.choice([0.3, 0.7, 1.5, 2.5], size=(questions, starts, 1))
    v = free[:, None] + spread * draw.normal(size=(questions, starts, dim))
    v[:, 0] = free
    v, which = v.reshape(-1, dim), np.repeat(np.arange(questions), starts)
    damping = np.full(len(v), 1e-2)
    r = np.nan_to_num(residual(v, which), nan=1e3, posinf=1e3, neginf=-1e3)
    cost = (r**2).sum(1)
    for step in range(STEPS):
        jacobian = np.stack([(residual(v + 1e-5 * e, which) - r) / 1e-5 for e in np.eye(dim)], axis=-1)
        jacobian = np.nan_to_num(jacobian, nan=0.0, posinf=0.0, neginf=0.0)
        normal = np.einsum("nij,nik->njk", jacobian, jacobian) + damping[:, None, None] * np.eye(dim)
        move = -np.linalg.solve(normal, np.einsum("nij,ni->nj", jacobian, r)[..., None])[..., 0]
        tried = np.nan_to_num(residual(v + move, which), nan=1e3, posinf=1e3, neginf=-1e3)
        reached = (tried**2).sum(1)
        better = reached < cost
        v[better] += move[better]
        r[better], cost[better] = tried[better], reached[better]
        damping = np.where(better, damping / 4, damping * 6).clip(1e-10, 1e8)
        if step == 10:  # the worst half of the starts of each question ends here
            keep = np.argsort(cost.reshape(questions, -1), axis=1)[:, : max(1, starts // 4)]
            keep = (keep + np.arange(questions)[:, None] * starts).reshape(-1)
            v, r, cost, damping, which = v[keep], r[keep], cost[keep], damping[keep], which[keep]
    best = cost.reshape(questions, -1).argmin(1) + np.arange(questions) * (len(cost) // questions)
    return v[best]


def backtracked(graph, abduct_all, abduct, complete, x, target, value, seed):
    """The nearest worlds in which the target has a value, by a model's own functions."""
    u = abduct_all(x)
    ancestors = upstream(graph, target)
    free = np.stack([u[name] for name in ancestors], axis=1)

    def world(v, which):
        noise = {name: u[name][which] for name in graph} | {name: v[:, k] for k, name in enumerate(ancestors)}
        return complete(noise, {target: value[which]})

    def residual(v, which):
        x = world(v, which)
        implied = abduct(target, x)
        with np.errstate(over="ignore"):
            return np.concatenate([v - free[which], (implied - u[target][which])[:, None]], axis=1)

    found = nearest(residual, free, STARTS, seed)
    return world(found, np.arange(len(free)))


def upstream(graph, target):
    found, left = set(), list(graph[target])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += graph[name]
    return [name for name in graph if name in found]


class Fitted:
    """The functions of a fitted model that a truth has."""

    def __init__(self, scm):
        self.scm, self.graph = scm, {name: list(scm.graph.parents(name)) for name in scm.graph.order}

    def predict(self, name, u, parents):
        return self.ask(self.scm.mechanisms[name].predict, u, parents)

    def abduct(self, name, x):
        return self.ask(self.scm.mechanisms[name].abduct, x[name], [x[each] for each in self.graph[name]])

    def ask(self, law, given, parents):
        joined = np.stack(parents, axis=1) if parents else np.zeros((len(given), 0))
        with torch.no_grad():
            return law(torch.as_tensor(given)[:, None], torch.as_tensor(joined)).squeeze(-1).numpy()

    def abduct_all(self, x):
        return {name: self.abduct(name, x) for name in self.graph}

    def complete(self, u, x):
        done = {}
        for name, parents in self.graph.items():
            done[name] = x[name] if name in x else self.predict(name, u[name], [done[each] for each in parents])
        return done


def errors(model, fitted, seed):
    """Errors of do() and of backtracking, in standard deviations of each variable, row by row."""
    x = model.sample(QUESTIONS, 10_000 + seed)
    sd = {name: column.std() for name, column in model.sample(TEST_ROWS, 999).items()}
    target, root = [*model.graph][-1], next(iter(model.graph))
    asked = {name: model.sample(QUESTIONS, 20_000 + seed)[name] for name in (target, root)}

    true = model.complete(model.abduct(x), {root: asked[root]})
    ours = fitted.complete(fitted.abduct_all(x), {root: asked[root]})
    do = off(true, ours, sd, [name for name in model.graph if name != root])

    def law(name, x):
        return model.laws[name].abduct(x[name], [x[each] for each in model.graph[name]])

    true = backtracked(model.graph, model.abduct, law, model.complete, x, target, asked[target], seed)
    ours = backtracked(fitted.graph, fitted.abduct_all, fitted.abduct, fitted.complete, x, target, asked[target], seed)
    back = off(true, ours, sd, upstream(model.graph, target))
    return do, back


def off(true, ours, sd, names):
    return np.sqrt(np.mean([((true[name] - ours[name]) / sd[name]) ** 2 for name in names], axis=0))


def run(name, rows, seed, law):
    model = MODELS[name]
    laws = {} if law == "default" else {each: getattr(bc, law)() for each in model.graph}
    scm = bc.SCM(bc.CausalGraph(model.graph), laws)
    begin = time.process_time()
    scm.fit(pd.DataFrame(model.sample(rows, seed)), seed=0, progress=False)
    seconds = time.process_time() - begin
    test = model.sample(TEST_ROWS, 999)
    truth = sum(each.log_prob(test[v], [test[p] for p in model.graph[v]]) for v, each in model.laws.items())
    excess = (truth - scm.log_prob(test).numpy()).mean()
    do, back = errors(model, Fitted(scm), seed)
    figures = {"nats": excess, "do": rms(do), "do_median": np.median(do), "back": rms(back)}
    figures |= {"back_median": np.median(back), "back_far": (back > 0.25).mean(), "seconds": seconds}
    return {"model": name, "seen": model.seen, "rows": rows, "seed": seed, "law": law} | figures


def rms(values):
    return float(np.sqrt(np.mean(np.minimum(values, 10.0) ** 2)))


def main(arguments):
    found = []
    for rows in arguments.rows:
        for name in arguments.models or MODELS:
            for seed in range(arguments.seeds):
                found.append(run(name, rows, seed, arguments.law))
                print(
                    "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in found[-1].items()),
                    flush=True,
                )
                if arguments.out:
                    pd.DataFrame(found).to_csv(arguments.out, index=False)
    table = pd.DataFrame(found).groupby("rows")[["nats", "do", "back", "back_far", "seconds"]].mean()
    print(table.to_string(float_format="%.4f"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1_000, 5_000, 20_000])
    parser.add_argument("--models", nargs="+", choices=list(MODELS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--law", default="default")
    parser.add_argument("--out", type=Path)
    main(parser.parse_args())
