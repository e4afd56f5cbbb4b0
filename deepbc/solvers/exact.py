r"""The most likely world to high precision: the walk down, and exact treatment of kinks and ends.

A row that may have walked down the wrong valley looks around: along its first step, and all around where several noises
are sought or constraints are to be met. From the lowest starts it walks down again, and the lowest end counts.

A cost with kinks is rounded off, less and less; noises that end near their kink are then held there, and the rest is
solved once more. Where all costs are kinked, sets of as few noises as there are demands are tried as well. Ends of
intervals are held or released by the sign of their multipliers, as active sets are.

References:
    Numerical Optimization (Nocedal and Wright, 2006), section 16.5.
"""

__all__ = ["Exact"]

import itertools
import math

import torch
from torch import Tensor

from deepbc._validation import check_between, check_count
from deepbc.solvers.base import Solver
from deepbc.solvers.found import Found
from deepbc.solvers.gauss_newton import descend
from deepbc.solvers.multistart import find_low_places
from deepbc.solvers.problem import Problem, Solution, SolverStatus
from deepbc.solvers.quadratic_model import held_of, settled
from deepbc.solvers.sqp import descend_within

# Where rows start again that failed: so many of their first steps from rest, or so far along all noises, whose signs
# are the same or alternate.
RETRIES = (
    (0.25, 0.0, 1),
    (2.0, 0.0, 1),
    (0.0, 1.0, -1),
    (0.0, -1.0, -1),
    (0.0, 3.0, -1),
    (0.0, -3.0, -1),
    (0.0, 1.0, 1),
)
# Rows in doubt look at so many times as many starts all around, unless so many noises are sought that starts are lost
# among them; from the lowest they walk down so many steps, and on if that pays.
AROUND, MOST_NOISES, FIRST_STEPS = 4, 16, 40
# How much kinks are rounded off, and how near to rest a noise then is held there.
SMOOTHINGS, SNAP = (0.3, 0.03, 3e-3, 3e-4, 3e-6), 1e-4
# How many sets of carriers are tried, and how often ends are held or released.
MOST_CARRIERS, MOST_ROUNDS = 16, 12


class Exact(Solver):
    r"""Creates the default solver.

    Args:
        starts: How many starts a row looks at whose first step is not as good as it seemed, or saves little, to start
            again from the best; where several noises are sought or something constrains them, four times as many all
            around. 0 keeps the one start at the factual noise. Laws with many waves are better served by more of them.
        steps: The most steps of a row.
        tolerance: A row takes its last step once that would save less than this part of its distance (plus one). Steps
            converge quadratically, so that what then remains is of the order of the square.

    Example:
        >>> Exact(starts=0)
        Exact(starts=0, steps=200, tolerance=1e-06)
    """

    pins = True

    def __init__(self, *, starts: int = 24, steps: int = 200, tolerance: float = 1e-6) -> None:
        check_count(starts, "Exact starts")
        check_count(steps, "Exact steps", least=1)
        check_between(tolerance, 0.0, 1.0, "Exact tolerance")
        self.starts, self.steps, self.tolerance = starts, steps, tolerance

    def solve(self, problem: Problem) -> Solution:
        ends = _first_ends(problem)
        found = self._settle(problem, self._find(problem, ends, around=self.starts > 0))

        return Solution(torch.where(found.still, problem.rest, found.noises), found.status)

    def screening(self, *, easy: bool = False) -> Solver:
        return self if easy else Exact(starts=0, steps=40)

    def _find(self, problem: Problem, ends: Tensor, *, around: bool = False) -> Found:
        find = self._rough if problem.cost.rough else self._smooth

        return find(problem, ends, around=around)

    def _descend(self, problem: Problem, v: Tensor, ends: Tensor, smooth: float, starts: int = 0) -> Found:
        start, steps, tolerance = problem.linearize(v), self.steps, self.tolerance
        if settled(problem):
            return descend(problem, start, smooth=smooth, steps=steps, tolerance=tolerance, places=starts)

        return descend_within(problem, start, ends, smooth=smooth, steps=steps, tolerance=tolerance)

    def _smooth(self, problem: Problem, ends: Tensor, smooth: float = 0.0, *, around: bool) -> Found:
        """Walks down from rest, and from elsewhere where that is in doubt, or leads nowhere."""
        found = self._descend(problem, problem.start, ends, smooth, self.starts)
        if around and 0 < problem.free <= MOST_NOISES:
            self._look_all_around(problem, found, ends, smooth)

        for steps, way, sign in RETRIES if self.starts and problem.free else ():
            failed = (found.status != SolverStatus.CONVERGED).nonzero().squeeze(-1)
            if not len(failed):
                break
            part = problem.select(failed)
            model, _, _ = held_of(part, part.linearize(part.start), ends[failed], smooth)
            signs = float(sign) ** torch.arange(problem.free, device=ends.device)
            move = steps * model.step()[0].nan_to_num() + way * signs * part.movable[:, : problem.free]
            found.improve(failed, self._descend(part, part.start + move, ends[failed], smooth))

        return found

    def _look_all_around(self, problem: Problem, found: Found, ends: Tensor, smooth: float) -> None:
        """Lets rows in doubt, and those that the laws lead nowhere, walk down from the lowest of many starts too."""
        # Without constraints, the way along the first step is all there is of one noise.
        seen = problem.free == 1 and settled(problem)
        doubtful = torch.zeros_like(found.doubtful) if seen else found.doubtful & (found.cost > 0)
        rows = (doubtful | ~found.cost.isfinite()).nonzero().squeeze(-1)
        if not len(rows):
            return

        part = problem.select(rows)
        spots = find_low_places(part, found.take(rows), AROUND * self.starts, smooth)
        few = spots.shape[1]
        walker = torch.arange(len(rows), device=rows.device).repeat_interleave(few)
        first = Exact(starts=0, steps=min(FIRST_STEPS, self.steps), tolerance=self.tolerance)
        ended = first._descend(part.select(walker), spots.flatten(0, 1), ends[rows][walker], smooth)
        for which in range(few):
            found.improve(rows, ended.take(slice(which, None, few)))

        slow = rows[found.status[rows] == SolverStatus.MAX_STEPS]
        if len(slow):
            again = self._descend(problem.select(slow), found.noises[slow, : problem.free], ends[slow], smooth)
            done = again.status == SolverStatus.CONVERGED
            found.put(slow[done], again.take(done))

    def _rough(self, problem: Problem, ends: Tensor, *, around: bool) -> Found:
        """Rounds the kinks off, less and less; then holds the noises that end at one, and solves for the rest."""
        rounded = self._smooth(problem, ends, SMOOTHINGS[0], around=around)
        for smooth in SMOOTHINGS[1:]:
            rounded = self._descend(problem, rounded.noises[:, : problem.free], ends, smooth)

        every = torch.arange(problem.rows, device=ends.device)
        still = problem.cost.kinked & ((rounded.noises - problem.rest).abs() < SNAP)
        # First those that rest where they seem to, which then are exactly there.
        found = self._descend(
            problem.holding(problem.movable & ~still), self._near(problem, rounded, ~still), ends, 0.0
        )
        for carriers in (~still, torch.ones_like(still), *self._few_carriers(problem)):
            held = problem.holding(problem.movable & carriers)
            for v in (self._near(problem, rounded, carriers), problem.start):
                found.improve(every, self._descend(held, v, ends, 0.0))

        return found

    def _near(self, problem: Problem, rounded: Found, carriers: Tensor) -> Tensor:
        """The coordinates that were found with rounded kinks, those that do not carry at rest."""
        moves = (problem.movable & carriers)[:, : problem.free]

        return torch.where(moves, rounded.noises[:, : problem.free], problem.start)

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
            found.put(changed, self._find(problem.select(changed), ends[changed]))

        found.status[changed] = SolverStatus.MAX_STEPS

        return found

    def __repr__(self) -> str:
        return f"Exact(starts={self.starts}, steps={self.steps}, tolerance={self.tolerance:g})"


def _first_ends(problem: Problem) -> Tensor:
    """Holds every value that was asked for, and the ends of intervals that are passed at rest."""
    intervals = problem.lower < problem.upper
    if not intervals.any():
        return torch.full_like(intervals, -1, dtype=torch.long)

    return torch.where(intervals, _passed(problem, problem.look(problem.start).values), -1)


def _passed(problem: Problem, values: Tensor) -> Tensor:
    """Which end of each interval is passed: -1 the lower, 1 the upper, 0 none."""
    return (values > problem.upper).long() - (values < problem.lower).long()
