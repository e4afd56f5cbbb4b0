r"""The linear law of a censored variable, by maximum likelihood.

The latent value is :math:`y^* = \gamma^\top z + \sigma u` with Gaussian noise, and :math:`y = \min(\max(y^*, L), U)` is
seen. In the parameters :math:`h = 1 / \sigma` and :math:`\theta = \gamma / \sigma` the log-likelihood

.. math:: \sum_{L < y < U} \Bigl(\log h - \tfrac12 (h y - \theta^\top z)^2\Bigr)
          + \sum_{y = L} \log \Phi(h L - \theta^\top z) + \sum_{y = U} \log \Phi(\theta^\top z - h U) + \text{const}

is concave, so that Newton's method finds its one maximum.

References:
    Estimation of Relationships for Limited Dependent Variables (Tobin, 1958).
    Note on the Uniqueness of the Maximum Likelihood Estimator for the Tobit Model (Olsen, 1978).
"""

__all__ = ["fit_tobit"]

import torch
from torch import Tensor

from deepbc.errors import FitError
from deepbc.mechanisms.gaussian import LEAST_SPREAD, fit_gaussian
from deepbc.numerics.truncated_normal import inverse_mills_ratio

# Newton's steps, the halvings of each, and the gain a row below which they end.
MAX_STEPS, HALVINGS, LEAST_GAIN = 60, 30, 1e-12


def fit_tobit(
    inputs: Tensor, outputs: Tensor, below: Tensor, above: Tensor, name: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Fits the law to scaled rows.

    Args:
        inputs: The parents, with shape `(rows, inputs)`.
        outputs: The variable, with shape `(rows, 1)`, at its floor or ceiling where it is censored.
        below: Which rows are at the floor, with shape `(rows,)`.
        above: Which rows are at the ceiling.
        name: The variable, for the error where no noise is left.

    Returns:
        The constant `(1,)`, the slopes `(inputs, 1)` and the factor `(1, 1)` of the noise.
    """
    shift, slope, factor = fit_gaussian(inputs, outputs, name)
    design = torch.cat([-torch.ones_like(outputs), -inputs, outputs], dim=-1)
    parameters = torch.cat([shift, slope.squeeze(-1), torch.ones_like(shift)]) / factor.squeeze()
    best = _log_likelihood(design, parameters, below, above)
    for _ in range(MAX_STEPS):
        step = _newton_step(design, parameters, below, above)
        for _ in range(HALVINGS):
            value = _log_likelihood(design, parameters + step, below, above)
            if value > best:
                break
            step = step / 2
        else:
            break
        parameters, gain, best = parameters + step, value - best, value
        if gain < LEAST_GAIN * len(design):
            break

    sd = 1 / parameters[-1]
    if sd < LEAST_SPREAD:
        raise FitError(
            f"Variable {name!r}: where it is neither at its floor nor at its ceiling, it is an exact linear function "
            f"of its parents, so no noise is left. Model it as a Predictor, or take it out of the graph."
        )

    return sd * parameters[:1], sd * parameters[1:-1].unsqueeze(-1), sd.reshape(1, 1)


def _log_likelihood(design: Tensor, parameters: Tensor, below: Tensor, above: Tensor) -> float:
    if parameters[-1] <= 0:
        return -torch.inf
    u = design @ parameters
    free = parameters[-1].log() - 0.5 * u.square()
    terms = torch.where(below, torch.special.log_ndtr(u), torch.where(above, torch.special.log_ndtr(-u), free))

    return float(terms.sum())


def _newton_step(design: Tensor, parameters: Tensor, below: Tensor, above: Tensor) -> Tensor:
    """The step to the maximum of the quadratic model of the log-likelihood."""
    u, h = design @ parameters, parameters[-1]
    side = torch.where(above, -1.0, 1.0).to(u)
    ratio = inverse_mills_ratio(side * u)
    censored = below | above
    first = torch.where(censored, side * ratio, -u)
    curvature = torch.where(censored, ratio * (side * u + ratio), 1.0)
    gradient = design.mT @ first
    hessian = design.mT @ (curvature.unsqueeze(-1) * design)
    points = (~censored).sum()
    gradient[-1] += points / h
    hessian[-1, -1] += points / h.square()

    # Collinear parents share their weight.
    step: Tensor = torch.linalg.pinv(hessian, hermitian=True) @ gradient

    return step
