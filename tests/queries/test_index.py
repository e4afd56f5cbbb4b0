"""Rows keep their labels, and what is asked is matched by them."""

import numpy as np
import pandas as pd
import pytest
import torch

import deepbc as bc


@pytest.fixture(scope="module")
def model():
    """a -> b; a, b -> c with a class c."""
    draw = np.random.default_rng(0)
    a = draw.normal(size=300)
    b = 0.8 * a + draw.normal(size=300)
    frame = pd.DataFrame({"a": a, "b": b, "c": np.where(a + b + draw.normal(size=300) > 0, "yes", "no")})
    scm = bc.SCM(bc.CausalGraph.parse("a -> b; a, b -> c"), {"a": bc.Linear(), "b": bc.Linear()})
    scm.fit(frame, progress=False)
    return scm, frame


LABELS = pd.Index([7, 3, 11], name="person")


def rows_of(frame):
    return frame.iloc[:3].set_axis(LABELS, axis=0)


@pytest.mark.parametrize("ask", [bc.backtrack, bc.intervene])
def test_index_comes_back(model, ask):
    scm, frame = model
    cf = ask(scm, rows_of(frame), {"b": 1.0})
    assert cf.to_frame().index.equals(LABELS)
    assert cf.factual.to_frame().index.equals(LABELS)
    joined = rows_of(frame).join(cf.to_frame()["factual a"])
    assert (joined["a"] == joined["factual a"]).all()


def test_samples_are_labelled_by_draw_and_row(model):
    scm, frame = model
    table = bc.backtrack_samples(scm, rows_of(frame), {"b": 1.0}, samples=5, seed=0).to_frame()
    assert table.index.names == ["sample", "row"]
    assert table.loc[0].index.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    "asked",
    [
        pd.Series([1.0, 2.0, 3.0], index=[3, 7, 11]),
        pd.Series([9.0, 3.0, 1.0, 2.0], index=[5, 11, 3, 7]),
        [2.0, 1.0, 3.0],
    ],
)
def test_series_are_matched_by_label(model, asked):
    scm, frame = model
    cf = bc.backtrack(scm, rows_of(frame), {"b": asked})
    assert cf.values["b"].tolist() == [2.0, 1.0, 3.0]
    ends = bc.backtrack(scm, rows_of(frame), {"b": bc.between(asked, asked)})
    assert torch.allclose(ends.values["b"], cf.values["b"], atol=1e-5)


def test_frame_of_antecedents_is_matched_by_label(model):
    scm, frame = model
    asked = pd.DataFrame({"b": [1.0, 2.0, 3.0], "c": ["no", "yes", "no"]}, index=[3, 7, 11])
    cf = bc.intervene(scm, rows_of(frame), asked)
    assert cf.values["b"].tolist() == [2.0, 1.0, 3.0]
    assert cf.values["c"].tolist() == ["yes", "no", "no"]


def test_one_row_beside_many_antecedents_has_their_labels(model):
    scm, frame = model
    cf = bc.backtrack(scm, frame.iloc[0], {"b": pd.Series([1.0, 2.0], index=["low", "high"])})
    assert cf.to_frame().index.tolist() == ["low", "high"]


@pytest.mark.parametrize("labels", [[3, 7], [3, 7, 12], [3, 3, 7, 11]])
def test_labels_that_do_not_match_are_refused(model, labels):
    scm, frame = model
    with pytest.raises(bc.DataError, match="to_numpy"):
        bc.backtrack(scm, rows_of(frame), {"b": pd.Series(1.0, index=labels)})


@pytest.mark.parametrize("form", ["arrays", "lists", "nullable", "categorical", "arrow", "table"])
def test_every_form_of_rows_gives_the_same_answers(model, form):
    scm, frame = model
    rows = frame.iloc[:4]
    pyarrow = pytest.importorskip("pyarrow")
    forms = {
        "arrays": lambda: {name: rows[name].to_numpy() for name in rows},
        "lists": lambda: {name: rows[name].tolist() for name in rows},
        "nullable": rows.convert_dtypes,
        "categorical": lambda: rows.astype({"c": "category"}),
        "arrow": lambda: rows.convert_dtypes(dtype_backend="pyarrow"),
        "table": lambda: pyarrow.Table.from_pandas(rows),
    }
    plain, other = (bc.backtrack(scm, each, {"c": "yes"}) for each in (rows, forms[form]()))
    assert torch.equal(plain.distance, other.distance)
    assert plain.values["c"].tolist() == other.values["c"].tolist()
