"""Deep backtracking counterfactuals: what would have been different, had X been x*?

Names are loaded on first use (PEP 562), so that `import deepbc` and `deepbc --help` do not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from deepbc.diagnostics import CheckReport
    from deepbc.distances import Absolute, Distance, Power, Squared
    from deepbc.errors import (
        DataError,
        DeepBCError,
        FitError,
        GraphError,
        NotFittedError,
        SettingError,
        StorageError,
        UnknownNameError,
    )
    from deepbc.graph import CausalGraph
    from deepbc.intervals import at_least, at_most, between
    from deepbc.laws import law
    from deepbc.mechanisms import Additive, Categorical, ConvVAE, Equation, Flow, Integer, Linear, Mechanism, Predictor
    from deepbc.queries import backtrack, backtrack_samples, intervene
    from deepbc.results import Counterfactual, Diagnostics, FitReport, Status
    from deepbc.samplers import Hamiltonian, Langevin, Sampler
    from deepbc.scm import SCM
    from deepbc.solvers import Exact, Gradient, Linearized, Solver, Sparse
    from deepbc.training import Training
    from deepbc.variables import Variable
    from deepbc.world import World

__all__ = [
    "SCM",
    "Absolute",
    "Additive",
    "Categorical",
    "CausalGraph",
    "CheckReport",
    "ConvVAE",
    "Counterfactual",
    "DataError",
    "DeepBCError",
    "Diagnostics",
    "Distance",
    "Equation",
    "Exact",
    "FitError",
    "FitReport",
    "Flow",
    "Gradient",
    "GraphError",
    "Hamiltonian",
    "Integer",
    "Langevin",
    "Linear",
    "Linearized",
    "Mechanism",
    "NotFittedError",
    "Power",
    "Predictor",
    "Sampler",
    "SettingError",
    "Solver",
    "Sparse",
    "Squared",
    "Status",
    "StorageError",
    "Training",
    "UnknownNameError",
    "Variable",
    "World",
    "at_least",
    "at_most",
    "backtrack",
    "backtrack_samples",
    "between",
    "intervene",
    "law",
]

_HOMES = {
    "SCM": "scm",
    "Additive": "mechanisms",
    "Categorical": "mechanisms",
    "CausalGraph": "graph",
    "CheckReport": "diagnostics",
    "ConvVAE": "mechanisms",
    "Counterfactual": "results",
    "Distance": "distances",
    "Equation": "mechanisms",
    "FitReport": "results",
    "Flow": "mechanisms",
    "Integer": "mechanisms",
    "Linear": "mechanisms",
    "Mechanism": "mechanisms",
    "Predictor": "mechanisms",
    "Squared": "distances",
    "Status": "results",
    "Training": "training",
    "Variable": "variables",
    "World": "world",
    "intervene": "queries",
    "Absolute": "distances",
    "Power": "distances",
    "Exact": "solvers",
    "Gradient": "solvers",
    "Linearized": "solvers",
    "Solver": "solvers",
    "Sparse": "solvers",
    "at_least": "intervals",
    "at_most": "intervals",
    "between": "intervals",
    "backtrack": "queries",
    "backtrack_samples": "queries",
    "Diagnostics": "results",
    "Hamiltonian": "samplers",
    "Langevin": "samplers",
    "Sampler": "samplers",
    "law": "laws",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'deepbc' has no attribute {name!r}")

    return getattr(importlib.import_module(f"deepbc.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
