"""Generators by seed and purpose."""

import pytest
import torch
from scipy import stats

import deepbc as bc
from deepbc.numerics.seeding import generator


def draw(*words) -> torch.Tensor:
    return torch.rand(5, generator=generator(*words), dtype=torch.float64)


def test_same_words_give_the_same_stream():
    assert torch.equal(draw(7, "age", 3), draw(7, "age", 3))


@pytest.mark.parametrize("words", [(8, "age", 3), (7, "sex", 3), (7, "age", 4), (7, "age"), (7, "age", "3")])
def test_other_words_give_another_stream(words):
    assert not torch.equal(draw(7, "age", 3), draw(*words))


def test_streams_of_many_purposes_are_independent():
    first = torch.stack([draw(0, k)[0] for k in range(2000)])
    assert stats.kstest(first, "uniform").pvalue > 0.001
    assert abs(torch.corrcoef(torch.stack([first[1:], first[:-1]]))[0, 1]) < 0.1


def test_no_seed_gives_fresh_numbers():
    assert not torch.equal(draw(None, "age"), draw(None, "age"))


@pytest.mark.parametrize("seed", [1.5, "0", True])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(bc.SettingError, match="seed"):
        generator(seed, "age")
