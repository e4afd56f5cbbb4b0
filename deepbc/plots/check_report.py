"""The figure of a check: the distribution of each noise, and how the noises depend on each other."""

__all__ = ["CheckDrawing", "plot_check"]

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from deepbc.plots.style import BLUE, GREY, ORANGE, RED, Axes, Figure, Path, entitle, new_figure, short, written

MOST_COLUMNS, MOST_HISTOGRAMS, MOST_NAMES = 4, 16, 20
# Of a histogram, in inches; and of a cell of the matrix.
WIDE, HIGH, CELL = 1.7, 1.45, 0.42
# In standard deviations of a count: 99 of 100 bars of a uniform distribution lie within.
BAND = 2.576
# From here on a cell is so dark that its number is white; and the darkest of all.
DARK, DARKEST = 0.3, 0.5
# By the grade of what is off.
COLOURS = {"strong": RED, "some": ORANGE, "negligible": GREY}
# The corners of a frame within a cell, around its middle.
FRAME = ((-0.46, -0.46), (0.46, -0.46), (0.46, 0.46), (-0.46, 0.46), (-0.46, -0.46))


@dataclass(frozen=True, slots=True)
class CheckDrawing:
    """What the figure of a check shows.

    Args:
        pits: By variable, the counts of its noise in equal parts of the distribution function.
        uneven: The variables whose noise is not what it should be, and the grade of that.
        strengths: How strongly the noise of a variable depends on that of another, by pair, from 0 to 1.
        related: The pairs where it clearly does, and the grade of that.
        expected: The pairs where it may, for a common cause that is known of.
        caption: What stands above it all.
    """

    pits: Mapping[str, Sequence[int]]
    uneven: Mapping[str, str]
    strengths: Mapping[tuple[str, str], float]
    related: Mapping[tuple[str, str], str]
    expected: Collection[tuple[str, str]]
    caption: str


def plot_check(drawing: CheckDrawing, path: Path | None) -> Figure:
    """Draws a histogram for each noise, which should be flat, and a matrix of dependence, which should be pale."""
    names = list(drawing.pits)[:MOST_HISTOGRAMS]
    columns = min(MOST_COLUMNS, max(1, math.ceil(math.sqrt(len(names)))))
    bands = max(1, math.ceil(len(names) / columns))
    later, earlier = _sides(drawing)
    side = max(2.4, CELL * max(len(later), len(earlier)) + 1.3) if later else 0.0
    figure = new_figure(max(3.6, WIDE * columns + side), max(2.6, HIGH * bands + 0.5, side))
    figure.suptitle(drawing.caption, fontsize=9)

    parts = figure.subfigures(1, 2 if later else 1, squeeze=False, width_ratios=[WIDE * columns, *[side] * bool(later)])
    for i, name in enumerate(names):
        _draw_pit(parts[0, 0].add_subplot(bands, columns, i + 1), name, drawing)
    some = f" (first {len(names)} of {len(drawing.pits)})" if len(names) < len(drawing.pits) else ""
    parts[0, 0].supxlabel(f"distribution function of the noise: flat if right{some}", fontsize=8)
    if later:
        _draw_matrix(parts[0, 1].add_subplot(), later, earlier, drawing)

    return written(figure, path)


def _sides(drawing: CheckDrawing) -> tuple[list[str], list[str]]:
    """The rows and the columns of the matrix: the later and the earlier of each pair, causes first."""
    later = list(dict.fromkeys(pair[0] for pair in drawing.strengths))
    earlier = list(dict.fromkeys(pair[1] for pair in drawing.strengths))

    return later[:MOST_NAMES], earlier[:MOST_NAMES]


def _draw_pit(axes: Axes, name: str, drawing: CheckDrawing) -> None:
    """Draws the counts as parts of what they should be, and the lines between which sampling alone leaves 99 of 100."""
    counts = drawing.pits[name]
    expected = sum(counts) / len(counts)
    grade = drawing.uneven.get(name, "")
    places = [(k + 0.5) / len(counts) for k in range(len(counts))]
    axes.bar(
        places, [count / expected for count in counts], 0.9 / len(counts), color=COLOURS.get(grade, BLUE), alpha=0.75
    )
    band = BAND * math.sqrt((1 - 1 / len(counts)) / expected)
    for edge in (1 - band, 1 + band):
        axes.axhline(edge, color="black", lw=0.7, ls=(0, (4, 3)))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.1 * max(1.4, 1 + band, max(counts) / expected))
    axes.set_xticks([0, 0.5, 1], ["0", "½", "1"], fontsize=7)
    axes.set_yticks([0, 1], ["0", "1"], fontsize=7)
    entitle(axes, f"{short(name)}: off, {grade}" if grade else short(name), 8)


def _draw_matrix(axes: Axes, later: Sequence[str], earlier: Sequence[str], drawing: CheckDrawing) -> None:
    """Draws the strength of each pair as a shade and a number; where it is clear, in a frame of the grade's colour."""
    shades = [[drawing.strengths.get((row, column), math.nan) for column in earlier] for row in later]
    axes.imshow(shades, cmap="Blues", vmin=0.0, vmax=DARKEST, aspect="equal")
    for i, row in enumerate(later):
        for k, column in enumerate(earlier):
            if (row, column) not in drawing.strengths:
                continue
            grade = drawing.related.get((row, column), "")
            colour = "white" if shades[i][k] > DARK else "black"
            weight = "bold" if grade else "normal"
            told = f"({shades[i][k]:.2f})" if (row, column) in drawing.expected else f"{shades[i][k]:.2f}"
            axes.text(k, i, told, ha="center", va="center", fontsize=6.5, color=colour, weight=weight)
            if grade:
                axes.plot(
                    [k + side for side, _ in FRAME], [i + side for _, side in FRAME], color=COLOURS[grade], lw=1.8
                )
    axes.set_xticks(range(len(earlier)), list(map(short, earlier)), rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(later)), list(map(short, later)))
    axes.tick_params(length=0, labelsize=8)
    for label in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        label.set_parse_math(False)
    axes.spines[:].set_visible(False)
    several = len({pair[0] for pair in drawing.strengths})
    some = f", first {len(later)} of {several}" if len(later) < several else ""
    expected = ";\nin brackets: expected" if drawing.expected else ""
    entitle(axes, f"dependence of noises\n(red: strong, orange: some{expected}{some})", 8)
