r"""Mixtures of normal densities, :math:`q(y) = \sum_j \pi_j N(y; m_j, R_j^2)`, fitted to weighted draws.

An EM step with the importance weights :math:`w_k` of draws :math:`y_k` makes a mixture nearer to the density of these
in Kullback-Leibler divergence:

.. math:: \rho_{jk} = \frac{\pi_j N(y_k; m_j, R_j^2)}{q(y_k)}, \qquad \pi_j' = \sum_k w_k \rho_{jk}, \qquad
          m_j' = \sum_k \frac{w_k \rho_{jk}}{\pi_j'} y_k,

and likewise the covariances, which are shrunk toward the last ones as few draws allow.

References:
    Adaptive importance sampling in general mixture classes (Cappé, Douc, Guillin, Marin and Robert, 2008), section 3.
"""

__all__ = ["Mixture", "rounded", "symmetric_root", "systematic"]

from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.batched import select
from deepbc.numerics.counter_rng import Streams
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI
from deepbc.samplers.settings import SETTINGS


@dataclass(frozen=True, slots=True)
class Mixture:
    """Mixtures, one a row.

    Args:
        mean: The means, with shape `(rows, components, free)`.
        root: The symmetric roots of the covariances, with shape `(rows, components, free, free)`.
        log_weight: The logarithms of their weights, with shape `(rows, components)`.
    """

    mean: Tensor
    root: Tensor
    log_weight: Tensor

    def select(self, rows: Tensor) -> "Mixture":
        """Takes the given rows."""
        return select(self, rows)

    def join(self, other: "Mixture", share: Tensor) -> "Mixture":
        """Adds the components of another, which has the given share, `(rows, 1)`, of the whole."""
        weights = self.log_weight + torch.log1p(-share), other.log_weight + share.log()
        parts = (self.mean, other.mean), (self.root, other.root), weights

        return Mixture(*(torch.cat(each, dim=1) for each in parts))

    def largest(self, count: int) -> "Mixture":
        """The components of largest weight, so many at most."""
        row = torch.arange(len(self.mean), device=self.mean.device).unsqueeze(-1)
        kept = self.log_weight.topk(min(count, self.mean.shape[1]), dim=-1).indices.sort(-1).values

        return Mixture(self.mean[row, kept], self.root[row, kept], self.log_weight[row, kept].log_softmax(-1))

    def draw(self, count: int, streams: Streams, *purpose: str | int) -> Tensor:
        """Draws points, the number from each component in proportion to its weight, `(rows, count, free)`."""
        rows, components, free = self.mean.shape
        drawn = z = streams.normal(count * free, "point", *purpose).reshape(rows, count, free)
        component = systematic(self.log_weight, count, streams, "component", *purpose).unsqueeze(-1)
        for j in range(components):
            drawn = torch.where(component == j, self.mean[:, j : j + 1] + z @ self.root[:, j], drawn)

        return drawn

    def log_parts(self, y: Tensor) -> Tensor:
        """Computes the log-density of each component times its weight, `(rows, points, components)`."""
        inverse = torch.linalg.inv(self.root)
        volume = torch.linalg.slogdet(self.root)[1] + y.shape[-1] * LOG_SQRT_2PI
        squares = [((y - self.mean[:, j : j + 1]) @ inverse[:, j]).square().sum(-1) for j in range(self.mean.shape[1])]
        parts: Tensor = (self.log_weight - volume).unsqueeze(1) - 0.5 * torch.stack(squares, dim=-1)

        return parts

    def log_prob(self, y: Tensor) -> Tensor:
        """Computes the log-density, `(rows, points)`, of points `(rows, points, free)`."""
        return self.log_parts(y).logsumexp(-1)

    def fitted(self, y: Tensor, log_weight: Tensor) -> "Mixture":
        """Makes an EM step.

        Args:
            y: Draws, with shape `(rows, draws, free)`.
            log_weight: The logarithms of their weights, with shape `(rows, draws)`.
        """
        shares = self.log_parts(y).softmax(-1) * softmax(log_weight).unsqueeze(-1)
        weights = shares.sum(1)
        means, roots = [], []
        for j in range(self.mean.shape[1]):
            share = (shares[..., j] / weights[:, j : j + 1].clamp_min(1e-300)).unsqueeze(-1)
            mean = (share * y).sum(1, keepdim=True)
            centred = y - mean
            # Two draws a coordinate weigh as much as the last covariance.
            size = 1 / share.square().sum((1, 2)).clamp_min(1e-300)
            trust = torch.where(weights[:, j] > 0, size / (size + 2 * y.shape[-1]), 0.0)[:, None, None]
            means.append(trust * mean + (1 - trust) * self.mean[:, j : j + 1])
            last = self.root[:, j] @ self.root[:, j]
            roots.append(symmetric_root(torch.lerp(last, (share * centred).mT @ centred, trust)))
        weights = torch.where(self.log_weight > -torch.inf, weights + SETTINGS.least_weight, 0.0)

        log_weight = rounded((weights / weights.sum(-1, keepdim=True)).log())

        return Mixture(rounded(torch.cat(means, dim=1)), torch.stack(roots, dim=1), log_weight)


def softmax(log_weight: Tensor) -> Tensor:
    """The weights, which sum to 1; equal ones where none is a number."""
    return log_weight.softmax(-1).nan_to_num(nan=1 / max(1, log_weight.shape[-1]))


def symmetric_root(covariance: Tensor) -> Tensor:
    """The symmetric root of covariances; unlike eigenvectors it is continuous where eigenvalues are equal."""
    variances, axes = torch.linalg.eigh(covariance)
    root: Tensor = (axes * variances.clamp(*SETTINGS.variances).sqrt().unsqueeze(-2)) @ axes.mT
    root = rounded(root)

    return 0.5 * (root + root.mT)


def rounded(number: Tensor) -> Tensor:
    """Rounds what a next step begins with: last digits depend on the shape of a batch, and grow from step to step."""
    return (number / SETTINGS.grid).round() * SETTINGS.grid


def systematic(log_weight: Tensor, count: int, streams: Streams, *purpose: str | int) -> Tensor:
    """Draws so many indices of each row by systematic sampling, in order, with shape `(rows, count)`."""
    cumulative = softmax(log_weight).cumsum(-1)
    places = (torch.arange(count, device=cumulative.device) + streams.uniform(1, *purpose)) / count

    return torch.searchsorted(cumulative / cumulative[:, -1:], places).clamp(max=log_weight.shape[-1] - 1)
