r"""Handwritten digits, drawn from strokes, so that the true counterfactual of an image is known.

A digit of class :math:`c` is a few curves: Catmull-Rom splines through the control points :math:`p_{cj}` of the class.
A hand moves the points, then the whole digit, by the standard-normal numbers :math:`z` of its form:

.. math::

    q_j &= p_{cj} + w z_j, \\
    r_j &= q_j + b (z_1 q_{jy}^2 + z_2 q_{jx} q_{jy}, \; z_3 q_{jx}^2 + z_4 q_{jx} q_{jy}), \\
    s_j &= R(\theta) \, K(\kappa) \, \mathrm{diag}(e^\alpha, e^\beta) \, r_j + \delta,

a wobble of each point, four bends of the plane, then size, slant, rotation and place. A style is a class and a form.
With :math:`d` the distance from the centre of a pixel to the curves, the grey value of the pixel is the intensity
:math:`i` times the part of a pixel that a straight stroke of thickness :math:`t` covers there,

.. math::

    x = \frac{i}{a} \min\bigl(\max(\tfrac{1}{2}(t + a) - d, \, 0), \, t, \, a\bigr),

with :math:`a` the side of a pixel. Lengths are in pixels of the 28 x 28 image, so :math:`a` is 1 unless the image is
drawn finer. Hence the middle of a stroke thicker than a pixel is as bright as the intensity, and the ink of a straight
stroke is linear in its thickness and in its intensity. These two follow the equations of
`deepbc.datasets.morphomnist_equations`, whatever the style. The image is a function of style, thickness and intensity:
its true counterfactual is the same style, drawn with the counterfactual thickness and intensity.

References:
    Deep Structural Causal Models for Tractable Counterfactual Inference (Pawlowski et al., 2020), section 4: the two
        equations and the graph.
    A Class of Local Interpolating Splines (Catmull and Rom, 1974): the curves.
"""

__all__ = ["GRAPH", "Digits", "Styles", "draw", "draw_styles", "sample", "truth"]

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_batches, check_count, check_names, check_range, check_shape, check_type
from deepbc.data.reading import read_column
from deepbc.datasets import morphomnist_equations
from deepbc.graph import CausalGraph
from deepbc.numerics.seeding import generator

GRAPH = CausalGraph.parse("thickness -> intensity; thickness, intensity -> image")

SIDE, WHITE = 28, 255.0

# The curves of each class by their control points: x to the right and y down, in pixels from the centre. A point that
# comes twice is one point: there a curve closes, or two meet in a corner.
GLYPHS = (
    "1,-9 -3.6,-7 -5.6,-1 -4.4,6 0,9 4.4,6.4 5.6,-0.5 4.2,-7 1,-9",
    "0,-9 0,0 0,9",
    "-4.6,-5.6 -2.6,-8.3 1,-9 4.2,-6.6 3.6,-2.4 0,2.6 -3,6 -5,8.6; -5,8.6 0,8.2 5.6,8.6",
    "-4.6,-7 -1,-9 3.2,-7.8 3.6,-4 -0.8,-0.8; -0.8,-0.8 3.6,0.8 4.8,4.5 2,8.3 -2,9 -5.2,6.8",
    "-3,-8.5 -4,-3.5 -5.2,1.2; -5.2,1.2 0,1.1 5.6,0.5; 3,-8.5 2.3,0 2,9",
    "4.8,-9 0.5,-8.8 -3,-8.6; -3,-8.6 -3.4,-5 -3.8,-1.6; -3.8,-1.6 0,-3 4,-0.8 4.8,3.5 2.2,8 -1.5,9 -5,7.4",
    "3.4,-9 -1.2,-5.5 -4.2,0 -4.4,5 -1.5,8.8 2.8,8 4.5,4.2 2,0.8 -1.5,1.4 -4,4.6",
    "-5,-7.6 0,-8.3 5.2,-8.5; 5.2,-8.5 2,-2 -0.3,4 -1.2,9",
    "3.2,-6.8 0,-9 -3.4,-6.8 -2,-2.8 1.8,0.5 4,4.6 0.4,9 -4,5.6 -2,1 1.8,-2.8 3.2,-6.8",
    "4.2,-5.4 0.8,-9 -3.6,-7.6 -4.5,-3.6 -1.3,-0.4 2.6,-2 4.2,-5.4; 4.2,-5.4 3.8,0 2.8,5 1.8,9",
)
CLASSES, POINTS = len(GLYPHS), 11
SEGMENTS = 50  # so that none is more than 0.06 pixels off its curve

# The parts of a form, and by how much a standard deviation of each moves the digit.
PARTS = {"bend": 4, "width": 1, "height": 1, "slant": 1, "turn": 1, "place": 2, "wobble": 2 * POINTS}
BEND, WIDTH, HEIGHT, SLANT, TURN, PLACE, WOBBLE = 0.01, 0.13, 0.07, 0.2, 0.06, 0.5, 0.45
LEAN = 0.12  # the mean slant: most hands lean to the right
FORM = sum(PARTS.values())
FARTHEST = 10.0  # a standard-normal number never is, and beyond the curves overflow

CHUNK = 200_000  # pixels at once, few enough to stay in the cache of a processor


@dataclass(frozen=True, slots=True, eq=False)
class Styles:
    r"""What an image is, apart from thickness and intensity: its noise.

    Args:
        label: The class, a whole number from 0 to 9, with shape `(*batch,)`.
        form: The standard-normal numbers :math:`z`, with shape `(*batch, form)`.
    """

    label: Tensor
    form: Tensor

    def select(self, rows: Any) -> "Styles":
        """Selects rows by an index, a slice or a mask."""
        return Styles(self.label[rows], self.form[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    r"""Digits, and the styles that made them.

    Args:
        values: Thickness and intensity, with shape `(rows,)`, and image, with shape `(rows, 28, 28)`, as `SCM.fit`
            takes them.
        styles: The style of each image.
    """

    values: Mapping[str, Tensor]
    styles: Styles


def sample(rows: int, *, seed: int | None = None) -> Digits:
    """Draws digits: thickness and intensity by their equations, styles, and the images they make.

    Args:
        rows: The number of digits.
        seed: Same seed, same digits; None draws fresh ones.

    Example:
        >>> digits = sample(3, seed=0)
        >>> {name: tuple(value.shape) for name, value in digits.values.items()}
        {'thickness': (3,), 'intensity': (3,), 'image': (3, 28, 28)}
    """
    styles = draw_styles(rows, seed=seed)
    u = {name: _normal((rows,), seed, name) for name in morphomnist_equations.GRAPH}

    thickness = morphomnist_equations.predict_thickness(u["thickness"], {})
    intensity = morphomnist_equations.predict_intensity(u["intensity"], {"thickness": thickness})
    image = draw(styles, thickness, intensity)

    return Digits({"thickness": thickness, "intensity": intensity, "image": image}, styles)


def draw_styles(rows: int, *, seed: int | None = None) -> Styles:
    """Draws styles, in which all classes are equally likely and all numbers of a form standard normal.

    Args:
        rows: The number of styles.
        seed: Same seed, same styles; None draws fresh ones.
    """
    check_count(rows, "draw_styles rows")
    label = torch.randint(CLASSES, (rows,), generator=generator(seed, "label"))

    return Styles(label, _normal((rows, FORM), seed, "form"))


def truth(styles: Styles, values: Mapping[str, Any]) -> Tensor:
    r"""Draws the true counterfactual images.

    Args:
        styles: The styles of the factual images.
        values: Counterfactual values, as an answer has them; those of thickness and intensity are used.

    Returns:
        The images :math:`x^*`, with shape `(*batch, 28, 28)`.

    Example:
        >>> digits = sample(3, seed=0)
        >>> thicker = truth(digits.styles, {**digits.values, "thickness": digits.values["thickness"] + 1})
        >>> bool((thicker.sum((1, 2)) > digits.values["image"].sum((1, 2))).all())
        True
    """
    names = tuple(morphomnist_equations.GRAPH)
    check_names([name for name in names if name in values], names, "values")

    return draw(styles, values["thickness"], values["intensity"])


def draw(styles: Styles, thickness: Any, intensity: Any, *, size: int = SIDE) -> Tensor:
    r"""Draws images, each from its own style, thickness and intensity alone.

    Args:
        styles: The styles. One style is drawn with every thickness and intensity.
        thickness: The width :math:`t` of the strokes, in pixels of the 28 x 28 image, with shape `(*batch,)` or `()`.
        intensity: The intensity :math:`i`, from 0 to 255, with shape `(*batch,)` or `()`.
        size: The pixels on each side. More of them draw the same digit finer.

    Returns:
        The images, float32 from 0 to 255, with shape `(*batch, size, size)`.

    Example:
        >>> draw(draw_styles(1, seed=0), [1.0, 2.0, 3.0], 255).shape
        torch.Size([3, 28, 28])
    """
    check_count(size, "size", least=1)
    label, form, t, i = _read(styles, thickness, intensity)

    rows = (label.flatten(), form.reshape(-1, FORM), t.flatten(), i.flatten())
    chunks = zip(*(each.split(max(1, CHUNK // size**2)) for each in rows), strict=True)
    images = [_images(size, *chunk) for chunk in chunks]

    return torch.cat(images).reshape(*t.shape, size, size)


def _read(styles: Styles, thickness: Any, intensity: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Reads and checks what is to be drawn; all come back with the same batch axes."""
    check_type(styles, Styles, "styles")
    label, form = read_column(styles.label, "styles, 'label'"), read_column(styles.form, "styles, 'form'")
    t, i = read_column(thickness, "'thickness'"), read_column(intensity, "'intensity'")

    check_shape(tuple(form.shape), (FORM,), "styles, 'form'")
    batch = check_batches({"label": label.shape, "form": form.shape[:-1], "thickness": t.shape, "intensity": i.shape})
    check_range(form.abs().amax(-1), 0, FARTHEST, "styles, largest size in 'form'")
    check_range(label, 0, CLASSES - 1, "styles, 'label'", whole=True)
    check_range(t, 0, math.inf, "'thickness'")
    check_range(i, 0, WHITE, "'intensity'")

    return label.long().expand(batch), form.expand(*batch, FORM), t.expand(batch), i.expand(batch)


def _images(size: int, label: Tensor, form: Tensor, t: Tensor, i: Tensor) -> Tensor:
    """Draws one chunk, with shape `(rows, size, size)`."""
    a, d = SIDE / size, _distance(_outline(label, form).float(), size)
    t, i = t.float(), i.float()
    covered = torch.minimum((0.5 * (t + a) - d).clamp_min_(0), t.clamp_max(a))

    return (covered / a * i).permute(2, 0, 1)


def _outline(label: Tensor, form: Tensor) -> Tensor:
    """Places the curves as short segments, `(rows, segment, end, 2)`, from the upper left corner of the image."""
    bend, width, height, slant, turn, place, wobble = form.split(list(PARTS.values()), dim=-1)
    points, weights = (each.to(form.device) for each in _glyphs())

    x, y = (points[label] + WOBBLE * wobble.unflatten(-1, (POINTS, 2))).unbind(-1)
    z = BEND * bend[..., None]
    x, y = x + z[:, 0] * y * y + z[:, 1] * x * y, y + z[:, 2] * x * x + z[:, 3] * x * y
    x, y = x * (WIDTH * width).exp(), y * (HEIGHT * height).exp()
    x = x - (LEAN + SLANT * slant) * y  # y points down, and the top leans to the right
    cos, sin = (TURN * turn).cos(), (TURN * turn).sin()
    s = torch.stack([cos * x - sin * y, sin * x + cos * y], dim=-1) + PLACE * place[:, None] + SIDE / 2

    return torch.einsum("nsej,njk->nsek", weights[label], s)


def _distance(segments: Tensor, size: int) -> Tensor:
    """Computes the distance from each pixel to the nearest segment, with shape `(size, size, rows)`.

    The rows are the last axis, so that every operation runs along contiguous memory.
    """
    centres = (torch.arange(size, dtype=segments.dtype, device=segments.device) + 0.5) * (SIDE / size)
    nearest = segments.new_full((size, size, len(segments)), math.inf)

    for start, end in segments.permute(1, 2, 3, 0).contiguous():
        (ex, ey), (dx, dy) = end - start, centres[:, None] - start[:, None]
        length = (ex * ex + ey * ey).clamp_min(1e-12)  # a segment may be a point
        along = ((dx * (ex / length)) + (dy * (ey / length))[:, None]).clamp_(0, 1)
        x, y = torch.addcmul(dx, along, -ex), torch.addcmul(dy[:, None], along, -ey)
        torch.minimum(nearest, x.square_().addcmul_(y, y), out=nearest)

    return nearest.sqrt_()


@functools.cache
def _glyphs() -> tuple[Tensor, Tensor]:
    """Reads the control points, `(class, point, 2)`, and the weight of each in the ends of the segments.

    A spline is linear in its points; the weights have shape `(class, segment, end, point)`. A class with fewer points
    leaves the last unused.
    """
    points = torch.zeros(CLASSES, POINTS, 2, dtype=torch.float64)
    weights = torch.zeros(CLASSES, SEGMENTS, 2, POINTS, dtype=torch.float64)

    for c, glyph in enumerate(GLYPHS):
        curves = [curve.split() for curve in glyph.split(";")]
        names = list(dict.fromkeys(name for curve in curves for name in curve))
        for j, name in enumerate(names):
            points[c, j] = torch.tensor([float(each) for each in name.split(",")], dtype=torch.float64)
        weights[c] = _weights([[names.index(name) for name in curve] for curve in curves])

    return points, weights


def _weights(curves: list[list[int]]) -> Tensor:
    """Shares the segments among the curves of a class, by their number of points."""
    pieces = torch.tensor([0, *(len(curve) - 1 for curve in curves)]).cumsum(0)
    cuts = (SEGMENTS * pieces / pieces[-1]).round().long()
    each = torch.eye(POINTS, dtype=torch.float64)
    splines = [_spline(each[curve], int(count)) for curve, count in zip(curves, cuts.diff(), strict=True)]

    return torch.cat([torch.stack([spline[:-1], spline[1:]], dim=1) for spline in splines])


def _spline(p: Tensor, segments: int) -> Tensor:
    """Computes points on the Catmull-Rom spline through `p`, which goes on beyond its ends as a parabola."""
    p = torch.cat([3 * p[:1] - 3 * p[1:2] + p[2:3], p, 3 * p[-1:] - 3 * p[-2:-1] + p[-3:-2]])
    at = torch.linspace(0, len(p) - 3, segments + 1, dtype=p.dtype)
    k = at.floor().long().clamp_max(len(p) - 4)
    f = (at - k)[:, None]
    p0, p1, p2, p3 = (p[k + step] for step in range(4))

    return p1 + f / 2 * (p2 - p0 + f * (2 * p0 - 5 * p1 + 4 * p2 - p3 + f * (3 * (p1 - p2) + p3 - p0)))


def _normal(shape: tuple[int, ...], seed: int | None, name: str) -> Tensor:
    return torch.randn(shape, generator=generator(seed, name, "noise"), dtype=torch.float64)
