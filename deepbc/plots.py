"""Figures. The one door to matplotlib, which is an extra and is loaded on first use."""

__all__ = ["plot_counterfactual", "plot_fit", "plot_plane"]

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from deepbc.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Path = str | os.PathLike[str]
Curves = Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]]

BLUE, RED, GREEN, GREY = "#4c72b0", "#c0392b", "#2e8b57", "#7f7f7f"
MOST_LINES = 100


def plot_fit(curves: Mapping[str, Curves], path: Path | None) -> "Figure":
    """Draws the learning curves of each variable, its stages one after the other.

    Args:
        curves: For each variable and stage the losses after each epoch, on the rows learned from and held out.
        path: The file to write, if any.
    """
    trained = {name: stages for name, stages in curves.items() if stages}
    figure = _figure(3.4 * max(1, len(trained)), 2.8)

    for i, (name, stages) in enumerate(trained.items()):
        axes = figure.add_subplot(1, len(trained), i + 1, title=name, xlabel="epoch")
        start = 1
        for stage, (train, held_out) in stages.items():
            epochs = range(start, start + len(train))
            axes.plot(epochs, train, color=BLUE, lw=1, label="learned from" if start == 1 else None)
            axes.plot(epochs, held_out, color=RED, lw=1, label="held out" if start == 1 else None)
            axes.annotate(stage, (start, 1.0), xycoords=("data", "axes fraction"), fontsize=7, va="top", color=GREY)
            start += len(train)
        axes.legend(frameon=False, fontsize=8)
        axes.set_ylabel("loss (nats)" if i == 0 else "")

    return _written(figure, path)


def plot_counterfactual(
    values: Mapping[str, Tensor],
    factual: Mapping[str, Tensor],
    moved: Mapping[str, Tensor],
    antecedent: Mapping[str, Tensor],
    batch: torch.Size,
    path: Path | None,
) -> "Figure":
    """Draws each variable from factual to counterfactual, in its own units, and what each noise carried.

    Args:
        values: Counterfactual values by variable, with shape `(*batch, *shape)`.
        factual: Factual values by variable.
        moved: What each noise carried, with shape `(*batch,)`.
        antecedent: The variables that were asked about.
        batch: The batch shape.
        path: The file to write, if any.
    """
    figure = _figure(1.7 * len(values) + 2.6, 2.8)
    ratios = [1.0] * len(values) + [1.4]
    grid = figure.add_gridspec(1, len(values) + 1, width_ratios=ratios)

    for i, name in enumerate(values):
        axes = figure.add_subplot(grid[i], title=f"{name} *" if name in antecedent else name)
        pairs = torch.stack([factual[name], values[name]]).reshape(2, -1)[:, :MOST_LINES].numpy()
        axes.plot([0, 1], pairs, color=GREY, lw=0.8, alpha=max(0.2, 1 / math.sqrt(max(1, pairs.shape[1]))))
        axes.plot([0] * pairs.shape[1], pairs[0], "o", color=RED, ms=4)
        axes.plot([1] * pairs.shape[1], pairs[1], "o", color=GREEN, ms=4)
        axes.set_xticks([0, 1], ["factual", "counter-\nfactual"], fontsize=8)
        axes.set_xlim(-0.3, 1.3)

    axes = figure.add_subplot(grid[len(values)], title="moved (distance)")
    heights = [moved[name].mean().item() if batch.numel() else 0.0 for name in moved]
    axes.barh(list(moved), heights, color=[GREEN if name in antecedent else BLUE for name in moved])
    axes.invert_yaxis()

    return _written(figure, path)


def plot_plane(
    cloud: tuple[Tensor, Tensor],
    factual: tuple[Tensor, Tensor],
    counterfactual: tuple[Tensor, Tensor],
    names: tuple[str, str],
    path: Path | None,
) -> "Figure":
    """Draws two variables against each other: data as a cloud, factual points and where the answers put them.

    Args:
        cloud: Many points of the data, each with shape `(rows,)`.
        factual: The factual points.
        counterfactual: The counterfactual points.
        names: The names of the axes.
        path: The file to write, if any.
    """
    figure = _figure(4.4, 3.4)
    axes = figure.add_subplot(xlabel=names[0], ylabel=names[1])
    axes.scatter(*cloud, s=3, color=BLUE, alpha=0.15, lw=0)
    axes.scatter([], [], s=22, color=BLUE, alpha=0.5, lw=0, label="data")
    for x, y, x_star, y_star in zip(*factual, *counterfactual, strict=True):
        axes.annotate("", (x_star, y_star), (x, y), arrowprops={"arrowstyle": "->", "color": GREY, "lw": 0.8})
    axes.scatter(*factual, s=22, color=RED, label="factual", zorder=3)
    axes.scatter(*counterfactual, s=22, color=GREEN, label="interventional", zorder=3)
    axes.legend(frameon=False, fontsize=8)

    return _written(figure, path)


def _figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise SettingError("Figures need matplotlib. Install it with: pip install 'deepbc[plot]'.") from error

    return Figure(figsize=(width, height), layout="constrained", dpi=150)


def _written(figure: "Figure", path: Path | None) -> "Figure":
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    if path is not None:
        figure.savefig(path)

    return figure
