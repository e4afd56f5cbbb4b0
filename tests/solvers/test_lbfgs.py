"""The two-loop recursion against the dense BFGS formula, and the correction along the step."""

import numpy as np
import pytest
import torch

from deepbc.solvers.lbfgs import MEMORY, LBFGSMemory
from deepbc.solvers.quadratic_model import QuadraticModel

ROWS, FREE = 6, 4


def model(stream, free=FREE):
    """A Gauss-Newton model with one implied noise, and its dense inverse Hessian for each row."""
    jacobian = torch.randn(ROWS, 1, free, generator=stream, dtype=torch.float64)
    inverse, inverse_curvature = torch.full((ROWS, free), 0.5).double(), torch.full((ROWS, 1), 0.25).double()
    made = QuadraticModel(
        torch.zeros_like(inverse), inverse, jacobian, torch.zeros_like(inverse_curvature), inverse_curvature
    )
    curvature = 2 * np.eye(free) + 4 * jacobian.mT.numpy() @ jacobian.numpy()

    return made, np.linalg.inv(curvature)


@pytest.mark.parametrize("free", [1, FREE])
def test_two_loop_recursion_is_the_dense_inverse(free):
    stream = torch.Generator().manual_seed(0)
    made, dense = model(stream, free)
    memory, pairs = LBFGSMemory(), []
    for _ in range(MEMORY + 1):
        step, change = torch.randn(2, ROWS, free, generator=stream, dtype=torch.float64)
        # At most as long as the step, so that the curvature along it is positive.
        change = 3 * step + change * step.norm(dim=-1, keepdim=True) / change.norm(dim=-1, keepdim=True)
        # The change is right as it is, so that nothing is corrected.
        memory = memory.update(step, change, *[(step * change).sum(-1)] * 2, torch.ones(ROWS, dtype=torch.bool))
        pairs.append((step.numpy()[..., None], change.numpy()[..., None]))

    for s, y in pairs[-MEMORY:]:
        rho = 1 / (s.transpose(0, 2, 1) @ y)
        bent = np.eye(free) - rho * y @ s.transpose(0, 2, 1)
        dense = bent.transpose(0, 2, 1) @ dense @ bent + rho * s @ s.transpose(0, 2, 1)
    gradient = torch.randn(ROWS, free, generator=stream, dtype=torch.float64)
    np.testing.assert_allclose(memory.solve(made, gradient), (dense @ gradient.numpy()[..., None])[..., 0], rtol=1e-10)


def test_pair_has_the_curvature_at_the_end_of_the_step():
    # Along a step of length 1 the cost is t^2 + t^3: the gradient changes by 5, the second derivative at the end is 8.
    step, change, bend = torch.ones(1, 1).double(), torch.tensor([[5.0]]).double(), torch.tensor([8.0]).double()
    memory = LBFGSMemory().update(step, change, change[:, 0], bend, torch.tensor([True]))
    nothing = QuadraticModel(
        *(torch.zeros(1, 1).double(),) * 2, torch.zeros(1, 0, 1).double(), *(torch.zeros(1, 0).double(),) * 2
    )
    # At the end the gradient is 5, so that Newton's step is 5 / 8 back.
    assert memory.solve(nothing, change).item() == 5 / 8


@pytest.mark.parametrize("free", [1, FREE])
def test_rows_without_a_step_get_no_pair(free):
    stream = torch.Generator().manual_seed(1)
    made, dense = model(stream, free)
    step = torch.randn(ROWS, free, generator=stream, dtype=torch.float64)
    made_it = torch.arange(ROWS) % 2 == 0
    memory = LBFGSMemory().update(step, 7 * step, 7 * step.square().sum(-1), torch.zeros(ROWS).double(), made_it)
    gradient = torch.randn(ROWS, free, generator=stream, dtype=torch.float64)
    initial = (dense @ gradient.numpy()[..., None])[..., 0]

    for some in (memory.reset(), memory):
        differs = np.abs(some.solve(made, gradient).numpy() - initial).max(-1) > 1e-9
        assert differs.tolist() == (made_it.tolist() if some is memory else [False] * ROWS)
