r"""The walk down under constraints: steps of sequential quadratic programming, every row for itself, in one batch.

With :math:`g` the gradient of the cost, :math:`A` the Jacobian of what must hold, :math:`c` what it misses and
:math:`B` the inverse curvature, a step and its multipliers are

.. math:: (A B A^\top) \mu = c - A B g, \qquad \delta = -B (g + A^\top \mu).

At first :math:`B` is that of the cost alone, as in `steps.Model`; then it is bent by the secants of the last few steps,
over each of which :math:`g + A^\top \mu` changed, so that it knows how what must hold is curved. A step is shortened
until the merit falls: the cost plus a multiple of what is missed. The multiple follows the multipliers also down again:
one that stays high keeps a row so near to a curved constraint that its steps get tiny. One that falls could in theory
let a row go round in circles, until it is out of steps and says so.

References:
    Numerical Optimization (Nocedal and Wright, 2006), sections 18.3 and 18.4.
    A fast algorithm for nonlinearly constrained optimization calculations (Powell, 1978): the multiple.
"""

__all__ = ["descend_within"]

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from deepbc.solvers.found import Found
from deepbc.solvers.gauss_newton import (
    ENOUGH,
    FEW,
    FEW_OF_MANY,
    LONGEST_STEP,
    LONGEST_STRIDE,
    NEARLY,
    SHORTEST,
    SHRINK,
    STRETCH,
)
from deepbc.solvers.lbfgs import Secants
from deepbc.solvers.problem import Point, Problem, SolverStatus
from deepbc.solvers.quadratic_model import Model, dot, held_of, solve_scaled

# A constraint is met within this; no Jacobian below that leads anywhere.
LARGEST_MISS, FLAT = 1e-9, 1e-13
# What a walk has for each row, beside its problem, its point and its secants.
COLUMNS = (
    *("row", "ends", "cost", "missed", "gradient", "step", "size", "multipliers", "fall", "penalty"),
    *("stride", "length"),
)


def descend_within(
    problem: Problem, start: Point, ends: Tensor, *, smooth: float, steps: int, tolerance: float
) -> Found:
    """Walks down until every row is done or out of steps.

    Args:
        problem: The problem.
        start: The point to start from, with its derivatives.
        ends: Which end of each constraint to hold, with shape `(rows, constraints)`.
        smooth: How much the kinks of the cost are rounded off.
        steps: The most steps.
        tolerance: The part of the cost (plus one) whose square a step must save for another one to follow.
    """
    walk = _Walk.begin(problem, start, ends, smooth)
    found = walk.found(torch.full_like(walk.row, SolverStatus.NON_FINITE))

    for _ in range(steps):
        done = walk.done(tolerance)
        count = int(done.sum())
        if count == len(done):
            break
        if count > max(FEW, FEW_OF_MANY * len(done)):
            walk.stop(done.nonzero().squeeze(-1), found, tolerance)
            walk = walk.select((~done).nonzero().squeeze(-1))
        walk.advance()

    walk.stop(torch.arange(len(walk.row), device=ends.device), found, tolerance)

    return found


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a move: the point, its cost, the model there with its gradient and what is missed, one a row.

    `lower` says which moves lower the merit.
    """

    move: Tensor
    point: Point
    cost: Tensor
    model: Model
    gradient: Tensor
    missed: Tensor
    lower: Tensor

    def put(self, rows: Tensor, other: "_End") -> None:
        """Puts other ends in the place of the given ones."""
        for mine, theirs in ((self.point, other.point), (self.model, other.model)):
            for each in fields(mine):
                getattr(mine, each.name)[rows] = getattr(theirs, each.name)
        for name in ("move", "cost", "gradient", "missed", "lower"):
            getattr(self, name)[rows] = getattr(other, name)


@dataclass(slots=True)
class _Walk:
    """The rows that are under way: where each stands, where it goes next and how far."""

    problem: Problem
    smooth: float
    point: Point
    row: Tensor
    ends: Tensor
    cost: Tensor
    missed: Tensor
    gradient: Tensor
    step: Tensor
    size: Tensor
    multipliers: Tensor
    fall: Tensor
    penalty: Tensor
    stride: Tensor
    length: Tensor
    secants: Secants

    @classmethod
    def begin(cls, problem: Problem, point: Point, ends: Tensor, smooth: float) -> "_Walk":
        none = torch.zeros_like(point.noises[:, 0]) if point.noises.shape[-1] else point.noises.new_zeros(problem.rows)
        nowhere = torch.zeros_like(point.noises[:, : problem.free])
        model, gradient, missed = held_of(problem, point, ends, smooth)
        walk = cls(
            problem=problem,
            smooth=smooth,
            point=point,
            row=torch.arange(problem.rows, device=none.device),
            ends=ends,
            cost=problem.cost.value(point.noises, problem.rest, smooth),
            missed=none,
            gradient=nowhere,
            step=nowhere,
            size=none,
            multipliers=torch.zeros_like(missed),
            fall=none,
            penalty=none,
            stride=torch.ones_like(none),
            length=none,
            secants=Secants(),
        )
        walk._aim(model, gradient, missed, torch.ones_like(walk.row, dtype=torch.bool))

        return walk

    def done(self, tolerance: float) -> Tensor:
        """Which rows are done, with whatever success."""
        gain = self.size / (self.problem.cost.scale + self.cost)
        # There is no last step. A tiny one that meets nothing stands where what is missed cannot fall any further.
        least = torch.where(self.missed <= LARGEST_MISS, tolerance**2, tolerance**4)

        # So that what is no number is done.
        return ~((gain > least) & (gain < torch.inf) & (self.length >= SHORTEST))

    def stop(self, rows: Tensor, found: Found, tolerance: float) -> None:
        """Notes where the given rows end."""
        found.put(self.row[rows], self.found(self._trouble(tolerance)).take(rows))

    def found(self, status: Tensor) -> Found:
        """What is found if all rows stop here."""
        noises = self.point.noises

        return Found(
            noises=noises.clone(),
            still=~self.problem.movable,
            ends=self.ends.clone(),
            multipliers=self.multipliers[:, self.problem.implied :].clone(),
            # Not that of the walk, which may be rounded off.
            cost=self.problem.cost.value(noises, self.problem.rest),
            missed=self.missed.clone(),
            status=status,
            # None of them looked around.
            doubtful=torch.ones_like(status, dtype=torch.bool),
        )

    def _trouble(self, tolerance: float) -> Tensor:
        """How rows ended, if they do so here."""
        finite = self.cost.isfinite() & self.step.isfinite().all(-1)
        gain = self.size / (self.problem.cost.scale + self.cost)
        met = self.missed <= LARGEST_MISS

        status = torch.where(met | ~self.done(tolerance), int(SolverStatus.MAX_STEPS), int(SolverStatus.INFEASIBLE))
        # Out of steps or of digits, but there is nothing left to be gained.
        status = torch.where(met & (gain <= max(tolerance, NEARLY)), int(SolverStatus.CONVERGED), status)
        flat = self.point.jacobian.abs().flatten(1).amax(-1) < FLAT if self.problem.free else ~finite
        status = torch.where(flat & ~met, int(SolverStatus.ZERO_GRADIENT), status)

        return torch.where(finite, status, int(SolverStatus.NON_FINITE))

    def advance(self) -> None:
        """Tries the step of each row; one that does not lower the merit is tried again at a part of its length."""
        end = self._try(self.length.unsqueeze(-1) * self.step)
        failed = (~end.lower).nonzero().squeeze(-1)
        if len(failed):
            # A step along a curved constraint leaves it; it is bent back before it is shortened.
            part = self.select(failed)
            back = end.model.select(failed).restore(end.missed[failed]).nan_to_num()
            end.put(failed, part._try(end.move[failed] + back))

        self._bend(end)
        # Where the slope steepens along a step, the next one may well be longer.
        steeper = dot(end.move, end.gradient - self.gradient) < 0
        longer = (STRETCH * self.stride).clamp(max=LONGEST_STRIDE)
        self.stride = torch.where(end.lower & steeper, longer, 1.0)
        self.length = SHRINK * self.length
        self.point, self.cost = end.point.where(end.lower, self.point), torch.where(end.lower, end.cost, self.cost)
        self._aim(end.model, end.gradient, end.missed, end.lower)

    def _bend(self, end: _End) -> None:
        """Adds the secant of a step: how much the slopes of the cost changed, and the forces of what must hold."""
        # At a kink no slope tells of the next.
        if self.problem.cost.rough:
            return

        turned = (end.point.jacobian - self.point.jacobian) * (end.model.compliance == 0).unsqueeze(-1)
        forces = self.problem.movable[:, : self.problem.free] * dot(turned.mT, self.multipliers.unsqueeze(-2))
        change = end.gradient - self.gradient + forces
        along = dot(end.move, change)
        self.secants = self.secants.after(end.move, change, along, along, end.lower)

    def _try(self, move: Tensor) -> "_End":
        """Looks at the end of a move."""
        there = self.problem.linearize(self.point.noises[:, : self.problem.free] + move)
        cost = self.problem.cost.value(there.noises, self.problem.rest, self.smooth)
        model, gradient, missed = held_of(self.problem, there, self.ends, self.smooth)
        before, after = self.cost + self.penalty * self.missed, cost + self.penalty * missed.abs().sum(-1)
        # Both are at least 0.
        most = before + ENOUGH * self.length * self.fall + 1e-15 * (1 + before)

        return _End(move, there, cost, model, gradient, missed, (after <= most) & (dot(gradient, gradient) < torch.inf))

    def _aim(self, model: Model, gradient: Tensor, missed: Tensor, rows: Tensor) -> None:
        """Computes the next step of the rows of a mask, and how much the merit should fall along it."""
        step, multipliers = _bent_step(model, gradient, missed, self.secants) if self.secants.kept else model.step()
        forced = (multipliers * (model.compliance == 0)).abs().amax(-1)
        missed = missed.abs().sum(-1)
        penalty = torch.maximum(2 * forced, self.penalty / 2 + forced)
        norm = dot(step, step).sqrt()
        fresh = {
            "gradient": gradient,
            "step": step,
            "multipliers": multipliers,
            "missed": missed,
            "penalty": penalty,
            "fall": dot(gradient, step) - penalty * missed,
            "size": model.size(step),
            "length": (LONGEST_STEP / norm.clamp_min(1e-300)).minimum(self.stride),
        }
        for name, new in fresh.items():
            mask = rows if new.ndim == 1 else rows.unsqueeze(-1)
            setattr(self, name, torch.where(mask, new, getattr(self, name)))

    def select(self, rows: Tensor) -> "_Walk":
        """Takes the given rows."""
        return replace(
            self,
            problem=self.problem.select(rows),
            point=self.point.select(rows),
            secants=self.secants.select(rows),
            **{name: getattr(self, name)[rows] for name in COLUMNS},
        )


def _bent_step(model: Model, gradient: Tensor, missed: Tensor, secants: Secants) -> tuple[Tensor, Tensor]:
    """Computes the step `(rows, free)` and the multipliers `(rows, outputs)` with a bent inverse curvature."""
    hard = model.compliance == 0
    soft = replace(
        model,
        jacobian=model.jacobian * ~hard.unsqueeze(-1),
        compliance=torch.where(hard, 1.0, model.compliance),
    )
    rows = model.jacobian * hard.unsqueeze(-1)
    pulled = torch.stack([secants.undo(soft, row) for row in rows.unbind(-2)], dim=-2)
    down = secants.undo(soft, gradient)
    system = rows @ pulled.mT + torch.diag_embed((~hard).to(rows.dtype))
    multipliers = solve_scaled(system, missed - dot(rows, down.unsqueeze(-2)))

    return -down - dot(pulled.mT, multipliers.unsqueeze(-2)), multipliers
