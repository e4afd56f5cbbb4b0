r"""The density that a sampler is given, unnormalised and with nothing causal in it.

The free coordinates :math:`v` imply noises :math:`n(v)` at a cost :math:`d`, and a further term :math:`b(v)`, such as
the log-volume of a change of variables:

.. math:: \log p(v) = b(v) - d(n(v), u) + \text{const}.

Relative to the normal prior :math:`N(m, \operatorname{diag}(s)^2)`, of mean `prior_mean` and standard deviation
`prior_sd`, the rest of :math:`\log p` plays the part of a log-likelihood.
"""

__all__ = ["Draws", "Target", "r_hat_converged"]

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from deepbc.numerics.batched import select
from deepbc.solvers.problem import Cost

# Chains have converged if R-hat exceeds 1 by no more than this (Vehtari et al., 2021, ask for 0.01), or, as short
# chains differ by chance, than that over their length.
R_HAT_EXCESS, R_HAT_EXCESS_TIMES_LENGTH = 0.02, 5.0

# Computes the charged noises `(rows, noises)` and the further term `(rows,)` from the free coordinates `(rows, free)`.
TargetMap = Callable[[Tensor, Any], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Target:
    r"""A batch of densities, one a row.

    Args:
        rest: The noises that cost nothing, with shape `(rows, noises)`.
        start: Where to start, in float64 with shape `(rows, free)`.
        prior_mean: The mean :math:`m` of the normal prior, in float64 with shape `(rows, free)`.
        prior_sd: Its standard deviations :math:`s`, in float64 with shape `(free,)`.
        given: What else the law needs: any record of tensors of shape `(rows, ...)`.
        law: The map from :math:`v` to :math:`n(v)` and :math:`b(v)`.
        cost: The cost :math:`d`.
    """

    rest: Tensor
    start: Tensor
    prior_mean: Tensor
    prior_sd: Tensor
    given: Any
    law: TargetMap
    cost: Cost

    @property
    def free(self) -> int:
        """The number of free coordinates."""
        return self.start.shape[-1]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.start)

    def select(self, rows: Tensor) -> "Target":
        """Takes the given rows."""
        parts = {name: getattr(self, name)[rows] for name in ("rest", "start", "prior_mean")}

        return replace(self, given=select(self.given, rows), **parts)

    def log_prob(self, v: Tensor) -> Tensor:
        """Computes the log-density, with shape `(rows,)`, from coordinates of the data type of the noises."""
        noises, further = self.law(v, self.given)

        return further - self.cost.value(noises, self.rest)

    def gradient(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the log-density, `(rows,)`, and its gradient, `(rows, free)`."""
        with torch.enable_grad():
            v = v.detach().to(self.rest).requires_grad_()
            log_prob = self.log_prob(v)
            if not log_prob.requires_grad:
                # Nothing is free, or nothing depends on what is.
                return log_prob.double(), torch.zeros_like(v, dtype=torch.float64)
            slope = torch.autograd.grad(log_prob.sum(), v, materialize_grads=True)[0]

        return log_prob.detach().double(), slope.double()


def r_hat_converged(r_hat: Tensor, length: int) -> Tensor:
    """Whether R-hat is as low as that of converged chains of a length."""
    return r_hat <= 1 + max(R_HAT_EXCESS, R_HAT_EXCESS_TIMES_LENGTH / length)


@dataclass(frozen=True, slots=True)
class Draws:
    """The draws of a sampler with their convergence diagnostics.

    Args:
        v: The coordinates, with shape `(samples, rows, free)`.
        r_hat: The largest R-hat of a row, with shape `(rows,)`.
        effective: The effective sample size, with shape `(rows,)`.
        acceptance: The acceptance rate, with shape `(rows,)`.
        trusted: Whether the chains of a row have converged, with shape `(rows,)`.
    """

    v: Tensor
    r_hat: Tensor
    effective: Tensor
    acceptance: Tensor
    trusted: Tensor
