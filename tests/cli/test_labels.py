"""The commands for a table with labels, truth values and whole numbers, through the installed program."""

import json

import numpy as np
import pandas as pd
import pytest

import deepbc as bc

SPEC = """
graph: "age -> job, visits; age, job -> grade, member; job, visits -> income"
types:
  grade: [low, mid, high]
bounds:
  visits: [0, null]
mechanisms:
  age: {kind: Linear}
  job: {kind: Categorical, points: 0, hidden: []}
  visits: {kind: Integer, law: {kind: Linear}}
  grade: {kind: Categorical, points: 0, hidden: []}
  member: {kind: Categorical, points: 0, hidden: []}
  income: {kind: Linear}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, command):
    """A table of words, truth values and whole numbers, as CSV and Parquet, and a model of it."""
    folder = tmp_path_factory.mktemp("labels")
    draw = np.random.default_rng(0)
    age = draw.normal(size=600)
    job = np.where(draw.normal(size=600) + age > 0.8, "clerk", np.where(draw.uniform(size=600) < 0.5, "cook", "smith"))
    table = pd.DataFrame(
        {
            "age": age,
            "job": job,
            "visits": np.maximum(0, np.round(2 + age + draw.normal(size=600))).astype(int),
            "grade": np.array(["low", "mid", "high"])[np.digitize(age + draw.normal(size=600), [-0.5, 1.0])],
            "member": (age + (job == "cook") + draw.normal(size=600)) > 0.5,
        }
    )
    table["income"] = 0.5 * table["visits"] + (job == "smith") + draw.normal(size=600)
    table.to_csv(folder / "data.csv", index=False)
    table.to_parquet(folder / "data.parquet")
    (folder / "model.yaml").write_text(SPEC)
    done = command("fit", folder / "data.csv", "--spec", folder / "model.yaml", "--out", folder / "model")
    assert done.returncode == 0, done.stderr
    return folder


def test_types_are_seen_declared_and_shown(folder, command):
    told = json.loads(command("show", folder / "model", "--json").stdout)["variables"]
    assert {name: each["type"] for name, each in told.items()} == {
        "age": "real",
        "job": "category",
        "visits": "integer",
        "grade": "ordered",
        "member": "category",
        "income": "real",
    }
    assert told["job"]["levels"] == ["clerk", "cook", "smith"]
    assert told["grade"]["levels"] == ["low", "mid", "high"]
    assert told["member"]["levels"] == [False, True]
    assert "clerk, cook, smith" in command("show", folder / "model").stdout


@pytest.mark.parametrize("data", ["data.csv", "data.parquet"])
def test_answers_about_labels_are_those_of_the_library(folder, data, command):
    scm, table = bc.SCM.load(folder / "model"), pd.read_parquet(folder / "data.parquet")
    asked = {"income": 2.0, "member": True, "grade": bc.at_least("mid")}
    cf = bc.backtrack(scm, table.iloc[[4]], asked)
    words = ["ask", folder / "model", folder / data, "--row", 4, "--if", "income=2"]
    words += ["--if", "member=true", "--if", "grade>=mid"]
    came = json.loads(command(*words, "--json").stdout)[0]
    frame = cf.to_frame().iloc[0]
    assert [came[name] for name in ("job", "grade", "member", "visits")] == frame[
        ["job", "grade", "member", "visits"]
    ].tolist()
    assert came["distance"] == pytest.approx(frame["distance"], rel=1e-6)
    said = command(*words).stdout
    assert "member *" in said
    assert "True" in said


def test_samples_tell_the_shares_of_labels(folder, command):
    done = command("ask", folder / "model", folder / "data.csv", "--row", 1, "--if", "job=cook", "--samples", 30)
    assert done.returncode == 0, done.stderr
    assert "cook 100%" in done.stdout
    assert done.stdout.count("%") > 3


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_batch_keeps_types_and_marks_bad_labels(folder, tmp_path, ending, command):
    table = pd.read_csv(folder / "data.csv").head(40).astype(object)
    table.loc[3, "job"], table.loc[7, "member"], table.loc[9, "visits"] = "priest", None, 2.5
    table.to_csv(tmp_path / "some.csv", index=False)
    out = tmp_path / f"answers{ending}"
    words = ["batch", folder / "model", tmp_path / "some.csv", "--if", "grade=high", "--out", out, "--chunk", 9]
    done = command(*words)
    assert done.returncode == 0, done.stderr
    assert "37 converged, 0 failed, 3 bad" in done.stdout
    came = pd.read_csv(out) if ending == ".csv" else pd.read_parquet(out)
    bad = came["status"] == "bad row"
    assert came["row"][bad].tolist() == [3, 7, 9]
    assert (came["grade"][~bad] == "high").all()
    assert came["job"][bad].isna().all()
    scm = bc.SCM.load(folder / "model")
    rows = pd.read_csv(folder / "data.csv").head(40)[~bad.to_numpy()]
    cf = bc.backtrack(scm, rows, {"grade": "high"})
    assert came["job"][~bad].tolist() == list(cf.values["job"])
    assert came["visits"][~bad].astype(int).tolist() == cf.values["visits"].tolist()
    assert np.allclose(came["distance"][~bad], cf.distance, atol=1e-6)


def test_fit_without_a_file_guesses_types(folder, tmp_path, command):
    words = ["fit", folder / "data.csv", "--graph", "member -> grade", "--type", "grade=low,mid,high"]
    done = command(*words, "--out", tmp_path / "model", "--json")
    assert done.returncode == 0, done.stderr
    assert [each["type"] for each in json.loads(done.stdout)] == ["category", "ordered"]
    drawn = command("sample", tmp_path / "model", "-n", 5).stdout.splitlines()
    assert drawn[0] == "member,grade"
    assert {word for line in drawn[1:] for word in line.split(",")} <= {"True", "False", "low", "mid", "high"}


def test_check_judges_labels(folder, command):
    done = command("check", folder / "model", folder / "data.csv", "--json")
    told = json.loads(done.stdout)
    assert [each["name"] for each in told["variables"]] == ["age", "job", "visits", "grade", "member", "income"]
    assert all(each["verdict"] == "accepted" for each in told["variables"] if each["name"] in ("grade", "income"))


def test_check_reads_labels_as_the_fit_did(tmp_path, command):
    """Words for a gap are labels where they were declared; truth words are labels beside a third."""
    draw = np.random.default_rng(0)
    word = np.array(["NA", "None", "true"])[draw.integers(3, size=300)]
    table = pd.DataFrame(
        {"word": word, "flag": draw.integers(2, size=300), "y": draw.normal(size=300) + (word == "NA")}
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "--graph", "word, flag -> y", "--type", "word=category"]
    assert command(*words, "--out", tmp_path / "model").returncode == 0
    done = command("check", tmp_path / "model", tmp_path / "t.csv", "--json")
    assert json.loads(done.stdout)["rows"] == 300, done.stderr
    said = command("ask", tmp_path / "model", tmp_path / "t.csv", "--row", 0, "--if", "flag=1").stdout
    assert "1.0" not in said


def test_numbers_that_no_class_can_give_say_so(folder, command):
    words = ["ask", folder / "model", folder / "data.csv", "--row", 3, "--if", "income=2.345", "--scope", "visits"]
    done = command(*words)
    assert done.returncode == 1
    assert "not all were tried" in done.stdout.replace("\n", " ")


ASK = ["ask", "{model}", "{data}", "--row", "3", "--if"]
FIT = ["fit", "{data}", "--spec", "{spec}", "--out", "{new}"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([*ASK, "job=clark"], "unknown level 'clark'. Did you mean 'clerk'?"),
        ([*ASK, "job>=cook"], "asks for an interval of a category, which has no order"),
        ([*ASK, "member=perhaps"], "unknown level 'perhaps'"),
        ([*ASK, "visits=2.5"], "expected whole numbers, got 2.5"),
        ([*ASK, "visits=many"], "expected a number, got 'many'"),
        ([*ASK, "grade>=mid", "--intervene"], "an intervention forces a value"),
        ([*FIT, "--type", "visits=real"], "--spec with all in its file"),
    ],
)
def test_what_cannot_be_asked_of_labels_exits_with_2(folder, tmp_path, words, part, command):
    places = {"{model}": "model", "{data}": "data.csv", "{spec}": "model.yaml"}
    for mark, name in places.items():
        words = [word.replace(mark, str(folder / name)) for word in words]
    done = command(*(word.replace("{new}", str(tmp_path / "new")) for word in words))
    assert done.returncode == 2
    assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("grade: [low, mid, high]", "grade: [low, high]"), "unknown level 'mid'"),
        (("grade: [low, mid, high]", "grade: tall"), "line 4: types.grade: type of 'grade': expected 'real'"),
        (("grade: [low, mid, high]", "grade: [low, low]"), "line 4: types.grade"),
        (("grade: [low, mid, high]", "grades: integer"), "line 4: types.grades: types: unknown name 'grades'"),
        (("law: {kind: Linear}", "law: {kind: Categorical}"), "line 10: mechanisms.visits: Integer law"),
        (("income: {kind: Linear}", "income: {kind: Integer}"), "Variable 'income': expected whole numbers"),
        (
            ("job: {kind: Categorical, points: 0, hidden: []}", "job: {kind: Linear}"),
            "its column holds labels, and Linear() is a law",
        ),
        (("visits: [0, null]", "job: [0, null]"), "a category has levels, not bounds"),
    ],
)
def test_spec_at_fault_is_told_with_its_line(folder, tmp_path, change, part, command):
    (tmp_path / "model.yaml").write_text(SPEC.replace(*change))
    done = command("fit", folder / "data.csv", "--spec", tmp_path / "model.yaml", "--out", tmp_path / "new")
    assert done.returncode == 2, done.stdout
    assert part in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("column", "part"),
    [
        (["one"] * 600, "every row has the level 'one'"),
        (["a"] * 300 + ["b"] * 299 + ["c"], "the level 'c' has one row"),
        ([*"ab"] * 299 + ["a", ""], "1 of 600 rows have gaps or words, most in 'job' (1)"),
        ([f"n{k}" for k in range(600)], "expected at most 100 levels, got 600"),
    ],
)
def test_labels_that_teach_nothing_are_named(folder, tmp_path, column, part, command):
    pd.read_csv(folder / "data.csv").assign(job=column).to_csv(tmp_path / "odd.csv", index=False)
    done = command("fit", tmp_path / "odd.csv", "--graph", "job", "--out", tmp_path / "new")
    assert done.returncode == 2
    assert part in done.stderr
