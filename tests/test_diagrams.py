"""Diagrams and planes: what is drawn is what was given, and an SVG is the same file whenever it is written."""

import sys
from pathlib import Path

import matplotlib.colors
import pytest

from deepbc.plots import plot_panels

sys.path.append(str(Path(__file__).parents[1] / "docs" / "figures"))
from diagrams import Arrow, Curve, Diagram, Dot, Node, Plane  # no part of the package

FRAME = (-1.0, 2.0, -1.0, 1.0)


@pytest.fixture
def diagram():
    """a -> b, cut, with b forced."""
    nodes = {"a": Node("a$", (0.0, 0.0), "factual", given=True), "b": Node("b", (1.0, 0.0), "plain", note="forced")}
    return Diagram(
        "t", ("", ""), nodes, [Arrow("a", "b", cut=True, note="law")], ["b"], [("c", (0, 1), "plain")], FRAME
    )


def test_diagram_has_its_nodes_arrows_and_words(diagram):
    axes = plot_panels([[diagram]]).axes[0]
    assert [text.get_text() for text in axes.texts if text.get_text()] == ["law", "a$", "b", "forced", "c"]
    assert len([text for text in axes.texts if getattr(text, "arrow_patch", None)]) == 1
    filled, hollow = (matplotlib.colors.to_hex(each.get_facecolor()[0]) for each in axes.collections)
    assert (filled, hollow) == ("#4c72b0", "#ffffff")
    # Two strokes of the cut, handle and head of the hammer.
    assert (len(axes.lines), len(axes.patches)) == (2, 2)


def test_plane_has_its_curves_shades_and_dots():
    curves = [Curve([0, 1], [0, 1], "plain", dashed=True), Curve([0, 1], [0, 0], "plain", until=[1, 1])]
    plane = Plane("t", ("x", "y"), curves, [Dot(0.5, 0.25, "factual", "here")], [], FRAME, square=True)
    axes = plot_panels([[plane]]).axes[0]
    assert axes.lines[0].get_linestyle() == "--"
    shade, dot = axes.collections
    assert shade.get_alpha() < 0.5
    assert dot.get_offsets().tolist() == [[0.5, 0.25]]
    assert axes.texts[0].get_text() == "here"
    assert axes.get_aspect() == 1


def test_an_svg_is_the_same_file_again_with_its_words(diagram, tmp_path):
    for name in ("one.svg", "two.svg"):
        plot_panels([[diagram]], path=tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    assert ">forced</text>" in text
