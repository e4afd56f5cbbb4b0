r"""Sequential quadratic programming with exact penalties, a structured secant Hessian and Levenberg-Marquardt damping.

The merit function is the cost plus :math:`\nu` times the violation of all constraints (in l1 norm). Kinks of the cost
are penalties of the same form with weights of their own, so that both enter a `QuadraticProgram` as they are (Sl1QP).
Its Hessian is that of Gauss-Newton, :math:`J^\top D J`, plus a matrix :math:`S` for what that leaves out,

.. math:: S s \approx (J_+ - J)^\top r_+ + (A_+ - A)^\top \lambda,

which is updated as by Dennis, Gay and Welsch; along the step :math:`s` it has the curvature of the cubic Hermite
interpolant at the end of the step rather than its mean. Damping rises where a step lowers the merit by less than
predicted, after a second-order correction where constraints are curved. Without constraints and kinks this is a
structured quasi-Newton method for nonlinear least squares. A solution is stationary by the multipliers of its last
program: at a kink they are a subgradient, so that a minimum at a corner is recognised.

References:
    An adaptive nonlinear least-squares algorithm (Dennis, Gay and Welsch, 1981).
    Practical methods of optimization (Fletcher, 1987), section 14.4: the Sl1QP method.
    Numerical Optimization (Nocedal and Wright, 2006), sections 10.3, 15.6 and 18.3.
"""

__all__ = ["Minima", "minimize"]

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.numerics.batched import map_tensors, select
from deepbc.solvers.local_model import LocalModel, elastic_noises
from deepbc.solvers.problem import Problem, SolverStatus
from deepbc.solvers.quadratic_program import QuadraticProgram, apply
from deepbc.solvers.settings import Settings

# Runs that stopped are removed when they are more than so many, and more than this part of all.
COMPACTION_ROWS, COMPACTION_SHARE = 32, 0.1
# The largest entry below which a Jacobian is zero.
ZERO_JACOBIAN = 1e-13
# A noise that ends so near to its kink is at its kink.
AT_KINK = 1e-8
# A run is given up if so many times the decrease that its model predicts would not take it below the cutoff: damped and
# bounded steps promise little. With 3 the nearest choice was given up on 1 of 390 rows of `tests/queries/test_choices`.
CUTOFF_SAFETY = 10.0
# Costs and merits are exact to this part.
ROUNDING = 1e-14
# Steps that promise less than this part of the cost tell nothing of how quadratic it is.
TELLING = 1e-2


@dataclass(frozen=True, slots=True)
class Minima:
    """Where runs ended.

    Args:
        noises: The free and implied noises, with shape `(runs, noises)`.
        cost: The cost, with shape `(runs,)`.
        violation: The largest violation of a constraint, with shape `(runs,)`.
        penalty: The weight of the violation in the merit function, with shape `(runs,)`.
        status: The `SolverStatus`, with shape `(runs,)`.
        first_cost: The cost at the start, with shape `(runs,)`.
        surprise: By what part a step lowered the merit more or less than predicted, at most, with shape `(runs,)`.
    """

    noises: Tensor
    cost: Tensor
    violation: Tensor
    penalty: Tensor
    status: Tensor
    first_cost: Tensor
    surprise: Tensor
    bend: Tensor


def minimize(problem: Problem, start: Tensor, settings: Settings) -> Minima:
    """Finds a local minimum from each row's start.

    Args:
        problem: The problem.
        start: The free coordinates to begin with, with shape `(rows, free)`.
        settings: The constants.
    """
    method = _Method(settings, elastic_noises(problem))
    run = method.begin(problem, start)
    parts: list[tuple[Tensor, Minima]] = []

    for _ in range(settings.steps):
        stopped = method.stopped(run)
        count = int(stopped.sum())
        if count == len(stopped):
            break
        if count > max(COMPACTION_ROWS, COMPACTION_SHARE * len(stopped)):
            ended = select(run, stopped.nonzero().squeeze(-1))
            parts.append((ended.index, method.finish(ended)))
            run, stopped = select(run, (~stopped).nonzero().squeeze(-1)), stopped[~stopped]
        run = method.advance(run, ~stopped)

    parts.append((run.index, method.finish(run)))
    order = torch.cat([index for index, _ in parts]).argsort()

    return map_tensors(lambda *each: torch.cat(each)[order], *(ended for _, ended in parts))


@dataclass(frozen=True, slots=True)
class _Run:
    """Runs under way.

    Args:
        problem: The problem of each.
        index: Their numbers.
        model: The problem at the iterates.
        secant: The part :math:`S` of the Hessian, with shape `(runs, free, free)`.
        multipliers: Those of the conditions, with shape `(runs, conditions)`.
        penalty: The weight of the violation, in the merit function, with shape `(runs,)`.
        damping: The damping, with shape `(runs,)`.
        step: The next step, with shape `(runs, free)`.
        predicted: The decrease of the merit that it promises, with shape `(runs,)`.
        first_cost: The cost at the start, with shape `(runs,)`.
        surprise: By what part a step lowered the merit more or less than predicted so far, with shape `(runs,)`.
    """

    problem: Problem
    index: Tensor
    model: LocalModel
    secant: Tensor
    multipliers: Tensor
    penalty: Tensor
    damping: Tensor
    step: Tensor
    predicted: Tensor
    share: Tensor
    radius: Tensor
    first_cost: Tensor
    surprise: Tensor
    bend: Tensor


@dataclass(frozen=True, slots=True)
class _Method:
    """The method: its constants, and which noises have a kink or are implied and may be fixed."""

    settings: Settings
    held: Tensor

    def begin(self, problem: Problem, start: Tensor) -> _Run:
        model = LocalModel.of(problem, problem.linearize(start), self.held)
        one = torch.ones_like(model.cost)
        run = _Run(
            problem=problem,
            index=torch.arange(problem.rows, device=start.device),
            model=model,
            secant=torch.zeros_like(model.hessian),
            multipliers=torch.zeros_like(model.conditions.value),
            penalty=self.settings.first_penalty * problem.cost.scale * one,
            damping=self._least_damping(problem) * one,
            step=torch.zeros_like(start),
            predicted=one,
            share=one,
            first_cost=model.cost,
            radius=self.settings.max_step * one,
            surprise=torch.zeros_like(one),
            bend=torch.zeros_like(one),
        )

        return self._direct(run)

    def stopped(self, run: _Run) -> Tensor:
        """Which runs stop, converged or not; NaN stops."""
        going = ~self._stationary(run) & run.predicted.isfinite() & (run.radius >= self.settings.least_radius)
        if run.problem.cutoff is not None:
            promised = run.model.cost - CUTOFF_SAFETY * _promise(run)
            feasible = run.model.largest_violation <= self.settings.feasibility
            going &= ~(feasible & (promised > run.problem.cutoff))

        return ~going

    def _stationary(self, run: _Run) -> Tensor:
        """Whether the next step is the last: it would hardly save anything, and constraints hold now or never."""
        settings, cost = self.settings, run.problem.cost.scale + run.model.cost
        feasible = run.model.largest_violation <= settings.feasibility
        hopeless = run.penalty >= settings.most_penalty
        unit = torch.where(hopeless & ~feasible, cost + run.penalty * run.model.violation, cost)

        return (feasible | hopeless) & (_promise(run) <= settings.tolerance * unit)

    def _still(self, run: _Run) -> Tensor:
        """Whether the next step would hardly save anything at the present penalty."""
        return _promise(run) <= self.settings.tolerance * (run.problem.cost.scale + run.model.cost)

    def advance(self, run: _Run, going: Tensor) -> _Run:
        """Tries the next step of each run; those that are not going stay."""
        trial, lowered = self._try(run, run.step)
        failed = (going & ~self._acceptable(run, trial, lowered) & (trial.violation > 0)).nonzero().squeeze(-1)
        if len(failed):
            # Against the Maratos effect.
            part = select(run, failed)
            corrected = self._try(part, self._second_order_step(part, select(trial, failed)))
            better = corrected[1] > lowered[failed].nan_to_num(nan=-torch.inf)
            trial = map_tensors(lambda all_, new: all_.index_copy(0, failed[better], new[better]), trial, corrected[0])
            lowered = lowered.index_copy(0, failed[better], corrected[1][better])

        accepted = going & self._acceptable(run, trial, lowered)
        settings, damping = self.settings, run.damping
        telling = going & (run.predicted > TELLING * (run.problem.cost.scale + run.model.cost))
        surprise = torch.where(telling, (lowered / run.predicted - 1).abs(), 0.0).maximum(run.surprise)
        step = (trial.point.noises - run.model.point.noises)[:, : run.problem.free]
        first, last = apply(run.model.point.jacobian, step), apply(trial.point.jacobian, step)
        bend = ((last - first).abs() / torch.maximum(first.abs(), last.abs()).clamp_min(1e-300)).sum(-1)
        bend = torch.where(telling, bend, 0.0).maximum(run.bend)
        good = accepted & (lowered >= settings.good_ratio * run.predicted)
        less = damping * settings.damping_down
        less = torch.where(less < settings.least_damping, 0.0, less).clamp_min(self._least_damping(run.problem))
        more = (damping * settings.damping_up).clamp_min(settings.first_damping)
        length = _dot(run.step, run.step).sqrt()
        radius = torch.where(good, settings.radius_up * run.radius, run.radius).clamp(max=settings.max_step)
        radius = torch.where(accepted | ~going | self._still(run), radius, settings.radius_down * length)
        ahead = replace(
            run,
            radius=radius,
            surprise=surprise,
            bend=bend,
            secant=_chooser(accepted)(self._updated_secant(run, trial), run.secant),
            model=map_tensors(_chooser(accepted), trial, run.model),
            penalty=torch.where(going, self._updated_penalty(run, accepted), run.penalty),
            damping=torch.where(good, less, torch.where(accepted | ~going, damping, more)),
        )

        return self._direct(ahead)

    def finish(self, run: _Run) -> Minima:
        """Takes the last step of each run if it is better, without its derivatives, and says how it ended."""
        settings, problem, stationary = self.settings, run.problem, self._stationary(run)
        v = run.model.point.noises[:, : problem.free]
        v = torch.where((stationary & run.step.isfinite().all(-1)).unsqueeze(-1), v + run.step, v)
        rest = problem.start
        at_kink = problem.cost.kinked[: problem.free] & ((v - rest).abs() <= AT_KINK)
        point = problem.evaluate(torch.where(at_kink | ~problem.movable[:, : problem.free], rest, v))
        after = LocalModel.of(problem, replace(point, jacobian=torch.zeros_like(run.model.point.jacobian)), self.held)
        slack = ROUNDING * (1 + run.model.cost)
        merits = [each.cost + run.penalty * each.violation for each in (run.model, after)]
        taken = merits[1] <= merits[0] + slack
        model = map_tensors(_chooser(taken), after, run.model)

        violation = model.largest_violation
        feasible = violation <= settings.feasibility
        status = torch.where(stationary & feasible, int(SolverStatus.CONVERGED), int(SolverStatus.MAX_STEPS))
        status = torch.where(stationary & ~feasible, int(SolverStatus.INFEASIBLE), status)
        slopes = torch.where(run.model.conditions.weight.isinf().unsqueeze(-1), run.model.conditions.jacobian, 0.0)
        flat = slopes.abs().flatten(1).sum(-1) < ZERO_JACOBIAN
        status = torch.where(flat & ~feasible & bool(problem.free), int(SolverStatus.ZERO_GRADIENT), status)
        finite = model.cost.isfinite() & violation.isfinite() & run.predicted.isfinite()
        status = torch.where(finite, status, int(SolverStatus.NON_FINITE))
        move = model.point.noises - problem.rest
        fixed = ~problem.movable | (problem.cost.kinked & (move.abs() <= AT_KINK))
        noises = torch.where(fixed, problem.rest, model.point.noises)

        return Minima(noises, model.cost, violation, run.penalty, status, run.first_cost, run.surprise, run.bend)

    def _least_damping(self, problem: Problem) -> float:
        return self.settings.kink_damping if bool(problem.cost.kinked.any()) else 0.0

    def _direct(self, run: _Run) -> _Run:
        """Computes the next step, its multipliers and the decrease that it promises."""
        model, own = run.model, run.model.weighted(run.penalty)
        factor, hessian = self._factored(run)
        step, multipliers = QuadraticProgram(factor, model.gradient, own).solve(run.multipliers)
        share = (run.radius / _dot(step, step).sqrt().clamp_min(1e-300)).clamp(max=1.0)
        step = step * share.unsqueeze(-1)
        along = own.value + apply(own.jacobian, step)
        predicted = own.penalty(own.value) - own.penalty(along)
        predicted = predicted - _dot(model.gradient, step) - 0.5 * _dot(step, apply(hessian, step))

        return replace(run, step=step, multipliers=multipliers, predicted=predicted, share=share)

    def _updated_penalty(self, run: _Run, accepted: Tensor) -> Tensor:
        """The penalty follows the multipliers, up where one has reached it and down slowly."""
        constraint, settings = run.model.conditions.weight.isinf(), self.settings
        if not constraint.shape[-1]:
            return run.penalty
        largest = torch.where(constraint, run.multipliers.abs(), 0.0).amax(-1)
        missed = run.model.largest_violation > settings.feasibility
        reached = accepted & (largest >= (1 - 1e-9) * run.penalty)
        short = missed & (reached | self._still(run))
        least = settings.first_penalty * run.problem.cost.scale
        less = torch.maximum(run.penalty / 2, 2 * largest).clamp_min(least).minimum(run.penalty)
        penalty = torch.where(short, settings.penalty_up * run.penalty, torch.where(accepted, less, run.penalty))

        return penalty.clamp(max=settings.most_penalty)

    def _factored(self, run: _Run) -> tuple[Tensor, Tensor]:
        """The Cholesky factor of the damped Hessian, and the Hessian; without its secant part if not convex."""
        model, free = run.model, run.problem.free
        kinks = run.problem.cost.kinks(run.problem.rest)[:, :free]
        floor = run.problem.cost.floored[:free] * 1e-6
        scale = run.damping.unsqueeze(-1) * (model.hessian.diagonal(dim1=-2, dim2=-1) + kinks) + floor * (kinks > 0)
        hessian, ridge = model.hessian + run.secant, torch.diag_embed(scale)
        factor, failed = _cholesky(hessian + ridge)
        rows = failed.nonzero().squeeze(-1)
        if len(rows):
            values, vectors = torch.linalg.eigh(hessian[rows].nan_to_num())
            floor = 0.1 * model.hessian[rows].diagonal(dim1=-2, dim2=-1).amin(-1, keepdim=True)
            convex = (vectors * values.abs().maximum(floor).unsqueeze(-2)) @ vectors.mT
            hessian = hessian.index_copy(0, rows, convex)
            factor = factor.index_copy(0, rows, _cholesky(convex + ridge[rows])[0])

        return factor, hessian

    def _try(self, run: _Run, step: Tensor) -> tuple[LocalModel, Tensor]:
        """The model after a step, and by how much that lowers the merit."""
        v = run.model.point.noises[:, : run.problem.free]
        trial = LocalModel.of(run.problem, run.problem.linearize(v + step), self.held)
        before, after = (each.cost + run.penalty * each.violation for each in (run.model, trial))

        return trial, torch.where(trial.finite(), before - after, -torch.inf)

    def _acceptable(self, run: _Run, trial: LocalModel, lowered: Tensor) -> Tensor:
        return lowered >= self.settings.accepted_ratio * run.predicted - ROUNDING * (1 + run.model.cost)

    def _second_order_step(self, run: _Run, trial: LocalModel) -> Tensor:
        """The step with the conditions as they are after the first try, so far as they are not linear."""
        own = run.model.weighted(run.penalty)
        bent = replace(own, value=trial.conditions.value - apply(own.jacobian, run.step))
        bent = replace(bent, value=torch.where(bent.value.isfinite(), bent.value, own.value))
        step, _ = QuadraticProgram(self._factored(run)[0], run.model.gradient, bent).solve(run.multipliers)

        return step.nan_to_num()

    def _updated_secant(self, run: _Run, trial: LocalModel) -> Tensor:
        """The secant part after the step to a trial."""
        old, problem = run.model, run.problem
        movable = problem.movable[:, : problem.free]
        step = (trial.point.noises - old.point.noises)[:, : problem.free]
        push = torch.cat([trial.pull, run.multipliers[:, len(self.held) :]], -1)
        inner = self.held >= problem.free
        push = push.index_add(1, self.held[inner] - problem.free, run.multipliers[:, : len(self.held)][:, inner])
        first, last = apply(old.point.jacobian, step), apply(trial.point.jacobian, step)
        implied = (trial.point.noises - old.point.noises)[:, problem.free :]
        rise = torch.cat([implied, trial.point.values - old.point.values], -1)
        change = movable * apply((trial.point.jacobian - old.point.jacobian).mT, push)
        square = _dot(step, step).clamp_min(1e-300)
        end = _dot(push, 2 * first + 4 * last - 6 * rise)
        gap, whole = end - _dot(step, change), _dot(step, apply(trial.hessian, step) + change)
        gap = torch.where(gap.abs() <= 0.5 * whole.abs(), gap, 0.0)
        change = change + (gap / square).unsqueeze(-1) * step
        if problem.free == 1:
            return (change / step).unsqueeze(-1).nan_to_num(posinf=0.0, neginf=0.0)

        sized = _dot(step, change).abs() / _dot(step, apply(run.secant, step)).abs().clamp_min(1e-300)
        secant = run.secant * sized.clamp(max=1.0)[:, None, None]
        miss, whole = change - apply(secant, step), apply(trial.hessian, step) + change
        product = _dot(step, whole)
        # Where the curvature along the step is not positive, the symmetric update of Powell.
        convex = product > 1e-8 * (square * _dot(whole, whole)).sqrt()
        by = torch.where(convex.unsqueeze(-1), whole, step)
        product = torch.where(convex, product, square)[:, None, None]
        outer = miss.unsqueeze(-1) * by.unsqueeze(-2)
        updated = secant + (outer + outer.mT) / product
        updated = updated - _dot(step, miss)[:, None, None] * by.unsqueeze(-1) * by.unsqueeze(-2) / product.square()

        return torch.where(updated.isfinite().all(-1).all(-1)[:, None, None], updated, 0.0)


def _promise(run: _Run) -> Tensor:
    """About what the whole undamped step would save, with shape `(runs,)`."""
    return run.predicted * (1 + run.damping) / run.share


def _cholesky(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Cholesky factors, and which matrices have none."""
    if matrices.shape[-1] == 1:
        return matrices.clamp_min(0.0).sqrt(), ~(matrices[:, 0, 0] > 0)

    factor, info = torch.linalg.cholesky_ex(matrices)

    return factor, info > 0


def _chooser(rows: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    every = bool(rows.all())

    return lambda new, old: new if every or new is old else _where(rows, new, old)


def _where(rows: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(rows.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _dot(one: Tensor, two: Tensor) -> Tensor:
    return (one * two).sum(-1)
