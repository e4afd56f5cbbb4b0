r"""Regression of classes on their causes: what is chosen, and by what.

The means of the competing noises are linear, or linear plus smooth. How strongly each cause acts is decided by the
evidence of each label against the others (`numerics.probit_evidence`). The weights are the mode of the posterior; a
mode has no spread, and with few rows is too sure of itself or not sure enough, so that all prior standard deviations
have one common factor more, chosen by the likelihood of each row under the fit to the others. The same likelihood
decides whether the smooth part is kept. Each label counts as half a row more, without causes (Krichevsky and
Trofimov), so that none that is rare among the rows becomes impossible.

References:
    The Performance of Universal Encoding (Krichevsky and Trofimov, 1981).
"""

__all__ = ["ClassRegression", "ClassRows", "fit_classes", "fit_linear"]

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.mechanisms.class_posterior import ClassPosterior, Likelihood, Ordered, Unordered
from deepbc.numerics.gp_regression import CONSTANT, Basis, Hyperparameters, span
from deepbc.numerics.probit_evidence import ClassHyperparameters, evidence_rows, find_class_hyperparameters
from deepbc.numerics.radial_kernels import KERNELS
from deepbc.numerics.seeding import generator

# The row that each label counts as beside those it has.
HALF = 0.5
# Truth values that are looked at for the evidence.
MOST_TRUTHS = 6
# Rows times means by which factor and smooth part are chosen, and the fewest rows.
CHOICE_ROWS, FEWEST_CHOICE_ROWS = 8_000, 1_000
# Folds of few rows.
FOLDS = 4
# Factors of the prior standard deviations, and which is tried first.
FACTORS, FIRST = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0), 4
# The smooth part is kept if it gains so many nats in all, and more than their standard error.
LEAST_TOTAL_GAIN = 3.0


@dataclass(frozen=True, slots=True)
class ClassRows:
    """The rows of a regression.

    Args:
        codes: The places of the labels, with shape `(rows,)`.
        labels: How many there are.
        ordered: Whether their order means something.
        offset: What the largest of competing numbers has to exceed.
        seen: What the smooth part sees, with shape `(rows, inputs)`.
        trend: What the linear trend sees, with shape `(rows, inputs)`.
        groups: The number of components of each cause.
        counts: How often each row counts, with shape `(rows,)`; None once.
    """

    codes: Tensor
    labels: int
    ordered: bool
    offset: float
    seen: Tensor
    trend: Tensor
    groups: Sequence[int]
    counts: Tensor | None = None

    def take(self, rows: slice | Tensor) -> "ClassRows":
        """Some of the rows."""
        return replace(self, codes=self.codes[rows], seen=self.seen[rows], trend=self.trend[rows])

    def distinct(self) -> "ClassRows":
        """Rows that are alike as one that counts as often, in an order that says nothing."""
        known = torch.cat([self.codes[:, None], self.trend, self.seen], dim=-1)
        unique, counts = known.unique(dim=0, return_counts=True)
        order = torch.randperm(len(unique), generator=generator(0, "distinct rows")).to(unique.device)
        unique, counts = unique[order], counts[order]
        codes, trend, seen = unique.split([1, self.trend.shape[-1], self.seen.shape[-1]], dim=-1)

        return replace(self, codes=codes[:, 0].long(), trend=trend, seen=seen, counts=counts.to(trend))

    @property
    def means(self) -> int:
        """How many means a row has."""
        return 1 if self.ordered else self.labels - 1

    def truths(self) -> Tensor:
        """Each label against the others, or each cut between ordered ones, as 1 and -1, `(truths, rows)`."""
        places = torch.arange(self.labels, device=self.codes.device)[:, None]
        truths = (self.codes > places)[:-1] if self.ordered else self.codes == places
        if self.labels == 2:
            truths = truths[:1]
        rarer = torch.minimum(truths.sum(-1), (~truths).sum(-1))
        kept = rarer.argsort(descending=True)[:MOST_TRUTHS]

        return 2 * truths[kept].to(self.trend.dtype) - 1

    def posterior(self, basis: Basis, slopes: Tensor, factor: float) -> ClassPosterior:
        """The posterior of half a row of each label without causes, and behind them of all rows."""
        places = torch.arange(self.labels, device=self.codes.device)
        codes = torch.cat([places, self.codes])
        nothing = self.trend.new_zeros(self.labels, self.trend.shape[-1])
        coordinates = basis(torch.cat([nothing, self.seen]), torch.cat([nothing, self.trend]) * slopes)
        coordinates[:, 1:] *= factor
        own = self.trend.new_ones(len(self.codes)) if self.counts is None else self.counts
        counts = torch.cat([own.new_full((self.labels,), HALF), own])
        likelihood: Likelihood
        if self.ordered:
            # Cut points stand for the constant.
            coordinates, likelihood = coordinates[:, 1:], Ordered(codes, self.labels - 1)
        else:
            likelihood = Unordered((codes[:, None] == places[1:]).to(self.trend.dtype), self.offset)

        return ClassPosterior(likelihood, coordinates, counts)


@dataclass(frozen=True, slots=True)
class ClassRegression:
    """A regression.

    Args:
        basis: The coordinates of the means.
        hyper: The hyperparameters.
        factor: The common factor of the prior standard deviations.
        theta: The mode in these coordinates.
        others: The cut points of ordered levels, with shape `(cuts,)`.
        constant: The constants, with shape `(means,)`.
        slope: The slopes by what the trend sees, with shape `(inputs, means)`.
        weight: The weights of the bumps at the points, with shape `(points, means)`.
        notes: What was tried and what it gained.
    """

    basis: Basis
    hyper: ClassHyperparameters
    factor: float
    theta: Tensor
    others: Tensor
    constant: Tensor
    slope: Tensor
    weight: Tensor
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A factor, and the log-likelihood of rows under the fit to others, with hyperparameters that others determine.

    Where these are those of the final fit too, they are given.
    """

    factor: float
    scores: Tensor
    hyper: ClassHyperparameters | None


def fit_classes(rows: ClassRows, points: int, like: ClassRegression | None = None) -> ClassRegression:
    """Fits the regression.

    Args:
        rows: The rows.
        points: The most points that span the smooth part.
        like: A fit to other rows of which all but the weights is to be kept.
    """
    if like is not None:
        return _weigh(rows, like.basis, like.hyper, like.factor, like.theta)
    if not rows.groups:
        one = rows.trend.new_ones(0)
        hyper = ClassHyperparameters(one, one, 0.0, 0.0)
        return _weigh(rows, _span(rows, hyper, points), hyper, 1.0)

    some = rows.take(slice(max(FEWEST_CHOICE_ROWS, CHOICE_ROWS // rows.means)))
    chosen = _candidate(some, points, smooth=False)
    notes: tuple[str, ...] = ()
    smooth = False
    if points:
        bent = _candidate(some, points, smooth=True)
        gain = bent.scores - chosen.scores
        total, error = gain.sum().item(), gain.std().item() * math.sqrt(len(gain))
        smooth = total > max(LEAST_TOTAL_GAIN, error)
        chosen = bent if smooth else chosen
        word = "kept" if smooth else "left out"
        notes = (f"smooth part {word}: gain {total / len(gain):.4f} ± {error / len(gain):.4f} nats",)
    hyper = chosen.hyper or _evidence(some, smooth=smooth)

    return replace(_weigh(rows, _span(rows, hyper, points), hyper, chosen.factor), notes=notes)


def fit_linear(rows: ClassRows) -> ClassRegression:
    """Fits the regression without a smooth part."""
    hyper = _evidence(rows, smooth=False)

    return _weigh(rows, _span(rows, hyper, 1), hyper, 1.0)


def _evidence(rows: ClassRows, *, smooth: bool) -> ClassHyperparameters:
    return find_class_hyperparameters(rows.seen, rows.trend, rows.truths(), rows.groups, smooth=smooth)


def _candidate(rows: ClassRows, points: int, *, smooth: bool) -> _Candidate:
    """Finds hyperparameters by the evidence of some rows, and the factor by the likelihood of the others.

    Each of these under the fit to all rows but itself. Few rows are split into folds, each judged in its turn.
    """
    total = len(rows.codes)
    most = evidence_rows(len(rows.truths()))
    places = torch.arange(total, device=rows.codes.device)
    if 2 * total >= 3 * most:
        parts = [(places[:most], places[most:])]
    else:
        parts = [(places[places % FOLDS != fold], places[places % FOLDS == fold]) for fold in range(FOLDS)]
    hypers = [_evidence(rows.take(learned), smooth=smooth) for learned, _ in parts]
    bases = [_span(rows, hyper, points) for hyper in hypers]
    found: dict[int, Tensor] = {}

    def score(place: int) -> float:
        if place not in found:
            scores = []
            for hyper, basis, (_, judged) in zip(hypers, bases, parts, strict=True):
                posterior = rows.posterior(basis, hyper.slopes, FACTORS[place])
                scores.append(posterior.leave_one_out(posterior.mode())[rows.labels :][judged])
            found[place] = torch.cat(scores)
        return float(found[place].sum())

    place = FIRST
    for step in (-1, 1):
        while 0 <= place + step < len(FACTORS) and score(place + step) > score(place):
            place += step

    return _Candidate(FACTORS[place], found[place], hypers[0] if len(parts) == 1 else None)


def _span(rows: ClassRows, hyper: ClassHyperparameters, points: int) -> Basis:
    # The noise of a class has unit variance; slopes are in what the trend sees.
    return span(
        rows.seen, Hyperparameters(hyper.lengths, hyper.smooth, 1.0, 1.0, hyper.log_evidence, KERNELS[0]), points
    )


def _weigh(
    rows: ClassRows, basis: Basis, hyper: ClassHyperparameters, factor: float, start: Tensor | None = None
) -> ClassRegression:
    """Finds the weights by all rows."""
    posterior = rows.distinct().posterior(basis, hyper.slopes, factor)
    theta = posterior.mode(start)
    others, weights = posterior.split(theta)
    constant = weights.new_zeros(rows.means)
    if not rows.ordered:
        constant, weights = CONSTANT * weights[0], weights[1:]
    slope, smooth = (factor * weights).tensor_split([rows.trend.shape[-1]])

    return ClassRegression(
        basis,
        hyper,
        factor,
        theta,
        others,
        constant,
        hyper.slopes[:, None] * slope,
        hyper.smooth**2 * basis.inverse @ smooth,
    )
