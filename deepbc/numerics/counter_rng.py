"""Random numbers by counting: a stream for every row, whoever else is in the batch.

A number is the hash of what it is for: the stream of its row, a purpose and a counter. So rows can be drawn in any
order, in any company and from any place in their stream, and a row asked alone gets the numbers that it gets among
thousands.

References:
    Fast splittable pseudorandom number generators (Steele, Lea and Flood, 2014): the mixing function.
"""

__all__ = ["Streams"]

import hashlib
import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from deepbc._validation import check_seed

# The constants of the paper, as signed numbers.
GOLDEN, FIRST, SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
BITS = 53


class Streams:
    """Creates streams from keys.

    Args:
        keys: A key for each stream, with shape `(rows,)`.
    """

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys

    @classmethod
    def of(cls, seed: int | None, columns: Sequence[Tensor]) -> "Streams":
        """Creates a stream for each row from a seed and what the row holds; rows that repeat each other get their own.

        Args:
            seed: The seed; none gives fresh numbers.
            columns: What rows hold, float64 tensors with shape `(rows, ...)`.
        """
        seed = secrets.randbits(62) if seed is None else check_seed(seed)
        held = torch.cat([column.flatten(1) for column in columns], dim=-1)
        # Zero has two signs.
        bits = (held + 0.0).view(torch.int64)
        place = torch.arange(bits.shape[-1], device=bits.device)
        keys = _mix(_mix(bits ^ _mix(GOLDEN * (place + 1))).sum(-1) ^ _number("seed", seed))

        return cls(_mix(keys ^ _mix(_occurrence(keys))))

    def select(self, rows: Tensor) -> "Streams":
        """Takes the given rows."""
        return Streams(self.keys[rows])

    def split(self, count: int) -> "Streams":
        """Makes so many streams of each, one after the other."""
        each = torch.arange(count, device=self.keys.device)

        return Streams(_mix(self.keys.unsqueeze(-1) + GOLDEN * (each + 1)).flatten())

    def uniform(self, count: int, *purpose: str | int) -> Tensor:
        """Draws numbers between 0 and 1, ends excluded, with shape `(rows, count)`; the same for the same purpose."""
        counter = torch.arange(1, count + 1, device=self.keys.device)
        hashed = _mix(_mix(self.keys ^ _number(*purpose)).unsqueeze(-1) + GOLDEN * counter)

        return (_shift(hashed, 64 - BITS).double() + 0.5) * 2.0**-BITS

    def normal(self, count: int, *purpose: str | int) -> Tensor:
        """Draws standard normal numbers, with shape `(rows, count)`."""
        drawn: Tensor = torch.special.ndtri(self.uniform(count, *purpose))

        return drawn


def _mix(number: Tensor) -> Tensor:
    number = (number ^ _shift(number, 30)) * FIRST
    number = (number ^ _shift(number, 27)) * SECOND

    return number ^ _shift(number, 31)


def _shift(number: Tensor, bits: int) -> Tensor:
    """Shifts right without a thought of the sign."""
    return (number >> bits) & ((1 << (64 - bits)) - 1)


def _number(*purpose: str | int) -> int:
    digest = hashlib.sha256(repr(purpose).encode()).digest()

    return int.from_bytes(digest[:8], signed=True)


def _occurrence(keys: Tensor) -> Tensor:
    """Counts for each key how often it came before."""
    ordered, order = keys.sort(stable=True)
    place = torch.arange(len(keys), device=keys.device)
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[1:] = ordered[1:] != ordered[:-1]
    first = torch.where(new, place, 0).cummax(0).values if len(keys) else place
    counts = torch.empty_like(place)
    counts[order] = place - first

    return counts
