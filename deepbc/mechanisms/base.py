r"""The contract of a mechanism: one causal law :math:`x = f(x_{pa}, u)` and its inverse :math:`u = f^{-1}(x_{pa}, x)`.

The noise is standard normal, so with the log-volume of the inverse the density is

.. math:: \log p(x \mid x_{pa}) = \log N(u; 0, I) + \log \left| \det \partial f^{-1}(x_{pa}, x) / \partial x \right|.

A variable without parents has parents of dimension zero; it is no special case.
"""

__all__ = ["FitOutcome", "Mechanism", "held_out_gain"]

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from deepbc._validation import check_batches
from deepbc.data.variables import Family
from deepbc.errors import DataError, NotFittedError, SettingError
from deepbc.mechanisms.derivatives import invert_by_autograd, value_and_gradients
from deepbc.nn.mlp_jacobian import ALL, Moving
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI
from deepbc.training.trainer import Learner, Split, Train, Training


@dataclass(frozen=True, slots=True)
class FitOutcome:
    """What a fit of one mechanism says of itself: held-out losses, one a row, and remarks for the report."""

    held_out: Tensor
    notes: tuple[str, ...] = field(default=())


def held_out_gain(before: Tensor, after: Tensor) -> tuple[float, float]:
    """The mean decrease of the losses of rows, which have shape `(rows,)`, and its standard error."""
    gain = before - after

    return gain.mean().item(), gain.std().item() / math.sqrt(len(gain))


class Mechanism(Learner):
    r"""The law of one variable given its parents.

    A mechanism is created with its settings alone. `bind` makes a copy that knows its variable and parents and has
    weights. Values are in the data's own units, noise is standard normal; both are float64 unless moved.

    To add a mechanism, in any module of your own (`docs/extending.md` has whole ones):

    1. Subclass `Mechanism`; a law of classes or whole numbers subclasses `Discrete`. Take the settings in `__init__` by
       keyword, return them in `settings`. The name of the class has to be its own: saved models refer to it.
    2. Write `_build` (weights as parameters, what else is learned as buffers), `_predict`, `_invert` and `_fit` for
       well-formed rows, with no checks in them. Instead of `_invert` you may write `_abduct` alone, and autograd
       derives the log-volume. `_fit` may train by `train(self, "stage")`, which minimises `loss`.
    3. Set `domain` to what its values are, `exact` to whether `abduct` inverts `predict` (if not, write `_abduct` and
       `loss`), `noise_dim` if it is not the dimension of the value, and `default_training` if it trains.
    4. Hooks with defaults: the other class attributes and properties, `rows_needed`, `_log_prob`, `_nearest`, `_draw`
       and `_clipped`; where it knows its own derivatives `predict_and_jacobian` and `abduct_and_jacobian`, by those
       components of the parents that are `moving`; and for what of an abduction depends on the value alone `reduce`,
       `abduct_reduced` and `invert_reduced`.
    5. Run `deepbc.testing.check_mechanism` on it.
    """

    kinds: ClassVar[dict[str, type["Mechanism"]]] = {}
    exact: ClassVar[bool] = True
    # What its values are: "number", "category", "integer", "censored" or "image". Type inference asks for it; data of
    # an image is read as it came, and values of a category are its levels.
    domain: ClassVar[str] = "number"
    # Whether many noises lead to the same value: a class, a whole number.
    discrete: ClassVar[bool] = False
    # Whether many noises lead to some value: those of discrete laws, and the least or largest value of a censored one.
    has_atoms: ClassVar[bool] = False
    default_training: ClassVar[Training] = Training()
    # The type of its weights and values where that is not the model's own: networks of images need no more digits.
    precision: ClassVar[torch.dtype | None] = None
    # Rows per chunk of a computation, to bound memory.
    chunk: ClassVar[int] = 16_384

    family: Family | None
    value: int | None = None

    @property
    def affine(self) -> bool:
        """Whether its value is an affine function of noise and parents, so that models of first order are exact."""
        return False

    @property
    def shifts(self) -> bool:
        """Whether the noise that a given value implies, or the sides of its region, are affine in the parents."""
        return self.affine

    @property
    def differentiable(self) -> bool:
        """Whether derivatives tell how its value moves; those of a model of another library may be 0 everywhere."""
        return True

    def __init__(self) -> None:
        super().__init__()
        if type(self)._abduct is Mechanism._abduct and type(self)._invert is Mechanism._invert:
            raise SettingError(f"Mechanism {type(self).__name__!r}: it has no inverse. Write `_invert` or `_abduct`.")
        self.family = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        known = Mechanism.kinds.get(cls.__name__)
        if known is not None and known.__module__ != cls.__module__:
            raise SettingError(f"Mechanism {cls.__name__!r}: the name is taken by {known.__module__}. Choose another.")
        Mechanism.kinds[cls.__name__] = cls

    @property
    def noise_dim(self) -> int:
        """The dimension of the noise."""
        return self.value_dim

    @property
    def fixed_noise_dim(self) -> int:
        """The number of components, at the end of the noise, that no question ever moves."""
        return 0

    @property
    def free_noise_dim(self) -> int:
        """The number of the other components."""
        return self.noise_dim - self.fixed_noise_dim

    @property
    def value_dim(self) -> int:
        """The dimension of a value."""
        return self.bound.child.dim

    @property
    def parents_dim(self) -> int:
        """The dimension of the parents together."""
        return self.bound.parents_dim

    @property
    def given(self) -> bool:
        """Whether the law is given rather than learned; it then says the dimension of its `value` itself."""
        return self.value is not None

    @property
    def deterministic(self) -> bool:
        """Whether the value follows from the parents alone, so that neither value nor noise need be given."""
        return False

    @property
    def has_density(self) -> bool:
        """Whether `log_prob` is exact."""
        return self.exact and self.noise_dim in (0, self.value_dim)

    @property
    def pinnable(self) -> bool:
        """Whether any value can be met exactly by the variable's own noise, whatever the parents."""
        return self.exact and self.noise_dim == self.value_dim

    @classmethod
    def read_settings(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Hook: reads settings as a model saved them, perhaps of an earlier version; returns those of today."""
        return settings

    def read_weights(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Hook: reads weights as a model saved them, perhaps of an earlier version; returns those of today.

        Raises:
            StorageError: They are those of a law that there is no more.
        """
        return tensors

    def rows_needed(self, family: Family) -> int:
        """The least number of rows that a fit of this mechanism needs."""
        return 0 if self.given else 10 + 2 * (family.child.dim + family.parents_dim)

    def bind(self, family: Family, generator: Generator) -> Self:
        """Creates a copy with these settings for a variable and its parents, with first weights from the generator."""
        copy = type(self)(**self.settings())
        copy.family = family
        copy._build(family, generator)
        if self.given and self.family is not None:
            copy.load_state_dict(self.state_dict())

        return copy.requires_grad_(False)

    def copy(self) -> Self:
        """Creates a copy with the same weights that shares nothing but the user's own functions."""
        fresh = type(self)(**self.settings())
        if self.family is None:
            return fresh

        fresh = fresh.bind(self.family, Generator())
        fresh.load_state_dict(self.state_dict())

        return fresh

    def predict(self, u: Tensor, parents: Tensor) -> Tensor:
        r"""Computes the value :math:`x = f(x_{pa}, u)`.

        Args:
            u: Noise :math:`u`, with shape `(*batch, noise)`.
            parents: Parents :math:`x_{pa}`, with shape `(*batch, parents)`.

        Returns:
            Values :math:`x`, with shape `(*batch, value)`.
        """
        return self._in_chunks(self._predict, *self._aligned(u, parents, "noise"))

    def abduct(self, x: Tensor, parents: Tensor) -> Tensor:
        r"""Computes the noise :math:`u = f^{-1}(x_{pa}, x)`; NaN where no noise gives that value.

        Args:
            x: Values :math:`x`, with shape `(*batch, value)`.
            parents: Parents :math:`x_{pa}`, with shape `(*batch, parents)`.

        Returns:
            Noise :math:`u`, with shape `(*batch, noise)`.
        """
        return self._in_chunks(self._abduct, *self._aligned(x, parents))

    def nearest(self, x: Tensor, parents: Tensor, u: Tensor) -> Tensor:
        r"""Computes, of all noises that lead to a value, the one nearest to a given noise.

        Args:
            x: Values :math:`x`, with shape `(*batch, value)`.
            parents: Parents :math:`x_{pa}`, with shape `(*batch, parents)`.
            u: Noise :math:`u`, with shape `(*batch, noise)`.

        Returns:
            Noise, with shape `(*batch, noise)`; where one noise alone leads there, it is that of `abduct`.
        """
        return self._nearest(x, parents, u)

    def draw(self, x: Tensor, parents: Tensor, uniform: Tensor) -> Tensor:
        r"""Draws from the posterior of the noise given its value and parents.

        Args:
            x: Values :math:`x`, with shape `(*batch, value)`.
            parents: Parents :math:`x_{pa}`, with shape `(*batch, parents)`.
            uniform: Uniform random numbers, with shape `(*batch, noise)`.

        Returns:
            Noise, with shape `(*batch, noise)`; where one noise alone leads there, it is that of `abduct`.
        """
        return self._in_chunks(self._draw, *self._aligned(x, parents), uniform)

    def clipped(self, u: Tensor, parents: Tensor) -> Tensor:
        """Counts the components of the value that `predict` visibly cuts to their range, with shape `(*batch,)`."""
        return self._in_chunks(self._clipped, u, parents)

    def reduce(self, x: Tensor) -> Tensor:
        r"""Computes what of an abduction depends on the value alone, so that many parents can be tried at that value.

        Args:
            x: Values :math:`x`, with shape `(*batch, value)`.

        Returns:
            What `abduct_reduced` takes, with shape `(*batch, value)`.
        """
        return x

    def abduct_reduced(self, z: Tensor, parents: Tensor) -> Tensor:
        """Computes the noise as `abduct` does, from what `reduce` made of the value."""
        return self._abduct(z, parents)

    def predict_and_jacobian(self, u: Tensor, parents: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor, Tensor]:
        r"""Computes a lone number as `predict` does, with its derivatives.

        Args:
            u: Noise :math:`u`, with shape `(rows, 1)`, or `(rows, 0)` where there is none.
            parents: Parents :math:`x_{pa}`, with shape `(rows, parents)`.
            moving: Which components of the parents are derived by: their numbers, or all.

        Returns:
            The values, with shape `(rows, 1)`, and their derivatives by noise, of its shape, and by the parents, with
            shape `(rows, moving)`.
        """
        x, (by_noise, by_parents) = value_and_gradients(self._predict, u, parents)

        return x, by_noise, by_parents[:, moving]

    def abduct_and_jacobian(self, z: Tensor, parents: Tensor, moving: Moving = ALL) -> tuple[Tensor, Tensor]:
        """Computes the noise of a lone number from what `reduce` made of it, and its derivatives by the parents."""
        u, (by_parents,) = value_and_gradients(lambda parents: self.abduct_reduced(z, parents), parents)

        return u, by_parents[:, moving]

    def invert(self, x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the noise as `abduct` does, `(*batch, noise)`, with its log-volume, `(*batch,)`."""
        self._check_density()

        return self._invert(*self._aligned(x, parents))

    def invert_reduced(self, z: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the noise from what `reduce` made of the value, and the log-volume up to what the parents leave.

        Args:
            z: What `reduce` made of the values, with shape `(*batch, value)`.
            parents: Parents, with shape `(*batch, parents)`.

        Returns:
            The noise, with shape `(*batch, noise)`, and the log-volume of `log_volume` but for a part that depends on
            the value alone, with shape `(*batch,)`.
        """
        return self._invert(z, parents)

    def log_volume(self, x: Tensor, parents: Tensor) -> Tensor:
        r"""Computes :math:`\log | \det \partial f^{-1}(x_{pa}, x) / \partial x |` with shape `(*batch,)`."""
        self._check_density()

        return self._in_chunks(lambda *rows: self._invert(*rows)[1], *self._aligned(x, parents))

    def log_prob(self, x: Tensor, parents: Tensor) -> Tensor:
        r"""Computes :math:`\log p(x \mid x_{pa})` in the data's own units, of what `abduct` takes, as `(*batch,)`."""
        self._check_density()

        return self._in_chunks(self._log_prob, *self._aligned(x, parents))

    def loss(self, x: Tensor, parents: Tensor) -> Tensor:
        """Computes the negative log-likelihood of each row, with shape `(*batch,)`."""
        return -self.log_prob(x, parents)

    def fit(self, rows: Split, train: Train) -> FitOutcome:
        """Learns the weights of a bound mechanism from rows; `train` runs the training loop."""
        self.bound  # noqa: B018 # fails where there is none

        return self._fit(rows, train)

    @property
    def bound(self) -> Family:
        """The variable and its parents."""
        if self.family is None:
            raise NotFittedError(f"{self!r} has no variable yet. Put it into an SCM and call fit.")

        return self.family

    def _aligned(self, given: Tensor, parents: Tensor, what: str = "values") -> tuple[Tensor, Tensor]:
        """Checks the last axes of values, or of noise, and of parents, and gives both tensors one batch shape."""
        dim = self.noise_dim if what == "noise" else self.value_dim
        for name, tensor, expected in ((what, given, dim), ("parents", parents, self.parents_dim)):
            if tensor.ndim == 0 or tensor.shape[-1] != expected:
                raise DataError(
                    f"Variable {self.bound.child.name!r}: expected {name} with shape (*batch, {expected}), got "
                    f"{tuple(tensor.shape)}. The last axis holds the components, for example x.unsqueeze(-1)."
                )
        batch = check_batches({what: given.shape[:-1], "parents": parents.shape[:-1]})

        return given.expand(*batch, -1), parents.expand(*batch, -1)

    def _in_chunks(self, law: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Applies a law, which acts row by row, to so many rows at a time that what it needs on the way stays small."""
        batch = rows[0].shape[:-1]
        if batch.numel() <= self.chunk:
            return law(*rows)

        chunks = zip(*(each.flatten(0, -2).split(self.chunk) for each in rows), strict=True)
        joined = torch.cat([law(*chunk) for chunk in chunks])

        return joined.reshape(*batch, *joined.shape[1:])

    def _check_density(self) -> None:
        if not self.has_density:
            raise SettingError(
                f"Variable {self.bound.child.name!r}: {self!r} has no exact density. Leave it out, for example "
                f"scm.log_prob(values, of=[...])."
            )

    def _log_prob(self, x: Tensor, parents: Tensor) -> Tensor:
        """Computes the density by change of variables; a mechanism with another likelihood writes its own."""
        u, log_volume = self._invert(x, parents)

        return log_volume - (0.5 * u.square() + LOG_SQRT_2PI).sum(-1)

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Returns the keyword arguments that create this mechanism again."""

    @abstractmethod
    def _build(self, family: Family, generator: Generator) -> None:
        """Makes the weights."""

    @abstractmethod
    def _predict(self, u: Tensor, parents: Tensor) -> Tensor: ...

    @abstractmethod
    def _fit(self, rows: Split, train: Train) -> FitOutcome: ...

    def _abduct(self, x: Tensor, parents: Tensor) -> Tensor:
        return self._invert(x, parents)[0]

    def _invert(self, x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the noise `(*batch, noise)` and the log-volume of the inverse `(*batch,)`."""
        return invert_by_autograd(self._abduct, x, parents)

    def _nearest(self, x: Tensor, parents: Tensor, u: Tensor) -> Tensor:
        return self.abduct(x, parents)

    def _draw(self, x: Tensor, parents: Tensor, uniform: Tensor) -> Tensor:
        return self._abduct(x, parents)

    def _clipped(self, u: Tensor, parents: Tensor) -> Tensor:
        return torch.zeros(u.shape[:-1], dtype=torch.long, device=u.device)

    def extra_repr(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.settings().items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"
