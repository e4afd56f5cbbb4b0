r"""The law of a category: Gaussian noises that compete.

Of :math:`K` classes, each but the first has a noise :math:`u_k` and a mean :math:`m_k(x_{pa})`; the first is the base.
With :math:`g_k = m_k(x_{pa}) + u_k`, the class is the one of the largest :math:`g_k` if that exceeds the constant
:math:`c`, or else the base. It is the limit :math:`\tau \to 0` of the paper's

.. math:: f^{(k)}(x_{pa}, u) = \frac{\exp(g_k / \tau)}{\exp(c / \tau) + \sum_l \exp(g_l / \tau)},

which is the smooth stand-in where classes are relaxed. A class is a convex region of the noise, so that its probability
is exact (with two classes it is a probit). Ordered classes have one noise and cut points :math:`c_1 < c_2 < \dots`: the
class is the number of cut points below :math:`m(x_{pa}) + u`.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), eq. 15.
"""

__all__ = ["Categorical"]

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from deepbc._validation import check_between, check_units
from deepbc.data.variables import Family
from deepbc.errors import SettingError
from deepbc.mechanisms.base import FitOutcome, held_out_gain
from deepbc.mechanisms.bhhh import fit_bhhh
from deepbc.mechanisms.discrete import Discrete
from deepbc.mechanisms.links import Inputs
from deepbc.mechanisms.regions import Interval, Region, Wedge
from deepbc.nn.conditioner import Conditioner, Constant, Parameters
from deepbc.nn.mlp_jacobian import ALL, Moving
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI, log_mass
from deepbc.training.trainer import Split, Train

# Rows from which the linear part is found, rows per chunk, and the ridge penalty of its slopes, in rows.
ROWS_FOR_A_START, ROWS_AT_A_TIME, RIDGE = 100_000, 4096, 1.0
# The network is kept if it gains so many nats and, by the one-standard-error rule, more than its error.
LEAST_GAIN = 3e-4


class Categorical(Discrete):
    """Creates the law of a category, the default mechanism of labels, truth values and columns of two values.

    Args:
        hidden: The units of each hidden layer of the network beside the linear part; none leaves that alone.
        temperature: The temperature of the smooth stand-in, where there are too many classes upstream to try them all.
        offset: The constant that the largest has to exceed.

    Example:
        >>> Categorical()
        Categorical(hidden=(32, 32), temperature=0.1, offset=1.0)
    """

    domain = "category"
    chunk = 4096
    eval_chunk = 8192
    slope: Tensor
    shift: Tensor
    cuts: Tensor
    bent: Tensor

    def __init__(self, *, hidden: Sequence[int] = (32, 32), temperature: float = 0.1, offset: float = 1.0) -> None:
        super().__init__()
        self.hidden = check_units(hidden, "Categorical hidden")
        check_between(temperature, 0.0, torch.inf, "Categorical temperature")
        check_between(offset, 0.0, torch.inf, "Categorical offset")
        self.temperature, self.offset = temperature, offset

    @property
    def shifts(self) -> bool:
        return not self.bent and not any(each.latent.bounded and not each.discrete for each in self.bound.parents)

    def settings(self) -> dict[str, Any]:
        return {"hidden": self.hidden, "temperature": self.temperature, "offset": self.offset}

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
        """What the noises add to, with shape `(*batch, noise)`: the linear part, and what the network adds."""
        scaled = self.inputs.inward(parents)
        linear = self.shift + scaled @ self.slope

        return linear + self.network(scaled, slice(None)).squeeze(-2) if self.bent else linear

    def _means_and_jacobian(self, parents: Tensor, moving: Moving) -> tuple[Tensor, Tensor]:
        """The means, and their derivatives by the parents that move, with shape `(rows, noise, moving)`."""
        scaled, into = self.inputs.inward_and_derivative(parents)
        means, slopes = self.shift + scaled @ self.slope, self.slope[moving].mT.expand(len(parents), -1, -1)
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

        return _region_of(lower, means, self.offset)

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

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        self._start(rows.x, rows.parents)
        linear = self._held_out(rows)
        if not self.parents_dim or not self.hidden:
            self._start_from_all(rows)
            return FitOutcome(linear)

        start = {key: each.clone() for key, each in self.state_dict().items()}
        self.bent.fill_(True)
        network = train(self, "network")
        gain, error = held_out_gain(linear, network)
        pays = gain > max(LEAST_GAIN, error)
        if not pays:
            self.load_state_dict(start)
            self._start_from_all(rows)

        note = f"network {'kept' if pays else 'left out'}: held-out gain {gain:.4f} ± {error:.4f} nats"

        return FitOutcome(network if pays else linear, (note,))

    def _start_from_all(self, rows: Split) -> None:
        """Takes the linear part, once it is chosen, from all rows."""
        self._start(torch.cat([rows.x, rows.held_x]), torch.cat([rows.parents, rows.held_parents]))

    @torch.no_grad()
    def _held_out(self, rows: Split) -> Tensor:
        self.requires_grad_(False)

        return self.loss(rows.held_x, rows.held_parents)

    @torch.no_grad()
    def _start(self, x: Tensor, parents: Tensor) -> None:
        """Takes the scales from the data, and the linear part from maximum likelihood."""
        self.inputs.calibrate(parents)
        known = torch.cat([x, self.inputs.inward(parents)], dim=-1)[:ROWS_FOR_A_START]
        # Rows that are alike count as often as there are; without parents they are as many as classes.
        unique, counts = known.unique(dim=0, return_counts=True)
        x, inputs = unique.split([x.shape[-1], known.shape[-1] - x.shape[-1]], dim=-1)
        counts = counts.to(inputs.dtype)
        if self.ordered:
            self._start_ordered(x, inputs, counts)
        else:
            self._start_unordered(x, inputs, counts)

    def _start_unordered(self, x: Tensor, inputs: Tensor, counts: Tensor) -> None:
        design = torch.cat([torch.ones_like(inputs[:, :1] if inputs.shape[-1] else x[:, :1]), inputs], dim=-1)
        noises = x.shape[-1]

        def losses(weights: Tensor) -> tuple[Tensor, Tensor]:
            means = design @ weights.reshape(design.shape[-1], noises)
            pairs = zip(x.split(ROWS_AT_A_TIME), means.split(ROWS_AT_A_TIME), strict=True)
            regions = [_region_of(*pair, self.offset) for pair in pairs]
            mass = torch.cat([region.log_mass() for region in regions])
            # The slope of the logarithm of a mass by the means is the mean of the noise.
            rise = torch.cat([region.mean() for region in regions])

            return -mass, -(design.unsqueeze(-1) * rise.unsqueeze(-2)).flatten(1)

        start = design.new_zeros(design.shape[-1] * noises)
        ridge = torch.full_like(start, RIDGE)
        ridge[:noises] = 0.0
        weights = fit_bhhh(losses, start, counts, ridge).reshape(design.shape[-1], noises)
        self.shift.copy_(weights[0])
        self.slope.copy_(weights[1:])

    def _start_ordered(self, x: Tensor, inputs: Tensor, counts: Tensor) -> None:
        codes, cuts = x.squeeze(-1).long(), len(self.cuts)
        share = torch.zeros(cuts + 1, dtype=counts.dtype, device=x.device).index_add(0, codes, counts)
        first = torch.special.ndtri((share.cumsum(0) / share.sum())[:-1])

        def losses(weights: Tensor) -> tuple[Tensor, Tensor]:
            inner, slope = weights.split([cuts, inputs.shape[-1]])
            outer = inner.new_full((1,), torch.inf)
            ends, means = torch.cat([-outer, inner, outer]), inputs @ slope
            low, high = ends[codes] - means, ends[codes + 1] - means
            mass = log_mass(low, high)
            rise = [torch.exp(-0.5 * end.square() - LOG_SQRT_2PI - mass) for end in (low, high)]
            places = torch.arange(cuts, device=x.device)
            by_cut = torch.where(codes[:, None] == places + 1, rise[0][:, None], 0.0)
            by_cut = by_cut - torch.where(codes[:, None] == places, rise[1][:, None], 0.0)

            return -mass, torch.cat([by_cut, (rise[1] - rise[0])[:, None] * inputs], dim=-1)

        ridge = torch.cat([torch.zeros_like(first), torch.full_like(inputs[0], RIDGE)])
        weights = fit_bhhh(losses, torch.cat([first, torch.zeros_like(inputs[0])]), counts, ridge)
        self.cuts.copy_(weights[:cuts])
        self.slope.copy_(weights[cuts:, None])


def _region_of(x: Tensor, means: Tensor, offset: float) -> Region:
    """The region of a class without order; that of one of two is an interval."""
    if means.shape[-1] > 1:
        return Wedge(x, means, offset)

    end = offset - means
    return Interval(torch.where(x > 0.5, end, -torch.inf), torch.where(x > 0.5, torch.inf, end))
