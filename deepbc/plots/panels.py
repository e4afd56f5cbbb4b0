"""Figures of several panels, in the paper's colours: dots on a density, lines, boxes, bars, pictures and tables."""

__all__ = ["Bars", "Boxes", "Cells", "Lines", "Panel", "Pictures", "Scatter", "plot_panels"]

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from deepbc.plots.style import BLUE, GREEN, GREY, RED, Axes, Figure, Path, draw_tiles, entitle, new_figure, written

# Where both kinds of answers are one, both are seen.
DOTS = {"backtracking": (GREY, 26), "interventional": (GREEN, 10), "factual": (RED, 26)}
ORANGE, VIOLET = "#e08a1e", "#7a4fa3"
# Of a panel, in inches; and the width of a page.
WIDE, HIGH, PAGE = 2.3, 2.0, 7.0
# The number of panels side by side from which titles are smaller.
CROWD = 4


@dataclass(frozen=True, slots=True)
class Panel(ABC):
    """One of several small figures.

    Args:
        title: What it shows.
        names: The names of the axes, with their units.
    """

    title: str
    names: tuple[str, str]

    # Whether it has a legend of its own; whether panels side by side have the same axes.
    has_legend: ClassVar[bool] = False
    shares_axes: ClassVar[bool] = False

    @abstractmethod
    def draw(self, axes: Axes) -> None:
        """Draws the panel; what belongs into a legend has a label."""


@dataclass(frozen=True, slots=True)
class Scatter(Panel):
    """Two variables against each other.

    Args:
        cloud: Points of the data, whose density is shaded, if any.
        dots: What lies on it: two columns, by colour (`"factual"`, `"backtracking"` or `"interventional"`).
    """

    shares_axes: ClassVar[bool] = True

    cloud: tuple[Any, Any] | None
    dots: Sequence[tuple[str, Any, Any]]

    def draw(self, axes: Axes) -> None:
        if self.cloud:
            axes.hexbin(*self.cloud, gridsize=28, cmap="Blues", mincnt=1, linewidths=0, bins="log")
        for kind, x, y in self.dots:
            colour, size = DOTS[kind]
            axes.scatter(x, y, s=size, color=colour, edgecolors="white", linewidths=0.4, label=kind, zorder=3)


@dataclass(frozen=True, slots=True)
class Lines(Panel):
    """Lines over a common axis, on a logarithmic scale; one that is a single number is drawn across, dashed."""

    has_legend: ClassVar[bool] = True

    lines: Mapping[str, tuple[Any, Any]]

    def draw(self, axes: Axes) -> None:
        colours = (BLUE, ORANGE, VIOLET, GREY, GREEN)
        for (label, (x, y)), colour in zip(self.lines.items(), colours, strict=False):
            if len(y) == 1:
                axes.axhline(y[0], color=colour, lw=1.2, ls="--", label=label)
            else:
                axes.plot(x, y, color=colour, lw=1.2, label=label)
        axes.set_yscale("log")


@dataclass(frozen=True, slots=True)
class Boxes(Panel):
    """Boxes over places: the quartiles of many numbers, and their 5 and 95 % quantiles.

    Args:
        places: Where the boxes stand.
        boxes: For each kind, and each place, the numbers.
        line: What goes across, if anything: a label and a number.
    """

    has_legend: ClassVar[bool] = True

    places: Sequence[float]
    boxes: Mapping[str, Sequence[Any]]
    line: tuple[str, float] | None = None

    def draw(self, axes: Axes) -> None:
        gap = (max(self.places) - min(self.places)) / max(1, len(self.places) - 1) or 1.0
        width = 0.8 * gap / len(self.boxes)
        for k, ((label, parts), colour) in enumerate(zip(self.boxes.items(), (GREY, ORANGE, BLUE), strict=False)):
            style = {"color": colour, "lw": 0.9}
            shifted = [place + (k - (len(self.boxes) - 1) / 2) * width for place in self.places]
            axes.boxplot(
                parts, positions=shifted, whis=(5, 95), showfliers=False, widths=0.8 * width, manage_ticks=False,
                boxprops=style, whiskerprops=style, capprops=style, medianprops={"color": colour, "lw": 1.8},
            )  # fmt: skip
            axes.plot([], [], color=colour, lw=1.8, label=label)
        if self.line:
            axes.axhline(self.line[1], color=RED, lw=1, ls="--", label=self.line[0])


@dataclass(frozen=True, slots=True)
class Bars(Panel):
    """Shares from 0 to 1 as bars that lie one below the other.

    Args:
        shares: What stands left of each bar, and how long it is; from above.
    """

    shares: Mapping[str, float]

    def draw(self, axes: Axes) -> None:
        places = range(len(self.shares))
        axes.barh(places, list(self.shares.values()), color=BLUE, height=0.7)
        axes.set_yticks(places, list(self.shares))
        for label in axes.get_yticklabels():
            label.set_parse_math(False)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)


@dataclass(frozen=True, slots=True)
class Pictures(Panel):
    """Images in rows and columns.

    Args:
        tiles: The images, with shape `(rows, columns, height, width)`, or with an axis of colours first or last.
        columns: What stands above each column.
        rows: What stands left of each row.
        notes: What stands in each image.
    """

    tiles: Tensor
    columns: Sequence[str] = ()
    rows: Sequence[str] = ()
    notes: Sequence[Sequence[str]] = ()

    def draw(self, axes: Axes) -> None:
        height, width = draw_tiles(axes, self.tiles)
        axes.set_xticks([width * (k + 0.5) - 0.5 for k in range(len(self.columns))], self.columns, fontsize=7)
        axes.set_yticks([height * (k + 0.5) - 0.5 for k in range(len(self.rows))], self.rows, fontsize=7)
        axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
        for label in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
            label.set_parse_math(False)
        for i, notes in enumerate(self.notes):
            for k, note in enumerate(notes):
                axes.text(width * k + 1.5, height * (i + 1) - 2.5, note, fontsize=5, color="white", parse_math=False)


@dataclass(frozen=True, slots=True)
class Cells(Panel):
    """A table of text.

    Args:
        columns: The names of the columns, of which the first names the rows.
        cells: The rows.
    """

    columns: Sequence[str]
    cells: Sequence[Sequence[str]]

    def draw(self, axes: Axes) -> None:
        axes.set_axis_off()
        table = axes.table(
            [list(row) for row in self.cells], colLabels=list(self.columns), loc="center", edges="horizontal"
        )
        table.auto_set_font_size(False)
        table.set_fontsize(7)
        table.auto_set_column_width(range(len(self.columns)))
        table.scale(1.0, 1.25)
        taller = 1 + 0.6 * max(name.count("\n") for name in self.columns)
        for (row, column), cell in table.get_celld().items():
            cell.set_linewidth(0.5)
            cell.set_height(cell.get_height() * (taller if row == 0 else 1.0))
            cell.get_text().set(ha="left" if column == 0 else "right", fontweight="bold" if row == 0 else "normal")


def plot_panels(
    bands: Sequence[Sequence[Panel]],
    *,
    width: float | None = None,
    heights: Sequence[float] | None = None,
    path: Path | None = None,
) -> Figure:
    """Draws panels in bands, one below the other.

    Args:
        bands: The panels of each band.
        width: The width of the figure, in inches; by default that of as many panels as the longest band has, or of a
            page.
        heights: The height of each band, in inches.
        path: The file to write, if any.
    """
    heights = heights or [HIGH] * len(bands)
    figure = new_figure(width or min(PAGE, WIDE * max(map(len, bands))), sum(heights))
    parts = figure.subfigures(len(bands), 1, squeeze=False, height_ratios=heights).flat
    for part, band in zip(parts, bands, strict=True):
        for i, panel in enumerate(band):
            # What has the axes of the panel before has them once.
            same = i > 0 and panel.shares_axes and panel.names == band[i - 1].names
            axes = part.add_subplot(1, len(band), i + 1, sharey=part.axes[-1] if same else None)
            entitle(axes, panel.title, 9 if len(band) < CROWD else 7)
            panel.draw(axes)
            axes.tick_params(which="both", labelsize=7, **({"labelleft": False} if same else {}))
            axes.set_xlabel(panel.names[0], fontsize=8)
            axes.set_ylabel("" if same else panel.names[1], fontsize=8)
            if i == 0 and panel.has_legend:
                axes.legend(frameon=False, fontsize=6, loc="best", handletextpad=0.3)
    _tell(figure)

    return written(figure, path)


def _tell(figure: Figure) -> None:
    """Names, once below all panels, what no legend of theirs does."""
    if any(axes.get_legend() for axes in figure.axes):
        return

    handles: dict[str, Any] = {}
    for axes in figure.axes:
        handles |= {str(label): handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if handles:
        style: dict[str, Any] = {"ncols": len(handles), "frameon": False, "fontsize": 7}
        figure.legend([*handles.values()], [*handles], loc="outside lower center", **style)
