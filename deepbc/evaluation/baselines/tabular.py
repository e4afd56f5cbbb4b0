r"""Explanations in the columns of a table: the nearest other values for which a regressor predicts what is asked.

For each column :math:`y` a regressor :math:`h` learns to predict it from all others :math:`x`, and the explanation is

.. math:: \min_{x'} \; \sum_j \Bigl(\frac{x'_j - x_j}{s_j}\Bigr)^2 \quad \text{subject to} \quad h(x') = y^*,

with :math:`s_j` the standard deviations. No column is the cause of another: what one does to the others is left out. It
is backtracking in a model in which every :math:`x_j` is its own noise, and a `Predictor` is on top.

References:
    Counterfactual Explanations without Opening the Black Box (Wachter, Mittelstadt and Russell, 2017).
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), section 4.2.
"""

__all__ = ["Tabular"]

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_count, pick
from deepbc.evaluation.baselines.base import Explainer
from deepbc.graph import CausalGraph
from deepbc.mechanisms import Additive, Equation, Linear, Mechanism, Predictor
from deepbc.queries import backtrack
from deepbc.queries.results import Counterfactual
from deepbc.scm.model import SCM
from deepbc.solvers import Solver
from deepbc.training.trainer import Training


class Tabular(Explainer):
    """Creates explanations by the regressors of a table; `Tabular.fit` learns them.

    Args:
        models: For each column the model in which all others are their own noise and predict it.
    """

    def __init__(self, models: Mapping[str, SCM]) -> None:
        self.models = dict(models)

    @classmethod
    def fit(
        cls,
        data: Mapping[str, Tensor],
        names: Sequence[str],
        *,
        training: Training | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> "Tabular":
        """Learns a regressor of each column from all others.

        Args:
            data: The columns, with shape `(rows,)`.
            names: Those that take part, two or more.
            training: How the regressors are trained.
            seed: Where all random numbers come from.
            progress: Whether to show a progress bar; None shows it on a terminal.
        """
        check_count(len(names), "Tabular names", least=2)
        columns = {name: data[pick(name, tuple(data), "Tabular names")] for name in names}
        models = {}
        for name in names:
            graph = CausalGraph({each: [] for each in names if each != name} | {name: [n for n in names if n != name]})
            laws: dict[str, Mechanism] = {each: Additive() if each == name else Linear() for each in names}
            scm = SCM(graph, laws)
            scm.fit(columns, seed=seed, training={} if training is None else {name: training}, progress=progress)
            models[name] = _without_causes(scm, name)

        return cls(models)

    def _explain(
        self, factual: Mapping[str, Any], name: str, value: Any, solver: Solver
    ) -> tuple[Counterfactual, dict[str, Tensor]]:
        scm = self.models[pick(name, tuple(self.models), "antecedent")]
        cf = backtrack(scm, {each: factual[each] for each in self.models if each != name}, {name: value}, solver=solver)

        return cf, {each: cf.values[each] for each in self.models if each != name} | {name: cf.antecedent[name]}


def _without_causes(scm: SCM, name: str) -> SCM:
    """The model in which the causes are their own noise, in standard deviations, and their effect has none."""
    law = scm.mechanisms[name]

    def regress(parents: Mapping[str, Tensor]) -> Tensor:
        known = torch.cat([parents[each] for each in scm.graph.parents(name)], dim=-1)
        return law.predict(known.new_zeros(*known.shape[:-1], law.noise_dim), known)

    laws: dict[str, Mechanism] = {each: _scaled(scm.schema.sd(each).item()) for each in scm.graph.parents(name)}

    return SCM(scm.graph, {**laws, name: Predictor(regress)})


def _scaled(sd: float) -> Equation:
    return Equation(predict=lambda u, parents: u * sd, abduct=lambda x, parents: x * (1 / sd))
