"""The command that reads a graph, and graphs and names with signs in the other commands."""

import json

import numpy as np
import pandas as pd
import pytest

import deepbc as bc

DOT = """digraph loans {
    age -> income;
    {age income} -> amount;
    "tip->driver" -> amount -> "fare=$"
    region
}"""
LAWS = "\n".join(f"  {json.dumps(name)}: {{kind: Linear}}" for name in ("age", "tip->driver", "fare=$", "a,b"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of age -> a,b; age, tip->driver -> fare=$, and graphs in files."""
    folder = tmp_path_factory.mktemp("graphs")
    draw = np.random.default_rng(0)
    age, tip = draw.normal(40, 10, 300), draw.normal(size=300)
    fare = 0.1 * age + tip + draw.normal(size=300)
    table = {"age": age, "tip->driver": tip, "fare=$": fare, "a,b": age + draw.normal(size=300), "Income": fare}
    pd.DataFrame(table).to_csv(folder / "data.csv", index=False)
    (folder / "loans.dot").write_text(DOT)
    (folder / "fares.dagitty").write_text('dag { {age "tip->driver"} -> "fare=$" ; age -> "a,b" }')
    (folder / "model.yaml").write_text(f"graph: fares.dagitty\nmechanisms:\n{LAWS}\n")
    return folder


def test_a_graph_is_shown_with_what_is_noteworthy(folder, command):
    done = command("graph", folder / "loans.dot")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines.index(["│", "age", "│", "│"]) < next(k for k, line in enumerate(lines) if "income" in line)
    for part in ("age, income, tip->driver", "6 variables, 5 edges, 3 roots, 2 leaves", "causes and effects: region"):
        assert part in done.stdout


def test_a_graph_is_text_in_any_language(command):
    for text in ("a -> b; c", "digraph { a -> b; c }", "dag { a -> b c }", "dag {\n b <- a \n c }"):
        told = json.loads(command("graph", text, "--json").stdout)
        assert told["parents"] == {"a": [], "b": ["a"], "c": []}
        assert told["counts"] == {"variables": 3, "edges": 1, "roots": 2, "leaves": 2}
        assert told["roots"] == ["a", "c"]
        assert told["leaves"] == ["b", "c"]
        assert told["isolated"] == ["c"]
        assert bc.CausalGraph.parse(told["text"]).to_dict() == told["parents"]


def test_columns_are_compared_with_near_misses(folder, command):
    done = command("graph", folder / "loans.dot", "--data", folder / "data.csv")
    assert done.returncode == 1
    assert "has no column 'income'. Did you mean 'Income'?" in done.stdout
    assert "has no column 'region'.\n" in done.stdout
    assert 'which a fit leaves out: "a,b", Income' in done.stdout
    told = json.loads(command("graph", folder / "loans.dot", "--data", folder / "data.csv", "--json").stdout)
    assert told["data"] == {
        "missing": {"income": ["Income"], "amount": [], "region": []}, "not_in_graph": ["a,b", "Income"],
    }  # fmt: skip
    done = command("graph", folder / "fares.dagitty", "--data", folder / "data.csv")
    assert done.returncode == 0
    assert "has a column for every variable" in done.stdout


@pytest.mark.parametrize("name", ["graph.png", "graph.svg"])
def test_a_graph_is_drawn(folder, name, tmp_path, command):
    done = command("graph", folder / "loans.dot", "--out", tmp_path / name)
    assert done.returncode == 0, done.stderr
    assert f"figure: {tmp_path / name}" in done.stdout
    written = (tmp_path / name).read_bytes()
    assert written.startswith(b"\x89PNG") if name.endswith("png") else b">fare=$</text>" in written


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("nothere.dot",), "nothere.dot: cannot be read"),
        (("graph { a -- b }",), "is undirected"),
        (("digraph { a -> b",), "line 1, column 9: the brace { is not closed"),
        (("a -> b", "--out", "g.txt"), "--out, the ending: expected '.png'"),
        (("a -> b", "--data", "nothere.csv"), "nothere.csv: cannot be read"),
        (("",), "The graph is empty"),
    ],
)
def test_what_cannot_be_read_is_one_line(words, part, command):
    done = command("graph", *words)
    assert done.returncode == 2
    assert part in done.stderr
    assert done.stderr.startswith("deepbc: ")
    assert done.stderr.count("\n") == 1


def test_models_of_names_with_signs_are_fitted_and_asked(folder, tmp_path, command):
    done = command("fit", folder / "data.csv", "--spec", folder / "model.yaml", "--out", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert 'age, "tip->driver" -> "fare=$"' in command("show", tmp_path / "model").stdout

    ask = ("ask", tmp_path / "model", folder / "data.csv", "--row", 3, "--json")
    scm = bc.SCM.load(tmp_path / "model")
    row = pd.read_csv(folder / "data.csv").iloc[[3]].drop(columns="Income")
    cf = bc.backtrack(
        scm, row, {"fare=$": 9.0}, scope=["tip->driver", "a,b"], distance=bc.Squared({"tip->driver": 2.0})
    )
    quoted = ("--if", '"fare=$"=9', "--scope", "'tip->driver',\"a,b\"", "--weight", '"tip->driver"=2')
    plain = ("--if", "fare=$=9", "--scope", 'tip->driver,"a,b"', "--weight", "tip->driver=2")
    for words in (quoted, plain):
        done = command(*ask, *words)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[0]["tip->driver"] == pytest.approx(cf.values["tip->driver"].item())


def test_fit_takes_a_file_or_text_of_a_graph(folder, tmp_path, command):
    text = 'digraph { {age "tip->driver"} -> "fare=$"; age -> "a,b" }'
    types = [word for name in ("age", "fare=$") for word in ("--type", f'"{name}"=real')]
    parents = []
    for k, graph in enumerate((folder / "fares.dagitty", text)):
        words = ("--graph", graph, "--bounds", '"tip->driver"=-100,', *types, "--out", tmp_path / f"m{k}")
        done = command("fit", folder / "data.csv", *words)
        assert done.returncode == 0, done.stderr
        parents.append(bc.SCM.load(tmp_path / f"m{k}").graph.to_dict())
    assert parents[0] == {"age": [], "tip->driver": [], "fare=$": ["age", "tip->driver"], "a,b": ["age"]}
    assert parents[0] == parents[1]
    done = command("fit", folder / "data.csv", "--graph", "nothere.gml", "--out", tmp_path / "m")
    assert done.returncode == 2
    assert "nothere.gml: cannot be read" in done.stderr
