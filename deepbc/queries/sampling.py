r"""Samples of the worlds in which the antecedent holds, all laws kept.

The density of the noises of the causes :math:`A` of a pinned antecedent :math:`S` is

.. math:: \log p(u'_A) = - \sum_j d_j(u'_j, u_j) + \sum_{i \in S}
          \log \left| \det \frac{\partial f_i^{-1}(x'_{pa(i)}, x^*_i)}{\partial x_i} \right| + \text{const},

where the volume is what conditioning on a value leaves behind. A variable that is asked to lie in an interval is a free
coordinate inside it. Noises that are not upstream of the antecedent are drawn from their own density,
:math:`\propto \exp(-d_j)`.

A class or a whole number does not tell its factual noise. That noise is drawn too, from all that lead to the value, and
what it moves is counted from there.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), sections 3.1.1, 3.3.1.
"""

__all__ = ["backtrack_samples"]

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from deepbc._validation import check_count, check_type
from deepbc.errors import SettingError
from deepbc.numerics.batched import select
from deepbc.numerics.counter_rng import Streams
from deepbc.progress import progress
from deepbc.queries.answer import answer
from deepbc.queries.asked import Asked
from deepbc.queries.backtracking import read_checked
from deepbc.queries.constraints import read_limits
from deepbc.queries.discrete_search import MOST_COMBINATIONS, combinations_of, enumerable, undecided
from deepbc.queries.mode import find_mode
from deepbc.queries.nearest import Search
from deepbc.queries.question import Question, read_question
from deepbc.queries.results import Counterfactual, Diagnostics
from deepbc.queries.sample_target import SampledWorlds, SampleTarget
from deepbc.queries.status import Outcome, RowStatuses, status_of
from deepbc.queries.worlds import Columns, Worlds
from deepbc.samplers import Hamiltonian, Sampler
from deepbc.samplers.target import Draws
from deepbc.scm import SCM
from deepbc.scm.schema import read_names
from deepbc.solvers import Exact

# So many samples are drawn at a time; a row counts as so many at least, because samplers look around before they draw.
CHUNK, LEAST = 65_536, 128
# Combinations of classes are weighed by so many draws at least. Those whose mode costs so much more than that of others
# are pruned, and diagnostics leave out combinations that are expected in fewer than this part of one sample.
LEAST_DRAWS, PRUNED_COST, PART_OF_ONE = 128, 25.0, 0.05
# What a row can be whose samples are drawn.
SAMPLED = (Outcome.CONVERGED, Outcome.MISSED)


def backtrack_samples(
    scm: SCM,
    factual: Any,
    antecedent: Any,
    *,
    samples: int = 100,
    seed: int | None = None,
    sampler: Sampler | None = None,
    distance: Any = None,
    scope: Sequence[str] | None = None,
    constraints: Mapping[str, Any] | None = None,
    inside: str | None = None,
) -> Counterfactual:
    r"""Draws worlds in which the antecedent holds, all laws kept, as likely as they are near: :math:`\propto \exp(-d)`.

    The most likely world of `backtrack` minimises the distance; the peak of this density lies elsewhere where the law
    of the antecedent stretches (the volume in the density).

    Args:
        scm: The fitted model.
        factual: The factual world: one row or many, values of every variable (a `Predictor`'s may be left out).
            Other columns of a data frame are left out.
        antecedent: For each variable one value for all rows or one a row, or an interval: `at_least`, `at_most`,
            `between`, or labels: `one_of`, `other_than`. One factual row with many values gives as many rows.
        samples: How many worlds to draw for each row.
        seed: The seed; the same seed gives the same samples of a row, whatever the other rows are. None draws afresh.
        sampler: How samples are drawn; `Hamiltonian()` by default.
        distance: How far two noises are apart, as for `backtrack`; weights are to be positive.
        scope: The variables whose noise may differ from the factual one; None is all.
        constraints: What may not change, as for `backtrack`.
        inside: `"seen"` keeps numbers inside the range that the fit saw, as for `backtrack`.

    Returns:
        The answer with the samples in front, so that `values`, `noise`, `moved`, `distance` and `error` have shape
        `(samples, *batch, ...)`; `status` and `diagnostics` speak of a row.

    Example:
        >>> from deepbc import CausalGraph, Equation
        >>> law = Equation(predict=lambda u, parents: u, abduct=lambda x, parents: x)
        >>> double = Equation(predict=lambda u, p: 2 * p["a"] + u, abduct=lambda x, p: x - 2 * p["a"])
        >>> scm = SCM(CausalGraph.parse("a -> b"), {"a": law, "b": double})
        >>> cf = backtrack_samples(scm, {"a": 1.0, "b": 2.0}, {"b": 7.0}, samples=1000, seed=0)
        >>> cf.values["a"].shape, cf.status, bool((cf.values["a"].mean() - 3.0).abs() < 0.05)
        (torch.Size([1000]), 'converged', True)
    """
    sampler = Hamiltonian() if sampler is None else sampler
    check_type(sampler, Sampler, "sampler")
    check_count(samples, "samples", least=1)
    question = read_question(scm, factual, antecedent)
    read = read_checked(scm, question, distance)
    limits = read_limits(
        scm, question.x, read_names(scope, tuple(scm.graph), "scope"), tuple(question.asked), constraints, inside
    )
    question, names = question.within(limits.asked, scm).strict(), limits.scope
    search = Search(scm, sampler.solver if read.squared else Exact(), read, names)
    target = SampleTarget.of(scm, sampler, read, names, question)
    classes = enumerable(scm, [name for name in undecided(scm, question.asked, names) if name in names])
    _check_sets(question.asked, classes)
    draw: _Draw = _Mixture(search, target, tuple(combinations_of(scm, classes))) if classes else _Single(search, target)

    modes = draw.find_modes(question)
    # A world that is not the nearest is a start as well; the antecedent holds there, or nearly under a penalty.
    drawable = (modes.statuses.converged | (modes.statuses.outcome == Outcome.MAX_STEPS)).nonzero().squeeze(-1)
    chunks = drawable.split(max(1, CHUNK // (max(samples, LEAST) * draw.densities))) if len(drawable) else ()
    streams = Streams.of(seed, _held(question))
    store = _Store.of(question, modes.worlds, samples, target.drawn)
    with progress("samples", max(1, len(chunks)) * sampler.rounds(samples), None) as shown:
        for rows in chunks:
            store.put(rows, draw(question, modes, rows, _Job(samples, streams.select(rows), shown.advance)))

    statuses = _judge(modes.statuses, sampler, drawable, store)
    diagnostics = Diagnostics(**{name: each.cpu().reshape(question.batch) for name, each in store.told.items()})
    with torch.no_grad():
        return answer(scm, question, store.worlds(modes.worlds), read, statuses, diagnostics)


@dataclass(frozen=True, slots=True)
class _Job:
    """How many samples to draw, with which random numbers, and what to call once for each part of the work."""

    samples: int
    streams: Streams
    on_progress: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Modes:
    """The nearest world of every row, what happened to it, and where chains start.

    Args:
        worlds: The worlds.
        statuses: What happened to each row.
        start: Noise at which chains start, with shape `(rows * densities, noise)`.
        cost: The cost of the mode of each density, with shape `(rows, densities)`.
    """

    worlds: Worlds
    statuses: RowStatuses
    start: Columns
    cost: Tensor


class _Draw(Protocol):
    """Draws samples of rows, from one density each or from several."""

    @property
    def densities(self) -> int: ...

    def find_modes(self, question: Question) -> _Modes: ...

    def __call__(self, question: Question, modes: _Modes, rows: Tensor, job: _Job) -> SampledWorlds: ...


@dataclass(frozen=True, slots=True)
class _Single:
    """Samples of rows that have one density each."""

    search: Search
    target: SampleTarget

    @property
    def densities(self) -> int:
        """The number of densities of a row."""
        return 1

    def find_modes(self, question: Question) -> _Modes:
        worlds, statuses = find_mode(self.search, question)

        return _Modes(worlds, statuses, worlds.u, worlds.cost(question.u, self.search.distance).unsqueeze(-1))

    def __call__(self, question: Question, modes: _Modes, rows: Tensor, job: _Job) -> SampledWorlds:
        start = select(modes.start, rows)

        return self.target.draw(question.select(rows), start, job.samples, job.streams, job.on_progress)


@dataclass(frozen=True, slots=True)
class _Mixture:
    """Samples of all classes upstream: those of each combination, in the share of the density that it holds.

    Args:
        search: How modes are found.
        target: The density of the question itself.
        combinations: The combinations of classes, each a row `(value,)` by variable.
    """

    search: Search
    target: SampleTarget
    combinations: tuple[Columns, ...]

    @property
    def densities(self) -> int:
        """The number of densities of a row."""
        return len(self.combinations)

    def find_modes(self, question: Question) -> _Modes:
        """Finds the mode of each combination; the best of them is that of the row."""
        many, allowed = self._each(question)
        worlds, statuses = find_mode(self.search, many)
        cost = torch.where(statuses.converged & allowed, worlds.cost(many.u, self.search.distance), torch.inf)
        cost = cost.reshape(question.rows, self.densities)
        first = torch.arange(question.rows, device=cost.device) * self.densities
        best = worlds.take(first + cost.argmin(-1))
        said = RowStatuses(torch.zeros_like(first), {each: status_of(each) for each in SAMPLED}, (), statuses.tolerance)

        failed = cost.amin(-1).isinf().nonzero().squeeze(-1)
        if len(failed):
            # Of a row that has none, the search over all classes says why.
            others, reasons = find_mode(self.search, question.select(failed))
            best.put(failed, others)
            said = said.put(failed, reasons)

        return _Modes(best, said, worlds.u, cost)

    def __call__(self, question: Question, modes: _Modes, rows: Tensor, job: _Job) -> SampledWorlds:
        search, count = self.search, self.densities
        many, _ = self._each(question.select(rows))
        each = (rows.unsqueeze(-1) * count + torch.arange(count, device=rows.device)).flatten()
        cost = modes.cost[rows]
        kept = (cost <= cost.amin(-1, keepdim=True) + PRUNED_COST).flatten().nonzero().squeeze(-1)
        inner = SampleTarget.of(search.scm, self.target.sampler, search.distance, search.scope, many)
        start, streams = select(modes.start, each[kept]), job.streams.split(count).select(kept)
        draws = max(job.samples, LEAST_DRAWS)
        drawn = inner.draw(many.select(kept), start, draws, streams, job.on_progress, weigh=True)

        weight = cost.new_full((cost.numel(),), -torch.inf).index_put((kept,), drawn.log_evidence)
        index = torch.zeros(cost.numel(), dtype=torch.long, device=rows.device)
        index[kept] = torch.arange(len(kept), device=rows.device)

        return _mix(drawn, weight.reshape(-1, count).softmax(-1), index.reshape(-1, count), job)

    def _each(self, question: Question) -> tuple[Question, Tensor]:
        """Every row with every combination, one after the other, and whether a row may have it."""
        rows, count = question.rows, self.densities
        every = torch.arange(rows, device=self.search.scm.device)
        many = question.select(every.repeat_interleave(count))
        allowed = torch.ones(rows * count, dtype=torch.bool, device=every.device)
        asked = dict(many.asked)
        for name in self.combinations[0]:
            values = torch.stack([each[name] for each in self.combinations]).repeat(rows, 1)
            if name in asked:
                allowed &= asked[name].missed(values).amax(-1) == 0
            asked[name] = Asked.value(values)

        return replace(many, asked=asked), allowed


def _mix(drawn: SampledWorlds, weight: Tensor, index: Tensor, job: _Job) -> SampledWorlds:
    """Draws samples from a mixture: a component of each at random, and no draw of it twice.

    Args:
        drawn: The samples of all components that have a part.
        weight: The weight of each component, with shape `(rows, combinations)`.
        index: Where its samples are, with the same shape.
        job: How many samples to draw.
    """
    samples = job.samples
    uniform = job.streams.uniform(samples, "class")
    which = torch.searchsorted(weight.cumsum(-1).contiguous(), uniform).clamp(max=weight.shape[-1] - 1)
    before = torch.nn.functional.one_hot(which, weight.shape[-1]).cumsum(1).gather(-1, which.unsqueeze(-1))
    draw, source = before.squeeze(-1).T - 1, index.gather(-1, which).T
    x, u, rest = ({name: each[draw, source] for name, each in part.items()} for part in (drawn.x, drawn.u, drawn.rest))

    used = weight > PART_OF_ONE / samples
    draws, many = drawn.draws, len(drawn.draws.v)
    told = Draws(
        draws.v[:0],
        torch.where(used, draws.r_hat[index], 1.0).amax(-1),
        torch.where(used, draws.effective[index], many).amin(-1) * samples / many,
        (torch.where(used, weight, 0.0) * draws.acceptance[index]).sum(-1),
        (draws.trusted[index] | ~used).all(-1),
    )

    return SampledWorlds(x, u, rest, told, drawn.log_evidence)


@dataclass(frozen=True, slots=True)
class _Store:
    """Samples of all rows as they come in; a row that has none is its mode, again and again.

    Args:
        x: Values, with shape `(samples, rows, value)`.
        u: Noise, with shape `(samples, rows, noise)`.
        rest: Factual noise that was drawn with each sample.
        told: What the sampler says of each row, with shape `(rows,)`.
        trusted: Whether the samples of a row are to be trusted.
    """

    x: Columns
    u: Columns
    rest: Columns
    told: Columns
    trusted: Tensor

    @classmethod
    def of(cls, question: Question, worlds: Worlds, samples: int, drawn: Sequence[str]) -> "_Store":
        x, u = (
            {name: each.expand(samples, *each.shape).clone() for name, each in part.items()}
            for part in (worlds.x, worlds.u)
        )
        rest = {name: question.u[name].expand_as(u[name]).clone() for name in drawn}
        nothing = torch.full_like(worlds.status, torch.nan, dtype=torch.float64)
        told = {name: nothing.clone() for name in ("r_hat", "effective", "acceptance")}

        return cls(x, u, rest, told, torch.zeros_like(worlds.status, dtype=torch.bool))

    def put(self, rows: Tensor, part: SampledWorlds) -> None:
        for mine, theirs in ((self.x, part.x), (self.u, part.u), (self.rest, part.rest)):
            for name, each in mine.items():
                each[:, rows] = theirs[name]
        for name, each in self.told.items():
            each[rows] = getattr(part.draws, name)
        self.trusted[rows] = part.draws.trusted

    def worlds(self, modes: Worlds) -> Worlds:
        """The samples as worlds."""
        return Worlds(self.x, self.u, modes.status, torch.ones_like(modes.certainty), self.rest)


def _check_sets(asked: Mapping[str, Asked], classes: Collection[str]) -> None:
    """Sets of labels are sampled class by class."""
    others = [name for name, each in asked.items() if each.labels is not None and name not in classes]
    if others:
        raise SettingError(
            f"samples: a set of labels is asked of {others[0]!r}, whose noise is out of scope, or beside more "
            f"combinations of classes than {MOST_COMBINATIONS}. Ask for one label, or keep other categories fixed."
        )


def _held(question: Question) -> list[Tensor]:
    """What a row is made of: its factual values and what is asked of it."""
    ends = [end for each in question.asked.values() for end in (each.lower, each.upper, each.labels) if end is not None]

    return [column.double().cpu() for column in (*question.x.values(), *ends)]


def _judge(statuses: RowStatuses, sampler: Sampler, drawn: Tensor, store: _Store) -> RowStatuses:
    """Says whether the samples of each row that were drawn are to be trusted."""
    words = {each: status_of(each, sampler=repr(sampler)) for each in (Outcome.UNTRUSTED, Outcome.DIVERGED)}
    ended = torch.where(store.trusted, int(Outcome.CONVERGED), int(Outcome.UNTRUSTED))
    ended = torch.where(store.told["r_hat"].isfinite(), ended, int(Outcome.DIVERGED))
    outcome = statuses.outcome.clone()
    outcome[drawn] = ended[drawn]

    return replace(
        statuses, outcome=outcome, words={**statuses.words, **words}, tolerance=sampler.feasibility_tolerance
    )
