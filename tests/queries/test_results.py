"""What comes back: answers as frames and figures, and the report of a fit."""

import math
import pickle

import numpy as np
import pytest
import torch

import deepbc as bc
from deepbc.plots.causal_graph import sort_layers
from deepbc.queries.status import Outcome, Status, status_of
from deepbc.recipes import morphomnist
from deepbc.training.report import VariableFit

ROWS = {"thickness": [1.9, 2.5, 3.0], "intensity": [120.0, 160.0, 200.0]}


def chain(*names: str) -> bc.SCM:
    """Each variable is the one before it plus noise."""
    root = bc.Equation(predict=lambda u, parents: u, abduct=lambda x, parents: x)
    follow = bc.Equation(
        predict=lambda u, parents: u + sum(parents.values()), abduct=lambda x, parents: x - sum(parents.values())
    )
    graph = bc.CausalGraph({name: names[max(0, i - 1) : i] for i, name in enumerate(names)})
    return bc.SCM(graph, {name: follow if graph.parents(name) else root for name in graph})


def test_frame_tells_what_moved_and_how_it_ended():
    frame = bc.backtrack(morphomnist.truth(), ROWS, {"intensity": [220.0, 300.0, 200.0]}).to_frame()

    names = ["thickness", "intensity"]
    own = [f"factual {name}" for name in names] + [f"moved {name}" for name in names]
    assert list(frame) == [*names, *own, "distance", "error", "farthest", "certainty", "unseen", "status"]
    assert list(frame["status"]) == ["converged", "infeasible", "converged"]
    assert frame["farthest"][0] > 0 == frame["farthest"][2]


def test_frame_of_an_answer_keeps_variables_with_its_own_names():
    names = ("x", "distance", "error", "status", "farthest", "factual x", "moved x", "answer error")
    scm = chain(*names)
    factual = {name: float(i) for i, name in enumerate(names)}

    cf = bc.backtrack(scm, factual, {"distance": 5.0})
    frame = cf.to_frame()

    assert frame.columns.is_unique
    for name in names:
        assert frame[name][0] == cf.values[name].item(), name
    assert frame["answer distance"][0] == cf.distance.item()
    assert frame["answer answer error"][0] == cf.error.item()
    assert frame["answer factual x"][0] == 0.0
    assert frame["factual factual x"][0] == 5.0
    assert frame["answer moved x"][0] == cf.moved["x"].item() > 0


def test_interval_is_kept_in_the_answer_and_drawn(tmp_path):
    cf = bc.backtrack(morphomnist.truth(), ROWS, {"intensity": bc.at_least(180.0)})

    assert torch.equal(torch.as_tensor(cf.antecedent["intensity"].lower), torch.full((3,), 180.0, dtype=torch.float64))
    assert "intensity" in repr(cf)
    assert "180" in repr(cf.antecedent)
    cf.plot(tmp_path / "cf.png")
    assert (tmp_path / "cf.png").stat().st_size > 5000


@pytest.mark.parametrize("rows", [None, 0, 1, 5, 300])
def test_answers_of_any_number_of_rows_are_drawn(rows, tmp_path):
    scm = morphomnist.truth()
    world = scm.sample(1 if rows is None else rows, seed=0)
    factual = {name: each[0] if rows is None else each for name, each in world.values.items()}

    figure = bc.backtrack(scm, factual, {"intensity": 220.0}).plot(tmp_path / "cf.png")

    assert len(figure.axes) == 4
    assert (tmp_path / "cf.png").stat().st_size > 5000


def test_figure_says_which_rows_failed_and_which_are_far_out():
    answer = bc.backtrack(morphomnist.truth(), ROWS, {"intensity": [220.0, 300.0, 200.0]})
    figure = answer.plot()
    assert figure.get_suptitle() == "3 rows: 2 converged, 1 infeasible"
    points = [(line.get_marker(), len(line.get_xdata())) for line in figure.axes[0].lines]
    assert [point for point in points if point[0] != "None"] == [("o", 2), ("o", 2), ("x", 1), ("x", 1)]

    far = bc.backtrack(chain("a", "b"), {"a": 0.0, "b": 0.0}, {"b": 20.0})
    assert far.extrapolates
    assert far.plot().get_suptitle() == "1 row: 1 converged; 1 beyond 4 sd of noise"


def test_figure_colours_the_graph_by_what_moved():
    cf = bc.backtrack(chain("a", "b", "c"), {"a": 0.0, "b": 0.0, "c": 0.0}, {"b": 2.0})
    axes = cf.plot().axes[-1]

    light = {name: node.get_facecolor()[0, :3].sum() for name, node in zip("abc", axes.collections, strict=True)}
    assert light["a"] == light["b"] < light["c"]
    widths = [node.get_linewidths()[0] for node in axes.collections]
    assert widths[1] > widths[0] == widths[2]
    assert {text.get_text() for text in axes.texts} >= {"a", "b", "c"}


@pytest.mark.parametrize(
    "names",
    [
        ("年齢", "الدخل", "आय", "возраст", "גיל"),
        ("$a^{", "\\frac", "100 %", "_hidden", "two\nlines"),
        ("a name of more words than any axis has room for", "🙂"),
        tuple(f"x{i}" for i in range(40)),
    ],
    ids=["scripts", "signs", "long", "many"],
)
def test_names_of_any_kind_are_drawn(names, tmp_path):
    scm = chain(*names)
    cf = bc.backtrack(scm, scm.sample(2, seed=0).values, {names[-1]: 1.0})

    figure = cf.plot(tmp_path / "cf.png")

    assert (tmp_path / "cf.png").stat().st_size > 5000
    assert all(len(text.get_text()) <= 14 for text in figure.axes[-1].texts)


def test_vectors_are_drawn_by_component(tmp_path):
    stream = np.random.default_rng(0)
    a = stream.normal(size=200)
    v = np.stack([a, 2 * a], axis=1) + stream.normal(size=(200, 2))
    scm = bc.SCM(bc.CausalGraph.parse("a -> v"), {"a": bc.Linear(), "v": bc.Linear()})
    scm.fit({"a": a, "v": v})

    cf = bc.backtrack(scm, {"a": a[:3], "v": v[:3]}, {"v": [1.0, 2.0]})

    assert cf.plot(tmp_path / "cf.png").axes[1].get_title() == "v (2 components) *"
    assert {"v[0]", "factual v[1]", "moved v"} <= set(cf.to_frame())


def test_axes_of_a_single_row_span_what_is_usual_in_the_data():
    stream = np.random.default_rng(0)
    a = stream.normal(100.0, 10.0, size=300)
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": bc.Linear(), "b": bc.Linear()})
    scm.fit({"a": a, "b": a + stream.normal(size=300)})
    factual = {"a": 100.0, "b": 100.0}

    for asked in (100.1, 180.0):
        axes = bc.backtrack(scm, factual, {"b": asked}).plot().axes[1]
        low, high = axes.get_ylim()
        assert high - low == pytest.approx(max(3 * scm.variables["b"].sd[0], 1.1 * (asked - 100)))
        assert low < 100 < asked < high
    drawn = bc.backtrack_samples(scm, factual, {"b": 100.1}, samples=20, seed=0, scope=["b"]).plot().axes[0]
    assert np.diff(drawn.get_xlim()) == pytest.approx(3 * scm.variables["a"].sd[0])
    many = bc.backtrack(scm, {"a": [100.0] * 2, "b": [100.0] * 2}, {"b": [100.1, 100.2]}).plot().axes[1]
    assert np.diff(many.get_ylim()) < 1


def test_layers_follow_the_longest_path():
    # a -> b -> d, a -> d; c alone
    graph = bc.CausalGraph({"a": [], "b": ["a"], "c": [], "d": ["a", "b"]})
    assert sort_layers(graph) == [["a", "c"], ["b"], ["d"]]


def test_status_is_its_word_and_survives_a_copy():
    status = Status("infeasible", "It cannot be.", "Ask for less.")
    assert status == "infeasible"
    assert status.explain() == "infeasible: It cannot be. Ask for less."
    assert pickle.loads(pickle.dumps(status)).remedy == "Ask for less."
    assert status_of(Outcome.CONVERGED).explain().startswith("converged: ")


def test_likelihood_of_a_report_leaves_out_what_has_no_density():
    fits = [VariableFit(name, "real", "Linear", nll, 10, {}, 0.0, ()) for name, nll in (("a", 1.5), ("b", math.nan))]
    assert bc.FitReport(tuple(fits)).nll == 1.5


def test_axes_of_whole_numbers_have_no_halves():
    stream = np.random.default_rng(0)
    grade = stream.integers(1, 4, size=200).astype(float)
    visits = stream.integers(0, 3, size=200) + grade
    graph = bc.CausalGraph.parse("grade -> visits")
    scm = bc.SCM(graph, {"visits": bc.Integer(bc.Linear())}, types={"grade": [1.0, 2.0, 3.0]})
    scm.fit({"grade": grade, "visits": visits})

    figure = bc.backtrack(scm, {"grade": [1.0, 2.0], "visits": [2, 3]}, {"visits": 4}).plot()

    assert [each.get_text() for each in figure.axes[0].get_yticklabels()] == ["1", "2", "3"]
    low, high = figure.axes[1].get_ylim()
    ticks = [tick for tick in figure.axes[1].get_yticks() if low <= tick <= high]
    assert ticks == [2, 3, 4]
    drawn = bc.backtrack_samples(scm, {"grade": 1.0, "visits": 2}, {"grade": 2.0}, samples=200, seed=0)
    bars = drawn.plot().axes[1].patches
    values = drawn.values["visits"].numpy()
    edges = [bar.get_x() for bar in bars]
    assert np.allclose(np.diff(edges), 1)
    assert edges[0] == values.min() - 0.5
    assert [bar.get_height() for bar in bars] == [(values == edge + 0.5).sum() for edge in edges]
