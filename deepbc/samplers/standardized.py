"""Densities in standardized coordinates at many points a row, and samples of them, for the default sampler."""

__all__ = ["Samples", "Standardized"]

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.batched import map_tensors
from deepbc.samplers.settings import SETTINGS
from deepbc.samplers.target import Draws, Target


@dataclass(frozen=True, slots=True)
class Standardized:
    r"""A batch of densities in the coordinates :math:`y = (v - m) / s`, in which the prior is standard normal."""

    target: Target

    @property
    def free(self) -> int:
        """The number of free coordinates."""
        return self.target.free

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.target.rows

    @property
    def start(self) -> Tensor:
        """Where to start, with shape `(rows, free)`."""
        return (self.target.start - self.target.prior_mean) / self.target.prior_sd

    def select(self, rows: Tensor) -> "Standardized":
        """Takes the given rows."""
        return Standardized(self.target.select(rows))

    def coordinates(self, y: Tensor) -> Tensor:
        """The coordinates :math:`v` of points `(rows, points, free)`."""
        return self.target.prior_mean.unsqueeze(1) + self.target.prior_sd * y

    def log_probs(self, y: Tensor) -> Tensor:
        """Computes log-densities `(rows, points)` at points `(rows, points, free)`; NaN counts as minus infinity."""
        (log_prob,) = self._in_blocks(lambda part, v: (part.log_prob(v.to(part.rest)).double(),), y)

        return log_prob.nan_to_num(nan=-torch.inf)

    def gradients(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Computes log-densities `(rows, points)` and gradients by :math:`y`, `(rows, points, free)`."""
        log_prob, gradient = self._in_blocks(Target.gradient, y)

        return log_prob.nan_to_num(nan=-torch.inf), self.target.prior_sd * gradient

    @torch.no_grad()
    def _in_blocks(self, evaluate: Callable[[Target, Tensor], tuple[Tensor, ...]], y: Tensor) -> list[Tensor]:
        """Evaluates points `(rows, points, free)` in blocks that bound memory."""
        rows, points, _ = y.shape
        v = self.coordinates(y).flatten(0, 1)
        row = torch.arange(rows, device=v.device).repeat_interleave(points)
        blocks = torch.arange(len(v), device=v.device).split(SETTINGS.block)
        parts = [evaluate(self.target.select(row[block]), v[block]) for block in blocks]

        return [torch.cat(each).reshape(rows, points, *each[0].shape[1:]) for each in zip(*parts, strict=True)]


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples and diagnostics, as those of `Draws`, but with rows in front.

    Args:
        y: The samples in standardized coordinates, with shape `(rows, samples, free)`.
        r_hat: R-hat, 1 of samples that are no chains, with shape `(rows,)`, as all that follow.
        effective: The effective sample size.
        acceptance: The acceptance rate, or the relative effective sample size of weighted draws.
        trusted: Whether they are to be trusted.
        log_evidence: The log normalising constant.
        mean: The mean of a normal approximation, with shape `(rows, free)`.
        root: The symmetric root of its covariance, with shape `(rows, free, free)`.
    """

    y: Tensor
    r_hat: Tensor
    effective: Tensor
    acceptance: Tensor
    trusted: Tensor
    log_evidence: Tensor
    mean: Tensor
    root: Tensor

    def replaced(self, rows: Tensor, part: "Samples") -> "Samples":
        """Replaces the given rows."""
        return map_tensors(lambda each, new: each.index_copy(0, rows, new), self, part)

    def draws(self, target: Standardized) -> Draws:
        """The samples in the coordinates of the target, in front of the rows."""
        v = target.coordinates(self.y).transpose(0, 1)

        return Draws(v, self.r_hat, self.effective, self.acceptance, self.trusted)
