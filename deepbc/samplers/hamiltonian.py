r"""The default sampler: adaptive importance sampling, and Hamiltonian chains where its weights are not enough.

1. *Laplace approximation* at the mode (`laplace`).
2. *Adaptive importance sampling* from a mixture that begins with it (`adaptive_importance`), row by row until the
   *Pareto diagnostic* (`pareto`) finds the weights reliable and the draws are worth the samples. Where laws are linear
   and distances squared the approximation is the density, and the first round is enough in any dimension.
3. *Resample-move*: where weights are uneven, samples move along a few trajectories of *split Hamiltonian Monte Carlo*
   (`split_hmc`), which takes away the bias that finitely many weights leave.
4. *Chains* of such trajectories for what is left, rows of many dimensions, until R-hat and effective sample size
   (`convergence`) say that they agree.

All constants are in `settings`.
"""

__all__ = ["Hamiltonian"]

from collections.abc import Callable

from deepbc.numerics.batched import select
from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.adaptive_importance import importance_samples
from deepbc.samplers.base import Sampler
from deepbc.samplers.settings import SETTINGS
from deepbc.samplers.split_hmc import chain_samples, moved_samples
from deepbc.samplers.standardized import Standardized
from deepbc.samplers.target import Draws, Target
from deepbc.solvers import Exact


class Hamiltonian(Sampler):
    """Creates the default sampler.

    Example:
        >>> Hamiltonian()
        Hamiltonian()
    """

    def __init__(self) -> None:
        self.solver = Exact()

    def sample(self, target: Target, samples: int, streams: Streams, on_progress: Callable[[], None]) -> Draws:
        space = Standardized(target)
        drawn, left, draws = importance_samples(space, samples, streams, on_progress)
        rows = (drawn.trusted & (drawn.acceptance < SETTINGS.even)).nonzero().squeeze(-1)
        if len(rows):
            drawn = drawn.replaced(rows, moved_samples(space.select(rows), select(drawn, rows), streams.select(rows)))
        if len(left):
            chained = chain_samples(space.select(left), draws, samples, streams.select(left), on_progress)
            drawn = drawn.replaced(left, chained)
        else:
            for _ in range(SETTINGS.attempts):
                on_progress()

        return drawn.draws(space)

    def rounds(self, samples: int) -> int:
        return SETTINGS.rounds + SETTINGS.attempts

    def __repr__(self) -> str:
        return "Hamiltonian()"
