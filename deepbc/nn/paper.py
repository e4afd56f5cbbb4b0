"""The networks of the paper, and what it prints of them.

Those of faces have batch normalisations, whose running averages lag behind the weights and are not those of averaged
weights at all. So `update_batch_norm` measures them anew, on rows, wherever weights are evaluated or kept: they are a
function of the weights and the data, and a killed fit need not remember them.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), appendix B.3.2.
    Rethinking "Batch" in BatchNorm (Wu and Johnson, 2021), section 3: statistics of the weights as they are.
"""

__all__ = ["FaceClassifier", "FaceDrawer", "FaceReader", "PaperDrawer", "PaperReader", "update_batch_norm"]

import itertools
from collections.abc import Callable, Iterable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from deepbc.nn.conv import Network

# The channels of the layers that halve an image, by its side. The paper prints those of 128; of 64, which needs one
# layer less, we take half of its last five.
CHANNELS = {128: (128, 128, 128, 256, 512, 1024), 64: (64, 64, 128, 256, 512)}
COARSEST = 2
# The paper prints neither channels nor units of its classifiers.
CLASSIFIER, UNITS, DROPPED = (16, 32, 32, 64), 64, 0.5
# Images of such a side and more are halved by the first convolution of a classifier too, which would take most time.
LARGE = 64


class PaperReader(Network):
    """Creates the paper's encoder of 28 x 28 images.

    Four convolutions, each with a ReLU, take 28 to 14, 7, 3 and 1 pixels, so that the pooling of the printed text has
    nothing left to pool; a linear layer of 128 units; and one of the units and the parents.
    """

    def __init__(self, condition: int, outputs: int) -> None:
        super().__init__()
        settings = zip((1, 8, 16, 32), (8, 16, 32, 64), (4, 4, 4, 3), (1, 1, 1, 0), strict=True)
        self.layers = nn.ModuleList(nn.Conv2d(one, two, kernel, 2, pad) for one, two, kernel, pad in settings)
        self.hidden = nn.Linear(64, 128)
        self.last = nn.Linear(128 + condition, outputs)

    def forward(self, inputs: Tensor, condition: Tensor) -> Tensor:
        for layer in self.layers:
            inputs = functional.relu(layer(inputs))
        outputs: Tensor = self.last(torch.cat([condition, self.hidden(inputs.flatten(1))], dim=1))

        return outputs


class PaperDrawer(Network):
    """Creates the paper's decoder of 28 x 28 images.

    The printed text has five transposed convolutions and the parameters of four. Four take 1 pixel to 3, 6, 14 and 28:
    so there are four, with a ReLU before each.
    """

    def __init__(self, condition: int, noise: int) -> None:
        super().__init__()
        settings = zip((64, 64, 32, 16), (64, 32, 16, 1), (3, 4, 4, 4), (0, 1, 0, 1), strict=True)
        self.hidden = nn.Linear(noise + condition, 64)
        self.layers = nn.ModuleList(nn.ConvTranspose2d(one, two, kernel, 2, pad) for one, two, kernel, pad in settings)

    def forward(self, inputs: Tensor, condition: Tensor) -> Tensor:
        features: Tensor = self.hidden(torch.cat([condition, inputs], dim=1))[..., None, None]
        for layer in self.layers:
            features = layer(functional.relu(features))

        return features


class FaceReader(Network):
    """Creates the paper's encoder of faces of 128 x 128 pixels, or a smaller one of 64 x 64.

    Each parent is a channel of one value beside red, green and blue. Convolutions of kernel 3, stride 2 and padding 1,
    each with a batch normalisation and a ReLU, halve the image to 2 x 2; a pooling, by the mean, and a linear layer.

    Args:
        side: The height and width of an image.
        condition: The dimension of the condition.
        outputs: How many numbers to read.
    """

    def __init__(self, side: int, condition: int, outputs: int) -> None:
        super().__init__()
        channels = (3 + condition, *CHANNELS[side])
        self.layers = nn.ModuleList(nn.Conv2d(one, two, 3, 2, 1) for one, two in itertools.pairwise(channels))
        self.norms = nn.ModuleList(_norm(each) for each in channels[1:])
        self.last = nn.Linear(channels[-1], outputs)

    def forward(self, inputs: Tensor, condition: Tensor) -> Tensor:
        planes = condition[..., None, None].expand(-1, -1, *inputs.shape[-2:])
        features = torch.cat([inputs, planes], dim=1)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            features = functional.relu(norm(layer(features)))
        outputs: Tensor = self.last(features.mean((-2, -1)))

        return outputs


class FaceDrawer(Network):
    """Creates the paper's decoder of faces of 128 x 128 pixels, or a smaller one of 64 x 64.

    A linear layer makes features of 2 x 2, which transposed convolutions of kernel 3, stride 2, padding 1 and an output
    padding of 1 double, each but the last with a batch normalisation and a ReLU. The paper prints the channels of five,
    which end at 64 x 64: a sixth makes the three channels of 128 x 128.

    Args:
        side: The height and width of an image.
        condition: The dimension of the condition.
        noise: The dimension of the noise.
    """

    def __init__(self, side: int, condition: int, noise: int) -> None:
        super().__init__()
        channels = (*CHANNELS[side][::-1], 3)
        self.hidden = nn.Linear(noise + condition, channels[0] * COARSEST**2)
        self.layers = nn.ModuleList(
            nn.ConvTranspose2d(one, two, 3, 2, 1, output_padding=1) for one, two in itertools.pairwise(channels)
        )
        self.norms = nn.ModuleList(_norm(each) for each in channels[1:-1])

    def forward(self, inputs: Tensor, condition: Tensor) -> Tensor:
        hidden = self.hidden(torch.cat([condition, inputs], dim=1))
        features = hidden.reshape(len(hidden), -1, COARSEST, COARSEST)
        for layer, norm in zip(self.layers, self.norms, strict=False):
            features = functional.relu(norm(layer(features)))
        drawn: Tensor = self.layers[-1](features)

        return drawn


class FaceClassifier(nn.Module):
    """Creates the paper's classifier of an attribute, which reads one number from images.

    Four convolutions of kernel 3 and padding 1, each with a ReLU and a pooling by the maximum, then two linear layers
    with a ReLU and a dropout between them. The paper prints no sizes: here there are 16, 32, 32 and 64 channels and 64
    units, half of which are dropped; the first convolution has stride 2 where the image has 64 pixels on each side or
    more.

    Args:
        shape: The channels, height and width of an image.
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        stride = 2 if min(shape[1:]) >= LARGE else 1
        pairs = list(itertools.pairwise((shape[0], *CLASSIFIER)))
        self.layers = nn.ModuleList(nn.Conv2d(one, two, 3, 1 if k else stride, 1) for k, (one, two) in enumerate(pairs))
        rows, columns = (-(-each // stride) // 2 ** len(pairs) for each in shape[1:])
        self.hidden = nn.Linear(CLASSIFIER[-1] * rows * columns, UNITS)
        self.last = nn.Linear(UNITS, 1)
        # Where the units to drop come from, while it learns.
        self.stream: Generator | None = None

    def forward(self, image: Tensor) -> Tensor:
        """Reads a number from images `(batch, channel, height, width)` with values of about -1 to 1: `(batch,)`."""
        # In this order of the axes convolutions of few channels take half the time.
        features = image.contiguous(memory_format=torch.channels_last)
        for layer in self.layers:
            features = functional.max_pool2d(functional.relu(layer(features)), 2)
        hidden = self._dropped(functional.relu(self.hidden(features.flatten(1))))
        read: Tensor = self.last(hidden)[:, 0]

        return read

    def _dropped(self, hidden: Tensor) -> Tensor:
        if not self.training or self.stream is None:
            return hidden

        uniform = torch.rand(hidden.shape, generator=self.stream, dtype=hidden.dtype).to(hidden.device)

        return hidden * (uniform >= DROPPED) / (1 - DROPPED)


def update_batch_norm(network: nn.Module, ask: Callable[[Tensor], object], batches: Iterable[Tensor]) -> None:
    """Measures the statistics of batch normalisations anew, for the weights as they are; without any, asks nothing.

    Args:
        network: The network.
        ask: Passes the rows of a batch through the network.
        batches: Which rows to pass, as in training.
    """
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    if not norms:
        return

    for norm in norms:
        norm.reset_running_stats()
        norm.train()
    with torch.no_grad():
        for batch in batches:
            ask(batch)
    for norm in norms:
        norm.eval()


def _norm(channels: int) -> nn.BatchNorm2d:
    # With no momentum the statistics are plain means over all batches since the last reset.
    return nn.BatchNorm2d(channels, momentum=None)
