r"""Cardinality-constrained solutions: hard thresholding of a first solution or best-subset search, then a refit.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), section 3.3, sparsity.
"""

__all__ = ["Sparse"]

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from deepbc._validation import check_choice, check_count, check_type
from deepbc.errors import SettingError
from deepbc.solvers.base import Solver, SupportSearch
from deepbc.solvers.exact import Exact
from deepbc.solvers.problem import Problem, Solution, SolverStatus

# An exhaustive search is refused above this.
MAX_SUPPORTS = 1000


class Sparse(Solver):
    """Creates the solver for answers in which few noises move.

    Args:
        keep: How many may move.
        solver: The solver of each pass; `Exact()` by default.
        by: What is counted: each `"coordinate"` of the noise, as in the paper, or whole variables (`"variable"`).
        search: `"greedy"` keeps those that move most in a first pass, as in the paper; `"exhaustive"` tries all sets of
            that size, at most 1,000, and returns the best.

    Example:
        >>> Sparse(keep=1)
        Sparse(keep=1, solver=Exact(starts=24, steps=200, tolerance=1e-06), by='coordinate', search='greedy')
    """

    def __init__(
        self, keep: int, *, solver: Solver | None = None, by: str = "coordinate", search: str = "greedy"
    ) -> None:
        check_count(keep, "Sparse keep", least=1)
        self.solver = solver if solver is not None else Exact()
        check_type(self.solver, Solver, "Sparse solver")
        if isinstance(self.solver, Sparse):
            raise SettingError(
                "Sparse solver: expected another solver than Sparse. Write Sparse(keep, solver=Exact())."
            )
        self.keep = keep
        self.by = check_choice(by, ("coordinate", "variable"), "Sparse by")
        self.search = check_choice(search, ("greedy", "exhaustive"), "Sparse search")
        self.pins, self.feasibility_tolerance = self.solver.pins, self.solver.feasibility_tolerance

    def solve(self, problem: Problem) -> Solution:
        noises = problem.rest.shape[-1]
        groups = problem.cost.group if self.by == "variable" else torch.arange(noises, device=problem.rest.device)
        count = len(groups.unique())
        if count <= self.keep:
            return self.solver.solve(problem)

        member = groups == groups.unique().unsqueeze(-1)

        return self._best(problem, member) if self.search == "exhaustive" else self._greedy(problem, member)

    def screening(self) -> Solver:
        # Each choice is solved several times, so no comparison is cheap.
        inner = self.solver.screening()

        return self if inner is self.solver else Sparse(self.keep, solver=inner, by=self.by, search=self.search)

    def supports(self, names: Sequence[str]) -> SupportSearch | None:
        if self.search == "greedy" or len(names) <= self.keep:
            return SupportSearch(self.keep, None, self.solver)

        _check_count(math.comb(len(names), self.keep), self.keep, len(names))

        return SupportSearch(self.keep, tuple(itertools.combinations(names, self.keep)), self.solver)

    def infeasible_reason(self, names: Sequence[str]) -> tuple[str, str]:
        shown, exhaustive = ", ".join(map(repr, names)), self.search == "exhaustive"

        return (
            f"No {self.keep} of the noises in scope that were tried can reach the antecedent ({shown}) alone.",
            "Keep more, or widen the scope." if exhaustive else "Keep more, or try all sets: search='exhaustive'.",
        )

    def _greedy(self, problem: Problem, member: Tensor) -> Solution:
        """Keeps the groups that move most; `member` says which noises each group has, `(groups, noises)`."""
        first = self.solver.solve(problem)
        move = (first.noises - problem.rest).square().nan_to_num() @ member.to(first.noises.dtype).T
        kept = member[move.topk(self.keep, dim=-1).indices].any(-2)

        return self.solver.solve(problem.with_movable(problem.movable & kept))

    def _best(self, problem: Problem, member: Tensor) -> Solution:
        _check_count(math.comb(len(member), self.keep), self.keep, len(member))
        best = self.solver.solve(problem.with_movable(torch.zeros_like(problem.movable)))
        lowest = _feasible_cost(problem, best)
        for chosen in itertools.combinations(range(len(member)), self.keep):
            solution = self.solver.solve(problem.with_movable(problem.movable & member[list(chosen)].any(0)))
            cost = _feasible_cost(problem, solution)
            best = solution.where(cost < lowest, best)
            lowest = torch.minimum(cost, lowest)

        return best

    def __repr__(self) -> str:
        return f"Sparse(keep={self.keep}, solver={self.solver!r}, by={self.by!r}, search={self.search!r})"


def _check_count(count: int, keep: int, noises: int) -> None:
    if count > MAX_SUPPORTS:
        raise SettingError(
            f"Sparse: {keep} of {noises} are {count} sets, more than the {MAX_SUPPORTS} that an exhaustive search "
            f"tries. Keep fewer, narrow the scope or take search='greedy'."
        )


def _feasible_cost(problem: Problem, solution: Solution) -> Tensor:
    """The cost of each row, infinite where it failed."""
    cost = problem.cost.value(solution.noises, problem.rest)

    return torch.where(solution.status == SolverStatus.CONVERGED, cost, torch.inf)
