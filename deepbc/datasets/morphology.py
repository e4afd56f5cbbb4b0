r"""Strokes: how thick and how bright they are, and the same digit drawn thicker, thinner, brighter or darker.

Ink is what is at least as bright as the middle of an image's grey range. Its intensity is the median of its grey
values. Its thickness is measured on the image enlarged four times,

.. math::

    t = \tfrac{2}{4} \, \mathrm{mean}_{p \in M} \, d(p),

with :math:`M` the skeleton of the ink and :math:`d` the distance to the nearest pixel that is no ink. A perfectly
upright bar measures in steps of half a pixel; a hand is never that straight.

A stroke is made thicker or thinner by dilation or erosion with a disk of radius :math:`r`. That is a threshold on the
signed distance :math:`s` from its edge, so the radius need not be a whole number, and :math:`r = (t^* - t) / 2` is a
first guess for the thickness :math:`t^*`.

Departures from the published programs. Measuring: they smooth the enlarged image and take its medial axis; the skeleton
is many times faster and here no farther from the published tables. Redrawing: they enlarge 16 times and stop at the
first guess, cut to whole pixels; here the radius is corrected until the image measures as wanted, what erosion would
tear keeps a line along its skeleton, and grey values are rounded, not cut. A set built here is not the published one.

This is the one door to scikit-image, which is an extra and is loaded on first use.

References:
    Morpho-MNIST: Quantitative Assessment and Diagnostics for Representation Learning (Castro et al., 2019): how
        thickness is measured.
    Deep Structural Causal Models for Tractable Counterfactual Inference (Pawlowski et al., 2020), the
        appendix on Morpho-MNIST: how thickness and intensity are set.
"""

__all__ = ["measure_intensity", "measure_thickness", "redraw"]

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepbc._validation import check_batches, check_images, check_range
from deepbc.data.reading import read_column
from deepbc.errors import SettingError
from deepbc.progress import progress

Array = NDArray[Any]

SCALE, WHITE = 4, 255.0
# A line along the skeleton, in parts of the wanted thickness: without one, the thinnest digits fall apart; one as wide
# as the stroke leaves erosion no room. Chosen by eye; on 300 digits 0.5, 0.65 and 0.8 miss the thickness about alike.
LINE = 0.65
# How often a radius and an exposure are corrected, and the miss of thickness, in pixels, that is good enough.
RADII, EXPOSURES, CLOSE = 8, 5, 0.02


def measure_intensity(images: Any) -> Tensor:
    """Measures the grey value of the ink.

    Args:
        images: Grey values from 0 to 255, with shape `(*batch, height, width)`.

    Returns:
        The intensity of each image, with shape `(*batch,)`.
    """
    return _each(_intensity, check_images(images, "images"))


def measure_thickness(images: Any) -> Tensor:
    """Measures the mean thickness of strokes, in pixels; images and result are those of `measure_intensity`."""
    return _each(_thickness, check_images(images, "images"))


def redraw(images: Any, thickness: Any, intensity: Any, *, show: bool | None = None) -> Tensor:
    """Draws the same digits with other thickness and intensity, as near to the wanted ones as it finds.

    Args:
        images: Grey values from 0 to 255, with shape `(*batch, height, width)`, or one image for all.
        thickness: The wanted thickness in pixels, with shape `(*batch,)` or `()`.
        intensity: The wanted intensity, from 1 to 255, with shape `(*batch,)` or `()`.
        show: Whether to show the progress; None shows it where standard error is a terminal.

    Returns:
        The images, uint8, with shape `(*batch, height, width)`. An image depends on its own row alone.
    """
    array = check_images(images, "images")
    t, i = read_column(thickness, "'thickness'"), read_column(intensity, "'intensity'")
    batch = check_batches({"images": array.shape[:-2], "thickness": tuple(t.shape), "intensity": tuple(i.shape)})
    check_range(t, 0.1, math.inf, "'thickness'")
    check_range(i, 1, WHITE, "'intensity'")

    drawn = np.empty((*batch, *array.shape[-2:]), np.uint8)
    wanted = zip(t.expand(batch).flatten().tolist(), i.expand(batch).flatten().tolist(), strict=True)
    rows = np.broadcast_to(array, drawn.shape).reshape(-1, *array.shape[-2:])
    with progress("Drawing", len(rows), show) as bar:
        for place, image, pair in zip(np.ndindex(*batch), rows, wanted, strict=True):
            drawn[place] = _redrawn(image.astype(np.float64), *pair)
            bar.advance()

    return torch.from_numpy(drawn)


def _each(measure: Callable[[Array], float], images: Array) -> Tensor:
    rows = images.reshape(-1, *images.shape[-2:])
    measured = [measure(row.astype(np.float64)) for row in rows]

    return torch.tensor(measured, dtype=torch.float64).reshape(images.shape[:-2])


def _redrawn(image: Array, t: float, i: float) -> Array:
    """Corrects the radius by how much the image misses the wanted thickness, inside the bracket that is known."""
    stroke = _stroke(image)
    radius, low, high = SCALE / 2 * (t - _thickness(image)), -math.inf, math.inf
    best, least = image, math.inf

    for _ in range(RADII):
        drawn = _exposed(stroke.inked(radius, LINE * SCALE * t / 2), i)
        miss = t - _thickness(drawn)
        if abs(miss) < least:
            best, least = drawn, abs(miss)
        if least < CLOSE:
            break
        low, high = (radius, high) if miss > 0 else (low, radius)
        step = radius + SCALE / 2 * miss
        radius = step if low < step < high else (low + high) / 2

    return best


class _Stroke(NamedTuple):
    """The enlarged image's signed distance to the edge of its ink, negative inside, and distance to its skeleton."""

    edge: Array
    skeleton: Array

    def inked(self, radius: float, line: float) -> Array:
        """How much of each pixel of the image is ink, from 0 to 1."""
        # A ramp one enlarged pixel wide, so that the image moves smoothly with the radius.
        covered = np.clip(np.maximum(radius - self.edge, line - self.skeleton) + 0.5, 0, 1)
        height, width = covered.shape
        blocks = covered.reshape(height // SCALE, SCALE, width // SCALE, SCALE)

        return np.asarray(blocks.mean((1, 3)))


def _stroke(image: Array) -> _Stroke:
    tools, ink = _tools(), _enlarged_ink(image)
    # The edge lies half way between a pixel of ink and its neighbour.
    edge = np.where(ink, 0.5 - tools.distance(np.pad(ink, 1))[1:-1, 1:-1], tools.distance(~ink) - 0.5)

    return _Stroke(edge, tools.distance(~tools.skeletonize(ink)))


def _exposed(covered: Array, i: float) -> Array:
    """Scales to the wanted intensity; again where the cut at white lowers the bar for ink, and with it the median."""
    tries, gain = [], i / _intensity(covered)
    for _ in range(EXPOSURES):
        tries.append(np.rint(np.minimum(gain * covered, WHITE)))
        came = _intensity(tries[-1])
        if abs(came - i) <= 0.5:  # half a grey value is what rounding leaves
            return tries[-1]
        gain *= i / came

    return min(tries, key=lambda image: abs(_intensity(image) - i))


def _intensity(image: Array) -> float:
    return float(np.median(image[image >= _middle(image)]))


def _thickness(image: Array) -> float:
    ink = _enlarged_ink(image)
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    # Only what holds ink, which is faster, and a border, where an image ends and its ink with it.
    ink = np.pad(ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], 1)
    tools = _tools()

    return float(2 * tools.distance(ink)[tools.skeletonize(ink)].mean() / SCALE)


def _enlarged_ink(image: Array) -> Array:
    """Enlarges by cubic splines; they are linear in the grey values along each axis, so two matrices do."""
    rows, columns = (_enlargement(length) for length in image.shape)

    return np.asarray(rows @ image @ columns.T >= _middle(image))


def _middle(image: Array) -> float:
    return float(image.min() + image.max()) / 2


@functools.cache
def _enlargement(length: int) -> Array:
    unit = np.eye(length)

    return np.asarray(_tools().resize(unit, (SCALE * length, length), order=3, mode="constant", clip=False))


class _Tools(NamedTuple):
    distance: Callable[..., Array]
    skeletonize: Callable[..., Array]
    resize: Callable[..., Array]


@functools.cache
def _tools() -> _Tools:
    try:
        from scipy.ndimage import distance_transform_edt
        from skimage.morphology import skeletonize
        from skimage.transform import resize
    except ModuleNotFoundError as error:
        raise SettingError("Strokes need scikit-image. Install it with: pip install 'deepbc[data]'.") from error

    return _Tools(distance_transform_edt, skeletonize, resize)
