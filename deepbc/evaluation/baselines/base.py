"""What methods without a causal model share: they say which values would have had to be others, and nothing of why.

The world that they describe is held against a causal model: all that they change is forced, what they do not know (an
image beside its attributes) is drawn with its factual noise, and the noise that the model needs for it is reported.
"""

__all__ = ["Explainer"]

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from deepbc.errors import DataError
from deepbc.queries import intervene
from deepbc.queries.results import Counterfactual
from deepbc.scm.model import SCM
from deepbc.solvers import Exact, Solver


class Explainer(ABC):
    """A method that explains a value of one variable without a causal model.

    To add one, write `_explain`, and a way to fit what it needs.
    """

    def explain(
        self, scm: SCM, factual: Mapping[str, Any], antecedent: Mapping[str, Any], *, solver: Solver | None = None
    ) -> Counterfactual:
        """Answers what would have had to be different for one variable to be another, in the eyes of this method.

        Args:
            scm: The causal model in which the answer is described.
            factual: The factual rows, values of every variable of the model and of all that this method looks at.
            antecedent: One variable and its value, for all rows or one a row.
            solver: How the nearest explanation is found; `Exact()` by default.

        Returns:
            The answer. `values` are those of the explanation, `noise`, `moved` and `distance` what the causal model
            makes of them; `error` and `status` say whether the method reached in its own eyes what was asked.
        """
        if len(antecedent) != 1:
            raise DataError(f"antecedent: expected one variable, got {len(antecedent)}. Ask them one by one.")
        ((name, value),) = antecedent.items()
        own, values = self._explain(factual, name, value, solver or Exact())
        known = {each: factual[each] for each in scm.graph if each in factual}
        forced = intervene(scm, known, {each: column for each, column in values.items() if each in scm.graph})
        asked = {name: forced.antecedent[name]}

        return replace(forced, antecedent=asked, error=own.error, status=own.status)

    @abstractmethod
    def _explain(
        self, factual: Mapping[str, Any], name: str, value: Any, solver: Solver
    ) -> tuple[Counterfactual, dict[str, Tensor]]:
        """Finds the explanation; returns the answer in the method's own model, and all values that it fixes."""
