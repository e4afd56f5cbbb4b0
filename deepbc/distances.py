r"""How far two noises are apart.

A distance :math:`d_i(u'_i, u_i)` says what it costs to move the noise of a variable from :math:`u_i` to :math:`u'_i`.
It is least, and zero, where nothing moves; the backtracking conditional is :math:`p(u' \mid u) \propto \exp(-d(u', u))`
(eq. 3 of the paper).

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), section 2.3.
"""

__all__ = ["Distance", "Squared"]

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from torch import Tensor

from deepbc._checks import check_weights, pick


class Distance(ABC):
    """The cost of moving noise.

    To add a distance:

    1. Subclass `Distance` in this module and write `_moved` for one variable, without weights.
    2. Export it in `deepbc/__init__.py` and add a line to the contract test of distances.
    """

    weights: Mapping[str, float]

    def moved(self, name: str, u_star: Tensor, u: Tensor) -> Tensor:
        r"""Computes what one variable's noise carries, :math:`w_i d_i(u^*_i, u_i)`.

        Args:
            name: The variable.
            u_star: Counterfactual noise :math:`u^*`, with shape `(*batch, noise)`.
            u: Factual noise :math:`u`, with shape `(*batch, noise)`.

        Returns:
            The cost, with shape `(*batch,)`.
        """
        return self.weights.get(name, 1.0) * self._moved(u_star, u)

    def check(self, names: Collection[str]) -> None:
        """Checks that the weights speak of known variables."""
        for name in self.weights:
            pick(name, names, "distance weights")

    @abstractmethod
    def _moved(self, u_star: Tensor, u: Tensor) -> Tensor: ...


class Squared(Distance):
    r"""Creates the squared distance :math:`w_i \lVert u'_i - u_i \rVert^2`, the paper's default.

    Args:
        weights: The weight of each named variable; 1 for the others.

    Example:
        >>> Squared({"thickness": 5.0})
        Squared({'thickness': 5.0})
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self.weights = {name: float(weight) for name, weight in (weights or {}).items()}
        check_weights(self.weights)

    def _moved(self, u_star: Tensor, u: Tensor) -> Tensor:
        return (u_star - u).square().sum(-1)

    def __repr__(self) -> str:
        return f"Squared({self.weights or ''})"
