r"""Jumps across a whole density, by a mixture of normal densities around places that were drawn before.

With places :math:`r_b` and the covariance :math:`\Sigma_b` of the nearest others around each, jumps come from

.. math:: q(v) = \sum_b \pi_b N(v; r_b, \Sigma_b),

and are taken with the chance :math:`\min(1, p(v') q(v) / (p(v) q(v')))`, so that a chain in one valley may go to any
other. The peak of the density is one of the places, because draws may have missed it where it is narrow. The places
stay as they are, whatever the chains do, and no chain stands at one: so the density is kept.
"""

__all__ = ["Mixture"]

import math

import torch
from torch import Tensor

from deepbc.numerics.counter_rng import Streams

# So many places have a part in the mixture; so many neighbours at least, and so many for each coordinate, give its
# width; in units of the spread of all places, no width is below this.
PLACES, NEIGHBOURS, FOR_EACH, NARROWEST = 256, 16, 4, 1e-4
# The part of the jumps that go to the peak.
TO_PEAK = 0.1
# So many differences between a place and a draw are looked at together.
TOGETHER = 2**21


class Mixture:
    """Creates mixtures, one a row.

    Args:
        places: Draws of each density, with shape `(rows, places, free)`.
        peak: The peak of each, with shape `(rows, free)`.
        around: The axes of a round density around it, with shape `(rows, free, free)`.
    """

    def __init__(self, places: Tensor, peak: Tensor, around: Tensor) -> None:
        count, free = places.shape[-2:]
        spread = places.std(1, keepdim=True).clamp_min(1e-300)
        near = torch.cdist(places / spread, places / spread)
        nearest = near.topk(min(count, 1 + max(NEIGHBOURS, FOR_EACH * free)), largest=False).indices
        rows = torch.arange(len(places), device=places.device)[:, None, None]
        away = (places[rows, nearest] - places.unsqueeze(2)) / spread.unsqueeze(1)
        identity = torch.eye(free, dtype=places.dtype, device=places.device)
        covariance = away.mT @ away / nearest.shape[-1] + NARROWEST**2 * identity
        axes = spread.unsqueeze(-1) * torch.linalg.cholesky(covariance)
        self.places = torch.cat([places, peak.unsqueeze(1)], dim=1)
        self.axes = torch.cat([axes, around.unsqueeze(1)], dim=1)
        self.inverse = torch.linalg.inv(self.axes)
        weights = places.new_full((count + 1,), (1 - TO_PEAK) / count)
        weights[-1] = TO_PEAK
        self.upto = weights.cumsum(0)
        self.log_volume = weights.log() - torch.linalg.slogdet(self.axes)[1] - 0.5 * free * math.log(2 * math.pi)

    def select(self, rows: Tensor) -> "Mixture":
        """Takes the given rows."""
        part = object.__new__(Mixture)
        part.upto = self.upto
        part.places, part.axes, part.inverse, part.log_volume = (
            each[rows] for each in (self.places, self.axes, self.inverse, self.log_volume)
        )

        return part

    def draw(self, count: int, streams: Streams, *purpose: str | int) -> Tensor:
        """Draws for each chain, `(rows * count, free)`.

        Args:
            count: The number of chains of each row.
            streams: The random numbers of each chain.
            purpose: What they are for.
        """
        rows, places, free = self.places.shape
        chance = streams.uniform(1, "which", *purpose).reshape(rows, count)
        which = torch.searchsorted(self.upto, chance).clamp(max=places - 1)
        row = torch.arange(rows, device=which.device).unsqueeze(-1)
        away = streams.normal(free, "away", *purpose).reshape(rows, count, free, 1)

        drawn: Tensor = self.places[row, which] + (self.axes[row, which] @ away).squeeze(-1)

        return drawn.flatten(0, 1)

    def log_prob(self, v: Tensor) -> Tensor:
        """Computes the logarithm of the density, `(rows * count,)`, at places `(rows * count, free)`."""
        rows, places, free = self.places.shape
        v = v.reshape(rows, -1, free)
        at_once = max(1, TOGETHER // (places * max(1, v.shape[1]) * free))
        parts = [self._log_prob(v[rows], rows) for rows in torch.arange(rows, device=v.device).split(at_once)]

        return torch.cat(parts).flatten()

    def _log_prob(self, v: Tensor, rows: Tensor) -> Tensor:
        places, inverse = self.places[rows], self.inverse[rows]
        # (v - place) through the inverse axes of each place, as two products.
        away = torch.einsum("rnj,rmij->rnmi", v, inverse) - torch.einsum("rmj,rmij->rmi", places, inverse).unsqueeze(1)
        each = self.log_volume[rows].unsqueeze(1) - 0.5 * away.square().sum(-1)

        return torch.logsumexp(each, dim=-1)
