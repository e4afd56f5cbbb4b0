r"""Multi-start with screened points, a shrinking search region and a Bayesian stopping rule.

A solution cheaper than the best cost :math:`c` so far has each noise within the distance that alone costs :math:`c`,
:math:`\sqrt{c / w}` for a squared cost of weight :math:`w`. In that region Sobol points of normal spread are screened:
only where the merit is low compared to what the quadratic model of the best minimum says is another one to be
expected, so that local minimisation starts at the points of least ratio of the two, far apart from each other. A lower
minimum shrinks the region of the next round. With :math:`n` starts that led to :math:`w` minima, the posterior mean of
the share of starts that would lead to yet another one is :math:`w (w + 1) / (n (n - 1))`, and that is the lowest of all
with probability :math:`1 / (w + 1)`:

.. math:: P(\text{a lower minimum was missed}) \approx \frac{w}{n (n - 1)}.

A row stops when that is small. A single free noise is scanned on a grid instead; a run starts at each of its minima.

References:
    Stochastic global optimization methods, parts I and II (Rinnooy Kan and Timmer, 1987).
    Bayesian stopping rules for multistart global optimization methods (Boender and Rinnooy Kan, 1987).
    On the distribution of points in a cube and the approximate evaluation of integrals (Sobol, 1967).
"""

__all__ = ["find_lower_minima"]

import math
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from deepbc.numerics.batched import map_tensors, select
from deepbc.solvers.local_model import LocalModel, elastic_noises
from deepbc.solvers.problem import Problem, SolverStatus
from deepbc.solvers.quadratic_program import apply
from deepbc.solvers.settings import Settings
from deepbc.solvers.sqp import Minima, minimize

# Points that are evaluated at once, to bound memory.
CHUNK_POINTS = 65_536
# The coordinates of points in noises that move for free are hyperbolic sines of up to this.
STRETCH = 5.0


def find_lower_minima(problem: Problem, best: Minima, settings: Settings) -> Tensor:
    """Improves the best minimum of each row in place, and returns the certainty that there is no lower one.

    Args:
        problem: The problem.
        best: The minimum of each row that a local search from rest found.
        settings: The constants.
    """
    certainty = torch.where(best.surprise > settings.rounding, 1 - settings.convex_risk, 1.0).to(best.cost)
    search = _one_dimensional if problem.free == 1 else _many_dimensional
    size = max(1, CHUNK_POINTS // (settings.screened * max(settings.rounds, default=1)))
    for rows in _suspicious(problem, best, settings).nonzero().squeeze(-1).split(size):
        part, found = problem.select(rows), select(best, rows)
        certainty[rows] = search(part, found, settings)
        _put(best, rows, found)

    return certainty


def _suspicious(problem: Problem, best: Minima, settings: Settings) -> Tensor:
    """The rows whose first run gives reason to expect other minima, with shape `(rows,)`."""
    free = problem.movable[:, : problem.free].any(-1)
    smooth = not bool((problem.cost.weights == 0).any() | problem.cost.kinked.any())
    stalled = (best.cost > settings.stalled_cost * problem.cost.scale) & (
        best.cost > settings.stalled_share * best.first_cost
    )
    quadratic = (best.surprise <= settings.surprise) & (best.bend <= settings.bend) & smooth
    convex = quadratic & ~stalled & (best.status == SolverStatus.CONVERGED)

    return free & ~convex


def _one_dimensional(problem: Problem, best: Minima, settings: Settings) -> Tensor:
    """Starts at the minima of the merit on a grid."""
    grid = torch.linspace(-1, 1, settings.grid, dtype=best.cost.dtype, device=best.cost.device)
    v = problem.start + _stretched(problem, grid.unsqueeze(-1)).squeeze(-1) * _radius(problem, best)
    merit = _merit(problem, v.unsqueeze(-1), best.penalty)
    edge = torch.full_like(merit[:, :1], torch.inf)
    before, after = torch.cat([edge, merit[:, :-1]], -1), torch.cat([merit[:, 1:], edge], -1)
    lowest = torch.where((merit <= before) & (merit < after), merit, torch.inf)
    merit, index = lowest.topk(min(settings.grid_starts, settings.grid), largest=False)
    # The minimum of the parabola through a point and its neighbours.
    sides = [side.gather(1, index) for side in (before, after)]
    shift = (0.5 * (sides[0] - sides[1]) / (sides[0] - 2 * merit + sides[1])).nan_to_num().clamp(-0.5, 0.5)
    spacing = v.diff(dim=-1).gather(1, index.clamp(max=settings.grid - 2))
    places, known = v.gather(1, index) + shift * spacing, _known(best).unsqueeze(-1)
    elsewhere = (places - best.noises[:, :1]).abs() > 1.5 * spacing
    worth = elsewhere & (merit < problem.cost.scale + settings.grid_ratio * known)
    row, which = (worth | (merit < known) | ~known.isfinite()).logical_and(merit.isfinite()).nonzero().unbind(-1)
    if len(row):
        _run(problem, best, row, places[row, which].unsqueeze(-1), settings)

    return torch.ones_like(best.cost)


def _many_dimensional(problem: Problem, best: Minima, settings: Settings) -> Tensor:
    """Makes rounds of starts at screened points until the stopping rule is met."""
    certainty = torch.zeros_like(best.cost)
    ends = best.noises[:, None, : problem.free]
    finished = (best.status == SolverStatus.CONVERGED).unsqueeze(-1)
    active = torch.arange(problem.rows, device=certainty.device)
    for number, count in enumerate(settings.rounds):
        part, lowest = problem.select(active), select(best, active)
        starts = _screen(part, lowest, count, number, settings)
        row = torch.arange(len(active), device=active.device).repeat_interleave(count)
        ended, done = _run(part, lowest, row, starts.flatten(0, 1), settings)
        _put(best, active, lowest)
        ends = torch.cat([ends, ended.reshape(starts.shape)], 1)
        finished = torch.cat([finished, done.reshape(starts.shape[:2])], 1)
        risk = _risk(ends, finished, lowest, settings)
        certainty[active] = 1 - risk
        left = ((risk > settings.risk) | (lowest.status != SolverStatus.CONVERGED)).nonzero().squeeze(-1)
        active, ends, finished = active[left], ends[left], finished[left]
        if not len(active):
            break

    return certainty


def _radius(problem: Problem, best: Minima) -> Tensor:
    """The semi-axes of the search region, with shape `(rows, free)`."""
    return problem.movable[:, : problem.free] * problem.cost.radius(_known(best))[:, : problem.free]


def _known(best: Minima) -> Tensor:
    """The cost of the best minimum; infinite where none is known."""
    return torch.where(best.status == SolverStatus.CONVERGED, best.cost, torch.inf)


def _stretched(problem: Problem, unit: Tensor) -> Tensor:
    """Points in units of the radius; in noises that move for free most are near, and some far away."""
    weightless = problem.cost.weights[: problem.free] == 0

    return torch.where(weightless, torch.sinh(STRETCH * unit) / math.sinh(STRETCH), unit)


def _screen(problem: Problem, best: Minima, count: int, number: int, settings: Settings) -> Tensor:
    """The starts of a round, `(rows, count, free)`: screened points with little merit for their distance."""
    free, points = problem.free, settings.screened * count
    radius = _radius(problem, best).unsqueeze(1)
    spread = torch.tensor(settings.spreads, dtype=radius.dtype, device=radius.device).repeat(points)[:points]
    unit = spread.unsqueeze(-1) * _normal_points(points, free, number).to(radius)
    v = problem.start.unsqueeze(1) + _stretched(problem, unit / free**0.5) * radius
    ratio = _merit(problem, v, best.penalty) - best.cost.unsqueeze(-1)
    end = best.noises[:, :free]
    model = LocalModel.of(problem, problem.linearize(end), elastic_noises(problem))
    rise = _predicted_rise(model, best.penalty, v - end.unsqueeze(1))
    ratio = (ratio / rise.clamp_min(1e-9 * problem.cost.scale)).nan_to_num(nan=torch.inf)
    starts = []
    for _ in range(count):
        index = ratio.argmin(-1)
        starts.append(v.gather(1, index[:, None, None].expand(-1, 1, free)))
        near = (unit - unit[index].unsqueeze(1)).square().mean(-1) < settings.apart**2
        ratio = torch.where(near, ratio.abs() + 1e6, ratio)

    return torch.cat(starts, 1)


def _predicted_rise(model: LocalModel, penalty: Tensor, moves: Tensor) -> Tensor:
    """What the model says of the rise of the merit over moves `(rows, points, free)`, with shape `(rows, points)`."""
    own = model.weighted(penalty)
    quadratic = moves @ model.gradient.unsqueeze(-1) + 0.5 * ((moves @ model.hessian) * moves).sum(-1, keepdim=True)
    values = own.value.unsqueeze(1) + moves @ own.jacobian.mT
    outside = torch.maximum(values - own.upper.unsqueeze(1), own.lower.unsqueeze(1) - values).clamp_min(0.0)

    return quadratic.squeeze(-1) + apply(outside, own.weight) - own.penalty(own.value).unsqueeze(-1)


def _merit(problem: Problem, v: Tensor, penalty: Tensor) -> Tensor:
    """The merit at points `(rows, points, free)`, with shape `(rows, points)`; infinite where it is no number."""
    rows, points, _ = v.shape
    many = problem.select(torch.arange(rows, device=v.device).repeat_interleave(points))
    point = many.evaluate(v.flatten(0, 1))
    outside = torch.maximum(point.values - many.upper, many.lower - point.values).clamp_min(0.0).sum(-1)
    outside = outside + torch.where(many.movable, 0.0, (point.noises - many.rest).abs()).sum(-1)
    merit = many.cost.value(point.noises, many.rest) + penalty.repeat_interleave(points) * outside

    return merit.reshape(rows, points).nan_to_num(nan=torch.inf)


def _run(problem: Problem, best: Minima, row: Tensor, starts: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
    """Runs from starts `(runs, free)` of given rows; the best become better.

    Returns:
        Where each run ended, with shape `(runs, free)`, and whether at a minimum, with shape `(runs,)`.
    """
    known = _known(best)
    cutoff = known if problem.cutoff is None else torch.minimum(known, problem.cutoff)
    coarse = replace(settings, tolerance=settings.coarse_tolerance, steps=settings.coarse_steps)
    found = minimize(replace(problem, cutoff=cutoff).select(row), starts, coarse)
    done = found.status == SolverStatus.CONVERGED
    cost = torch.where(done, found.cost, torch.inf)
    # Of each row the cheapest run, the first of equals.
    order = cost.argsort(stable=True)
    order = order[row[order].argsort(stable=True)]
    first = torch.ones_like(order, dtype=torch.bool)
    first[1:] = row[order][1:] != row[order][:-1]
    cheapest = order[first]
    bound = known[row[cheapest]]
    lower = cost[cheapest] < bound - settings.gain * (problem.cost.scale + bound).nan_to_num(posinf=0.0)
    cheapest = cheapest[lower]
    if len(cheapest):
        fine = replace(settings, tolerance=settings.polish * settings.tolerance)
        polished = minimize(problem.select(row[cheapest]), found.noises[cheapest, : problem.free], fine)
        better = (polished.status == SolverStatus.CONVERGED) & (polished.cost < known[row[cheapest]])
        _put(best, row[cheapest[better]], select(polished, better.nonzero().squeeze(-1)))

    return found.noises[:, : problem.free], done


def _risk(ends: Tensor, finished: Tensor, best: Minima, settings: Settings) -> Tensor:
    """The probability that a lower minimum was missed, by where the runs `(rows, runs, free)` of each row ended."""
    runs = ends.shape[1]
    same = (ends.unsqueeze(1) - ends.unsqueeze(2)).abs().amax(-1) < settings.same_minimum
    same &= finished.unsqueeze(1) & finished.unsqueeze(2)
    earlier = torch.ones(runs, runs, dtype=torch.bool, device=ends.device).tril(-1)
    minima = (~(same & earlier).any(-1)).sum(-1)
    searches = settings.screened_worth * (runs - 1) + 1

    return (minima.to(ends) / (searches * (searches - 1))).clamp(max=1.0)


@lru_cache(maxsize=64)
def _normal_points(points: int, free: int, number: int) -> Tensor:
    """Scrambled Sobol points of normal spread, other ones for each round, with shape `(points, free)`."""
    sobol: Tensor = torch.quasirandom.SobolEngine(free, scramble=True, seed=number).draw(points, dtype=torch.float64)
    normal: Tensor = torch.special.ndtri(sobol.clamp(1e-9, 1 - 1e-9))

    return normal


def _put(best: Minima, rows: Tensor, other: Minima) -> None:
    def put(mine: Tensor, theirs: Tensor) -> Tensor:
        mine[rows] = theirs
        return mine

    map_tensors(put, best, other)
