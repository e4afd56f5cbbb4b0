r"""The paper's algorithm 2: Langevin dynamics on the penalised energy, without an acceptance step.

.. math:: u' \leftarrow u' - \eta \nabla \mathcal{L}(u') + \sqrt{2 \eta} \, b, \qquad b \sim \mathcal{N}(0, I)

Every sample is a chain of its own that starts at the mode. At the paper's settings a chain runs for
:math:`T \eta = 0.01` units of time, in which it does not leave the mode: samples are several times too narrow, and
R-hat says so. Where the law of the antecedent is steep the steps diverge. It is here for reproduction and comparison.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), algorithm 2 and the
    appendix on its implementation.
"""

__all__ = ["Langevin"]

import math
from collections.abc import Callable

import torch

from deepbc._validation import check_between, check_count
from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.base import Sampler
from deepbc.samplers.convergence import r_hat
from deepbc.samplers.target import Draws, Target, agree
from deepbc.solvers import Linearized

# So many chains of a row are watched, at so many times, to see whether they tell of one density.
WATCHED, TIMES = 16, 32
# A chain that came this far diverged.
FAR = 1e6


class Langevin(Sampler):
    r"""Creates the paper's own sampler.

    Args:
        penalty: The weight :math:`\lambda` of the squared miss, in standard deviations of the variable.
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
        # Six standard deviations of what the penalty lets the value vary.
        self.reach = 6 / math.sqrt(2 * penalty)

    def sample(self, target: Target, samples: int, streams: Streams, told: Callable[[], None]) -> Draws:
        rows = torch.arange(target.rows, device=target.start.device).repeat_interleave(samples)
        many, chains = target.select(rows), streams.split(samples)
        v, path = many.start, []
        times = {round(part * self.steps / TIMES) for part in range(1, TIMES + 1)}
        for step in range(1, self.steps + 1):
            _, slope = many.gradient(v)
            v = v + self.step * slope + math.sqrt(2 * self.step) * chains.normal(target.free, "step", step)
            # A number that left its range comes back as none, and stays so.
            v = torch.where(v.abs() < FAR, v, torch.nan)
            if step in times:
                path.append(v.reshape(target.rows, samples, -1)[:, :WATCHED])
            told()

        one = torch.ones(target.rows, dtype=v.dtype, device=v.device)
        watched = torch.stack(path, dim=2).permute(1, 2, 0, 3)
        disagreement = r_hat(watched).amax(-1) if target.free else one

        return Draws(
            v.reshape(target.rows, samples, -1).permute(1, 0, 2),
            disagreement,
            samples * one,
            one,
            agree(disagreement, TIMES),
        )

    def rounds(self, samples: int) -> int:
        return self.steps

    def __repr__(self) -> str:
        return f"Langevin(penalty={self.penalty:g}, step={self.step:g}, steps={self.steps})"
