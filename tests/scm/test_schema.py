"""Values as people have them, as rows, and back."""

import numpy as np
import pytest
import torch

import deepbc as bc
from deepbc.scm.schema import read_names


@pytest.fixture(scope="module")
def scm():
    """A number in bounds, a category of three and whole numbers."""
    stream = np.random.default_rng(0)
    data = {
        "x": stream.uniform(0.1, 0.9, 200),
        "c": stream.choice(["a", "b", "c"], 200),
        "k": stream.integers(0, 9, 200),
    }
    laws = {"x": bc.Linear(), "c": bc.Categorical(points=0, hidden=[]), "k": bc.Integer(bc.Linear())}
    fitted = bc.SCM(bc.CausalGraph({"x": [], "c": [], "k": []}), laws, bounds={"x": (0, 1)})
    fitted.fit(data)
    return fitted


def test_values_become_rows_and_come_back(scm):
    rows = scm.schema.read_values({"x": [0.2, 0.4], "c": ["c", "a"], "k": [3, 4]})
    assert rows["x"].shape == (2, 1)
    assert rows["c"].tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert scm.schema.show("x", rows["x"]).tolist() == [0.2, 0.4]
    assert list(scm.schema.show("c", rows["c"])) == ["c", "a"]
    assert scm.schema.show("k", rows["k"]).tolist() == [3.0, 4.0]


def test_deviations_are_those_of_the_data(scm):
    data = np.random.default_rng(0).uniform(0.1, 0.9, 200)
    assert scm.schema.sd("x").item() == pytest.approx(data.std())
    assert scm.schema.sd("c").tolist() == [1.0, 1.0]


def test_other_precision_keeps_values_inside_bounds(scm):
    single = scm.to(dtype=torch.float32).schema
    placed = single.place(torch.tensor([[1 - 1e-12]], dtype=torch.float64), "x")
    assert placed.dtype == torch.float32
    assert placed.item() < 1


def test_lone_name_is_one_name():
    assert read_names("a", ("a", "b"), "scope") == ("a",)
    assert read_names(None, ("a", "b"), "scope") == ("a", "b")
    with pytest.raises(bc.SettingError, match="number of variables in scope"):
        read_names([], ("a", "b"), "scope")
