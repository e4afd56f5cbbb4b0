r"""Laws of numbers by Gaussian processes: what a few hundred rows can tell, and not more.

From the noise outward,

.. math:: x = b(g(m(x_{pa}) + s(x_{pa}) \, h(u))),

with :math:`m` a linear trend plus the smooth part of a Gaussian process, :math:`s` a constant or the exponential of
another, :math:`h` the quantiles of a density of the noise, :math:`g` the identity or the quantiles of the variable's
own density, and :math:`b` the bounds. Every part is the simplest that leave-one-out likelihood bears out: evidence
decides how much :math:`m` and :math:`s` bend and by which parents, the likelihood of each row under the fit to the
others whether :math:`s`, :math:`g` and :math:`h` are learned at all. A last stage maximises the posterior of the
weights of :math:`m` and :math:`s` under the density that was found. Away from the data the law is linear, and what was
learned is spanned by few points, so that predictions cost little.

References:
    Gaussian Processes for Machine Learning (Rasmussen and Williams, 2006).
    Warped Gaussian Processes (Snelson, Rasmussen and Ghahramani, 2004).
"""

__all__ = ["GaussianProcess"]

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from deepbc._validation import check_count
from deepbc.data.variables import Family
from deepbc.mechanisms.base import FitOutcome
from deepbc.mechanisms.density_map import DensityMap
from deepbc.mechanisms.gaussian import fit_gaussian
from deepbc.mechanisms.layered import Layered
from deepbc.mechanisms.layers import Affine, Layer
from deepbc.mechanisms.links import Inputs, Outer
from deepbc.nn.conditioner import Constant, Parameters
from deepbc.nn.kernel import Kernel, KernelFunction
from deepbc.numerics.gp_regression import CONSTANT
from deepbc.numerics.location_scale import Design, LocationScale, Smooth, weigh, without_inputs
from deepbc.numerics.radial_kernels import KERNELS
from deepbc.numerics.univariate_density import Density, choose_density, estimate
from deepbc.training.trainer import Split, Train

# A parent whose scaled values have a larger kurtosis than this is seen through `asinh`; a normal variable has 3.
LARGEST_KURTOSIS = 6.0
# No more rows than this are learned from.
MOST_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a fit found for a component.

    Args:
        warp: The family and the density by which it is made normal first; None where it is not.
        regression: The regression on its parents.
        squashed: Which inputs are seen through `asinh`.
        notes: What was decided.
    """

    warp: tuple[str, Density] | None
    regression: LocationScale
    squashed: Tensor
    notes: tuple[str, ...] = ()

    @property
    def simple(self) -> bool:
        """Whether least squares find what is most likely."""
        found = self.regression

        return found.mean is None or (found.family == "normal" and found.log_variance is None)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a component: its inputs, its values, and which inputs are squashed."""

    design: Design | None
    y: Tensor
    squashed: Tensor

    def choose(self) -> _Choice:
        """Fits the component as it is and, if that may pay, made normal first; and chooses."""
        if self.design is None:
            found = without_inputs(self.y, None)
            return self._choice(None, found, ())

        mean = self.design.mean(self.y)
        plain = mean.complete()
        family, density = choose_density(self.y)
        if family == "normal":
            return self._choice(None, plain, plain.notes)
        normal, slope = density.noise(self.y), density.slope(self.y).log()
        # Most often it is clear from the mean alone that it does not pay.
        warped_mean = self.design.search(normal, KERNELS[0])
        scores, beside = warped_mean.scores + slope, mean.scores
        if scores.sum() > beside.sum():
            warped = self.design.mean(normal).complete()
            scores, beside = warped.scores + slope, plain.scores
        keeps, note = weigh("transform", scores, beside)
        if keeps:
            return self._choice((family, density), warped, (*warped.notes, note))

        return self._choice(None, plain, (*plain.notes, note))

    def repeat(self, like: _Choice) -> _Choice:
        """Fits the component with choices that were made before."""
        if self.design is None or like.regression.mean is None:
            return self._choice(None, without_inputs(self.y, like.regression), ())

        warp, values = None, self.y
        if like.warp is not None:
            warp = like.warp[0], estimate(like.warp[0], self.y)
            values = warp[1].noise(self.y)
        mean = self.design.fit(values, like.regression.mean.basis.hyper)

        return self._choice(warp, mean.repeat(like.regression), ())

    def _choice(self, warp: tuple[str, Density] | None, found: LocationScale, notes: tuple[str, ...]) -> _Choice:
        return _Choice(warp, found, self.squashed, (*notes, f"noise {found.family}"))


class GaussianProcess(Layered):
    """Creates the law of a number or a vector by Gaussian processes.

    Args:
        points: The most points that span the smooth part of the mean, and of the scale.

    Example:
        >>> GaussianProcess()
        GaussianProcess(points=96)
    """

    def __init__(self, *, points: int = 96) -> None:
        super().__init__()
        check_count(points, "GaussianProcess points", least=1)
        self.points_allowed = points

    def settings(self) -> dict[str, Any]:
        return {"points": self.points_allowed}

    @property
    def affine(self) -> bool:
        family, functions = self.bound, [self._functions(k) for k in range(self.value_dim)]
        bent = any(mean.used or scale.bent for mean, scale in filter(None, functions))
        bounded = any(each.latent.bounded and not each.discrete for each in (family.child, *family.parents))

        return self.noise_map.identity and self.warp.identity and not bent and not bounded

    def _build(self, family: Family, generator: Generator) -> None:
        components = family.child.dim
        self.outer = Outer(family.child)
        self.inputs = Inputs(family.parents)
        self.parameters_of: Parameters
        if components + family.parents_dim == 1:
            self.parameters_of = Constant(1, 2)
        else:
            self.parameters_of = Kernel(components, family.parents_dim, 2, self.points_allowed)
        self.noise_map, self.warp = DensityMap(components), DensityMap(components)
        self.location_scale = Affine(self.parameters_of)

    def _active(self) -> list[Layer]:
        return [self.noise_map, self.location_scale, self.warp]

    def _functions(self, component: int) -> list[KernelFunction]:
        """The mean and the logarithm of the scale of a component; none where it has no causes."""
        return self.parameters_of.of(component) if isinstance(self.parameters_of, Kernel) else []

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        """Chooses by the rows to learn from; then the weights come from all rows."""
        choices = self._learn(rows.x[:MOST_ROWS], rows.parents[:MOST_ROWS], None)
        # Least squares find what is most likely, unless noise is not normal or values stand for what does not show.
        simple = all(choice.simple for choice in choices) and not rows.latent
        self._settle(None if simple else partial(train, self, "posterior"))
        with torch.no_grad():
            held_out = rows.loss(self, rows.held_x, rows.held_parents)
        outcome = FitOutcome(held_out, tuple(note for choice in choices for note in choice.notes))
        everything = torch.cat([rows.kept, rows.held])[:MOST_ROWS]
        self._learn(*rows.of(everything), choices)
        self._settle(None if simple else partial(train, self, "all rows", everything=True))

        return outcome

    @torch.no_grad()
    def _learn(self, x: Tensor, parents: Tensor, like: list[_Choice] | None) -> list[_Choice]:
        """Fits the components, each given those before it; as before, where choices are given."""
        self.inputs.calibrate(parents)
        self.outer.calibrate(x)
        y, _ = self.outer.inward(x)
        context = self.inputs.inward(parents)
        fit_gaussian(context, y, self.bound.child.name)
        choices = []
        for k in range(self.value_dim):
            trend = torch.cat([context, y[:, :k]], dim=-1)
            if like is None:
                away = trend - trend.mean(0)
                squashed = away.pow(4).mean(0) > LARGEST_KURTOSIS * away.square().mean(0).square()
            else:
                squashed = like[k].squashed
            seen, groups = torch.where(squashed, trend.asinh(), trend), [*self.inputs.dims, *([1] * k)]
            design = Design.of(seen, trend, groups, self.points_allowed) if groups else None
            rows = _Rows(design, y[:, k], squashed)
            choices.append(rows.choose() if like is None else rows.repeat(like[k]))
            self._take(k, choices[k])

        return choices

    def _take(self, component: int, choice: _Choice) -> None:
        """Puts what was found into the layers."""
        found = choice.regression
        normal = found.family == "normal" and found.mean is not None
        self.noise_map.set(component, None if normal else found.density)
        self.warp.set(component, choice.warp[1] if choice.warp else None)
        self.location_scale.log_spread[component] = found.log_scale
        parts = zip(
            self._functions(component),
            (found.mean, found.log_variance),
            (math.exp(-found.log_scale), 0.5),
            strict=False,  # without causes there is none
        )
        for function, part, factor in parts:
            if part is None:
                function.learn(
                    torch.eye(1 + function.inputs, 1, dtype=self.warp.noise.dtype), self.warp.noise.new_zeros(1)
                )
            else:
                _learn_smooth(function, part, choice.squashed, factor)

    @torch.no_grad()
    def _settle(self, maximize: Callable[[], Tensor] | None) -> None:
        """Finds the most likely weights, in coordinates that are standard normal a priori, and keeps them."""
        if maximize and self.parents_dim + self.value_dim > 1:
            self.posterior = True
            maximize()
            self.posterior = False
        for k in range(self.value_dim):
            for each in self._functions(k):
                each.settle()


def _learn_smooth(function: KernelFunction, found: Smooth, squashed: Tensor, factor: float) -> None:
    """Starts a function at one that was found, times a factor."""
    basis, hyper = found.basis, found.basis.hyper
    function.place(basis.points, hyper.lengths, squashed, hyper.kernel)
    inputs = function.inputs
    transform = torch.block_diag(
        torch.full((1, 1), CONSTANT, dtype=found.weights.dtype),
        hyper.slope * torch.eye(inputs, dtype=found.weights.dtype),
        hyper.smooth**2 * basis.inverse,
    )
    function.learn(factor * transform, found.weights)
