"""What all figures share: a canvas, colours, titles, tiles of images, and writing to a file."""

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "RED",
    "Axes",
    "Figure",
    "Path",
    "check_plots",
    "draw_tiles",
    "entitle",
    "new_figure",
    "short",
    "written",
]

import os
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from deepbc._validation import CHANNELS
from deepbc.errors import SettingError, StorageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # for annotations: matplotlib is loaded when something is drawn
    Axes = Figure = Any

Path = str | os.PathLike[str]

BLUE, RED, GREEN, GREY, ORANGE = "#4c72b0", "#c0392b", "#2e8b57", "#7f7f7f", "#dd8452"
LONGEST_NAME = 14


def check_plots() -> None:
    """Checks that figures can be drawn; worth doing before the work that they are to show."""
    new_figure(1.0, 1.0)


def new_figure(width: float, height: float) -> Figure:
    """Creates an empty figure, of a size in inches."""
    try:
        from matplotlib import figure
    except ModuleNotFoundError as error:
        raise SettingError("Figures need matplotlib. Install it with: pip install 'deepbc[plot]'.") from error

    return figure.Figure(figsize=(width, height), layout="constrained", dpi=150)


def written(figure: Figure, path: Path | None) -> Figure:
    """Takes away what no axes need, and writes the file if there is a path."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    if path is not None:
        with warnings.catch_warnings():
            # A name in a script that the font lacks is drawn as boxes.
            for message in ("Glyph .* missing", ".*does not support .* natively"):
                warnings.filterwarnings("ignore", message, UserWarning)
            try:
                _save(figure, path)
            except OSError as error:
                reason = error.strerror or error
                raise StorageError(f"{path}: cannot be written ({reason}). Choose another.") from error

    return figure


def _save(figure: Figure, path: Path) -> None:
    """Writes the file; an SVG keeps its text as text, and is the same file whenever it is written."""
    from matplotlib import rc_context

    metadata = {"Date": None, "Creator": None} if os.fspath(path).endswith(".svg") else None
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "deepbc"}):
        figure.savefig(path, metadata=metadata)


def short(name: str, longest: int = LONGEST_NAME) -> str:
    """A name in one line, clipped if it is long."""
    line = " ".join(name.split())

    return line if len(line) <= longest else f"{line[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def entitle(axes: Axes, title: str, size: float = 9) -> None:
    """Sets a title as it stands; a name may hold a dollar sign."""
    axes.set_title(title, fontsize=size, parse_math=False)


def draw_tiles(axes: Axes, tiles: Tensor, caption: str = "") -> tuple[int, int]:
    """Draws images side by side, `(rows, columns, height, width)` or with an axis of colours first or last.

    Returns:
        The height and the width of a tile with its border, in units of the axes.
    """
    if tiles.ndim == 5 and tiles.shape[2] in CHANNELS:
        tiles = tiles.movedim(2, -1)
    tiles = (tiles if tiles.ndim == 5 else tiles.unsqueeze(-1)).nan_to_num()
    low, high = tiles.aminmax() if tiles.numel() else (0.0, 1.0)
    tiles = torch.nn.functional.pad((tiles - low) / max(high - low, 1e-12), (0, 0, 1, 1, 1, 1), value=1.0)
    whole = tiles.permute(0, 2, 1, 3, 4).flatten(2, 3).flatten(0, 1)
    whole = whole.expand(-1, -1, 3) if whole.shape[-1] == 1 else whole
    axes.imshow(whole.numpy(), interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_xlabel(caption, fontsize=7)

    return tiles.shape[2], tiles.shape[3]
