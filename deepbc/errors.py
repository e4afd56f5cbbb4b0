"""What can go wrong, as exceptions. Each also inherits the built-in exception that a caller would expect."""

__all__ = [
    "DataError",
    "DeepBCError",
    "FitError",
    "GraphError",
    "NotFittedError",
    "SettingError",
    "StorageError",
    "UnknownNameError",
    "WorkerError",
]


class DeepBCError(Exception):
    """The base of every exception that deepbc raises on purpose."""


class GraphError(DeepBCError, ValueError):
    """The causal graph is not an acyclic graph of named variables."""


class DataError(DeepBCError, ValueError):
    """Values or noise that do not fit the model: a NaN, a missing column, a wrong shape, a broken bound."""


class UnknownNameError(DeepBCError, LookupError):
    """A name that the graph or the library does not know."""


class SettingError(DeepBCError, ValueError):
    """A setting of a mechanism, of the training or of a query that cannot be used."""


class NotFittedError(DeepBCError, RuntimeError):
    """The model was asked before it was fitted."""


class FitError(DeepBCError, RuntimeError):
    """The fit cannot go on: too few rows, a loss that turned NaN, a checkpoint of another fit."""


class StorageError(DeepBCError, ValueError):
    """A model folder that cannot be written or must not be read."""


class WorkerError(DeepBCError, RuntimeError):
    """A process that did a part of some work was ended from outside."""
