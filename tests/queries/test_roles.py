"""The parts of variables in a question, by hand on a small graph."""

import numpy as np
import pytest

import deepbc as bc
from deepbc.queries.roles import Roles


@pytest.fixture(scope="module")
def scm():
    """a -> b -> y; c -> y; y -> z, with c a class."""
    stream = np.random.default_rng(0)
    a, c = stream.normal(size=300), stream.choice(["u", "v"], 300)
    b = a + stream.normal(size=300)
    y = b + (c == "u") + stream.normal(size=300)
    laws = {name: bc.Linear() for name in "abyz"} | {"c": bc.Categorical(points=0, hidden=[])}
    model = bc.SCM(bc.CausalGraph.parse("a -> b -> y; c -> y; y -> z"), laws)
    model.fit({"a": a, "b": b, "c": c, "y": y, "z": y + stream.normal(size=300)})
    return model


def test_antecedent_and_its_causes_take_part(scm):
    roles = Roles.of(scm, ["y"], tuple(scm.graph), met=["y"])
    assert set(roles.names) == {"a", "b", "c", "y"}
    assert roles.pinned == roles.met == ("y",)
    assert set(roles.free) == {"a", "b", "c"}
    assert roles.discrete == ("c",)
    assert roles.fixed == ()


def test_what_nothing_can_change_is_fixed(scm):
    roles = Roles.of(scm, ["y"], ["b", "z"], met=["y"])
    assert set(roles.fixed) == {"a", "c"}
    assert roles.free == ("b",)
    assert set(roles.movable) == {"b", "z"}


def test_class_out_of_scope_keeps_its_noise(scm):
    roles = Roles.of(scm, ["c", "y"], ["a"], met=["c", "y"])
    assert roles.kept == ("c",)
    assert roles.pinned == ("y",)
