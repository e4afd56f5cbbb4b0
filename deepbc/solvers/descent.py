r"""The walk down: Gauss-Newton steps with a line search, every row for itself, in one batch.

A step is that of `steps.Model`; where nothing but the cost counts it is bent by the secants of the last few steps. It
is shortened until the merit falls: the cost plus a multiple of what is missed. Rows that are done leave the batch. A
row whose first step is not as good as it seemed looks around, and walks down other valleys as well.

References:
    Numerical Optimization (Nocedal and Wright, 2006), sections 10.3 and 18.3.
"""

__all__ = ["Found", "descend"]

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from deepbc.solvers.problem import Point, Problem, Trouble
from deepbc.solvers.secants import Secants
from deepbc.solvers.steps import Model, dot, quadratic, settled, total
from deepbc.solvers.valleys import find_valleys

# How long a step may be.
LONGEST_STEP = 5.0
# The line search: the part of the promised fall that counts as one, the factor of a shorter try, and the shortest.
ENOUGH, SHRINK, SHORTEST = 1e-4, 0.3, 1e-9
# Where that makes few tries, a step is tried at all of these parts of its length. Few is a quarter of all rows, within
# these limits: fewer cost next to nothing, and more cost what they save.
FEW_TRIES, MOST_TRIES = 1024, 2560
FINE = tuple(10 ** (k / 8) for k in range(4, -13, -1))
PARTS = (FINE, FINE[::2], (2.0, 1.0, 0.3))
# Where slopes steepen, steps lengthen by this factor, up to that one.
STRETCH, LONGEST_STRIDE = 3.0, 9.0
# A constraint is met within this; a row whose line search ends at the precision of numbers may still gain this much.
LARGEST_MISS, ROUNDING = 1e-9, 1e-9
# A row that is out of steps is done if it may gain no more than this; no Jacobian below that leads anywhere.
NEARLY, FLAT = 1e-6, 1e-13
# Rows that are done leave when they are more than so many, and more than this part of all.
FEW, FEW_OF_MANY = 64, 0.1
# A row looks around if its first step, unless it is small, saves this much less or more than its part of what the model
# says, or turns a slope by this part and leaves a little to save; if it stays this dear; or if it is rather dear and
# has saved no more than a part.
LARGEST_SURPRISE, SMALL, TURN, LITTLE, DEAR, RATHER_DEAR, SAVED = 0.3, 1e-3, 0.5, 0.1, 12.0, 1.0, 0.5
ANYTHING = 1e30
# What a walk has for each row, beside its problem, its point and its secants.
COLUMNS = (
    *("row", "second", "ends", "cost", "missed", "gradient", "step", "size", "multipliers", "fall", "penalty"),
    *("stride", "length"),
)


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

    def put(self, rows: Tensor, other: "Found", names: Sequence[str] = ()) -> None:
        """Puts other rows in the place of the given ones; all that is known of them, or what is named."""
        for name in names or [each.name for each in fields(self)]:
            getattr(self, name)[rows] = getattr(other, name)

    def improve(self, rows: Tensor, other: "Found") -> None:
        """Puts other rows in the place of the given ones where they are clearly better."""
        rank = self.take(rows).rank()
        better = other.rank() < rank - ROUNDING * (1 + rank).nan_to_num(posinf=0.0)
        self.put(rows[better], other.take(better))

    def rank(self) -> Tensor:
        """A number that is lower for a better row: first what holds, then what costs less."""
        met = self.missed <= ROUNDING
        rank = torch.where(met, self.cost, 1e6 * (1 + self.missed) + self.cost)

        return rank.nan_to_num(nan=torch.inf)


def descend(
    problem: Problem, start: Point, ends: Tensor, *, smooth: float, steps: int, tolerance: float, places: int = 0
) -> Found:
    """Walks down until every row is done or out of steps.

    Args:
        problem: The problem.
        start: The point to start from, with its derivatives.
        ends: Which end of each constraint to hold, with shape `(rows, constraints)`.
        smooth: How much the kinks of the cost are rounded off.
        steps: The most steps.
        tolerance: The part of the cost (plus one) that a step must save for another one to follow.
        places: How many places a row looks at whose first step is not as good as it seemed; the start is then at rest.
    """
    walk = _Walk.begin(problem, start, ends, smooth)
    # What no walker improves has no number anywhere.
    found = walk.found(walk.row, torch.full((problem.rows,), Trouble.NO_NUMBER, device=ends.device))
    found.cost.fill_(torch.inf)
    last = torch.zeros_like(found.noises[:, : problem.free])
    best = torch.full_like(found.cost, torch.inf)

    for step in range(steps):
        done = walk.done(tolerance)
        count = int(done.sum())
        if count == len(done):
            break
        # A few rows that are done do no harm: taking them out costs more than another step of theirs.
        if count > max(FEW, FEW_OF_MANY * len(done)) and step:
            rows = done.nonzero().squeeze(-1)
            _stop(found, best, last, walk, rows, tolerance)
            walk = walk.select((~done).nonzero().squeeze(-1))
        walk.advance()
        if not step and places and walk.plain:
            walk.look_around(places)

    _stop(found, best, last, walk, torch.arange(len(walk.row), device=ends.device), tolerance)

    return _finish(problem, found, last) if walk.plain else found


def _stop(found: Found, best: Tensor, last: Tensor, walk: "_Walk", rows: Tensor, tolerance: float) -> None:
    """Keeps what ranks better than the best so far, the walkers of a row one after the other."""
    ended = walk.found(rows, walk.trouble(tolerance)[rows])
    steps, row, second = walk.step[rows], walk.row[rows], walk.second[rows]
    rank = ended.rank()
    # Where nothing but the cost counts, all else is as it was at the start.
    names = ("noises", "cost", "trouble") if walk.plain else ()
    for which in range(int(second.max()) + 1 if len(rows) else 0):
        better = ((second == which) & (rank < best[row])).nonzero().squeeze(-1)
        if len(better):
            found.put(row[better], ended.take(better), names)
            best[row[better]], last[row[better]] = rank[better], steps[better]


def _finish(problem: Problem, found: Found, last: Tensor) -> Found:
    """Takes the last step of each row, which is too small to be worth another look at the slopes."""
    point = problem.look(found.noises[:, : problem.free] + last)
    cost = problem.cost.value(point.noises, problem.rest)
    better = (found.trouble == Trouble.NONE) & (cost <= found.cost)

    return replace(
        found,
        noises=torch.where(better.unsqueeze(-1), point.noises, found.noises),
        cost=torch.where(better, cost, found.cost),
    )


def _bend(problem: Problem, start: Point, end: Point, move: Tensor, smooth: float) -> Tensor:
    """The second derivative of the cost along a move at its end, where a move is 1 long, with shape `(rows,)`.

    The implied noises along the move are taken as the cubics that have the right values and derivatives at both ends.
    """
    free = problem.free
    first, last = (dot(point.jacobian, move.unsqueeze(-2)) for point in (start, end))
    turn = 2 * first + 4 * last - 6 * (end.noises - start.noises)[:, free:]
    slope = problem.cost.slope(end.noises, problem.rest, smooth)[:, free:]
    curvature = problem.cost.curvature(end.noises, problem.rest, smooth)
    implied = curvature[:, free:] * last.square() + slope * turn

    return dot(curvature[:, :free], move.square()) + total(implied)


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

    def select(self, rows: Tensor) -> "_End":
        """Takes the given rows."""
        return _End(
            self.move[rows],
            self.point.select(rows),
            self.cost[rows],
            self.model.select(rows),
            self.gradient[rows],
            self.missed[rows],
            self.lower[rows],
        )


@dataclass(slots=True)
class _Walk:
    """The rows that are under way: where each stands, where it goes next and how far."""

    problem: Problem
    smooth: float
    plain: bool
    tries: int
    row: Tensor
    second: Tensor
    ends: Tensor
    point: Point
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
    doubt: Tensor
    far: Tensor
    secants: Secants

    @classmethod
    def begin(cls, problem: Problem, point: Point, ends: Tensor, smooth: float) -> "_Walk":
        none = torch.zeros_like(point.noises[:, 0])
        nowhere = torch.zeros_like(point.noises[:, : problem.free])
        no = torch.zeros_like(none, dtype=torch.bool)
        cost = problem.cost.value(point.noises, problem.rest, smooth)
        plain = settled(problem)
        walk = cls(
            problem=problem,
            smooth=smooth,
            plain=plain,
            tries=min(max(FEW_TRIES, problem.rows // 4), MOST_TRIES),
            row=torch.arange(problem.rows, device=none.device),
            second=torch.zeros_like(none, dtype=torch.long),
            ends=ends,
            point=point,
            cost=cost,
            missed=none,
            gradient=nowhere,
            step=nowhere,
            size=none,
            multipliers=torch.zeros_like(point.jacobian[..., 0] if problem.free else point.jacobian.sum(-1)),
            fall=none,
            penalty=none,
            stride=torch.ones_like(none),
            length=none,
            doubt=no,
            far=nowhere,
            secants=Secants(),
        )
        model, gradient, missed = quadratic(problem, point, ends, smooth, plain=plain)
        walk._aim(model, gradient, missed, ~no)
        # As far along the first step as moving alone would cost no more than staying.
        own = dot(walk.step.square(), torch.where(model.inverse > 0, 1 / model.inverse, 0.0))
        walk.far = (2 * cost / own).sqrt().nan_to_num(posinf=0.0).unsqueeze(-1) * walk.step

        return walk

    def done(self, tolerance: float) -> Tensor:
        """Which rows are done, with whatever success."""
        gain = self.size / (self.problem.cost.scale + self.cost)
        least: Tensor | float = tolerance
        if not self.plain:
            # There is no last step. A tiny one that meets nothing stands where what is missed cannot fall any further.
            least = torch.where(self.missed <= LARGEST_MISS, tolerance**2, tolerance**4)

        # So that what is no number is done.
        return ~((gain > least) & (gain < torch.inf) & (self.length >= SHORTEST))

    def trouble(self, tolerance: float) -> Tensor:
        """How rows ended, if they do so here."""
        finite = self.cost.isfinite() & self.step.isfinite().all(-1)
        gain = self.size / (self.problem.cost.scale + self.cost)
        met = self.missed <= LARGEST_MISS

        trouble = torch.where(met | ~self.done(tolerance), int(Trouble.SLOW), int(Trouble.STUCK))
        # Out of steps or of digits, but there is nothing left to be gained.
        trouble = torch.where(met & (gain <= max(tolerance, NEARLY)), int(Trouble.NONE), trouble)
        if not self.plain:
            flat = self.point.jacobian.abs().flatten(1).amax(-1) < FLAT if self.problem.free else ~finite
            trouble = torch.where(flat & ~met, int(Trouble.FLAT), trouble)

        return torch.where(finite, trouble, int(Trouble.NO_NUMBER))

    def advance(self) -> None:
        """Tries the step of each row; one that does not lower the merit is tried again at a part of its length."""
        end = self._try_lengths() if self.plain else self._try(self.length.unsqueeze(-1) * self.step)
        if not self.plain and not end.lower.all():
            # A step along a curved constraint leaves it; it is bent back before it is shortened.
            back = end.model.restore(end.missed).nan_to_num()
            end = self._try(torch.where(end.lower.unsqueeze(-1), end.move, end.move + back))
        move, cost, accepted = end.move, end.cost, end.lower
        change = end.gradient - self.gradient
        steeper = dot(move, change) < 0

        if self.plain and not self.secants:
            self._doubt(end, ~accepted | steeper)
        # Where the slope steepens along a step, the next one may well be longer.
        self.stride = torch.where(accepted & steeper, (STRETCH * self.stride).clamp(max=LONGEST_STRIDE), 1.0)
        if self.plain:
            bend = _bend(self.problem, self.point, end.point, move, self.smooth)
            self.secants = self.secants.after(move, change, bend, accepted & (self.cost < ANYTHING))
        self.length = SHRINK * self.length
        if accepted.all():
            self.point, self.cost = end.point, cost
        else:
            self.point, self.cost = end.point.where(accepted, self.point), torch.where(accepted, cost, self.cost)
        self._aim(end.model, end.gradient, end.missed, accepted)

    def _doubt(self, end: "_End", bent: Tensor) -> None:
        """Says which rows look around after their first step, and how far; some are known to have crossed a bend."""
        scale, cost = self.problem.cost.scale, end.cost
        saved = (self.cost - cost) / (self.length * (1 - self.length / 2) * self.size).clamp_min(1e-300)
        bent = bent | ((saved - 1).abs() > LARGEST_SURPRISE)
        first, last = (dot(point.jacobian, end.move.unsqueeze(-2)) for point in (self.point, end.point))
        turned = ((last - first).abs() > TURN * torch.maximum(first.abs(), last.abs())).any(-1)
        vain = (cost > RATHER_DEAR * scale) & (cost > SAVED * self.cost)
        self.doubt = (bent & (self.size > SMALL * scale)) | (turned & (cost > LITTLE * scale)) | vain
        self.doubt |= cost > DEAR * scale
        # No place is worth a look to which the move alone costs more than what is found.
        self.far = (torch.minimum(cost, self.cost) / self.cost.clamp_min(1e-300)).sqrt().unsqueeze(-1) * self.far

    def _try_lengths(self) -> "_End":
        """Tries the step of each row; where few rows are left at several lengths at once, of which the best counts."""
        count = len(self.row)
        parts = next((parts for parts in PARTS if len(parts) * count <= self.tries), None)
        if parts is None:
            return self._try(self.length.unsqueeze(-1) * self.step)

        many = self.select(torch.arange(count, device=self.row.device).repeat_interleave(len(parts)))
        many.length = many.length * many.length.new_tensor(parts).repeat(count)
        ends = many._try(many.length.unsqueeze(-1) * many.step)
        best = torch.where(ends.lower, ends.cost, torch.inf).reshape(count, -1).argmin(-1)
        # Where none is lower, the shortest is left behind.
        best = torch.where(ends.lower.reshape(count, -1).any(-1), best, len(parts) - 1)
        best = best + len(parts) * torch.arange(count, device=best.device)
        self.length = many.length[best]

        return ends.select(best)

    def _try(self, move: Tensor) -> "_End":
        """Looks at the end of a move."""
        there = self.problem.linearize(self.point.noises[:, : self.problem.free] + move)
        cost = self.problem.cost.value(there.noises, self.problem.rest, self.smooth)
        model, gradient, missed = quadratic(self.problem, there, self.ends, self.smooth, plain=self.plain)
        before, after = self.cost, cost
        if not self.plain:
            before, after = before + self.penalty * self.missed, after + self.penalty * missed.abs().sum(-1)
        # Both are at least 0.
        most = before + ENOUGH * self.length * self.fall + 1e-15 * (1 + before)

        return _End(move, there, cost, model, gradient, missed, (after <= most) & (dot(gradient, gradient) < torch.inf))

    def look_around(self, places: int) -> None:
        """Lets doubtful rows look for other valleys, and sends walkers there."""
        doubtful = self.doubt.nonzero().squeeze(-1)
        if not len(doubtful):
            return

        stands = self.point.noises[doubtful, : self.problem.free], self.cost[doubtful]
        part = self.problem.select(doubtful)
        row, which, spot = find_valleys(part, self.far[doubtful], stands, places, self.smooth)
        extra = self.select(doubtful[row])
        extra.second = which + 1
        extra._send(spot)
        self._join(extra)

    def _send(self, spot: Tensor) -> None:
        """Lets the next step lead to a spot, whatever is there."""
        self.step = spot - self.point.noises[:, : self.problem.free]
        self.length = torch.ones_like(self.length)
        self.fall = torch.zeros_like(self.fall)
        self.size, self.cost = (torch.full_like(self.cost, ANYTHING) for _ in range(2))
        self.secants = self.secants.cleared()

    def select(self, rows: Tensor) -> "_Walk":
        """Takes the given rows."""
        return replace(
            self,
            problem=self.problem.select(rows),
            point=self.point.select(rows),
            secants=self.secants.select(rows),
            **{name: getattr(self, name)[rows] for name in COLUMNS},
        )

    def _join(self, other: "_Walk") -> None:
        """Takes other rows in."""
        self.problem = self.problem.join(other.problem)
        self.point = self.point.join(other.point)
        self.secants = self.secants.join(other.secants)
        for name in COLUMNS:
            setattr(self, name, torch.cat([getattr(self, name), getattr(other, name)]))

    def found(self, rows: Tensor, trouble: Tensor) -> Found:
        """What is found if the given rows stop here."""
        noises = self.point.noises[rows]

        return Found(
            noises=noises,
            still=~self.problem.movable[rows],
            ends=self.ends[rows],
            multipliers=self.multipliers[rows, self.problem.implied :],
            # Not that of the walk, which may be rounded off.
            cost=self.problem.cost.value(noises, self.problem.rest[rows]) if self.smooth else self.cost[rows],
            missed=self.missed[rows],
            trouble=trouble,
        )

    def _aim(self, model: Model, gradient: Tensor, missed: Tensor, rows: Tensor) -> None:
        """Computes the next step of the rows of a mask, and how much the merit should fall along it."""
        fresh = {"gradient": gradient}
        if self.plain:
            fresh["step"] = -model.undo(gradient)
            # Measured by Gauss-Newton: a step may also be small because a secant is far too stiff.
            fresh["size"] = -dot(gradient, fresh["step"])
            if self.secants:
                fresh["step"] = -self.secants.undo(model, gradient)
            fresh["fall"] = dot(gradient, fresh["step"])
        else:
            fresh["step"], fresh["multipliers"] = model.step()
            forced = (fresh["multipliers"] * (model.compliance == 0)).abs().amax(-1)
            fresh["missed"], fresh["penalty"] = missed.abs().sum(-1), torch.maximum(self.penalty, 2 * forced)
            fresh["fall"] = dot(gradient, fresh["step"]) - fresh["penalty"] * fresh["missed"]
            fresh["size"] = model.size(fresh["step"])
        norm = dot(fresh["step"], fresh["step"]).sqrt()
        fresh["length"] = (LONGEST_STEP / norm.clamp_min(1e-300)).minimum(self.stride)

        every = bool(rows.all())
        for name, new in fresh.items():
            mask = rows if new.ndim == 1 else rows.unsqueeze(-1)
            setattr(self, name, new if every else torch.where(mask, new, getattr(self, name)))
