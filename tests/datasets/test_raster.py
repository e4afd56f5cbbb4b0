import functools
import itertools
import math

import numpy as np
import pytest
import torch
from scipy import spatial

from deepbc.datasets.raster import Canvas, arc, ellipse, length, segment


def grid(size):
    centres = (torch.arange(size) + 0.5) * (2 / size) - 1
    y, x = torch.meshgrid(centres, centres, indexing="ij")
    return x[None], y[None]


def ink(size, paint):
    """The area that white paint covers on a black image."""
    canvas = Canvas(torch.zeros(1, 3, size, size), 2 / size)
    paint(canvas, *grid(size), torch.ones(1, 3, 1, 1))
    assert 0 <= canvas.image.min() <= canvas.image.max() <= 1
    return canvas.image[0, 0].double().mean().item() * 4


def nearest(points, size):
    x, y = grid(size)
    return spatial.cKDTree(points).query(np.stack([x[0], y[0]], axis=-1))[0]


@pytest.mark.parametrize("size", [16, 32, 64, 128])
def test_ink_of_an_ellipse_is_its_area(size):
    found = ink(size, lambda canvas, x, y, white: canvas.fill(ellipse(x - 0.1, y, 0.5, 0.7), white))
    assert found == pytest.approx(math.pi * 0.5 * 0.7, rel=0.01)


@pytest.mark.parametrize("size", [16, 32, 64, 128])
@pytest.mark.parametrize("width", [0.01, 0.05, 0.2])
def test_ink_of_a_line_is_its_area(size, width):
    start, end = (-0.5, -0.3), (0.4, 0.5)
    found = ink(size, lambda canvas, x, y, white: canvas.stroke(segment(x, y, start, end), width, white))
    pixel, extent = 2 / size, math.dist(start, end)
    # Its ends are round; those of a line thinner than a pixel are blurred by about a pixel.
    assert found == pytest.approx(width * extent + math.pi / 4 * width**2, abs=width * pixel, rel=0.01)


@pytest.mark.parametrize("size", [16, 32, 64, 128])
@pytest.mark.parametrize("radius", [0.01, 0.05, 0.2])
def test_ink_of_a_dot_is_its_area(size, radius):
    def dot(canvas, x, y, white, at):
        canvas.wash(canvas.dot(length(x - at[0], y - at[1]), radius), white)

    inside = (np.arange(12) + 0.5) / 12 * 2 / size  # all over a pixel
    found = [ink(size, functools.partial(dot, at=at)) for at in itertools.product(inside, inside)]
    assert np.mean(found) == pytest.approx(math.pi * radius**2, rel=0.02)


@pytest.mark.parametrize("thick", [0.005, 0.05, 0.3])
def test_ink_between_two_edges_is_their_gap(thick):
    for size in (16, 32, 64, 128):
        found = ink(size, lambda canvas, x, y, white: canvas.wash(canvas.between(0.11 - y, y - 0.11 - thick), white))
        assert found == pytest.approx(2 * thick, rel=1e-3)


def test_half_the_opacity_leaves_half_the_ink():
    whole, half = (
        ink(64, lambda canvas, x, y, white, part=part: canvas.fill(ellipse(x, y, 0.5, 0.5), white, part))
        for part in (1.0, 0.5)
    )
    assert half == pytest.approx(whole / 2, rel=1e-5)


def test_distance_to_an_ellipse_is_right_near_its_edge():
    angle = np.linspace(0, 2 * np.pi, 20_000)
    expected = nearest(np.stack([0.5 * np.cos(angle), 0.7 * np.sin(angle)], axis=-1), 128)
    found = ellipse(*grid(128), 0.5, 0.7)[0].numpy()
    near = expected < 0.05
    assert np.allclose(np.abs(found)[near], expected[near], rtol=0, atol=0.002)


def test_distance_to_a_segment_is_right_everywhere():
    along = np.linspace(0, 1, 20_000)[:, None]
    expected = nearest((1 - along) * [-0.5, -0.3] + along * [0.4, 0.5], 64)
    assert np.allclose(segment(*grid(64), (-0.5, -0.3), (0.4, 0.5))[0], expected, rtol=0, atol=1e-4)


def test_distance_to_a_flat_arc_is_right_near_it():
    p = np.linspace(-1, 1, 20_000)
    expected = nearest(np.stack([0.4 * p, -0.06 * (1 - p * p)], axis=-1), 128)
    found = arc(*grid(128), 0.4, 0.06)[0].numpy()
    near = expected < 0.04
    assert np.allclose(found[near], expected[near], rtol=0, atol=0.012)
