r"""The density of the worlds in which the antecedent holds, in free coordinates, and worlds drawn from it.

The coordinates are the noises that are sought, moves of the noise of discrete variables, and a standard-normal variable
for each noise that is confined to a region: an interval, a class, or the factual noise that a class does not tell. A
censored variable goes with the discrete ones: its floor is such a region, any other value one of a single noise, whose
coordinate says nothing.
"""

__all__ = ["SampleTarget", "SampledWorlds"]

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from deepbc._validation import check_classes
from deepbc.distances import Distances
from deepbc.errors import SettingError
from deepbc.mechanisms import Atomic
from deepbc.numerics.batched import concat_last, repeat
from deepbc.numerics.counter_rng import Streams
from deepbc.queries.asked import Asked
from deepbc.queries.confined_noise import InsideInterval, InsideRegion, IntervalEnds
from deepbc.queries.mode import inside_bounds
from deepbc.queries.question import Question
from deepbc.queries.roles import Roles
from deepbc.queries.search_model import relaxed
from deepbc.queries.worlds import Columns
from deepbc.samplers import Sampler
from deepbc.samplers.adaptive_importance import log_evidence
from deepbc.samplers.target import Draws, Target
from deepbc.scm import SCM
from deepbc.scm.completion import (
    Known,
    Noise,
    Reduced,
    Source,
    complete_rows,
    join_parents,
    sources,
)
from deepbc.solvers.problem import Cost, Term

# So far into an interval, in standard deviations, the sign of its law's derivative is looked at.
STRIDE = 1e-3


@dataclass(frozen=True, slots=True)
class SampledWorlds:
    """Samples of some rows.

    Args:
        x: Values, with shape `(samples, rows, value)`.
        u: Noise, with shape `(samples, rows, noise)`.
        rest: Factual noise that was drawn with each sample, of discrete and censored variables.
        draws: What the sampler says.
        log_evidence: The log normalising constant of each row, with shape `(rows,)`, where that was asked.
    """

    x: Columns
    u: Columns
    rest: Columns
    draws: Draws
    log_evidence: Tensor


@dataclass(frozen=True, slots=True)
class Context:
    """What the law of the samples is handed beside the free coordinates, row by row.

    Args:
        given: What is given of every variable whose noise is neither sought nor confined to a region.
        asked: The antecedent.
        fixed_noise: The components of noises that are sought, at their end, that no question moves.
        intervals: The intervals in which values are free.
        factual: The factual values of discrete and censored variables whose factual noise is drawn.
        factual_parents: The factual values of the parents of these.
    """

    given: Mapping[str, Source]
    asked: Mapping[str, Asked]
    fixed_noise: Columns
    intervals: Mapping[str, IntervalEnds]
    factual: Columns
    factual_parents: Columns


@dataclass(frozen=True, slots=True)
class SampleTarget:
    """The density of the worlds of a question: which part each variable has in it.

    Args:
        scm: The model, with straight-through relaxations of the discrete variables whose noise moves freely.
        sampler: The sampler.
        distance: The distance.
        roles: The roles of the question.
        pinned: The numbers whose value is given and whose noise is implied.
        inside: The numbers whose value is free inside an interval.
        free: The numbers whose noise is sought.
        direct: The variables that take no part, whose noise is drawn from its own density.
        classes: The discrete and censored variables whose factual noise is sought too: those that take part.
        chosen: Those of them that the antecedent asks for.
        stepping: Those of them whose noise moves freely.
    """

    scm: SCM
    sampler: Sampler
    distance: Distances
    roles: Roles
    pinned: tuple[str, ...]
    inside: tuple[str, ...]
    free: tuple[str, ...]
    direct: tuple[str, ...]
    classes: tuple[str, ...]
    chosen: tuple[str, ...]
    stepping: tuple[str, ...]

    @classmethod
    def of(
        cls, scm: SCM, sampler: Sampler, distance: Distances, scope: Collection[str], question: Question
    ) -> "SampleTarget":
        """Derives the parts of all variables, and checks that each has a density to be drawn from."""
        asked = question.asked
        roles = Roles.of(scm, asked, scope, () if sampler.penalty else asked)
        _check_density(scm, sampler, distance, roles, question)
        apart = [name for name in roles.movable if name not in roles.names]
        drawn = [] if sampler.penalty else [name for name in apart if distance.of(name).drawable]
        # A penalty is met through smooth laws, which a censored one nearly is.
        atomic = roles.discrete if sampler.penalty else roles.atomic
        upstream = [name for name in atomic if name in roles.names and name not in roles.fixed]
        check_classes(sampler.penalty is None, upstream, sampler)
        classes = [*upstream, *(name for name in atomic if name in apart and name not in drawn)]
        stepping = tuple(name for name in classes if name in roles.scope and name not in roles.met)
        numbers = [name for name in roles.met if name not in atomic]
        others = {*roles.met, *drawn, *atomic}

        return cls(
            relaxed(scm, stepping, straight_through=True),
            sampler,
            distance,
            roles,
            pinned=tuple(name for name in numbers if not asked[name].interval),
            inside=tuple(name for name in numbers if asked[name].interval),
            free=tuple(name for name in roles.movable if name not in others),
            direct=tuple(drawn),
            classes=tuple(classes),
            chosen=tuple(name for name in classes if name in roles.met),
            stepping=stepping,
        )

    @property
    def drawn(self) -> tuple[str, ...]:
        """The variables of atoms whose factual noise is drawn: all but those that nothing can change."""
        outside = [name for name in self.scm.graph if name in self.roles.atomic and name not in self.roles.names]

        return (*self.classes, *(name for name in outside if name not in self.classes))

    def draw(
        self,
        question: Question,
        start: Columns,
        samples: int,
        streams: Streams,
        on_progress: Callable[[], None],
        *,
        weigh: bool = False,
    ) -> SampledWorlds:
        """Draws samples of every row of a question, and completes them.

        Args:
            question: The question, with the roles of this one.
            start: The noise of the modes, where chains start, with shape `(rows, noise)`.
            samples: How many samples of each row.
            streams: The random numbers of each row.
            on_progress: To call once for each part of the work.
            weigh: Whether to compute the normalising constant of each density, too.
        """
        target = self._target(question, start)
        draws = self.sampler.sample(target, samples, streams, on_progress)
        evidence = log_evidence(target, samples, streams) if weigh else target.start.new_zeros(question.rows)

        return self._complete(question, target, draws, streams, evidence)

    @torch.no_grad()
    def _complete(
        self, question: Question, target: Target, draws: Draws, streams: Streams, evidence: Tensor
    ) -> SampledWorlds:
        """Completes the worlds of samples, as rows, one sample after the other."""
        scm, samples, rows = self.scm, len(draws.v), question.rows
        x, u = repeat(dict(question.x), samples), repeat(dict(question.u), samples)
        world = self._world(draws.v.flatten(0, 1).to(scm.dtype), repeat(target.given, samples))
        rest = world.rest | self._factual(question.x, samples, streams)
        noise = u | rest | world.u
        for name in self.direct:
            free, fixed = scm.mechanisms[name].free_noise_dim, scm.mechanisms[name].fixed_noise_dim
            uniform = streams.uniform(samples * free, "noise", name)
            move = self.distance.of(name).draw(uniform, self.distance.weight(name)).to(noise[name])
            move = move.reshape(rows, samples, free).transpose(0, 1).flatten(0, 1)
            noise[name] = noise[name] + torch.nn.functional.pad(move, (0, fixed))
        carriers = (*self.free, *self.direct, *self.pinned, *self.inside, *self.chosen, *self.stepping)
        changing = {*carriers, *scm.graph.descendants(*carriers)}
        values = {name: each for name, each in x.items() if name not in changing} | world.x
        done = complete_rows(scm, sources(values, noise), scm.schema.empty([samples * rows]))

        def split(columns: Columns) -> Columns:
            return {name: each.reshape(samples, rows, -1) for name, each in columns.items()}

        return SampledWorlds(split(done.x), split(done.u), split(rest), draws, evidence)

    def _factual(self, x: Mapping[str, Tensor], samples: int, streams: Streams) -> Columns:
        """Draws the factual noise of variables of atoms that take no part, `(samples * rows, noise)`."""
        drawn = {}
        for name in self.drawn:
            if name in self.classes:
                continue
            mechanism = self.scm.mechanisms[name]
            parents = join_parents(self.scm, name, x)
            uniform = streams.uniform(samples * mechanism.noise_dim, "factual", name)
            uniform = uniform.reshape(len(x[name]), samples, -1).transpose(0, 1).flatten(0, 1).to(x[name])
            drawn[name] = mechanism.draw(x[name].repeat(samples, 1), parents.repeat(samples, 1), uniform)

        return drawn

    def _target(self, question: Question, mode: Columns) -> Target:
        """The density of the free coordinates of all rows."""
        carriers = (*self.free, *self.pinned, *self.inside)
        empty = next(iter(question.u.values()))[:, :0]
        with torch.no_grad():
            context = self._context(question)

        def law(v: Tensor, context: Context) -> tuple[Tensor, Tensor]:
            world = self._world(v, context)

            return concat_last([self._moving(name, world.u[name]) for name in carriers], v[:, :0]), world.further

        u, start = ({name: self._moving(name, each) for name, each in part.items()} for part in (question.u, mode))
        rest = concat_last([u[name] for name in carriers], empty)
        terms = [Term(self.distance.of(name), self.distance.weight(name), u[name].shape[-1]) for name in carriers]
        # The coordinates, in the order of `_split`: noises, moves of noises, and normal variables.
        normal = [torch.zeros_like(u[name]) for name in (*self.inside, *self.chosen, *self.classes)]
        first = [*(start[name] for name in self.free), *(start[name] - u[name] for name in self.stepping), *normal]
        middle = [*(u[name] for name in self.free), *(torch.zeros_like(u[name]) for name in self.stepping), *normal]
        spread = [torch.full_like(u[name][0], self._width(name)) for name in (*self.free, *self.stepping)]
        spread += [torch.ones_like(each[0]) for each in normal]

        return Target(
            rest=rest,
            start=concat_last(first, empty).double(),
            prior_mean=concat_last(middle, empty).double(),
            prior_sd=torch.cat([empty[0], *spread]).double(),
            given=context,
            law=law,
            cost=Cost(terms, rest),
        )

    def _context(self, question: Question) -> Context:
        scm, roles, x, u = self.scm, self.roles, question.x, question.u
        asked = {
            name: inside_bounds(scm, name, each) if each.interval else each for name, each in question.asked.items()
        }
        given: dict[str, Source] = {}
        for name in roles.names:
            if name in self.pinned:
                value = asked[name].lower
                given[name] = Reduced(value, scm.mechanisms[name].reduce(value), volume=True)
            elif name in roles.fixed:
                given[name] = Known(x[name], u[name])
            elif name not in (*self.free, *self.inside, *self.classes):
                given[name] = Noise(u[name])

        return Context(
            given=given,
            asked=asked,
            fixed_noise={name: u[name][:, scm.mechanisms[name].free_noise_dim :] for name in self.free},
            intervals={name: self._ends(name, x, asked[name], u[name]) for name in self.inside},
            factual={name: x[name] for name in self.classes},
            factual_parents={name: join_parents(scm, name, x) for name in self.classes},
        )

    def _ends(self, name: str, x: Mapping[str, Tensor], asked: Asked, rest: Tensor) -> IntervalEnds:
        law, finite = self.scm.mechanisms[name], asked.finite()
        inward = torch.where(asked.lower.isfinite(), STRIDE, -STRIDE) * self.scm.schema.sd(name)
        parents = join_parents(self.scm, name, x)
        noises = [law.abduct(spot, parents) for spot in (finite.lower, finite.lower + inward)]
        rising = (noises[1] - noises[0]) * inward >= 0

        return IntervalEnds(asked, law.reduce(finite.lower), law.reduce(finite.upper), rising, rest)

    def _moving(self, name: str, u: Tensor) -> Tensor:
        """The part of a noise that may move."""
        return u[:, : self.scm.mechanisms[name].free_noise_dim]

    def _width(self, name: str) -> float:
        """The standard deviation of a move, with squared distances."""
        return float((2 * (self.distance.weight(name) or 1.0)) ** -0.5)

    def _split(self, v: Tensor) -> tuple[Columns, ...]:
        """Splits coordinates: free noises, moves, and normal variables for intervals, classes and factual noise."""
        groups = (self.free, self.stepping, self.inside, self.chosen, self.classes)
        sizes = [self.scm.mechanisms[name].free_noise_dim for group in groups for name in group]
        parts = iter(v.split(sizes, dim=-1) if sizes else ())

        return tuple({name: next(parts) for name in group} for group in groups)

    def _world(self, v: Tensor, context: Context) -> "_World":
        """Completes the antecedent and its causes from the free coordinates, `(rows, free)`."""
        scm, penalty, names = self.scm, self.sampler.penalty, self.roles.names
        free, moves, inside, chosen, normal = self._split(v)
        free = {name: concat_last([each, context.fixed_noise[name]], v) for name, each in free.items()}
        further = v.new_zeros(len(v))
        rest: Columns = {}
        for name, w in normal.items():
            rest[name], more = self._rest(name, w, context)
            further = further + more

        noise = free | {name: rest[name] + moves[name] if name in moves else rest[name] for name in normal}
        given: dict[str, Source] = {**context.given, **{name: Noise(u) for name, u in noise.items()}}
        for name, w in inside.items():
            given[name] = InsideInterval(w, context.intervals[name], self._width(name))
        for name, w in chosen.items():
            given[name] = InsideRegion(w, context.asked[name], rest[name], self._width(name))
        done = complete_rows(scm, given, v[:, :0], names)

        regions = [name for name in names if name in inside or name in chosen]
        for name in (*regions, *self.pinned):
            further = further + done.log_density[name]
        for name in context.asked if penalty else ():
            missed = context.asked[name].missed(done.x[name]) / scm.schema.sd(name)
            further = further - (penalty or 0.0) * missed.square().sum(-1)
        u = noise | done.u
        for name in normal:
            further = further - self.distance.moved(name, u[name], rest[name])

        return _World(done.x, u, rest, further)

    def _rest(self, name: str, w: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """The factual noise of a variable of atoms from normal variables, and what it adds to the density."""
        x, law = context.factual[name], self.scm.mechanisms[name]
        assert isinstance(law, Atomic)  # noqa: S101 # its variable is
        u, volume = law.region(x, x, context.factual_parents[name]).inside(w, torch.zeros_like(w), 1.0)

        return u, volume - 0.5 * u.square().sum(-1)


@dataclass(frozen=True, slots=True)
class _World:
    """Values, noise and drawn factual noise of what takes part, and what the density has beside the cost."""

    x: Columns
    u: Columns
    rest: Columns
    further: Tensor


def _check_density(scm: SCM, sampler: Sampler, distance: Distances, roles: Roles, question: Question) -> None:
    """Every antecedent is met by its own noise, and every noise that moves has a density."""
    for name in roles.met:
        if not scm.mechanisms[name].pinnable:
            _fail_undrawable(name, "it has no noise of its own that meets any value", sampler)
        if name not in roles.scope:
            _fail_undrawable(name, "its own noise is out of scope", sampler)
    for name in roles.movable:
        if name in roles.met:
            continue
        if distance.weight(name) == 0:
            raise SettingError(
                f"distance: the weight of {name!r} is 0, so that its noise has no density to be drawn from. Give it a "
                f"small weight, or leave it out of the scope."
            )
        distance.of(name).check_proper(question.u[name][:1], f"distance of {name!r}")


def _fail_undrawable(name: str, why: str, sampler: Sampler) -> NoReturn:
    raise SettingError(
        f"antecedent {name!r}: {why}, so that samples would have to be drawn on a curved constraint, which {sampler!r} "
        f"does not do. Take `backtrack` for the most likely world, or sampler=Langevin() for samples near it."
    )
