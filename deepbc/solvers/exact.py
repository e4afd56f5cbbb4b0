r"""The default solver: local Gauss-Newton or SQP with multi-start, a smoothing homotopy, and an active-set method.

1. Local minimisation: Gauss-Newton with L-BFGS correction (`gauss_newton`), or SQP where there are constraints (`sqp`).
2. Multi-start: rows that meet the restart criteria start again on a line and from Sobol points (`multistart`), and rows
   that fail from a few fixed starts; the lowest feasible cost counts.
3. Costs with kinks: a smoothing homotopy, then a polish with the noises fixed that end at a kink. Where all costs have
   kinks, small supports are enumerated as well.
4. Two-sided constraints: an active-set method, which drops multipliers of the wrong sign and adds violated bounds.

References:
    Numerical Optimization (Nocedal and Wright, 2006), chapters 10, 16.5 and 18.
    Smooth minimization of non-smooth functions (Nesterov, 2005): smoothing.
"""

__all__ = ["Exact"]

import itertools
import math

import torch
from torch import Tensor

from deepbc._validation import check_between, check_count
from deepbc.solvers.base import Solver
from deepbc.solvers.gauss_newton import minimize_gauss_newton
from deepbc.solvers.multistart import select_sobol_starts
from deepbc.solvers.problem import Problem, Solution, SolverStatus
from deepbc.solvers.quadratic_model import SolverState, constrained_model, is_unconstrained
from deepbc.solvers.sqp import minimize_sqp

# Starts of rows that failed: so many Gauss-Newton steps from rest, or so far along all noises, of equal or other signs.
FALLBACK_STARTS = (
    (0.25, 0.0, 1),
    (2.0, 0.0, 1),
    (0.0, 1.0, -1),
    (0.0, -1.0, -1),
    (0.0, 3.0, -1),
    (0.0, -3.0, -1),
    (0.0, 1.0, 1),
)
# Sobol points for each start on a line; the dimension above which they are too sparse to help; and the steps from each,
# which go on only where that is best.
SOBOL_FACTOR, MAX_SOBOL_DIM, RESTART_STEPS = 4, 16, 40
# The smoothing radii, and the distance from its kink at which a noise is then fixed there.
SMOOTHING_SCHEDULE, KINK_TOLERANCE = (0.3, 0.03, 3e-3, 3e-4, 3e-6), 1e-4
# Those of a solution that is only compared with others.
SCREENING_SCHEDULE, SCREENING_UPDATES = (0.03,), 2
# The most supports to enumerate, and the most changes of the active set.
MAX_SUPPORTS, MAX_ACTIVE_SET_UPDATES = 16, 12


class Exact(Solver):
    r"""Creates the default solver.

    Args:
        starts: The number of candidate starts on a line of a row that meets the restart criteria, of which the best are
            used; with several free noises or constraints, four times as many Sobol points as well. 0 starts at the
            factual noise only. Multimodal costs are better served by more.
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
        self.schedule: tuple[float, ...] = SMOOTHING_SCHEDULE
        self.active_set_updates = MAX_ACTIVE_SET_UPDATES

    def solve(self, problem: Problem) -> Solution:
        active_set = _initial_active_set(problem)
        state = self._update_active_set(problem, self._minimize(problem, active_set, restart=self.starts > 0))

        return Solution(torch.where(state.fixed, problem.rest, state.noises), state.status)

    def screening(self) -> Solver:
        coarse = Exact(starts=0, steps=40)
        coarse.schedule, coarse.active_set_updates = SCREENING_SCHEDULE, SCREENING_UPDATES

        return coarse

    def _minimize(self, problem: Problem, active_set: Tensor, *, restart: bool = False) -> SolverState:
        minimize = self._smoothing_homotopy if problem.cost.rough else self._multistart

        return minimize(problem, active_set, restart=restart)

    def _minimize_locally(
        self, problem: Problem, v: Tensor, active_set: Tensor, smoothing: float, starts: int = 0
    ) -> SolverState:
        start, steps, tolerance = problem.linearize(v), self.steps, self.tolerance
        if is_unconstrained(problem):
            return minimize_gauss_newton(
                problem, start, smoothing=smoothing, steps=steps, tolerance=tolerance, starts=starts
            )

        return minimize_sqp(problem, start, active_set, smoothing=smoothing, steps=steps, tolerance=tolerance)

    def _multistart(
        self, problem: Problem, active_set: Tensor, smoothing: float = 0.0, *, restart: bool
    ) -> SolverState:
        """Minimises from rest, and from further starts where the restart criteria or a failure ask for it."""
        state = self._minimize_locally(problem, problem.start, active_set, smoothing, self.starts)
        if restart and 0 < problem.free <= MAX_SOBOL_DIM:
            self._restart_from_sobol(problem, state, active_set, smoothing)

        for steps, distance, sign in FALLBACK_STARTS if self.starts and problem.free else ():
            failed = (state.status != SolverStatus.CONVERGED).nonzero().squeeze(-1)
            if not len(failed):
                break
            part = problem.select(failed)
            model, _, _ = constrained_model(part, part.linearize(part.start), active_set[failed], smoothing)
            signs = float(sign) ** torch.arange(problem.free, device=active_set.device)
            move = steps * model.step()[0].nan_to_num() + distance * signs * part.movable[:, : problem.free]
            state.improve(failed, self._minimize_locally(part, part.start + move, active_set[failed], smoothing))

        return state

    def _restart_from_sobol(self, problem: Problem, state: SolverState, active_set: Tensor, smoothing: float) -> None:
        """Minimises from the best Sobol points where the restart criteria are met or the cost is not finite."""
        # The line of the first restart covers one unconstrained noise.
        covered = problem.free == 1 and is_unconstrained(problem)
        needs_restart = torch.zeros_like(state.needs_restart) if covered else state.needs_restart & (state.cost > 0)
        rows = (needs_restart | ~state.cost.isfinite()).nonzero().squeeze(-1)
        if not len(rows):
            return

        part = problem.select(rows)
        points = select_sobol_starts(part, state.take(rows), SOBOL_FACTOR * self.starts, smoothing)
        count = points.shape[1]
        run = torch.arange(len(rows), device=rows.device).repeat_interleave(count)
        first = Exact(starts=0, steps=min(RESTART_STEPS, self.steps), tolerance=self.tolerance)
        ended = first._minimize_locally(part.select(run), points.flatten(0, 1), active_set[rows][run], smoothing)
        for rank in range(count):
            state.improve(rows, ended.take(slice(rank, None, count)))

        slow = rows[state.status[rows] == SolverStatus.MAX_STEPS]
        if len(slow):
            v = state.noises[slow, : problem.free]
            again = self._minimize_locally(problem.select(slow), v, active_set[slow], smoothing)
            done = again.status == SolverStatus.CONVERGED
            state.put(slow[done], again.take(done))

    def _smoothing_homotopy(self, problem: Problem, active_set: Tensor, *, restart: bool) -> SolverState:
        """Follows decreasing smoothing; then fixes the noises at a kink and solves for the others (polish)."""
        smoothed = self._multistart(problem, active_set, self.schedule[0], restart=restart)
        for smoothing in self.schedule[1:]:
            smoothed = self._minimize_locally(problem, smoothed.noises[:, : problem.free], active_set, smoothing)

        every = torch.arange(problem.rows, device=active_set.device)
        at_kink = problem.cost.kinked & ((smoothed.noises - problem.rest).abs() < KINK_TOLERANCE)
        # Among equals the first is kept, so the state with noises exactly at their kinks comes first.
        fixed, v = problem.with_movable(problem.movable & ~at_kink), self._restricted(problem, smoothed, ~at_kink)
        state = self._minimize_locally(fixed, v, active_set, 0.0)
        for support in (~at_kink, torch.ones_like(at_kink), *self._minimal_supports(problem)):
            fixed = problem.with_movable(problem.movable & support)
            for v in (self._restricted(problem, smoothed, support), problem.start):
                state.improve(every, self._minimize_locally(fixed, v, active_set, 0.0))

        return state

    def _restricted(self, problem: Problem, smoothed: SolverState, support: Tensor) -> Tensor:
        """The coordinates of the smoothed solution, at rest outside the support."""
        moves = (problem.movable & support)[:, : problem.free]

        return torch.where(moves, smoothed.noises[:, : problem.free], problem.start)

    def _minimal_supports(self, problem: Problem) -> list[Tensor]:
        """Enumerates supports as small as those of basic solutions, where all costs have kinks."""
        # Comparisons do without.
        if self.schedule is not SMOOTHING_SCHEDULE:
            return []

        constraints = problem.implied + problem.lower.shape[-1]
        noises = problem.rest.shape[-1]
        if not bool(problem.cost.kinked.all()) or math.comb(noises, constraints) > MAX_SUPPORTS:
            return []

        each = torch.eye(noises, dtype=torch.bool, device=problem.rest.device)

        return [each[list(chosen)].any(0) for chosen in itertools.combinations(range(noises), constraints)]

    def _update_active_set(self, problem: Problem, state: SolverState) -> SolverState:
        """Drops bounds with multipliers of the wrong sign and adds violated ones until the active set is stable."""
        two_sided = problem.lower < problem.upper
        if not two_sided.any():
            return state

        for _ in range(self.active_set_updates):
            values = problem.evaluate(state.noises[:, : problem.free]).values
            dropped = two_sided & (state.multipliers * state.active_set < 0)
            active_set = torch.where(dropped, 0, state.active_set)
            inactive = two_sided & (state.active_set == 0)
            active_set = torch.where(inactive, _violated_bounds(problem, values), active_set)
            changed = (active_set != state.active_set).any(-1).nonzero().squeeze(-1)
            if not len(changed):
                return state
            state.put(changed, self._minimize(problem.select(changed), active_set[changed]))

        state.status[changed] = SolverStatus.MAX_STEPS

        return state

    def __repr__(self) -> str:
        return f"Exact(starts={self.starts}, steps={self.steps}, tolerance={self.tolerance:g})"


def _initial_active_set(problem: Problem) -> Tensor:
    """Every equality, and the bounds that are violated at rest."""
    two_sided = problem.lower < problem.upper
    if not two_sided.any():
        return torch.full_like(two_sided, -1, dtype=torch.long)

    return torch.where(two_sided, _violated_bounds(problem, problem.evaluate(problem.start).values), -1)


def _violated_bounds(problem: Problem, values: Tensor) -> Tensor:
    """Which bound is violated: -1 the lower, 1 the upper, 0 none."""
    return (values > problem.upper).long() - (values < problem.lower).long()
