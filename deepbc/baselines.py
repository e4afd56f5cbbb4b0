"""The public path of the baselines, which live in `deepbc.evaluation`."""

from deepbc.evaluation.baselines import *  # noqa: F403
from deepbc.evaluation.baselines import __all__ as __all__
