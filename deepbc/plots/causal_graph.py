"""Figures of causal graphs: causes to the left of effects."""

__all__ = ["draw_graph", "plot_graph", "sort_layers"]

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from deepbc.graph import CausalGraph
from deepbc.plots.style import GREY, Axes, Figure, Path, new_figure, short, written

# Of a node, in points; and how much an arrow bends, in parts of its length.
RADIUS, BEND = 8.0, 0.32
PALE = "#dbe4f0"
# Of a figure, in inches: a letter, a layer without its names, a variable in a layer; the least and most of a side.
LETTER, LAYER, VARIABLE, LEAST, MOST = 0.075, 0.6, 0.6, 2.0, 40.0
LONGEST_NAME = 40


def plot_graph(graph: CausalGraph, path: Path | None) -> Figure:
    """Draws a graph.

    Args:
        graph: The graph.
        path: The file to write, if any.
    """
    layers = sort_layers(graph)
    letters = min(max(map(len, graph)), LONGEST_NAME)
    size = ((LAYER + LETTER * letters) * len(layers), VARIABLE * max(map(len, layers)) + 0.4)
    figure = new_figure(*(min(max(LEAST, length), MOST) for length in size))
    draw_graph(figure.add_subplot(), graph, layers, dict.fromkeys(graph, PALE), longest=letters)

    return written(figure, path)


def draw_graph(
    axes: Axes,
    graph: CausalGraph,
    layers: Sequence[Sequence[str]],
    colours: Mapping[str, Any],
    asked: Collection[str] = (),
    *,
    longest: int = 14,
) -> None:
    """Draws causes to the left of effects; what was asked about has a thick ring, and long names are clipped."""
    spot = {name: (float(i), (k + 0.5) / len(layer)) for i, layer in enumerate(layers) for k, name in enumerate(layer)}
    for cause, effect in graph.edges:
        (x, y), (x_effect, y_effect) = spot[cause], spot[effect]
        # An arrow that passes a layer bends to the nearer edge, so that it does not run through what lies between.
        outward = -BEND if y + y_effect <= 1.01 else BEND
        arrow = {"arrowstyle": "-|>", "color": GREY, "lw": 0.9, "shrinkA": RADIUS + 1, "shrinkB": RADIUS + 2}
        arrow["connectionstyle"] = f"arc3,rad={outward if x_effect - x > 1 else 0.0}"
        axes.annotate("", spot[effect], spot[cause], arrowprops=arrow)
    for name, (x, y) in spot.items():
        edge, width = ("black", 2.2) if name in asked else (GREY, 0.8)
        axes.scatter([x], [y], s=(2 * RADIUS) ** 2, color=[colours[name]], edgecolors=edge, lw=width, zorder=3)
        below = (0, -RADIUS - 3)
        label = axes.annotate(
            short(name, longest), (x, y), below, textcoords="offset points", ha="center", va="top", fontsize=8
        )
        label.set(parse_math=False, fontweight="bold" if name in asked else "normal", zorder=4)
        label.set_bbox({"color": "white", "alpha": 0.7, "lw": 0, "pad": 0.5})
    axes.set_xlim(-0.5, len(layers) - 0.5)
    axes.set_ylim(1.1, -0.1)
    axes.set_axis_off()


def sort_layers(graph: CausalGraph) -> list[list[str]]:
    """Sorts variables by the longest path from a root, and within a layer by where their parents are."""
    depth: dict[str, int] = {}
    for name in graph.order:
        depth[name] = max((depth[parent] + 1 for parent in graph.parents(name)), default=0)

    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in graph.order:
        layers[depth[name]].append(name)

    place: dict[str, float] = {}
    for layer in layers:
        layer.sort(key=lambda name: statistics.fmean([place[parent] for parent in graph.parents(name)] or [0.0]))
        place |= {name: (k + 0.5) / len(layer) for k, name in enumerate(layer)}

    return layers
