"""What draws noises from a density. Samplers see nothing causal."""

from deepbc.samplers.base import Sampler
from deepbc.samplers.hamiltonian import Hamiltonian
from deepbc.samplers.langevin import Langevin

__all__ = ["Hamiltonian", "Langevin", "Sampler"]
