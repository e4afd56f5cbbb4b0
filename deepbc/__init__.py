"""Deep backtracking counterfactuals: what would have been different, had X been x*?

Names are loaded on first use (PEP 562), so that `import deepbc` and `deepbc --help` do not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from deepbc.distances import Distance, Squared
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
    from deepbc.laws import law
    from deepbc.mechanisms import Additive, Equation, Flow, Linear, Mechanism, Predictor
    from deepbc.queries import intervene
    from deepbc.results import Counterfactual, FitReport, Status
    from deepbc.scm import SCM
    from deepbc.training import Training
    from deepbc.variables import Variable
    from deepbc.world import World

__all__ = [
    "SCM",
    "Additive",
    "CausalGraph",
    "Counterfactual",
    "DataError",
    "DeepBCError",
    "Distance",
    "Equation",
    "FitError",
    "FitReport",
    "Flow",
    "GraphError",
    "Linear",
    "Mechanism",
    "NotFittedError",
    "Predictor",
    "SettingError",
    "Squared",
    "Status",
    "StorageError",
    "Training",
    "UnknownNameError",
    "Variable",
    "World",
    "intervene",
    "law",
]

_HOMES = {
    "SCM": "scm",
    "Additive": "mechanisms",
    "CausalGraph": "graph",
    "Counterfactual": "results",
    "Distance": "distances",
    "Equation": "mechanisms",
    "FitReport": "results",
    "Flow": "mechanisms",
    "Linear": "mechanisms",
    "Mechanism": "mechanisms",
    "Predictor": "mechanisms",
    "Squared": "distances",
    "Status": "results",
    "Training": "training",
    "Variable": "variables",
    "World": "world",
    "intervene": "queries",
    "law": "laws",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'deepbc' has no attribute {name!r}")

    return getattr(importlib.import_module(f"deepbc.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
