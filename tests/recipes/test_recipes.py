"""Ready models, and what the paper says of the right and of the wrong graph."""

from dataclasses import replace

import pytest
import torch

import deepbc as bc
from deepbc.datasets import digits
from deepbc.recipes import morphomnist

NUMBERS = bc.CausalGraph.parse("thickness -> intensity")
WRONG = bc.CausalGraph.parse("intensity -> thickness")
DISTANCES = [bc.Squared(), bc.Absolute(), bc.Power(4), bc.Squared({"intensity": 9.0})]


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_only_the_wrong_graph_listens_to_the_distance(preset):
    data = morphomnist.truth().sample(1500, seed=0).values
    few = {name: each[:20] for name, each in data.items()}
    answers = {}
    for graph in (NUMBERS, WRONG):
        scm = morphomnist.model(graph, preset=preset)
        scm.fit(data, seed=0, training=bc.Training(epochs=15, learning_rate=1e-2))
        asked = [bc.backtrack(scm, few, {"thickness": 3.5}, distance=each) for each in DISTANCES]
        assert all((cf.status == "converged").all() for cf in asked)
        answers[graph] = [cf.values["intensity"] for cf in asked]
    assert all((other - answers[NUMBERS][0]).abs().max() < 1e-6 for other in answers[NUMBERS])
    assert all((other - answers[WRONG][0]).abs().mean() > 1 for other in answers[WRONG][1:])


@pytest.mark.parametrize("graph", [morphomnist.GRAPH, morphomnist.REVERSED], ids=["right", "reversed"])
def test_the_papers_networks_fit_digits(graph):
    data = digits.sample(200, seed=0).values
    scm = morphomnist.model(graph, preset="paper", residual=True)
    assert scm.mechanisms[graph.order[0]].layers == ("spline",) * 5 + ("affine",)
    assert scm.mechanisms[graph.order[1]].layers == ("affine",) + ("spline",) * 3
    few = {name: replace(each, epochs=1) for name, each in paper(graph).items()}
    scm.fit(data, seed=0, training=few)
    cf = bc.intervene(scm, {name: each[:2] for name, each in data.items()}, {"intensity": 200.0})
    assert cf.values["image"].shape == (2, 28, 28)
    assert torch.isfinite(cf.values["image"]).all()


def paper(graph):
    return morphomnist.training(graph, preset="paper")


def test_the_papers_table_of_training():
    table = paper(morphomnist.GRAPH)
    assert (table["thickness"].batch, table["thickness"].learning_rate, table["thickness"].patience) == (64, 1e-3, 2)
    assert (table["image"].batch, table["image"].patience, table["image"].validation) == (128, 10, 0.2)
    assert morphomnist.training() == {}


def test_an_unknown_preset_is_refused():
    with pytest.raises(bc.SettingError, match="'default' or 'paper'"):
        morphomnist.model(preset="ours")
