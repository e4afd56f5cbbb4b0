"""Deep backtracking counterfactuals: what would have been different, had X been x*?"""

__version__ = "0.1.0"

# Names are loaded on first use (PEP 562), so that `import deepbc` and `deepbc --help` do not wait for torch.
_HOMES = {
    "deepbc.distances": ("Distance", "Squared"),
    "deepbc.errors": (
        "DataError",
        "DeepBCError",
        "FitError",
        "GraphError",
        "NotFittedError",
        "SettingError",
        "StorageError",
        "UnknownNameError",
    ),
    "deepbc.graph": ("CausalGraph",),
    "deepbc.laws": ("law",),
    "deepbc.mechanisms": ("Additive", "Equation", "Flow", "Linear", "Mechanism", "Predictor"),
    "deepbc.queries": ("intervene",),
    "deepbc.results": ("Counterfactual", "FitReport", "Status"),
    "deepbc.scm": ("SCM",),
    "deepbc.training": ("Training",),
    "deepbc.variables": ("Variable",),
    "deepbc.world": ("World",),
}

import importlib
_ALL={n:h for h,ns in _HOMES.items() for n in ns}
def __getattr__(name):
    if name in _ALL: return getattr(importlib.import_module(_ALL[name]), name)
    raise AttributeError(name)
