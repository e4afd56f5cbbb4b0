r"""The density of the worlds in which the antecedent holds, in free coordinates, and worlds drawn from it."""

__all__ = ["DrawPlan", "Part"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc._validation import check_classes
from deepbc.data.variables import concat_last
from deepbc.distances import Distance, Power
from deepbc.errors import SettingError
from deepbc.mechanisms import Discrete
from deepbc.numerics.counter_rng import Streams
from deepbc.numerics.truncated_normal import truncated
from deepbc.queries.backtracking import Mode, drawn_in
from deepbc.queries.discrete_search import Rows, unchanging
from deepbc.queries.question import Asked, Question
from deepbc.samplers import Sampler
from deepbc.samplers.bridge_sampling import log_evidence
from deepbc.samplers.target import Draws, Target
from deepbc.scm.model import SCM
from deepbc.solvers.problem import Cost, Term

# So far into an interval, in standard deviations, one looks to see whether its law rises.
STRIDE = 1e-3


@dataclass(frozen=True, slots=True)
class Part:
    """Samples of some rows.

    Args:
        x: Values, with shape `(samples, rows, value)`.
        u: Noise, with shape `(samples, rows, noise)`.
        rest: Factual noise that was drawn with each sample, of discrete variables.
        draws: What the sampler says.
        evidence: The logarithm of how much the density of each row holds, with shape `(rows,)`, where that was asked.
    """

    x: Rows
    u: Rows
    rest: Rows
    draws: Draws
    evidence: Tensor


@dataclass(frozen=True, slots=True)
class DrawPlan:
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
        classes: The discrete variables whose factual noise is sought too: those that take part.
        chosen: Those of them that the antecedent asks for.
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
    classes: tuple[str, ...]
    chosen: tuple[str, ...]
    scope: tuple[str, ...]

    @classmethod
    def of(cls, scm: SCM, sampler: Sampler, distance: Distance, scope: Sequence[str], question: Question) -> "DrawPlan":
        asked = {name: drawn_in(scm, name, each) if each.interval else each for name, each in question.asked.items()}
        names = tuple(name for name in scm.graph.order if name in {*asked, *scm.graph.ancestors(*asked)})
        met = () if sampler.penalty else tuple(name for name in names if name in asked)
        for name in met:
            if not scm.mechanisms[name].pinnable:
                _check_drawable(name, "it has no noise of its own that meets any value", sampler)
            if name not in scope:
                _check_drawable(name, "its own noise is out of scope", sampler)

        moving = [name for name in scm.graph.order if name in scope and scm.mechanisms[name].free_noise_dim]
        for name in moving:
            if name not in met:
                _check_proper_weight(distance.weight(name), name)
                distance.of(name).check_proper(question.u[name][:1], f"distance of {name!r}")
        apart = {name for name in moving if name not in names and isinstance(distance.of(name), Power)}
        direct = tuple(name for name in moving if name in apart and not sampler.penalty)
        fixed = unchanging(scm, names, {*moving, *met})
        discrete = [name for name in scm.graph.order if scm.variables[name].discrete]
        classes = [name for name in discrete if name in names and name not in fixed]
        check_classes(sampler.penalty is None, classes, sampler)
        classes += [name for name in discrete if name in moving and name not in (*names, *direct)]
        numbers = [name for name in met if name not in discrete]
        stepping = [name for name in classes if name in scope and name not in met]

        return cls(
            scm.softened(stepping, hard=True),
            sampler,
            distance,
            asked,
            names,
            tuple(name for name in numbers if not asked[name].interval),
            tuple(name for name in numbers if asked[name].interval),
            tuple(name for name in moving if name not in (*met, *direct, *discrete)),
            direct,
            tuple(classes),
            tuple(name for name in classes if name in met),
            tuple(scope),
        )

    @property
    def drawn(self) -> tuple[str, ...]:
        """The discrete variables whose factual noise is drawn: all but those that nothing can change."""
        outside = [name for name in self.scm.graph if self.scm.variables[name].discrete and name not in self.names]

        return (*self.classes, *(name for name in outside if name not in self.classes))

    @property
    def stepping(self) -> tuple[str, ...]:
        """The discrete variables whose noise moves freely."""
        return tuple(name for name in self.classes if name in self.scope and name not in self.chosen)

    def draw(
        self,
        question: Question,
        mode: Mode,
        rows: Tensor,
        samples: int,
        streams: Streams,
        told: Callable[[], None],
        *,
        weigh: bool = False,
    ) -> Part:
        """Draws samples of some rows, and completes them; says how much each density holds if it is to."""
        scm = self.scm
        x, u = ({name: each[rows] for name, each in part.items()} for part in (question.x, question.u))
        target = self._target(x, u, {name: each[rows] for name, each in mode.u.items()}, rows)
        draws = self.sampler.sample(target, samples, streams, told)
        evidence = log_evidence(target, draws.v, streams) if weigh else target.start.new_zeros(len(rows))

        with torch.no_grad():
            # As rows, one sample after the other.
            given = {name: each.repeat(samples, 1) for name, each in target.given.items()}
            world = self._walk(draws.v.flatten(0, 1).to(scm.dtype), given)
            noise = {name: each.repeat(samples, 1) for name, each in u.items()}
            rest = world.rest | self._factual(x, samples, streams)
            noise |= rest | world.u
            for name in self.direct:
                moving, still = scm.mechanisms[name].free_noise_dim, scm.mechanisms[name].fixed_noise_dim
                chance = streams.uniform(samples * moving, "noise", name)
                move = self._power(name).draw(chance, self.distance.weight(name)).to(noise[name])
                move = move.reshape(len(rows), samples, moving).transpose(0, 1).flatten(0, 1)
                noise[name] = noise[name] + torch.nn.functional.pad(move, (0, still))
            carriers = (*self.free, *self.direct, *self.pinned, *self.inside, *self.chosen, *self.stepping)
            changing = {*carriers, *scm.graph.descendants(*carriers)}
            values = {name: each.repeat(samples, 1) for name, each in x.items() if name not in changing} | world.x
            after, noise = scm.complete_rows(values, noise)

        shape = (samples, len(rows), -1)
        return Part(
            {name: each.reshape(shape) for name, each in after.items()},
            {name: each.reshape(shape) for name, each in noise.items()},
            {name: each.reshape(shape) for name, each in rest.items()},
            draws,
            evidence,
        )

    def _factual(self, x: Rows, samples: int, streams: Streams) -> Rows:
        """Draws the factual noise of discrete variables that take no part, `(samples * rows, noise)`."""
        drawn = {}
        for name in self.drawn:
            if name in self.classes:
                continue
            mechanism = self.scm.mechanisms[name]
            parents = concat_last([x[parent] for parent in self.scm.graph.parents(name)], x[name][:, :0])
            chance = streams.uniform(samples * mechanism.noise_dim, "factual", name)
            chance = chance.reshape(len(x[name]), samples, -1).transpose(0, 1).flatten(0, 1).to(x[name])
            drawn[name] = mechanism.draw(x[name].repeat(samples, 1), parents.repeat(samples, 1), chance)

        return drawn

    def _power(self, name: str) -> Power:
        distance = self.distance.of(name)
        assert isinstance(distance, Power)  # noqa: S101 # `of` saw to it

        return distance

    def _target(self, x: Rows, u: Rows, mode: Rows, rows: Tensor) -> Target:
        """The density of the free coordinates of some rows: noises, and a normal variable for each interval."""
        scm, carriers = self.scm, (*self.free, *self.pinned, *self.inside)
        asked = {name: each.select(rows) for name, each in self.asked.items()}
        fixed = unchanging(scm, self.names, {*carriers, *self.classes})
        empty = next(iter(u.values()))[:, :0]

        with torch.no_grad():
            given = {f"noise of {name}": u[name] for name in self.names if name not in self.free}
            given |= {f"still {name}": u[name][:, scm.mechanisms[name].free_noise_dim :] for name in self.free}
            given |= {f"value of {name}": x[name] for name in fixed}
            given |= {f"value of {name}": asked[name].lower for name in self.pinned}
            for name, each in asked.items():
                given |= {f"lower {name}": each.lower, f"upper {name}": each.upper}
            for name in (*self.pinned, *self.inside):
                given |= {f"reduced lower {name}": scm.mechanisms[name].reduce(asked[name].finite().lower)}
            for name in self.inside:
                given |= {f"reduced upper {name}": scm.mechanisms[name].reduce(asked[name].finite().upper)}
                given |= {f"rising {name}": self._rising(name, x, asked[name])}
            for name in self.classes:
                parents = concat_last([x[parent] for parent in scm.graph.parents(name)], empty)
                given |= {f"factual {name}": x[name], f"factual parents of {name}": parents}

        def law(v: Tensor, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
            world = self._walk(v, given)

            return concat_last([self._moving(name, world.u[name]) for name in carriers], v[:, :0]), world.further

        u, mode = ({name: self._moving(name, each) for name, each in part.items()} for part in (u, mode))
        rest = concat_last([u[name] for name in carriers], empty)
        terms = [Term(self.distance.of(name), self.distance.weight(name), u[name].shape[-1]) for name in carriers]
        # The coordinates, in the order of `_split`: noises, moves of noises, and normal variables.
        normal = [torch.zeros_like(u[name]) for name in (*self.inside, *self.chosen, *self.classes)]
        start = [*(mode[name] for name in self.free), *(mode[name] - u[name] for name in self.stepping), *normal]
        middle = [*(u[name] for name in self.free), *(torch.zeros_like(u[name]) for name in self.stepping), *normal]
        spread = [torch.full_like(u[name][0], self._width(name)) for name in (*self.free, *self.stepping)]
        spread += [torch.ones_like(each[0]) for each in normal]

        return Target(
            rest=rest,
            start=concat_last(start, empty).double(),
            middle=concat_last(middle, empty).double(),
            spread=torch.cat([empty[0], *spread]).double(),
            given=given,
            law=law,
            cost=Cost(terms, rest),
        )

    def _moving(self, name: str, u: Tensor) -> Tensor:
        """The part of a noise that may move."""
        return u[:, : self.scm.mechanisms[name].free_noise_dim]

    def _width(self, name: str) -> float:
        """The standard deviation of a move, with squared distances."""
        return float((2 * (self.distance.weight(name) or 1.0)) ** -0.5)

    def _split(self, v: Tensor) -> tuple[Rows, ...]:
        """Splits coordinates: free noises, moves, and normal variables for intervals, classes and factual noise."""
        groups = (self.free, self.stepping, self.inside, self.chosen, self.classes)
        sizes = [self.scm.mechanisms[name].free_noise_dim for group in groups for name in group]
        parts = iter(v.split(sizes, dim=-1) if sizes else ())

        return tuple({name: next(parts) for name in group} for group in groups)

    def _rising(self, name: str, x: Rows, asked: Asked) -> Tensor:
        """Whether the value rises with the noise, with shape `(rows, 1)`."""
        scm = self.scm
        end = asked.finite().lower
        inward = torch.where(asked.lower.isfinite(), STRIDE, -STRIDE) * scm.spread(name)
        parents = concat_last([x[parent] for parent in scm.graph.parents(name)], end[:, :0])
        noises = [scm.mechanisms[name].abduct(spot, parents) for spot in (end, end + inward)]

        return (noises[1] - noises[0]) * inward >= 0

    def _walk(self, v: Tensor, given: Mapping[str, Tensor]) -> "_World":
        """Completes the antecedent and its causes from the free coordinates, `(rows, free)`."""
        scm, penalty = self.scm, self.sampler.penalty
        free, moves, inside, chosen, normal = self._split(v)
        free = {name: concat_last([each, given[f"still {name}"]], v) for name, each in free.items()}
        values = {name: given[f"value of {name}"] for name in self.names if f"value of {name}" in given}
        held = [name for name in self.names if name not in (*self.free, *self.pinned, *self.inside, *self.classes)]
        noise = {name: given[f"noise of {name}"] for name in held}
        noise |= {name: free[name] for name in self.free if name in self.names}
        reduced = {name: given[f"reduced lower {name}"] for name in self.pinned}
        volumes: Rows | None = None if penalty else {}
        further = v.new_zeros(len(v))

        rest: Rows = {}
        for name, w in normal.items():
            rest[name], more = self._rest(name, w, given)
            further = further + more
        noise |= {name: rest[name] + moves[name] if name in moves else rest[name] for name in self.classes}

        for name in self.names:
            if name not in (*self.inside, *self.chosen):
                continue
            # What lies upstream first: the region of the noise depends on it.
            noise.pop(name, None)
            causes = [each for each in self.names if each in scm.graph.ancestors(name)]
            x, u = scm.complete_rows(values, noise, names=causes, reduced=reduced, volumes=volumes)
            values, noise = values | x, noise | u
            if name in inside:
                noise[name], more = self._inside(name, inside[name], values, given)
            else:
                noise[name], more = self._class(name, chosen[name], values, rest[name], given)
                values |= {} if self.asked[name].interval else {name: given[f"lower {name}"]}
            further = further + more

        x, u = scm.complete_rows(values, noise, names=self.names, reduced=reduced, volumes=volumes)
        for volume in (volumes or {}).values():
            further = further + volume
        for name in self.asked if penalty else ():
            ends = Asked(given[f"lower {name}"], given[f"upper {name}"], self.asked[name].interval)
            further = further - (penalty or 0.0) * (ends.missed(x[name]) / scm.spread(name)).square().sum(-1)
        u = noise | u
        for name in self.classes:
            further = further - self.distance.moved(name, u[name], rest[name])

        return _World(x, u | free, rest, further)

    def _rest(self, name: str, w: Tensor, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The factual noise of a discrete variable from normal variables, and what it adds to the density."""
        x, parents = given[f"factual {name}"], given[f"factual parents of {name}"]
        u, volume = self._discrete(name).region(x, x, parents).inside(w, torch.zeros_like(w), 1.0)

        return u, volume - 0.5 * u.square().sum(-1)

    def _class(self, name: str, w: Tensor, x: Rows, rest: Tensor, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The noise of a discrete variable whose value is asked for, from normal variables, and its volume."""
        parents = concat_last([x[parent] for parent in self.scm.graph.parents(name)], w[:, :0])
        region = self._discrete(name).region(given[f"lower {name}"], given[f"upper {name}"], parents)

        return region.inside(w, rest, self._width(name))

    def _discrete(self, name: str) -> Discrete:
        mechanism = self.scm.mechanisms[name]
        assert isinstance(mechanism, Discrete)  # noqa: S101 # its variable is

        return mechanism

    def _inside(self, name: str, w: Tensor, x: Rows, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The noise of a variable inside its interval, from a normal variable, and what that adds to the density.

        The noise is normal around the factual one, between the noises of the ends of the interval. With squared
        distances that is its density, so that what is added is the mass between the ends.
        """
        mechanism, rest = self.scm.mechanisms[name], given[f"noise of {name}"]
        parents = concat_last([x[parent] for parent in self.scm.graph.parents(name)], w[:, :0])
        width = self._width(name)
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
    """Values, noise and drawn factual noise of what takes part, and what the density has beside the cost."""

    x: Rows
    u: Rows
    rest: Rows
    further: Tensor


def _check_proper_weight(weight: float, name: str) -> None:
    if weight == 0:
        raise SettingError(
            f"distance: the weight of {name!r} is 0, so that its noise has no density to be drawn from. Give it a "
            f"small weight, or leave it out of the scope."
        )


def _check_drawable(name: str, why: str, sampler: object) -> None:
    """Fails on an antecedent that its own noise cannot meet."""
    raise SettingError(
        f"antecedent {name!r}: {why}, so that samples would have to be drawn on a curved constraint, which {sampler!r} "
        f"does not do. Take `backtrack` for the most likely world, or sampler=Langevin() for samples near it."
    )
