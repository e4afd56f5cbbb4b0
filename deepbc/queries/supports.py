"""The nearest worlds in which the noise of few variables moves, where classes and whole numbers may change.

Each set of variables is a scope. All sets are tried; or those that move most in a first solution, as in the paper, and
a set that grows by the variable that helps most (forward selection).

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), section 3.3, sparsity.
"""

__all__ = ["rows_of_sets", "search_supports"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from deepbc.numerics.batched import select
from deepbc.queries.asked import Asked
from deepbc.queries.nearest import Search
from deepbc.queries.question import Question
from deepbc.queries.worlds import Worlds
from deepbc.solvers.base import SupportSearch


class Nearest(Protocol):
    """Finds the nearest worlds of a chunk of rows; those from a cutoff `(rows,)` of the cost on may be given up."""

    def __call__(
        self, search: Search, question: Question, aims: Mapping[str, Asked], cutoff: Tensor | None = None
    ) -> Worlds: ...


def search_supports(search: Search, question: Question, aims: Mapping[str, Asked], nearest: Nearest) -> Worlds:
    """Finds the best worlds of a chunk of rows, those of each set by `nearest`."""
    scm = search.scm
    names = {*aims, *scm.graph.ancestors(*aims)} & set(search.scope)
    movable = tuple(name for name in scm.graph.order if name in names and scm.mechanisms[name].free_noise_dim)
    rule = search.solver.supports(movable)
    assert rule is not None  # noqa: S101 # the caller asked
    every = torch.arange(question.rows, device=scm.device)
    best: Worlds | None = None

    def attempt(rows: Tensor, scope: tuple[str, ...], cutoff: Tensor | None = None) -> Tensor:
        """Solves rows with a scope, keeps what is better, and returns its cost; infinite from the cutoff on."""
        nonlocal best
        part = question.select(rows)
        found = nearest(replace(search, solver=rule.solver, scope=scope), part, select(aims, rows), cutoff)
        cost = found.cost(part.u, search.distance)
        if best is None:
            best = found
        better = cost < best.take(rows).cost(part.u, search.distance)
        best.put(rows[better], found.take(better.nonzero().squeeze(-1)))
        return cost

    if rule.sets is not None or len(movable) <= rule.keep:
        # Sets that meet what is asked by its own noise are fast, and what they cost bounds the others.
        for scope in sorted(rule.sets or (movable,), key=lambda scope: not set(aims) <= {*scope}):
            attempt(every, scope, None if best is None else best.cost(question.u, search.distance))
    else:
        first = nearest(replace(search, solver=rule.solver), question, aims)
        _grow_supports(search, question, first, movable, rule, attempt)
    assert best is not None  # noqa: S101 # there is a set

    return best


def _grow_supports(
    search: Search,
    question: Question,
    first: Worlds,
    movable: tuple[str, ...],
    rule: SupportSearch,
    attempt: Callable[[Tensor, tuple[str, ...], Tensor | None], Tensor],
) -> None:
    """Tries the set that moves most in a first solution with all, and the set that grows one by one."""
    moved = torch.stack([search.distance.moved(name, first.u[name], question.u[name]) for name in movable], -1)
    kept = torch.zeros_like(moved, dtype=torch.bool)
    for rank in range(rule.keep):
        cost = torch.full_like(moved, torch.inf)
        for rows, scope in rows_of_sets(kept, movable):
            for k, name in sorted(enumerate(movable), key=lambda each: each[1] not in question.asked):
                if name not in scope:
                    cost[rows, k] = attempt(rows, (*scope, name), cost[rows].amin(-1))
        # Where no variable reaches it alone, that which moves most.
        fallback = torch.where(kept, -torch.inf, moved).argmax(-1)
        chosen = torch.where(cost.isinf().all(-1), fallback, cost.argmin(-1))
        kept[torch.arange(len(kept)), chosen] = True
        if rank + 1 == rule.keep:
            largest = torch.zeros_like(kept).scatter(-1, moved.topk(rule.keep, -1).indices, True)
            for rows, scope in rows_of_sets(largest, movable):
                attempt(rows, scope, cost[rows].amin(-1))


def rows_of_sets(kept: Tensor, names: Sequence[str]) -> list[tuple[Tensor, tuple[str, ...]]]:
    """The rows of each set of variables, from masks `(rows, variables)`."""
    sets, which = kept.unique(dim=0, return_inverse=True)

    return [
        ((which == k).nonzero().squeeze(-1), tuple(name for name, there in zip(names, each, strict=True) if there))
        for k, each in enumerate(sets.tolist())
    ]
