r"""The law of a category: Gaussian noises that compete.

Of :math:`K` classes, each but the first has a noise :math:`u_k` and a mean :math:`m_k(x_{pa})`; the first is the base.
With :math:`g_k = m_k(x_{pa}) + u_k`, the class is the one of the largest :math:`g_k` if that exceeds the constant
:math:`c`, or else the base. It is the limit :math:`\tau \to 0` of the paper's

.. math:: f^{(k)}(x_{pa}, u) = \frac{\exp(g_k / \tau)}{\exp(c / \tau) + \sum_l \exp(g_l / \tau)},

which is the smooth stand-in where classes are relaxed. A class is a convex region of the noise, so that its probability
is exact (with two classes it is a probit). Ordered classes have one noise and cut points :math:`c_1 < c_2 < \dots`: the
class is the number of cut points below :math:`m(x_{pa}) + u`.

The means are linear in the causes, plus a smooth part where rows pay for it; evidence decides how strongly each cause
acts (`class_regression`). Far from the data they are linear.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), eq. 15.
"""

__all__ = ["Categorical"]

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from deepbc._validation import check_between, check_count, check_units
from deepbc.data.variables import Family
from deepbc.errors import SettingError
from deepbc.mechanisms.base import FitOutcome, held_out_gain
from deepbc.mechanisms.class_posterior import log_mass_of, region_of
from deepbc.mechanisms.class_regression import ClassRegression, ClassRows, fit_classes, fit_linear
from deepbc.mechanisms.discrete import Discrete
from deepbc.mechanisms.links import Inputs
from deepbc.mechanisms.regions import Interval, Region
from deepbc.nn.bumps import Bumps
from deepbc.nn.conditioner import Conditioner, Constant, Parameters
from deepbc.nn.mlp_jacobian import ALL, Moving
from deepbc.training.trainer import Split, Train

# A cause whose scaled values have a larger kurtosis than this is seen through `asinh`; a normal variable has 3.
LARGEST_KURTOSIS = 6.0
# No more rows than this are learned from, but by the network.
MOST_ROWS = 50_000
# From so many rows to learn from on a network is tried. It is kept if it gains so many nats a row and, by the
# one-standard-error rule (Breiman et al., 1984), more than its error.
NETWORK_ROWS, LEAST_GAIN = 3000, 0.003


class Categorical(Discrete):
    """Creates the law of a category, the default mechanism of labels, truth values and columns of two values.

    Args:
        points: The most points that span the smooth part beside the linear one; with 0 there is none.
        hidden: The units of each hidden layer of the network that is tried where rows are many; none leaves it out.
        temperature: The temperature of the smooth stand-in, where there are too many classes upstream to try them all.
        offset: The constant that the largest has to exceed.

    Example:
        >>> Categorical()
        Categorical(points=96, hidden=(32, 32), temperature=0.1, offset=1.0)
    """

    domain = "category"
    chunk = 4096
    eval_chunk = 8192
    slope: Tensor
    shift: Tensor
    cuts: Tensor
    bent: Tensor

    def __init__(
        self, *, points: int = 96, hidden: Sequence[int] = (32, 32), temperature: float = 0.1, offset: float = 1.0
    ) -> None:
        super().__init__()
        self.hidden = check_units(hidden, "Categorical hidden")
        check_count(points, "Categorical points", least=0)
        check_between(temperature, 0.0, torch.inf, "Categorical temperature")
        check_between(offset, 0.0, torch.inf, "Categorical offset")
        self.points, self.temperature, self.offset = points, temperature, offset

    @property
    def shifts(self) -> bool:
        bounded = any(each.latent.bounded and not each.discrete for each in self.bound.parents)

        return not self.bumps.used and not self.bent and not bounded

    def settings(self) -> dict[str, Any]:
        return {"points": self.points, "hidden": self.hidden, "temperature": self.temperature, "offset": self.offset}

    @classmethod
    def read_settings(cls, settings: dict[str, Any]) -> dict[str, Any]:
        # Before there was a smooth part.
        return {"points": 0, **settings}

    def read_weights(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {**{f"bumps.{key}": tensor for key, tensor in self.bumps.state_dict().items()}, **tensors}

    def _build(self, family: Family, generator: Generator) -> None:
        levels, name = family.child.levels, family.child.name
        if levels is None:
            raise SettingError(
                f"Variable {name!r}: Categorical is the law of a category, and it has numbers. Declare its type with "
                f"types={{{name!r}: 'category'}}."
            )
        parents, scores = family.parents_dim, family.child.dim
        self.ordered = levels.ordered
        self.inputs = Inputs(family.parents)
        self.bumps = Bumps(parents, scores, self.points)
        self.network: Parameters
        if parents:
            self.network = Conditioner(1, parents, scores, self.hidden, generator)
        else:
            self.network = Constant(1, scores)
        self.register_buffer("shift", torch.zeros(scores, dtype=torch.float64))
        self.register_buffer("slope", torch.zeros(parents, scores, dtype=torch.float64))
        self.register_buffer("cuts", torch.arange(len(levels) - 1 if self.ordered else 0, dtype=torch.float64))
        # Whether the network takes part, by the name that saved models have for it.
        self.register_buffer("bent", torch.tensor(False))
        # The gaps between cut points widen where a network explains more.
        self.widened = nn.Parameter(torch.zeros(max(0, len(self.cuts) - 1), dtype=torch.float64))

    def _means(self, parents: Tensor) -> Tensor:
        """What the noises add to, with shape `(*batch, noise)`: linear and smooth part, and what the network adds."""
        scaled = self.inputs.inward(parents)
        means = self.shift + scaled @ self.slope
        if self.bumps.used:
            means = means + self.bumps(scaled)

        return means + self.network(scaled, slice(None)).squeeze(-2) if self.bent else means

    def _means_and_jacobian(self, parents: Tensor, moving: Moving) -> tuple[Tensor, Tensor]:
        """The means, and their derivatives by the parents that move, with shape `(rows, noise, moving)`."""
        scaled, into = self.inputs.inward_and_derivative(parents)
        means, slopes = self.shift + scaled @ self.slope, self.slope[moving].mT.expand(len(parents), -1, -1)
        if self.bumps.used:
            smooth, steep = self.bumps.derive(scaled, moving)
            means, slopes = means + smooth, slopes + steep
        if self.bent and isinstance(self.network, Conditioner):
            added, turned = self.network.derive(scaled, moving)
            means, slopes = means + added, slopes + turned

        return means, slopes * into[:, moving].unsqueeze(-2)

    def _ends(self) -> Tensor:
        """The cut points between minus and plus infinity, with shape `(classes + 1,)`."""
        gaps = self.cuts.diff() * self.widened.exp()
        inner = torch.cat([self.cuts[:1], self.cuts[:1] + gaps.cumsum(0)])
        outer = inner.new_full((1,), torch.inf)

        return torch.cat([-outer, inner, outer])

    def nearest_and_jacobian(
        self, x: Tensor, parents: Tensor, u: Tensor, moving: Moving = ALL
    ) -> tuple[Tensor, Tensor]:
        means, by_parents = self._means_and_jacobian(parents, moving)
        nearest, by_shift = self._region_at(x, x, means).nearest_and_jacobian(u)

        # A region shifts against its means.
        return nearest, -by_shift @ by_parents

    def _region(self, lower: Tensor, upper: Tensor, parents: Tensor) -> Region:
        return self._region_at(lower, upper, self._means(parents))

    def _region_at(self, lower: Tensor, upper: Tensor, means: Tensor) -> Region:
        if self.ordered:
            ends = self._ends()
            return Interval(ends[lower.long()] - means, ends[upper.long() + 1] - means)

        return region_of(lower, means, self.offset)

    def _hard(self, u: Tensor, parents: Tensor) -> Tensor:
        g = self._means(parents) + u
        if self.ordered:
            return (g > self._ends()[1:-1]).to(g.dtype).sum(-1, keepdim=True)

        largest = nn.functional.one_hot(g.argmax(-1), g.shape[-1]) > 0

        return (largest & (g > self.offset)).to(g.dtype)

    def _soft(self, u: Tensor, parents: Tensor) -> Tensor:
        g = self._means(parents) + u
        if self.ordered:
            return ((g - self._ends()[1:-1]) / self.temperature).sigmoid().sum(-1, keepdim=True)

        base = torch.full_like(g[..., :1], self.offset)

        return (torch.cat([base, g], dim=-1) / self.temperature).softmax(-1)[..., 1:]

    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        if self.ordered or not self.training:
            return super().loss(x, parents)

        return -log_mass_of(x, self._means(parents), self.offset)

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        """Chooses by the rows to learn from; then the weights come from all rows, unless a network does better."""
        self.requires_grad_(False)
        found, metric, held_out = self._learn(rows)
        if self.parents_dim and self.hidden and len(rows.kept) >= NETWORK_ROWS:
            start = {key: each.clone() for key, each in self.state_dict().items()}
            # Beside a smooth part it would learn next to nothing.
            with torch.no_grad():
                self._take(fit_linear(self._rows(rows.x[:MOST_ROWS], rows.parents[:MOST_ROWS], metric)), metric)
            self.bent.fill_(True)
            network = train(self.requires_grad_(True), "network")
            gain, error = held_out_gain(held_out, network)
            pays = gain > max(LEAST_GAIN, error)
            notes = (
                *found.notes,
                f"network {'kept' if pays else 'left out'}: held-out gain {gain:.4f} ± {error:.4f} nats",
            )
            if pays:
                return FitOutcome(network, notes)
            self.load_state_dict(start)
            found = replace(found, notes=notes)

        with torch.no_grad():
            everything = torch.cat([rows.kept, rows.held])[:MOST_ROWS]
            self._take(fit_classes(self._rows(*rows.of(everything), metric), self.points, found), metric)

        return FitOutcome(held_out, found.notes)

    @torch.no_grad()
    def _learn(self, rows: Split) -> tuple[ClassRegression, Tensor, Tensor]:
        """Fits the means by the rows to learn from; returns what was found, its metric and the held-out losses."""
        x, parents = rows.x[:MOST_ROWS], rows.parents[:MOST_ROWS]
        self.inputs.calibrate(parents)
        metric, squashed = self._metric(parents)
        self.bumps.see(metric, squashed)
        found = fit_classes(self._rows(x, parents, metric), self.points)
        self._take(found, metric)

        return found, metric, self.loss(rows.held_x, rows.held_parents)

    def _rows(self, x: Tensor, parents: Tensor, metric: Tensor) -> ClassRows:
        """Rows as the regression takes them."""
        scaled = self.inputs.inward(parents)
        codes = x[:, 0].long() if self.ordered else _places(x)
        labels = len(self.cuts) + 1 if self.ordered else x.shape[-1] + 1

        return ClassRows(
            codes, labels, self.ordered, self.offset, self.bumps.seen(scaled), scaled @ metric, self.inputs.dims
        )

    def _take(self, found: ClassRegression, metric: Tensor) -> None:
        """Puts what was found into the law."""
        self.shift.copy_(found.constant)
        self.slope.copy_(metric @ found.slope)
        self.cuts.copy_(found.others)
        self.bumps.set(found.basis.points, found.weight, found.hyper.lengths)

    def _metric(self, parents: Tensor) -> tuple[Tensor, Tensor]:
        """What brings scaled parents to inputs of which a priori all are alike, and which have heavy tails.

        The indicators of labels are brought to coordinates in which all labels, the first too, are equally far from
        each other, and their total variance is one.
        """
        metrics = []
        columns = parents.split(self.inputs.dims, dim=-1) if self.inputs.dims else ()
        for each, part in zip(self.bound.parents, columns, strict=True):
            metric = torch.eye(each.dim, dtype=parents.dtype, device=parents.device)
            if each.levels and each.dim > 1:
                spread = part.std(0, correction=0)
                share = torch.cat([1 - part.mean(0).sum(-1, keepdim=True), part.mean(0)])
                variance = (1 - share.square().sum()).clamp_min(1e-3)
                metric = spread.where(spread > 0, 1.0)[:, None] * torch.linalg.cholesky(metric + 1) / variance.sqrt()
            metrics.append(metric)

        metric = torch.block_diag(*metrics) if metrics else parents.new_zeros(0, 0)
        scaled = self.inputs.inward(parents)
        away = scaled - scaled.mean(0)
        heavy = away.pow(4).mean(0) > LARGEST_KURTOSIS * away.square().mean(0).square()

        return metric, heavy & self._numbers()

    def _numbers(self) -> Tensor:
        """Which components of the parents are no indicators of labels, with shape `(parents,)`."""
        numbers = [torch.full((each.dim,), each.levels is None) for each in self.bound.parents]

        return torch.cat(numbers).to(self.slope.device) if numbers else torch.zeros(0, dtype=torch.bool)


def _places(x: Tensor) -> Tensor:
    """The places of labels that came as indicators of all but the first."""
    return torch.cat([x.new_full((len(x), 1), 0.5), x], dim=-1).argmax(-1)
