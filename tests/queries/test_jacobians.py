"""The derivatives that a solver is told, against differences of the law that it is told."""

from dataclasses import replace

import pytest
import torch

import deepbc as bc
from deepbc.solvers.problem import Solution, SolverStatus


class Spy(bc.Solver):
    """Leaves everything as it is, and keeps the problem."""

    pins = True

    def solve(self, problem):
        self.problem = problem
        return Solution(problem.rest, torch.full((problem.rows,), int(SolverStatus.MAX_STEPS)))


@pytest.fixture(scope="module")
def model():
    #  v (vector) -> c;  a -> b, c, p;  b -> c, d, p;  c -> d;  p = a b -> d;  d -> e
    graph = bc.CausalGraph.parse("v -> c; a -> b; a, b -> c; a, b -> p; b, c, p -> d; d -> e")
    stream = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=stream, dtype=torch.float64)  # noqa: E731
    v, a = draw(400, 2), draw(400)
    b = torch.sin(a) + draw(400) / 2
    c = (0.3 * a + 0.5 * b + 0.2 * v.sum(-1) + 0.3 * draw(400)).exp()
    d = torch.sigmoid(b - c + 0.3 * a * b + draw(400))
    rows = {"v": v, "a": a, "b": b, "c": c, "d": d, "e": torch.sinh(2 * d) + draw(400)}
    mechanisms = {
        "a": bc.Flow(),
        "b": bc.Equation(
            predict=lambda u, parents: torch.sin(parents["a"]) + u / 2,
            abduct=lambda x, parents: 2 * (x - torch.sin(parents["a"])),
        ),
        "c": bc.Flow(hidden=[8], correction=True),
        "p": bc.Predictor(lambda parents: parents["a"] * parents["b"]),
        "d": bc.Flow(layers=["spline", "affine"], hidden=[8], correction=False),
        "e": bc.Additive(hidden=[8]),
    }
    scm = bc.SCM(graph, mechanisms, bounds={"c": (0, None), "d": (0, 1)})
    scm.fit(rows, seed=0, training=bc.Training(epochs=5))
    return scm, {name: each[:40] for name, each in rows.items()}, {name: each[40:80] for name, each in rows.items()}


@pytest.mark.parametrize(
    ("asked", "scope"),
    [("b", "abcde"), ("c", "abcde"), ("e", "abcde"), ("bd", "abcde"), ("ce", "abcde"), ("c", "bde"), ("e", "bde")],
)
def test_derivatives_are_those_of_differences(model, asked, scope):
    scm, factual, other = model
    spy = Spy()
    bc.backtrack(scm, factual, {name: other[name] for name in asked}, solver=spy, scope=[*scope])
    problem = spy.problem
    v = problem.start + 0.3

    point = problem.linearize(v)

    assert problem.slopes is not None
    assert torch.allclose(point.noises, problem.evaluate(v).noises, rtol=1e-10, atol=1e-10)
    h = 1e-5
    for k in range(problem.free):
        way = h * torch.eye(problem.free, dtype=torch.float64)[k]
        ahead, behind = (problem.evaluate(v + side * way).noises[:, problem.free :] for side in (1, -1))
        assert torch.allclose(point.jacobian[..., k], (ahead - behind) / (2 * h), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("far", [8.0, 20.0, 60.0])
def test_derivatives_far_out_are_those_of_autograd(model, far):
    # Values stand at their bounds, where they no longer react.
    scm, factual, other = model
    spy = Spy()
    bc.backtrack(scm, factual, {"e": other["e"]}, solver=spy, scope=[*"abcde"])
    problem = spy.problem
    stream = torch.Generator().manual_seed(1)
    v = problem.start + far * torch.randn(problem.start.shape, generator=stream, dtype=torch.float64)

    told, derived = problem.linearize(v).jacobian, replace(problem, slopes=None).linearize(v).jacobian

    assert told.isfinite().all()
    assert torch.allclose(told, derived, rtol=1e-4, atol=1e-9)


def test_vectors_that_move_are_derived_as_a_whole(model):
    scm, factual, other = model
    spy = Spy()
    bc.backtrack(scm, factual, {"c": other["c"]}, solver=spy)
    assert spy.problem.slopes is None
    assert spy.problem.linearize(spy.problem.start).jacobian.shape == (40, 1, 4)


@pytest.mark.parametrize("ask", [bc.backtrack, bc.backtrack_samples])
def test_inference_mode_is_refused(model, ask):
    scm, factual, other = model
    with torch.inference_mode(), pytest.raises(bc.SettingError, match="inference_mode"):
        ask(scm, factual, {"c": other["c"]})
    with torch.no_grad():
        few = {name: each[:2] for name, each in factual.items()}
        assert (bc.backtrack(scm, few, {"c": other["c"][:2]}).status == "converged").all()
