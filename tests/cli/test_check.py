"""The command that holds a model against a table."""

import json

import numpy as np
import pandas as pd
import pytest

import deepbc as bc


def table(seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    a = draw.normal(size=400)
    b = a + draw.normal(size=400)
    return pd.DataFrame({"a": a, "b": b, "c": a + b + draw.normal(size=400), "word": "x"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of a -> b; a, b -> c: the right one, and one without a -> c; tables of old and new rows, and with gaps."""
    folder = tmp_path_factory.mktemp("check")
    for name, graph in (("right", "a -> b; a, b -> c"), ("missing", "a -> b -> c")):
        scm = bc.SCM(bc.CausalGraph.parse(graph), {each: bc.Linear() for each in "abc"})
        scm.fit(table(0)[["a", "b", "c"]])
        scm.save(folder / name)
    table(1).to_csv(folder / "new.csv", index=False)
    gaps = table(1)
    gaps.loc[3, "b"] = np.nan
    gaps.to_csv(folder / "gaps.csv", index=False)
    table(1).head(10).to_csv(folder / "few.csv", index=False)
    table(1)[["a", "b"]].to_csv(folder / "short.csv", index=False)
    return folder


def test_right_model_is_accepted_with_exit_code_0(folder, command):
    done = command("check", folder / "right", folder / "new.csv")
    assert done.returncode == 0, done.stderr
    for part in ("variable", "accepted", "Accepted at an overall level of 1 %", "equivalence class are not tested"):
        assert part in done.stdout


def test_wrong_model_is_rejected_with_exit_code_1(folder, tmp_path, command):
    done = command("check", folder / "missing", folder / "new.csv", "--plot", tmp_path / "check.svg")
    assert done.returncode == 1
    assert "The noise of 'c' depends on that of 'a'" in done.stdout
    assert f"figure: {tmp_path / 'check.svg'}" in done.stdout
    assert (tmp_path / "check.svg").read_text().startswith("<?xml")


def test_json_is_the_report_of_the_library(folder, command):
    done = command("check", folder / "missing", folder / "new.csv", "--json", "--level", "0.05", "--seed", 2)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    table = pd.read_csv(folder / "new.csv")[["a", "b", "c"]]
    report = bc.check(bc.SCM.load(folder / "missing"), table, seed=2, level=0.05)
    assert (told["verdict"], told["accepted"], told["level"], told["rows"]) == ("rejected", False, 0.05, 400)
    assert [each["name"] for each in told["variables"]] == ["a", "b", "c"]
    assert told["variables"][0]["dependence_p"] is None
    assert [each["p"] for each in told["claims"]] == pytest.approx([each.p for each in report.claims])
    assert "not tested" in told["not_tested"]


def test_rows_with_gaps_can_be_left_out(folder, command):
    assert command("check", folder / "right", folder / "gaps.csv").returncode == 2
    done = command("check", folder / "right", folder / "gaps.csv", "--drop-missing")
    assert done.returncode == 0
    assert "399 rows" in done.stdout


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["right", "few.csv"], "at least 20 rows, got 10"),
        (["right", "short.csv"], "'c'"),
        (["right", "none.csv"], "no such file"),
        (["none", "new.csv"], "none"),
        (["right", "new.csv", "--level", "0"], "level"),
        (["right", "new.csv", "--plot", "check.txt"], "'.png' or '.svg'"),
        (["right", "new.csv", "--confounded", "a->b"], "Cannot read the common cause 'a->b'"),
        (["right", "new.csv", "--confounded", "a<->bb"], "check confounded: unknown name 'bb'"),
        (["right", "new.csv", "--for", "e"], "check antecedent: unknown name 'e'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder, words, part, command):
    done = command("check", folder / words[0], folder / words[1], *words[2:])
    assert done.returncode == 2
    assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_edges_to_try_are_listed(folder, command):
    done = command("check", folder / "missing", folder / "new.csv")
    for part in ("edge to try", "a -> c", "strong, p", "Edge to try: 'a' -> 'c', or a common cause of the two"):
        assert part in done.stdout
    told = json.loads(command("check", folder / "missing", folder / "new.csv", "--json").stdout)
    (edge,) = told["edges"]
    assert (edge["cause"], edge["effect"], edge["grade"], ["c", "a"] in edge["mends"]) == ("a", "c", "strong", True)
    assert told["grade"] == "strong"
    assert {claim["grade"] for claim in told["claims"]} >= {"strong", "not seen"}


def test_dependence_by_a_named_common_cause_is_expected(folder, command):
    done = command("check", folder / "missing", folder / "new.csv", "--confounded", " 'a' <-> \"c\" ")
    assert done.returncode == 0, done.stdout
    assert "expected" in done.stdout
    assert "edge to try" not in done.stdout
    told = command("check", folder / "missing", folder / "new.csv", "--confounded", "a<->c", "--json")
    assert json.loads(told.stdout)["confounded"] == [["a", "c"]]


def test_verdict_is_that_for_a_question(folder, command):
    done = command("check", folder / "missing", folder / "new.csv", "--for", "b")
    assert done.returncode == 0, done.stdout
    for part in ("for b", "own value only", "question about 'b' depends on the laws of 'a', 'b'"):
        assert part in done.stdout
    assert command("check", folder / "missing", folder / "new.csv", "--for", "c").returncode == 1
