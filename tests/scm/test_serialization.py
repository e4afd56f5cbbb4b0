"""Models that an earlier version saved load, and answer as they did there."""

import json
from pathlib import Path

import pandas as pd
import pytest

import deepbc as bc

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="module")
def before():
    """A model of numbers, a category and whole numbers that version 0.1.0 saved, and its answers there."""
    answers = json.loads((FIXTURES / "model-0.1.0-answers.json").read_text())
    return bc.SCM.load(FIXTURES / "model-0.1.0"), pd.DataFrame(answers["rows"]), answers


def test_density_of_an_older_model_is_as_it_was(before):
    scm, rows, answers = before
    assert scm.log_prob(rows).tolist() == pytest.approx(answers["log_prob"], abs=1e-9)


def test_answers_of_an_older_model_are_as_they_were(before):
    scm, rows, answers = before
    cf, expected = bc.backtrack(scm, rows, {"y": 3.0}), answers["y = 3"]
    assert (cf.status == "converged").all()
    assert list(cf.values["c"]) == expected["c"]
    assert cf.values["k"].tolist() == expected["k"]
    assert cf.values["a"].tolist() == pytest.approx(expected["a"], abs=1e-6)
    assert cf.distance.tolist() == pytest.approx(expected["distance"], abs=1e-6)

    forced = bc.intervene(scm, rows, {"c": "yes"})
    assert forced.values["y"].tolist() == pytest.approx(answers["do c = yes"]["y"], abs=1e-9)


def test_older_model_saves_as_a_model_of_today(before, tmp_path):
    scm, rows, _ = before
    scm.save(tmp_path / "again")
    assert bc.SCM.load(tmp_path / "again").log_prob(rows).tolist() == scm.log_prob(rows).tolist()
