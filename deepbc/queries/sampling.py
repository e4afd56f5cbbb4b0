r"""Samples of the worlds in which the antecedent holds, all laws kept.

The density of the noises of the causes :math:`A` of a pinned antecedent :math:`S` is

.. math:: \log p(u'_A) = - \sum_j d_j(u'_j, u_j) + \sum_{i \in S}
          \log \left| \det \frac{\partial f_i^{-1}(x'_{pa(i)}, x^*_i)}{\partial x_i} \right| + \text{const},

where the volume is what conditioning on a value leaves behind. A variable that is asked to lie in an interval is a free
coordinate inside it. Noises that are not upstream of the antecedent are drawn from their own density,
:math:`\propto \exp(-d_j)`.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), sections 3.1.1, 3.3.1.
"""

__all__ = ["backtrack_samples"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepbc._checks import check_count, check_drawable, check_proper_weight, check_type
from deepbc.distances import Distance, Power, Squared
from deepbc.progress import progress
from deepbc.queries.answer import Endings, answer
from deepbc.queries.backtracking import Mode, drawn_in, find_mode, read_checked, unchanging
from deepbc.queries.question import Asked, Question, read_question
from deepbc.results import Counterfactual, Diagnostics, not_converged
from deepbc.samplers import Hamiltonian, Sampler
from deepbc.samplers.target import Draws, Target
from deepbc.samplers.truncated import truncated
from deepbc.scm import SCM
from deepbc.solvers import Exact
from deepbc.solvers.problem import Cost, Term
from deepbc.streams import Streams
from deepbc.variables import beside

# So many samples are drawn at a time; a row counts as so many at least, because samplers look around before they draw.
CHUNK, LEAST = 262_144, 128
# So far into an interval, in standard deviations, one looks to see whether its law rises.
STRIDE = 1e-3

Rows = dict[str, Tensor]


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
    plan = _Plan.of(scm, sampler, read, scm.names(scope, "scope"), question)
    streams = Streams.of(seed, _held(question))

    squared = all(isinstance(read.of(name), Squared) for name in scm.graph)
    mode = find_mode(scm, question, sampler.solver if squared else Exact(), read, plan.scope)
    fine = ((mode.endings.code == 0) | ((mode.endings.code == 1) & (sampler.penalty is not None))).nonzero().squeeze(-1)
    chunks = fine.split(max(1, CHUNK // max(samples, LEAST)))
    x, u = (
        {name: each.expand(samples, *each.shape).clone() for name, each in part.items()} for part in (mode.x, mode.u)
    )
    names = ("r_hat", "effective", "acceptance")
    told = {name: torch.full_like(mode.endings.code, torch.nan, dtype=torch.float64) for name in names}
    trusted = torch.zeros_like(mode.endings.code, dtype=torch.bool)
    with progress("samples", max(1, len(chunks)) * sampler.rounds(samples), None) as shown:
        for rows in chunks if len(fine) else ():
            part = plan.draw(question, mode, rows, samples, streams.select(rows), shown.advance)
            for name in scm.graph:
                x[name][:, rows], u[name][:, rows] = part.x[name], part.u[name]
            for name in names:
                told[name][rows] = getattr(part.draws, name)
            trusted[rows] = part.draws.trusted

    endings = _endings(mode.endings, sampler, fine, trusted, told["r_hat"])
    diagnostics = Diagnostics(**{name: each.cpu().reshape(question.batch) for name, each in told.items()})
    with torch.no_grad():
        return answer(scm, question, (x, u), read, endings, diagnostics)


@dataclass(frozen=True, slots=True)
class _Part:
    """Samples of some rows: values and noise `(samples, rows, dim)`, and what the sampler says."""

    x: Rows
    u: Rows
    draws: Draws


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which part each variable has in the samples.

    Args:
        scm: The model.
        sampler: The sampler.
        distance: The distance.
        asked: The antecedent, intervals drawn in.
        names: The antecedent and its causes, in topological order.
        pinned: The variables whose value is given and whose noise is implied.
        inside: The variables whose value is free inside an interval and whose noise is implied.
        free: The variables whose noise is sought.
        direct: The variables whose noise is drawn from its own density.
        scope: The variables whose noise may move.
    """

    scm: SCM
    sampler: Sampler
    distance: Distance
    asked: Mapping[str, Asked]
    names: tuple[str, ...]
    pinned: tuple[str, ...]
    inside: tuple[str, ...]
    free: tuple[str, ...]
    direct: tuple[str, ...]
    scope: tuple[str, ...]

    @classmethod
    def of(cls, scm: SCM, sampler: Sampler, distance: Distance, scope: Sequence[str], question: Question) -> "_Plan":
        asked = {name: drawn_in(scm, name, each) if each.interval else each for name, each in question.asked.items()}
        names = tuple(name for name in scm.graph.order if name in {*asked, *scm.graph.ancestors(*asked)})
        met = () if sampler.penalty else tuple(name for name in names if name in asked)
        for name in met:
            if not scm.mechanisms[name].pinnable:
                check_drawable(name, "it has no noise of its own that meets any value", sampler)
            if name not in scope:
                check_drawable(name, "its own noise is out of scope", sampler)

        moving = [name for name in scm.graph.order if name in scope and scm.mechanisms[name].moving_dim]
        for name in moving:
            if name not in met:
                check_proper_weight(distance.weight(name), name)
                distance.of(name).check_proper(question.u[name][:1], f"distance of {name!r}")
        apart = {name for name in moving if name not in names and isinstance(distance.of(name), Power)}
        direct = tuple(name for name in moving if name in apart and not sampler.penalty)

        return cls(
            scm,
            sampler,
            distance,
            asked,
            names,
            tuple(name for name in met if not asked[name].interval),
            tuple(name for name in met if asked[name].interval),
            tuple(name for name in moving if name not in (*met, *direct)),
            direct,
            tuple(scope),
        )

    def draw(
        self, question: Question, mode: Mode, rows: Tensor, samples: int, streams: Streams, told: Callable[[], None]
    ) -> _Part:
        """Draws samples of some rows, and completes them."""
        scm = self.scm
        x, u = ({name: each[rows] for name, each in part.items()} for part in (question.x, question.u))
        target = self._target(x, u, {name: each[rows] for name, each in mode.u.items()}, rows)
        draws = self.sampler.sample(target, samples, streams, told)

        with torch.no_grad():
            # As rows, one sample after the other.
            given = {name: each.repeat(samples, 1) for name, each in target.given.items()}
            world = self._walk(draws.v.flatten(0, 1).to(scm.dtype), given)
            noise = {name: each.repeat(samples, 1) for name, each in u.items()} | world.u
            for name in self.direct:
                moving, still = scm.mechanisms[name].moving_dim, scm.mechanisms[name].still_dim
                chance = streams.uniform(samples * moving, "noise", name)
                move = self._power(name).draw(chance, self.distance.weight(name)).to(noise[name])
                move = move.reshape(len(rows), samples, moving).transpose(0, 1).flatten(0, 1)
                noise[name] = noise[name] + torch.nn.functional.pad(move, (0, still))
            carriers = (*self.free, *self.direct, *self.pinned, *self.inside)
            changing = {*carriers, *scm.graph.descendants(*carriers)}
            values = {name: each.repeat(samples, 1) for name, each in x.items() if name not in changing} | world.x
            after, noise = scm.complete_rows(values, noise)

        shape = (samples, len(rows), -1)
        return _Part(
            {name: each.reshape(shape) for name, each in after.items()},
            {name: each.reshape(shape) for name, each in noise.items()},
            draws,
        )

    def _power(self, name: str) -> Power:
        distance = self.distance.of(name)
        assert isinstance(distance, Power)  # noqa: S101 # `of` saw to it

        return distance

    def _target(self, x: Rows, u: Rows, mode: Rows, rows: Tensor) -> Target:
        """The density of the free coordinates of some rows: noises, and a normal variable for each interval."""
        scm, carriers = self.scm, (*self.free, *self.pinned, *self.inside)
        asked = {name: each.select(rows) for name, each in self.asked.items()}
        fixed = unchanging(scm, self.names, {*self.free, *self.pinned, *self.inside})
        empty = next(iter(u.values()))[:, :0]

        with torch.no_grad():
            given = {f"noise of {name}": u[name] for name in self.names if name not in self.free}
            given |= {f"still {name}": u[name][:, scm.mechanisms[name].moving_dim :] for name in self.free}
            given |= {f"value of {name}": x[name] for name in fixed}
            given |= {f"value of {name}": asked[name].lower for name in self.pinned}
            for name, each in asked.items():
                given |= {f"lower {name}": each.lower, f"upper {name}": each.upper}
            for name in (*self.pinned, *self.inside):
                given |= {f"reduced lower {name}": scm.mechanisms[name].reduce(asked[name].finite().lower)}
            for name in self.inside:
                given |= {f"reduced upper {name}": scm.mechanisms[name].reduce(asked[name].finite().upper)}
                given |= {f"rising {name}": self._rising(name, x, asked[name])}

        def law(v: Tensor, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
            world = self._walk(v, given)

            return beside([self._moving(name, world.u[name]) for name in carriers], v[:, :0]), world.further

        u, mode = ({name: self._moving(name, each) for name, each in part.items()} for part in (u, mode))
        rest = beside([u[name] for name in carriers], empty)
        terms = [Term(self.distance.of(name), self.distance.weight(name), u[name].shape[-1]) for name in carriers]
        spread = [torch.full_like(u[name][0], (2 * self.distance.weight(name)) ** -0.5) for name in self.free]
        spread += [torch.ones_like(u[name][0]) for name in self.inside]
        start = [*(mode[name] for name in self.free), *(torch.zeros_like(u[name]) for name in self.inside)]

        middle = [*(u[name] for name in self.free), *(torch.zeros_like(u[name]) for name in self.inside)]

        return Target(
            rest=rest,
            start=beside(start, empty).double(),
            middle=beside(middle, empty).double(),
            spread=torch.cat([empty[0], *spread]).double(),
            given=given,
            law=law,
            cost=Cost(terms, rest),
        )

    def _moving(self, name: str, u: Tensor) -> Tensor:
        """The part of a noise that may move."""
        return u[:, : self.scm.mechanisms[name].moving_dim]

    def _rising(self, name: str, x: Rows, asked: Asked) -> Tensor:
        """Whether the value rises with the noise, with shape `(rows, 1)`."""
        scm = self.scm
        end = asked.finite().lower
        inward = torch.where(asked.lower.isfinite(), STRIDE, -STRIDE) * scm.spread(name)
        parents = beside([x[parent] for parent in scm.graph.parents(name)], end[:, :0])
        noises = [scm.mechanisms[name].abduct(spot, parents) for spot in (end, end + inward)]

        return (noises[1] - noises[0]) * inward >= 0

    def _walk(self, v: Tensor, given: Mapping[str, Tensor]) -> "_World":
        """Completes the antecedent and its causes from the free coordinates, `(rows, free)`."""
        scm, penalty = self.scm, self.sampler.penalty
        sizes = [scm.mechanisms[name].moving_dim for name in self.free] + [1] * len(self.inside)
        found = dict(zip((*self.free, *self.inside), v.split(sizes, dim=-1), strict=True)) if sizes else {}
        found |= {name: beside([found[name], given[f"still {name}"]], v) for name in self.free}
        values = {name: given[f"value of {name}"] for name in self.names if f"value of {name}" in given}
        held = [name for name in self.names if name not in (*self.free, *self.pinned, *self.inside)]
        noise = {name: given[f"noise of {name}"] for name in held}
        noise |= {name: found[name] for name in self.free if name in self.names}
        reduced = {name: given[f"reduced lower {name}"] for name in self.pinned}
        volumes: Rows | None = None if penalty else {}
        further = v.new_zeros(len(v))

        for name in self.inside:
            # What lies upstream first: the ends of the noise depend on it.
            causes = [each for each in self.names if each in scm.graph.ancestors(name)]
            x, u = scm.complete_rows(values, noise, names=causes, reduced=reduced, volumes=volumes)
            values, noise = values | x, noise | u
            noise[name], more = self._inside(name, found[name], values, given)
            further = further + more

        x, u = scm.complete_rows(values, noise, names=self.names, reduced=reduced, volumes=volumes)
        for volume in (volumes or {}).values():
            further = further + volume
        for name in self.asked if penalty else ():
            ends = Asked(given[f"lower {name}"], given[f"upper {name}"], self.asked[name].interval)
            further = further - (penalty or 0.0) * (ends.missed(x[name]) / scm.spread(name)).square().sum(-1)

        return _World(x, u | {name: found[name] for name in self.free}, further)

    def _inside(self, name: str, w: Tensor, x: Rows, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The noise of a variable inside its interval, from a normal variable, and what that adds to the density.

        The noise is normal around the factual one, between the noises of the ends of the interval. With squared
        distances that is its density, so that what is added is the mass between the ends.
        """
        mechanism, rest = self.scm.mechanisms[name], given[f"noise of {name}"]
        parents = beside([x[parent] for parent in self.scm.graph.parents(name)], w[:, :0])
        width = (2 * (self.distance.weight(name) or 1.0)) ** -0.5
        rising = given[f"rising {name}"]
        ends = []
        for end, outside in (("lower", -torch.inf), ("upper", torch.inf)):
            finite = given[f"{end} {name}"].isfinite()
            noise = (mechanism.abduct_reduced(given[f"reduced {end} {name}"], parents) - rest) / width
            ends.append(torch.where(finite, noise, torch.where(rising, outside, -outside)))
        moved, log_mass = truncated(w, torch.minimum(*ends), torch.maximum(*ends))
        added = log_mass - 0.5 * w.square() + 0.5 * moved.square()

        return rest + width * moved, added.sum(-1)


@dataclass(frozen=True, slots=True)
class _World:
    """Values and noise of the antecedent and its causes, and what the density has beside the cost."""

    x: Rows
    u: Rows
    further: Tensor


def _held(question: Question) -> list[Tensor]:
    """What a row is made of: its factual values and what is asked of it."""
    ends = [end for each in question.asked.values() for end in (each.lower, each.upper)]

    return [column.double().cpu() for column in (*question.x.values(), *ends)]


def _endings(endings: Endings, sampler: Sampler, drawn: Tensor, trusted: Tensor, r_hat: Tensor) -> Endings:
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

    return Endings(statuses, code, sampler.reach)
