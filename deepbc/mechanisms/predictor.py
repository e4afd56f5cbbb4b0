r"""The deterministic law :math:`y = h(x_{pa})`, with no noise of its own: a prediction, a score, a known formula."""

__all__ = ["Predictor"]

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from deepbc._validation import check_callable, check_count, check_law, check_value_dim
from deepbc.data.categories import Label
from deepbc.data.variables import Family
from deepbc.errors import DataError, SettingError
from deepbc.mechanisms.base import FitOutcome, Mechanism
from deepbc.mechanisms.estimators import ask_estimator
from deepbc.training.trainer import Split, Train

# In standard deviations of the parent: where the errors of differences and of rounding are about equal.
STEP = 1e-5
# A model is asked about values up to so many standard deviations.
FARTHEST = 1e9


class Predictor(Mechanism):
    r"""Creates a deterministic law from a torch module or a function.

    A module gets the parents as one float64 tensor of shape `(batch, parents)`, in the order of the graph; it is
    copied and put into evaluation mode. Any other function gets a mapping from each parent's name to a tensor of shape
    `(batch, dim)`. Both return `(batch, value)`. A fitted estimator with the methods of scikit-learn, or a booster of
    XGBoost or LightGBM, is taken as it is: a classifier of two classes yields the probability of the second, one of
    more that of each (`value` is their number), any other what it predicts. If it knows the names of its columns it
    gets a data frame of these, text as pandas categories; otherwise an array of the parents in the order of the graph.
    Where autograd cannot follow a function, because it is a model of another library, its derivatives come from
    central differences.

    Args:
        function: The module, function or estimator :math:`h`.
        value: The dimension of its output.
        label: The label of a classifier whose probability is asked; of one without probabilities, whether it predicts
            that label, 1 or 0.

    Example:
        >>> Predictor(lambda parents: 2 * parents["a"])
        Predictor(value=1)
    """

    value: int

    def __init__(self, function: Any, *, value: int = 1, label: Label | None = None) -> None:
        super().__init__()
        # In a tuple, so that a module is not taken for a part of this one: `bind` takes a copy of it.
        self._source = (function,)
        self.value, self.label = value, label
        # Whether autograd can follow the function; not known before it was asked.
        self.followed: bool | None = None
        if not hasattr(function, "predict"):
            check_callable(function, "Predictor function")
        if label is not None and (value != 1 or not hasattr(function, "predict")):
            raise SettingError(
                f"Predictor label: expected an estimator with the method predict() and value=1, got label={label!r} "
                f"of {type(function).__name__} with value={value}. Leave out the label."
            )
        check_count(value, "Predictor value", least=1)

    @property
    def noise_dim(self) -> int:
        return 0

    @property
    def deterministic(self) -> bool:
        return True

    @property
    def differentiable(self) -> bool:
        return self.followed is not False

    def settings(self) -> dict[str, Any]:
        return {"function": self._source[0], "value": self.value, "label": self.label}

    def extra_repr(self) -> str:
        return f"value={self.value}" if self.label is None else f"value={self.value}, label={self.label!r}"

    def _build(self, family: Family, generator: Generator) -> None:
        name = family.child.name
        if not family.parents:
            raise SettingError(
                f"Variable {name!r}: a Predictor is a function of its parents, and it has none. Add an edge."
            )
        check_value_dim(name, family.child.dim, self.value, "Predictor")
        function = self._source[0]
        self.module = copy.deepcopy(function).double().eval() if isinstance(function, nn.Module) else None

    def _predict(self, u: Tensor, parents: Tensor) -> Tensor:
        batch = parents.shape[:-1]
        rows = parents.reshape(batch.numel(), parents.shape[-1])
        where = f"Variable {self.bound.child.name!r}, its Predictor"
        # A model of the user's is never asked about what is no number, or absurdly far from all data.
        finite = (rows.abs() <= FARTHEST * self._spread(rows)).all(-1)
        asked = rows if bool(finite.all()) else rows[finite]
        if not len(asked):
            return parents.new_full((*batch, self.value), torch.nan)
        result = self._ask(asked.double(), where) if self.module is None else _run(self.module, asked, where)
        checked = check_law(result, len(asked), self.value, where)
        if len(asked) < len(rows):
            checked = checked.new_full((len(rows), self.value), torch.nan).index_put((finite,), checked)

        return checked.reshape(*batch, self.value).to(parents.dtype)

    def _ask(self, rows: Tensor, where: str) -> Tensor:
        """Asks the function, by differences where autograd cannot follow it."""
        estimator = hasattr(self._source[0], "predict")

        def plain(rows: Tensor) -> Tensor:
            result: object = (
                ask_estimator(self._source[0], self.bound, rows, self.label) if estimator else self._call(rows)
            )
            result = torch.as_tensor(result).double() if isinstance(result, np.ndarray) else result
            return check_law(result, len(rows), self.value, where)

        def detached(rows: Tensor) -> Tensor:
            return plain(self._supported(rows.detach())).detach()

        if not rows.requires_grad:
            return detached(rows)
        if self.followed is None and estimator:
            self.followed = False
        elif self.followed is None:
            self.followed = _can_be_followed(plain, self._supported(rows[:1].detach()))
        if self.followed:
            return plain(rows)

        result: Tensor = _Differences.apply(rows, detached, STEP * self._spread(rows))  # type: ignore[no-untyped-call]

        return result

    def _spread(self, like: Tensor) -> Tensor:
        """The standard deviation of each component of the parents, with shape `(parents,)`."""
        # An image has one for all of its pixels.
        sd = [torch.tensor(each.sd or (1.0,), dtype=like.dtype, device=like.device) for each in self.bound.parents]

        return torch.cat([one.expand(each.dim) for one, each in zip(sd, self.bound.parents, strict=True)])

    def _call(self, rows: Tensor) -> object:
        return self._source[0](self.bound.split(rows))

    def _supported(self, rows: Tensor) -> Tensor:
        """Rows whose classes are classes, whose whole numbers are whole, and whose numbers are inside their bounds."""
        parts = self.bound.split(rows)

        return torch.cat([each.inside(each.harden(parts[each.name])) for each in self.bound.parents], dim=-1)

    def _abduct(self, x: Tensor, parents: Tensor) -> Tensor:
        return x[..., :0]

    def _invert(self, x: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        return x[..., :0], torch.zeros_like(x[..., 0])

    def _fit(self, rows: Split, train: Train) -> FitOutcome:
        return FitOutcome(self.loss(rows.held_x, rows.held_parents))


def _run(module: nn.Module, rows: Tensor, where: str) -> object:
    # An image may come with less digits than all other values.
    weight = next(module.parameters(), rows)
    try:
        return module(rows.to(weight.dtype))
    except RuntimeError as error:
        raise DataError(
            f"{where}: its module fails on parents of shape {tuple(rows.shape)}: {error}. It gets all parents side "
            f"by side, in the order of the graph."
        ) from error


def _can_be_followed(function: Callable[[Tensor], Tensor], row: Tensor) -> bool:
    """Whether autograd can follow a function; a model of numpy arrays gets no tensor that wants derivatives."""
    plain = function(row)
    try:
        followed = function(row.requires_grad_())
    except RuntimeError:
        # A tensor whose derivatives are wanted refuses to become a numpy array.
        return False

    return followed.requires_grad and not plain.requires_grad


class _Differences(torch.autograd.Function):
    """A function of rows whose derivatives are central differences."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, function: Callable[[Tensor], Tensor], steps: Tensor) -> Tensor:
        ctx.function = function
        ctx.save_for_backward(rows, steps)

        return function(rows.detach())

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor, None, None]:
        rows, steps = ctx.saved_tensors
        columns = []
        for j, step in enumerate(steps):
            shift = torch.zeros_like(steps)
            shift[j] = step
            with torch.no_grad():
                rise = ctx.function(rows + shift) - ctx.function(rows - shift)
            # Linear in the weights, by which this is differentiated again where Jacobians are columns.
            columns.append((weights * rise).sum(-1) / (2 * step))

        return torch.stack(columns, dim=-1), None, None
