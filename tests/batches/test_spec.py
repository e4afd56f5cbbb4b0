"""A model written down in YAML, and what is said of a file that is wrong."""

import pytest

import deepbc as bc
from deepbc.batches.spec import read_spec

WHOLE = """\
# A model of loans.
graph: "age -> income; age, income -> amount"
bounds:
  amount: [0, null]
mechanisms:
  income: {kind: Linear}
  amount:
    kind: Flow
    bins: 16
training:
  amount: {epochs: 20, learning_rate: 0.01}
seed: 3
"""


def written(tmp_path, text: str):
    (tmp_path / "model.yaml").write_text(text)
    return tmp_path / "model.yaml"


def test_a_file_is_the_model_that_it_says(tmp_path):
    spec = read_spec(written(tmp_path, WHOLE))
    graph = bc.CausalGraph.parse("age -> income; age, income -> amount")
    scm = bc.SCM(graph, {"income": bc.Linear(), "amount": bc.Flow(bins=16)}, bounds={"amount": (0, None)})
    assert spec.scm.graph.to_dict() == graph.to_dict()
    assert {name: repr(each) for name, each in spec.scm.mechanisms.items()} == {
        name: repr(each) for name, each in scm.mechanisms.items()
    }
    assert spec.scm.bounds == scm.bounds
    assert spec.training == {"amount": bc.Training(epochs=20, learning_rate=0.01)}
    assert spec.seed == 3


def test_constraints_are_those_of_the_model(tmp_path):
    text = 'graph: "age -> job"\nconstraints:\n  age: [18, null]\n  job: fixed\n'
    assert read_spec(written(tmp_path, text)).scm.constraints == {"age": (18, None), "job": "fixed"}
    with pytest.raises(bc.SettingError, match=r"model.yaml, line 4: constraints.job: .*'fixed', 'up', 'down'"):
        read_spec(written(tmp_path, text.replace("fixed", "upward")))


def test_a_graph_alone_is_enough_as_text_or_mapping(tmp_path):
    for text in ('graph: "a -> b"', "graph:\n  a: []\n  b: [a]\n"):
        spec = read_spec(written(tmp_path, text))
        assert spec.scm.graph.to_dict() == {"a": [], "b": ["a"]}
        assert (spec.training, spec.seed) == ({}, 0)


@pytest.mark.parametrize(
    ("old", "new", "line", "part"),
    [
        ("seed: 3", "seed: much", 12, "seed"),
        ("seed: 3", "sede: 3", 12, "sede"),
        ("age, income -> amount", "income -> age", 2, "cycle"),
        ('graph: "age', 'grph: "age', 1, "graph"),
        ("amount: [0, null]", "amount: [0]", 4, "bounds.amount"),
        ("amount: [0, null]", "amount: [5, 1]", 4, "bounds.amount"),
        ("amount: [0, null]", "amuont: [0, null]", 4, "Did you mean 'amount'?"),
        ("income: {kind: Linear}", "income: {kind: Liner}", 6, "Did you mean 'Linear'?"),
        ("income: {kind: Linear}", "income: Linear", 6, "mechanisms.income"),
        ("bins: 16", "bins: -1", 7, "bins"),
        ("bins: 16", "bin: 16", 7, "unexpected keyword argument 'bin'"),
        ("epochs: 20", "epochs: 0", 11, "epochs"),
        ("epochs: 20", "epoch: 20", 11, "unexpected keyword argument 'epoch'"),
        ("kind: Flow", "kind: Equation", 7, "kind"),
        ("seed: 3", "seed: [3", 13, "is not YAML"),
        ("seed: 3", "seed: true", 12, "seed"),
        ("seed: 3", "seed: 3\nseed: 4", 13, "'seed' comes twice"),
        ("bins: 16", "bins: 16\n    bins: 8", 10, "'bins' comes twice"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, old, new, line, part):
    assert old in WHOLE
    path = written(tmp_path, WHOLE.replace(old, new))
    with pytest.raises(bc.SettingError) as told:
        read_spec(path)
    assert f"{path}, line {line}: " in str(told.value)
    assert part in str(told.value)


@pytest.mark.parametrize(
    "graph",
    [
        "graph: 'digraph { a -> \"b=c\" }'",
        'graph: |\n  dag {\n    a -> "b=c"\n  }',
        "graph: g.gml",
        "graph: |\n  a -> 'b=c'",
    ],
)
def test_a_graph_is_text_in_any_language_or_a_file(tmp_path, graph):
    (tmp_path / "g.gml").write_text(
        'graph [ directed 1 node [ id 0 label "a" ] node [ id 1 label "b=c" ] edge [ source 0 target 1 ] ]'
    )
    assert read_spec(written(tmp_path, graph)).scm.graph.to_dict() == {"a": [], "b=c": ["a"]}


def test_what_is_wrong_with_a_graph_in_a_file_is_said_with_both_places(tmp_path):
    with pytest.raises(bc.SettingError, match=r"line 1: graph: DOT, line 1, column 13: the edge a -- b"):
        read_spec(written(tmp_path, "graph: 'digraph { a -- b }'"))
    with pytest.raises(bc.SettingError, match=r"line 1: graph: .*g.gml: cannot be read"):
        read_spec(written(tmp_path, "graph: g.gml"))


@pytest.mark.parametrize("text", ["", "3", "- a\n- b\n", "graph: 3"])
def test_what_is_no_model_is_said(tmp_path, text):
    with pytest.raises(bc.SettingError, match="line 1"):
        read_spec(written(tmp_path, text))


@pytest.mark.parametrize("text", ["seed: 2020-13-45", "[" * 5000])
def test_what_yaml_itself_stumbles_over_is_said(tmp_path, text):
    with pytest.raises(bc.SettingError, match="is not YAML"):
        read_spec(written(tmp_path, text))


def test_levels_that_yaml_takes_for_truth_values_are_told(tmp_path):
    with pytest.raises(bc.SettingError, match=r"line 3: types\.b: YAML reads yes, no.*in quotes"):
        read_spec(written(tmp_path, 'graph: "a -> b"\ntypes:\n  b: [no, yes]\n'))
    spec = read_spec(written(tmp_path, "graph: \"a -> b\"\ntypes:\n  b: ['no', 'yes']\n"))
    assert tuple(spec.scm.types["b"]) == ("no", "yes")


def test_nothing_in_a_file_is_executed(tmp_path):
    with pytest.raises(bc.SettingError, match="line 1"):
        read_spec(written(tmp_path, "graph: !!python/object/apply:os.system ['true']"))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(bc.DataError, match=r"none\.yaml"):
        read_spec(tmp_path / "none.yaml")


def test_laws_of_lumps_and_steps_are_written_as_any_other(tmp_path):
    text = (
        'graph: "c; h"\ntypes: {c: censored, h: grid}\nmechanisms:\n'
        "  c: {kind: Censored, law: {kind: Linear}}\n  h: {kind: Integer, law: {kind: Linear}}\n"
    )
    scm = read_spec(written(tmp_path, text)).scm
    assert {name: repr(each) for name, each in scm.mechanisms.items()} == {
        "c": "Censored(law=Linear())",
        "h": "Integer(law=Linear())",
    }
    assert scm.types == {"c": "censored", "h": "grid"}
