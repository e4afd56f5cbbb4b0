r"""Sequential quadratic programming with an l1 merit function, a second-order correction and an L-BFGS Hessian.

With :math:`g` the gradient of the cost, :math:`A` the Jacobian of the active constraints, :math:`c` their violation and
:math:`B` the inverse Hessian, a step and its multipliers are

.. math:: (A B A^\top) \mu = c - A B g, \qquad \delta = -B (g + A^\top \mu).

At first :math:`B` is that of the cost alone, as in `QuadraticModel`; then L-BFGS updates it by the changes of the
gradient of the Lagrangian, :math:`g + A^\top \mu`. A backtracking line search lowers the merit function: the cost plus
a penalty parameter times :math:`\lVert c \rVert_1`; a rejected step is first corrected (Maratos effect).
The penalty parameter follows the multipliers also down: one that stays large forces tiny steps along curved
constraints. One that decreases could in theory cycle, until a row is out of steps and says so.

References:
    Numerical Optimization (Nocedal and Wright, 2006), sections 15.6, 18.3 and 18.4.
    A fast algorithm for nonlinearly constrained optimization calculations (Powell, 1978): the penalty parameter.
"""

__all__ = ["minimize_sqp"]

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from deepbc.solvers.gauss_newton import COMPACTION_ROWS, COMPACTION_SHARE, RELAXED_TOLERANCE
from deepbc.solvers.lbfgs import LBFGSMemory
from deepbc.solvers.line_search import BACKTRACKING_FACTOR, MIN_STEP_LENGTH, expand, initial_length, sufficient_decrease
from deepbc.solvers.problem import Point, Problem, SolverStatus
from deepbc.solvers.quadratic_model import QuadraticModel, SolverState, constrained_model, dot, solve_scaled

# The l1 violation below which a row is feasible, and the largest entry below which a Jacobian is zero.
FEASIBILITY_TOLERANCE, ZERO_JACOBIAN = 1e-9, 1e-13
# The fields of an iterate that have one entry a row, beside its problem, point and memory.
COLUMNS = (
    *("row", "active_set", "cost", "violation", "gradient", "step", "squared_norm", "multipliers", "merit_slope"),
    *("penalty", "expansion", "length"),
)


def minimize_sqp(
    problem: Problem, start: Point, active_set: Tensor, *, smoothing: float, steps: int, tolerance: float
) -> SolverState:
    """Minimises the cost of every row with the active set as equality constraints.

    Args:
        problem: The problem.
        start: The first iterate, with its Jacobian.
        active_set: The active bound of each constraint (-1, 0, 1), with shape `(rows, constraints)`.
        smoothing: The radius within which kinks of the cost are rounded.
        steps: The most steps.
        tolerance: The root of the squared step norm, relative to the cost (plus one), at which a row stops.
    """
    iterate = _Iterate.initial(problem, start, active_set, smoothing)
    state = iterate.state(torch.full_like(iterate.row, SolverStatus.NON_FINITE))

    for _ in range(steps):
        stopped = iterate.stopped(tolerance)
        count = int(stopped.sum())
        if count == len(stopped):
            break
        if count > max(COMPACTION_ROWS, COMPACTION_SHARE * len(stopped)):
            iterate.finish(stopped.nonzero().squeeze(-1), state, tolerance)
            iterate = iterate.select((~stopped).nonzero().squeeze(-1))
        iterate.advance()

    iterate.finish(torch.arange(len(iterate.row), device=active_set.device), state, tolerance)

    return state


@dataclass(frozen=True, slots=True)
class _Trial:
    """A trial step: the point, its cost, model, gradient and violation, and where the merit decreases (`lower`)."""

    move: Tensor
    point: Point
    cost: Tensor
    model: QuadraticModel
    gradient: Tensor
    violation: Tensor
    lower: Tensor

    def put(self, rows: Tensor, other: "_Trial") -> None:
        """Replaces the given rows."""
        for mine, theirs in ((self.point, other.point), (self.model, other.model)):
            for each in fields(mine):
                getattr(mine, each.name)[rows] = getattr(theirs, each.name)
        for name in ("move", "cost", "gradient", "violation", "lower"):
            getattr(self, name)[rows] = getattr(other, name)


@dataclass(slots=True)
class _Iterate:
    """The iterates of the rows that have not stopped, with their multipliers and penalty parameters."""

    problem: Problem
    smoothing: float
    point: Point
    row: Tensor
    active_set: Tensor
    cost: Tensor
    violation: Tensor
    gradient: Tensor
    step: Tensor
    squared_norm: Tensor
    multipliers: Tensor
    merit_slope: Tensor
    penalty: Tensor
    expansion: Tensor
    length: Tensor
    memory: LBFGSMemory

    @classmethod
    def initial(cls, problem: Problem, point: Point, active_set: Tensor, smoothing: float) -> "_Iterate":
        none = torch.zeros_like(point.noises[:, 0]) if point.noises.shape[-1] else point.noises.new_zeros(problem.rows)
        nowhere = torch.zeros_like(point.noises[:, : problem.free])
        model, gradient, violation = constrained_model(problem, point, active_set, smoothing)
        iterate = cls(
            problem=problem,
            smoothing=smoothing,
            point=point,
            row=torch.arange(problem.rows, device=none.device),
            active_set=active_set,
            cost=problem.cost.value(point.noises, problem.rest, smoothing),
            violation=none,
            gradient=nowhere,
            step=nowhere,
            squared_norm=none,
            multipliers=torch.zeros_like(violation),
            merit_slope=none,
            penalty=none,
            expansion=torch.ones_like(none),
            length=none,
            memory=LBFGSMemory(),
        )
        iterate._direction(model, gradient, violation, torch.ones_like(iterate.row, dtype=torch.bool))

        return iterate

    def stopped(self, tolerance: float) -> Tensor:
        """Which rows stop, converged or not; NaN stops."""
        decrement = self.squared_norm / (self.problem.cost.scale + self.cost)
        # An infeasible row stops only at a stationary point of the violation.
        least = torch.where(self.violation <= FEASIBILITY_TOLERANCE, tolerance**2, tolerance**4)

        return ~((decrement > least) & (decrement < torch.inf) & (self.length >= MIN_STEP_LENGTH))

    def finish(self, rows: Tensor, state: SolverState, tolerance: float) -> None:
        """Records the last iterates of the given rows."""
        state.put(self.row[rows], self.state(self._status(tolerance)).take(rows))

    def state(self, status: Tensor) -> SolverState:
        """The solver state at the current iterates."""
        noises = self.point.noises

        return SolverState(
            noises=noises.clone(),
            fixed=~self.problem.movable,
            active_set=self.active_set.clone(),
            multipliers=self.multipliers[:, self.problem.implied :].clone(),
            # Without smoothing.
            cost=self.problem.cost.value(noises, self.problem.rest),
            violation=self.violation.clone(),
            status=status,
            needs_restart=torch.ones_like(status, dtype=torch.bool),
        )

    def _status(self, tolerance: float) -> Tensor:
        """The status of the current iterates."""
        finite = self.cost.isfinite() & self.step.isfinite().all(-1)
        decrement = self.squared_norm / (self.problem.cost.scale + self.cost)
        feasible = self.violation <= FEASIBILITY_TOLERANCE

        status = torch.where(
            feasible | ~self.stopped(tolerance), int(SolverStatus.MAX_STEPS), int(SolverStatus.INFEASIBLE)
        )
        optimal = feasible & (decrement <= max(tolerance, RELAXED_TOLERANCE))
        status = torch.where(optimal, int(SolverStatus.CONVERGED), status)
        flat = self.point.jacobian.abs().flatten(1).amax(-1) < ZERO_JACOBIAN if self.problem.free else ~finite
        status = torch.where(flat & ~feasible, int(SolverStatus.ZERO_GRADIENT), status)

        return torch.where(finite, status, int(SolverStatus.NON_FINITE))

    def advance(self) -> None:
        """Makes one line search trial of each row; where it is rejected the step length contracts."""
        trial = self._trial(self.length.unsqueeze(-1) * self.step)
        failed = (~trial.lower).nonzero().squeeze(-1)
        if len(failed):
            # Against the Maratos effect: a second-order correction before the step is contracted.
            part = self.select(failed)
            correction = trial.model.select(failed).second_order_correction(trial.violation[failed]).nan_to_num()
            trial.put(failed, part._trial(trial.move[failed] + correction))

        self._update_memory(trial)
        concave = dot(trial.move, trial.gradient - self.gradient) < 0
        self.expansion = expand(self.expansion, trial.lower & concave)
        self.length = BACKTRACKING_FACTOR * self.length
        self.point = trial.point.where(trial.lower, self.point)
        self.cost = torch.where(trial.lower, trial.cost, self.cost)
        self._direction(trial.model, trial.gradient, trial.violation, trial.lower)

    def _update_memory(self, trial: _Trial) -> None:
        """Adds the pair of a step, with the change of the gradient of the Lagrangian."""
        # Gradients on the two sides of a kink give no curvature.
        if self.problem.cost.rough:
            return

        turned = (trial.point.jacobian - self.point.jacobian) * (trial.model.inverse_curvature == 0).unsqueeze(-1)
        forces = self.problem.movable[:, : self.problem.free] * dot(turned.mT, self.multipliers.unsqueeze(-2))
        change = trial.gradient - self.gradient + forces
        product = dot(trial.move, change)
        self.memory = self.memory.update(trial.move, change, product, product, trial.lower)

    def _trial(self, move: Tensor) -> "_Trial":
        """Evaluates a trial step."""
        there = self.problem.linearize(self.point.noises[:, : self.problem.free] + move)
        cost = self.problem.cost.value(there.noises, self.problem.rest, self.smoothing)
        model, gradient, violation = constrained_model(self.problem, there, self.active_set, self.smoothing)
        before, after = self.cost + self.penalty * self.violation, cost + self.penalty * violation.abs().sum(-1)
        lower = sufficient_decrease(before, after, self.length, self.merit_slope) & (
            dot(gradient, gradient) < torch.inf
        )

        return _Trial(move, there, cost, model, gradient, violation, lower)

    def _direction(self, model: QuadraticModel, gradient: Tensor, violation: Tensor, rows: Tensor) -> None:
        """Computes direction, multipliers, penalty parameter and slope of the merit function of the rows of a mask."""
        step, multipliers = _lbfgs_step(model, gradient, violation, self.memory) if self.memory.pairs else model.step()
        largest = (multipliers * (model.inverse_curvature == 0)).abs().amax(-1)
        violation = violation.abs().sum(-1)
        # Twice Powell's weights.
        penalty = torch.maximum(2 * largest, self.penalty / 2 + largest)
        fresh = {
            "gradient": gradient,
            "step": step,
            "multipliers": multipliers,
            "violation": violation,
            "penalty": penalty,
            "merit_slope": dot(gradient, step) - penalty * violation,
            "squared_norm": model.squared_norm(step),
            "length": initial_length(step, self.expansion),
        }
        for name, new in fresh.items():
            mask = rows if new.ndim == 1 else rows.unsqueeze(-1)
            setattr(self, name, torch.where(mask, new, getattr(self, name)))

    def select(self, rows: Tensor) -> "_Iterate":
        """Takes the given rows."""
        return replace(
            self,
            problem=self.problem.select(rows),
            point=self.point.select(rows),
            memory=self.memory.select(rows),
            **{name: getattr(self, name)[rows] for name in COLUMNS},
        )


def _lbfgs_step(
    model: QuadraticModel, gradient: Tensor, violation: Tensor, memory: LBFGSMemory
) -> tuple[Tensor, Tensor]:
    """Computes the step `(rows, free)` and the multipliers `(rows, outputs)` with the L-BFGS inverse Hessian."""
    hard = model.inverse_curvature == 0
    soft = replace(
        model,
        jacobian=model.jacobian * ~hard.unsqueeze(-1),
        inverse_curvature=torch.where(hard, 1.0, model.inverse_curvature),
    )
    rows = model.jacobian * hard.unsqueeze(-1)
    pulled = torch.stack([memory.solve(soft, row) for row in rows.unbind(-2)], dim=-2)
    down = memory.solve(soft, gradient)
    system = rows @ pulled.mT + torch.diag_embed((~hard).to(rows.dtype))
    multipliers = solve_scaled(system, violation - dot(rows, down.unsqueeze(-2)))

    return -down - dot(pulled.mT, multipliers.unsqueeze(-2)), multipliers
