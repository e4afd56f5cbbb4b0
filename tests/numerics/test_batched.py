"""Records of tensors, row by row."""

from dataclasses import dataclass

import pytest
import torch

from deepbc.numerics.batched import concat_last, join, map_tensors, repeat, select


@dataclass(frozen=True)
class Record:
    x: torch.Tensor
    parts: dict
    name: str = "kept"


@pytest.fixture
def record():
    x = torch.arange(6.0).reshape(3, 2)
    return Record(x, {"inner": Record(x[:, :1] * 10, {})})


def test_rows_of_every_tensor_are_selected(record):
    rows = select(record, torch.tensor([2, 0]))
    assert rows.x.tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert rows.parts["inner"].x.tolist() == [[40.0], [0.0]]
    assert rows.name == "kept"


def test_repeated_rows_are_rows_joined_with_themselves(record):
    twice, joined = repeat(record, 2), join([record, record])
    assert torch.equal(twice.x, joined.x)
    assert torch.equal(twice.parts["inner"].x, joined.parts["inner"].x)
    assert join([record]) is record


def test_function_sees_tensors_of_the_same_place(record):
    total = map_tensors(lambda left, right: left + right, record, record)
    assert torch.equal(total.parts["inner"].x, 2 * record.parts["inner"].x)


def test_last_axes_join_and_empty_parts_vanish():
    empty, one, two = torch.zeros(3, 0), torch.ones(3, 1), torch.ones(3, 2)
    assert concat_last([], empty) is empty
    assert concat_last([empty, one], empty) is one
    assert concat_last([one, empty, two], empty).shape == (3, 3)
