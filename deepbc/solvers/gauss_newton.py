r"""The walk down where nothing but the cost counts: Gauss-Newton steps, every row for itself, in one batch.

A step is that of `steps.Model`, bent by the secants of the last few steps, and shortened until the cost falls. Rows
that are done leave the batch. A row whose first step is not as good as it seemed looks around, and sends walkers down
other valleys as well; the one that ends lowest counts.

The last step of a row is too small to be worth another look at the slopes: it is taken if it lowers the cost.

References:
    Numerical Optimization (Nocedal and Wright, 2006), section 10.3.
"""

__all__ = ["descend"]

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from deepbc.solvers.found import Found
from deepbc.solvers.lbfgs import Secants
from deepbc.solvers.multistart import find_valleys
from deepbc.solvers.problem import Point, Problem, SolverStatus
from deepbc.solvers.quadratic_model import Model, dot, slopes_of, total

# How long a step may be.
LONGEST_STEP = 5.0
# The line search: the part of the promised fall that counts as one, the factor of a shorter try, and the shortest.
ENOUGH, SHRINK, SHORTEST = 1e-4, 0.3, 1e-9
# Where that makes few tries, a step is tried at all of these parts of its length. Few is a quarter of all rows, within
# these limits: fewer cost next to nothing, and more cost what they save.
FEW_TRIES, MOST_TRIES = 1024, 2560
FINE = tuple(10 ** (k / 8) for k in range(4, -13, -1))
PARTS = (FINE, FINE[::2], (2.0, 1.0, 0.3))
# A step is not bent by more than this factor because the cost bends otherwise farther on.
MUCH = 5.0
# Where slopes steepen, steps lengthen by this factor, up to that one.
STRETCH, LONGEST_STRIDE = 3.0, 9.0
# A row that is out of steps, or of digits, is done if it may gain no more than this.
NEARLY = 1e-6
# Rows that are done leave when they are more than so many, and more than this part of all.
FEW, FEW_OF_MANY = 64, 0.1
# A row looks around if its first step, unless it is small, saves this much less or more than its part of what the model
# says, or turns a slope by this part and leaves a little to save; if it stays this dear; or if it is rather dear and
# has saved no more than a part.
LARGEST_SURPRISE, SMALL, TURN, LITTLE, DEAR, RATHER_DEAR, SAVED = 0.3, 1e-3, 0.5, 0.1, 12.0, 1.0, 0.5
# A row that walks for longer is doubtful too, though it does not look around; on tame laws few do.
PATIENCE = 6
ANYTHING = 1e30
# What a walk has for each walker, beside its problem, its point and its secants.
COLUMNS = ("walker", "cost", "gradient", "step", "gain", "stride", "length")


def descend(problem: Problem, start: Point, *, smooth: float, steps: int, tolerance: float, places: int = 0) -> Found:
    """Walks down until every row is done or out of steps.

    Args:
        problem: The problem, in which nothing but the cost counts.
        start: The point to start from, with its derivatives.
        smooth: How much the kinks of the cost are rounded off.
        steps: The most steps.
        tolerance: The part of the cost (plus one) that a step must save for another one to follow.
        places: How many places a row looks at whose first step is not as good as it seemed; the start is then at rest.
    """
    walk = _Walk.begin(problem, start, smooth)
    ended = _Ended([], walk.walker[:0], walk.walker[:0], torch.zeros_like(walk.walker, dtype=torch.bool))

    for step in range(steps):
        done = walk.done(tolerance)
        count = int(done.sum())
        if count == len(done):
            break
        if step == PATIENCE:
            ended.doubt(walk.walker[~done])
        # A few rows that are done do no harm: taking them out costs more than another step of theirs.
        if count > max(FEW, FEW_OF_MANY * len(done)) and step:
            walk.stop(done.nonzero().squeeze(-1), ended)
            walk = walk.select((~done).nonzero().squeeze(-1))
        before = walk
        walk, end = walk.advance()
        if not step and places:
            walk = walk.look_around(before, end, places, ended)

    walk.stop(slice(None), ended)

    return ended.finish(problem, tolerance)


@dataclass(slots=True)
class _Ended:
    """Where walkers ended: their numbers, noises, costs, the last steps that they have still to take, and their gains.

    The first walkers are those of the rows themselves, in order. Of the others, `row` says whose they are, and `which`
    tells those of one row apart. `doubtful` says which rows looked around, or walked for long.
    """

    parts: list[tuple[Tensor, ...]]
    row: Tensor
    which: Tensor
    doubtful: Tensor

    def doubt(self, walker: Tensor) -> None:
        """Notes that the rows of these walkers are doubtful."""
        rows = len(self.doubtful)
        self.doubtful[walker[walker < rows]] = True
        self.doubtful[self.row[walker[walker >= rows] - rows]] = True

    def finish(self, problem: Problem, tolerance: float) -> Found:
        """Takes the last step of the walker of each row that ended lowest, the first of those that are alike."""
        noises, cost, step, gain = self._lowest(problem.rows)
        point = problem.look(noises[:, : problem.free] + step)
        after = problem.cost.value(point.noises, problem.rest)
        # Out of steps or of digits, but there is nothing left to be gained.
        status = torch.where(gain <= max(tolerance, NEARLY), int(SolverStatus.CONVERGED), int(SolverStatus.MAX_STEPS))
        status = torch.where(cost.isfinite() & total(step).isfinite(), status, int(SolverStatus.NON_FINITE))
        taken = (status == SolverStatus.CONVERGED) & (after <= cost)
        none = problem.rest[:, :0]

        return Found(
            noises=_where(taken, point.noises, noises),
            still=~problem.movable,
            ends=none.long(),
            multipliers=none,
            cost=torch.where(taken, after, cost),
            missed=torch.zeros_like(cost),
            status=status,
            doubtful=self.doubtful,
        )

    def _lowest(self, rows: int) -> tuple[Tensor, ...]:
        """The columns of the walker of each row that ended lowest."""
        walker, *columns = (torch.cat(column) for column in zip(*self.parts, strict=True))
        noises, cost, step, gain = (torch.empty_like(each).index_copy_(0, walker, each) for each in columns)

        for which in self.which.unique():
            chosen = (self.which == which).nonzero().squeeze(-1)
            row, other = self.row[chosen], rows + chosen
            lower = cost[other] < cost[row]
            row, other = row[lower], other[lower]
            for column in (noises, cost, step, gain):
                column[row] = column[other]

        return noises[:rows], cost[:rows], step[:rows], gain[:rows]


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a move: the point, its cost, the model there with its gradient, and which moves lower the cost."""

    move: Tensor
    point: Point
    cost: Tensor
    model: Model
    gradient: Tensor
    lower: Tensor


@dataclass(frozen=True, slots=True)
class _Walk:
    """The walkers that are under way: where each stands, where it goes next and how far.

    Args:
        problem: The problem of each walker's row.
        smooth: How much the kinks of the cost are rounded off.
        tries: The most tries of steps at several lengths.
        point: Where each stands.
        secants: The secants of its last steps.
        walker: Its number.
        cost: The cost where it stands, with shape `(walkers,)`.
        gradient: The gradient there, with shape `(walkers, free)`.
        step: The step that it takes next, with that shape.
        gain: Twice what a Gauss-Newton step should save, as part of the cost plus its scale. A bent step may also be
            small because a secant is far too stiff.
        stride: How many times as long as it is a step may be.
        length: How many times as long as it is the step is tried next.
    """

    problem: Problem
    smooth: float
    tries: int
    point: Point
    secants: Secants
    walker: Tensor
    cost: Tensor
    gradient: Tensor
    step: Tensor
    gain: Tensor
    stride: Tensor
    length: Tensor

    @classmethod
    def begin(cls, problem: Problem, point: Point, smooth: float) -> "_Walk":
        cost = problem.cost.value(point.noises, problem.rest, smooth)
        model, gradient = slopes_of(problem, point, smooth)
        none, nowhere = torch.zeros_like(cost), torch.zeros_like(gradient)
        walk = cls(
            problem=problem,
            smooth=smooth,
            tries=min(max(FEW_TRIES, problem.rows // 4), MOST_TRIES),
            point=point,
            secants=Secants(),
            walker=torch.arange(problem.rows, device=cost.device),
            cost=cost,
            gradient=gradient,
            step=nowhere,
            gain=none,
            stride=torch.ones_like(none),
            length=none,
        )

        return replace(walk, **walk._aim(model))

    def done(self, tolerance: float) -> Tensor:
        """Which walkers are done, with whatever success; what is no number is done."""
        return ~((self.gain > tolerance) & (self.gain < torch.inf) & (self.length >= SHORTEST))

    def stop(self, rows: Tensor | slice, ended: _Ended) -> None:
        """Notes where the given walkers end."""
        noises, cost = self.point.noises[rows], self.cost[rows]
        if self.smooth:
            # Not that of the walk, which is rounded off.
            cost = self.problem.cost.value(noises, self.problem.rest[rows])
        ended.parts.append((self.walker[rows], noises, cost, self.step[rows], self.gain[rows]))

    def advance(self) -> "tuple[_Walk, _End]":
        """Tries the step of each walker; one that does not lower the cost is tried again at a part of its length."""
        end, length = self._try()
        accepted, every = end.lower, bool(end.lower.all())
        change = end.gradient - self.gradient
        along = dot(end.move, change)
        known = accepted & (self.cost < ANYTHING)

        # Where the slope steepens along a step, the next one may well be longer.
        stride = torch.where(accepted & (along < 0), (STRETCH * self.stride).clamp(max=LONGEST_STRIDE), 1.0)
        bend = _bend(self.problem.free, self.point, end)
        ahead = replace(
            self,
            point=end.point if every else end.point.where(accepted, self.point),
            secants=self.secants.after(end.move, change, along, bend, known),
            cost=end.cost if every else torch.where(accepted, end.cost, self.cost),
            gradient=end.gradient,
            stride=stride,
        )
        fresh = ahead._aim(end.model)
        if not every:
            old = replace(self, length=SHRINK * length)
            fresh = {name: _where(accepted, each, getattr(old, name)) for name, each in fresh.items()}

        return replace(ahead, **fresh), end

    def _try(self) -> tuple[_End, Tensor]:
        """Tries the step of each walker; where few are left at several lengths at once, of which the best counts.

        Returns:
            The ends of the moves, and the lengths that count.
        """
        problem, count, length, step = self.problem, len(self.walker), self.length, self.step
        v, cost, fall = self.point.noises[:, : problem.free], self.cost, dot(self.gradient, step)
        parts = next((parts for parts in PARTS if len(parts) * count <= self.tries), (1.0,))
        if len(parts) > 1:
            rows = torch.arange(count, device=length.device).repeat_interleave(len(parts))
            problem, v, cost, fall, step = problem.select(rows), v[rows], cost[rows], fall[rows], step[rows]
            length = length[rows] * length.new_tensor(parts).repeat(count)

        move = length.unsqueeze(-1) * step
        there = problem.linearize(v + move)
        after = problem.cost.value(there.noises, problem.rest, self.smooth)
        # The cost is at least 0.
        lower = after <= cost + ENOUGH * length * fall + 1e-15 * (1 + cost)
        if len(parts) > 1:
            lower = lower & there.jacobian.flatten(1).isfinite().all(-1)
            best = torch.where(lower, after, torch.inf).reshape(count, -1).argmin(-1)
            # Where none is lower, the shortest is left behind.
            best = torch.where(lower.reshape(count, -1).any(-1), best, len(parts) - 1)
            best = best + len(parts) * torch.arange(count, device=best.device)
            move, there, after, lower, length = move[best], there.select(best), after[best], lower[best], length[best]

        model, gradient = slopes_of(self.problem, there, self.smooth)

        return _End(move, there, after, model, gradient, lower & (dot(gradient, gradient) < torch.inf)), length

    def _aim(self, model: Model) -> dict[str, Any]:
        """Computes the next step of each walker, what it may gain, and how far it goes."""
        straight = model.undo(self.gradient)
        step = -self.secants.undo(model, self.gradient, straight)
        norm = dot(step, step).sqrt()

        return {
            "gradient": self.gradient,
            "step": step,
            "gain": dot(self.gradient, straight) / (self.problem.cost.scale + self.cost),
            "length": (LONGEST_STEP / norm.clamp_min(1e-300)).minimum(self.stride),
        }

    def look_around(self, before: "_Walk", end: _End, places: int, ended: _Ended) -> "_Walk":
        """Lets doubtful rows look for other valleys, and sends walkers there.

        Args:
            before: The walk before its first step.
            end: The end of that step.
            places: How many places a row looks at.
            ended: Takes up which rows look, and whose walkers they are.
        """
        ended.doubtful = before.doubtful(end)
        doubtful = ended.doubtful.nonzero().squeeze(-1)
        if not len(doubtful):
            return self

        problem, cost, step = self.problem.select(doubtful), before.cost[doubtful], before.step[doubtful]
        # As far along the first step as moving alone would cost no more than what was found, or staying.
        stiff = problem.cost.curvature(before.point.noises[doubtful], problem.rest, self.smooth)[:, : problem.free]
        reach = 2 * torch.minimum(cost, end.cost[doubtful]) / dot(step.square(), stiff)
        far = reach.sqrt().nan_to_num(posinf=0.0).unsqueeze(-1) * step
        stands = self.point.noises[doubtful, : problem.free], self.cost[doubtful]
        row, which, spot = find_valleys(problem, far, stands, places, self.smooth)
        ended.row, ended.which = doubtful[row], which
        sent = self.select(ended.row)._sent(spot)

        return self._join(replace(sent, walker=len(self.walker) + torch.arange(len(row), device=row.device)))

    def doubtful(self, end: _End) -> Tensor:
        """Says which rows look around after their first step, of which the end is given."""
        scale, cost = self.problem.cost.scale, end.cost
        size, length = self.gain * (scale + self.cost), dot(end.move, self.step) / dot(self.step, self.step)
        saved = (self.cost - cost) / (length * (1 - length / 2) * size).clamp_min(1e-300)
        steeper = dot(end.move, end.gradient - self.gradient) < 0
        bent = ~end.lower | steeper | ((saved - 1).abs() > LARGEST_SURPRISE)
        first, last = (dot(point.jacobian, end.move.unsqueeze(-2)) for point in (self.point, end.point))
        turned = ((last - first).abs() > TURN * torch.maximum(first.abs(), last.abs())).any(-1)
        vain = (cost > RATHER_DEAR * scale) & (cost > SAVED * self.cost)

        return (bent & (size > SMALL * scale)) | (turned & (cost > LITTLE * scale)) | vain | (cost > DEAR * scale)

    def _sent(self, spot: Tensor) -> "_Walk":
        """Lets the next step lead to a spot, whatever is there."""
        anything = torch.full_like(self.cost, ANYTHING)

        return replace(
            self,
            step=spot - self.point.noises[:, : self.problem.free],
            length=torch.ones_like(self.length),
            gain=anything,
            cost=anything,
            secants=self.secants.cleared(),
        )

    def select(self, rows: Tensor) -> "_Walk":
        """Takes the given walkers."""
        return replace(
            self,
            problem=self.problem.select(rows),
            point=self.point.select(rows),
            secants=self.secants.select(rows),
            **{name: getattr(self, name)[rows] for name in COLUMNS},
        )

    def _join(self, other: "_Walk") -> "_Walk":
        """Takes other walkers in."""
        columns: dict[str, Any] = {name: torch.cat([getattr(self, name), getattr(other, name)]) for name in COLUMNS}

        return replace(
            self,
            problem=self.problem.join(other.problem),
            point=self.point.join(other.point),
            secants=self.secants.join(other.secants),
            **columns,
        )


def _bend(free: int, start: Point, end: _End) -> Tensor:
    """The curvature of the cost along a move, beyond its end, where a move is 1 long, with shape `(rows,)`.

    Implied noises along the move are taken as the cubics that have the right values and derivatives at both ends. A
    step by this curvature leads as far along as two of Newton's steps would with them, unless that is much farther or
    much less far than the first of the two.
    """
    model, move, now = end.model, end.move, end.model.residual
    stiff = model.compliance.reciprocal()
    slope, own = dot(end.gradient, move), total(torch.where(model.inverse > 0, move.square() / model.inverse, 0.0))
    first, last = (dot(point.jacobian, move.unsqueeze(-2)) for point in (start, end.point))
    rose = end.point.noises[:, free:] - start.noises[:, free:]
    turn = 2 * first.add(last, alpha=2).sub(rose, alpha=3)
    twist = 2 * (turn + first - last)
    bend = own + total(torch.addcmul(last.square(), now, turn) * stiff)

    # Where Newton's step ends: the implied noises there, and their first and second derivatives.
    newton = -slope / bend
    ahead = newton.clamp(-1.0, 1.0)
    by = ahead.unsqueeze(-1)
    half = torch.addcmul(last, by, torch.addcmul(turn, by, twist, value=1 / 3), value=0.5)
    residual = torch.addcmul(now, by, half)
    rise = torch.addcmul(last, by, torch.addcmul(turn, by, twist, value=0.5))
    left = torch.addcmul(slope, ahead, own) + total(torch.addcmul(residual * rise, now, last, value=-1) * stiff)
    bends = own + total(torch.addcmul(rise.square(), residual, torch.addcmul(turn, by, twist)) * stiff)
    more = (ahead - left / bends) / newton

    return torch.where((more > 1 / MUCH) & (more < MUCH), bend / more, bend)


def _where(rows: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(rows if new.ndim == 1 else rows.unsqueeze(-1), new, old)
