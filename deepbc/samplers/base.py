"""The contract of a sampler."""

__all__ = ["Sampler"]

from abc import ABC, abstractmethod
from collections.abc import Callable

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.target import Draws, Target
from deepbc.solvers import Solver


class Sampler(ABC):
    """What draws noises from a density.

    To add a sampler:

    1. Subclass `Sampler` in a file of its own and write `sample` for a batch of densities; it sees nothing causal. All
       random numbers come from the streams, which are a row's own.
    2. Set `penalty` where an antecedent is a penalty on a value rather than met by construction.
    3. Export it in `deepbc/__init__.py` and add a line to the contract test in `tests/samplers/test_samplers.py`.
    """

    # The weight of a squared miss, in standard deviations of its variable; None meets antecedents by construction.
    penalty: float | None = None
    # The largest miss of an antecedent, in standard deviations, that counts as none.
    reach: float = 1e-6
    # What finds the start of the chains.
    solver: Solver

    @abstractmethod
    def sample(self, target: Target, samples: int, streams: Streams, told: Callable[[], None]) -> Draws:
        """Draws samples of every row.

        Args:
            target: The densities.
            samples: How many samples of each.
            streams: The random numbers of each row.
            told: To call once for each of `rounds(samples)` parts of the work.
        """

    @abstractmethod
    def rounds(self, samples: int) -> int:
        """The number of parts of the work, for a progress bar."""
