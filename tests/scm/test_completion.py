"""The one pass, with each kind of source, against a linear model solved by hand."""

import pytest
import torch
from laws import identity, weighted

import deepbc as bc
from deepbc.scm.completion import Known, Nearest, Noise, Reduced, Value, complete_rows, join_parents, sources

# a -> b -> c: a = u, b = 2 a + u, c = 3 b + 0.5 u
SCM = bc.SCM(
    bc.CausalGraph.parse("a -> b -> c"),
    {"a": identity(), "b": weighted({"a": 2.0}), "c": weighted({"b": 3.0}, 0.5)},
)
A, B, C = (torch.tensor([[value]], dtype=torch.float64) for value in (1.0, 5.0, 16.0))
EMPTY = torch.zeros(1, 0, dtype=torch.float64)


def test_values_lead_to_noise_and_back():
    there = complete_rows(SCM, sources({"a": A, "b": B, "c": C}, {}), EMPTY)
    assert [there.u[name].item() for name in "abc"] == pytest.approx([1.0, 3.0, 2.0])
    back = complete_rows(SCM, sources({}, there.u), EMPTY)
    assert [back.x[name].item() for name in "abc"] == pytest.approx([1.0, 5.0, 16.0])


@pytest.mark.parametrize(
    ("source", "value", "noise"),
    [
        (Value(B), 5.0, 3.0),
        (Noise(A), 3.0, 1.0),
        (Known(B, A), 5.0, 1.0),
        (Reduced(B, B), 5.0, 3.0),
        (Nearest(B, A), 5.0, 3.0),
    ],
    ids=["value", "noise", "known", "reduced", "nearest"],
)
def test_source_yields_value_and_noise(source, value, noise):
    done = complete_rows(SCM, {"a": Value(A), "b": source}, EMPTY, names=["a", "b"])
    assert (done.x["b"].item(), done.u["b"].item()) == pytest.approx((value, noise))
    assert set(done.x) == {"a", "b"}


def test_volume_of_a_reduced_value_is_that_of_its_law():
    done = complete_rows(SCM, {"a": Value(A), "b": Value(B), "c": Reduced(C, C, volume=True)}, EMPTY)
    # du/dx = 1 / 0.5
    assert done.log_density["c"].item() == pytest.approx(torch.tensor(2.0).log().item())


def test_one_value_stands_for_all_rows():
    noise = {name: torch.zeros(4, 1, dtype=torch.float64) for name in "bc"}
    done = complete_rows(SCM, sources({"a": A[0]}, noise), EMPTY.expand(4, 0))
    assert done.x["c"].flatten().tolist() == [6.0] * 4
    assert join_parents(SCM, "c", done.x).shape == (4, 1)
