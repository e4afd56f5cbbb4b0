"""A question to every row of a table: all rows, each once, whatever happens on the way."""

import re

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from simulated_tables import draw_mixed

import deepbc as bc
from deepbc.batches import run
from deepbc.batches.request import Request
from deepbc.batches.run import run_batch
from deepbc.data.tables import write_table

# age -> income; age, income -> amount
GRAPH = bc.CausalGraph.parse("age -> income; age, income -> amount")
WISHES = Request(("amount=9",))


def loans(rows: int, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    age = draw.normal(40, 10, rows)
    income = 0.5 * age + draw.normal(0, 3, rows)
    return pd.DataFrame({"age": age, "income": income, "amount": np.exp(0.1 * income + 0.3 * draw.normal(size=rows))})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    scm = bc.SCM(GRAPH, {name: bc.Linear() for name in GRAPH}, bounds={"amount": (0, None)})
    scm.fit(loans(300), seed=0)
    folder = tmp_path_factory.mktemp("batch") / "model"
    scm.save(folder)
    return folder


@pytest.mark.parametrize(("data", "out"), [("t.csv", "a.parquet"), ("t.parquet", "a.csv")])
@pytest.mark.parametrize("rows", [1000, 70])
def test_answers_are_those_of_one_question(model, tmp_path, data, out, rows):
    table = loans(150, seed=1)
    table.to_csv(tmp_path / data, index=False) if data.endswith("csv") else table.to_parquet(tmp_path / data)
    made = run_batch(model, tmp_path / data, WISHES, tmp_path / out, rows=rows)
    assert (made.rows, made.converged, made.bad) == (150, 150, 0)
    came = pd.read_csv(tmp_path / out) if out.endswith("csv") else pd.read_parquet(tmp_path / out)
    assert came["row"].tolist() == list(range(150))
    cf = bc.backtrack(bc.SCM.load(model), table, {"amount": 9.0})
    for name in GRAPH:
        assert np.allclose(came[name], cf.values[name], rtol=1e-9)
        assert np.allclose(came[f"moved {name}"], cf.moved[name], rtol=1e-6, atol=1e-12)
    assert {path.name for path in tmp_path.iterdir()} == {data, out}


def test_mixed_tables_are_asked_in_batches(tmp_path):
    """Classes and whole numbers upstream: the same answers as one question, in parts of any size."""
    scm, frame, target = draw_mixed(3)
    scm.save(tmp_path / "model")
    frame.head(90).to_csv(tmp_path / "rows.csv", index=False)
    made = run_batch(tmp_path / "model", tmp_path / "rows.csv", Request((f"{target}=1",)), tmp_path / "a.csv", rows=40)
    assert (made.rows, made.bad) == (90, 0)
    came, cf = pd.read_csv(tmp_path / "a.csv"), bc.backtrack(scm, frame.head(90), {target: 1.0})
    assert np.allclose(came["distance"], cf.distance, rtol=1e-6, atol=1e-9)
    assert np.allclose(came["certainty"], cf.certainty)
    assert (came["status"] == cf.status).all()


def test_bad_rows_are_marked_and_the_others_answered(model, tmp_path, monkeypatch):
    table = loans(40, seed=1).astype(object)
    table.loc[3, "age"], table.loc[5, "income"], table.loc[7, "amount"], table.loc[9, "age"] = "old", None, -1.0, np.inf
    table.to_csv(tmp_path / "t.csv", index=False)
    real = run.ask

    def ask(scm, rows, wishes):
        # As a law would be that has no noise for one value.
        if 21 in rows.index:
            raise bc.DataError("no noise gives that value")
        return real(scm, rows, wishes)

    monkeypatch.setattr(run, "ask", ask)
    made = run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", rows=16)
    assert (made.rows, made.converged, made.bad) == (40, 35, 5)
    came = pd.read_csv(tmp_path / "a.csv").set_index("row")
    assert came.index[came["status"] == "bad row"].tolist() == [3, 5, 7, 9, 21]
    assert came.loc[21, "reason"] == "no noise gives that value"
    assert "bounds" in came.loc[7, "reason"]
    assert came.loc[3, ["age", "distance"]].isna().all()


@pytest.mark.parametrize("row", [0, 4])
def test_a_word_alone_in_its_part_is_one_bad_row(model, tmp_path, row):
    table = loans(5, seed=1).astype(object)
    table.loc[row, "income"] = "n/a"
    table.to_csv(tmp_path / "t.csv", index=False)
    made = run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", rows=2)
    assert (made.rows, made.converged, made.bad) == (5, 4, 1)
    assert pd.read_csv(tmp_path / "a.csv")["status"].tolist().index("bad row") == row


@pytest.mark.parametrize("rows", [1, 2, 50])
def test_words_for_truth_are_labels_where_the_model_says_so(tmp_path, rows):
    """The first rows hold true and false alone, among three levels that the model knows."""
    draw = np.random.default_rng(0)
    answer = np.array(["true", "false", "unknown"])[draw.integers(3, size=200)]
    table = pd.DataFrame({"answer": answer, "y": draw.normal(size=200) + (answer == "true")})
    scm = bc.SCM(bc.CausalGraph.parse("answer -> y"), {"y": bc.Linear()})
    scm.fit(table, seed=0, progress=False)
    scm.save(tmp_path / "model")
    known = table[table["answer"] != "unknown"].head(20)
    known.to_csv(tmp_path / "t.csv", index=False)
    made = run_batch(tmp_path / "model", tmp_path / "t.csv", Request(("y=1",)), tmp_path / "a.csv", rows=rows)
    assert (made.converged, made.bad) == (20, 0)
    assert pd.read_csv(tmp_path / "a.csv", dtype=str)["factual answer"].tolist() == known["answer"].tolist()


def test_two_runs_do_not_write_one_table(model, tmp_path, monkeypatch):
    loans(20, seed=1).to_csv(tmp_path / "t.csv", index=False)
    real = run.ask

    def ask(scm, rows, wishes):
        if len(rows):
            monkeypatch.setattr(run, "ask", real)
            with pytest.raises(bc.StorageError, match="another run is writing it"):
                run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", rows=10)
        return real(scm, rows, wishes)

    monkeypatch.setattr(run, "ask", ask)
    made = run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", rows=10)
    assert made.converged == 20
    assert {path.name for path in tmp_path.iterdir()} == {"t.csv", "a.csv"}


def test_vectors_have_a_column_for_each_component(tmp_path):
    draw = np.random.default_rng(0)
    v = draw.normal(size=(200, 2))
    scm = bc.SCM(bc.CausalGraph.parse("v -> y"), {"v": bc.Linear(), "y": bc.Linear()})
    scm.fit({"v": v, "y": v.sum(1) + 0.1 * draw.normal(size=200)}, seed=0)
    scm.save(tmp_path / "model")
    world = scm.sample(30, seed=1)
    world.to_frame().to_csv(tmp_path / "t.csv", index=False)
    made = run_batch(tmp_path / "model", tmp_path / "t.csv", Request(("y=1",)), tmp_path / "a.csv", rows=7)
    assert made.converged == 30
    cf = bc.backtrack(scm, world.values, {"y": 1.0})
    assert np.allclose(pd.read_csv(tmp_path / "a.csv")[["v[0]", "v[1]"]], cf.values["v"], atol=1e-6)


def test_a_row_that_fails_says_why(model, tmp_path):
    loans(10).to_csv(tmp_path / "t.csv", index=False)
    made = run_batch(model, tmp_path / "t.csv", Request(("amount=-9",)), tmp_path / "a.csv")
    assert (made.rows, made.converged, made.bad) == (10, 0, 0)
    came = pd.read_csv(tmp_path / "a.csv")
    assert (came["status"] == "infeasible").all()
    assert came["reason"].str.contains("bounds").all()


def test_a_killed_run_goes_on_where_it_was(model, tmp_path, monkeypatch):
    loans(100).to_csv(tmp_path / "t.csv", index=False)
    real, asked = run.ask, []

    def ask(scm, rows, wishes):
        asked.extend(rows.index)
        if 75 in rows.index and asked.count(75) == 1:
            raise KeyboardInterrupt
        return real(scm, rows, wishes)

    monkeypatch.setattr(run, "ask", ask)
    with pytest.raises(KeyboardInterrupt):
        run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", rows=20, workers=1)
    assert not (tmp_path / "a.csv").exists()
    # A part without its tally was not written to its end.
    (tmp_path / "a.csv.parts" / "000003.csv").write_text("half a li")

    made = run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", rows=20, workers=1)
    assert made.rows == 100
    assert sorted(asked) == sorted([*range(100), *range(60, 80)])
    assert pd.read_csv(tmp_path / "a.csv")["row"].tolist() == list(range(100))
    assert {path.name for path in tmp_path.iterdir()} == {"t.csv", "a.csv"}


def test_a_part_that_is_damaged_is_asked_again(model, tmp_path, monkeypatch):
    loans(60).to_csv(tmp_path / "t.csv", index=False)
    with monkeypatch.context() as patch:
        patch.setattr(run, "join_tables", lambda parts, path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", rows=20)
    (tmp_path / "a.csv.parts" / "000000.json").write_text("")
    (tmp_path / "a.csv.parts" / "000001.csv").unlink()
    assert run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", rows=20).rows == 60
    assert pd.read_csv(tmp_path / "a.csv")["row"].tolist() == list(range(60))


def test_a_table_that_changes_meanwhile_is_no_answer(model, tmp_path, monkeypatch):
    loans(60).to_csv(tmp_path / "t.csv", index=False)
    real = run.ask

    def ask(scm, rows, wishes):
        if 45 in rows.index:
            loans(80).to_csv(tmp_path / "t.csv", index=False)
        return real(scm, rows, wishes)

    monkeypatch.setattr(run, "ask", ask)
    with pytest.raises(bc.DataError, match="changed while it was asked"):
        run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", rows=20, workers=1)
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize("name", ["row", "reason", "status", "distance", "index"])
def test_variables_may_have_the_names_of_our_columns(tmp_path, name):
    table = loans(200)[["age", "income"]].rename(columns={"age": name})
    scm = bc.SCM(bc.CausalGraph({name: [], "income": [name]}), {name: bc.Linear(), "income": bc.Linear()})
    scm.fit(table, seed=0)
    scm.save(tmp_path / "model")
    table.to_csv(tmp_path / "t.csv", index=False)
    made = run_batch(tmp_path / "model", tmp_path / "t.csv", Request(("income=20",)), tmp_path / "a.csv")
    assert (made.rows, made.converged) == (200, 200)
    cf = bc.backtrack(scm, table, {"income": 20.0})
    assert np.allclose(pd.read_csv(tmp_path / "a.csv")[name], cf.values[name])


def test_what_cannot_be_is_said_before_any_work(model, tmp_path, monkeypatch):
    loans(30).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "none.csv").write_text("age,income,amount\n")
    loans(30).drop(columns="age").to_csv(tmp_path / "less.csv", index=False)
    out = tmp_path / "a.csv"
    cases = [
        (("none.csv", WISHES, out), {}, bc.DataError, "no rows"),
        (("less.csv", WISHES, out), {}, bc.UnknownNameError, "age"),
        (("t.csv", Request(("amout=9",)), out), {}, bc.UnknownNameError, "amount"),
        (("t.csv", Request(("amount=9",), samples=5), out), {}, bc.SettingError, "samples"),
        (("t.csv", WISHES, tmp_path / "a.txt"), {}, bc.DataError, r"\.csv or \.parquet"),
        (("t.csv", WISHES, tmp_path / "t.csv"), {}, bc.StorageError, "is the table that is asked"),
        (("t.csv", WISHES, out), {"rows": 0}, bc.SettingError, "rows"),
    ]
    for (data, wishes, place), settings, error, part in cases:
        with pytest.raises(error, match=part):
            run_batch(model, tmp_path / data, wishes, place, **settings)
    assert not list(tmp_path.glob("a.*"))

    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(bc.StorageError, match="is a folder"):
        run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "folder.csv")
    (tmp_path / "a.csv.parts").mkdir()
    (tmp_path / "a.csv.parts" / "thesis.tex").write_text("x")
    with pytest.raises(bc.StorageError, match="something else"):
        run_batch(model, tmp_path / "t.csv", WISHES, out)

    other = tmp_path / "b.csv"
    monkeypatch.setattr(run, "join_tables", lambda parts, path: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run_batch(model, tmp_path / "t.csv", WISHES, other)
    with pytest.raises(bc.StorageError, match="another batch"):
        run_batch(model, tmp_path / "t.csv", Request(("amount=8",)), other)


TEXTS = ["a,b", 'say "x"', "two\nlines", "007", "NA", "", "ä;", " x ", "1e5", "r\rn", "crlf\r\nend", str(10**30)]


def with_ids(rows: int = 24) -> pd.DataFrame:
    table = loans(rows, seed=1)
    return table.assign(person=(TEXTS * rows)[:rows], number=[2**62 + k for k in range(rows)])


@pytest.mark.parametrize(("data", "out"), [("t.csv", "a.csv"), ("t.csv", "a.parquet"), ("t.parquet", "a.csv")])
@pytest.mark.parametrize("workers", [1, 2])
def test_ids_are_copied_as_they_are(model, tmp_path, data, out, workers):
    table = with_ids().astype({"age": object})
    table.loc[[3, 17], "age"] = None
    write_table(table, tmp_path / data)
    made = run_batch(
        model, tmp_path / data, WISHES, tmp_path / out, ids=["person", "number"], rows=7, workers=workers, show=False
    )
    assert (made.rows, made.converged, made.bad) == (24, 22, 2)
    plain = {"dtype": str, "keep_default_na": False, "lineterminator": "\n"}
    came = pd.read_csv(tmp_path / out, **plain) if out.endswith("csv") else pd.read_parquet(tmp_path / out)
    assert list(came)[:4] == ["person", "number", "row", "age"]
    assert came["person"].fillna("").tolist() == table["person"].tolist()
    assert [int(each) for each in came["number"]] == table["number"].tolist()
    assert [int(each) for each in came["row"]] == list(range(24))


def test_ids_of_any_type_stay_in_parquet(model, tmp_path):
    rows = 12
    table = loans(rows, seed=1).assign(
        day=pd.date_range("2020-01-31", periods=rows, tz="UTC"),
        count=pd.array([None, *[2**60 + k for k in range(rows - 1)]], dtype="Int64"),
        kind=pd.Categorical(["x"] * 4 + ["y"] * 4 + ["z"] * 4),
        truth=pd.array([True, None] * 6, dtype="boolean"),
        raw=[b"\x00%d" % k for k in range(rows)],
        nothing=[None] * 6 + ["late"] * 6,
    )
    ids = ["day", "count", "kind", "truth", "raw", "nothing"]
    write_table(table, tmp_path / "t.parquet")
    run_batch(model, tmp_path / "t.parquet", WISHES, tmp_path / "a.parquet", ids=ids, rows=4)
    before, after = (pyarrow.parquet.read_table(tmp_path / f"{name}.parquet").select(ids) for name in "ta")
    assert after.drop(["kind"]).to_pydict() == before.drop(["kind"]).to_pydict()
    assert after["kind"].to_pylist() == before["kind"].to_pylist()
    assert after.schema.field("day").type == before.schema.field("day").type


@pytest.mark.parametrize(
    ("ids", "error", "part"),
    [
        (["persn"], bc.UnknownNameError, "unknown name 'persn'. Did you mean 'person'"),
        (["age"], bc.SettingError, "--id 'age': the answers have a column of that name"),
        (["row"], bc.SettingError, "--id 'row': the answers have a column of that name"),
        (["moved age"], bc.SettingError, "--id 'moved age': the answers have"),
        (["person", "person"], bc.SettingError, "named twice"),
    ],
)
def test_ids_that_cannot_be_are_said(model, tmp_path, ids, error, part):
    write_table(with_ids().assign(row=1, **{"moved age": 2}), tmp_path / "t.csv")
    with pytest.raises(error, match=re.escape(part)):
        run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", ids=ids)
    assert not list(tmp_path.glob("a.*"))


def test_a_variable_called_row_leaves_its_name_taken(tmp_path):
    table = loans(60)[["age", "income"]].rename(columns={"age": "row"}).assign(person="x")
    scm = bc.SCM(bc.CausalGraph({"row": [], "income": ["row"]}), {"row": bc.Linear(), "income": bc.Linear()})
    scm.fit(table, seed=0)
    scm.save(tmp_path / "model")
    write_table(table, tmp_path / "t.csv")
    run_batch(tmp_path / "model", tmp_path / "t.csv", Request(("income=20",)), tmp_path / "a.csv", ids="person")
    came = pd.read_csv(tmp_path / "a.csv")
    assert list(came)[:3] == ["person", "answer row", "row"]
    assert came["answer row"].tolist() == list(range(60))


def test_a_run_that_goes_on_has_the_same_ids(model, tmp_path, monkeypatch):
    write_table(with_ids(), tmp_path / "t.csv")
    with monkeypatch.context() as patch:
        patch.setattr(run, "join_tables", lambda parts, path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", ids=["number"], rows=7)
    with pytest.raises(bc.StorageError, match="--id"):
        run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", rows=7)
    run_batch(model, tmp_path / "t.csv", WISHES, tmp_path / "a.csv", ids=["number"], rows=7)
    assert pd.read_csv(tmp_path / "a.csv")["number"].tolist() == with_ids()["number"].tolist()


def test_rows_have_the_numbers_of_the_file_whatever_its_index(model, tmp_path):
    table = loans(10, seed=1).set_axis(range(50, 60))
    table.loc[53, "age"] = np.nan
    table.to_parquet(tmp_path / "t.parquet")
    run_batch(model, tmp_path / "t.parquet", WISHES, tmp_path / "a.csv", rows=4)
    came = pd.read_csv(tmp_path / "a.csv")
    assert came["row"].tolist() == list(range(10))
    assert came["status"].tolist().index("bad row") == 3
