r"""Explanations in the latent space of images: the nearest noise whose picture is read as what is asked.

With an autoencoder of the images alone, whose decoder is :math:`g`, and a regressor :math:`h` that reads a number:

.. math:: \min_{z'} \; |z' - z|^2 \quad \text{subject to} \quad h(g(z')) = y^*.

The noise :math:`z` has no structure: neither attributes nor causes. The attributes of the new image are read from it.
It is backtracking in a model of an image and a `Predictor` on top.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), section 3.2.
"""

__all__ = ["Latent"]

import os
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from deepbc._validation import check_count, pick
from deepbc.evaluation.baselines.base import Explainer
from deepbc.graph import CausalGraph
from deepbc.mechanisms import ConvVAE, Predictor
from deepbc.queries import backtrack
from deepbc.queries.results import Counterfactual
from deepbc.scm.model import SCM
from deepbc.solvers import Solver
from deepbc.training.trainer import Training

IMAGE, READ = "image", "read"
GRAPH = CausalGraph({IMAGE: [], READ: [IMAGE]})


class Latent(Explainer):
    """Creates explanations by an autoencoder of images and what reads them; `Latent.fit` learns the autoencoder.

    Args:
        scm: A fitted model of an image without causes, `image`, and what is `read` from it.
        readers: For each attribute what reads it from rows of pixels `(batch, pixels)`, as `(batch, 1)`.
    """

    def __init__(self, scm: SCM, readers: Mapping[str, nn.Module]) -> None:
        self.readers = dict(readers)
        self.models = {name: scm.replace(READ, Predictor(reader)) for name, reader in self.readers.items()}

    @classmethod
    def fit(
        cls,
        images: Any,
        readers: Mapping[str, nn.Module],
        *,
        law: ConvVAE | None = None,
        training: Training | None = None,
        seed: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> "Latent":
        """Learns an autoencoder of images.

        Args:
            images: The images, as `SCM.fit` takes them.
            readers: What reads the attributes.
            law: The autoencoder; `ConvVAE()` by default.
            training: How it is trained.
            seed: Where all random numbers come from.
            checkpoint: A folder in which the state of the fit is kept.
            progress: Whether to show a progress bar; None shows it on a terminal.
        """
        check_count(len(readers), "Latent readers", least=1)
        # The mean of all pixels stands for the readers: the fit does not depend on who reads.
        mean = Predictor(lambda parents: parents[IMAGE].mean(-1, keepdim=True))
        scm = SCM(GRAPH, {IMAGE: law or ConvVAE(), READ: mean})
        table = {} if training is None else {IMAGE: training}
        scm.fit({IMAGE: images}, seed=seed, training=table, checkpoint=checkpoint, progress=progress)

        return cls(scm, readers)

    def _explain(
        self, factual: Mapping[str, Any], name: str, value: Any, solver: Solver
    ) -> tuple[Counterfactual, dict[str, Tensor]]:
        scm = self.models[pick(name, tuple(self.models), "antecedent")]
        cf = backtrack(scm, {IMAGE: factual[IMAGE]}, {READ: value}, solver=solver)
        rows = cf.values[IMAGE].reshape(-1, scm.variables[IMAGE].dim)
        read = {each: reader(rows).detach().double().reshape(cf.batch) for each, reader in self.readers.items()}

        return cf, {**read, IMAGE: cf.values[IMAGE]}
