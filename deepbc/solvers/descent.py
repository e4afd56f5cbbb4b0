r"""The walk down: Gauss-Newton steps with a line search, every row for itself, in one batch.

A step is that of `steps.Model`. Where nothing but the cost counts it is bent by the secants of the last few steps, a
limited-memory quasi-Newton method around Gauss-Newton, because residuals are not small. It is shortened until the
merit falls: the cost plus a multiple of what is missed. Rows that are done leave the batch.

References:
    Numerical Optimization (Nocedal and Wright, 2006), sections 7.2, 10.3 and 18.3.
"""

__all__ = ["Found", "descend", "quadratic", "settled"]

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from deepbc.solvers.problem import Point, Problem, Trouble
from deepbc.solvers.steps import Model, dot

MEMORY = 4
LONGEST_STEP = 5.0
SHORTEST = 1e-9
SHRINK = 0.3
LARGEST_MISS = 1e-9
ENOUGH = 1e-4
# What a row may still gain when its line search ends at the precision of numbers.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Found:
    """What a walk found, one a row.

    Args:
        noises: The free and implied noises, with shape `(rows, noises)`.
        still: Which of them were held at rest.
        ends: Which end of each constraint was held: -1 the lower, 1 the upper, 0 none.
        multipliers: The force on each constraint, with shape `(rows, constraints)`.
        cost: The cost, with shape `(rows,)`.
        missed: How far the constraints are missed in all, with shape `(rows,)`.
        trouble: How the row ended.
    """

    noises: Tensor
    still: Tensor
    ends: Tensor
    multipliers: Tensor
    cost: Tensor
    missed: Tensor
    trouble: Tensor

    def take(self, rows: Tensor | slice) -> "Found":
        """Takes the given rows."""
        return Found(*(getattr(self, each.name)[rows] for each in fields(self)))

    def put(self, rows: Tensor, other: "Found") -> "Found":
        """Puts other rows in the place of the given ones."""
        parts = {}
        for each in fields(self):
            parts[each.name] = getattr(self, each.name).clone()
            parts[each.name][rows] = getattr(other, each.name)

        return Found(**parts)

    def improve(self, rows: Tensor, other: "Found") -> "Found":
        """Puts other rows in the place of the given ones where they are better."""
        better = other.rank() < self.take(rows).rank()

        return self.put(rows[better], other.take(better))

    def rank(self) -> Tensor:
        """A number that is lower for a better row: first what holds, then what costs less."""
        met = self.missed <= ROUNDING
        rank = torch.where(met, self.cost, 1e6 * (1 + self.missed) + self.cost)

        return rank.nan_to_num(nan=torch.inf)


def descend(problem: Problem, v: Tensor, ends: Tensor, *, smooth: float, steps: int, tolerance: float) -> Found:
    """Walks down from coordinates `v` until every row is done or out of steps.

    Args:
        problem: The problem.
        v: The free coordinates to start from, with shape `(rows, free)`.
        ends: Which end of each constraint to hold, with shape `(rows, constraints)`.
        smooth: How much the kinks of the cost are rounded off.
        steps: The most steps.
        tolerance: The part of the cost (plus one) that a further step must save.
    """
    walk = _Walk.begin(problem, v, ends, smooth)
    found = walk.found(torch.full((problem.rows,), Trouble.SLOW, device=v.device))
    rows = torch.arange(problem.rows, device=v.device)

    for _ in range(steps):
        done, trouble = walk.judge(tolerance)
        if done.any():
            found = found.put(rows[done], walk.select(done).found(trouble[done]))
            rows, walk = rows[~done], walk.select(~done)
        if not len(rows):
            return found
        walk.advance()

    return found.put(rows, walk.found(torch.full_like(rows, Trouble.SLOW)))


def settled(problem: Problem) -> bool:
    """Whether nothing but the cost counts: no constraint, and every implied noise may move."""
    return not problem.lower.shape[-1] and bool(problem.movable[:, problem.free :].all())


def quadratic(problem: Problem, point: Point, ends: Tensor, smooth: float) -> tuple[Model, Tensor, Tensor]:
    """Models a problem at a point.

    Returns:
        The model, the gradient of the cost by the free coordinates `(rows, free)`, and what is missed by each implied
        noise or constraint that must hold `(rows, outputs)`.
    """
    free = problem.free
    slope = problem.cost.slope(point.noises, problem.rest, smooth)
    curvature = problem.cost.curvature(point.noises, problem.rest, smooth)
    movable = problem.movable.to(slope.dtype)
    moves, stays = movable[:, free:], 1 - movable[:, free:]

    held = (ends != 0).to(slope.dtype)
    missed = held * (point.values - torch.where(ends > 0, problem.upper, problem.lower))
    missed = torch.where(ends == 0, 0.0, missed)
    strayed = stays * (point.noises - problem.rest)[:, free:]
    soft = torch.cat([moves, torch.zeros_like(held)], dim=-1)
    loose = torch.cat([torch.zeros_like(moves), 1 - held], dim=-1)
    inverse = 1 / curvature

    jacobian = point.jacobian * (1 - loose).unsqueeze(-1)
    pull = torch.cat([slope[:, free:] * moves, torch.zeros_like(missed)], dim=-1)
    model = Model(
        slopes=slope[:, :free],
        inverse=movable[:, :free] * inverse[:, :free],
        jacobian=jacobian,
        residual=torch.cat([moves * slope[:, free:] * inverse[:, free:] + strayed, missed], dim=-1),
        compliance=soft * torch.cat([inverse[:, free:], torch.ones_like(missed)], dim=-1) + loose,
    )
    gradient = movable[:, :free] * (slope[:, :free] + (jacobian * pull.unsqueeze(-1)).sum(-2))

    return model, gradient, torch.cat([strayed, missed], dim=-1)


@dataclass(slots=True)
class _Walk:
    """The rows that are under way: where each stands, where it goes next and how far."""

    problem: Problem
    ends: Tensor
    smooth: float
    point: Point
    cost: Tensor
    missed: Tensor
    gradient: Tensor
    step: Tensor
    size: Tensor
    multipliers: Tensor
    fall: Tensor
    penalty: Tensor
    length: Tensor
    secants: list[tuple[Tensor, Tensor, Tensor]]

    @classmethod
    def begin(cls, problem: Problem, v: Tensor, ends: Tensor, smooth: float) -> "_Walk":
        point = problem.linearize(v)
        none = torch.zeros_like(point.noises[:, 0])
        walk = cls(
            problem=problem,
            ends=ends,
            smooth=smooth,
            point=point,
            cost=problem.cost.value(point.noises, problem.rest, smooth),
            missed=none,
            gradient=torch.zeros_like(v),
            step=torch.zeros_like(v),
            size=none,
            multipliers=none,
            fall=none,
            penalty=none,
            length=none,
            secants=[],
        )
        walk._aim(*quadratic(problem, point, ends, smooth))

        return walk

    def judge(self, tolerance: float) -> tuple[Tensor, Tensor]:
        """Which rows are done, and how they ended."""
        finite = self.cost.isfinite() & self.step.isfinite().all(-1)
        met = self.missed <= LARGEST_MISS
        small = self.size <= tolerance * (1 + self.cost)
        short = self.length < SHORTEST
        good = met & (small | (short & (self.size <= ROUNDING * (1 + self.cost))))
        # A tiny step that meets nothing stands where what is missed cannot fall any further.
        done = ~finite | good | short | (small & ~met & (self.size <= tolerance * tolerance))

        trouble = torch.full(done.shape, Trouble.STUCK, device=done.device)
        trouble[short & met] = Trouble.SLOW
        trouble[good] = Trouble.NONE
        trouble[~finite] = Trouble.NO_NUMBER

        return done, trouble

    def advance(self) -> None:
        """Tries the step of each row; one that does not lower the merit is tried again at a part of its length."""
        free = self.problem.free
        v = self.point.noises[:, :free]
        there = self.problem.linearize(v + self.length.unsqueeze(-1) * self.step)
        cost = self.problem.cost.value(there.noises, self.problem.rest, self.smooth)
        model, gradient, missed = quadratic(self.problem, there, self.ends, self.smooth)
        misses = missed.abs().sum(-1)

        before = self.cost + self.penalty * self.missed
        after = cost + self.penalty * misses
        lower = after <= before + ENOUGH * self.length * self.fall + 1e-15 * (1 + before.abs())
        accepted = lower & there.jacobian.isfinite().flatten(1).all(-1)

        if accepted.all():
            self._remember(there.noises[:, :free] - v, gradient - self.gradient)
            self.point, self.cost = there, cost
            self._aim(model, gradient, missed)
            return

        aside = (self.step, self.length, self.size, self.multipliers, self.fall, self.missed, self.gradient)
        chosen = accepted.unsqueeze(-1)
        self._remember(
            torch.where(chosen, there.noises[:, :free] - v, 0.0), torch.where(chosen, gradient - self.gradient, 0.0)
        )
        self.point = there.where(accepted, self.point)
        self.cost = torch.where(accepted, cost, self.cost)
        self._aim(model, gradient, missed)
        step, length, size, multipliers, fall, missed, gradient = aside
        self.step = torch.where(chosen, self.step, step)
        self.length = torch.where(accepted, self.length, SHRINK * length)
        self.size = torch.where(accepted, self.size, size)
        self.multipliers = torch.where(chosen, self.multipliers, multipliers)
        self.fall = torch.where(accepted, self.fall, fall)
        self.missed = torch.where(accepted, self.missed, missed)
        self.gradient = torch.where(chosen, self.gradient, gradient)

    def select(self, rows: Tensor) -> "_Walk":
        """Takes the rows of a mask."""
        return replace(
            self,
            problem=self.problem.select(rows),
            point=self.point.select(rows),
            secants=[(step[rows], bend[rows], inverse[rows]) for step, bend, inverse in self.secants],
            **{
                name: getattr(self, name)[rows]
                for name in (
                    "ends",
                    "cost",
                    "missed",
                    "gradient",
                    "step",
                    "size",
                    "multipliers",
                    "fall",
                    "penalty",
                    "length",
                )
            },
        )

    def found(self, trouble: Tensor) -> Found:
        """What is found if the rows stop here."""
        return Found(
            noises=self.point.noises,
            still=~self.problem.movable,
            ends=self.ends,
            multipliers=self.multipliers[:, self.problem.implied :],
            cost=self.problem.cost.value(self.point.noises, self.problem.rest),
            missed=self.missed,
            trouble=trouble,
        )

    def _aim(self, model: Model, gradient: Tensor, missed: Tensor) -> None:
        """Computes the next step, and how much the merit should fall along it."""
        self.gradient, self.missed = gradient, missed.abs().sum(-1)
        self.step, self.multipliers = model.step()
        if self.secants:
            self.step = -self._bent(model, gradient)

        forced = (self.multipliers * (model.compliance == 0)).abs().amax(-1) if missed.shape[-1] else self.missed
        self.penalty = torch.maximum(self.penalty, 2 * forced)
        self.size = model.size(self.step)
        self.fall = dot(gradient, self.step) - self.penalty * self.missed
        self.length = (LONGEST_STEP / dot(self.step, self.step).sqrt().clamp_min(1e-300)).clamp(max=1.0)

    def _remember(self, step: Tensor, bend: Tensor) -> None:
        """Keeps a secant, where only the cost counts."""
        if not settled(self.problem) or self.smooth:
            return

        along = dot(step, bend)
        use = along > 1e-10 * (dot(step, step) * dot(bend, bend)).sqrt()
        self.secants = [*self.secants[1 - MEMORY :], (step, bend, torch.where(use, 1 / along, 0.0))]

    def _bent(self, model: Model, gradient: Tensor) -> Tensor:
        """Applies the inverse curvature, bent by the secants, to the gradient."""
        rest, shares = gradient, []
        for step, bend, inverse in reversed(self.secants):
            shares.append(inverse * dot(step, rest))
            rest = rest - shares[-1].unsqueeze(-1) * bend

        moved = model.undo(rest)
        for (step, bend, inverse), share in zip(self.secants, reversed(shares), strict=True):
            moved = moved + (share - inverse * dot(bend, moved)).unsqueeze(-1) * step

        return moved
