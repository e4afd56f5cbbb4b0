"""Markov chain samplers of a density known up to a constant; they see `Target`s, nothing causal."""

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.base import Sampler
from deepbc.samplers.hamiltonian import Hamiltonian
from deepbc.samplers.langevin import Langevin
from deepbc.samplers.target import Draws, Target

__all__ = ["Draws", "Hamiltonian", "Langevin", "Sampler", "Streams", "Target"]
