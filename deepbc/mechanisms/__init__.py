"""Causal laws: learned from data, or given. Beside them, what the author of a law needs."""

__all__ = [
    "Additive",
    "Atomic",
    "Categorical",
    "Censored",
    "ConvVAE",
    "Discrete",
    "Equation",
    "Family",
    "FitOutcome",
    "Flow",
    "GaussianProcess",
    "Integer",
    "Interval",
    "Linear",
    "Mechanism",
    "Predictor",
    "Region",
    "law",
]

from deepbc.data.variables import Family
from deepbc.mechanisms.additive import Additive
from deepbc.mechanisms.atomic import Atomic
from deepbc.mechanisms.base import FitOutcome, Mechanism
from deepbc.mechanisms.categorical import Categorical
from deepbc.mechanisms.censored import Censored
from deepbc.mechanisms.conv_vae import ConvVAE
from deepbc.mechanisms.discrete import Discrete
from deepbc.mechanisms.equation import Equation
from deepbc.mechanisms.flow import Flow
from deepbc.mechanisms.gaussian_process import GaussianProcess
from deepbc.mechanisms.integer import Integer
from deepbc.mechanisms.linear import Linear
from deepbc.mechanisms.predictor import Predictor
from deepbc.mechanisms.regions import Interval, Region
from deepbc.mechanisms.registry import law
