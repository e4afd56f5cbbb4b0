"""Classes that follow from a change: their probabilities, the likeliest, and draws of them."""

import numpy as np
import pandas as pd
import pytest
import torch

import deepbc as bc


@pytest.fixture(scope="module")
def model():
    """dose -> cured (two labels), ward (three); dose, cured -> stay."""
    draw = np.random.default_rng(0)
    dose = draw.normal(size=1500)
    cured = np.where(0.8 * dose + draw.normal(size=1500) > 0.3, "yes", "no")
    scores = np.stack([0 * dose, dose, -0.7 * dose], 1) + draw.normal(size=(1500, 3))
    ward = np.array(["a", "b", "c"])[scores.argmax(1)]
    stay = dose - 2 * (cured == "yes") + 0.5 * draw.normal(size=1500)
    frame = pd.DataFrame({"dose": dose, "cured": cured, "ward": ward, "stay": stay})
    laws = {
        "dose": bc.Linear(),
        "cured": bc.Categorical(points=0, hidden=[]),
        "ward": bc.Categorical(points=0, hidden=[]),
        "stay": bc.Linear(),
    }
    scm = bc.SCM(bc.CausalGraph.parse("dose -> cured; dose -> ward; dose, cured -> stay"), laws)
    scm.fit(frame, seed=0)
    return scm, frame


@pytest.mark.parametrize("ask", [bc.intervene, bc.backtrack])
def test_the_probability_of_two_labels_is_that_of_a_cut_normal(model, ask):
    """With P the probability of "yes" under each dose: raising it, "no" stays "no" with (1 - P*) / (1 - P)."""
    scm, frame = model
    rows = frame.head(200)
    cf = ask(scm, rows, {"dose": rows["dose"] + 0.7})

    def chance(dose):
        yes = {"dose": dose, "cured": "yes", "ward": "a", "stay": 0.0}
        return scm.log_prob(
            {**yes, "cured": np.full(len(dose), "yes"), "ward": np.full(len(dose), "a"), "stay": np.zeros(len(dose))},
            of=["cured"],
        ).exp()

    before, after = chance(rows["dose"].to_numpy()), chance(rows["dose"].to_numpy() + 0.7)
    was_yes = torch.tensor((rows["cured"] == "yes").tolist())
    yes = torch.where(was_yes, 1.0, (after - before) / (1 - before))
    assert torch.allclose(cf.probabilities["cured"][:, 1], yes, atol=1e-6)
    assert (cf.values["cured"] == np.where(yes > 0.5, "yes", "no")).all()


@pytest.mark.parametrize("ask", [bc.intervene, bc.backtrack])
def test_effects_take_their_likeliest_label_and_noise_that_leads_to_it(model, ask):
    scm, frame = model
    rows = frame.iloc[:100]
    cf = ask(scm, rows, {"dose": 1.5})
    assert (cf.status == "converged").all()
    for name, labels in (("cured", ["no", "yes"]), ("ward", ["a", "b", "c"])):
        chance = cf.probabilities[name]
        assert torch.allclose(chance.sum(-1), torch.ones(100, dtype=torch.double), atol=1e-3)
        assert (cf.values[name] == np.array(labels)[chance.argmax(-1)]).all()
        assert (cf.moved[name] == 0).all()
    again = scm.predict(cf.noise)
    assert (again["ward"] == cf.values["ward"]).all()
    assert np.allclose(again["stay"], cf.values["stay"])
    facts = scm.predict({**cf.noise, "dose": cf.factual.noise["dose"]})
    assert (facts["ward"] == rows["ward"]).all()
    assert (facts["cured"] == rows["cured"]).all()


def test_drawn_effects_have_the_shares_of_their_probabilities(model):
    scm, frame = model
    rows = frame.head(20)
    point = bc.intervene(scm, rows, {"dose": 1.5})
    drawn = bc.intervene(scm, rows, {"dose": 1.5}, samples=4000, seed=0)
    assert drawn.values["ward"].shape == (4000, 20)
    for name, labels in (("cured", ["no", "yes"]), ("ward", ["a", "b", "c"])):
        for k, label in enumerate(labels):
            share = (drawn.values[name] == label).mean(0)
            assert np.allclose(share, point.probabilities[name][:, k], atol=0.04)
    assert (drawn.values["dose"] == 1.5).all()
    again = bc.intervene(scm, rows.iloc[5:6], {"dose": 1.5}, samples=4000, seed=0)
    assert (again.values["ward"][:, 0] == drawn.values["ward"][:, 5]).all()


def test_samples_of_the_intervened_model_are_those_of_its_laws(model):
    scm, _ = model
    forced = scm.sample(20_000, do={"dose": 1.0, "cured": "yes"}, seed=0)
    free = scm.sample(20_000, seed=0)
    assert (forced.values["dose"] == 1.0).all()
    assert (forced.values["cured"] == "yes").all()
    assert torch.equal(forced.noise["stay"], free.noise["stay"])
    law = bc.intervene(scm, {"dose": 0.0, "cured": "no", "ward": "a", "stay": 0.0}, {"dose": 1.0, "cured": "yes"})
    centre = (
        law.values["stay"]
        - scm.complete(values={"dose": 0.0, "cured": "no", "ward": "a", "stay": 0.0}).noise["stay"]
        * forced.values["stay"].std()
    )
    assert forced.values["stay"].mean().item() == pytest.approx(centre.item(), abs=0.02)
    each = scm.sample(3, do={"dose": [0.0, 1.0, 2.0]}, seed=0)
    assert each.values["dose"].tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(bc.DataError, match="one for each of 3 rows"):
        scm.sample(3, do={"dose": [0.0, 1.0]})
    with pytest.raises(bc.DataError, match="Did you mean 'dose'"):
        scm.sample(3, do={"doze": 1.0})


def test_a_label_that_nothing_changes_keeps_its_noise(model):
    scm, frame = model
    rows = frame.head(10)
    cf = bc.backtrack(scm, rows, {"ward": rows["ward"]})
    assert (cf.distance == 0).all()
    assert torch.equal(cf.noise["cured"], cf.factual.noise["cured"])
    assert set(cf.probabilities["cured"].unique().tolist()) == {0.0, 1.0}
