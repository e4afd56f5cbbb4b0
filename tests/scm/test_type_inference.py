"""What a column is, by declaration, by its mechanism, or by what it holds."""

import numpy as np
import pandas as pd
import pytest

import deepbc as bc
from deepbc.data.variables import Kind
from deepbc.scm.type_inference import default_mechanism, infer_kind, read_types

NUMBERS = np.linspace(0.0, 1.0, 7)


def infer(column, declared=None, mechanism=None, *, bounded=False):
    return infer_kind(column, "x", declared, mechanism, bounded=bounded)


@pytest.mark.parametrize(
    ("column", "kind", "law"),
    [
        (NUMBERS, "number", bc.GaussianProcess),
        (np.arange(5), "integer", bc.Integer),
        (np.array([0, 1, 1, 0]), "category", bc.Categorical),
        (np.array([1.5, 2.5, 1.5]), "category", bc.Categorical),
        (np.array([True, False]), "category", bc.Categorical),
        (["low", "high", "low"], "category", bc.Categorical),
        (pd.Series([3, 1, 3], dtype="category"), "category", bc.Categorical),
        (pd.Series([3, 1, 2]), "integer", bc.Integer),
    ],
)
def test_column_shows_what_it_is(column, kind, law):
    found = infer(column)
    assert ("category" if found.levels else "integer" if found.whole else "number") == kind
    assert type(default_mechanism(found)) is law


def test_declared_type_comes_before_what_is_seen():
    assert infer(np.array([0, 1, 1]), "real") == Kind()
    assert infer(np.array([0, 1, 1]), "integer").whole
    assert infer(np.arange(4), "category").levels.items == (0.0, 1.0, 2.0, 3.0)
    ordered = infer(["b", "a", "b"], ("b", "a"))
    assert ordered.levels.ordered
    assert ordered.levels.items == ("b", "a")


def test_chosen_mechanism_says_what_it_is_of():
    assert infer(np.arange(4), mechanism=bc.Linear()) == Kind()
    assert infer(NUMBERS, mechanism=bc.Integer()).whole
    assert infer(np.arange(4), mechanism=bc.Categorical()).levels
    with pytest.raises(bc.SettingError, match="holds labels"):
        infer(["a", "b"], mechanism=bc.Linear())


def test_two_values_inside_bounds_are_numbers():
    assert infer(np.array([0.0, 0.5, 0.0]), bounded=True) == Kind()
    assert infer(np.array([0.0, 1.0, 0.0]), bounded=True) == Kind(whole=True)


@pytest.mark.parametrize("column", [[1, 2, 3], np.array([1.0, 2.0, 3.0]), [1.0, 2, -3.0]])
def test_whole_floats_are_whole_numbers(column):
    assert infer(column) == Kind(whole=True)


@pytest.mark.parametrize("column", [[1.0, 2.0, 3.5], [1e300, 2e300, 3e300], [1.0, np.nan, 3.0]])
def test_other_floats_are_not(column):
    assert infer(np.array(column)) == Kind()


def test_unknown_type_is_refused():
    with pytest.raises(
        bc.SettingError, match="type of 'x': expected 'real', 'integer', 'grid', 'category' or 'censored'"
    ):
        read_types({"x": "text"}, ["x"])
