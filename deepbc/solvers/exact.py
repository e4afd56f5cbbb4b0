r"""The most likely world to high precision: a screen of starts, the walk down, and exact treatment of kinks and ends.

Starts are screened along the first step, out to where the cost of moving alone would exceed that of not moving; a row
whose screen shows two valleys walks down both. A cost with kinks is rounded off, less and less; noises that end near
their kink are then held there, and the rest is solved once more. Ends of intervals are held or released by the sign of
their multipliers, as active sets are.

References:
    Numerical Optimization (Nocedal and Wright, 2006), section 16.5.
"""

__all__ = ["Exact"]

import itertools
import math

import torch
from torch import Tensor

from deepbc._checks import check_between, check_count
from deepbc.solvers.base import Solver
from deepbc.solvers.descent import Found, descend, quadratic, settled
from deepbc.solvers.problem import Problem, Solution, Trouble
from deepbc.solvers.steps import dot

# Where starts are screened, in units of the farthest that can pay; the more starts, the more of these.
PLACES = (0.5, -0.5, 0.25, 0.75, -0.25, 1.0, -1.0, 0.375, 0.625, -0.75, 0.125, 0.875, -0.125, -0.375, -0.625, -0.875)
# Where rows start again that failed, in units of their first step.
RETRIES = (0.25, 2.0, -1.0)
SMOOTHINGS = (0.3, 0.03, 3e-3, 3e-4, 3e-6)
SNAP = 1e-4
MOST_ROUNDS = 12
MOST_CARRIERS = 16


class Exact(Solver):
    r"""Creates the default solver.

    Args:
        starts: The number of starts that are screened beside the factual noise; 0 takes that alone.
        steps: The most steps of a row.
        tolerance: A row is done when a further step would save less than this part of its distance (plus one).

    Example:
        >>> Exact(starts=0)
        Exact(starts=0, steps=200, tolerance=1e-12)
    """

    pins = True

    def __init__(self, *, starts: int = 6, steps: int = 200, tolerance: float = 1e-12) -> None:
        check_count(starts, "Exact starts", most=len(PLACES))
        check_count(steps, "Exact steps", least=1)
        check_between(tolerance, 0.0, 1.0, "Exact tolerance")
        self.starts, self.steps, self.tolerance = starts, steps, tolerance

    def solve(self, problem: Problem) -> Solution:
        ends = _first_ends(problem)
        found = self._rough(problem, ends) if problem.cost.rough else self._smooth(problem, ends, 0.0)
        found = self._settle(problem, found)

        return Solution(
            noises=torch.where(found.still, problem.rest, found.noises),
            trouble=found.trouble,
            resting=found.still[:, problem.free :],
        )

    def _descend(self, problem: Problem, v: Tensor, ends: Tensor, smooth: float) -> Found:
        return descend(problem, v, ends, smooth=smooth, steps=self.steps, tolerance=self.tolerance)

    def _smooth(self, problem: Problem, ends: Tensor, smooth: float) -> Found:
        """Walks down from the best starts of a screen, and from others where that fails."""
        rows, starts, step = self._screen(problem, ends, smooth)
        walked = self._descend(problem.select(rows), starts, ends[rows], smooth)
        # The second start of a row stands behind all the first ones.
        found = walked.take(slice(0, problem.rows))
        found = found.improve(rows[problem.rows :], walked.take(slice(problem.rows, None)))

        for scale in RETRIES:
            failed = (found.trouble != Trouble.NONE).nonzero().squeeze(-1)
            if not len(failed):
                break
            again = problem.select(failed)
            retried = self._descend(again, again.start + scale * step[failed], ends[failed], smooth)
            found = found.improve(failed, retried)

        return found

    def _screen(self, problem: Problem, ends: Tensor, smooth: float) -> tuple[Tensor, Tensor, Tensor]:
        """Chooses the rows to walk, a row with two valleys twice; their starts; and the first step of each row."""
        first = problem.linearize(problem.start)
        model, _, _ = quadratic(problem, first, ends, smooth)
        step = model.step()[0].nan_to_num()
        every = torch.arange(problem.rows, device=step.device)
        if not self.starts or not problem.free or not settled(problem):
            return every, problem.start, step

        cost = problem.cost.value(first.noises, problem.rest, smooth)
        size = dot(step.square(), torch.where(model.inverse > 0, 1 / model.inverse, 0.0))
        far = step * (2 * cost / size).sqrt().nan_to_num(posinf=0.0).unsqueeze(-1)
        places = sorted((0.0, *PLACES[: self.starts]))
        heights = [cost if place == 0 else self._height(problem, place * far, smooth) for place in places]

        wall = torch.full_like(cost, torch.inf)
        low = torch.stack([wall, *heights, wall]).nan_to_num(nan=torch.inf)
        valley = (low[1:-1] < low[:-2]) & (low[1:-1] <= low[2:])
        lowest, order = torch.where(valley, low[1:-1], torch.inf).topk(min(2, len(places)), dim=0, largest=False)
        place = torch.tensor(places, dtype=step.dtype, device=step.device)[order]
        starts = problem.start + place.unsqueeze(-1) * far
        doubtful = lowest[-1].isfinite().nonzero().squeeze(-1)

        return torch.cat([every, doubtful]), torch.cat([starts[0], starts[-1][doubtful]]), step

    def _height(self, problem: Problem, move: Tensor, smooth: float) -> Tensor:
        return problem.cost.value(problem.look(problem.start + move).noises, problem.rest, smooth)

    def _rough(self, problem: Problem, ends: Tensor) -> Found:
        """Rounds the kinks off, less and less; then holds the noises that end at one, and solves for the rest."""
        rounded = self._smooth(problem, ends, SMOOTHINGS[0])
        for smooth in SMOOTHINGS[1:]:
            rounded = self._descend(problem, rounded.noises[:, : problem.free], ends, smooth)

        every = torch.arange(problem.rows, device=ends.device)
        still = problem.cost.kinked & ((rounded.noises - problem.rest).abs() < SNAP)
        found = self._descend(problem, rounded.noises[:, : problem.free], ends, 0.0)
        for carriers in (~still, *self._few_carriers(problem)):
            held = problem.holding(problem.movable & carriers)
            near = torch.where(held.movable, rounded.noises, problem.rest)[:, : problem.free]
            for v in (near, problem.start):
                found = found.improve(every, self._descend(held, v, ends, 0.0))

        return found

    def _few_carriers(self, problem: Problem) -> list[Tensor]:
        """Sets of noises that may carry everything: where all costs are kinked, as few as there are demands."""
        demands = problem.implied + problem.lower.shape[-1]
        noises = problem.rest.shape[-1]
        if not bool(problem.cost.kinked.all()) or math.comb(noises, demands) > MOST_CARRIERS:
            return []

        each = torch.eye(noises, dtype=torch.bool, device=problem.rest.device)

        return [each[list(chosen)].any(0) for chosen in itertools.combinations(range(noises), demands)]

    def _settle(self, problem: Problem, found: Found) -> Found:
        """Releases ends that pull inward and holds those that were passed, until none is left."""
        open_ends = problem.lower < problem.upper
        if not open_ends.any():
            return found

        for _ in range(MOST_ROUNDS):
            values = problem.look(found.noises[:, : problem.free]).values
            # A force on a held end that points outward pulls inward once released.
            inward = open_ends & (found.multipliers * found.ends < 0)
            ends = torch.where(inward, 0, found.ends)
            passed = _passed(problem, values)
            ends = torch.where(open_ends & (found.ends == 0), passed, ends)
            changed = (ends != found.ends).any(-1).nonzero().squeeze(-1)
            if not len(changed):
                return found
            again = problem.select(changed)
            start = found.noises[changed, : problem.free]
            found = found.put(changed, self._descend(again, start, ends[changed], 0.0))

        trouble = found.trouble.index_fill(0, changed, Trouble.SLOW)

        return Found(*(found.noises, found.still, found.ends, found.multipliers, found.cost, found.missed, trouble))

    def __repr__(self) -> str:
        return f"Exact(starts={self.starts}, steps={self.steps}, tolerance={self.tolerance:g})"


def _first_ends(problem: Problem) -> Tensor:
    """Holds every value that was asked for, and the ends of intervals that are passed at rest."""
    passed = _passed(problem, problem.look(problem.start).values)

    return torch.where(problem.lower < problem.upper, passed, -1)


def _passed(problem: Problem, values: Tensor) -> Tensor:
    """Which end of each interval is passed: -1 the lower, 1 the upper, 0 none."""
    return (values > problem.upper).long() - (values < problem.lower).long()
