r"""How much of all a density holds: the integral :math:`Z = \int \tilde p(v) \, dv`, from draws of it.

Bridge sampling compares draws of the density with draws of a normal mixture :math:`q` around them, by the function that
is best for both:

.. math:: Z = \frac{E_q[\tilde p / (s_p \tilde p / Z + s_q q)]}{E_p[q / (s_p \tilde p / Z + s_q q)]},

solved by iteration. The mixture comes from one half of the draws, and the other half is compared with it.

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

# The mixture: so many draws at least, and how much wider its second part is.
LEAST_DRAWS, WIDER = 512, 2.0
ROUNDS = 30


@torch.no_grad()
def log_evidence(target: Target, v: Tensor, streams: Streams) -> Tensor:
    """Estimates the logarithm of the integral of each density.

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
    drawn = mixture.draw(max(LEAST_DRAWS, others.shape[1]), streams)
    heights = [(_height(target, places), mixture.log_prob(places)) for places in (others, drawn)]
    p, q = ((height - log_q).nan_to_num(nan=-torch.inf) for height, log_q in heights)

    share = p.shape[1] / (p.shape[1] + q.shape[1])
    log_z = q.logsumexp(-1) - math.log(q.shape[1])
    for _ in range(ROUNDS):
        # In terms of the ratios r = p / q: both means have one denominator.
        upper = (q - _mixed(q, log_z, share)).logsumexp(-1) - math.log(q.shape[1])
        lower = (-_mixed(p, log_z, share)).logsumexp(-1) - math.log(p.shape[1])
        log_z = upper - lower

    return log_z


def _mixed(log_ratio: Tensor, log_z: Tensor, share: float) -> Tensor:
    """The logarithm of the share of p / Z plus that of q, over q."""
    return torch.logaddexp(
        log_ratio - log_z.unsqueeze(-1) + math.log(share), torch.full_like(log_ratio, math.log1p(-share))
    )


def _height(target: Target, v: Tensor) -> Tensor:
    """The log-density of the target at places `(rows, places, free)`, with shape `(rows, places)`."""
    rows, places = v.shape[:2]
    each = target.select(torch.arange(rows, device=v.device).repeat_interleave(places))

    return each.log_prob(v.flatten(0, 1).to(target.rest)).double().reshape(rows, places)


class _Mixture:
    """Two normal densities around draws of shape `(rows, draws, free)`, one wider."""

    def __init__(self, v: Tensor) -> None:
        self.mean = v.mean(1, keepdim=True)
        apart = v - self.mean
        spread = apart.mT @ apart / v.shape[1]
        # A little of its diagonal, so that few draws span all directions.
        diagonal = spread.diagonal(dim1=-2, dim2=-1).clamp_min(1e-12)
        self.factor = torch.linalg.cholesky(0.95 * spread + 0.1 * diagonal.diag_embed())

    def draw(self, count: int, streams: Streams) -> Tensor:
        free = self.mean.shape[-1]
        z = streams.normal(count * free, "bridge").reshape(len(self.mean), count, free)
        wide = torch.where(torch.arange(count, device=z.device) % 2 == 0, 1.0, WIDER).unsqueeze(-1)
        drawn: Tensor = self.mean + (wide * z) @ self.factor.mT

        return drawn

    def log_prob(self, v: Tensor) -> Tensor:
        z: Tensor = torch.linalg.solve_triangular(self.factor, (v - self.mean).mT, upper=False).square().sum(-2)
        free = v.shape[-1]
        size = self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True) + free * LOG_SQRT_2PI
        near, far = -0.5 * z, -0.5 * z / WIDER**2 - free * math.log(WIDER)

        both: Tensor = torch.logaddexp(near, far) - math.log(2.0) - size

        return both
