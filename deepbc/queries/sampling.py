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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_count, check_type
from deepbc.distances import Squared
from deepbc.numerics.counter_rng import Streams
from deepbc.progress import progress
from deepbc.queries.answer import RowStatuses, answer
from deepbc.queries.backtracking import find_mode, read_checked
from deepbc.queries.discrete_search import Rows, all_classes, few_classes, moving_classes
from deepbc.queries.question import Asked, Question, read_question
from deepbc.queries.results import Counterfactual, Diagnostics
from deepbc.queries.sample_target import DrawPlan, Part
from deepbc.queries.status import not_converged
from deepbc.samplers import Hamiltonian, Sampler
from deepbc.samplers.target import Draws
from deepbc.scm.model import SCM
from deepbc.solvers import Exact, Solver

# So many samples are drawn at a time; a row counts as so many at least, because samplers look around before they draw.
CHUNK, LEAST = 262_144, 128
# Classes are weighed by so many draws at least. Those whose nearest world is so much dearer than that of others have no
# part in the samples; and what is said of samples leaves out classes that fewer than this part of one sample has.
LEAST_DRAWS, DEAR, PART_OF_ONE = 128, 25.0, 0.05


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
) -> Counterfactual:
    r"""Draws worlds in which the antecedent holds, all laws kept, as likely as they are near: :math:`\propto \exp(-d)`.

    The most likely world of `backtrack` minimises the distance; the peak of this density lies elsewhere where the law
    of the antecedent stretches (the volume in the density).

    Args:
        scm: The fitted model.
        factual: The factual world: one row or many, values of every variable (a `Predictor`'s may be left out).
        antecedent: For each variable one value for all rows or one a row, or an interval: `at_least`, `at_most`,
            `between`. One factual row with many values gives as many rows.
        samples: How many worlds to draw for each row.
        seed: The seed; the same seed gives the same samples of a row, whatever the other rows are. None draws afresh.
        sampler: How samples are drawn; `Hamiltonian()` by default.
        distance: How far two noises are apart, as for `backtrack`; weights are to be positive.
        scope: The variables whose noise may differ from the factual one; None is all.

    Returns:
        The answer, with the samples in front: `values`, `noise`, `moved`, `distance` and `error` have shape
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
    plan = DrawPlan.of(scm, sampler, read, scm.names(scope, "scope"), question)
    streams = Streams.of(seed, _held(question))

    squared = all(isinstance(read.of(name), Squared) for name in scm.graph)
    solver = sampler.solver if squared else Exact()
    mode = find_mode(scm, question, solver, read, plan.scope)
    moving = moving_classes(scm, question.asked, plan.scope)
    classes = few_classes(scm, [name for name in moving if name in plan.scope])
    fine = ((mode.endings.code == 0) | ((mode.endings.code == 1) & (sampler.penalty is not None))).nonzero().squeeze(-1)
    combinations = list(all_classes(scm, classes))
    chunks = fine.split(max(1, CHUNK // (max(samples, LEAST) * len(combinations))))
    x, u = (
        {name: each.expand(samples, *each.shape).clone() for name, each in part.items()} for part in (mode.x, mode.u)
    )
    rest = {name: question.u[name].expand_as(u[name]).clone() for name in plan.drawn}
    names = ("r_hat", "effective", "acceptance")
    told = {name: torch.full_like(mode.endings.code, torch.nan, dtype=torch.float64) for name in names}
    trusted = torch.zeros_like(mode.endings.code, dtype=torch.bool)
    with progress("samples", max(1, len(chunks)) * sampler.rounds(samples), None) as shown:
        for rows in chunks if len(fine) else ():
            if classes:
                mix = _Mix(scm, plan, solver, combinations, samples, shown.advance)
                part = mix.draw(question.select(rows), streams.select(rows))
            else:
                part = plan.draw(question, mode, rows, samples, streams.select(rows), shown.advance)
            for name in scm.graph:
                x[name][:, rows], u[name][:, rows] = part.x[name], part.u[name]
            for name in plan.drawn:
                rest[name][:, rows] = part.rest[name]
            for name in names:
                told[name][rows] = getattr(part.draws, name)
            trusted[rows] = part.draws.trusted

    endings = _endings(mode.endings, sampler, fine, trusted, told["r_hat"])
    diagnostics = Diagnostics(**{name: each.cpu().reshape(question.batch) for name, each in told.items()})
    with torch.no_grad():
        return answer(scm, question, (x, u), read, endings, diagnostics, rest)


@dataclass(frozen=True, slots=True)
class _Mix:
    """Samples of all classes upstream: those of each combination, in the share of the density that it holds.

    Args:
        scm: The model.
        plan: The plan of the question itself.
        solver: What finds the start of the chains.
        combinations: The combinations of classes, each a row `(value,)` by variable.
        samples: How many samples to draw of each row.
        told: To call once for each part of the work.
    """

    scm: SCM
    plan: DrawPlan
    solver: Solver
    combinations: Sequence[Rows]
    samples: int
    told: Callable[[], None]

    def draw(self, question: Question, streams: Streams) -> Part:
        """Draws samples of all rows of a question."""
        plan, count = self.plan, len(self.combinations)
        many, allowed = self._each(question)
        mode = find_mode(self.scm, many, self.solver, plan.distance, plan.scope)
        moved = [plan.distance.moved(name, each, many.u[name]) for name, each in mode.u.items()]
        cost = torch.where((mode.endings.code == 0) & allowed, torch.stack(moved).sum(0), torch.inf).reshape(-1, count)
        rows = (cost <= cost.amin(-1, keepdim=True) + DEAR).flatten().nonzero().squeeze(-1)
        inner = DrawPlan.of(self.scm, plan.sampler, plan.distance, plan.scope, many)
        draws = max(self.samples, LEAST_DRAWS)
        part = inner.draw(many, mode, rows, draws, streams.split(count).select(rows), self.told, weigh=True)

        weight = part.evidence.new_full((cost.numel(),), -torch.inf).index_put((rows,), part.evidence)
        weight = weight.reshape(-1, count).softmax(-1)
        place = torch.zeros(cost.numel(), dtype=torch.long, device=rows.device)
        place[rows] = torch.arange(len(rows), device=rows.device)

        return self._pick(part, weight, place.reshape(-1, count), streams)

    def _each(self, question: Question) -> tuple[Question, Tensor]:
        """Every row with every combination, one after the other, and whether a row may have it."""
        rows, count = question.batch.numel(), len(self.combinations)
        every = torch.arange(rows, device=self.plan.scm.device)
        many = question.select(every.repeat_interleave(count))
        allowed = torch.ones(rows * count, dtype=torch.bool, device=every.device)
        asked = dict(many.asked)
        for name in self.combinations[0]:
            values = torch.stack([each[name] for each in self.combinations]).repeat(rows, 1)
            if name in asked:
                allowed &= asked[name].missed(values).amax(-1) == 0
            asked[name] = Asked(values, values, False)

        return Question(many.x, many.u, asked, many.batch), allowed

    def _pick(self, part: Part, weight: Tensor, place: Tensor, streams: Streams) -> Part:
        """Picks samples among those of all combinations: each by chance, and no draw twice.

        Args:
            part: The samples of all combinations that have a part.
            weight: The share of each, with shape `(rows, combinations)`.
            place: Where its samples are, with the same shape.
            streams: The random numbers of each row.
        """
        chance = streams.uniform(self.samples, "class")
        which = torch.searchsorted(weight.cumsum(-1).contiguous(), chance).clamp(max=weight.shape[-1] - 1)
        before = torch.nn.functional.one_hot(which, weight.shape[-1]).cumsum(1).gather(-1, which.unsqueeze(-1))
        draw, source = before.squeeze(-1).T - 1, place.gather(-1, which).T
        x, u, rest = ({name: each[draw, source] for name, each in rows.items()} for rows in (part.x, part.u, part.rest))

        used = weight > PART_OF_ONE / self.samples
        draws, drawn = part.draws, len(part.draws.v)
        told = Draws(
            draws.v[:0],
            torch.where(used, draws.r_hat[place], 1.0).amax(-1),
            torch.where(used, draws.effective[place], drawn).amin(-1) * self.samples / drawn,
            (torch.where(used, weight, 0.0) * draws.acceptance[place]).sum(-1),
            (draws.trusted[place] | ~used).all(-1),
        )

        return Part(x, u, rest, told, part.evidence)


def _held(question: Question) -> list[Tensor]:
    """What a row is made of: its factual values and what is asked of it."""
    ends = [end for each in question.asked.values() for end in (each.lower, each.upper)]

    return [column.double().cpu() for column in (*question.x.values(), *ends)]


def _endings(endings: RowStatuses, sampler: Sampler, drawn: Tensor, trusted: Tensor, r_hat: Tensor) -> RowStatuses:
    """Says in words whether the samples of each row that were drawn are to be trusted."""
    untrusted = not_converged(
        f"The chains of {sampler!r} do not tell of one density yet, or their samples hang together: `diagnostics` says "
        f"how much.",
        "Draw more samples, allow more warm-up or refresh, or take the sampler Hamiltonian() as it comes.",
    )
    lost = not_converged(
        f"{sampler!r} diverged: some samples are no numbers, because its steps are too long for these laws.",
        "Take shorter steps, or the sampler Hamiltonian().",
    )
    statuses = (*endings.statuses[:-1], untrusted, lost, endings.statuses[-1])
    code = endings.code.clone()
    code[drawn] = torch.where(trusted[drawn], 0, len(statuses) - 3)
    code[drawn] = torch.where(r_hat[drawn].isfinite(), code[drawn], len(statuses) - 2)

    return RowStatuses(statuses, code, sampler.reach)
