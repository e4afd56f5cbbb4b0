"""Multi-start: starting points of further local minimisations, by a line grid and by a low-discrepancy sequence.

Along the first step of a row the cost is evaluated on an equidistant grid, as far as it can decrease; the minimiser of
the parabola through a grid minimum and its neighbours is a start. Where several noises are free, or constraints are to
be met, Sobol points in an ellipsoid around rest are compared by an l1 merit function as well.

References:
    On the distribution of points in a cube and the approximate evaluation of integrals (Sobol, 1967).
    Stochastic global optimization methods, part II: multi level methods (Rinnooy Kan and Timmer, 1987).
"""

__all__ = ["RESTART", "RestartCriteria", "select_line_starts", "select_sobol_starts"]

from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.solvers.penalty import violation
from deepbc.solvers.problem import Point, Problem
from deepbc.solvers.quadratic_model import SolverState, dot

# The most further local minimisations of a row.
MAX_STARTS = 3
# A start within so many grid spacings of the iterate is in its basin, unless its cost is lower by this part.
SAME_BASIN, MIN_DECREASE = 1.5, 0.1
# Starts are dropped that cost more than this many times the least known cost, plus the unit of the cost.
MAX_COST_RATIO = 1.5
# The penalty parameter of the merit function, in units of the largest multiplier; exact above 1.
PENALTY_FACTOR = 5.0
# The largest semi-axis of the ellipsoid, in standard deviations of a noise.
MAX_RADIUS = 6.0
# Points per evaluation, to bound memory.
CHUNK_POINTS = 262_144


@dataclass(frozen=True, slots=True)
class RestartCriteria:
    """When a row restarts after its first step, with costs in units of the least weight.

    Args:
        gain_ratio: The actual over the predicted decrease differs from 1 by more.
        min_decrement: The least predicted decrease for which that counts.
        jacobian_change: A directional derivative changes by more than this part.
        min_cost: The least cost for which that counts.
        stalled_cost: The cost is above this,
        stalled_share: and above this part of what it was.
        max_cost: The cost is above this.
    """

    gain_ratio: float = 0.3
    min_decrement: float = 1e-3
    jacobian_change: float = 0.5
    min_cost: float = 0.1
    stalled_cost: float = 1.0
    stalled_share: float = 0.5
    max_cost: float = 12.0


RESTART = RestartCriteria()


def select_line_starts(
    problem: Problem, direction: Tensor, current: tuple[Tensor, Tensor], points: int, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Selects starts among the local minima of the cost on a line through rest.

    Args:
        problem: The problem of the rows to restart.
        direction: One end of the line relative to rest, the other is opposite; with shape `(rows, free)`.
        current: The iterate of each row, `(rows, free)`, and its cost, `(rows,)`.
        points: The number of grid points.
        smoothing: The radius within which kinks of the cost are rounded.

    Returns:
        The row of each start, its rank among those of its row, and the start, `(starts, free)`.
    """
    grid = torch.linspace(-1, 1, points + 1 + points % 2, dtype=direction.dtype, device=direction.device)
    spacing = grid[1] - grid[0]
    costs = _merit(problem, problem.start.unsqueeze(1) + grid[:, None] * direction.unsqueeze(1), smoothing)

    boundary = torch.full_like(costs[:, :1], torch.inf)
    left, right = torch.cat([boundary, costs[:, :-1]], dim=1), torch.cat([costs[:, 1:], boundary], dim=1)
    minima = torch.where((costs < left) & (costs <= right), costs, torch.inf)
    lowest, index = minima.topk(MAX_STARTS, dim=1, largest=False)
    low, high = (side.gather(1, index) for side in (left, right))
    shift = (0.5 * (low - high) / (low - 2 * lowest + high)).nan_to_num().clamp(-0.5, 0.5)

    position = dot(current[0] - problem.start, direction) / dot(direction, direction).clamp_min(1e-300)
    cost = current[1].unsqueeze(-1)
    elsewhere = (grid[index] - position.unsqueeze(-1)).abs() > SAME_BASIN * spacing
    chosen = (elsewhere | (lowest < (1 - MIN_DECREASE) * cost)) & (
        lowest < problem.cost.scale + MAX_COST_RATIO * torch.minimum(lowest[:, :1], cost)
    )
    row, which = chosen.nonzero().unbind(-1)
    along = (grid[index] + shift * spacing)[row, which].unsqueeze(-1)

    return row, which, problem.start[row] + along * direction[row]


def select_sobol_starts(problem: Problem, state: SolverState, points: int, smoothing: float) -> Tensor:
    """Selects the Sobol points of the lowest merit in an ellipsoid around rest.

    Args:
        problem: The problem of the rows to restart.
        state: The best known state of each row.
        points: The number of Sobol points.
        smoothing: The radius within which kinks of the cost are rounded.

    Returns:
        The starts of each row, with shape `(rows, starts, free)`.
    """
    curvature = problem.cost.curvature(problem.rest, problem.rest, smoothing)[:, : problem.free]
    # A noise that moves alone by its semi-axis costs as much as the best known state.
    radius = (2 * state.cost.unsqueeze(-1) / curvature).sqrt().nan_to_num(nan=MAX_RADIUS).clamp(max=MAX_RADIUS)
    radius = problem.movable[:, : problem.free] * radius
    starts = problem.start.unsqueeze(1) + _sobol_ball(points, radius) * radius.unsqueeze(1)
    penalty = torch.cat([torch.full_like(radius[:, :1], problem.cost.scale), state.multipliers.abs()], dim=-1).amax(-1)
    merit = _merit(problem, starts, smoothing, PENALTY_FACTOR * penalty)
    index = merit.topk(min(MAX_STARTS, points), dim=1, largest=False).indices

    return starts.gather(1, index.unsqueeze(-1).expand(-1, -1, problem.free))


def _sobol_ball(points: int, like: Tensor) -> Tensor:
    """A fixed scrambled Sobol sequence mapped to the unit ball, with shape `(points, free)`."""
    free = like.shape[-1]
    sobol: Tensor = torch.quasirandom.SobolEngine(free + 1, scramble=True, seed=0).draw(points, dtype=torch.float64)
    directions: Tensor = torch.special.ndtri(sobol[:, :free].clamp(1e-9, 1 - 1e-9))
    radius = sobol[:, free:] ** (1 / free)

    return (radius * directions * directions.square().sum(-1, keepdim=True).rsqrt()).to(like)


def _merit(problem: Problem, starts: Tensor, smoothing: float, penalty: Tensor | None = None) -> Tensor:
    """The l1 merit function at points `(rows, points, free)`, with shape `(rows, points)`; infinite for NaN.

    Without a penalty parameter, `(rows,)`, it is the cost.
    """
    rows, points, _ = starts.shape
    parts = []
    for chunk in torch.arange(rows, device=starts.device).split(max(1, CHUNK_POINTS // points)):
        repeated = problem.select(chunk.repeat_interleave(points))
        point = repeated.evaluate(starts[chunk].flatten(0, 1))
        cost = repeated.cost.value(point.noises, repeated.rest, smoothing)
        if penalty is not None:
            cost = cost + penalty[chunk].repeat_interleave(points) * _l1_violation(repeated, point)
        parts.append(cost.reshape(len(chunk), points))

    return torch.cat(parts).nan_to_num(nan=torch.inf)


def _l1_violation(problem: Problem, point: Point) -> Tensor:
    """The l1 norm of the violation of constraints and of fixed implied noises, with shape `(rows,)`."""
    outside = violation(problem, point.values).abs()
    moved = torch.where(problem.movable, 0.0, (point.noises - problem.rest).abs())

    return outside.sum(-1) + moved.sum(-1)
