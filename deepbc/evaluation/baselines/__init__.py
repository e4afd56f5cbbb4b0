"""Methods to compare with: explanations that know no causal model."""

__all__ = ["Explainer", "Latent", "Tabular"]

from deepbc.evaluation.baselines.base import Explainer
from deepbc.evaluation.baselines.latent import Latent
from deepbc.evaluation.baselines.tabular import Tabular
