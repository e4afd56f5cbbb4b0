"""The forms in which rows are handed in: each gives the answers of a plain data frame."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch

import deepbc as bc

pyarrow = pytest.importorskip("pyarrow")

# age -> job; age -> visits; job, visits -> income
GRAPH = bc.CausalGraph.parse("age -> job; age -> visits; job, visits -> income; v -> income")
LAWS = {"age": bc.Linear(), "job": bc.Categorical(points=0, hidden=[]), "income": bc.Linear(), "v": bc.Linear()}
NAMES = ["age", "job", "visits", "v[0]", "v[1]", "income"]


def draw_table(rows=120):
    draw = np.random.default_rng(0)
    age = draw.normal(40, 10, rows)
    job = np.where(age + draw.normal(0, 10, rows) > 40, "clerk", "cook")
    visits = draw.poisson(np.exp(age / 40))
    v = draw.normal(size=(rows, 2))
    income = 20 + 5 * (job == "cook") + visits + v.sum(1) + draw.normal(size=rows)
    columns = {"age": age, "job": job, "visits": visits, "v[0]": v[:, 0], "v[1]": v[:, 1], "income": income}
    index = pd.Index([f"p{k}" for k in range(rows)], name="person")
    return pd.DataFrame({**columns, "name": index, "born": pd.Timestamp("2020-01-31")}, index=index)


TABLE = draw_table()


def without_extras(frame):
    return frame[NAMES]


def polars_table(frame):
    return pytest.importorskip("polars").from_pandas(frame)


# What stays a data frame, and what has no index.
FRAMES = {
    "with other columns": lambda frame: frame,
    "nullable": lambda frame: frame.convert_dtypes(),
    "arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "category": lambda frame: frame.astype({"job": "category"}),
    "objects": lambda frame: frame.astype(object),
    "decimals": lambda frame: frame.assign(age=[Decimal(float(each)) for each in frame["age"]]),
    "whole floats": lambda frame: frame.astype({"visits": float}),
    "small": lambda frame: frame.astype({"visits": "uint8"}),
}
OTHERS = {
    "arrays": lambda frame: {name: frame[name].to_numpy() for name in NAMES},
    "series": lambda frame: {name: frame[name] for name in NAMES},
    "lists": lambda frame: {name: frame[name].tolist() for name in NAMES},
    "pyarrow": pyarrow.Table.from_pandas,
    "pyarrow codes": lambda frame: pyarrow.Table.from_pandas(frame.astype({"job": "category"})),
    "records": lambda frame: frame.drop(columns="born").to_records(),
    "polars": polars_table,
}
FORMS = {**FRAMES, **OTHERS}


def fit(data):
    scm = bc.SCM(GRAPH, LAWS)
    scm.fit(data, seed=0, progress=False, training=bc.Training(epochs=3))
    return scm


@pytest.fixture(scope="module")
def scm():
    return fit(without_extras(TABLE))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_fitted_alike(scm, form):
    other = fit(FORMS[form](TABLE))
    assert [repr(each) for each in other.variables.values()] == [repr(each) for each in scm.variables.values()]
    rows = without_extras(TABLE)
    assert torch.equal(other.log_prob(rows), scm.log_prob(rows))


ASKED = {"income": 30.0}
QUERIES = {
    "backtrack": lambda scm, rows: bc.backtrack(scm, rows, ASKED),
    "intervene": lambda scm, rows: bc.intervene(scm, rows, {"visits": 3.0}),
    "samples": lambda scm, rows: bc.backtrack_samples(scm, rows, ASKED, samples=3, seed=0, scope=["income"]),
}


@pytest.fixture(scope="module")
def plain(scm):
    rows = without_extras(TABLE).iloc[:4]
    return {name: ask(scm, rows) for name, ask in QUERIES.items()}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_answered_alike(scm, plain, query, form):
    cf = QUERIES[query](scm, FORMS[form](TABLE.iloc[:4]))
    expected = plain[query].to_frame()
    if form not in FRAMES:
        expected = expected.set_axis(cf.to_frame().index)
    pd.testing.assert_frame_equal(cf.to_frame(), expected, check_exact=True)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_checked_and_abducted_alike(scm, form):
    rows, other = without_extras(TABLE), FORMS[form](TABLE)
    assert bc.check(scm, other, seed=0).explain() == bc.check(scm, rows, seed=0).explain()
    for name, noise in scm.abduct(rows).items():
        assert torch.equal(scm.abduct(other)[name], noise)


def test_a_row_may_have_other_names(scm, plain):
    cf = bc.backtrack(scm, TABLE.iloc[2], ASKED)
    assert cf.distance.item() == pytest.approx(plain["backtrack"].distance[2].item())


@pytest.mark.parametrize("query", ["intervene", "samples"])
@pytest.mark.parametrize("count", [0, 1])
def test_few_rows_are_answered(scm, query, count):
    assert len(QUERIES[query](scm, TABLE.iloc[:count]).to_frame()) == (3 * count if query == "samples" else count)


@pytest.mark.parametrize(
    "index", [[1, 1, 2], pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])], ids=["twice", "levels"]
)
def test_any_index_is_kept(scm, index):
    rows = TABLE.iloc[:3].set_axis(index)
    cf = bc.intervene(scm, rows, ASKED)
    assert cf.to_frame().index.equals(rows.index)
    assert cf.to_frame(tidy=True)["row"].tolist() == rows.index.tolist()


def test_whole_numbers_may_name_columns():
    table = TABLE[["age", "income"]].set_axis([0, 1], axis=1)
    one = bc.SCM(bc.CausalGraph({"0": [], "1": ["0"]}), {"0": bc.Linear(), "1": bc.Linear()})
    one.fit(table.assign(other="x"), progress=False)
    assert bc.backtrack(one, table.iloc[:2], {"1": 30.0}).to_frame().index.tolist() == ["p0", "p1"]


def test_a_column_that_looks_like_a_component_is_another_column(scm, plain):
    cf = bc.backtrack(scm, TABLE.iloc[:4].assign(**{"age[0]": 1.0}), ASKED)
    assert torch.equal(cf.distance, plain["backtrack"].distance)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda scm: scm.abduct({**TABLE[NAMES], "jop": 1.0}), "'jop' is not a variable of the graph. Did you mean"),
        (lambda scm: bc.backtrack(scm, TABLE, pd.DataFrame({"incom": 1.0}, index=TABLE.index)), "incom"),
        (lambda scm: bc.backtrack(scm, TABLE, pd.Series({"income": 1.0, "name": 2.0})), "'name' is not a variable"),
        (lambda scm: bc.intervene(scm, TABLE, {"incom": 1.0}), "incom"),
        (lambda scm: scm.sample(3, do=pd.DataFrame({"income": [30.0] * 3, "jop": 1})), "'jop' is not a variable"),
        (lambda scm: bc.backtrack(scm, TABLE.rename(columns={"job": "jop"}), ASKED), "Did you mean 'jop'?"),
        (lambda scm: bc.check(scm, TABLE.rename(columns={"job": "jop"})), "Did you mean 'jop'?"),
        (lambda scm: bc.backtrack(scm, TABLE[["age", "age", *NAMES]], ASKED), "the column 'age' comes twice"),
    ],
)
def test_what_is_not_known_is_said(scm, call, part):
    with pytest.raises((bc.DataError, bc.UnknownNameError)) as caught:
        call(scm)
    assert part in str(caught.value)


GAPS = {
    "age": [np.nan, None, pd.NA, pd.NaT],
    "visits": [np.nan, None, pd.NA],
    "job": [np.nan, None, pd.NA, pd.NaT],
    "v[1]": [None],
}


@pytest.mark.parametrize(("name", "gap"), [(name, gap) for name, gaps in GAPS.items() for gap in gaps], ids=repr)
@pytest.mark.parametrize("form", ["plain", "objects", "nullable", "arrow", "category"])
def test_gaps_are_refused_with_variable_and_row(scm, name, gap, form):
    table = TABLE.astype({name: object})
    table.iloc[3, table.columns.get_loc(name)] = gap
    table = table if form == "plain" else FRAMES[form](table)
    for call in (fit, lambda rows: bc.backtrack(scm, rows, ASKED), lambda rows: bc.check(scm, rows), scm.abduct):
        with pytest.raises(bc.DataError, match=r"missing value.* in row 'p3'") as caught:
            call(table)
        assert repr(name.partition("[")[0]) in str(caught.value)


DAY = datetime.date(2020, 1, 31)
DATES = {
    "datetimes": pd.Timestamp(DAY),
    "with a zone": pd.Timestamp(DAY, tz="UTC"),
    "days": DAY,
    "times": datetime.time(3),
    "durations": datetime.timedelta(3),
    "periods": pd.Period("2020-01"),
}


@pytest.mark.parametrize("form", ["plain", "arrow", "lists", "category", "pyarrow", "arrays"])
@pytest.mark.parametrize("case", DATES)
def test_dates_are_refused_with_a_remedy(scm, case, form):
    if case == "periods" and "arrow" in form:
        pytest.skip("Arrow has no periods")
    table = TABLE.assign(age=pd.Series([DATES[case]] * len(TABLE), index=TABLE.index))
    table = table.astype({"age": "category"}) if form == "category" else table
    table = table if form in ("plain", "category") else FORMS[form](table)
    for call in (fit, lambda rows: bc.backtrack(scm, rows, ASKED)):
        with pytest.raises(bc.DataError, match=r"'age': expected numbers or labels, got .*\. Make a number of each"):
            call(table)


def test_a_date_among_the_values_of_a_row_is_refused(scm):
    with pytest.raises(bc.DataError, match="got dates such as 2020-01-31"):
        bc.backtrack(scm, {**TABLE[NAMES].iloc[0], "age": DAY}, ASKED)


@pytest.mark.parametrize("rows", [40, 120])
def test_dates_as_text_are_refused_where_they_are_too_many(rows):
    days = pd.date_range("2020-01-01", periods=rows).strftime("%Y-%m-%d")
    with pytest.raises(bc.DataError, match="got dates such as 2020-01-01"):
        fit(TABLE.iloc[:rows].assign(job=days))
    with pytest.raises(bc.DataError, match="got dates such as 2020-01-01"):
        fit(TABLE.iloc[:rows].assign(age=days))


def test_a_few_days_are_labels():
    days = np.where(TABLE["age"] > 40, "2020-01-01", "2021-01-01")
    assert fit(TABLE.assign(job=days)).variables["job"].levels.items == ("2020-01-01", "2021-01-01")


def test_errors_name_the_labels_of_rows(scm):
    for change, part in (
        ({"visits": 1.5}, "expected whole numbers, got 1.5 in row 'p4'"),
        ({"job": "cok"}, "unknown level 'cok' in row 'p4'"),
        ({"age": np.inf}, "an infinity in row 'p4'"),
        ({"age": "old"}, "got the text 'old' in row 'p4'"),
    ):
        rows = TABLE.iloc[2:6].astype(object)
        rows.loc["p4", list(change)] = list(change.values())
        with pytest.raises(bc.DataError) as caught:
            bc.intervene(scm, rows, ASKED)
        assert part in str(caught.value)


def test_errors_name_labels_of_several_levels(scm):
    rows = TABLE.iloc[:3].set_axis(pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])).assign(age=[1, np.nan, 2])
    with pytest.raises(bc.DataError, match=r"in row \('a', 2\)\."):
        bc.intervene(scm, rows, ASKED)


@pytest.mark.parametrize("asked", [DAY, pd.date_range("2020", periods=3), [pd.Timedelta(1)] * 3])
def test_dates_are_not_asked_for(scm, asked):
    with pytest.raises(bc.DataError, match="antecedent 'income': expected numbers or labels, got"):
        bc.intervene(scm, TABLE.iloc[:3], {"income": asked})


def test_tidy_samples_have_a_line_for_each_draw_and_row(scm, plain):
    table = plain["samples"].to_frame(tidy=True)
    assert list(table) == ["row", "draw", *GRAPH_COLUMNS]
    assert len(table) == 12
    assert table.index.tolist() == list(range(12))
    cf = plain["samples"]
    line = table[(table["row"] == "p2") & (table["draw"] == 1)].iloc[0]
    assert line["age"] == cf.values["age"][1, 2]
    assert line["v[1]"] == cf.values["v"][1, 2, 1]
    assert line["job"] == cf.values["job"][1, 2]
    assert table["visits"].dtype == np.int64


GRAPH_COLUMNS = [column for name in GRAPH for column in (["v[0]", "v[1]"] if name == "v" else [name])]


def test_tidy_modes_have_a_line_for_each_row(scm, plain):
    table = plain["backtrack"].to_frame(tidy=True)
    assert list(table) == ["row", *GRAPH_COLUMNS]
    assert table["row"].tolist() == ["p0", "p1", "p2", "p3"]
    single = bc.intervene(scm, TABLE.iloc[0], ASKED, samples=2, seed=0).to_frame(tidy=True)
    assert single[["row", "draw"]].to_numpy().tolist() == [[0, 0], [0, 1]]


def test_tidy_keeps_variables_of_its_own_names():
    law = bc.Equation(predict=lambda u, parents: u, abduct=lambda x, parents: x)
    scm = bc.SCM(bc.CausalGraph({"row": [], "draw": []}), {"row": law, "draw": law})
    cf = bc.backtrack_samples(scm, {"row": [1.0, 2.0], "draw": [3.0, 4.0]}, {"row": 5.0}, samples=2, seed=0)
    table = cf.to_frame(tidy=True)
    assert list(table) == ["answer row", "answer draw", "row", "draw"]
    assert table["answer row"].tolist() == [0, 1, 0, 1]
    assert table["answer draw"].tolist() == [0, 0, 1, 1]
    assert table["row"].tolist() == pytest.approx([5.0] * 4)
