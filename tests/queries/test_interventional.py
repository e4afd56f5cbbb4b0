import math

import numpy as np
import pytest
import torch
from laws import identity, weighted

import deepbc as bc
from deepbc.datasets.morphomnist import GRAPH
from deepbc.recipes import morphomnist

# Oracle O2: t = 2.5, u_I = 0, so i = 159.5 and u_T = 0.1057.
FACTUAL = {"thickness": 2.5, "intensity": 159.5}


def test_antecedent_on_a_leaf_leaves_the_rest():
    cf = bc.intervene(morphomnist.truth(), FACTUAL, {"intensity": 240.0})
    assert cf.values["thickness"].item() == 2.5
    assert cf.values["intensity"].item() == 240.0
    assert cf.status == "converged"
    assert cf.moved["thickness"].item() == 0.0
    # The implied noise is u_I* = 2 (logit((240 - 64) / 191) - 2 t + 5).
    implied = 2 * math.log(176 / 15)
    assert cf.noise["intensity"].item() == pytest.approx(implied)
    assert cf.distance.item() == pytest.approx(implied**2)
    assert cf.error.item() < 1e-9


def test_antecedent_on_a_cause_reaches_its_effects():
    cf = bc.intervene(morphomnist.truth(), FACTUAL, {"thickness": 3.0})
    assert cf.values["intensity"].item() == pytest.approx(64 + 191 / (1 + math.exp(-1.0)))
    assert cf.noise["intensity"].item() == pytest.approx(0.0)
    assert cf.factual.values["thickness"].item() == 2.5


def test_rows_and_antecedents_broadcast():
    scm = morphomnist.truth()
    data = scm.sample(4, seed=0).to_frame()
    one_for_all = bc.intervene(scm, data, {"intensity": 200.0})
    one_each = bc.intervene(scm, data, {"intensity": [200.0, 210.0, 220.0, 230.0]})
    one_row = bc.intervene(scm, data.iloc[0], {"intensity": np.array([200.0, 210.0])})
    assert one_for_all.values["intensity"].tolist() == [200.0] * 4
    assert one_each.values["intensity"].tolist() == [200.0, 210.0, 220.0, 230.0]
    assert one_row.batch == (2,)
    assert one_row.factual.values["thickness"].shape == (2,)
    assert one_row.noise["intensity"][0] == one_for_all.noise["intensity"][0]
    with pytest.raises(bc.DataError, match="one number of rows"):
        bc.intervene(scm, data, {"intensity": [200.0, 210.0]})


def test_unreachable_antecedent_is_infeasible_and_spoils_no_other_row():
    scm = morphomnist.truth()
    data = scm.sample(3, seed=0).to_frame()
    cf = bc.intervene(scm, data, {"intensity": [200.0, 300.0, 210.0]})
    assert list(cf.status) == ["converged", "infeasible", "converged"]
    assert (cf.status == "converged").tolist() == [True, False, True]
    assert cf.status[1].remedy
    assert "outside the support" in cf.status[1].explain()
    assert cf.values["intensity"].tolist() == [200.0, 300.0, 210.0]
    assert cf.error[[0, 2]].max() < 1e-9
    assert not cf.error[1] < 1


def test_forcing_a_prediction_shows_in_the_error():
    scm = bc.SCM(bc.CausalGraph.parse("a -> y -> z"), {
        "a": identity(), "y": bc.Predictor(lambda p: 2 * p["a"]), "z": weighted({"y": 1.0}),
    })  # fmt: skip
    cf = bc.intervene(scm, {"a": 1.0, "z": 2.5}, {"y": 5.0})
    assert cf.values["z"].item() == 5.5
    # From the noise alone, y would still be 2: the error says by how much the answer breaks the law.
    assert cf.error.item() == pytest.approx(3.0)
    assert cf.status == "infeasible"


def test_error_comes_from_a_fresh_prediction_of_the_noise():
    # An inverse that is wrong by 0.1 must show in the error, although the value was assigned.
    wrong = bc.Equation(predict=lambda u, p: u, abduct=lambda x, p: x + 0.1)
    cf = bc.intervene(bc.SCM(bc.CausalGraph({"a": []}), {"a": wrong}), {"a": 0.0}, {"a": 1.0})
    assert cf.values["a"].item() == 1.0
    assert cf.error.item() == pytest.approx(0.1)
    assert cf.status == "infeasible"


def test_error_is_in_standard_deviations_after_a_fit():
    data = morphomnist.truth().sample(500, seed=0).to_frame()
    scm = bc.SCM(GRAPH, {"thickness": bc.Linear(), "intensity": bc.Predictor(lambda p: 10 * p["thickness"])})
    scm.fit(data[["thickness"]])
    sd = 10 * data["thickness"].std(ddof=0)
    cf = bc.intervene(scm, {"thickness": 2.0}, {"intensity": 20.0 + sd})
    assert cf.error.item() == pytest.approx(1.0)


def test_vector_antecedent_and_several_variables():
    vector = bc.Equation(predict=lambda u, p: p["a"] + u, abduct=lambda x, p: x - p["a"], noise=2, value=2)
    scm = bc.SCM(bc.CausalGraph.parse("a -> v; v -> b"), {
        "a": identity(), "v": vector,
        "b": bc.Equation(predict=lambda u, p: p["v"].sum(-1, keepdim=True) + u,
                         abduct=lambda x, p: x - p["v"].sum(-1, keepdim=True)),
    })  # fmt: skip
    cf = bc.intervene(scm, {"a": 0.0, "v": [0.0, 0.0], "b": 1.0}, {"v": [3.0, 4.0], "a": 1.0})
    assert cf.values["b"].item() == 8.0
    assert cf.moved["v"].item() == pytest.approx(2.0**2 + 3.0**2)
    assert cf.distance.item() == pytest.approx(1 + 13)
    many = bc.intervene(scm, {"a": 0.0, "v": [0.0, 0.0], "b": 1.0}, {"v": torch.ones(5, 2)})
    assert many.values["v"].shape == (5, 2)


def test_weights_scale_what_moved():
    scm = morphomnist.truth()
    plain = bc.intervene(scm, FACTUAL, {"intensity": 200.0})
    heavy = bc.intervene(scm, FACTUAL, {"intensity": 200.0}, distance=bc.Squared({"intensity": 5.0}))
    assert heavy.distance == 5 * plain.distance


def test_answer_as_a_frame_and_a_figure(tmp_path):
    scm = morphomnist.truth()
    data = scm.sample(3, seed=0).to_frame()
    cf = bc.intervene(scm, data, {"intensity": 200.0})
    frame = cf.to_frame()
    assert len(frame) == 3
    assert {"thickness", "factual thickness", "moved intensity", "distance", "error", "status"} <= set(frame)
    assert list(frame["status"]) == ["converged"] * 3
    cf.plot(tmp_path / "cf.png")
    assert (tmp_path / "cf.png").stat().st_size > 5000
    assert len(bc.intervene(scm, FACTUAL, {"intensity": 200.0}).to_frame()) == 1
    assert "3 converged" in repr(cf)


def test_no_rows_give_no_rows():
    scm = morphomnist.truth()
    cf = bc.intervene(scm, scm.sample(0).values, {"intensity": 200.0})
    assert cf.distance.shape == (0,)
    assert len(cf.to_frame()) == 0


@pytest.mark.parametrize(
    ("antecedent", "error", "part"),
    [
        ({}, bc.DataError, "at least one variable"),
        ({"intensty": 3.0}, bc.UnknownNameError, "Did you mean 'intensity'"),
        ({"intensity": math.nan}, bc.DataError, "antecedent 'intensity': expected finite"),
        ({"intensity": [200.0, math.inf]}, bc.DataError, "an infinity in row 1"),
        ({"intensity": "bright"}, bc.DataError, "the text 'bright'"),
        (220.0, bc.DataError, "got float"),
    ],
)
def test_bad_antecedents_are_errors_before_any_work(antecedent, error, part):
    with pytest.raises(error) as caught:
        bc.intervene(morphomnist.truth(), FACTUAL, antecedent)
    assert part in str(caught.value)


def test_bad_weights_are_refused():
    with pytest.raises(bc.SettingError, match="at least 0"):
        bc.Squared({"a": -1.0})
    with pytest.raises(bc.UnknownNameError, match="distance weights"):
        bc.intervene(morphomnist.truth(), FACTUAL, {"intensity": 200.0}, distance=bc.Squared({"colour": 1.0}))
