"""A search without derivatives, for rows that a solver could not answer: scores with steps, such as those of trees.

Growing spheres in the space of the noises: draws on spheres of growing radius around the factual noise are completed by
the laws until one meets the antecedent. It is then drawn back: one noise after the other returns to rest, all go
towards it by bisection, and smaller spheres around it and around rest are tried, as long as the antecedent holds. The
draws are the same for every row, so that an answer does not depend on the others.

References:
    Inverse Classification for Comparison-based Interpretability in Machine Learning (Laugel et al., 2018).
"""

__all__ = ["is_searchable", "search_spheres"]

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.batched import select
from deepbc.numerics.seeding import generator
from deepbc.queries.asked import Asked
from deepbc.queries.nearest import Search
from deepbc.queries.question import Question
from deepbc.queries.roles import Roles
from deepbc.queries.worlds import Columns, Worlds
from deepbc.scm.completion import Known, Nearest, Noise, Source, Value, complete_rows
from deepbc.solvers.problem import SolverStatus

# The radii, in standard deviations of the noise, and the draws on each sphere.
RADII, DRAWS = tuple(0.15 * 1.35**k for k in range(13)), 768
# Rounds of drawing back, bisections of each, and the size of the spheres tried in each, relative to the move.
ROUNDS, BISECTIONS, LOCAL = 8, 12, 1.0
# In each, a sphere around rest that is smaller than the move by this factor is searched again.
SHRUNK = 0.9
# Completed at once.
CHUNK = 65_536
# How certain such an answer is: a judgement.
CERTAINTY = 0.5


def is_searchable(search: Search, aims: Mapping[str, Asked]) -> bool:
    """Whether chance can meet the antecedent: no number that cannot be pinned has to have one value."""
    return all(
        aim.interval or search.scm.variables[name].discrete or _pinned(search, name, aim) for name, aim in aims.items()
    )


def _pinned(search: Search, name: str, aim: Asked) -> bool:
    return not aim.interval and name in search.scope and search.scm.mechanisms[name].pinnable


@torch.no_grad()
def search_spheres(search: Search, question: Question, aims: Mapping[str, Asked]) -> Worlds:
    """Finds near worlds in which the antecedent holds; a row without one keeps the factual world and fails."""
    met = [name for name, aim in aims.items() if _pinned(search, name, aim)]
    spheres = _Spheres(search, question, aims, Roles.of(search.scm, aims, search.scope, met))
    rows = question.rows
    best = torch.full((rows, spheres.free), torch.nan, dtype=search.scm.dtype, device=search.scm.device)
    cost = torch.full((rows,), torch.inf, dtype=torch.double, device=best.device)
    if spheres.free:
        spheres.grow(best, cost)
        spheres.draw_back(best, cost)

    return spheres.complete(best, cost.isfinite())


@dataclass(frozen=True, slots=True)
class _Spheres:
    """The moves of the free noises of some rows, side by side."""

    search: Search
    question: Question
    aims: Mapping[str, Asked]
    roles: Roles

    @property
    def sizes(self) -> list[int]:
        """The number of components of each noise."""
        return [self.search.scm.mechanisms[name].free_noise_dim for name in self.roles.free]

    @property
    def free(self) -> int:
        """The number of components of all noises."""
        return sum(self.sizes)

    def grow(self, best: Tensor, cost: Tensor) -> None:
        """Draws on growing spheres until each row has a move that meets the antecedent; changes both arguments."""
        for k, radius in enumerate(RADII):
            rows = cost.isinf().nonzero().squeeze(-1)
            if not len(rows):
                return
            self._try(best, cost, rows, radius * self._directions("grow", k).expand(len(rows), -1, -1))

    def draw_back(self, best: Tensor, cost: Tensor) -> None:
        """Draws moves back towards rest as long as the antecedent holds; changes both arguments."""
        rows = cost.isfinite().nonzero().squeeze(-1)
        if not len(rows):
            return
        for k in range(ROUNDS):
            for column in range(self.free):
                without = best[rows].clone()
                without[:, column] = 0.0
                self._try(best, cost, rows, without.unsqueeze(1))
            low, high = torch.zeros_like(cost[rows]), torch.ones_like(cost[rows])
            whole = best[rows].clone()
            for _ in range(BISECTIONS):
                middle = (low + high) / 2
                moves = (middle.unsqueeze(-1) * whole).unsqueeze(1)
                holds = self._cost(rows, moves, torch.full_like(low, torch.inf)).squeeze(1).isfinite()
                low, high = torch.where(holds, low, middle), torch.where(holds, middle, high)
            self._try(best, cost, rows, (high.unsqueeze(-1) * whole).unsqueeze(1))
            size = LOCAL * 0.6**k * best[rows].norm(dim=-1)[:, None, None]
            self._try(best, cost, rows, best[rows].unsqueeze(1) + size * self._directions("back", k))
            inner = SHRUNK * best[rows].norm(dim=-1)[:, None, None]
            self._try(best, cost, rows, inner * self._directions("shrink", k))

    def complete(self, moves: Tensor, found: Tensor) -> Worlds:
        """The worlds of all rows; those that were not found stay as they are."""
        question, scm = self.question, self.search.scm
        given = self._given(torch.arange(question.rows, device=moves.device), moves.nan_to_num())
        done = complete_rows(scm, given, scm.schema.empty([question.rows]))
        mask = found.unsqueeze(-1)
        x = {name: torch.where(mask, done.x[name], question.x[name]) for name in scm.graph}
        u = {name: torch.where(mask, done.u[name], question.u[name]) for name in scm.graph}
        status = torch.where(found, int(SolverStatus.CONVERGED), int(SolverStatus.ZERO_GRADIENT))

        return Worlds(x, u, status, torch.full_like(status, CERTAINTY, dtype=torch.double))

    def _directions(self, purpose: str, k: int) -> Tensor:
        """Directions of length 1, `(draws, free)`; half of them leave about half of the noises at rest."""
        stream = generator(0, "growing spheres", purpose, k)
        drawn = torch.randn(DRAWS, self.free, generator=stream, dtype=torch.double)
        kept = torch.rand(DRAWS, self.free, generator=stream) < 0.5
        kept[: DRAWS // 2] = True
        drawn = drawn * kept

        lengths: Tensor = drawn.norm(dim=-1, keepdim=True)

        return (drawn / lengths.clamp_min(1e-12)).to(self.question.u[self.roles.names[0]])

    def _try(self, best: Tensor, cost: Tensor, rows: Tensor, moves: Tensor) -> None:
        """Keeps the cheapest of moves `(rows, draws, free)` that meet the antecedent, where it is cheaper."""
        costs, chosen = self._cost(rows, moves, cost[rows]).min(-1)
        better = costs < cost[rows]
        picked = moves[torch.arange(len(rows), device=rows.device), chosen]
        best[rows[better]] = picked[better]
        cost[rows[better]] = costs[better]

    def _cost(self, rows: Tensor, moves: Tensor, limit: Tensor) -> Tensor:
        """What moves cost, `(rows, draws)`; infinite where the antecedent does not hold or a limit is not undercut."""
        many, flat = rows.repeat_interleave(moves.shape[1]), moves.flatten(0, 1)
        cost = self._cost_of_free(many, flat)
        # The laws, and the model of the user's, are asked about those alone that could be the nearest.
        asked = (cost < limit.repeat_interleave(moves.shape[1])).nonzero().squeeze(-1)
        kept = torch.full_like(cost, torch.inf)
        for part in asked.split(CHUNK):
            kept[part] = self._cost_of(many[part], flat[part])

        return kept.reshape(moves.shape[:-1])

    def _cost_of_free(self, rows: Tensor, moves: Tensor) -> Tensor:
        """What the noises that are sought cost, with shape `(rows,)`: what those that are met imply comes on top."""
        free = zip(self.roles.free, moves.split(self.sizes, dim=-1), strict=True)
        carried = [self._moved(name, self._shifted(name, rows, move), rows) for name, move in free]

        return torch.stack(carried).sum(0).double()

    def _cost_of(self, rows: Tensor, moves: Tensor) -> Tensor:
        done = complete_rows(self.search.scm, self._given(rows, moves), moves[:, :0], self.roles.names)
        carried = [self._moved(name, done.u[name], rows) for name in (*self.roles.free, *self.roles.met)]
        holds = [select(aim, rows).missed(done.x[name]).amax(-1) == 0 for name, aim in self.aims.items()]
        cost = torch.stack(carried).sum(0).double()
        kept: Tensor = torch.where(torch.stack(holds).all(0) & cost.isfinite(), cost, torch.inf)

        return kept

    def _moved(self, name: str, noise: Tensor, rows: Tensor) -> Tensor:
        return self.search.distance.moved(name, noise, self.question.u[name][rows])

    def _shifted(self, name: str, rows: Tensor, move: Tensor) -> Tensor:
        """The noise of a variable, moved but for the components that no question moves."""
        u = self.question.u[name][rows]

        return torch.cat([u[:, : move.shape[-1]] + move, u[:, move.shape[-1] :]], dim=-1)

    def _given(self, rows: Tensor, moves: Tensor) -> dict[str, Source]:
        """What is given of every variable: moved noises, values that are met, and the factual noise of all others."""
        scm, roles = self.search.scm, self.roles
        u: Columns = {name: each[rows] for name, each in self.question.u.items()}
        given: dict[str, Source] = {name: Noise(each) for name, each in u.items()}
        for name in roles.fixed:
            given[name] = Known(self.question.x[name][rows], u[name])
        for name in roles.met:
            aim = self.aims[name].lower[rows]
            given[name] = Nearest(aim, u[name]) if scm.mechanisms[name].has_atoms else Value(aim)
        for name, move in zip(roles.free, moves.split(self.sizes, dim=-1), strict=True):
            given[name] = Noise(self._shifted(name, rows, move))

        return given
