"""Noise that is confined to a region, from standard-normal variables: inside an interval, or of given classes."""

__all__ = ["InsideInterval", "InsideRegion", "IntervalEnds"]

from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.mechanisms import Atomic, Mechanism
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI, truncated
from deepbc.queries.asked import Asked
from deepbc.scm.completion import Completion

# Ends in standard deviations so near that a difference of probabilities has lost half of its digits.
NARROW = 1e-7


@dataclass(frozen=True, slots=True)
class IntervalEnds:
    """An interval in which the value of a variable is free, and the noise that its own is counted from.

    Args:
        asked: The ends.
        lower: What `Mechanism.reduce` made of the lower end, or of the upper one where that is open.
        upper: The same of the upper end.
        rising: Whether the value rises with the noise, with shape `(rows, 1)`.
        rest: The factual noise.
    """

    asked: Asked
    lower: Tensor
    upper: Tensor
    rising: Tensor
    rest: Tensor


@dataclass(frozen=True, slots=True)
class InsideInterval:
    """The noise of a variable inside its interval, from a normal variable.

    The noise is normal around the factual one, between the noises of the ends of the interval. With squared distances
    that is its density, so that what is added to the log-density is the mass between the ends.
    """

    w: Tensor
    ends: IntervalEnds
    width: float

    def complete(self, law: Mechanism, parents: Tensor) -> Completion:
        ends, bounds = self.ends, []
        pairs = ((ends.asked.lower, ends.lower, -torch.inf), (ends.asked.upper, ends.upper, torch.inf))
        for end, reduced, outside in pairs:
            noise = (law.abduct_reduced(reduced, parents) - ends.rest) / self.width
            bounds.append(torch.where(end.isfinite(), noise, torch.where(ends.rising, outside, -outside)))
        low, high = torch.minimum(*bounds), torch.maximum(*bounds)
        # The mass between ends that are nearly the same is density times width: a difference has no digits left.
        narrow = high - low < NARROW
        end, width = torch.where(narrow, high, 0.0), torch.where(narrow, high - low, 1.0)
        moved, log_mass = truncated(self.w, low, torch.where(narrow, low + 1.0, high))
        moved = torch.where(narrow, end, moved)
        log_mass = torch.where(narrow, width.log() - 0.5 * end.square() - LOG_SQRT_2PI, log_mass)
        added = log_mass - 0.5 * self.w.square() + 0.5 * moved.square()
        u = ends.rest + self.width * moved

        return law.predict(u, parents), u, added.sum(-1)


@dataclass(frozen=True, slots=True)
class InsideRegion:
    """The noise of a discrete or censored variable inside the region of what is asked for, from normal variables."""

    w: Tensor
    asked: Asked
    rest: Tensor
    width: float

    def complete(self, law: Mechanism, parents: Tensor) -> Completion:
        assert isinstance(law, Atomic)  # noqa: S101 # its variable is
        u, added = law.region(self.asked.lower, self.asked.upper, parents).inside(self.w, self.rest, self.width)
        x = law.predict(u, parents) if self.asked.interval else self.asked.lower

        return x, u, added
