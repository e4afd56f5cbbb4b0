"""The public path of the metrics, which live in `deepbc.evaluation`."""

from deepbc.evaluation.metrics import *  # noqa: F403
from deepbc.evaluation.metrics import __all__ as __all__
