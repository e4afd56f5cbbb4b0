"""Other valleys of a cost: where a row may walk down that its first step did not lead to.

The cost is looked at in many places along the first step, both ways, as far as can pay. A place that is lower than its
neighbours is the floor of a valley, whose lowest point is that of the parabola through the three. Where several noises
are sought, or constraints are to be met, valleys lie beside that way too: places are then spread over all that can pay,
and the lowest count.
"""

__all__ = ["find_low_places", "find_valleys"]

import torch
from torch import Tensor

from deepbc.solvers.found import Found
from deepbc.solvers.penalty import missed_by
from deepbc.solvers.problem import Point, Problem
from deepbc.solvers.quadratic_model import dot

# A row walks down so many valleys at most.
MOST = 3
# A row stands in a valley whose floor is within so many places, unless that is lower by this part.
NEAR, LOWER = 1.5, 0.1
# A valley is worth a walk whose floor costs less than this many times the least, plus the scale of the cost.
WORTH = 1.5
# A place that misses what must hold costs so many times what the force there makes of it.
FORCE = 5.0
# No noise is sought so many standard deviations from rest, however little it costs.
FARTHEST = 6.0
# So many places are looked at together, so that what they need stays small.
TOGETHER = 262_144


def find_valleys(
    problem: Problem, far: Tensor, stands: tuple[Tensor, Tensor], places: int, smooth: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Looks along a way from rest for valleys that are worth a walk.

    Args:
        problem: The problem of the rows that look.
        far: The end of the way, seen from rest; its other end is opposite. With shape `(rows, free)`.
        stands: Where each row stands already, `(rows, free)`, and what it costs there, `(rows,)`.
        places: How many places are looked at.
        smooth: How much the kinks of the cost are rounded off.

    Returns:
        The row of each valley, which of its valleys it is, and the spot to walk down from, `(valleys, free)`.
    """
    share = torch.linspace(-1, 1, places + 1 + places % 2, dtype=far.dtype, device=far.device)
    gap = share[1] - share[0]
    heights = _heights(problem, problem.start.unsqueeze(1) + share[:, None] * far.unsqueeze(1), smooth)

    wall = torch.full_like(heights[:, :1], torch.inf)
    left, right = torch.cat([wall, heights[:, :-1]], dim=1), torch.cat([heights[:, 1:], wall], dim=1)
    floors = torch.where((heights < left) & (heights <= right), heights, torch.inf)
    lowest, index = floors.topk(MOST, dim=1, largest=False)
    low, high = (side.gather(1, index) for side in (left, right))
    shift = (0.5 * (low - high) / (low - 2 * lowest + high)).nan_to_num().clamp(-0.5, 0.5)

    here, cost = dot(stands[0] - problem.start, far) / dot(far, far).clamp_min(1e-300), stands[1].unsqueeze(-1)
    apart = ((share[index] - here.unsqueeze(-1)).abs() > NEAR * gap) | (lowest < (1 - LOWER) * cost)
    worth = apart & (lowest < problem.cost.scale + WORTH * torch.minimum(lowest[:, :1], cost))
    row, which = worth.nonzero().unbind(-1)
    along = (share[index] + shift * gap)[row, which].unsqueeze(-1)

    return row, which, problem.start[row] + along * far[row]


def find_low_places(problem: Problem, found: Found, places: int, smooth: float) -> Tensor:
    """Looks all around for places to walk down from.

    Args:
        problem: The problem of the rows that look.
        found: What each row has found already.
        places: How many places are looked at.
        smooth: How much the kinks of the cost are rounded off.

    Returns:
        The lowest few places of each row, with shape `(rows, few, free)`; what is missed there counts as well.
    """
    stiff = problem.cost.curvature(problem.rest, problem.rest, smooth)[:, : problem.free]
    # As far as moving one noise alone would cost no more than what was found, if anything was.
    reach = (2 * found.cost.unsqueeze(-1) / stiff).sqrt().nan_to_num(nan=FARTHEST).clamp(max=FARTHEST)
    reach = problem.movable[:, : problem.free] * reach
    spots = problem.start.unsqueeze(1) + _ball(places, reach) * reach.unsqueeze(1)
    force = torch.cat([torch.full_like(reach[:, :1], problem.cost.scale), found.multipliers.abs()], dim=-1).amax(-1)
    index = _heights(problem, spots, smooth, FORCE * force).topk(min(MOST, places), dim=1, largest=False).indices

    return spots.gather(1, index.unsqueeze(-1).expand(-1, -1, problem.free))


def _ball(places: int, like: Tensor) -> Tensor:
    """Places spread evenly over the ball of radius 1, the same at all times, with shape `(places, free)`."""
    free = like.shape[-1]
    even: Tensor = torch.quasirandom.SobolEngine(free + 1, scramble=True, seed=0).draw(places, dtype=torch.float64)
    ways: Tensor = torch.special.ndtri(even[:, :free].clamp(1e-9, 1 - 1e-9))
    radius = even[:, free:] ** (1 / free)

    return (radius * ways * ways.square().sum(-1, keepdim=True).rsqrt()).to(like)


def _heights(problem: Problem, spots: Tensor, smooth: float, force: Tensor | None = None) -> Tensor:
    """The cost at spots `(rows, places, free)`, with shape `(rows, places)`; infinite where it is no number.

    A force, `(rows,)`, is what a unit costs of what is missed.
    """
    rows, places, _ = spots.shape
    parts = []
    for some in torch.arange(rows, device=spots.device).split(max(1, TOGETHER // places)):
        many = problem.select(some.repeat_interleave(places))
        point = many.look(spots[some].flatten(0, 1))
        cost = many.cost.value(point.noises, many.rest, smooth)
        if force is not None:
            cost = cost + force[some].repeat_interleave(places) * _missed(many, point)
        parts.append(cost.reshape(len(some), places))

    return torch.cat(parts).nan_to_num(nan=torch.inf)


def _missed(problem: Problem, point: Point) -> Tensor:
    """How far constraints, and implied noises that may not move, are missed in all, with shape `(rows,)`."""
    outside = missed_by(problem, point.values).abs()
    moved = torch.where(problem.movable, 0.0, (point.noises - problem.rest).abs())

    return outside.sum(-1) + moved.sum(-1)
