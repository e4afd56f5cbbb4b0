r"""The law that the user knows: :math:`x = f(x_{pa}, u)` and :math:`u = f^{-1}(x_{pa}, x)`, given as two functions."""

__all__ = ["Equation"]

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from deepbc._validation import check_callable, check_count, check_law, check_value_dim
from deepbc.data.variables import Family
from deepbc.mechanisms.base import FitOutcome, Mechanism
from deepbc.training.trainer import Split, Train


class Equation(Mechanism):
    r"""Creates a known law.

    Both functions act row by row, are differentiable by autograd, and get and return float64 tensors of shape
    `(batch, dim)`; `parents` maps each parent's name to such a tensor. The noise is :math:`N(0, I)`.

    Args:
        predict: The law, `predict(u, parents)`.
        abduct: Its inverse, `abduct(x, parents)`.
        noise: The dimension of the noise.
        value: The dimension of a value; 1 is a scalar.

    Example:
        >>> Equation(predict=lambda u, parents: parents["a"] + u, abduct=lambda x, parents: x - parents["a"])
        Equation(noise=1, value=1)
    """

    value: int

    def __init__(
        self,
        *,
        predict: Callable[[Tensor, Mapping[str, Tensor]], Tensor],
        abduct: Callable[[Tensor, Mapping[str, Tensor]], Tensor],
        noise: int = 1,
        value: int = 1,
    ) -> None:
        super().__init__()
        self._functions = (predict, abduct)
        self._noise, self.value = noise, value
        check_callable(predict, "Equation predict")
        check_callable(abduct, "Equation abduct")
        check_count(noise, "Equation noise", least=1)
        check_count(value, "Equation value", least=1)

    @property
    def noise_dim(self) -> int:
        return self._noise

    def settings(self) -> dict[str, Any]:
        predict, abduct = self._functions
        return {"predict": predict, "abduct": abduct, "noise": self._noise, "value": self.value}

    def extra_repr(self) -> str:
        return f"noise={self._noise}, value={self.value}"

    def _build(self, family: Family, generator: Generator) -> None:
        check_value_dim(family.child.name, family.child.dim, self.value, "Equation")

    def _predict(self, u: Tensor, parents: Tensor) -> Tensor:
        return self._call(self._functions[0], u, parents, self.value, "predict")

    def _abduct(self, x: Tensor, parents: Tensor) -> Tensor:
        return self._call(self._functions[1], x, parents, self._noise, "abduct")

    def _call(self, function: Callable[..., Tensor], given: Tensor, parents: Tensor, dim: int, what: str) -> Tensor:
        batch, rows = given.shape[:-1], given.shape[:-1].numel()
        split = self.bound.split(parents.reshape(rows, parents.shape[-1]).double())
        result = function(given.reshape(rows, given.shape[-1]).double(), split)
        where = f"Variable {self.bound.child.name!r}, {what} of its Equation"

        return check_law(result, rows, dim, where).reshape(*batch, dim).to(given.dtype)

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        if not self.has_density:
            return FitOutcome(torch.full_like(rows.held_x[:, 0], torch.nan))

        return FitOutcome(self.loss(rows.held_x, rows.held_parents))
