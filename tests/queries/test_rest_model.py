"""What the tree of choices says of their costs, against the costs that a solver finds for each choice pinned."""

import numpy as np
import pandas as pd
import pytest
import torch
from simulated_tables import draw_mixed
from test_choices import combinations

import deepbc as bc
from deepbc.queries.choice_tree import ChoiceTree

# Models with discrete causes, and fewer than a thousand combinations of them; all that moves in the first is affine.
AFFINE = [4, 12, 16, 24, 28]
OTHERS = [2, 8, 10, 14, 18, 20, 22, 26, 30, 32, 36, 38]


def whole_tree(scm, row, target, asked, monkeypatch):
    """The tree of one row, and all its choices."""
    seen, grow = [], ChoiceTree.grow
    with monkeypatch.context() as patch:
        patch.setattr(ChoiceTree, "grow", lambda tree, limit, most: seen.append(tree) or grow(tree, limit, most))
        bc.backtrack(scm, row, {target: asked})

    return seen[0], seen[0].grow(torch.full((1,), torch.inf, dtype=torch.float64), 10**6)


def costs(scm, row, target, asked):
    """What each combination of discrete causes costs; infinite where none was found."""
    names, every = combinations(scm, target)
    pinned = {name: np.array([choice[k] for choice in every]) for k, name in enumerate(names)}
    cf = bc.backtrack(scm, pd.concat([row] * len(every)), {**pinned, target: asked}, solver=bc.Exact(starts=0))
    found = torch.where(torch.from_numpy(np.asarray(cf.status) == "converged"), cf.distance, torch.inf)

    return names, dict(zip(every, found.tolist(), strict=True))


@pytest.mark.parametrize("seed", [*AFFINE, *OTHERS])
def test_bounds_and_exact_models_never_exceed_the_cost(seed, monkeypatch):
    scm, frame, target = draw_mixed(seed)
    row, asked = frame.iloc[[0]], frame[target].to_numpy()[15] + 0.3
    names, truth = costs(scm, row, target, asked)

    tree, choices = whole_tree(scm, row, target, asked, monkeypatch)

    labels = {name: getattr(scm.variables[name].levels, "items", None) for name in names}
    values = {name: labels[name] or [int(x) for x in tree.values[name]] for name in names}
    said = [tuple(values[name][choices.index[name][k]] for name in names) for k in range(len(choices))]
    assert len(set(said)) == len(said)
    assert {choice for choice, cost in truth.items() if cost < np.inf} <= set(said)
    assert tree.model.exact == (seed in AFFINE)
    for choice, bound, cost in zip(said, choices.bound.tolist(), choices.cost.tolist(), strict=True):
        assert bound <= cost + 1e-9
        assert (cost if tree.model.exact else bound) <= truth[choice] * (1 + 1e-6) + 1e-6
