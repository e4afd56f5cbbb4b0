r"""The law of an image: a conditional variational autoencoder.

A decoder draws an image from its noise and its parents, an encoder reads the noise back:

.. math:: x = g(x_{pa}) \, m(u, x_{pa}) + \sigma \varepsilon, \qquad q(u \mid x) = N(e(x, x_{pa}), s^2(x, x_{pa})),

with :math:`g` the brightness that goes with the parents, :math:`m` the decoder and :math:`\sigma` learned. The law is
the decoder's mean and its inverse the encoder's mean, so it is not exact; with a *residual* the part of the image that
the decoder misses is kept as noise of its own, :math:`x = g m + r`, which no question moves. Training maximises

.. math:: E_q \log N(x; g m, \sigma^2) - \beta \, KL(q \,\|\, N(0, I)) + \lambda \min_h E_q |h(u) - x_{pa}|^2.

The last term is what a plain autoencoder lacks. A causal law takes noise and parents to be independent, but an encoder
gladly leaves what the parents say in the noise as well; then the image of other parents would not obey them. So a small
network :math:`h` learns to read the parents from the noise, and the encoder learns to leave it nothing to read. For the
same end the encoder sees images divided by their brightness.

References:
    Auto-Encoding Variational Bayes (Kingma and Welling, 2014).
    beta-VAE: Learning Basic Visual Concepts with a Constrained Variational Framework (Higgins et al., 2017).
    Domain-Adversarial Training of Neural Networks (Ganin et al., 2016): one loss for both, by a reversed gradient.
    Simple and Effective VAE Training with Calibrated Decoders (Rybkin, Daniilidis and Levine, 2021): a learned sigma.
"""

__all__ = ["ConvVAE"]

import itertools
import math
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from deepbc._validation import CHANNELS, check_between, check_choice, check_count, check_image_shape, check_type
from deepbc.data.variables import Family
from deepbc.mechanisms.base import FitOutcome, Mechanism
from deepbc.mechanisms.least_squares import least_squares
from deepbc.nn.conv import Drawer, Network, Reader, start
from deepbc.nn.paper import FaceDrawer, FaceReader, PaperDrawer, PaperReader, update_batch_norm
from deepbc.numerics.seeding import generator
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI
from deepbc.training.trainer import Learner, Split, Train, Training

PRESETS = ("default", "paper")
# How strongly noise and parents are kept apart, and the units of the network that tries to read them.
APART, PROBE = 100.0, 128
FEWEST_ROWS = 32
# Images are a little brighter than their parents say at most; no brightness is below this part of the range.
BRIGHTER, DARKEST = 1.25, 0.02
ROWS_FOR_A_START = 20_000
# Rows, and rows per batch, from which the statistics of batch normalisations are found.
NORM_ROWS, NORM_BATCH = 2048, 128
# A pixel counts as clipped where that changes it by more than a grey level.
VISIBLE = 1 / 255
# Rows per unknown that a regression needs to tell what can be read from the noise.
ROWS_TO_TELL = 10
BOUND = "its nll is an upper bound: an image has no exact density here"


class ConvVAE(Mechanism):
    """Creates the law of an image of any size, grey or in colour.

    Args:
        noise: The dimension of the noise.
        width: The channels of each layer of the networks.
        beta: The weight of what the noise costs; 1 by default, 3 in the paper.
        residual: Whether the part of an image that the decoder misses is kept as noise of its own. Then an image is
            returned exactly where nothing changes. It is no coordinate of any question, and 0 in samples.
        preset: `"default"`, or `"paper"`: the networks and the loss of the paper, for grey images of 28 x 28 pixels and
            for those of 64 x 64 or 128 x 128 in red, green and blue; they ignore `width`.

    Example:
        >>> ConvVAE(noise=16)
        ConvVAE(noise=16, width=32, beta=None, residual=False, preset='default')
    """

    exact: ClassVar[bool] = False
    domain: ClassVar[str] = "image"
    precision: ClassVar[torch.dtype | None] = torch.float32
    chunk: ClassVar[int] = 512
    eval_chunk: ClassVar[int] = 1024
    default_training: ClassVar[Training] = Training(
        epochs=30, batch=128, learning_rate=2e-3, patience=5, average=400, pull=0.0, clip=1e4, validation=0.1
    )

    log_sigma: Tensor
    middle: Tensor
    spread: Tensor
    pixels: Tensor
    brightness: Tensor
    limits: Tensor

    def __init__(
        self,
        *,
        noise: int = 32,
        width: int = 32,
        beta: float | None = None,
        residual: bool = False,
        preset: str = "default",
    ) -> None:
        super().__init__()
        check_count(noise, "ConvVAE noise", least=1)
        check_count(width, "ConvVAE width", least=1)
        if beta is not None:
            check_between(beta, 0.0, math.inf, "ConvVAE beta")
        check_type(residual, bool, "ConvVAE residual")
        self.noise, self.width, self.beta, self.residual = noise, width, beta, residual
        self.preset = check_choice(preset, PRESETS, "ConvVAE preset")
        self.stream: Generator | None = None

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("noise", "width", "beta", "residual", "preset")}

    @property
    def noise_dim(self) -> int:
        return self.noise + self.fixed_noise_dim

    @property
    def fixed_noise_dim(self) -> int:
        return self.value_dim if self.residual else 0

    def rows_needed(self, family: Family) -> int:
        return FEWEST_ROWS

    def begin(self, stream: Generator) -> None:
        self.stream = stream

    def update_statistics(self, rows: Split) -> None:
        self.begin(generator(0, "settle"))
        few = rows.kept[:NORM_ROWS]
        # Of equal size, as they count alike.
        batches = few.tensor_split(-(-len(few) // NORM_BATCH))
        update_batch_norm(self, lambda batch: self.negative_elbo(*rows.of(batch), 1.0), batches)

    def _build(self, family: Family, generator: Generator) -> None:
        shape = check_image_shape(family.child.shape, self.preset, f"Variable {family.child.name!r}")
        parents = family.parents_dim
        # A network needs something to look at, even where there are no parents.
        inputs = max(1, parents)
        # Modules draw first weights from torch's own stream, which is not ours to move.
        with torch.random.fork_rng(devices=[]):
            self.encoder, self.decoder = self._networks(shape, inputs)
        start(self, generator)
        if self.preset == "paper":
            self.register_buffer("log_sigma", torch.zeros(()))
        else:
            self.log_sigma = nn.Parameter(torch.tensor(-2.0))
        self.register_buffer("middle", torch.zeros(parents))
        self.register_buffer("spread", torch.ones(parents))
        self.register_buffer("pixels", torch.tensor([0.0, 1.0]))
        self.register_buffer("brightness", torch.zeros(1 + _powers(torch.zeros(1, inputs)).shape[-1], shape[0]))
        self.register_buffer("limits", torch.ones(2, shape[0]))
        self.float().eval()

    def _networks(self, shape: tuple[int, int, int], inputs: int) -> tuple[Network, Network]:
        """The encoder and the decoder of images of channels, height and width."""
        if self.preset == "default":
            return Reader(shape, inputs, 2 * self.noise, self.width), Drawer(shape, inputs, self.noise, self.width)
        if shape[0] == 1:
            return PaperReader(inputs, 2 * self.noise), PaperDrawer(inputs, self.noise)

        return FaceReader(shape[1], inputs, 2 * self.noise), FaceDrawer(shape[1], inputs, self.noise)

    def _clipped(self, u: Tensor, parents: Tensor) -> Tensor:
        # A decoder keeps to the range; with what it missed of another image it may leave it.
        if not self.residual:
            return super()._clipped(u, parents)

        unclipped = self._unclipped(u, parents)
        cut = (unclipped - unclipped.clamp(*self.pixels)).abs() > VISIBLE * (self.pixels[1] - self.pixels[0])

        return cut.sum(-1)

    def _predict(self, u: Tensor, parents: Tensor) -> Tensor:
        return self._unclipped(u, parents).clamp(*self.pixels)

    def _unclipped(self, u: Tensor, parents: Tensor) -> Tensor:
        """What the decoder draws, and what it missed."""
        batch, condition = u.shape[:-1], self._flat_condition(parents)
        z, r = u.reshape(-1, u.shape[-1]).tensor_split([self.noise], dim=-1)
        x = self._rows(self._decode(z.to(condition), condition))
        if self.residual:
            x = (x.double() + r.double()).to(condition)

        return x.reshape(*batch, self.value_dim)

    def _abduct(self, x: Tensor, parents: Tensor) -> Tensor:
        batch, condition = x.shape[:-1], self._flat_condition(parents)
        x = x.reshape(-1, x.shape[-1])
        z = self._encode(self._images(x), condition)[0]
        u = z.to(parents.dtype)
        if self.residual:
            u = torch.cat([u, x.to(parents.dtype) - self._rows(self._decode(z, condition)).to(parents.dtype)], dim=-1)

        return u.reshape(*batch, self.noise_dim)

    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        """Computes what training minimises; at `beta` 1 an upper bound of the negative log-likelihood of each row."""
        beta = (3.0 if self.preset == "paper" else 1.0) if self.beta is None else self.beta

        return self.negative_elbo(x, parents, beta)[0]

    def negative_elbo(self, x: Tensor, parents: Tensor, beta: float) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the loss of each row, the noise that was drawn for it, and its parents as the networks see them."""
        image, condition = self._images(x), self._condition(parents)
        mean, log_variance = self._encode(image, condition)
        u = mean + (0.5 * log_variance).exp() * self._noise(mean)
        miss = (self._unit_image(u, condition) - image).square().flatten(1).sum(-1)
        low, high = self.pixels
        pixels = image[0].numel()
        nll = 0.5 * miss * (-2 * self.log_sigma).exp() + pixels * (self.log_sigma + LOG_SQRT_2PI + (high - low).log())
        cost = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)

        return nll + beta * cost, u, condition

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        self._start(rows)
        learner: Learner = self
        if self.preset != "paper" and self.parents_dim:
            with torch.random.fork_rng(devices=[]):
                learner = _Probe(self).to(self.middle)
            start(learner.network, generator(0, "probe"))
        train(learner, "autoencoder")

        # Whatever was minimised, what is reported is a bound.
        self.stream = generator(0, "held out")
        with torch.no_grad():
            chunks = rows.held.split(self.eval_chunk)
            held_out = torch.cat([self.negative_elbo(*rows.of(chunk), 1.0)[0] for chunk in chunks])
        self.stream = None

        return FitOutcome(held_out, (BOUND, *self._leakage(rows)))

    @torch.no_grad()
    def _start(self, rows: Split) -> None:
        """Takes the scales from the data, and brightness from least squares of its logarithm on the parents."""
        kept = rows.kept[:ROWS_FOR_A_START]
        parents = rows.context[kept]
        if self.parents_dim:
            self.middle.copy_(parents.mean(0))
            self.spread.copy_(parents.std(0, correction=0).clamp_min(1e-12))
        self.pixels.copy_(self._range(rows.column))
        if self.preset == "paper":
            # Its loss is the squared error. The text does not say of which units; beside a beta of 3, that of pixels
            # from 0 to 1 leaves the noise next to nothing to tell, so they are standard deviations, as elsewhere.
            sd = self.bound.child.sd[0] / (self.pixels[1] - self.pixels[0])
            self.log_sigma.copy_((sd * math.sqrt(0.5)).log())
            return

        brightest = torch.cat([self._brightest(rows.of(chunk)[0]) for chunk in kept.split(self.chunk)])
        constant, slopes, _ = least_squares(_powers(self._condition(parents)).double(), brightest.log())
        self.brightness.copy_(torch.cat([constant[None], slopes]))
        self.limits.copy_(torch.stack([brightest.amin(0), brightest.amax(0)]))

    def _brightest(self, x: Tensor) -> Tensor:
        """The brightest pixel of each image and channel, as a number of about 0 to 1, with shape `(batch, channel)`."""
        # Found before pixels become numbers, because bytes are small.
        return self._scaled(self._shaped(x).flatten(2).amax(-1)).clamp_min(DARKEST).double()

    def _range(self, column: Tensor) -> Tensor:
        """The declared bounds, or the least and the largest value in the data."""
        child = self.bound.child
        pairs = ((child.lower, column.min().item()), (child.upper, column.max().item()))

        return torch.tensor([bound if math.isfinite(bound) else found for bound, found in pairs])

    @torch.no_grad()
    def _leakage(self, rows: Split) -> tuple[str, ...]:
        """Remarks how much of each parent a regression on the noise explains in held-out rows, where rows suffice."""
        kept, held = rows.kept[:ROWS_FOR_A_START], rows.held[:ROWS_FOR_A_START]
        if not self.parents_dim or len(kept) < ROWS_TO_TELL * (1 + 2 * self.noise):
            return ()

        learned, target = (self._condition(rows.context[part]).double() for part in (kept, held))
        constant, slopes, _ = least_squares(self._regressors(rows, kept), learned)
        residual = constant + self._regressors(rows, held) @ slopes - target
        explained = 1 - residual.square().mean(0) / target.var(0, correction=0)
        names = [name for parent in self.bound.parents for name in [parent.name] * parent.dim]
        parts = [f"{max(0.0, part):.0%} of {name}" for name, part in zip(names, explained.tolist(), strict=True)]

        return (f"the noise tells {', '.join(parts)} (part of the variance)",)

    def _regressors(self, rows: Split, which: Tensor) -> Tensor:
        """The noise of some rows and its squares, with shape `(rows, 2 noise)`."""
        parts = map(rows.of, which.split(self.chunk))
        u = torch.cat([self._encode(self._images(x), self._condition(parents))[0] for x, parents in parts]).double()

        return torch.cat([u, u.square()], dim=-1)

    def _condition(self, parents: Tensor) -> Tensor:
        """The parents as the networks see them, with shape `(*batch, parents)`; a single 0 where there are none."""
        if not self.parents_dim:
            return self.middle.new_zeros(*parents.shape[:-1], 1)

        return (parents.to(self.middle) - self.middle) / self.spread

    def _flat_condition(self, parents: Tensor) -> Tensor:
        """What the networks see, one row after the other."""
        condition = self._condition(parents)

        return condition.reshape(-1, condition.shape[-1])

    def _noise(self, like: Tensor) -> Tensor:
        if self.stream is None:
            return torch.zeros_like(like)

        return torch.randn(like.shape, generator=self.stream, dtype=like.dtype).to(like.device)

    def _gain(self, condition: Tensor) -> Tensor:
        """The brightness that goes with the parents, with shape `(batch, channel, 1, 1)`."""
        logarithm = self.brightness[0] + _powers(condition) @ self.brightness[1:]
        gain = torch.minimum(torch.maximum(logarithm.exp(), self.limits[0]), self.limits[1])

        return gain[..., None, None]

    def _encode(self, image: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """Reads the mean and the log-variance of the noise from images `(batch, channel, height, width)`."""
        mean, log_variance = self.encoder(image / self._gain(condition), condition).chunk(2, dim=-1)

        return mean, log_variance.clamp(-12.0, 4.0)

    def _unit_image(self, u: Tensor, condition: Tensor) -> Tensor:
        """Draws images with values of about 0 to 1."""
        drawn: Tensor = self.decoder(u, condition)

        return drawn if self.preset == "paper" else BRIGHTER * torch.sigmoid(drawn - 2.0) * self._gain(condition)

    def _decode(self, u: Tensor, condition: Tensor) -> Tensor:
        """Draws images in units of the data."""
        low, high = self.pixels.unbind()

        return low + (high - low) * self._unit_image(u, condition)

    def _scaled(self, x: Tensor) -> Tensor:
        """Brings pixels of the data to numbers of about 0 to 1."""
        low, high = self.pixels.unbind()

        return (x.to(low) - low) / (high - low)

    def _images(self, x: Tensor) -> Tensor:
        """Brings rows `(batch, value)` to images of about 0 to 1, with shape `(batch, channel, height, width)`."""
        return self._shaped(self._scaled(x))

    def _shaped(self, x: Tensor) -> Tensor:
        """Brings rows `(batch, value)` to the shape of images, `(batch, channel, height, width)`."""
        shape = self.bound.child.shape
        x = x.reshape(-1, *shape)
        if len(shape) == 2:
            return x.unsqueeze(1)

        return x if shape[0] in CHANNELS else x.movedim(-1, 1)

    def _rows(self, image: Tensor) -> Tensor:
        """Brings images back to rows."""
        shape = self.bound.child.shape
        if len(shape) == 3 and shape[0] not in CHANNELS:
            image = image.movedim(1, -1)

        return image.flatten(1)


def _powers(condition: Tensor) -> Tensor:
    """The parents, their products and cubes, with shape `(batch, powers)`."""
    first, second = torch.triu_indices(condition.shape[-1], condition.shape[-1], device=condition.device)

    return torch.cat([condition, condition[..., first] * condition[..., second], condition**3], dim=-1)


class _Probe(Learner):
    """Trains an autoencoder together with a network that tries to read the parents from its noise."""

    eval_chunk: ClassVar[int] = ConvVAE.eval_chunk

    def __init__(self, vae: ConvVAE) -> None:
        super().__init__()
        self.vae = vae
        self.beta = 1.0 if vae.beta is None else vae.beta
        sizes = (vae.noise, PROBE, PROBE, vae.parents_dim)
        layers = [nn.Linear(one, two) for one, two in itertools.pairwise(sizes)]
        self.network = nn.Sequential(layers[0], nn.SiLU(), layers[1], nn.SiLU(), layers[2])

    def begin(self, stream: Generator) -> None:
        self.vae.begin(stream)

    def update_statistics(self, rows: Split) -> None:
        self.vae.update_statistics(rows)

    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        loss, u, condition = self.vae.negative_elbo(x, parents, self.beta)
        nothing = condition.square().sum(-1).mean()
        with torch.no_grad():
            gained = (nothing - (self.network(u) - condition).square().sum(-1).mean()).clamp_min(0.0)
        # The gradient is reversed on its way to the encoder, as long as more can be read than the mean; and the value
        # is how much more: a probe that reads nothing is not a merit of the noise.
        turn = (gained > 0).to(u)
        missed = (self.network((1 + turn) * u.detach() - turn * u) - condition).square().sum(-1)
        whole: Tensor = loss + APART * (missed - missed.detach() + gained)

        return whole
