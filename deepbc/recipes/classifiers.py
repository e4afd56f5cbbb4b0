r"""Classifiers that read attributes from images, and the numbers that stand for the attributes.

A network :math:`n` learns an attribute from labels :math:`y`, 0 or 1, of which the share :math:`p` is 1. In its loss a
row of label 1 has the weight :math:`1 / 2p` and one of label 0 :math:`1 / 2(1 - p)`, so that a rare label counts as
much as a frequent one; then :math:`n` estimates the log-odds of a population in which both are equally frequent. Those
of the labels as they are lie a constant away. What is left to mend, networks being too sure of themselves, two numbers
mend that are fitted to held-out rows:

.. math:: \ell(x) = a \, \Bigl(n(x) + \log \frac{p}{1 - p}\Bigr) + b, \qquad P(y = 1 \mid x) = \sigma(\ell(x)).

The attribute is the standardised logit, :math:`(\ell - \bar \ell) / s`, with mean and standard deviation over all rows.
It is a differentiable function of the image, and a number where a label only says yes or no.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), appendix B.3.2.
    Probabilistic Outputs for Support Vector Machines (Platt, 1999): the two numbers, and targets that keep them finite.
    On Calibration of Modern Neural Networks (Guo et al., 2017).
"""

__all__ = ["Accuracy", "Classifier", "Classifiers", "check_labels", "train_classifiers"]

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional

from deepbc._validation import CHANNELS, SMALLEST, check_finite, check_range, check_table, check_type
from deepbc.data.reading import read_column, read_image
from deepbc.data.variables import flatten
from deepbc.errors import DataError, SettingError, StorageError
from deepbc.nn.conv import start
from deepbc.nn.paper import FaceClassifier
from deepbc.numerics.seeding import generator
from deepbc.progress import progress as bar
from deepbc.storage import read_folder, write_folder
from deepbc.training.checkpoint import Checkpoint, fingerprint
from deepbc.training.distributed import shared
from deepbc.training.trainer import Learner, Split, Trainer, Training

KIND, STAGE = "set of classifiers", "classifier"
TRAINING = Training(epochs=20, batch=64, learning_rate=1e-3, patience=3, average=100, pull=0.0, clip=1e4)
# The least number of rows of each label; rows per chunk of reading.
FEWEST, CHUNK = 10, 512
# The middle of the range of bytes.
MIDDLE = 127.5
# A network that has learned nothing may seem to be wrong more often than right; it is never turned around.
LEAST_SLOPE, NEWTON_STEPS, HALVINGS = 0.01, 50, 30
BINS = 10


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How well a classifier tells rows that had no part in its training, nor in its calibration.

    Args:
        rows: The number of these rows.
        share: How many of them have the label 1.
        accuracy: How many it tells rightly, at a probability of a half.
        balanced: The mean of that among those labelled 1 and among those labelled 0.
        log_loss: The mean negative log-probability of their labels, in nats.
        calibration: By how much probabilities and frequencies differ on average, over tenths of the rows.
        seconds: The time that its training took; 0 where classifiers saved long ago do not say.
    """

    rows: int
    share: float
    accuracy: float
    balanced: float
    log_loss: float
    calibration: float
    seconds: float = field(default=0.0, compare=False)


class Classifier(Learner):
    """Creates a classifier of one attribute; called with rows of pixels, it reads the standardised logit.

    As a module it can be the function of a `Predictor` whose parent is an image.

    Args:
        shape: The channels, height and width of an image.
    """

    eval_chunk: ClassVar[int] = CHUNK

    weights: Tensor
    odds: Tensor
    platt: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.shape = shape
        # Modules draw first weights from torch's own stream, which is not ours to move.
        with torch.random.fork_rng(devices=[]):
            self.network = FaceClassifier(shape)
        self.register_buffer("weights", torch.ones(2))
        self.register_buffer("odds", torch.zeros(()))
        self.register_buffer("platt", torch.tensor([1.0, 0.0]))
        self.register_buffer("scale", torch.tensor([0.0, 1.0]))
        self.eval()

    def begin(self, stream: Generator | None) -> None:
        self.network.stream = stream

    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        """Computes the weighted negative log-likelihood of the labels, which are the `parents`."""
        y = parents[:, 0].to(self.weights)
        weights = self.weights[y.long()]

        return weights * functional.binary_cross_entropy_with_logits(self._raw(x), y, reduction="none")

    def logit(self, x: Tensor) -> Tensor:
        r"""Computes the calibrated logit :math:`\ell`, with shape `(batch,)`, from pixels `(batch, value)`."""
        slope, shift = self.platt
        logit: Tensor = slope * (self._raw(x) + self.odds) + shift

        return logit

    def forward(self, x: Tensor) -> Tensor:
        """Computes the standardised logit, with shape `(batch, 1)`, from pixels 0 to 255, `(batch, value)`."""
        middle, spread = self.scale
        read: Tensor = (self.logit(x) - middle) / spread

        return read.unsqueeze(-1)

    def _raw(self, x: Tensor) -> Tensor:
        image = x.to(self.odds).reshape(-1, *self.shape) / MIDDLE - 1
        read: Tensor = self.network(image)

        return read


class Classifiers:
    """What reads attributes from images; made by `train_classifiers` or `load`.

    Args:
        classifiers: The classifier of each attribute, all of images of one shape.
        accuracy: How well each of them does.
    """

    def __init__(self, classifiers: Mapping[str, Classifier], accuracy: Mapping[str, Accuracy]) -> None:
        self.classifiers, self.accuracy = dict(classifiers), dict(accuracy)
        for classifier in self.classifiers.values():
            classifier.requires_grad_(False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The channels, height and width of an image."""
        return next(iter(self.classifiers.values())).shape

    def read(self, images: Any) -> dict[str, Tensor]:
        """Reads the attributes: standardised logits, float64 with shape `(*batch,)`.

        Args:
            images: Pixels from 0 to 255, channels first, with shape `(*batch, channel, height, width)`: bytes, a memory
                map of them or floats. Where they are a tensor whose derivatives are wanted, autograd follows.
        """
        return self._each(images, lambda classifier, rows: classifier(rows)[:, 0])

    def probabilities(self, images: Any) -> dict[str, Tensor]:
        """Computes the probability that the label of each attribute is 1, of images and in the shape as in `read`."""
        return self._each(images, lambda classifier, rows: classifier.logit(rows).sigmoid())

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Saves the classifiers as a folder of a manifest and weights; an older one of that name is replaced."""
        accuracy = {name: asdict(each) for name, each in self.accuracy.items()}
        states = {name: each.state_dict() for name, each in self.classifiers.items()}
        tensors = {f"{name}/{key}": each for name, state in states.items() for key, each in state.items()}
        write_folder(folder, KIND, {"shape": list(self.shape), "accuracy": accuracy}, tensors)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Classifiers":
        """Loads classifiers that were saved. Nothing in the folder is executed."""
        content, tensors = read_folder(folder, KIND)
        try:
            shape = _check_classified(tuple(content["shape"]), "shape")
            accuracy = {str(name): Accuracy(**record) for name, record in content["accuracy"].items()}
            made = {name: Classifier(shape) for name in accuracy}
            for name, classifier in made.items():
                prefix = f"{name}/"
                state = {key.removeprefix(prefix): each for key, each in tensors.items() if key.startswith(prefix)}
                classifier.load_state_dict(state)
        except (AttributeError, KeyError, TypeError, RuntimeError, DataError) as error:
            raise StorageError(f"{folder}: is no {KIND} of ours ({error}). Save it again.") from error

        return cls(made, accuracy)

    def _each(self, images: Any, ask: Callable[[Classifier, Tensor], Tensor]) -> dict[str, Tensor]:
        """Asks every classifier about images, a chunk at a time."""
        column = images if isinstance(images, Tensor) else read_image(images, "images")
        rows = flatten(column, self.shape, "images")
        batch = rows.shape[:-1]
        check_finite(rows, "images")

        answers: dict[str, list[Tensor]] = {name: [] for name in self.classifiers}
        for chunk in rows.reshape(-1, rows.shape[-1]).split(CHUNK):
            for name, classifier in self.classifiers.items():
                answers[name].append(ask(classifier, chunk).double())

        return {name: torch.cat(parts).reshape(batch) for name, parts in answers.items()}

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {each.accuracy:.1%}" for name, each in self.accuracy.items())
        return f"Classifiers({parts} right)"


def train_classifiers(
    images: Any,
    labels: Mapping[str, Any],
    *,
    training: Training = TRAINING,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Classifiers:
    """Trains a classifier for each attribute.

    Of the share of rows that `training` holds out, one half tells when to stop and calibrates, the other half has no
    part in it and is what `accuracy` is about. Both have each label as often as all rows.

    Args:
        images: Pixels from 0 to 255, with shape `(rows, channel, height, width)`, each side of at least 16 pixels:
            bytes, in memory or as a memory map, are read batch by batch.
        labels: For each attribute 0 or 1 a row, at least ten rows of each.
        training: How to train.
        seed: Same seed, same machine, same data: same classifiers.
        checkpoint: A folder in which the state is kept, so that a killed training goes on from there.
        progress: Whether to show a progress bar; None shows it on a terminal.

    Example:
        >>> from deepbc.datasets import faces
        >>> drawn = faces.sample(200, seed=0, size=16).values
        >>> made = train_classifiers(drawn["image"], {"male": drawn["gender"] > 0.2}, training=Training(epochs=1))
        >>> made.read(drawn["image"])["male"].shape
        torch.Size([200])
    """
    check_type(training, Training, "training")
    if not isinstance(labels, Mapping) or not labels:
        raise SettingError(f"labels: expected a mapping from attributes to labels, got {labels!r}.")
    pixels = read_image(images, "images")
    columns = check_labels(labels)
    check_table({"images": tuple(pixels.shape), **{name: tuple(each.shape) for name, each in columns.items()}})
    shape = _check_classified(tuple(pixels.shape[1:]), "images")
    x = flatten(pixels, shape, "images")
    check_finite(x, "images")

    share = shared()
    fit = [list(columns), shape, asdict(training), seed]
    key = "" if checkpoint is None else fingerprint(fit, [x, *columns.values()])
    kept = Checkpoint(checkpoint, key, writes=share.first)
    made, accuracy = {}, {}
    with bar("classifiers", len(columns), progress if share.first else False) as shown:
        for name, y in columns.items():

            def on_epoch(stage: str, epoch: int, loss: float, name: str = name) -> None:
                shown.describe(f"{name}: epoch {epoch}, held-out {loss:.4f}")

            scored, rows = _split(x, y, training.validation, generator(seed, name, "split"))
            loop = Trainer(training, rows, name, seed, share, kept, on_epoch)
            made[name] = _trained(shape, rows, loop)
            accuracy[name] = _score(made[name].logit, x, y, scored, loop.curves[STAGE].seconds)
            shown.advance()

    return Classifiers(made, accuracy)


def check_labels(labels: Mapping[str, Any]) -> dict[str, Tensor]:
    """Reads labels by attribute, each 0 or 1 with shape `(rows,)`; there are enough of both to learn from."""
    read = {}
    for name, column in labels.items():
        where = f"labels, {name!r}"
        y = column.double() if isinstance(column, Tensor) and column.dtype == torch.bool else read_column(column, where)
        check_range(y, 0, 1, where, whole=True)
        zeros, ones = int((y == 0).sum()), int((y == 1).sum())
        if min(zeros, ones) < FEWEST:
            raise DataError(
                f"{where}: expected at least {FEWEST} rows of each label, got {zeros} of 0 and {ones} of 1. Give more "
                f"rows; an attribute that hardly varies cannot be learned."
            )
        read[name] = y

    return read


def _split(x: Tensor, y: Tensor, validation: float, stream: Generator) -> tuple[Tensor, Split]:
    """Splits the rows of each label alike: those to be scored at the end, those held out, those to learn from."""
    parts: list[tuple[Tensor, ...]] = []
    for label in (0, 1):
        rows = (y == label).nonzero()[:, 0]
        half = max(1, round(validation / 2 * len(rows)))
        parts.append(rows[torch.randperm(len(rows), generator=stream)].tensor_split([half, 2 * half]))
    scored, held, kept = (torch.cat(both).sort().values for both in zip(*parts, strict=True))

    return scored, Split(x, y[:, None], kept, held)


def _trained(shape: tuple[int, int, int], rows: Split, train: Trainer) -> Classifier:
    """Trains, calibrates and standardises a classifier."""
    classifier = Classifier(shape)
    start(classifier, generator(train.seed, train.name, "weights"))
    p = rows.parents.mean()
    classifier.weights.copy_(torch.stack([0.5 / (1 - p), 0.5 / p]))
    classifier.odds.copy_((p / (1 - p)).log())

    train(classifier, STAGE)
    classifier.begin(None)

    logits = _in_chunks(classifier.logit, rows.column, rows.held)
    classifier.platt.copy_(_platt(logits, rows.held_parents[:, 0]))
    logits = _in_chunks(classifier.logit, rows.column, torch.arange(len(rows.column)))
    classifier.scale.copy_(torch.stack([logits.mean(), logits.std(correction=0).clamp_min(1e-6)]))

    return classifier


@torch.no_grad()
def _in_chunks(ask: Callable[[Tensor], Tensor], x: Tensor, rows: Tensor) -> Tensor:
    return torch.cat([ask(x[chunk]) for chunk in rows.split(CHUNK)]).double()


def _platt(logits: Tensor, y: Tensor) -> Tensor:
    """Fits slope and shift of logits to labels; targets a little inside of 0 and 1 keep them finite."""
    ones = y.sum()
    targets = torch.where(y == 1, (ones + 1) / (ones + 2), 1 / (len(y) - ones + 2))
    constant = torch.ones_like(logits)
    both = _regressed(torch.stack([logits, constant], dim=-1), torch.zeros_like(logits), targets)
    if both[0] >= LEAST_SLOPE:
        return both

    return torch.cat([both.new_tensor([LEAST_SLOPE]), _regressed(constant[:, None], LEAST_SLOPE * logits, targets)])


def _regressed(design: Tensor, offset: Tensor, targets: Tensor) -> Tensor:
    """Fits a logistic regression by Newton's method, with steps halved until the loss falls.

    Args:
        design: The inputs of each row, with shape `(rows, inputs)`.
        offset: What is added to the logit, with shape `(rows,)`.
        targets: Labels, or probabilities, with shape `(rows,)`.
    """

    def loss(weights: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(offset + design @ weights, targets)

    weights = design.new_zeros(design.shape[-1])
    for _ in range(NEWTON_STEPS):
        probability = (offset + design @ weights).sigmoid()
        gradient = design.T @ (probability - targets) / len(design)
        curvature = (design.T * (probability * (1 - probability))) @ design / len(design)
        step = torch.linalg.solve(curvature + 1e-9 * torch.eye(len(weights)).to(design), gradient)
        for _ in range(HALVINGS):
            if loss(weights - step) <= loss(weights):
                break
            step = step / 2
        weights = weights - step

    return weights


def _score(ask: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, rows: Tensor, seconds: float) -> Accuracy:
    logits, y = _in_chunks(ask, x, rows), y[rows]
    right = ((logits > 0) == (y == 1)).double()
    probability = logits.sigmoid()
    order = probability.argsort()
    tenths = [each for each in order.tensor_split(BINS) if len(each)]
    gaps = torch.stack([(probability[each].mean() - y[each].mean()).abs() * len(each) for each in tenths])

    return Accuracy(
        rows=len(y),
        share=y.mean().item(),
        accuracy=right.mean().item(),
        balanced=(right[y == 1].mean() + right[y == 0].mean()).item() / 2,
        log_loss=functional.binary_cross_entropy_with_logits(logits, y).item(),
        calibration=gaps.sum().item() / len(y),
        seconds=seconds,
    )


def _check_classified(shape: tuple[int, ...], where: str) -> tuple[int, int, int]:
    """Returns the channels, height and width of an image that a classifier reads, which come in this order."""
    if len(shape) != 3 or shape[0] not in CHANNELS or min(shape[1:]) < SMALLEST:
        raise DataError(
            f"{where}: expected images of shape (channel, height, width) with 1, 3 or 4 channels and sides of at least "
            f"{SMALLEST} pixels, got {shape}. Give them the shape (rows, channel, height, width)."
        )

    return shape[0], shape[1], shape[2]
