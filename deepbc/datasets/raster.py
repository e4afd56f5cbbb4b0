r"""Flat shapes and strokes on a grid of pixels, from distances, with edges as wide as a pixel.

A shape is where :math:`d \le 0`, with :math:`d` the signed distance to its edge, and a stroke of width :math:`t` where
:math:`|d| \le t / 2`. The part of a pixel of side :math:`a` that each covers, where its edge is straight, is

.. math:: \min(\max(\tfrac{1}{2} - d / a, 0), 1) \quad\text{and}\quad
    \tfrac{1}{a} \min\bigl(\max(\tfrac{1}{2}(t + a) - |d|, 0), t, a\bigr),

so that a drawing looks the same at every size. Lengths are in halves of the side of an image, from its centre; x points
to the right and y down. All are float32 and differentiable.
"""

__all__ = ["Canvas", "arc", "ellipse", "length", "segment"]

from torch import Tensor

# Squared lengths below this are 0. Roots have no derivative there, nor do distances a direction.
TINY = 1e-10


class Canvas:
    """Creates images that are painted one layer upon the other.

    Args:
        image: The ground, with shape `(rows, 3, size, size)`.
        pixel: The side of a pixel.
    """

    def __init__(self, image: Tensor, pixel: float) -> None:
        self.image, self.pixel = image, pixel

    def fill(self, d: Tensor, colour: Tensor, opacity: Tensor | float = 1.0) -> None:
        """Paints a shape.

        Args:
            d: The signed distance to its edge, with shape `(rows, size, size)`.
            colour: Its colour, with shape `(rows, 3, 1, 1)`, or that of each pixel.
            opacity: How much of what lies below it hides, with a shape that broadcasts with that of `d`.
        """
        self.wash(self.cover(d) * opacity, colour)

    def stroke(self, d: Tensor, width: Tensor | float, colour: Tensor, opacity: Tensor | float = 1.0) -> None:
        """Paints a line of a width, at the distance `d` from each pixel."""
        self.wash(self._line(d, width) * opacity, colour)

    def wash(self, opacity: Tensor, colour: Tensor) -> None:
        """Paints every pixel with an opacity of its own, `(rows, size, size)`."""
        self.image = self.image.lerp(colour, opacity.unsqueeze(1))

    def cover(self, d: Tensor) -> Tensor:
        """Computes the part of each pixel that a shape covers."""
        return (0.5 - d / self.pixel).clamp(0.0, 1.0)

    def between(self, d: Tensor, e: Tensor) -> Tensor:
        """Computes the part of each pixel between two edges that face each other, however near they are."""
        return (self.cover(d) + self.cover(e) - 1).clamp_min(0.0)

    def dot(self, d: Tensor, radius: float) -> Tensor:
        """Computes the part of each pixel that a disc covers, however small, at the distance `d` from its centre."""
        q = 2 * radius / self.pixel
        # The volume under a line's profile, turned about the centre, is pi r^2 (1 + min(q, 1/q)^2 / 3) / min(1, q).
        return self._line(d, 2 * radius) * (min(1.0, q) / (1 + min(q, 1 / q) ** 2 / 3))

    def _line(self, d: Tensor, width: Tensor | float) -> Tensor:
        part = (0.5 * (width + self.pixel) - d.abs()).clamp(0.0, self.pixel).clamp_max(width)

        return part / self.pixel


def length(x: Tensor, y: Tensor) -> Tensor:
    return (x * x + y * y + TINY).sqrt()


def ellipse(x: Tensor, y: Tensor, across: Tensor | float, down: Tensor | float) -> Tensor:
    """Computes about the signed distance to an ellipse of two radii around the origin, exact to first order at it.

    The radii may depend on the place, and the shape then bulges and narrows with them.
    """
    p, q = x / across, y / down
    k = length(p, q)

    return k * (k - 1) / length(p / across, q / down)


def segment(x: Tensor, y: Tensor, start: tuple[Tensor | float, ...], end: tuple[Tensor | float, ...]) -> Tensor:
    """Computes the distance to a straight segment between two points `(x, y)`."""
    x, y, ex, ey = x - start[0], y - start[1], end[0] - start[0], end[1] - start[1]
    along = ((x * ex + y * ey) / (ex * ex + ey * ey)).clamp(0.0, 1.0)

    return length(x - along * ex, y - along * ey)


def arc(x: Tensor, y: Tensor, half: Tensor | float, rise: Tensor | float) -> Tensor:
    """Computes about the distance to a flat arc, which ends at `(-half, 0)` and `(half, 0)` and rises between."""
    p = (x / half).clamp(-1.0, 1.0)
    slope = 2 * rise / half * p
    across = (y + rise * (1 - p * p)) / (1 + slope * slope).sqrt()

    return length(x - p * half, across)
