"""Random models of numbers, classes, ordered levels, truth values and whole numbers, with rows drawn from them."""

import numpy as np
import pandas as pd

import deepbc as bc

KINDS = ("real", "class", "ordered", "whole", "truth")


def draw_mixed(seed, rows=400, additive=None):
    """A fitted model of four to seven variables, its rows, and its last variable, a number with causes.

    Laws are linear, or networks with additive noise for odd seeds; classes have linear means.
    """
    draw = np.random.default_rng(seed)
    additive = bool(seed % 2) if additive is None else additive
    names = [f"v{k}" for k in range(draw.integers(4, 8))]
    kinds = dict(zip(names, draw.choice(KINDS, size=len(names), p=[0.4, 0.15, 0.1, 0.2, 0.15]), strict=True))
    kinds[names[-1]] = "real"
    if set(kinds.values()) == {"real"}:
        kinds[names[0]] = "class"
    parents = {name: [each for each in names[:k] if draw.uniform() < 0.6] for k, name in enumerate(names)}
    parents[names[-1]] = parents[names[-1]] or [names[0]]

    seen, data, types, laws, bounds = {}, {}, {}, {}, {}
    for name, kind in kinds.items():
        z = sum((seen[each] * draw.uniform(-1, 1) for each in parents[name]), np.zeros(rows))
        if additive:
            z = z + sum((np.tanh(1.5 * seen[each]) * draw.uniform(-1, 1) for each in parents[name]), np.zeros(rows))
        z = z + draw.normal(size=rows) * draw.uniform(0.4, 1.0)
        laws[name] = bc.Categorical(points=0, hidden=[])
        if kind == "real":
            data[name], seen[name] = z, z
            laws[name] = bc.Additive(hidden=[8]) if additive and parents[name] else bc.Linear()
        elif kind in ("class", "ordered"):
            count = draw.integers(3, 6)
            codes = np.digitize(z, np.quantile(z, np.linspace(0, 1, count + 1)[1:-1]))
            codes = draw.permutation(count)[codes] if kind == "class" else codes
            labels = np.array([f"l{k}" for k in range(count)], dtype=object)
            data[name], seen[name] = labels[codes], codes - codes.mean()
            types |= {name: list(labels)} if kind == "ordered" else {}
        elif kind == "whole":
            scale = draw.uniform(0.8, 3.0)
            data[name] = np.clip(np.round(z * scale), -4, 6).astype(int)
            seen[name] = data[name] / scale
            types[name], bounds[name], laws[name] = "integer", (-4, 6), bc.Integer(bc.Linear())
        else:
            data[name], seen[name] = z > 0, (z > 0) - 0.5

    scm = bc.SCM(bc.CausalGraph(parents), laws, types=types, bounds=bounds)
    frame = pd.DataFrame(data)
    scm.fit(frame, progress=False, training=bc.Training(epochs=5), seed=0)
    return scm, frame, names[-1]
