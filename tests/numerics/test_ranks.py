"""Ranks and the Kolmogorov-Smirnov statistic against scipy."""

import torch
from scipy import stats

from deepbc.numerics.kolmogorov_smirnov import ks_statistic
from deepbc.numerics.ranks import mean_ranks

STREAM = torch.Generator().manual_seed(0)


def test_ranks_are_those_of_scipy_with_and_without_ties():
    for rows in (torch.randn(200, 3, generator=STREAM), torch.randint(5, (200, 3), generator=STREAM).double()):
        assert (mean_ranks(rows).numpy() == stats.rankdata(rows.numpy(), axis=0)).all()


def test_rank_of_one_row_is_one():
    assert mean_ranks(torch.tensor([3.0])).tolist() == [1.0]


def test_statistic_is_that_of_scipy():
    noise = 1.2 * torch.randn(300, 2, generator=STREAM, dtype=torch.float64) + 0.1
    expected = [stats.kstest(column.numpy(), "norm").statistic for column in noise.unbind(1)]
    assert torch.allclose(ks_statistic(noise), torch.tensor(expected, dtype=torch.float64), atol=1e-12)
