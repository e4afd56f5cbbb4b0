"""Diagrams of causal graphs with their noises, and planes with curves and named points."""

__all__ = ["Arrow", "Curve", "Diagram", "Dot", "Node", "Plane"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepbc.plots.panels import Panel
from deepbc.plots.style import BLUE, GREEN, GREY, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Dark enough for words on white.
AMBER = "#b86200"
# What a colour says.
ROLES = {"factual": BLUE, "counterfactual": GREEN, "backtracking": RED, "interventional": AMBER, "plain": GREY}
INK = "#222222"
# Words, where they stand, and in which role.
Caption = tuple[str, tuple[float, float], str]
# Of a node, in points.
RADIUS = 11.0
# A hammer in units of the diagram, its handle down to the right: the corners of its handle and of its head.
HANDLE = ((0.09, 0.05), (0.36, -0.22), (0.31, -0.27), (0.04, 0.0))
HEAD = ((-0.16, -0.06), (0.10, 0.20), (0.22, 0.08), (-0.04, -0.18))


@dataclass(frozen=True, slots=True)
class Node:
    """A circle with a name.

    Args:
        label: What stands in it.
        place: Where it is.
        role: A name of `ROLES`.
        given: Whether its value is known or asked for; then it is filled.
        note: What stands beside it.
        left: Whether the note stands to its left.
    """

    label: str
    place: tuple[float, float]
    role: str
    given: bool = False
    note: str = ""
    left: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow between two nodes.

    Args:
        start: The key of the node that it leaves.
        end: The key of the node that it enters.
        role: A name of `ROLES`.
        cut: Whether it is cut: it is dashed, with two strokes across.
        note: What stands above its middle.
    """

    start: str
    end: str
    role: str = "plain"
    cut: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Diagram(Panel):
    """Nodes and arrows.

    Args:
        nodes: The nodes by their keys.
        arrows: The arrows.
        hammers: The keys of the nodes that are forced.
        captions: What else is said.
        frame: The left, right, lower and upper end of what is shown.
    """

    nodes: Mapping[str, Node]
    arrows: Sequence[Arrow]
    hammers: Sequence[str]
    captions: Sequence[Caption]
    frame: tuple[float, float, float, float]

    def draw(self, axes: "Axes") -> None:
        for arrow in self.arrows:
            self._draw_arrow(axes, arrow)
        for node in self.nodes.values():
            _draw_node(axes, node)
        for key in self.hammers:
            x, y = self.nodes[key].place
            for corners in (HANDLE, HEAD):
                moved = [(x + 0.34 + a, y + 0.44 + b) for a, b in corners]
                axes.fill(*zip(*moved, strict=True), color=AMBER, lw=0)
        _draw_captions(axes, self.captions)
        axes.set_xlim(*self.frame[:2])
        axes.set_ylim(*self.frame[2:])
        axes.set_aspect("equal")
        axes.set_axis_off()

    def _draw_arrow(self, axes: "Axes", arrow: Arrow) -> None:
        start, end = self.nodes[arrow.start].place, self.nodes[arrow.end].place
        style: dict[str, Any] = {"arrowstyle": "-|>", "color": ROLES[arrow.role], "lw": 1.2, "mutation_scale": 9}
        style |= {"shrinkA": RADIUS + 1, "shrinkB": RADIUS + 1.5}
        axes.annotate("", end, start, arrowprops=style | ({"ls": (0, (3, 2))} if arrow.cut else {}))
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        if arrow.cut:
            _draw_cut(axes, middle, math.atan2(end[1] - start[1], end[0] - start[0]))
        if arrow.note:
            above: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 7}
            axes.annotate(arrow.note, middle, (0, 2), color=ROLES[arrow.role], **above)


def _draw_captions(axes: "Axes", captions: Sequence[Caption]) -> None:
    for text, place, role in captions:
        ink = INK if role == "plain" else ROLES[role]
        axes.text(*place, text, color=ink, fontsize=8, ha="center", va="center", parse_math=False)


def _draw_node(axes: "Axes", node: Node) -> None:
    colour = ROLES[node.role]
    axes.scatter(
        *node.place, s=(2 * RADIUS) ** 2, color=colour if node.given else "white", edgecolors=colour, lw=1.4, zorder=3
    )
    ink = "white" if node.given else INK
    axes.text(*node.place, node.label, color=ink, fontsize=8.5, ha="center", va="center", zorder=4, parse_math=False)
    if node.note:
        shift, side = (-RADIUS - 4, "right") if node.left else (RADIUS + 4, "left")
        label = axes.annotate(node.note, node.place, (shift, 0), textcoords="offset points", ha=side, va="center")
        label.set(fontsize=7.5, color=INK, parse_math=False)


def _draw_cut(axes: "Axes", middle: tuple[float, float], angle: float) -> None:
    """Draws two strokes across an arrow."""
    along, across = (math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))
    for side in (-0.035, 0.035):
        x, y = (middle[k] + side * along[k] for k in (0, 1))
        ends = [(x + way * 0.11 * across[0], y + way * 0.11 * across[1]) for way in (-1, 1)]
        axes.plot(*zip(*ends, strict=True), color=AMBER, lw=1.8, zorder=5)


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through a plane.

    Args:
        x: Its first coordinates.
        y: Its second coordinates.
        role: A name of `ROLES`.
        dashed: Whether it is dashed.
        until: Where the shading above the line ends, of the shape of `y`, if it is shaded.
    """

    x: Any
    y: Any
    role: str
    dashed: bool = False
    until: Any = None


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of a plane.

    Args:
        x: Its first coordinate.
        y: Its second coordinate.
        role: A name of `ROLES`.
        note: What stands beside it.
        shift: Where the note stands, in points from it.
    """

    x: float
    y: float
    role: str
    note: str = ""
    shift: tuple[float, float] = (6.0, 0.0)


@dataclass(frozen=True, slots=True)
class Plane(Panel):
    """Curves and points over two axes.

    Args:
        curves: The curves.
        dots: The points.
        captions: What else is said.
        frame: The left, right, lower and upper end of what is shown.
        square: Whether a unit has one length on both axes.
    """

    curves: Sequence[Curve]
    dots: Sequence[Dot]
    captions: Sequence[Caption]
    frame: tuple[float, float, float, float]
    square: bool = False

    def draw(self, axes: "Axes") -> None:
        for curve in self.curves:
            if curve.until is not None:
                axes.fill_between(curve.x, curve.y, curve.until, color=ROLES[curve.role], alpha=0.18, lw=0)
                continue
            axes.plot(curve.x, curve.y, color=ROLES[curve.role], lw=1.2, ls="--" if curve.dashed else "-")
        for dot in self.dots:
            axes.scatter(dot.x, dot.y, s=34, color=ROLES[dot.role], edgecolors="white", linewidths=0.6, zorder=3)
            side = "right" if dot.shift[0] < 0 else "left"
            label = axes.annotate(dot.note, (dot.x, dot.y), dot.shift, textcoords="offset points", ha=side)
            label.set(va="center", fontsize=7.5, color=ROLES[dot.role], parse_math=False)
        _draw_captions(axes, self.captions)
        axes.set_xlim(*self.frame[:2])
        axes.set_ylim(*self.frame[2:])
        axes.set_aspect("equal" if self.square else "auto")
