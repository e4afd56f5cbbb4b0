r"""Unconstrained Gauss-Newton with an L-BFGS correction and a backtracking line search, row by row in one batch.

The direction is that of `QuadraticModel`, corrected by `LBFGSMemory`; its length satisfies the Armijo condition. Rows
that stop leave the batch. A row whose first step has a poor gain ratio, or sees strong curvature, is restarted: further
runs start at the local minima of the cost along that step (`multistart`), and the run of the lowest cost is returned.

The last step of a row is too small to be worth another Jacobian: it is taken if it lowers the cost.

References:
    Numerical Optimization (Nocedal and Wright, 2006), sections 3.1, 7.2 and 10.3.
"""

__all__ = ["minimize_gauss_newton"]

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from deepbc.solvers.lbfgs import LBFGSMemory
from deepbc.solvers.line_search import BACKTRACKING_FACTOR, MIN_STEP_LENGTH, expand, initial_length, sufficient_decrease
from deepbc.solvers.multistart import RESTART, select_line_starts
from deepbc.solvers.problem import Point, Problem, SolverStatus
from deepbc.solvers.quadratic_model import QuadraticModel, SolverState, dot, row_sum, unconstrained_model

# With few rows the line search evaluates a grid of lengths at once. Few is a quarter of all rows, within these limits:
# fewer cost next to nothing, and more cost what they save.
MIN_TRIALS, MAX_TRIALS = 1024, 2560
FINE_GRID = tuple(10 ** (k / 8) for k in range(4, -13, -1))
LENGTH_GRIDS = (FINE_GRID, FINE_GRID[::2], (2.0, 1.0, 0.3))
# The extrapolated curvature changes a step by at most this factor.
MAX_STEP_RATIO = 5.0
# A row that is out of steps, or of digits, has converged to this relative Newton decrement.
RELAXED_TOLERANCE = 1e-6
# A run is given up if so many times the decrease that its model predicts would not take it below the cutoff.
CUTOFF_SAFETY = 3.0
# Rows that stopped are removed when they are more than so many, and more than this part of all.
COMPACTION_ROWS, COMPACTION_SHARE = 64, 0.1
# Rows that take more steps are flagged for a restart by `Exact`.
QUICK_STEPS = 6
# The cost of a run that has not been evaluated at its start.
UNEVALUATED = 1e30
# The fields of an iterate that have one entry a run, beside its problem, point and memory.
COLUMNS = ("run", "cost", "gradient", "step", "decrement", "expansion", "length")


def minimize_gauss_newton(
    problem: Problem, start: Point, *, smoothing: float, steps: int, tolerance: float, starts: int = 0
) -> SolverState:
    """Minimises the cost of every row of an unconstrained problem.

    Args:
        problem: The problem.
        start: The first iterate, with its Jacobian.
        smoothing: The radius within which kinks of the cost are rounded.
        steps: The most steps.
        tolerance: The Newton decrement, relative to the cost (plus one), at which a row stops.
        starts: The grid points of a row that meets the restart criteria; the first iterate is then at rest.
    """
    iterate = _Iterate.initial(problem, start, smoothing)
    results = _Results([], iterate.run[:0], iterate.run[:0], torch.zeros_like(iterate.run, dtype=torch.bool))

    for step in range(steps):
        stopped = iterate.stopped(tolerance)
        count = int(stopped.sum())
        if count == len(stopped):
            break
        if step == QUICK_STEPS:
            results.flag(iterate.run[~stopped])
        # Removing a few rows costs more than another step of theirs.
        if count > max(COMPACTION_ROWS, COMPACTION_SHARE * len(stopped)) and step:
            iterate.finish(stopped.nonzero().squeeze(-1), results)
            iterate = iterate.select((~stopped).nonzero().squeeze(-1))
        before = iterate
        iterate, trial = iterate.advance()
        if not step and starts:
            iterate = iterate.add_starts(before, trial, starts, results)

    iterate.finish(slice(None), results)

    return results.finish(problem, tolerance)


@dataclass(slots=True)
class _Results:
    """The last iterates of runs: run, noises, cost, the last step that is not yet taken, and Newton decrement.

    The first runs are those of the rows from their first iterate, in order. Of the others, `row` is the row, and `rank`
    the number among those of the row. `needs_restart` says which rows met the restart criteria, or took many steps.
    """

    parts: list[tuple[Tensor, ...]]
    row: Tensor
    rank: Tensor
    needs_restart: Tensor

    def flag(self, run: Tensor) -> None:
        """Flags the rows of these runs for a restart."""
        rows = len(self.needs_restart)
        self.needs_restart[run[run < rows]] = True
        self.needs_restart[self.row[run[run >= rows] - rows]] = True

    def finish(self, problem: Problem, tolerance: float) -> SolverState:
        """Takes the last step of the run of the lowest cost of each row, the first of equals."""
        noises, cost, step, decrement = self._lowest(problem.rows)
        met = decrement <= max(tolerance, RELAXED_TOLERANCE)
        status = torch.where(met, int(SolverStatus.CONVERGED), int(SolverStatus.MAX_STEPS))
        status = torch.where(cost.isfinite() & row_sum(step).isfinite(), status, int(SolverStatus.NON_FINITE))
        # Those that were given up take no last step.
        last: Tensor | slice = slice(None)
        if problem.cutoff is not None:
            last = _promising(problem, cost, decrement).nonzero().squeeze(-1)
        part = problem.select(last)
        point = part.evaluate(noises[last, : problem.free] + step[last])
        after = part.cost.value(point.noises, part.rest)
        taken = (status[last] == SolverStatus.CONVERGED) & (after <= cost[last])
        noises[last] = _where(taken, point.noises, noises[last])
        cost[last] = torch.where(taken, after, cost[last])
        none = problem.rest[:, :0]

        return SolverState(
            noises=noises,
            fixed=~problem.movable,
            active_set=none.long(),
            multipliers=none,
            cost=cost,
            violation=torch.zeros_like(cost),
            status=status,
            needs_restart=self.needs_restart,
        )

    def _lowest(self, rows: int) -> tuple[Tensor, ...]:
        """The columns of the run of the lowest cost of each row."""
        run, *columns = (torch.cat(column) for column in zip(*self.parts, strict=True))
        noises, cost, step, decrement = (torch.empty_like(each).index_copy_(0, run, each) for each in columns)

        for rank in self.rank.unique():
            chosen = (self.rank == rank).nonzero().squeeze(-1)
            row, other = self.row[chosen], rows + chosen
            lower = cost[other] < cost[row]
            row, other = row[lower], other[lower]
            for column in (noises, cost, step, decrement):
                column[row] = column[other]

        return noises[:rows], cost[:rows], step[:rows], decrement[:rows]


@dataclass(frozen=True, slots=True)
class _Trial:
    """A trial step: the point, its cost, model and gradient, and where the Armijo condition holds (`lower`)."""

    move: Tensor
    point: Point
    cost: Tensor
    model: QuadraticModel
    gradient: Tensor
    lower: Tensor


@dataclass(frozen=True, slots=True)
class _Iterate:
    """The iterates of the active runs.

    Args:
        problem: The problem of each run's row.
        smoothing: The radius within which kinks of the cost are rounded.
        trials: The most trial points of a line search on a grid.
        point: The iterates.
        memory: The L-BFGS pairs.
        run: The number of each run.
        cost: The cost, with shape `(runs,)`.
        gradient: The gradient, with shape `(runs, free)`.
        step: The search direction, with that shape.
        decrement: The squared Newton decrement of the Gauss-Newton model, relative to the cost plus its unit; that of
            L-BFGS may also be small because a pair overestimates the curvature.
        expansion: The largest initial step length.
        length: The next step length of the line search.
    """

    problem: Problem
    smoothing: float
    trials: int
    point: Point
    memory: LBFGSMemory
    run: Tensor
    cost: Tensor
    gradient: Tensor
    step: Tensor
    decrement: Tensor
    expansion: Tensor
    length: Tensor

    @classmethod
    def initial(cls, problem: Problem, point: Point, smoothing: float) -> "_Iterate":
        cost = problem.cost.value(point.noises, problem.rest, smoothing)
        model, gradient = unconstrained_model(problem, point, smoothing)
        none, nowhere = torch.zeros_like(cost), torch.zeros_like(gradient)
        iterate = cls(
            problem=problem,
            smoothing=smoothing,
            trials=min(max(MIN_TRIALS, problem.rows // 4), MAX_TRIALS),
            point=point,
            memory=LBFGSMemory(),
            run=torch.arange(problem.rows, device=cost.device),
            cost=cost,
            gradient=gradient,
            step=nowhere,
            decrement=none,
            expansion=torch.ones_like(none),
            length=none,
        )

        return replace(iterate, **iterate._direction(model))

    def stopped(self, tolerance: float) -> Tensor:
        """Which runs stop, converged or not; NaN stops."""
        going = (self.decrement > tolerance) & (self.decrement < torch.inf) & (self.length >= MIN_STEP_LENGTH)
        if self.problem.cutoff is not None:
            going &= _promising(self.problem, self.cost, self.decrement)

        return ~going

    def finish(self, rows: Tensor | slice, results: _Results) -> None:
        """Records the last iterates of the given runs."""
        noises, cost = self.point.noises[rows], self.cost[rows]
        if self.smoothing:
            # Without smoothing.
            cost = self.problem.cost.value(noises, self.problem.rest[rows])
        results.parts.append((self.run[rows], noises, cost, self.step[rows], self.decrement[rows]))

    def advance(self) -> "tuple[_Iterate, _Trial]":
        """Makes one line search trial of each run; where it is rejected the step length contracts."""
        trial, length = self._line_search()
        accepted, every = trial.lower, bool(trial.lower.all())
        change = trial.gradient - self.gradient
        product = dot(trial.move, change)
        known = accepted & (self.cost < UNEVALUATED)

        curvature = _end_curvature(self.problem.free, self.point, trial)
        ahead = replace(
            self,
            point=trial.point if every else trial.point.where(accepted, self.point),
            memory=self.memory.update(trial.move, change, product, curvature, known),
            cost=trial.cost if every else torch.where(accepted, trial.cost, self.cost),
            gradient=trial.gradient,
            expansion=expand(self.expansion, accepted & (product < 0)),
        )
        fresh = ahead._direction(trial.model)
        if not every:
            old = replace(self, length=BACKTRACKING_FACTOR * length)
            fresh = {name: _where(accepted, each, getattr(old, name)) for name, each in fresh.items()}

        return replace(ahead, **fresh), trial

    def _line_search(self) -> tuple[_Trial, Tensor]:
        """Evaluates a trial step of each run; with few runs the best on a grid of step lengths.

        Returns:
            The trials and their step lengths.
        """
        problem, count, length, step = self.problem, len(self.run), self.length, self.step
        v, cost, slope = self.point.noises[:, : problem.free], self.cost, dot(self.gradient, step)
        lengths = next((lengths for lengths in LENGTH_GRIDS if len(lengths) * count <= self.trials), (1.0,))
        if len(lengths) > 1:
            rows = torch.arange(count, device=length.device).repeat_interleave(len(lengths))
            problem, v, cost, slope, step = problem.select(rows), v[rows], cost[rows], slope[rows], step[rows]
            length = length[rows] * length.new_tensor(lengths).repeat(count)

        move = length.unsqueeze(-1) * step
        there = problem.linearize(v + move)
        after = problem.cost.value(there.noises, problem.rest, self.smoothing)
        lower = sufficient_decrease(cost, after, length, slope)
        if len(lengths) > 1:
            lower = lower & there.jacobian.flatten(1).isfinite().all(-1)
            best = torch.where(lower, after, torch.inf).reshape(count, -1).argmin(-1)
            # Where none is accepted, contract from the shortest.
            best = torch.where(lower.reshape(count, -1).any(-1), best, len(lengths) - 1)
            best = best + len(lengths) * torch.arange(count, device=best.device)
            move, there, after, lower, length = move[best], there.select(best), after[best], lower[best], length[best]

        model, gradient = unconstrained_model(self.problem, there, self.smoothing)

        return _Trial(move, there, after, model, gradient, lower & (dot(gradient, gradient) < torch.inf)), length

    def _direction(self, model: QuadraticModel) -> dict[str, Any]:
        """Computes the search direction of each run, its Newton decrement and the initial step length."""
        newton = model.solve(self.gradient)
        step = -self.memory.solve(model, self.gradient, newton)

        return {
            "gradient": self.gradient,
            "step": step,
            "decrement": dot(self.gradient, newton) / (self.problem.cost.scale + self.cost),
            "length": initial_length(step, self.expansion),
        }

    def add_starts(self, before: "_Iterate", trial: _Trial, starts: int, results: _Results) -> "_Iterate":
        """Adds runs from further starts for rows that meet the restart criteria.

        Args:
            before: The iterates before the first step.
            trial: The trial of that step.
            starts: The number of grid points on the line.
            results: Records the restarted rows and the rows of the added runs.
        """
        results.needs_restart = before.needs_restart(trial)
        rows = results.needs_restart.nonzero().squeeze(-1)
        if not len(rows):
            return self

        problem, cost, step = self.problem.select(rows), before.cost[rows], before.step[rows]
        # The line ends where the free noises alone cost as much as the best known iterate.
        curvature = problem.cost.curvature(before.point.noises[rows], problem.rest, self.smoothing)[:, : problem.free]
        radius = 2 * torch.minimum(cost, trial.cost[rows]) / dot(step.square(), curvature)
        direction = radius.sqrt().nan_to_num(posinf=0.0).unsqueeze(-1) * step
        current = self.point.noises[rows, : problem.free], self.cost[rows]
        row, rank, start = select_line_starts(problem, direction, current, starts, self.smoothing)
        results.row, results.rank = rows[row], rank
        started = self.select(results.row)._moved_to(start)

        return self._join(replace(started, run=len(self.run) + torch.arange(len(row), device=row.device)))

    def needs_restart(self, trial: _Trial) -> Tensor:
        """Says which rows meet the restart criteria after the trial of their first step."""
        scale, cost = self.problem.cost.scale, trial.cost
        size, length = self.decrement * (scale + self.cost), dot(trial.move, self.step) / dot(self.step, self.step)
        gain_ratio = (self.cost - cost) / (length * (1 - length / 2) * size).clamp_min(1e-300)
        concave = dot(trial.move, trial.gradient - self.gradient) < 0
        poor = ~trial.lower | concave | ((gain_ratio - 1).abs() > RESTART.gain_ratio)
        first, last = (dot(point.jacobian, trial.move.unsqueeze(-2)) for point in (self.point, trial.point))
        curved = ((last - first).abs() > RESTART.jacobian_change * torch.maximum(first.abs(), last.abs())).any(-1)
        stalled = (cost > RESTART.stalled_cost * scale) & (cost > RESTART.stalled_share * self.cost)
        poor, curved = poor & (size > RESTART.min_decrement * scale), curved & (cost > RESTART.min_cost * scale)

        return poor | curved | stalled | (cost > RESTART.max_cost * scale)

    def _moved_to(self, start: Tensor) -> "_Iterate":
        """Lets the next trial be a start, accepted at any finite cost."""
        unknown = torch.full_like(self.cost, UNEVALUATED)

        return replace(
            self,
            step=start - self.point.noises[:, : self.problem.free],
            length=torch.ones_like(self.length),
            decrement=unknown,
            cost=unknown,
            memory=self.memory.reset(),
        )

    def select(self, rows: Tensor) -> "_Iterate":
        """Takes the given runs."""
        return replace(
            self,
            problem=self.problem.select(rows),
            point=self.point.select(rows),
            memory=self.memory.select(rows),
            **{name: getattr(self, name)[rows] for name in COLUMNS},
        )

    def _join(self, other: "_Iterate") -> "_Iterate":
        """Appends other runs."""
        columns: dict[str, Any] = {name: torch.cat([getattr(self, name), getattr(other, name)]) for name in COLUMNS}

        return replace(
            self,
            problem=self.problem.join(other.problem),
            point=self.point.join(other.point),
            memory=self.memory.join(other.memory),
            **columns,
        )


def _promising(problem: Problem, cost: Tensor, decrement: Tensor) -> Tensor:
    """Whether runs of a problem with a cutoff may still fall below it."""
    assert problem.cutoff is not None  # noqa: S101 # the caller asked
    # Half the squared Newton decrement is the decrease that the model predicts.
    predicted = decrement * (problem.cost.scale + cost) / 2

    return cost - CUTOFF_SAFETY * predicted < problem.cutoff


def _end_curvature(free: int, start: Point, trial: _Trial) -> Tensor:
    """Estimates the second derivative of the cost along a move, of length 1, at its end, with shape `(rows,)`.

    Implied noises along the move are their cubic Hermite interpolants. The estimate is scaled so that one step by it is
    as long as two Newton steps on the interpolant, unless those differ much from the first of the two.
    """
    model, move, now = trial.model, trial.move, trial.model.residual
    weight = model.inverse_curvature.reciprocal()
    slope = dot(trial.gradient, move)
    own = row_sum(torch.where(model.free_inverse > 0, move.square() / model.free_inverse, 0.0))
    first, last = (dot(point.jacobian, move.unsqueeze(-2)) for point in (start, trial.point))
    rise = trial.point.noises[:, free:] - start.noises[:, free:]
    # The second and third derivatives of the interpolant at the end.
    second = 2 * first.add(last, alpha=2).sub(rise, alpha=3)
    third = 2 * (second + first - last)
    curvature = own + row_sum(torch.addcmul(last.square(), now, second) * weight)

    # After the first Newton step: the implied noises, their derivatives, and the derivatives of the cost.
    newton = -slope / curvature
    ahead = newton.clamp(-1.0, 1.0)
    by = ahead.unsqueeze(-1)
    mean = torch.addcmul(last, by, torch.addcmul(second, by, third, value=1 / 3), value=0.5)
    residual = torch.addcmul(now, by, mean)
    tangent = torch.addcmul(last, by, torch.addcmul(second, by, third, value=0.5))
    gradient = torch.addcmul(slope, ahead, own) + row_sum(
        torch.addcmul(residual * tangent, now, last, value=-1) * weight
    )
    hessian = own + row_sum(torch.addcmul(tangent.square(), residual, torch.addcmul(second, by, third)) * weight)
    ratio = (ahead - gradient / hessian) / newton

    return torch.where((ratio > 1 / MAX_STEP_RATIO) & (ratio < MAX_STEP_RATIO), curvature / ratio, curvature)


def _where(rows: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(rows if new.ndim == 1 else rows.unsqueeze(-1), new, old)
