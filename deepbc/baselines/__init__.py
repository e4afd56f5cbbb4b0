"""Methods to compare with: explanations that know no causal model."""

__all__ = ["Explainer", "Latent", "Tabular"]

from deepbc.baselines.base import Explainer
from deepbc.baselines.latent import Latent
from deepbc.baselines.tabular import Tabular
