r"""Bridge sampling: the normalising constant :math:`Z = \int \tilde p(v) \, dv` from draws of the density.

With draws of a normal mixture :math:`q` fitted to those of the density, the optimal bridge function gives

.. math:: Z = \frac{E_q[\tilde p / (s_p \tilde p / Z + s_q q)]}{E_p[q / (s_p \tilde p / Z + s_q q)]},

solved by fixed-point iteration. The mixture is fitted to one half of the draws, and the other half enters the ratio.

References:
    Simulating ratios of normalizing constants via a simple identity (Meng and Wong, 1996).
"""

__all__ = ["log_evidence"]

import math

import torch
from torch import Tensor

from deepbc.numerics.counter_rng import Streams
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI
from deepbc.samplers.target import Target

# The least number of draws of the mixture, and the scale of its second component, against tails heavier than normal.
MIN_DRAWS, WIDE_SCALE = 512, 2.0
# The fixed-point iteration converges in a few.
ITERATIONS = 30


@torch.no_grad()
def log_evidence(target: Target, v: Tensor, streams: Streams) -> Tensor:
    """Estimates the log normalising constant of each density.

    Args:
        target: The densities.
        v: Draws, with shape `(draws, rows, free)`.
        streams: The random numbers of each row.

    Returns:
        The logarithm, with shape `(rows,)`.
    """
    if not target.free:
        return target.log_prob(target.start.to(target.rest)).double()

    v = v.transpose(0, 1)
    fitted, others = v[:, ::2], v[:, 1::2]
    mixture = _Mixture(fitted)
    drawn = mixture.draw(max(MIN_DRAWS, others.shape[1]), streams)
    log_densities = [(_log_prob(target, points), mixture.log_prob(points)) for points in (others, drawn)]
    p, q = ((log_p - log_q).nan_to_num(nan=-torch.inf) for log_p, log_q in log_densities)

    share = p.shape[1] / (p.shape[1] + q.shape[1])
    log_z = q.logsumexp(-1) - math.log(q.shape[1])
    for _ in range(ITERATIONS):
        # In terms of the ratios r = p / q: both means have one denominator.
        upper = (q - _log_bridge(q, log_z, share)).logsumexp(-1) - math.log(q.shape[1])
        lower = (-_log_bridge(p, log_z, share)).logsumexp(-1) - math.log(p.shape[1])
        log_z = upper - lower

    return log_z


def _log_bridge(log_ratio: Tensor, log_z: Tensor, share: float) -> Tensor:
    """The logarithm of the denominator of the bridge function over :math:`q`."""
    return torch.logaddexp(
        log_ratio - log_z.unsqueeze(-1) + math.log(share), torch.full_like(log_ratio, math.log1p(-share))
    )


def _log_prob(target: Target, v: Tensor) -> Tensor:
    """The unnormalised log-density at points `(rows, points, free)`, with shape `(rows, points)`."""
    rows, points = v.shape[:2]
    each = target.select(torch.arange(rows, device=v.device).repeat_interleave(points))

    return each.log_prob(v.flatten(0, 1).to(target.rest)).double().reshape(rows, points)


class _Mixture:
    """A mixture of two normal densities fitted to draws `(rows, draws, free)`, of which the second is wider."""

    def __init__(self, v: Tensor) -> None:
        self.mean = v.mean(1, keepdim=True)
        centred = v - self.mean
        covariance = centred.mT @ centred / v.shape[1]
        # Shrunk toward its diagonal, so that it has full rank with few draws.
        diagonal = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-12)
        self.factor = torch.linalg.cholesky(0.95 * covariance + 0.1 * diagonal.diag_embed())

    def draw(self, count: int, streams: Streams) -> Tensor:
        free = self.mean.shape[-1]
        z = streams.normal(count * free, "bridge").reshape(len(self.mean), count, free)
        scale = torch.where(torch.arange(count, device=z.device) % 2 == 0, 1.0, WIDE_SCALE).unsqueeze(-1)
        drawn: Tensor = self.mean + (scale * z) @ self.factor.mT

        return drawn

    def log_prob(self, v: Tensor) -> Tensor:
        z: Tensor = torch.linalg.solve_triangular(self.factor, (v - self.mean).mT, upper=False).square().sum(-2)
        free = v.shape[-1]
        size = self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True) + free * LOG_SQRT_2PI
        near, far = -0.5 * z, -0.5 * z / WIDE_SCALE**2 - free * math.log(WIDE_SCALE)

        both: Tensor = torch.logaddexp(near, far) - math.log(2.0) - size

        return both
