r"""Independence Metropolis-Hastings with a normal mixture proposal, for chains that change modes.

With components at earlier draws :math:`r_b`, of the covariance :math:`\Sigma_b` of their neighbours, the proposal

.. math:: q(v) = \sum_b \pi_b N(v; r_b, \Sigma_b)

is accepted with probability :math:`\min(1, p(v') q(v) / (p(v) q(v')))`. The mode with its Laplace approximation is
one of the components, because draws may have missed it where it is narrow. The mixture is fixed and independent of
the chains, so that the target stays invariant.

References:
    Markov chains for exploring posterior distributions (Tierney, 1994), section 2.3.3.
"""

__all__ = ["MixtureProposal"]

import math

import torch
from torch import Tensor

from deepbc.numerics.counter_rng import Streams

# The number of components; the neighbours of each, at least and for each dimension; and the least standard deviation,
# in units of that of all draws.
COMPONENTS, MIN_NEIGHBOURS, NEIGHBOURS_PER_DIM, MIN_SD = 256, 16, 4, 1e-4
# The weight of the component at the mode.
MODE_WEIGHT = 0.1
# Differences between components and states are computed in chunks of so many, to bound memory.
CHUNK_ENTRIES = 2**21


class MixtureProposal:
    """Creates proposals, one a row.

    Args:
        means: Draws of each density, with shape `(rows, means, free)`.
        mode: The mode of each, with shape `(rows, free)`.
        mode_factor: The factor of the covariance of its Laplace approximation, with shape `(rows, free, free)`.
    """

    def __init__(self, means: Tensor, mode: Tensor, mode_factor: Tensor) -> None:
        count, free = means.shape[-2:]
        sd = means.std(1, keepdim=True).clamp_min(1e-300)
        near = torch.cdist(means / sd, means / sd)
        nearest = near.topk(min(count, 1 + max(MIN_NEIGHBOURS, NEIGHBOURS_PER_DIM * free)), largest=False).indices
        rows = torch.arange(len(means), device=means.device)[:, None, None]
        offset = (means[rows, nearest] - means.unsqueeze(2)) / sd.unsqueeze(1)
        identity = torch.eye(free, dtype=means.dtype, device=means.device)
        covariance = offset.mT @ offset / nearest.shape[-1] + MIN_SD**2 * identity
        factors = sd.unsqueeze(-1) * torch.linalg.cholesky(covariance)
        self.means = torch.cat([means, mode.unsqueeze(1)], dim=1)
        self.factors = torch.cat([factors, mode_factor.unsqueeze(1)], dim=1)
        self.inverse = torch.linalg.inv(self.factors)
        weights = means.new_full((count + 1,), (1 - MODE_WEIGHT) / count)
        weights[-1] = MODE_WEIGHT
        self.cumulative = weights.cumsum(0)
        self.log_weight = weights.log() - torch.linalg.slogdet(self.factors)[1] - 0.5 * free * math.log(2 * math.pi)

    def select(self, rows: Tensor) -> "MixtureProposal":
        """Takes the given rows."""
        part = object.__new__(MixtureProposal)
        part.cumulative = self.cumulative
        part.means, part.factors, part.inverse, part.log_weight = (
            each[rows] for each in (self.means, self.factors, self.inverse, self.log_weight)
        )

        return part

    def draw(self, count: int, streams: Streams, *purpose: str | int) -> Tensor:
        """Draws a proposal for each chain, `(rows * count, free)`.

        Args:
            count: The number of chains of each row.
            streams: The random numbers of each chain.
            purpose: What they are for.
        """
        rows, components, free = self.means.shape
        uniform = streams.uniform(1, "which", *purpose).reshape(rows, count)
        component = torch.searchsorted(self.cumulative, uniform).clamp(max=components - 1)
        row = torch.arange(rows, device=component.device).unsqueeze(-1)
        offset = streams.normal(free, "away", *purpose).reshape(rows, count, free, 1)

        drawn: Tensor = self.means[row, component] + (self.factors[row, component] @ offset).squeeze(-1)

        return drawn.flatten(0, 1)

    def log_prob(self, v: Tensor) -> Tensor:
        """Computes the log-density, `(rows * count,)`, of states `(rows * count, free)`."""
        rows, components, free = self.means.shape
        v = v.reshape(rows, -1, free)
        chunk = max(1, CHUNK_ENTRIES // (components * max(1, v.shape[1]) * free))
        parts = [self._log_prob(v[rows], rows) for rows in torch.arange(rows, device=v.device).split(chunk)]

        return torch.cat(parts).flatten()

    def _log_prob(self, v: Tensor, rows: Tensor) -> Tensor:
        means, inverse = self.means[rows], self.inverse[rows]
        # (v - mean) times the inverse factor of each component, as two products.
        offset = torch.einsum("rnj,rmij->rnmi", v, inverse) - torch.einsum("rmj,rmij->rmi", means, inverse).unsqueeze(1)
        each = self.log_weight[rows].unsqueeze(1) - 0.5 * offset.square().sum(-1)

        return torch.logsumexp(each, dim=-1)
