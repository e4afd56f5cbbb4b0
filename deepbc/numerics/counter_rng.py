"""Counter-based random numbers by the finalizer of SplitMix64: a stream for every row, independent of its batch.

A number is the hash of a key, of a purpose and of a counter, so there is no state: rows are drawn in any order and in
any batch, and a row alone gets the numbers that it gets among thousands.

References:
    Fast splittable pseudorandom number generators (Steele, Lea and Flood, 2014): SplitMix64.
    Parallel random numbers: as easy as 1, 2, 3 (Salmon, Moraes, Dror and Shaw, 2011): counter-based generators.
"""

__all__ = ["Streams"]

import hashlib
import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from deepbc._validation import check_seed

# The increment (golden ratio) and the two multipliers of SplitMix64, as signed numbers.
GOLDEN_GAMMA, MULTIPLIER_1, MULTIPLIER_2 = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
# The bits of a number, those of a float64 significand.
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
        """Creates a stream for each row from a seed and the row's values; duplicate rows get different streams.

        Args:
            seed: The seed; None is a random one.
            columns: The values, float64 tensors with shape `(rows, ...)`.
        """
        seed = secrets.randbits(62) if seed is None else check_seed(seed)
        held = torch.cat([column.flatten(1) for column in columns], dim=-1)
        # Zero has two signs.
        bits = (held + 0.0).view(torch.int64)
        place = torch.arange(bits.shape[-1], device=bits.device)
        keys = _mix(_mix(bits ^ _mix(GOLDEN_GAMMA * (place + 1))).sum(-1) ^ _number("seed", seed))

        return cls(_mix(keys ^ _mix(_occurrence(keys))))

    def select(self, rows: Tensor) -> "Streams":
        """Takes the given rows."""
        return Streams(self.keys[rows])

    def split(self, count: int) -> "Streams":
        """Splits each stream into so many, in order."""
        each = torch.arange(count, device=self.keys.device)

        return Streams(_mix(self.keys.unsqueeze(-1) + GOLDEN_GAMMA * (each + 1)).flatten())

    def uniform(self, count: int, *purpose: str | int) -> Tensor:
        """Draws uniform numbers in the open unit interval, `(rows, count)`; the same for the same purpose."""
        counter = torch.arange(1, count + 1, device=self.keys.device)
        hashed = _mix(_mix(self.keys ^ _number(*purpose)).unsqueeze(-1) + GOLDEN_GAMMA * counter)

        return (_shift(hashed, 64 - BITS).double() + 0.5) * 2.0**-BITS

    def normal(self, count: int, *purpose: str | int) -> Tensor:
        """Draws standard normal numbers, with shape `(rows, count)`."""
        drawn: Tensor = torch.special.ndtri(self.uniform(count, *purpose))

        return drawn


def _mix(number: Tensor) -> Tensor:
    """The finalizer of SplitMix64."""
    number = (number ^ _shift(number, 30)) * MULTIPLIER_1
    number = (number ^ _shift(number, 27)) * MULTIPLIER_2

    return number ^ _shift(number, 31)


def _shift(number: Tensor, bits: int) -> Tensor:
    """Logical right shift."""
    return (number >> bits) & ((1 << (64 - bits)) - 1)


def _number(*purpose: str | int) -> int:
    digest = hashlib.sha256(repr(purpose).encode()).digest()

    return int.from_bytes(digest[:8], signed=True)


def _occurrence(keys: Tensor) -> Tensor:
    """Counts the earlier occurrences of each key."""
    ordered, order = keys.sort(stable=True)
    place = torch.arange(len(keys), device=keys.device)
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[1:] = ordered[1:] != ordered[:-1]
    first = torch.where(new, place, 0).cummax(0).values if len(keys) else place
    counts = torch.empty_like(place)
    counts[order] = place - first

    return counts
