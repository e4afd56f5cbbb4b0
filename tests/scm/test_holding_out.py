"""Rows held out together, and the figures of a fit's skill against what simulated equations allow."""

import numpy as np
import pandas as pd
import pytest
import torch

import deepbc as bc
from deepbc.scm.holding_out import split_rows


@pytest.mark.parametrize("sizes", [(10, 10, 10), (1, 1), (400, 3, 5, 2), (7,) * 50])
def test_groups_are_held_out_whole_and_something_is_left_to_learn_from(sizes):
    groups = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    for seed in range(5):
        kept, held = split_rows(len(groups), 0.2, groups, torch.Generator().manual_seed(seed))
        assert sorted([*kept.tolist(), *held.tolist()]) == list(range(len(groups)))
        assert len(kept)
        assert len(held)
        assert not set(groups[kept].tolist()) & set(groups[held].tolist())


def test_as_many_rows_are_held_out_as_asked_where_groups_are_small():
    groups = torch.arange(300).repeat_interleave(4)
    _, held = split_rows(1200, 0.2, groups, torch.Generator().manual_seed(0))
    assert abs(len(held) - 240) <= 4


def hanging(rows=600, places=30):
    """`y` depends on `x`, and on its place, of which `x` tells all but nothing about others."""
    draw = np.random.default_rng(0)
    place = np.arange(rows) % places
    x = np.linspace(-2, 2, places)[place] + 0.01 * draw.normal(size=rows)
    y = draw.normal(size=places)[place] + 0.1 * draw.normal(size=rows)
    return pd.DataFrame({"place": [f"p{each}" for each in place], "x": x, "y": y})


def test_a_place_that_is_held_out_whole_is_predicted_worse():
    graph, data = bc.CausalGraph.parse("x -> y"), hanging()
    leaking = bc.SCM(graph).fit(data, progress=False)
    whole = bc.SCM(graph).fit(data, groups="place", progress=False)
    assert whole["y"].nll > leaking["y"].nll + 0.1
    # A column and its labels are the same, whatever order their index has.
    again = bc.SCM(graph).fit(data, groups=data["place"].sample(frac=1.0, random_state=0), progress=False)
    assert again["y"].nll == whole["y"].nll


@pytest.mark.parametrize(
    ("groups", "part"),
    [
        ("plaec", "place"),
        (["a", "b"], "600 rows"),
        (["a"] * 600, "at least two groups"),
        ([None, *["a"] * 599], "missing"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups, part):
    with pytest.raises(bc.DeepBCError, match=part):
        bc.SCM(bc.CausalGraph.parse("x -> y")).fit(hanging(), groups=groups, progress=False)


def test_skill_is_what_the_equations_allow():
    draw = np.random.default_rng(1)
    a = draw.normal(size=4000)
    b = 2 * a + draw.normal(size=4000)
    c = draw.random(4000) < 1 / (1 + np.exp(-2 * a))
    report = bc.SCM(bc.CausalGraph.parse("a -> b; a -> c")).fit({"a": a, "b": b, "c": c}, progress=False)
    assert report["a"].r2 is None
    assert report["a"].skill == ""
    # The variance of 2 a is four times that of the noise.
    assert abs(report["b"].r2 - 0.8) < 0.03
    # The area under the curve of the true probability, by the statistic of Mann and Whitney.
    pairs = a[c][:, None] > a[~c][None]
    assert abs(report["c"].auc - pairs.mean()) < 0.04
    assert report["c"].skill.startswith("AUC 0.")
    assert np.isnan(report.to_frame().set_index("variable").loc["c", "r2"])
