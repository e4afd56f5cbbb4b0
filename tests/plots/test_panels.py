"""Figures of several panels: what is drawn is what was given."""

import matplotlib.colors
import numpy as np
import pytest
import torch

from deepbc.plots import Bars, Boxes, Cells, Lines, Pictures, Scatter, plot_panels

NAMES = ("thickness", "intensity")


def test_dots_have_the_colours_of_the_paper():
    dots = [("backtracking", [1.0, 2.0], [3.0, 4.0]), ("interventional", [1.0], [3.0]), ("factual", [1.0], [1.0])]
    panel = Scatter("a", NAMES, (np.arange(50.0), np.arange(50.0)), dots)
    figure = plot_panels([[panel]])
    axes = figure.axes[0]
    density, grey, green, red = axes.collections
    for part, colour in ((grey, "#7f7f7f"), (green, "#2e8b57"), (red, "#c0392b")):
        assert matplotlib.colors.same_color(part.get_facecolor()[0], colour)
    assert density.get_cmap().name == "Blues"
    np.testing.assert_allclose(grey.get_offsets(), [[1, 3], [2, 4]])
    assert (axes.get_xlabel(), axes.get_ylabel()) == NAMES
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["backtracking", "interventional", "factual"]


def test_side_by_side_the_same_axes_are_named_once():
    dot = [("factual", [1.0], [1.0])]
    panels = [Scatter("a", NAMES, None, dot), Scatter("b", NAMES, None, [("factual", [1.0], [9.0])])]
    figure = plot_panels([panels, [Scatter("c", ("x", "y"), None, dot)]])
    assert [axes.get_ylabel() for axes in figure.axes] == ["intensity", "", "y"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["factual"]


def test_boxes_show_quantiles_at_their_places():
    numbers = np.arange(101.0)
    figure = plot_panels([[Boxes("", NAMES, [10.0, 20.0], {"ours": [numbers, 2 * numbers]}, ("factual", 7.0))]])
    heights = {round(float(y), 6) for line in figure.axes[0].lines for y in np.ravel(line.get_ydata())}
    assert {5, 25, 50, 75, 95, 10, 100, 150, 190, 7} <= heights
    middles = {
        round(float(np.mean(line.get_xdata())), 6) for line in figure.axes[0].lines if len(line.get_xdata()) == 2
    }
    assert {10, 20} <= middles


def test_a_single_number_is_a_line_across():
    lines = {"Adam": (np.arange(3), np.array([3.0, 2.0, 1.0])), "Exact": (np.array([0]), np.array([0.5]))}
    axes = plot_panels([[Lines("", ("iteration", "loss"), lines)]]).axes[0]
    assert axes.get_yscale() == "log"
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [3, 2, 1])
    assert set(axes.lines[1].get_ydata()) == {0.5}


@pytest.mark.parametrize("shape", [(2, 3, 6, 5), (2, 3, 1, 6, 5), (2, 3, 6, 5, 3)])
def test_pictures_stand_in_rows_and_columns(shape):
    tiles = torch.zeros(shape)
    tiles[1, 2] = 1.0
    panel = Pictures("", ("", ""), tiles, ["a", "b", "$c"], ["one", "two"], [["x"] * 3] * 2)
    axes = plot_panels([[panel]]).axes[0]
    drawn = np.asarray(axes.images[0].get_array())
    assert drawn.shape == (2 * 8, 3 * 7, 3)
    assert (drawn[9:15, 15:20] == 1).all()
    assert (drawn[9:15, 8:13] == 0).all()
    np.testing.assert_allclose(axes.get_xticks(), [3, 10, 17])
    np.testing.assert_allclose(axes.get_yticks(), [3.5, 11.5])
    assert len(axes.texts) == 6


def test_a_table_has_its_cells():
    axes = plot_panels([[Cells("", ("", ""), ["", "error"], [["Exact", "0"], ["Adam", "1"]])]]).axes[0]
    table = axes.tables[0]
    assert table[0, 1].get_text().get_text() == "error"
    assert table[2, 0].get_text().get_text() == "Adam"


def test_bars_lie_in_the_given_order_from_above():
    axes = plot_panels([[Bars("a", ("share", ""), {"$smoker$": 0.75, "age": 0.25})]]).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$smoker$", "age"]
    assert [bar.get_width() for bar in axes.patches] == [0.75, 0.25]
    assert axes.yaxis_inverted()
    assert axes.get_xlim() == (0, 1)
