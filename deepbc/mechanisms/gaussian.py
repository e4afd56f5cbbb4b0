r"""What laws with additive Gaussian noise share: :math:`x = b(m + L u)` for a mean :math:`m` and a factor :math:`L`."""

__all__ = ["AdditiveGaussian", "fit_gaussian"]

from abc import abstractmethod

import torch
from torch import Generator, Tensor

from deepbc.data.variables import Family
from deepbc.errors import FitError
from deepbc.mechanisms.base import Mechanism
from deepbc.mechanisms.least_squares import least_squares
from deepbc.mechanisms.links import Inputs, Outer

LEAST_SPREAD = 1e-9


def fit_gaussian(inputs: Tensor, outputs: Tensor, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Fits the linear law in closed form, to scaled rows, where least squares is well conditioned.

    Args:
        inputs: The parents, with shape `(rows, inputs)`.
        outputs: The variable, with shape `(rows, outputs)`.
        name: The variable, for the error where no noise is left.

    Returns:
        The constant `(outputs,)`, the slopes `(inputs, outputs)` and the factor `(outputs, outputs)`.
    """
    shift, slope, residual = least_squares(inputs, outputs)
    factor, failed = torch.linalg.cholesky_ex(residual.T @ residual / len(outputs))
    if failed or factor.diagonal().min() < LEAST_SPREAD:
        raise FitError(
            f"Variable {name!r}: in the rows to learn from, it is constant or an exact linear function of its parents "
            f"or of its own components, so no noise is left. Model it as a Predictor, or take it out of the graph."
        )

    return shift, slope, factor


class AdditiveGaussian(Mechanism):
    """A law with additive Gaussian noise, of which a subclass says the mean and, where it learns one, the factor."""

    shift: Tensor
    slope: Tensor
    factor: Tensor

    def _build(self, family: Family, generator: Generator) -> None:
        value = family.child.dim
        self.outer = Outer(family.child)
        self.inputs = Inputs(family.parents)
        self.register_buffer("shift", torch.zeros(value, dtype=torch.float64))
        self.register_buffer("slope", torch.zeros(family.parents_dim, value, dtype=torch.float64))
        self.register_buffer("factor", torch.eye(value, dtype=torch.float64))
        self._build_network(family, generator)

    def _predict(self, u: Tensor, parents: Tensor) -> Tensor:
        return self.outer.outward(self._mean(parents) + u @ self._factor().T)

    def _invert(self, x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        (y, log_volume), factor = self.outer.inward(x), self._factor()
        residual = (y - self._mean(parents)).unsqueeze(-1)
        u = torch.linalg.solve_triangular(factor, residual, upper=False).squeeze(-1)

        return u, (log_volume - factor.diagonal().log()).sum(-1)

    @torch.no_grad()
    def _solve(self, x: Tensor, parents: Tensor) -> None:
        """Takes the scales from the data, and shift, slope and factor from least squares on scaled rows."""
        self.outer.calibrate(x)
        self.inputs.calibrate(parents)
        y, _ = self.outer.inward(x)
        solution = fit_gaussian(self.inputs.inward(parents), y, self.bound.child.name)
        for buffer, solved in zip((self.shift, self.slope, self.factor), solution, strict=True):
            buffer.copy_(solved)

    @abstractmethod
    def _build_network(self, family: Family, generator: Generator) -> None:
        """Makes the weights that training finds, if any, beside those of least squares."""

    @abstractmethod
    def _mean(self, parents: Tensor) -> Tensor:
        """Computes the mean :math:`m(x_{pa})` of the unbounded, scaled value, with shape `(*batch, value)`."""

    @abstractmethod
    def _factor(self) -> Tensor:
        """Returns the lower triangular factor :math:`L`."""
