r"""Adam on one flat vector.

All weights of a module become views of one vector, all gradients views of another. A step is then a handful of
operations whatever the number of weights, its state is a few vectors that a checkpoint can hold, and a sum of gradients
over processes is one call. `torch.optim` gives the same steps (a test compares them) but loads torch's compiler on
first use, which takes as long as the import of torch itself.

References:
    Adam: A Method for Stochastic Optimization (Kingma and Ba, 2015), algorithm 1. https://arxiv.org/abs/1412.6980
    Decoupled Weight Decay Regularization (Loshchilov and Hutter, 2019). https://arxiv.org/abs/1711.05101
    Acceleration of Stochastic Approximation by Averaging (Polyak and Juditsky, 1992), with exponential weights.
"""

__all__ = ["Adam"]

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    r"""Creates the optimiser and makes the module's weights views of `self.weights`.

    Args:
        module: The module whose weights are optimised; they are all of one dtype and on one device.
        learning_rate: The step size.
        pull: The strength of an L2 penalty toward the start of the weights (as decoupled weight decay, which has it
            toward zero).
        horizon: The number of steps over which `self.average` averages the weights.
    """

    def __init__(self, module: nn.Module, learning_rate: float, *, pull: float = 0.0, horizon: int = 1) -> None:
        parameters = list(module.parameters())
        self.learning_rate, self.pull, self.horizon = learning_rate, pull, horizon
        self.steps = 0
        self.weights = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.start = self.weights.clone()
        self.average = self.weights.clone()
        self.gradient = torch.zeros_like(self.weights)
        self.mean = torch.zeros_like(self.weights)
        self.square = torch.zeros_like(self.weights)

        sizes = [parameter.numel() for parameter in parameters]
        pairs = zip(self.weights.split(sizes), self.gradient.split(sizes), strict=True)
        for parameter, (weights, gradient) in zip(parameters, pairs, strict=True):
            parameter.requires_grad_(True)
            parameter.data = weights.view_as(parameter)
            parameter.grad = gradient.view_as(parameter)

    def clip(self, norm: float) -> None:
        """Shortens the gradient to the given norm if it is longer."""
        self.gradient.mul_((norm / (self.gradient.norm() + 1e-6)).clamp(max=1.0))

    def step(self) -> None:
        """Moves the weights by one step and clears the gradient."""
        self.steps += 1
        self.mean.lerp_(self.gradient, 1 - BETA_1)
        self.square.mul_(BETA_2).addcmul_(self.gradient, self.gradient, value=1 - BETA_2)

        root = (self.square / (1 - BETA_2**self.steps)).sqrt_().add_(EPSILON)
        self.weights.addcdiv_(self.mean, root, value=-self.learning_rate / (1 - BETA_1**self.steps))
        self.weights.lerp_(self.start, min(1.0, self.learning_rate * self.pull))
        self.average.lerp_(self.weights, max(1 / self.horizon, 1 / self.steps))
        self.gradient.zero_()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Gives the module the averaged weights for a while."""
        weights = self.weights.clone()
        self.weights.copy_(self.average)
        try:
            yield
        finally:
            self.weights.copy_(weights)

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors that, with `steps`, are the whole state."""
        return {"weights": self.weights, "average": self.average, "mean": self.mean, "square": self.square}
