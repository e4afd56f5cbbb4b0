"""Variables: what is checked of their values, and what the check costs."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from deepbc.data.variables import Variable
from deepbc.errors import DataError


def allocated(call) -> int:
    """The bytes that a call asks for, in all."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    return sum(max(0, each.self_cpu_memory_usage) for each in seen.events())


def test_checked_bytes_are_not_copied():
    pixels = Variable("image", (3, 64, 64), lower=0.0, upper=255.0)
    images = torch.randint(256, (200, 3, 64, 64), dtype=torch.uint8)
    assert allocated(images.clone) >= images.nbytes
    assert allocated(lambda: pixels.rows(images, "images")) < 0.001 * images.nbytes
    assert pixels.rows(images, "images").data_ptr() == images.data_ptr()


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ([0.5, 2.5, 3.5], r"inside the bounds \(0, 3\), got \[3.5\] in row 2"),
        ([-0.5, 2.5, -3.5], r"inside the bounds \(0, 3\), got \[-0.5\] in 2 of 3 rows, first row 0"),
        ([0.5, 3.0, 1.0], r"strictly inside the bounds \(0, 3\), got row 1 on a bound"),
        ([0.5, 3.0, 4.0], r"inside the bounds \(0, 3\), got \[4.0\] in row 2"),
    ],
)
def test_values_outside_their_bounds_are_named(values, part):
    bounded = Variable("x", (), lower=0.0, upper=3.0)
    with pytest.raises(DataError, match=part):
        bounded.rows(torch.tensor(values, dtype=torch.float64), "x")


def test_values_inside_their_bounds_pass():
    for lower, upper in ((0.0, 3.0), (float("-inf"), 3.0), (0.0, float("inf"))):
        bounded = Variable("x", (), lower=lower, upper=upper)
        assert bounded.rows(torch.tensor([0.5, 2.5]).double(), "x").shape == (2, 1)
        assert bounded.rows(torch.tensor([]).double(), "x").shape == (0, 1)
