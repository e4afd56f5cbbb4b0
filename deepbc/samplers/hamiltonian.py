"""x"""

__all__ = ["Hamiltonian"]

from collections.abc import Callable

import torch

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.adaptive_importance import importance_samples
from deepbc.samplers.base import Sampler
from deepbc.samplers.settings import SETTINGS
from deepbc.samplers.target import Draws, Standardized, Target
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
        drawn = importance_samples(space, samples, streams, on_progress)
        trusted = drawn.reliable & (drawn.effective >= SETTINGS.trusted * samples)
        one = torch.ones_like(drawn.effective)

        return Draws(space.coordinates(drawn.y).transpose(0, 1), one, drawn.effective, drawn.relative_size, trusted)

    def rounds(self, samples: int) -> int:
        return SETTINGS.rounds

    def __repr__(self) -> str:
        return "Hamiltonian()"
