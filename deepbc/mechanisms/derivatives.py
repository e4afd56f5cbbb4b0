"""Derivatives by autograd of laws that act row by row: what a mechanism that knows none of its own falls back on."""

__all__ = ["invert_by_autograd", "value_and_gradients", "value_and_jacobian"]

from collections.abc import Callable

import torch
from torch import Tensor


def value_and_gradients(law: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Computes outputs `(rows, 1)` of a law that acts row by row, and their derivatives by each of its inputs."""
    with torch.enable_grad():
        inputs = tuple(each.detach().requires_grad_() for each in inputs)
        outputs = law(*inputs)
        if not outputs.requires_grad:
            return outputs, tuple(torch.zeros_like(each) for each in inputs)
        gradients = torch.autograd.grad(outputs.sum(), inputs, materialize_grads=True)

    return outputs.detach(), gradients


def value_and_jacobian(law: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Computes outputs `(rows, outputs)` of a law that acts row by row, and the Jacobians `(rows, outputs, inputs)`."""
    with torch.enable_grad():
        inputs = tuple(each.detach().requires_grad_() for each in inputs)
        outputs = law(*inputs)
        if not outputs.requires_grad or not outputs.shape[-1]:
            return outputs.detach(), tuple(each.new_zeros(*outputs.shape, each.shape[-1]) for each in inputs)
        rows = [
            torch.autograd.grad(each.sum(), inputs, retain_graph=True, materialize_grads=True)
            for each in outputs.unbind(-1)
        ]

    return outputs.detach(), tuple(torch.stack(each, dim=-2) for each in zip(*rows, strict=True))


def invert_by_autograd(abduct: Callable[[Tensor, Tensor], Tensor], x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the noise `(*batch, noise)` and the log-determinant `(*batch,)` of its Jacobian by the value."""
    wanted = torch.is_grad_enabled()
    with torch.enable_grad():
        point = x if wanted and x.requires_grad else x.detach().requires_grad_()
        u = abduct(point, parents)
        jacobian = torch.stack([_gradient(each, point) for each in u.unbind(-1)], dim=-2)
        log_volume = torch.linalg.slogdet(jacobian).logabsdet

    return (u, log_volume) if wanted else (u.detach(), log_volume.detach())


def _gradient(output: Tensor, point: Tensor) -> Tensor:
    """Computes the gradient of each row's output, which depends on that row of the point alone."""
    if not output.requires_grad:
        return torch.zeros_like(point)

    return torch.autograd.grad(output.sum(), point, create_graph=True, materialize_grads=True)[0]
