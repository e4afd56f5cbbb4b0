r"""Unadjusted Langevin algorithm on the penalised energy: algorithm 2 of the paper on deep backtracking.

.. math:: u' \leftarrow u' - \eta \nabla \mathcal{L}(u') + \sqrt{2 \eta} \, b, \qquad b \sim \mathcal{N}(0, I)

Every sample is the end of a chain of its own that starts at the mode; there is no Metropolis step. At the paper's
settings a chain runs for :math:`T \eta = 0.01` units of time, in which it does not leave the mode: samples are several
times too narrow, and R-hat says so. Where the law of the antecedent is steep the chains diverge. It is here for
reproduction and comparison.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), algorithm 2 and the
    appendix on its implementation.
    Exponential convergence of Langevin distributions and their discrete approximations (Roberts and Tweedie, 1996).
"""

__all__ = ["Langevin"]

import math
from collections.abc import Callable

import torch

from deepbc._validation import check_between, check_count
from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.base import Sampler
from deepbc.samplers.convergence import r_hat
from deepbc.samplers.target import Draws, Target, r_hat_converged
from deepbc.solvers import Linearized

# R-hat is computed from so many chains of a row, at so many times.
MONITORED_CHAINS, MONITORED_TIMES = 16, 32
# The largest coordinate of a chain that has not diverged.
DIVERGED = 1e6


class Langevin(Sampler):
    r"""Creates the paper's own sampler.

    Args:
        penalty: The penalty :math:`\lambda` of the squared residual, in standard deviations of the variable.
        step: The step size :math:`\eta`.
        steps: The number of steps :math:`T` of each chain.

    Example:
        >>> Langevin()
        Langevin(penalty=10000, step=1e-05, steps=1000)
    """

    penalty: float

    def __init__(self, *, penalty: float = 1e4, step: float = 1e-5, steps: int = 1000) -> None:
        check_between(penalty, 0.0, math.inf, "Langevin penalty")
        check_between(step, 0.0, math.inf, "Langevin step")
        check_count(steps, "Langevin steps", least=1)
        self.penalty, self.step, self.steps = penalty, step, steps
        self.solver = Linearized(penalty=penalty)
        # Six standard deviations of the value under the penalty.
        self.feasibility_tolerance = 6 / math.sqrt(2 * penalty)

    def sample(self, target: Target, samples: int, streams: Streams, on_progress: Callable[[], None]) -> Draws:
        rows = torch.arange(target.rows, device=target.start.device).repeat_interleave(samples)
        many, chains = target.select(rows), streams.split(samples)
        v, path = many.start, []
        times = {round(part * self.steps / MONITORED_TIMES) for part in range(1, MONITORED_TIMES + 1)}
        for step in range(1, self.steps + 1):
            _, gradient = many.gradient(v)
            v = v + self.step * gradient + math.sqrt(2 * self.step) * chains.normal(target.free, "step", step)
            v = torch.where(v.abs() < DIVERGED, v, torch.nan)
            if step in times:
                path.append(v.reshape(target.rows, samples, -1)[:, :MONITORED_CHAINS])
            on_progress()

        one = torch.ones(target.rows, dtype=v.dtype, device=v.device)
        monitored = torch.stack(path, dim=2).permute(1, 2, 0, 3)
        largest = r_hat(monitored).amax(-1) if target.free else one

        return Draws(
            v.reshape(target.rows, samples, -1).permute(1, 0, 2),
            largest,
            samples * one,
            one,
            r_hat_converged(largest, MONITORED_TIMES),
        )

    def rounds(self, samples: int) -> int:
        return self.steps

    def __repr__(self) -> str:
        return f"Langevin(penalty={self.penalty:g}, step={self.step:g}, steps={self.steps})"
