"""Figures of answers, of samples and of fits."""

__all__ = ["Drawing", "plot_counterfactual", "plot_fit", "plot_samples"]

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from deepbc.graph import CausalGraph
from deepbc.plots.causal_graph import draw_graph, sort_layers
from deepbc.plots.style import (
    BLUE,
    GREEN,
    GREY,
    RED,
    Axes,
    Figure,
    Path,
    draw_tiles,
    entitle,
    new_figure,
    short,
    written,
)

Curves = Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]]

MOST_IMAGES, MOST_SAMPLES = 4, 5
MOST_LINES, MOST_COLUMNS, MOST_BOXES = 100, 6, 16
# Axes of a single row reach so many standard deviations of the data to both sides.
SPAN = 1.5


def plot_fit(curves: Mapping[str, Curves], path: Path | None) -> Figure:
    """Draws the learning curves of each variable, its stages one after the other.

    Args:
        curves: For each variable and stage the losses after each epoch, on the rows learned from and held out.
        path: The file to write, if any.
    """
    trained = {name: stages for name, stages in curves.items() if stages}
    figure = new_figure(3.4 * max(1, len(trained)), 2.8)

    for i, (name, stages) in enumerate(trained.items()):
        axes = figure.add_subplot(1, len(trained), i + 1, xlabel="epoch")
        entitle(axes, short(name))
        start = 1
        for stage, (train, held_out) in stages.items():
            epochs = range(start, start + len(train))
            axes.plot(epochs, train, color=BLUE, lw=1, label="learned from" if start == 1 else None)
            axes.plot(epochs, held_out, color=RED, lw=1, label="held out" if start == 1 else None)
            axes.annotate(stage, (start, 1.0), xycoords=("data", "axes fraction"), fontsize=7, va="top", color=GREY)
            start += len(train)
        axes.legend(frameon=False, fontsize=8)
        axes.set_ylabel("loss (nats)" if i == 0 else "")

    return written(figure, path)


@dataclass(frozen=True, slots=True)
class Drawing:
    """What the figure of an answer shows.

    Args:
        graph: The causal graph.
        before: Factual values by variable, with shape `(rows, components)`, or that of images; codes for labels.
        after: Counterfactual values.
        labels: The labels of each variable that has any, in the order of their codes.
        moved: What each noise carried, with shape `(rows,)`.
        asked: The variables that were asked about.
        held: Which rows hold what was asked, with shape `(rows,)`.
        caption: What stands above it all.
        spread: The standard deviation in the data of each number of which it is known, with shape `(components,)`.
        whole: The variables whose values are whole numbers.
    """

    graph: CausalGraph
    before: Mapping[str, Tensor]
    after: Mapping[str, Tensor]
    labels: Mapping[str, Sequence[str]]
    moved: Mapping[str, Tensor]
    asked: Collection[str]
    held: Tensor
    caption: str
    spread: Mapping[str, Sequence[float]] = field(default_factory=dict)
    whole: Collection[str] = ()


def plot_counterfactual(drawing: Drawing, path: Path | None) -> Figure:
    """Draws each variable from factual to counterfactual, what each noise carried, and the graph coloured by that."""
    names = tuple(drawing.after)
    columns = min(len(names), MOST_COLUMNS)
    bands = math.ceil(len(names) / MOST_COLUMNS)
    layers = sort_layers(drawing.graph)
    low = max(2.6, 0.24 * len(names) + 0.8, 0.55 * max(map(len, layers)) + 0.6)
    wide = min(max(3.0, 1.15 * len(layers)), 12.0)
    figure = new_figure(max(6.6, 1.7 * columns, wide + 3.0), 2.3 * bands + low)
    upper, lower = figure.subfigures(2, 1, height_ratios=[2.3 * bands, low], squeeze=False).flat
    figure.suptitle(drawing.caption, fontsize=9)

    for i, name in enumerate(names):
        _draw_change(upper.add_subplot(bands, columns, i + 1), drawing, name)

    grid = lower.add_gridspec(1, 2, width_ratios=[2.4, wide])
    # What rows moved that hold nothing would drown what the others did.
    counted = drawing.held if drawing.held.any() else torch.ones_like(drawing.held)
    heights = {name: _mean(each[counted]) for name, each in drawing.moved.items()}
    colours = _colours(heights)
    _draw_bars(lower.add_subplot(grid[0]), heights, colours, drawing)
    axes = lower.add_subplot(grid[1])
    draw_graph(axes, drawing.graph, layers, colours, drawing.asked)
    entitle(axes, "who carried it (ring: asked)")
    # Arrows that bend around a wide graph may reach its title.
    axes.title.set(bbox={"color": "white", "alpha": 0.8, "lw": 0, "pad": 1.0}, zorder=5)

    return written(figure, path)


def plot_samples(drawing: Drawing, path: Path | None) -> Figure:
    """Draws the marginals of samples: a histogram of a single row, a box of each of the first few rows, some images.

    Args:
        drawing: What to show; what is after has a leading axis of samples.
        path: The file to write, if any.
    """
    before, after = drawing.before, drawing.after
    names = tuple(after)
    columns = min(len(names), MOST_COLUMNS)
    bands = math.ceil(len(names) / MOST_COLUMNS)
    figure = new_figure(max(4.4, 2.4 * columns), 2.4 * bands + 0.3)
    figure.suptitle(drawing.caption, fontsize=9)

    for i, name in enumerate(names):
        axes = figure.add_subplot(bands, columns, i + 1)
        entitle(axes, f"{short(name)} *" if name in drawing.asked else short(name))
        axes.tick_params(labelsize=8)
        if before[name].ndim > 2:
            tiles = torch.cat([before[name].unsqueeze(0), after[name][:MOST_SAMPLES]])
            draw_tiles(axes, tiles.transpose(0, 1)[:MOST_IMAGES], "factual (left), and samples")
            continue
        # A component of a row is a distribution of its own.
        points, drawn = before[name].flatten()[:MOST_BOXES], after[name].flatten(1)[:, :MOST_BOXES]
        if name in drawing.labels:
            _draw_shares(axes, points, drawn, drawing.labels[name])
        elif len(points) == 1:
            _draw_histogram(axes, points[0].item(), drawn[:, 0], whole=name in drawing.whole)
            _span_spread(axes.set_xlim, drawing.spread.get(name, ()), torch.cat([points, drawn[:, 0]])[:, None])
        elif len(points):
            _draw_boxes(axes, points, drawn)

    return written(figure, path)


def _draw_histogram(axes: Axes, point: float, drawn: Tensor, *, whole: bool) -> None:
    """Draws the samples of one number, or a line where all are the same; bins of whole numbers have as many each."""
    finite = drawn[drawn.isfinite()]
    if len(finite) and finite.max() - finite.min() > 1e-9 * (1 + finite.abs().max()):
        most = min(40, 5 + int(len(finite) ** 0.5))
        bins = _whole_bins(finite.min().item(), finite.max().item(), most) if whole else most
        axes.hist(finite.numpy(), bins=bins, color=GREEN, alpha=0.6, lw=0)
    elif len(finite):
        axes.axvline(finite[0].item(), color=GREEN, lw=2)
    axes.axvline(point, color=RED, lw=1, ls="--")
    axes.set_yticks([])
    axes.set_xlabel("samples (red: factual)", fontsize=7)


def _whole_bins(low: float, high: float, most: int) -> list[float]:
    """The ends of at most so many bins, each around as many whole numbers."""
    count = round(high - low) + 1
    width = math.ceil(count / most)

    return [low - 0.5 + k * width for k in range(math.ceil(count / width) + 1)]


def _draw_boxes(axes: Axes, points: Tensor, drawn: Tensor) -> None:
    """Draws a box for each number: quartiles, and the 5 and 95 % quantiles."""
    places = range(len(points))
    parts = [each[each.isfinite()].numpy() for each in drawn.unbind(1)]
    style = {"color": GREEN, "lw": 0.8}
    axes.boxplot(
        parts, positions=places, whis=(5, 95), showfliers=False, widths=0.6, boxprops=style, whiskerprops=style,
        capprops=style, medianprops={"color": GREEN, "lw": 1.6}, manage_ticks=False,
    )  # fmt: skip
    axes.plot(places, points, "o", color=RED, ms=3)
    axes.set_xticks([])
    axes.set_xlabel(f"first {len(points)} rows, and the factual value (red)", fontsize=7)


def _draw_shares(axes: Axes, points: Tensor, drawn: Tensor, labels: Sequence[str]) -> None:
    """Draws the share of each label: of one row as bars, of several as dots of that size."""
    codes = range(len(labels))
    shares = torch.stack([(drawn == code).double().mean(0) for code in codes])
    axes.set_yticks(codes, list(map(short, labels)), fontsize=8, parse_math=False)
    axes.set_ylim(-0.6, len(labels) - 0.4)
    if len(points) == 1:
        axes.barh(codes, shares[:, 0].tolist(), 0.6, color=GREEN, alpha=0.6)
        axes.plot([0.0], points, "o", color=RED, ms=5, clip_on=False)
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of samples (red: factual)", fontsize=7)
        return

    rows = torch.arange(len(points)).expand_as(shares)
    heights = torch.arange(len(labels)).unsqueeze(-1).expand_as(shares)
    places, sizes = (rows.flatten().numpy(), heights.flatten().numpy()), 90 * shares.flatten().numpy()
    axes.scatter(*places, s=sizes, color=GREEN, alpha=0.6, lw=0)
    axes.plot(range(len(points)), points, "o", color=RED, ms=3)
    axes.set_xticks([])
    axes.set_xlabel(f"first {len(points)} rows, and the factual label (red)", fontsize=7)


def _draw_change(axes: Axes, drawing: Drawing, name: str) -> None:
    """Draws the first rows of one variable, each component a line; a row that does not hold has crosses."""
    if drawing.after[name].ndim > 2:
        entitle(axes, f"{short(name)} *" if name in drawing.asked else short(name))
        tiles = torch.stack([drawing.before[name], drawing.after[name]], dim=1)
        draw_tiles(axes, tiles[:MOST_IMAGES], "factual, counterfactual")
        return
    components = drawing.after[name].shape[-1]
    rows = max(1, MOST_LINES // max(1, components))
    pairs = torch.stack([drawing.before[name][:rows], drawing.after[name][:rows]])
    faint = max(0.2, 1 / math.sqrt(max(1, pairs[0].numel())))
    if name in drawing.labels:
        # Rows of one label lie apart, in the order of the rows.
        pairs = pairs + torch.linspace(-0.2, 0.2, pairs.shape[1]).unsqueeze(-1) * (pairs.shape[1] > 1)
        labels = drawing.labels[name]
        axes.set_yticks(range(len(labels)), list(map(short, labels)), parse_math=False)
        axes.set_ylim(-0.5, len(labels) - 0.5)

    for held, mark in ((True, "o"), (False, "x")):
        lines = pairs[:, drawing.held[:rows] == held].reshape(2, -1).numpy()
        axes.plot([0, 1], lines, color=GREY, lw=0.8, alpha=faint)
        axes.plot([0] * lines.shape[1], lines[0], mark, color=RED, ms=4)
        axes.plot([1] * lines.shape[1], lines[1], mark, color=GREEN, ms=4)
    if pairs.shape[1] == 1 and name not in drawing.labels:
        _span_spread(axes.set_ylim, drawing.spread.get(name, ()), pairs[:, 0])
    if name in drawing.whole:
        axes.locator_params(axis="y", integer=True)
    title = short(name) + ("" if components == 1 else f" ({components} components)")
    entitle(axes, f"{title} *" if name in drawing.asked else title)
    axes.set_xticks([0, 1], ["factual", "counter-\nfactual"], fontsize=8)
    axes.tick_params(labelsize=8)
    axes.set_xlim(-0.3, 1.3)


def _span_spread(set_limits: Callable[[float, float], Any], spread: Sequence[float], values: Tensor) -> None:
    """Sets limits so far around values `(values, components)` that what is little in the data looks like little."""
    if not len(spread) or not len(values) or not values.isfinite().all():
        return
    lows, highs = values.double().aminmax(dim=0)
    reach = torch.maximum(SPAN * torch.tensor(spread, dtype=torch.float64), 0.55 * (highs - lows))
    middle = (lows + highs) / 2
    set_limits((middle - reach).amin().item(), (middle + reach).amax().item())


def _draw_bars(axes: Axes, heights: Mapping[str, float], colours: Mapping[str, Any], drawing: Drawing) -> None:
    places = range(len(heights))
    axes.barh(places, list(heights.values()), 0.6, color=list(colours.values()), edgecolor=GREY, lw=0.6)
    labels = [f"{short(name)} *" if name in drawing.asked else short(name) for name in heights]
    axes.set_yticks(places, labels, fontsize=8, parse_math=False)
    axes.tick_params(labelsize=8)
    axes.set_xlim(0, 1.05 * max(heights.values()) or 1.0)
    axes.invert_yaxis()
    some = drawing.held.any() and not drawing.held.all()
    mean = "mean distance of rows that hold" if some else "mean distance"
    entitle(axes, f"moved ({'distance' if len(drawing.held) == 1 else mean})")


def _mean(rows: Tensor) -> float:
    """The mean of the numbers among the rows, 0 if there are none."""
    return rows[rows.isfinite()].mean().item() if rows.isfinite().any() else 0.0


def _colours(heights: Mapping[str, float]) -> dict[str, Any]:
    """White where nothing moved, and darker where more did."""
    from matplotlib import colormaps

    most = max(heights.values(), default=0.0) or 1.0

    return {name: colormaps["Blues"](0.8 * height / most) for name, height in heights.items()}
