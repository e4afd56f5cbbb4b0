r"""The mode as a problem that a solver sees, and the world from its solution.

With the antecedent pinned, the free coordinates are the noises :math:`v = u'_A` of its ancestors in scope, and

.. math:: \min_v \; \sum_{j \in A} d_j(v_j, u_j) + \sum_{i \in S} d_i\bigl(f_i^{-1}(x'_{pa(i)}, x^*_i), u_i\bigr)

has no constraint. A variable of the antecedent that its own noise cannot meet constrains the values :math:`F_S(v)`; a
discrete one whose noise may not move constrains it to the region of its value. Of a censored variable it is decided
before whether it is at its floor or ceiling, which is such a value, or inside, where its law is the latent one
(`censored_patterns`).
"""

__all__ = ["ModeProblem"]

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.distances import Distances
from deepbc.mechanisms.regions import NOISE_MARGIN
from deepbc.numerics.batched import concat_last, select
from deepbc.queries.asked import Asked
from deepbc.queries.jacobians import has_chain_rule, implied_and_jacobian
from deepbc.queries.question import Question
from deepbc.queries.roles import Roles
from deepbc.queries.search_model import excess, in_noise_precision
from deepbc.queries.worlds import Columns, Worlds
from deepbc.scm import SCM
from deepbc.scm.completion import Known, Nearest, Noise, Reduced, Source, complete_rows, sources
from deepbc.solvers import Solver
from deepbc.solvers.problem import Cost, Problem, Solution, SolverStatus, Term


@dataclass(frozen=True, slots=True)
class Context:
    """What the law of a mode is handed beside the free coordinates, row by row.

    Args:
        given: What is given of every variable whose noise is not sought.
        fixed_noise: The components of noises that are sought, at their end, that no question moves.
    """

    given: Mapping[str, Source]
    fixed_noise: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class ModeProblem:
    """The search for the nearest worlds in which the antecedent holds.

    Args:
        scm: The model, in the precision of its noise.
        solver: The solver.
        distance: The distance.
        aims: What each variable of the antecedent is to be, with shape `(rows, value)`.
        roles: Which part each variable has.
    """

    scm: SCM
    solver: Solver
    distance: Distances
    aims: Mapping[str, Asked]
    roles: Roles

    @classmethod
    def of(
        cls, scm: SCM, solver: Solver, distance: Distances, scope: Collection[str], aims: Mapping[str, Asked]
    ) -> "ModeProblem":
        """Derives the roles of all variables: values are pinned where the solver and the law allow it."""
        met = [name for name, aim in aims.items() if solver.pins and scm.mechanisms[name].pinnable and not aim.interval]
        roles = Roles.of(scm, aims, scope, met)

        return cls(in_noise_precision(scm, roles.names), solver, distance, aims, roles)

    @property
    def reachable(self) -> bool:
        """Whether any noise that takes part may move."""
        return any(name in self.roles.scope for name in (*self.roles.free, *self.roles.pinned))

    def solve(self, question: Question, cutoff: Tensor | None = None) -> Worlds:
        """Solves for all rows, and completes them.

        Args:
            question: The question.
            cutoff: Rows that are seen to cost more than this are given up: they stay as they are, their search is said
                to be incomplete.
        """
        problem = self._problem(question)
        if cutoff is None:
            return self._finish(question, problem.given, self.solver.solve(problem))

        settled = [self.distance.moved(name, problem.given.given[name].u, question.u[name]) for name in self._constant]
        left = cutoff - sum(settled, torch.zeros_like(cutoff))
        problem = replace(problem, cutoff=left)
        solution = self.solver.solve(problem)
        dear = problem.cost.value(solution.noises, problem.rest) >= left
        worlds = Worlds.given_up(question.x, question.u)
        rows = (~dear).nonzero().squeeze(-1)
        if len(rows):
            some = replace(self, aims=select(self.aims, rows))
            found = some._finish(question.select(rows), select(problem.given, rows), select(solution, rows))
            worlds.put(rows, found)

        return worlds

    def _finish(self, question: Question, context: Context, solution: Solution) -> Worlds:
        """Completes rows, and says how each ended."""
        lost = ~solution.noises.isfinite().all(-1)
        converged = solution.status == SolverStatus.CONVERGED
        status = torch.where(lost & converged, int(SolverStatus.NON_FINITE), solution.status)
        # A row in which the antecedent holds already stays as it is, to the last digit.
        holds = torch.stack([each.missed(question.x[name]).amax(-1) == 0 for name, each in self.aims.items()]).all(0)
        status = torch.where(holds, int(SolverStatus.CONVERGED), status)

        certainty = torch.ones_like(status, dtype=torch.double)
        if solution.certainty is not None:
            certainty = torch.where(holds, certainty, solution.certainty.to(certainty))

        with torch.no_grad():
            worlds = self._complete(question, context, solution, lost | holds, status)

        return replace(worlds, certainty=certainty)

    @property
    def _carriers(self) -> tuple[str, ...]:
        """The variables whose noise a solver charges: those sought first, then those implied."""
        return (*self.roles.free, *(name for name in self.roles.pinned if name not in self._constant))

    @property
    def _constant(self) -> tuple[str, ...]:
        """The variables whose implied noise is known, and left out of a problem that seeks others.

        A solver that counts which noises move needs them all.
        """
        if not self.roles.free or self.solver.supports(()) is not None:
            return ()

        return tuple(name for name in self.roles.settled if name in self.roles.scope)

    @property
    def _constrained(self) -> list[str]:
        """The variables of the antecedent whose value has to follow from the noise."""
        return [name for name in self.roles.names if name in self.aims and name not in self.roles.met]

    def _problem(self, question: Question) -> Problem:
        scm, aims, roles, u = self.scm, self.aims, self.roles, question.u
        constrained, carriers = self._constrained, self._carriers
        empty = next(iter(u.values()))[:, :0]
        sd = {name: scm.schema.sd(name) for name in constrained}
        with torch.no_grad():
            context = self._context(question)
            sides = [excess(scm, name, {**question.x, name: aims[name].lower}, u[name]) for name in roles.kept]

        charged = {name: u[name][:, : scm.mechanisms[name].free_noise_dim] for name in carriers}
        rest = concat_last(list(charged.values()), empty)
        terms = [Term(self.distance.of(name), self.distance.weight(name), charged[name].shape[-1]) for name in carriers]
        moves = [torch.full_like(each, name in roles.scope, dtype=torch.bool) for name, each in charged.items()]
        unbounded = [torch.full_like(each, -torch.inf) for each in sides]
        inside = [torch.full_like(each, -NOISE_MARGIN) for each in sides]
        chained = roles.free and has_chain_rule(scm, roles)

        return Problem(
            rest=rest,
            movable=concat_last(moves, empty.bool()),
            lower=concat_last([*(aims[name].lower / sd[name] for name in constrained), *unbounded], empty),
            upper=concat_last([*(aims[name].upper / sd[name] for name in constrained), *inside], empty),
            given=context,
            law=self._law,
            cost=Cost(terms, rest),
            free=sum(scm.mechanisms[name].free_noise_dim for name in roles.free),
            slopes=self._slopes if chained and not constrained and not roles.kept else None,
        )

    def _context(self, question: Question) -> Context:
        scm, roles = self.scm, self.roles
        given: dict[str, Source] = {}
        for name in roles.names:
            x, u = question.x[name], question.u[name]
            if name in roles.pinned:
                given[name] = self._pinned(name, question)
            elif name in roles.kept:
                given[name] = Known(self.aims[name].lower, u)
            elif name in roles.fixed:
                given[name] = Known(x, u)
            elif name not in roles.free:
                given[name] = Noise(u)
        sizes = {name: scm.mechanisms[name].free_noise_dim for name in roles.free}
        fixed = {
            name: question.u[name][:, size:] for name, size in sizes.items() if scm.mechanisms[name].fixed_noise_dim
        }

        return Context(given, fixed)

    def _pinned(self, name: str, question: Question) -> Source:
        """The value of a variable whose noise is implied; the noise too where its parents stay where they are."""
        aim, met = self.aims[name].lower, self.roles.met
        # Of the many noises that lead to a class or a whole number, the one nearest to rest is implied.
        source: Source = (
            Nearest(aim, question.u[name])
            if name in self.roles.atomic
            else Reduced(aim, self.scm.mechanisms[name].reduce(aim))
        )
        if name not in self.roles.settled:
            return source

        parents = [self.aims[each].lower if each in met else question.x[each] for each in self.scm.graph.parents(name)]
        joined = concat_last(parents, question.x[name][:, :0])
        x, u, _ = source.complete(self.scm.mechanisms[name], joined)

        return Known(x, u)

    def _given(self, v: Tensor, context: Context) -> dict[str, Source]:
        """What is given of every variable at free coordinates `(rows, free)`."""
        free = self.roles.free
        sizes = [self.scm.mechanisms[name].free_noise_dim for name in free]
        given = dict(context.given)
        for name, part in zip(free, v.split(sizes, dim=-1) if free else (), strict=True):
            fixed = context.fixed_noise.get(name)
            given[name] = Noise(part if fixed is None else concat_last([part, fixed], part))

        return given

    def _law(self, v: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """What the noise that is sought implies, and the values that are constrained, in standard deviations."""
        scm, roles = self.scm, self.roles
        given = self._given(v, context)
        done = complete_rows(scm, given, v[:, :0], roles.names)
        sides = [excess(scm, name, done.x, done.u[name]) for name in roles.kept]
        values = [done.x[name] / scm.schema.sd(name) for name in self._constrained]

        return (
            concat_last([done.u[name] for name in self._carriers if name in roles.pinned], v[:, :0]),
            concat_last([*values, *sides], v[:, :0]),
        )

    def _slopes(self, v: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        return implied_and_jacobian(self.scm, self.roles, self._given(v, context), v[:, :0], self._constant)

    def _complete(
        self, question: Question, context: Context, solution: Solution, stays: Tensor, status: Tensor
    ) -> Worlds:
        """Completes the world from the solution; what no change reaches keeps its values to the last digit.

        A row that failed has the values that its noise leads to, whatever was asked for.
        """
        scm, carriers, x, u = self.scm, self._carriers, question.x, question.u
        stays = stays.unsqueeze(-1)
        sizes = [scm.mechanisms[name].free_noise_dim for name in carriers]
        parts = solution.noises.split(sizes, dim=-1) if carriers else ()
        found = {
            name: torch.where(stays, u[name], concat_last([part, u[name][:, part.shape[-1] :]], part))
            for name, part in zip(carriers, parts, strict=True)
        }
        moving = (*carriers, *self._constant)
        changing = {*moving, *scm.graph.descendants(*moving)}
        for name in self._constant:
            pinned = context.given[name]
            assert isinstance(pinned, Known)  # noqa: S101 # it is settled
            found[name] = torch.where(stays, u[name], pinned.u)
        kept: Columns = {name: x[name] for name in scm.graph if name not in changing}
        asked = {name: torch.where(stays, x[name], self.aims[name].lower) for name in self.roles.met}
        empty = scm.schema.empty([question.rows])
        done = complete_rows(scm, sources({**kept, **asked}, {**u, **found}), empty)
        after = done.x
        failed = status != SolverStatus.CONVERGED
        if failed.any():
            led_to = complete_rows(scm, sources(kept, {**u, **found}), empty).x
            after = {name: torch.where(failed.unsqueeze(-1), led_to[name], after[name]) for name in after}

        values = {name: torch.where(stays, x[name], after[name]) for name in after}

        return Worlds(values, done.u, status, torch.ones_like(status, dtype=torch.double))
