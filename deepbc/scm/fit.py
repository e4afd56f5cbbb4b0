"""Fits the mechanisms of a model to rows of data, one variable after the other."""

__all__ = ["Plan", "fit_mechanisms", "read_rows"]

import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_contradiction, check_finite, check_names, check_possible, check_rows, check_table
from deepbc.data.reading import read
from deepbc.data.variables import OPEN, Family, Kind, Variable, flatten, unflatten
from deepbc.errors import DataError
from deepbc.graph import CausalGraph
from deepbc.mechanisms import Mechanism
from deepbc.numerics.seeding import generator
from deepbc.progress import Progress, progress
from deepbc.training.checkpoint import Checkpoint, fingerprint
from deepbc.training.distributed import Share, shared
from deepbc.training.report import FitReport, VariableFit
from deepbc.training.trainer import Split, Trainer, Training

LARGEST_TIE = 0.02
MOST_LEVELS = 100
CHUNK = 1024
# Noise is remarked on where its distribution function is off by so much and more than one sample in 1,000 would be
# (Kolmogorov's law), or where the logarithm of its standard deviation is.
LARGEST_GAP, RARE_GAP, LARGEST_LOG_SPREAD = 0.05, 1.95, 0.3


@dataclass(frozen=True, slots=True)
class Plan:
    """How a fit is run.

    Args:
        seed: Where the split, the first weights and the order of the rows come from.
        training: The training of each variable that is named; the others have their mechanism's own.
        checkpoint: The folder in which the state is kept, if any.
        progress: Whether to show a progress bar; None shows it on a terminal.
    """

    seed: int
    training: Mapping[str, Training]
    checkpoint: str | os.PathLike[str] | None
    progress: bool | None


def read_rows(
    data: Any,
    graph: CausalGraph,
    mechanisms: Mapping[str, Mechanism],
    bounds: Mapping[str, tuple[float, float]],
    known: Mapping[str, Variable],
    names: Collection[str],
    kinds: Mapping[str, Kind],
) -> tuple[dict[str, Variable], dict[str, Tensor]]:
    """Reads the data of a fit: what each variable is, and its rows of shape `(rows, dim)`.

    Args:
        data: A data frame or a mapping from each variable to an array; that of a `Predictor` may be absent.
        graph: The causal graph.
        mechanisms: The mechanisms, bound or not.
        bounds: The declared bounds.
        known: Variables of which all that are not to be fitted stay as they are; the others keep their shape.
        names: The variables to fit. Where all variables are known, only these and their causes need data.
        kinds: What the values of variables are; those that are not named are numbers.
    """
    deterministic = {name for name, mechanism in mechanisms.items() if mechanism.deterministic}
    images = [name for name, mechanism in mechanisms.items() if mechanism.precision]
    levels = {name: kind.levels for name, kind in kinds.items() if kind.levels}
    columns = read(data, "data", tuple(graph), images, levels)
    unused = set(known) - {*names, *graph.ancestors(*names)}
    check_names(columns, tuple(graph), "data", optional=deterministic | unused)
    check_table({name: tuple(column.shape) for name, column in columns.items()})

    variables: dict[str, Variable] = {}
    rows: dict[str, Tensor] = {}
    for name in graph.order:
        where = f"Variable {name!r}"
        if name in unused:
            variables[name] = known[name]
            continue
        if name in deterministic:
            parents = tuple(variables[parent] for parent in graph.parents(name))
            column = _predicted(name, mechanisms[name], parents, rows)
            if name in columns:
                shape = tuple(column.shape[1:])
                check_contradiction(flatten(columns[name], shape, where), flatten(column, shape, where), where)
        else:
            column = columns[name]

        seen = Variable.seen(name, column, bounds.get(name, OPEN), kinds.get(name))
        variables[name] = seen if name in names else known.get(name, seen)
        _check_same_shape(seen.shape, known.get(name, seen).shape, where)
        rows[name] = variables[name].rows(column, where)
        if seen.levels and name in names:
            counts = column.long().bincount(minlength=len(seen.levels))
            _check_level_counts(seen.levels.items, counts.tolist(), MOST_LEVELS, where)
        elif not seen.levels and not mechanisms[name].given:
            # Many a pixel is constant.
            _check_varies(rows[name].reshape(-1, 1) if name in images else rows[name], where)

    return variables, rows


def _predicted(name: str, mechanism: Mechanism, parents: tuple[Variable, ...], rows: Mapping[str, Tensor]) -> Tensor:
    """Computes the column of a deterministic variable from those of its parents."""
    variable = Variable.of_dim(name, mechanism.value or 1, OPEN)
    bound = mechanism.bind(Family(variable, parents), generator(0))
    given = torch.cat([rows[parent.name] for parent in parents], dim=-1)
    # Images may be bytes, and are large.
    values = torch.cat([bound.predict(part[:, :0].double(), part.double()) for part in given.split(CHUNK)]).detach()
    check_finite(values, f"Variable {name!r}, its Predictor")

    return unflatten(values, variable.shape)


def fit_mechanisms(
    mechanisms: Mapping[str, Mechanism],
    families: Mapping[str, Family],
    rows: Mapping[str, Tensor],
    empty: Tensor,
    plan: Plan,
) -> tuple[dict[str, Mechanism], FitReport]:
    """Fits a fresh copy of each mechanism.

    Args:
        mechanisms: The mechanisms to fit, by variable; they are not changed.
        families: The family of each of these variables.
        rows: The data of every variable, with shape `(rows, dim)`.
        empty: The parents of a variable that has none, in the precision of the model, with shape `(rows, 0)`.
        plan: How to go about it.

    Returns:
        The fitted copies and the report.
    """
    for name, mechanism in mechanisms.items():
        kept = 1 - plan.training.get(name, mechanism.default_training).validation
        needed = math.ceil(mechanism.rows_needed(families[name]) / kept)
        check_rows(len(rows[name]), needed, f"Variable {name!r}")

    share = shared()
    with progress("fit", len(mechanisms), plan.progress if share.first else False) as shown:
        work = _Work(plan, rows, empty, share, _checkpoint(mechanisms, families, rows, plan, share), shown)
        results = {name: work.fit(mechanism, families[name]) for name, mechanism in mechanisms.items()}

    fitted = {name: mechanism for name, (mechanism, _) in results.items()}

    return fitted, FitReport(tuple(entry for _, entry in results.values()))


@dataclass(frozen=True, slots=True)
class _Work:
    """What the fits of all variables share."""

    plan: Plan
    rows: Mapping[str, Tensor]
    empty: Tensor
    share: Share
    checkpoint: Checkpoint
    shown: Progress

    def fit(self, mechanism: Mechanism, family: Family) -> tuple[Mechanism, VariableFit]:
        start = time.monotonic()
        name = family.child.name
        training = self.plan.training.get(name, mechanism.default_training)
        split = self._split(family, training.validation)

        # The precision is that of the model, whatever the values and the parents have: images may be bytes.
        fresh = mechanism.bind(family, generator(self.plan.seed, name, "weights"))
        fresh = fresh.to(device=split.context.device, dtype=fresh.precision or self.empty.dtype)
        loop = Trainer(training, split, name, self.plan.seed, self.share, self.checkpoint, self._tell(name))
        outcome = fresh.fit(split, loop)
        if fresh.has_density:
            check_possible(outcome.held_out[:, None], "held-out value", "density", f"Variable {name!r}")

        self.shown.advance()
        entry = VariableFit(
            name=name,
            type=family.child.kind,
            mechanism=type(fresh).__name__,
            nll=outcome.held_out.mean().item(),
            rows=len(split.held),
            curves=loop.curves,
            seconds=sum(curve.seconds for curve in loop.curves.values()) or time.monotonic() - start,
            notes=(*outcome.notes, *self._remarks(fresh, split)),
            learned=len(split.kept),
        )

        return fresh, entry

    def _remarks(self, mechanism: Mechanism, split: Split) -> tuple[str, ...]:
        """Remarks on the data of a variable, and on its held-out noise."""
        ties = () if mechanism.discrete else _ties(split.column)
        if mechanism.given or not mechanism.exact:
            return ties

        # Of a class or a whole number, any of the noises that lead there.
        shape = (len(split.held), mechanism.noise_dim)
        chance = torch.rand(shape, generator=generator(self.plan.seed, "held out"), dtype=torch.float64)
        u = mechanism.draw(split.held_x, split.held_parents, chance.to(split.context))

        return (*ties, *_misfit(u))

    def _split(self, family: Family, validation: float) -> Split:
        """Splits the rows, the same way for every variable, into those to learn from and those held out."""
        x = self.rows[family.child.name]
        parents = family.join(self.rows, self.empty)
        order = torch.randperm(len(x), generator=generator(self.plan.seed, "split")).to(x.device)
        held, kept = order.tensor_split([max(2, round(validation * len(x)))])

        return Split(x, parents, kept, held)

    def _tell(self, name: str) -> Callable[[str, int, float], None]:
        def tell(stage: str, epoch: int, loss: float) -> None:
            self.shown.tell(f"{name}: {stage}, epoch {epoch}, held-out {loss:.4f}")

        return tell


def _checkpoint(
    mechanisms: Mapping[str, Mechanism],
    families: Mapping[str, Family],
    rows: Mapping[str, Tensor],
    plan: Plan,
    share: Share,
) -> Checkpoint:
    if plan.checkpoint is None:
        return Checkpoint(None, "")

    settings = {
        "seed": plan.seed,
        "mechanisms": {name: repr(mechanism) for name, mechanism in mechanisms.items()},
        "families": {name: asdict(family) for name, family in families.items()},
        "training": {name: asdict(plan.training.get(name, mechanisms[name].default_training)) for name in mechanisms},
    }

    return Checkpoint(plan.checkpoint, fingerprint(settings, rows.values()), writes=share.first)


def _ties(rows: Tensor) -> tuple[str, ...]:
    """Remarks on a value that many rows share: a density has no true height there."""
    if rows.shape[-1] > 1:
        return ()

    values, counts = rows.unique(return_counts=True)
    most = counts.argmax()
    share = counts[most].item() / len(rows)
    if share < LARGEST_TIE:
        return ()

    return (f"{share:.0%} of the rows share the value {values[most].item():g}: its density there is a spike",)


def _misfit(u: Tensor) -> tuple[str, ...]:
    """Remarks on noise `(rows, noise)` that is not standard normal, as the laws of a model take it to be."""
    places = (torch.arange(len(u), device=u.device) + 0.5)[:, None] / len(u)
    gap = (torch.special.ndtr(u.sort(0).values) - places).abs().amax().item() + 0.5 / len(u)
    spread = max(u.std(0, correction=0).tolist(), key=lambda sd: abs(math.log(max(sd, 1e-300))))
    if gap < max(LARGEST_GAP, RARE_GAP / math.sqrt(len(u))) and abs(math.log(spread)) < LARGEST_LOG_SPREAD:
        return ()

    return (
        f"held-out noise is not standard normal (standard deviation {spread:.2g}, largest gap of the distribution "
        f"functions {gap:.2f}): declare bounds, transform the column or choose a richer mechanism",
    )


def _check_same_shape(came: tuple[int, ...], shape: tuple[int, ...], where: str) -> None:
    """A variable that is fitted again has the shape that its effects know."""
    if came != shape:
        raise DataError(f"{where}: expected values of shape {shape} as before, got {came}. Fit all variables anew.")


def _check_varies(rows: Tensor, where: str) -> None:
    """No component is constant; rows have shape `(batch, dim)`."""
    low, high = rows.amin(0).double(), rows.amax(0).double()
    constant = high - low <= 1e-15 * torch.maximum(low.abs(), high.abs())
    if constant.any():
        component = int(constant.nonzero()[0])
        part = f" (component {component})" if rows.shape[-1] > 1 else ""
        raise DataError(
            f"{where}{part}: every row has the value {rows[0, component].item():g}. A constant has no noise to learn; "
            f"take the variable out of the graph."
        )


def _check_level_counts(labels: Sequence[object], counts: Sequence[int], most: int, where: str) -> None:
    """Every level of a category has rows to learn from, and there are not as many levels as an index has."""
    if len(labels) > most:
        raise DataError(
            f"{where}: expected at most {most} levels, got {len(labels)}, such as {labels[0]!r} and {labels[1]!r}. Is "
            f"it a name or an index? Take it out of the graph, or join levels; numbers are declared as real or integer."
        )
    for label, count in zip(labels, counts, strict=True):
        if count < 2:
            raise DataError(
                f"{where}: the level {label!r} has {'one row' if count else 'no row'}, from which nothing can be "
                f"learned. Drop the row or join the level with another."
            )
