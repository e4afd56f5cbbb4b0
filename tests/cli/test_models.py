"""The commands for a table, through the installed program."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from program import complaints

import deepbc as bc


@pytest.fixture(scope="module")
def folder(tmp_path_factory, command):
    """A table of age -> income; age, income -> amount, and a model of it."""
    folder = tmp_path_factory.mktemp("tables")
    draw = np.random.default_rng(0)
    age = draw.normal(40, 10, 400)
    income = 0.5 * age + draw.normal(0, 3, 400)
    amount = np.exp(0.1 * income + 0.3 * draw.normal(size=400))
    table = pd.DataFrame({"age": age, "income": income, "amount": amount, "name": [f"n{k}" for k in range(400)]})
    table.to_csv(folder / "data.csv", index=False)
    table.to_parquet(folder / "data.parquet")
    graph = "age -> income; age, income -> amount"
    done = command("fit", folder / "data.csv", "--graph", graph, "--bounds", "amount=0,", "--out", folder / "model")
    assert done.returncode == 0, done.stderr
    assert complaints(done.stderr) == []
    assert "held-out nll" in done.stdout
    assert f"model: {folder / 'model'}" in done.stdout
    assert "Columns: 400 rows" in done.stdout
    assert "warning" not in done.stdout
    return folder


def table_of(folder) -> pd.DataFrame:
    return pd.read_csv(folder / "data.csv")[["age", "income", "amount"]]


def test_fit_is_that_of_the_library(folder):
    saved = bc.SCM.load(folder / "model")
    graph = bc.CausalGraph.parse("age -> income; age, income -> amount")
    scm = bc.SCM(graph, bounds={"amount": (0, None)})
    report = scm.fit(table_of(folder), seed=0)
    data = table_of(folder)
    assert np.allclose(saved.log_prob(data), scm.log_prob(data))
    assert [each.nll for each in saved.report] == pytest.approx([each.nll for each in report])
    for stage, curve in report["amount"].curves.items():
        assert saved.report["amount"].curves[stage].held_out == pytest.approx(curve.held_out)


def test_fit_takes_a_file_that_describes_the_model(folder, tmp_path, command):
    lines = ['graph: "age -> income"', "mechanisms:", "  age: {kind: Linear}", "  income: {kind: Linear}"]
    (tmp_path / "model.yaml").write_text("\n".join(lines))
    done = command("fit", folder / "data.csv", "--spec", tmp_path / "model.yaml", "--out", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert "Linear" in repr(bc.SCM.load(tmp_path / "model"))


def test_show_tells_graph_laws_and_report(folder, command):
    said = command("show", folder / "model").stdout
    for part in ("age, income -> amount", "(no cause) -> age", "GaussianProcess", "0 to", "held-out nll"):
        assert part in said
    told = json.loads(command("show", folder / "model", "--json").stdout)
    assert told["graph"] == {"age": [], "income": ["age"], "amount": ["age", "income"]}
    assert told["variables"]["amount"]["bounds"] == [0.0, None]
    assert [each["variable"] for each in told["report"]] == ["age", "income", "amount"]


@pytest.mark.parametrize("data", ["data.csv", "data.parquet"])
def test_answers_are_those_of_the_library(folder, data, command):
    words = ["ask", folder / "model", folder / data, "--row", 3, "--row", 7, "--if", "amount=9", "--weight", "age=2"]
    done = command(*words, "--json")
    assert done.returncode == 0, done.stderr
    came = pd.DataFrame(json.loads(done.stdout))
    assert came["row"].tolist() == [3, 7]
    assert came["reason"].tolist() == ["", ""]
    scm = bc.SCM.load(folder / "model")
    cf = bc.backtrack(scm, table_of(folder).iloc[[3, 7]], {"amount": 9.0}, distance=bc.Squared({"age": 2.0}))
    assert np.allclose(came["income"], cf.values["income"], rtol=1e-9)
    assert np.allclose(came["moved age"], cf.moved["age"], rtol=1e-6)

    said = command(*words).stdout
    for place in range(2):
        assert cf.describe(place) in said
        assert came["sentence"][place] == cf.describe(place)
        assert came["sentence"][place].startswith("Had amount been 9 instead of ")
    assert "Row 3: converged" in said
    assert "Row 7: converged" in said
    assert "amount *" in said


def test_options_change_the_question(folder, command):
    ask = ["ask", folder / "model", folder / "data.csv", "--row", "3", "--json"]
    before = table_of(folder).iloc[3]
    forced, alone, sparse = (
        json.loads(command(*ask, *words).stdout)[0]
        for words in (
            ["--if", "amount=30", "--intervene"],
            ["--if", "amount>=30", "--scope", "age,amount"],
            ["--if", "amount>=30", "--if", "amount<=40", "--keep", "1"],
        )
    )
    assert forced["age"] == before["age"]
    assert forced["income"] == before["income"]
    assert alone["moved income"] == 0
    assert sum(sparse[f"moved {name}"] > 0 for name in before.index) == 1
    assert min(each["amount"] for each in (forced, alone, sparse)) >= 30

    fixed = json.loads(command(*ask, "--if", "amount=9", "--fix", "age", "--constraint", "income=20,40").stdout)[0]
    assert fixed["age"] == before["age"]
    assert min(20, before["income"]) <= fixed["income"] <= max(40, before["income"])
    assert "no meaning with --intervene" in command(*ask, "--if", "amount=9", "--intervene", "--fix", "age").stderr

    drawn = pd.DataFrame(json.loads(command(*ask, "--if", "amount>=30", "--samples", "50", "--seed", "1").stdout))
    assert len(drawn) == 50
    assert (drawn["amount"] >= 30).all()
    assert drawn["sentence"].unique().size == 1
    assert "then over 50 worlds drawn" in drawn["sentence"][0]
    said = command(*ask[:-1], "--if", "amount>=30", "--samples", "50").stdout
    assert "then over 50 worlds drawn" in said
    assert "50 samples" in said
    assert "95 %" in said


def test_samples_are_rows_like_those_of_the_model(folder, tmp_path, command):
    scm = bc.SCM.load(folder / "model")
    printed = pd.read_csv(io.StringIO(command("sample", folder / "model", "-n", 20, "--seed", 5).stdout))
    assert np.allclose(printed, scm.sample(20, seed=5).to_frame())
    done = command("sample", folder / "model", "-n", 20, "--seed", 5, "--out", tmp_path / "rows.parquet")
    assert "20 rows" in done.stdout
    assert np.allclose(pd.read_parquet(tmp_path / "rows.parquet"), printed)


def test_vectors_are_told_by_component(tmp_path, command):
    draw = np.random.default_rng(0)
    v = draw.normal(size=(200, 2))
    scm = bc.SCM(bc.CausalGraph.parse("v -> y"), {"v": bc.Linear(), "y": bc.Linear()})
    scm.fit({"v": v, "y": v.sum(1) + 0.1 * draw.normal(size=200)}, seed=0)
    scm.save(tmp_path / "model")
    scm.sample(5, seed=1).to_frame().to_csv(tmp_path / "t.csv", index=False)
    ask = ["ask", tmp_path / "model", tmp_path / "t.csv", "--row", 2, "--if", "y=1"]
    for words in (ask, [*ask, "--samples", 20]):
        done = command(*words)
        assert done.returncode == 0, done.stderr
        for label in ("v[0]", "v[1]", "y *"):
            assert label in done.stdout


def test_odd_columns_are_warned_of_once_and_kept(tmp_path, command):
    draw = np.random.default_rng(0)
    a = draw.normal(20, 5, 300).round(2)
    visits = draw.poisson(2, 300)
    table = pd.DataFrame({"a": a, "f": (1.8 * a + 32).round(2), "day": range(300), "visits": visits})
    table.to_csv(tmp_path / "t.csv", index=False)
    done = command("fit", tmp_path / "t.csv", "--graph", "a; f; day; visits", "--out", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert complaints(done.stderr) == []
    assert done.stdout.count("warning: ") == 2
    assert "warning: Variable 'f': it says the same as 'a' (1.8 times it plus 32)" in done.stdout
    assert "warning: Variable 'day': its values are all different" in done.stdout
    assert done.stdout.index("warning: ") < done.stdout.index("held-out")
    shown = command("show", tmp_path / "model")
    assert shown.stdout.count("warning: ") == 2
    told = {
        each["variable"]: each for each in json.loads(command("show", tmp_path / "model", "--json").stdout)["report"]
    }
    assert told["visits"]["origin"] == "inferred"
    assert told["visits"]["values"].startswith("0 to ")
    assert told["visits"]["warnings"] == ""
    assert told["f"]["warnings"].startswith("Variable 'f': ")

    ask = command("ask", tmp_path / "model", tmp_path / "t.csv", "--row", 0, "--if", "visits=3")
    assert f"Had visits been 3 instead of {visits[0]}" in ask.stdout
    assert not [cell for cell in ask.stdout.split() if cell in ("-0", "3.0", f"{visits[0]}.0")]


def test_a_batch_asks_every_row(folder, tmp_path, command):
    words = ["batch", folder / "model", folder / "data.csv", "--if", "amount=9", "--weight", "age=2", "--chunk", "150"]
    done = command(*words, "--out", tmp_path / "answers.csv")
    assert done.returncode == 0, done.stderr
    assert "400 rows in" in done.stdout
    assert "400 converged, 0 failed, 0 bad" in done.stdout
    came = pd.read_csv(tmp_path / "answers.csv")
    scm = bc.SCM.load(folder / "model")
    cf = bc.backtrack(scm, table_of(folder), {"amount": 9.0}, distance=bc.Squared({"age": 2.0}))
    assert came["row"].tolist() == list(range(400))
    # In chunks the steps of a row are other ones; they end within the tolerance of the solver.
    assert np.allclose(came["distance"], cf.distance, rtol=1e-6, atol=1e-6)
    assert np.allclose(came["income"], cf.values["income"], rtol=0, atol=1e-3)


def test_an_answer_that_does_not_hold_exits_with_1(folder, command):
    done = command("ask", folder / "model", folder / "data.csv", "--row", 0, "--if", "amount=-3")
    assert done.returncode == 1
    assert "infeasible" in done.stdout
    assert "bounds" in done.stdout


def test_rows_with_gaps_are_counted_or_dropped(folder, tmp_path, command):
    table = table_of(folder)
    table.loc[:9, "income"] = np.nan
    table.to_csv(tmp_path / "gaps.csv", index=False)
    fit = ["fit", tmp_path / "gaps.csv", "--graph", "age -> income", "--out", tmp_path / "model"]
    done = command(*fit)
    assert done.returncode == 2
    assert "10 of 400 rows have gaps or words, most in 'income' (10)" in done.stderr
    done = command(*fit, "--drop-missing", "--json")
    assert done.returncode == 0, done.stderr
    assert sum(each["rows"] for each in json.loads(done.stdout)) == 2 * 78


def test_a_row_is_that_of_the_file_whatever_others_hold(folder, tmp_path, command):
    table = table_of(folder)[:10].astype(object)
    table.loc[2, "income"], table.loc[5, "age"] = None, "old"
    table.to_csv(tmp_path / "gaps.csv", index=False)
    ask = ["ask", folder / "model", tmp_path / "gaps.csv", "--if", "amount=9", "--json"]
    came = json.loads(command(*ask, "--row", 3).stdout)
    assert came[0]["factual income"] == pytest.approx(table.loc[3, "income"])
    done = command(*ask, "--row", 5)
    assert done.returncode == 2
    assert "the first is row 5" in done.stderr


def test_errors_after_dropped_rows_name_rows_of_the_file(folder, tmp_path, command):
    table = table_of(folder)
    table.loc[:9, "income"], table.loc[20, "amount"] = np.nan, -1.0
    table.set_axis(range(1000, 1400)).to_parquet(tmp_path / "gaps.parquet")
    graph = ["--graph", "age, income -> amount", "--bounds", "amount=0,"]
    done = command("fit", tmp_path / "gaps.parquet", *graph, "--drop-missing", "--out", tmp_path / "model")
    assert done.returncode == 2
    assert "got [-1.0] in row 20." in done.stderr
    done = command("check", folder / "model", tmp_path / "gaps.parquet", "--drop-missing")
    assert done.returncode == 2
    assert "in row 20." in done.stderr
    ask = ["ask", folder / "model", tmp_path / "gaps.parquet", "--if", "amount=9"]
    assert "in row 20." in command(*ask, "--row", 12, "--row", 20).stderr
    assert "the first is row 4." in command(*ask, "--row", 12, "--row", 4).stderr


def test_dates_are_refused_with_a_remedy(folder, tmp_path, command):
    days = pd.date_range("2020-01-31", periods=400)
    for name, column in {"day.csv": days.strftime("%Y-%m-%d"), "day.parquet": days}.items():
        table = table_of(folder).assign(day=column)
        table.to_csv(tmp_path / name, index=False) if name == "day.csv" else table.to_parquet(tmp_path / name)
        done = command("fit", tmp_path / name, "--graph", "day -> amount", "--out", tmp_path / "model")
        assert done.returncode == 2
        assert "got dates such as 2020-01-31" in done.stderr
        assert "the days since a day" in " ".join(done.stderr.split())


def test_a_batch_copies_ids(folder, tmp_path, command):
    words = ["batch", folder / "model", folder / "data.csv", "--if", "amount=9", "--out", tmp_path / "a.csv"]
    done = command(*words, "--id", "nam")
    assert done.returncode == 2
    assert "Did you mean 'name'?" in done.stderr
    assert command(*words, "--id", "name").returncode == 0
    came = pd.read_csv(tmp_path / "a.csv")
    assert list(came)[:2] == ["name", "row"]
    assert came["name"].tolist() == [f"n{k}" for k in range(400)]


def test_another_sign_between_cells_is_told(folder, tmp_path, command):
    (tmp_path / "semi.csv").write_text("age;income\n1;2\n")
    done = command("fit", tmp_path / "semi.csv", "--graph", "age -> income", "--out", tmp_path / "new")
    assert done.returncode == 2
    assert "expected commas between cells, got ';'" in done.stderr


def test_a_batch_of_bad_rows_alone_exits_with_1(folder, tmp_path, command):
    (tmp_path / "bad.csv").write_text("age,income,amount\nold,2,3\n4,,6\n")
    done = command("batch", folder / "model", tmp_path / "bad.csv", "--if", "amount=9", "--out", tmp_path / "a.csv")
    assert done.returncode == 1
    assert "2 bad" in done.stdout


ASK = ["ask", "{model}", "{data}", "--row", "3"]
FIT = ["fit", "{data}", "--graph", "age -> income", "--out", "{new}"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([*ASK, "--if", "amuont=9"], "Did you mean 'amount'?"),
        ([*ASK, "--if", "amount"], "'age=30'"),
        ([*ASK, "--if", "amount=much"], "expected a number, got 'much'"),
        ([*ASK, "--if", "amount=9", "--if", "amount=8"], "'amount' comes twice"),
        ([*ASK, "--if", "3>=amount<=4"], "condition"),
        ([*ASK, "--if", "amount>9"], "For > and < write >= and <="),
        ([*ASK, "--if", "amount!=9"], "!= is for labels"),
        ([*ASK, "--if", "amount=9", "--scope", "aeg"], "Did you mean 'age'?"),
        ([*ASK, "--if", "amount=9", "--weight", "age"], "weight 'age'"),
        ([*ASK, "--if", "amount=9", "--weight", "age=-1"], "age"),
        ([*ASK, "--if", "amount=9", "--intervene", "--samples", "5"], "--samples: has no meaning with --intervene"),
        ([*ASK, "--if", "amount=9", "--keep", "1", "--samples", "5"], "--keep: has no meaning with --samples"),
        (["ask", "{model}", "{data}", "--row", "400", "--if", "amount=9"], "row 400: expected 0 to 399"),
        (["ask", "{model}", "{data}", "--row", "-1", "--if", "amount=9"], "row -1"),
        (["ask", "{data}", "{data}", "--row", "1", "--if", "amount=9"], "is a file, not a folder"),
        (
            ["ask", "{model}", "nowhere.csv", "--row", "1", "--if", "amount=9"],
            "nowhere.csv: cannot be read: no such file",
        ),
        (["ask", "{model}", "data.xls", "--row", "1", "--if", "amount=9"], ".csv or .parquet"),
        (["ask", "{model}", "{data}", "--if", "amount=9"], "--row"),
        ([*FIT[:3], "age -> wealth", *FIT[4:]], "unknown name 'wealth'"),
        ([*FIT[:3], "age -> income -> age", *FIT[4:]], "cycle"),
        ([*FIT[:3], "age -> name", *FIT[4:]], "expected at most 100 levels, got 400, such as 'n0'"),
        ([*FIT[:3], "age -> name", *FIT[4:], "--type", "name=real"], "expected numbers, got the text 'n0'"),
        ([*FIT, "--type", "income"], "type 'income'"),
        ([*FIT, "--type", "income=number"], "'category' or 'censored', or a list of ordered levels"),
        ([*FIT, "--type", "income=integer"], "expected whole numbers"),
        ([*FIT, "--type", "wealth=real"], "unknown name 'wealth'"),
        ([*FIT, "--bounds", "income=3"], "bounds of 'income'"),
        ([*FIT, "--spec", "model.yaml"], "expected --graph"),
        (["fit", "{data}", "--out", "{new}"], "expected --graph"),
        (["fit", "{data}", "--spec", "nowhere.yaml", "--out", "{new}"], "nowhere.yaml"),
        ([*FIT, "--bounds", "income=50,60"], "income"),
        ([*FIT[:5], "{data}"], "got something else"),
        (["show", "{new}"], "no such folder"),
        (["batch", "{model}", "{data}", "--if", "amuont=9", "--out", "{new}.csv"], "Did you mean 'amount'?"),
        (["batch", "{model}", "{data}", "--if", "amount=9", "--out", "{new}.xls"], ".csv or .parquet"),
        (["batch", "{model}", "{data}", "--if", "amount=9", "--out", "{data}/a.csv"], "cannot be a folder"),
        (["batch", "{model}", "{data}", "--if", "amount=9"], "--out"),
        (["sample", "{model}", "-n", "0"], "--count"),
        (["sample", "{model}", "--out", "{new}/a/b.csv"], "cannot be written"),
    ],
)
def test_what_cannot_be_is_one_line_and_exits_with_2(folder, tmp_path, words, part, command):
    places = {"{model}": folder / "model", "{data}": folder / "data.csv", "{new}": tmp_path / "new"}
    for mark, path in places.items():
        words = [word.replace(mark, str(path)) for word in words]
    done = command(*words)
    assert done.returncode == 2, done.stdout
    assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "new").exists()
