"""What is asked of one variable, row by row: a value, an interval, or some of the labels of a category."""

__all__ = ["Asked"]

from dataclasses import dataclass, replace

import torch
from torch import Tensor

# Intervals are shrunk by so many standard deviations at each end, so that rounding cannot leave them.
INTERIOR_MARGIN = 1e-6


@dataclass(frozen=True, slots=True)
class Asked:
    """The ends between which a variable is asked to lie, with shape `(rows, value)`; a value has both in one.

    Args:
        lower: The lower end.
        upper: The upper end.
        interval: Whether more than one value will do.
        labels: Which labels of a category will do, with shape `(rows, labels)`; None where the ends say it.
    """

    lower: Tensor
    upper: Tensor
    interval: bool
    labels: Tensor | None = None

    @classmethod
    def value(cls, x: Tensor) -> "Asked":
        """Asks for a value."""
        return cls(x, x, False)

    @classmethod
    def one_of(cls, labels: Tensor, x: Tensor) -> "Asked":
        """Asks for one of some labels, `(rows, labels)`, of a category with rows of the shape and type of `x`."""
        open_end = torch.full_like(x, torch.inf)

        return cls(-open_end, open_end, True, labels)

    def missed(self, x: Tensor) -> Tensor:
        """How far each component lies outside, with the shape of the values; a label that will not do is 1 away."""
        if self.labels is not None:
            wrong = ~self.labels.gather(-1, _codes(x, self.labels.shape[-1]).unsqueeze(-1))
            return wrong.to(x).expand_as(x)

        return torch.maximum(self.lower - x, x - self.upper).clamp_min(0.0)

    def nearest(self, x: Tensor) -> Tensor:
        """The value that will do nearest to one that may not; the first label where the given one will not."""
        if self.labels is None:
            return torch.maximum(torch.minimum(x, self.upper), self.lower)

        return torch.where(self.missed(x) > 0, _rows(self.labels.long().argmax(-1), x), x)

    def finite(self) -> "Asked":
        """The same with the other end in the place of an infinite one."""
        lower = torch.where(self.lower.isfinite(), self.lower, self.upper)

        return replace(self, lower=lower, upper=torch.where(self.upper.isfinite(), self.upper, self.lower))

    def shrunk(self, sd: Tensor) -> "Asked":
        """The interval without an interior margin at both ends, at most a quarter of it."""
        margin = torch.minimum(INTERIOR_MARGIN * sd.expand_as(self.lower), (self.upper - self.lower) / 4)

        return Asked(self.lower + margin, self.upper - margin, True)

    def standing(self, rows: Tensor, x: Tensor) -> "Asked":
        """The same where some rows, a mask `(rows,)`, ask for the value that they have."""
        mask = rows.unsqueeze(-1)
        labels = None if self.labels is None else self.labels | mask

        return Asked(torch.where(mask, x, self.lower), torch.where(mask, x, self.upper), self.interval, labels)

    def within(self, limit: "Asked", count: int) -> tuple["Asked", Tensor]:
        """The part that lies within a limit, and the rows `(rows,)` in which there is none.

        Args:
            limit: The limit.
            count: The number of labels of a category; 0 for numbers.
        """
        if count and self.interval and (self.labels is not None or limit.labels is not None):
            labels = self._which(count) & limit._which(count)
            return Asked.one_of(labels, self.lower), ~labels.any(-1)
        if not self.interval:
            return self, (limit.missed(self.lower) > 0).any(-1)
        lower, upper = torch.maximum(self.lower, limit.lower), torch.minimum(self.upper, limit.upper)

        return Asked(lower, upper, limit.interval), (lower > upper).any(-1)

    def _which(self, count: int) -> Tensor:
        """Which labels will do, with shape `(rows, labels)`."""
        if self.labels is not None:
            return self.labels
        codes = torch.arange(count, device=self.lower.device)
        if self.interval:
            return (codes >= self.lower) & (codes <= self.upper)

        return codes == _codes(self.lower, count).unsqueeze(-1)


def _codes(x: Tensor, count: int) -> Tensor:
    """The codes of rows of a category: one component is the code itself, more are indicators of all but the first."""
    if x.shape[-1] == 1:
        return x.squeeze(-1).round().long().clamp(0, count - 1)

    return (x * torch.arange(1, count, device=x.device, dtype=x.dtype)).sum(-1).round().long().clamp(0, count - 1)


def _rows(codes: Tensor, x: Tensor) -> Tensor:
    """The rows of codes, as `x` has them."""
    if x.shape[-1] == 1:
        return codes.unsqueeze(-1).to(x)

    return (codes.unsqueeze(-1) == torch.arange(1, x.shape[-1] + 1, device=x.device)).to(x)
