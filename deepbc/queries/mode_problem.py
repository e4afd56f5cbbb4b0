"""What takes part in a question, and in which role: the problem that a solver sees, and the world from its solution."""

__all__ = ["ModePlan"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.data.variables import concat_last
from deepbc.distances import Distance
from deepbc.mechanisms.regions import HAIR
from deepbc.queries.discrete_search import Rows, Solved, unchanging
from deepbc.queries.jacobians import chainable, derive
from deepbc.queries.question import Asked, Question
from deepbc.scm.model import SCM
from deepbc.solvers import Solver
from deepbc.solvers.problem import Cost, Problem, Solution, SolverStatus, Term


@dataclass(frozen=True, slots=True)
class ModePlan:
    """What takes part in a question, and in which role.

    Args:
        scm: The model.
        solver: The solver.
        distance: The distance.
        aims: What each variable of the antecedent is to be, with shape `(rows, value)`.
        names: The antecedent and its causes, in topological order.
        pinned: The variables whose value is given and whose noise is implied.
        kept: The discrete variables whose value is given and whose noise, which may not move, has to lead there.
        free: The variables whose noise is sought.
        fixed: The variables that cannot change.
        scope: The variables whose noise may move.
    """

    scm: SCM
    solver: Solver
    distance: Distance
    aims: Mapping[str, Asked]
    names: tuple[str, ...]
    pinned: tuple[str, ...]
    kept: tuple[str, ...]
    free: tuple[str, ...]
    fixed: tuple[str, ...]
    scope: frozenset[str]

    @classmethod
    def of(
        cls, scm: SCM, solver: Solver, distance: Distance, scope: Sequence[str], aims: Mapping[str, Asked]
    ) -> "ModePlan":
        names = tuple(name for name in scm.graph.order if name in {*aims, *scm.graph.ancestors(*aims)})
        scm = scm.precise(names)
        pinned = tuple(
            name
            for name in names
            if name in aims and solver.pins and scm.mechanisms[name].pinnable and not aims[name].interval
        )
        kept = tuple(name for name in pinned if scm.variables[name].discrete and name not in scope)
        pinned = tuple(name for name in pinned if name not in kept)
        given = (*pinned, *kept)
        free = tuple(
            name for name in names if name not in given and name in scope and scm.mechanisms[name].free_noise_dim
        )
        fixed = unchanging(scm, names, {*given, *free})

        return cls(scm, solver, distance, aims, names, pinned, kept, free, fixed, frozenset(scope))

    @property
    def reaches(self) -> bool:
        """Whether any noise that takes part may move."""
        return any(name in self.scope for name in (*self.free, *self.pinned))

    def solve(self, question: Question) -> Solved:
        """Solves for all rows, and completes them."""
        x, u, aims = dict(question.x), dict(question.u), self.aims
        problem = self._problem(x, u)
        solution = self.solver.solve(problem)
        lost = ~solution.noises.isfinite().all(-1)
        status = torch.where(
            lost & (solution.status == SolverStatus.CONVERGED), int(SolverStatus.NON_FINITE), solution.status
        )
        # A row in which the antecedent holds already stays as it is, to the last digit.
        holds = torch.stack([each.missed(x[name]).amax(-1) == 0 for name, each in aims.items()]).all(0)
        status = torch.where(holds, int(SolverStatus.CONVERGED), status)

        with torch.no_grad():
            return Solved(*self._complete(x, u, aims, solution, lost | holds, status != SolverStatus.CONVERGED), status)

    @property
    def _carriers(self) -> tuple[str, ...]:
        """The variables whose noise is charged: those sought first, then those implied."""
        return (*self.free, *self.pinned)

    @property
    def _constrained(self) -> list[str]:
        """The variables of the antecedent whose value has to follow from the noise."""
        return [name for name in self.names if name in self.aims and name not in (*self.pinned, *self.kept)]

    def _problem(self, x: Rows, u: Rows) -> Problem:
        scm, aims, carriers, constrained = self.scm, self.aims, self._carriers, self._constrained
        empty = next(iter(u.values()))[:, :0]
        sd = {name: scm.spread(name) for name in constrained}
        with torch.no_grad():
            given = self._given(x, u)
            sides = [scm.excess_rows(name, x | {name: aims[name].lower}, u[name]) for name in self.kept]

        moving = {name: u[name][:, : scm.mechanisms[name].free_noise_dim] for name in carriers}
        rest = concat_last(list(moving.values()), empty)
        terms = [Term(self.distance.of(name), self.distance.weight(name), moving[name].shape[-1]) for name in carriers]
        moves = [torch.full_like(each, name in self.scope, dtype=torch.bool) for name, each in moving.items()]
        lone = self.free and chainable(scm, [name for name in self.names if name not in self.fixed])

        return Problem(
            rest=rest,
            movable=concat_last(moves, empty.bool()),
            lower=concat_last([*(aims[name].lower / sd[name] for name in constrained), *map(_nowhere, sides)], empty),
            upper=concat_last([*(aims[name].upper / sd[name] for name in constrained), *map(_inside, sides)], empty),
            given=given,
            law=self._law,
            cost=Cost(terms, rest),
            free=sum(scm.mechanisms[name].free_noise_dim for name in self.free),
            slopes=self._slopes if lone and not constrained and not self.kept else None,
        )

    def _given(self, x: Rows, u: Rows) -> dict[str, Tensor]:
        """What the law needs beside the noise that is sought, row by row."""
        scm, aims = self.scm, self.aims
        given = {f"noise of {name}": u[name] for name in self.names if name not in self._carriers}
        still = {
            name: scm.mechanisms[name].free_noise_dim for name in self.free if scm.mechanisms[name].fixed_noise_dim
        }
        given |= {f"still {name}": u[name][:, size:] for name, size in still.items()}
        given |= {f"value of {name}": x[name] for name in self.fixed}
        given |= {f"value of {name}": aims[name].lower for name in (*self.pinned, *self.kept)}
        given |= {f"reduced {name}": scm.mechanisms[name].reduce(aims[name].lower) for name in self.pinned}
        # Of the many noises that lead to a class or a whole number, the one nearest to rest is implied.
        given |= {f"rest of {name}": u[name] for name in self.pinned if scm.variables[name].discrete}

        return given

    def _read(self, v: Tensor, given: Mapping[str, Tensor]) -> tuple[Rows, Rows, Rows]:
        """Values, what is reduced of them, and noise, by variable."""
        sizes = [self.scm.mechanisms[name].free_noise_dim for name in self.free]
        noise = self._named("noise of", given)
        for name, part in zip(self.free, v.split(sizes, dim=-1) if self.free else (), strict=True):
            still = given.get(f"still {name}")
            noise[name] = part if still is None else concat_last([part, still], part)

        return self._named("value of", given), self._named("reduced", given), noise

    def _named(self, what: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: given[f"{what} {name}"] for name in self.names if f"{what} {name}" in given}

    def _law(self, v: Tensor, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """What the noise that is sought implies, and the values that are constrained, in standard deviations."""
        scm = self.scm
        values, reduced, noise = self._read(v, given)
        rest = self._named("rest of", given)
        after, implied = scm.complete_rows(values, noise, names=self.names, reduced=reduced, rest=rest)
        sides = [scm.excess_rows(name, after, given[f"noise of {name}"]) for name in self.kept]

        return (
            concat_last([implied[name] for name in self.pinned], v[:, :0]),
            concat_last([*(after[name] / scm.spread(name) for name in self._constrained), *sides], v[:, :0]),
        )

    def _slopes(self, v: Tensor, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        return derive(self.scm, self.names, self._read(v, given), self.free)

    def _complete(
        self, x: Rows, u: Rows, aims: Mapping[str, Asked], solution: Solution, stays: Tensor, failed: Tensor
    ) -> tuple[Rows, Rows]:
        """Completes the world from the solution; what no change reaches keeps its values to the last digit.

        A row that failed has the values that its noise leads to, whatever was asked for.
        """
        scm, carriers = self.scm, self._carriers
        sizes = [scm.mechanisms[name].free_noise_dim for name in carriers]
        parts = solution.noises.split(sizes, dim=-1) if carriers else ()
        found = {
            name: torch.where(stays.unsqueeze(-1), u[name], concat_last([part, u[name][:, part.shape[-1] :]], part))
            for name, part in zip(carriers, parts, strict=True)
        }
        changing = {*carriers, *scm.graph.descendants(*carriers)}
        values = {name: x[name] for name in scm.graph if name not in changing}
        given = (*self.pinned, *self.kept)
        values |= {name: torch.where(stays.unsqueeze(-1), x[name], aims[name].lower) for name in given}
        after, noise = scm.complete_rows(values, {**u, **found})
        if failed.any():
            led_to, _ = scm.complete_rows({name: x[name] for name in scm.graph if name not in changing}, {**u, **found})
            after = {name: torch.where(failed.unsqueeze(-1), led_to[name], after[name]) for name in after}

        return {name: torch.where(stays.unsqueeze(-1), x[name], after[name]) for name in after}, noise


def _nowhere(sides: Tensor) -> Tensor:
    """The lower ends of sides that have none."""
    return torch.full_like(sides, -torch.inf)


def _inside(sides: Tensor) -> Tensor:
    """The upper ends of sides of a region, by a hair inside."""
    return torch.full_like(sides, -HAIR)
