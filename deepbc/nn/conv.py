"""Networks of images: one that reads an image, one that draws one, both under conditions.

Images have shape `(batch, channel, height, width)` and values of about 0 to 1. A condition, such as the parents of the
image, scales and shifts the features of every layer, so that it can act on all of them.

References:
    FiLM: Visual Reasoning with a General Conditioning Layer (Perez et al., 2018).
    Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural Network (Shi et
        al., 2016): the finest step is a rearrangement, because convolutions on full images are what takes time.
"""

__all__ = ["Drawer", "Network", "Reader", "start"]

import math
from abc import ABC, abstractmethod

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

# The coarsest features have at most so many places on a side; the units of the layer between them and the noise, and of
# what is made of a condition.
COARSEST, UNITS, CONDITION = 8, 256, 32
# Units that halve what they get on average are made up for by larger weights.
GAIN = 1.6


class Network(nn.Module, ABC):
    """A network under conditions."""

    @abstractmethod
    def forward(self, inputs: Tensor, condition: Tensor) -> Tensor:
        """Computes outputs from images or noise, with shape `(batch, ...)`, and conditions, `(batch, condition)`."""


def start(network: nn.Module, generator: Generator) -> None:
    """Draws first weights that keep the size of features, from the generator; what modulates begins at nothing."""
    for module in network.modules():
        if not isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            continue
        # Each place of a transposed convolution sees only every other row and column of its kernel.
        fan_in = module.weight[:, 0].numel() / 4 if isinstance(module, nn.ConvTranspose2d) else module.weight[0].numel()
        scale = 0.0 if isinstance(module, _Modulation) else GAIN / math.sqrt(max(1, fan_in))
        with torch.no_grad():
            module.weight.copy_(scale * torch.randn(module.weight.shape, generator=generator))
            if module.bias is not None:
                module.bias.zero_()


class _Modulation(nn.Linear):
    """Scales and shifts features by a condition; at first it leaves them as they are."""

    def __init__(self, channels: int) -> None:
        super().__init__(CONDITION, 2 * channels)

    def forward(self, features: Tensor, condition: Tensor) -> Tensor:  # type: ignore[override] # also takes features
        scale, shift = super().forward(condition)[..., None, None].chunk(2, dim=1)

        return functional.silu(features * (1 + scale) + shift)


def _conditions(inputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, CONDITION), nn.SiLU(), nn.Linear(CONDITION, CONDITION), nn.SiLU())


class _Grid:
    """How an image is halved until it is coarse: the number of halvings, the padding and the coarsest grid."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.channels, self.height, self.width = shape
        self.halvings = max(1, math.ceil(math.log2(max(self.height, self.width) / COARSEST)))
        step = 2**self.halvings
        self.rows, self.columns = -(-self.height // step), -(-self.width // step)
        self.pad = (0, self.columns * step - self.width, 0, self.rows * step - self.height)


class Reader(Network):
    """Creates a network that reads an image.

    Args:
        shape: The channels, height and width of an image.
        condition: The dimension of the condition.
        outputs: How many numbers to read.
        width: The channels of each layer.
    """

    def __init__(self, shape: tuple[int, int, int], condition: int, outputs: int, width: int) -> None:
        super().__init__()
        self.grid = _Grid(shape)
        channels = [4 * shape[0], *[width] * (self.grid.halvings - 1)]
        self.condition = _conditions(condition)
        self.layers = nn.ModuleList(nn.Conv2d(each, width, 4, 2, 1) for each in channels[: self.grid.halvings - 1])
        self.layers.append(nn.Conv2d(channels[-1], width, 3, 1, 1))
        self.modulations = nn.ModuleList(_Modulation(width) for _ in self.layers)
        self.hidden = nn.Linear(width * self.grid.rows * self.grid.columns + CONDITION, UNITS)
        self.last = nn.Linear(UNITS, outputs)

    def forward(self, inputs: Tensor, condition: Tensor) -> Tensor:
        code = self.condition(condition)
        # Not pixel_unshuffle, which leaves a batch of no images as it is.
        blocks = functional.pad(inputs, self.grid.pad).unflatten(-1, (-1, 2)).unflatten(-3, (-1, 2))
        features = blocks.permute(0, 1, 3, 5, 2, 4).flatten(1, 3)
        for layer, modulation in zip(self.layers, self.modulations, strict=True):
            features = modulation(layer(features), code)
        hidden = functional.silu(self.hidden(torch.cat([features.flatten(1), code], dim=1)))
        outputs: Tensor = self.last(hidden)

        return outputs


class Drawer(Network):
    """Creates a network that draws an image from noise.

    Args:
        shape: The channels, height and width of an image.
        condition: The dimension of the condition.
        noise: The dimension of the noise.
        width: The channels of each layer.
    """

    def __init__(self, shape: tuple[int, int, int], condition: int, noise: int, width: int) -> None:
        super().__init__()
        self.grid, self.channels = _Grid(shape), width
        half = max(8, width // 2)
        finer = self.grid.halvings - 1
        widths = [width] * finer + [half]
        self.condition = _conditions(condition)
        self.hidden = nn.Linear(noise + CONDITION, UNITS)
        self.coarse = nn.Linear(UNITS, width * self.grid.rows * self.grid.columns)
        self.first = nn.Conv2d(width, width if finer else half, 3, 1, 1)
        self.layers = nn.ModuleList(nn.ConvTranspose2d(widths[k], widths[k + 1], 4, 2, 1) for k in range(finer))
        self.before = _Modulation(width)
        self.modulations = nn.ModuleList(_Modulation(each) for each in widths)
        self.last = nn.Conv2d(half, 4 * shape[0], 3, 1, 1)

    def forward(self, inputs: Tensor, condition: Tensor) -> Tensor:
        code = self.condition(condition)
        hidden = functional.silu(self.hidden(torch.cat([inputs, code], dim=1)))
        coarse = self.coarse(hidden).reshape(-1, self.channels, self.grid.rows, self.grid.columns)
        features = self.modulations[0](self.first(self.before(coarse, code)), code)
        for layer, modulation in zip(self.layers, self.modulations[1:], strict=True):
            features = modulation(layer(features), code)

        return functional.pixel_shuffle(self.last(features), 2)[..., : self.grid.height, : self.grid.width]
