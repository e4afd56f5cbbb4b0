"""The exact solver on problems with nothing causal in them: closed forms and grids."""

from typing import ClassVar

import pytest
import torch

import deepbc as bc
from deepbc.distances import Distance
from deepbc.solvers.problem import Cost, Problem, SolverStatus, Term, _jacobian


def problem(law, rest, *, free, lower=None, upper=None, distances=None, movable=None) -> Problem:
    rest = torch.as_tensor(rest, dtype=torch.float64)
    none = rest.new_zeros(len(rest), 0)
    lower = none if lower is None else torch.as_tensor(lower, dtype=torch.float64)
    distances = distances or [(bc.Squared(), 1.0)] * rest.shape[-1]
    terms = [Term(distance, weight, 1) for distance, weight in distances]
    return Problem(
        rest=rest,
        movable=torch.ones_like(rest, dtype=torch.bool) if movable is None else torch.tensor(movable),
        lower=lower,
        upper=lower if upper is None else torch.as_tensor(upper, dtype=torch.float64),
        given={},
        law=law,
        cost=Cost(terms, rest),
        free=free,
    )


def nothing(v):
    return v[:, :0]


def test_quadratic_in_one_step():
    # Minimise (v - 1)^2 + 3 (2 v + 5 - 0)^2, so v = (1 - 30) / 13.
    law = lambda v, given: (2 * v + 5, nothing(v))  # noqa: E731
    terms = [(bc.Squared(), 1.0), (bc.Squared(), 3.0)]
    solution = bc.Exact(steps=3).solve(problem(law, [[1.0, 0.0]], free=1, distances=terms))
    assert solution.noises[0, 0].item() == pytest.approx(-29 / 13, abs=1e-12)
    assert solution.status.tolist() == [SolverStatus.CONVERGED]


def test_constraint_is_met_by_the_least_move():
    # On the line 3 a + 4 b = 10 the point nearest to the origin is (1.2, 1.6).
    law = lambda v, given: (nothing(v), (3 * v[:, :1] + 4 * v[:, 1:]))  # noqa: E731
    solution = bc.Exact().solve(problem(law, [[0.0, 0.0]], free=2, lower=[[10.0]]))
    assert solution.noises[0].tolist() == pytest.approx([1.2, 1.6], abs=1e-9)


def test_curved_constraint():
    # The point of the circle of radius 2 around (3, 0) nearest to the origin is (1, 0).
    law = lambda v, given: (nothing(v), (v[:, :1] - 3).square() + v[:, 1:].square())  # noqa: E731
    solution = bc.Exact().solve(problem(law, [[0.0, 0.5]], free=2, lower=[[4.0]]))
    distance = solution.noises[0] - torch.tensor([3.0, 0.0])
    start = torch.tensor([0.0, 0.5], dtype=torch.float64) - torch.tensor([3.0, 0.0])
    assert distance.tolist() == pytest.approx((2 * start / start.norm()).tolist(), abs=1e-6)


def test_multistart_finds_the_lower_of_two_minima():
    # (v - 0)^2 + (w(v) - 0)^2 with two wells of which the nearer one is the higher.
    def wells(v):
        return 3 - 2.9 * torch.exp(-10 * (v - 2).square()) - 1.0 * torch.exp(-4 * (v + 1).square())

    law = lambda v, given: (2 * wells(v), nothing(v))  # noqa: E731
    rows = torch.linspace(0.2, 0.9, 6, dtype=torch.float64)[:, None]
    rest = torch.cat([rows, torch.zeros_like(rows)], dim=-1)
    solution = bc.Exact(starts=24).solve(problem(law, rest, free=1))
    grid = torch.linspace(-4, 4, 80_001, dtype=torch.float64)
    for row, found in zip(rest, solution.noises, strict=True):
        best = ((grid - row[0]).square() + (2 * wells(grid)).square()).min()
        assert (found - row).square().sum() <= best + 1e-6


def test_rows_are_solved_as_if_alone():
    law = lambda v, given: (v.exp() - 2, nothing(v))  # noqa: E731
    rest = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    together = bc.Exact().solve(problem(law, rest, free=1))
    for k in range(0, 50, 7):
        alone = bc.Exact().solve(problem(law, rest[k : k + 1], free=1))
        # Beside others a row may take a step more than it needs.
        assert torch.allclose(alone.noises[0], together.noises[k], rtol=0, atol=1e-6)


def test_rows_without_a_number_say_so():
    law = lambda v, given: (torch.where(v < 3, v.log(), torch.nan), nothing(v))  # noqa: E731
    rest = torch.tensor([[-10.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    solution = bc.Exact().solve(problem(law, rest, free=1))
    assert solution.status.tolist() == [SolverStatus.NON_FINITE, SolverStatus.CONVERGED]


def test_fixed_implied_noises_become_constraints():
    law = lambda v, given: (v.sum(-1, keepdim=True) - 3, nothing(v))  # noqa: E731
    held = [[True, False, True], [True, True, False]]
    solution = bc.Exact().solve(problem(law, [[0.0, 0.0, 0.0]] * 2, free=2, movable=held))
    assert solution.noises[0].tolist() == pytest.approx([1.5, 0.0, -1.5], abs=1e-9)
    assert solution.noises[1].tolist() == pytest.approx([1.5, 1.5, 0.0], abs=1e-9)
    assert solution.noises[1, 2].item() == 0.0


def test_noise_rests_at_its_kink():
    # Minimise |a| + 2 |b| subject to a + b = 3: all in a.
    law = lambda v, given: (nothing(v), v.sum(-1, keepdim=True))  # noqa: E731
    terms = [(bc.Absolute(), 1.0), (bc.Absolute(), 2.0)]
    solution = bc.Exact().solve(problem(law, [[0.0, 0.0]], free=2, lower=[[3.0]], distances=terms))
    assert solution.noises[0].tolist() == [pytest.approx(3.0), 0.0]


def test_interval_binds_only_where_it_must():
    law = lambda v, given: (nothing(v), v)  # noqa: E731
    rest = torch.tensor([[0.0], [5.0], [2.0]], dtype=torch.float64)
    ends = {"lower": [[1.0]] * 3, "upper": [[3.0]] * 3}
    solution = bc.Exact().solve(problem(law, rest, free=1, **ends))
    assert solution.noises[:, 0].tolist() == pytest.approx([1.0, 3.0, 2.0], abs=1e-9)


def test_jacobian_is_the_same_from_either_side():
    v = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    few = torch.stack([v.prod(-1), v.sin().sum(-1)], dim=-1)
    many = torch.cat([few, v.exp(), v.pow(3)], dim=-1)
    wide = _jacobian(many, v)
    assert torch.allclose(wide[:, :2], _jacobian(torch.stack([v.prod(-1), v.sin().sum(-1)], dim=-1), v))
    assert torch.allclose(wide[:, 2:4], torch.diag_embed(v.exp()))


def test_costs_are_a_smooth_part_and_kinks():
    class Steep(Distance):
        weights: ClassVar[dict[str, float]] = {}

        def _value(self, u_star, u):
            return (3 * (u_star - u).abs() + (u_star - u).square()).sum(-1)

    rest = torch.zeros(7, 1, dtype=torch.float64)
    cost = Cost([Term(Steep(), 2.0, 1)], rest)
    assert cost.kinked.all()
    z = torch.tensor([[-2.0], [-0.1], [-0.01], [0.0], [0.02], [0.3], [1.0]], dtype=torch.float64)
    assert torch.allclose(cost.kinks(rest), torch.full_like(z, 6.0), rtol=0, atol=1e-5)
    assert torch.allclose(cost.gradient(z, rest), 4 * z, rtol=0, atol=1e-5)
    assert torch.allclose(cost.curvature(z, rest), torch.full_like(z, 4.0), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: bc.Exact(starts=-1), "Exact starts"),
        (lambda: bc.Exact(steps=0), "Exact steps"),
        (lambda: bc.Exact(tolerance=0.0), "Exact tolerance"),
        (lambda: bc.Linearized(penalty=-1), "Linearized penalty"),
        (lambda: bc.Linearized(damping=-1), "Linearized damping"),
        (lambda: bc.Gradient(learning_rate=0), "Gradient learning_rate"),
        (lambda: bc.Sparse(0), "Sparse keep"),
        (lambda: bc.Sparse(1, solver=bc.Sparse(1)), "another solver than Sparse"),
        (lambda: bc.Sparse(1, solver="exact"), "expected a Solver"),
        (lambda: bc.Sparse(1, by="row"), "'coordinate' or 'variable'"),
        (lambda: bc.Sparse(1, search="all"), "'greedy' or 'exhaustive'"),
    ],
)
def test_bad_settings_are_refused(make, part):
    with pytest.raises(bc.SettingError) as caught:
        make()
    assert part in str(caught.value)
