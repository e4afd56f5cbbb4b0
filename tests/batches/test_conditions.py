"""What people write on a command line, read."""

import pytest

import deepbc as bc
from deepbc.batches.conditions import parse_bounds, parse_conditions, parse_constraints, parse_weights
from deepbc.data.categories import Levels

NAMES = ("age", "p44/42", "New Jumbles Rock", "a-b")


@pytest.mark.parametrize(
    ("text", "name", "ends"),
    [
        ("age=30", "age", 30.0),
        (" age == -3.5e-2 ", "age", -0.035),
        ("New Jumbles Rock >= 68.2", "New Jumbles Rock", (68.2, None)),
        ("p44/42<=7", "p44/42", (None, 7.0)),
        ("-1 <= a-b <= 1", "a-b", (-1.0, 1.0)),
    ],
)
def test_conditions_are_values_or_intervals(text, name, ends):
    asked = parse_conditions([text], NAMES)[name]
    assert (asked if isinstance(asked, float) else (asked.lower, asked.upper)) == ends


def test_two_ends_of_one_variable_are_joined():
    for texts in (["age>=3", "age<=4"], ["age<=4", "age>=3"]):
        asked = parse_conditions(texts, NAMES)["age"]
        assert (asked.lower, asked.upper) == (3.0, 4.0)


@pytest.mark.parametrize(
    ("call", "texts", "error", "part"),
    [
        (parse_conditions, ["age"], bc.SettingError, "'age=30'"),
        (parse_conditions, ["age=nan"], bc.SettingError, "expected a number"),
        (parse_conditions, ["=3"], bc.SettingError, "condition '=3'"),
        (parse_conditions, ["3<=age>=4"], bc.SettingError, "two ends"),
        (parse_conditions, ["age=3", "age>=2"], bc.SettingError, "comes twice"),
        (parse_conditions, ["age>=3", "age>=2"], bc.SettingError, "comes twice"),
        (parse_conditions, ["agee=3"], bc.UnknownNameError, "'age'"),
        (parse_weights, ["age"], bc.SettingError, "'age=5'"),
        (parse_weights, ["age=x"], bc.SettingError, "expected a number, got 'x'"),
        (parse_weights, ["age=1", "age=2"], bc.SettingError, "'age' comes twice"),
        (parse_bounds, ["age=0,", "age=,1"], bc.SettingError, "'age' comes twice"),
        (parse_bounds, ["age=5"], bc.SettingError, "two ends"),
        (parse_bounds, ["age=a,b"], bc.SettingError, "expected a number, got 'a'"),
    ],
)
def test_what_cannot_be_read_is_said(call, texts, error, part):
    with pytest.raises(error, match=part.replace("(", r"\(")):
        call(texts, NAMES)


def test_bounds_may_be_open():
    assert parse_bounds(["age=0,", "a-b=,1", "p44/42=0,9"], NAMES) == {
        "age": (0.0, None),
        "a-b": (None, 1.0),
        "p44/42": (0.0, 9.0),
    }
    assert parse_weights(["age=5", "a-b=0"], NAMES) == {"age": 5.0, "a-b": 0.0}


def test_labels_may_hold_any_sign():
    levels = {"lab": Levels(("a=b", "x|y", "<=5", "z")), "grade": Levels(("low", "very high"), ordered=True)}
    read = parse_conditions(["lab=a=b", "grade >= very high"], ["lab", "grade"], levels)
    assert read["lab"] == "a=b"
    assert repr(read["grade"]) == "at_least('very high')"
    assert parse_conditions(["lab=<=5"], ["lab"], levels) == {"lab": "<=5"}
    assert parse_conditions(["lab=x|y"], ["lab"], levels) == {"lab": "x|y"}


def test_sets_of_labels_are_asked_with_bars_and_inequality():
    levels = {"job": Levels(("clerk", "cook", "sailor"))}
    assert repr(parse_conditions(["job=clerk | cook"], ["job"], levels)["job"]) == "one_of('clerk', 'cook')"
    assert repr(parse_conditions(["job != clerk"], ["job"], levels)["job"]) == "other_than('clerk')"
    both = parse_conditions(["job!=clerk", "job!=cook"], ["job"], levels)["job"]
    assert repr(both) == "other_than('clerk', 'cook')"
    with pytest.raises(bc.SettingError, match="!= is for labels"):
        parse_conditions(["age!=3"], ["age", "job"], levels)


def test_constraints_are_words_ranges_or_labels():
    levels = {"job": Levels(("clerk", "cook", "sailor"))}
    texts = ["age=up", "a-b=18,", "p44/42 = 1,2.5", "job=clerk|cook"]
    assert parse_constraints(texts, [*NAMES, "job"], levels) == {
        "age": "up",
        "a-b": (18.0, None),
        "p44/42": (1.0, 2.5),
        "job": ("clerk", "cook"),
    }
    with pytest.raises(bc.SettingError, match="expected 'fixed', 'up', 'down', 'free'"):
        parse_constraints(["age=upward"], NAMES, {})


def test_free_lifts_a_constraint_unless_it_is_a_label():
    levels = {"housing": Levels(("free", "own")), "job": Levels(("clerk", "cook"))}
    texts = ["age=free", "job=free", "housing=free"]
    assert parse_constraints(texts, ["age", "job", "housing"], levels) == {
        "age": None,
        "job": None,
        "housing": ("free",),
    }


def test_weights_of_names_that_hold_the_sign_are_read():
    assert parse_weights(["a=b=5", " a = 2"], ["a", "a=b"]) == {"a=b": 5.0, "a": 2.0}
