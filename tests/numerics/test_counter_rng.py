"""Random numbers by row: uniform, unrelated, and the same whoever else is in the batch."""

import numpy as np
import pytest
import torch
from scipy import stats

from deepbc.numerics.counter_rng import Streams

ROWS = torch.randn(500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_numbers_are_uniform_and_normal():
    streams = Streams.of(0, [ROWS])
    assert stats.kstest(streams.uniform(200, "a").flatten(), "uniform").pvalue > 0.001
    assert stats.kstest(streams.normal(200, "b", 1).flatten(), "norm").pvalue > 0.001
    assert 0 < streams.uniform(2000, "a").min() < streams.uniform(2000, "a").max() < 1


@pytest.mark.parametrize("axis", ["rows", "purposes", "chains", "counters"])
def test_streams_are_unrelated(axis):
    streams = Streams.of(0, [ROWS])
    numbers = {
        "rows": streams.uniform(1000, "a")[:200],
        "purposes": torch.stack([streams.uniform(1, "step", k)[:, 0] for k in range(200)]),
        "chains": streams.split(2).uniform(1000, "a")[:200],
        "counters": streams.uniform(200, "a").T,
    }[axis]
    correlations = np.corrcoef(numbers)[np.triu_indices(len(numbers), 1)] * np.sqrt(numbers.shape[1])
    assert np.std(correlations) == pytest.approx(1, abs=0.03)
    assert abs(correlations).max() < 5.5


def test_a_row_alone_has_the_numbers_that_it_has_in_company():
    everyone = Streams.of(7, [ROWS]).normal(4, "a")
    assert torch.equal(Streams.of(7, [ROWS[17:18]]).normal(4, "a"), everyone[17:18])
    assert torch.equal(Streams.of(7, [ROWS.flip(0)]).normal(4, "a").flip(0), everyone)
    assert torch.equal(Streams.of(7, [ROWS]).select(torch.tensor([3, 1])).normal(4, "a"), everyone[[3, 1]])
    assert not torch.equal(Streams.of(8, [ROWS]).normal(4, "a"), everyone)


def test_rows_that_repeat_each_other_have_their_own_numbers():
    numbers = Streams.of(0, [ROWS[[0, 1, 0, 0]]]).uniform(3, "a")
    assert len({tuple(row) for row in numbers.tolist()}) == 4
    assert torch.equal(numbers[0], Streams.of(0, [ROWS[:1]]).uniform(3, "a")[0])


def test_no_seed_is_fresh_and_zero_has_one_sign():
    assert not torch.equal(Streams.of(None, [ROWS]).uniform(3, "a"), Streams.of(None, [ROWS]).uniform(3, "a"))
    zero = torch.zeros(1, 1, dtype=torch.float64)
    assert torch.equal(Streams.of(0, [zero]).uniform(3, "a"), Streams.of(0, [-zero]).uniform(3, "a"))
