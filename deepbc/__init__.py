"""Deep backtracking counterfactuals: what would have been different, had X been x*?

Names are loaded on first use (PEP 562), so that `import deepbc` and `deepbc --help` do not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from deepbc.data import Variable, World
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
        WorkerError,
    )
    from deepbc.evaluation.check import CheckReport, check
    from deepbc.graph import CausalGraph
    from deepbc.mechanisms import (
        Additive,
        Categorical,
        Censored,
        ConvVAE,
        Equation,
        Flow,
        GaussianProcess,
        Integer,
        Linear,
        Mechanism,
        Predictor,
        law,
    )
    from deepbc.queries import (
        Counterfactual,
        Diagnostics,
        Status,
        at_least,
        at_most,
        backtrack,
        backtrack_samples,
        between,
        intervene,
        one_of,
        other_than,
    )
    from deepbc.samplers import Hamiltonian, Langevin, Sampler
    from deepbc.scm import SCM
    from deepbc.solvers import Exact, Gradient, Linearized, Solver, Sparse
    from deepbc.training import FitReport, Training

__all__ = [
    "SCM",
    "Absolute",
    "Additive",
    "Categorical",
    "CausalGraph",
    "Censored",
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
    "GaussianProcess",
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
    "WorkerError",
    "World",
    "at_least",
    "at_most",
    "backtrack",
    "backtrack_samples",
    "between",
    "check",
    "intervene",
    "law",
    "one_of",
    "other_than",
]

_HOMES = {
    "data": "Variable World",
    "distances": "Absolute Distance Power Squared",
    "evaluation.check": "CheckReport check",
    "graph": "CausalGraph",
    "mechanisms": "Additive Categorical Censored ConvVAE Equation Flow GaussianProcess Integer Linear Mechanism "
    "Predictor law",
    "queries": "Counterfactual Diagnostics Status at_least at_most backtrack backtrack_samples between intervene "
    "one_of other_than",
    "samplers": "Hamiltonian Langevin Sampler",
    "scm": "SCM",
    "solvers": "Exact Gradient Linearized Solver Sparse",
    "training": "FitReport Training",
}
_ROOMS = {name: room for room, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'deepbc' has no attribute {name!r}")

    return getattr(importlib.import_module(f"deepbc.{_ROOMS.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
