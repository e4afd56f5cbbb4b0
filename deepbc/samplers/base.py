"""The contract of a sampler of densities."""

__all__ = ["Sampler"]

from abc import ABC, abstractmethod
from collections.abc import Callable

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.target import Draws, Target
from deepbc.solvers import Solver


class Sampler(ABC):
    """Draws from unnormalised densities, one a row of a batch.

    To add a sampler, in your own package:

    1. Import `Draws`, `Sampler`, `Streams` and `Target` from `deepbc.samplers`, and subclass `Sampler`.
    2. Write `sample` and `rounds`. `target.log_prob(v)` and `target.gradient(v)` give the density at coordinates `v`;
       chains start at `target.start`. All random numbers come from the streams (`streams.normal(count, "purpose",
       step)`), so that a row has the same draws in any batch.
    3. Set `solver`, which finds the mode where chains start.
    4. Set `penalty` where an antecedent is a penalty on a value rather than met by construction, and
       `feasibility_tolerance` to the largest residual that counts as none.
    5. Pass an instance: `backtrack_samples(..., sampler=MySampler())`.
    """

    # The penalty of a squared residual, in standard deviations of its variable; None meets antecedents by construction.
    penalty: float | None = None
    # The largest residual of an antecedent, in standard deviations, that counts as none.
    feasibility_tolerance: float = 1e-6
    # Finds the mode, where chains start.
    solver: Solver

    @abstractmethod
    def sample(self, target: Target, samples: int, streams: Streams, on_progress: Callable[[], None]) -> Draws:
        """Draws samples of every row.

        Args:
            target: The densities.
            samples: How many samples of each.
            streams: The random numbers of each row.
            on_progress: To call once for each of `rounds(samples)` parts of the work.
        """

    @abstractmethod
    def rounds(self, samples: int) -> int:
        """The number of parts of the work, for a progress bar."""
