"""Fits the mechanisms of a model to rows of data, one variable after the other."""

__all__ = ["FitPlan", "OnColumns", "fit_mechanisms", "fit_model", "read_training"]

import math
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_possible, check_rows, check_type, naming_rows, pick
from deepbc.data.columns import index_of, left_out, select_columns
from deepbc.data.variables import Family, Kind, Variable
from deepbc.data.wording import percent, write_exact
from deepbc.mechanisms import FitOutcome, Mechanism
from deepbc.mechanisms.base import held_out_gain
from deepbc.numerics.kolmogorov_smirnov import ks_statistic
from deepbc.numerics.seeding import generator
from deepbc.numerics.smooth_test import remaining_gain
from deepbc.progress import Progress, progress
from deepbc.scm.column_warnings import Data, law_warnings
from deepbc.scm.columns import summarize_columns
from deepbc.scm.fit_data import DataReader
from deepbc.scm.holding_out import read_groups, split_rows
from deepbc.scm.schema import Schema
from deepbc.scm.skill import measure_skill
from deepbc.scm.type_inference import Declaration, rival_mechanism
from deepbc.training.checkpoint import Checkpoint, fingerprint
from deepbc.training.distributed import Share, shared
from deepbc.training.report import ColumnSummary, Curve, FitReport, VariableFit
from deepbc.training.trainer import Split, Trainer, Training

# Told of each variable what its column is taken for.
OnColumns = Callable[[Mapping[str, ColumnSummary]], None]

LARGEST_TIE = 0.02
# From so many rows to learn from on, a law of numbers has a rival if its noise still tells of its parents what is worth
# so many nats a row. It wins if it gains so many and, by the one-standard-error rule (Breiman et al., 1984), more than
# its error.
RACE_ROWS, LEAST_REMAINING, LEAST_GAIN = 3000, 0.003, 0.01
# Noise is remarked on where its distribution function is off by so much and more than one sample in 1,000 would be
# (Kolmogorov's law), or where the logarithm of its standard deviation is.
LARGEST_GAP, RARE_GAP, LARGEST_LOG_SPREAD = 0.05, 1.95, 0.3


@dataclass(frozen=True, slots=True)
class FitPlan:
    """How a fit is run.

    Args:
        seed: Where the split, the first weights and the order of the rows come from.
        training: The training of each variable that is named; the others have their mechanism's own.
        checkpoint: The folder in which the state is kept, if any.
        progress: Whether to show a progress bar; None shows it on a terminal.
        on_columns: Called with what each column is taken for before anything is learned.
        groups: The name of a column, or a label a row: rows of one group are held out together.
    """

    seed: int
    training: Mapping[str, Training]
    checkpoint: str | os.PathLike[str] | None
    progress: bool | None
    on_columns: OnColumns | None = None
    groups: Any = None


def read_training(training: Any, names: Collection[str]) -> dict[str, Training]:
    """Reads how to train: one way for all variables, or a mapping from some of them."""
    if training is None:
        return {}
    if isinstance(training, Training):
        return dict.fromkeys(names, training)

    check_type(training, Mapping, "training")
    for each in training.values():
        check_type(each, Training, "training")

    return {pick(name, names, "training"): each for name, each in training.items()}


def fit_model(
    declaration: Declaration, table: Any, names: Collection[str], known: Schema, plan: FitPlan
) -> tuple[dict[str, Variable], dict[str, Mechanism], FitReport]:
    """Reads data, finds what each variable is, and fits the chosen ones.

    Args:
        declaration: What people said of the model.
        table: A table, of which columns that are no variables are left out, or a mapping from each variable to an
            array.
        names: The variables to fit.
        known: Variables of which those that are not to be fitted stay as they are; none where all are new.
        plan: How to go about it.

    Returns:
        All variables, the fitted mechanisms and the report.
    """
    known_names = tuple(declaration.graph)
    columns, others = select_columns(table, known_names, "data"), left_out(table, known_names, "data")
    with naming_rows(index_of(table)):
        kinds = declaration.kinds(columns, known.variables)
        chosen = {name: declaration.mechanism(name, kinds.get(name, Kind())) for name in names}
        laws = {**declaration.mechanisms, **chosen}
        reading = DataReader(replace(declaration, mechanisms=laws), known.variables, names, kinds)
        variables, columns, read_in = reading.read(columns, others)

    schema = replace(known, variables=variables, mechanisms=laws)
    rows = schema.place_data(read_in)
    parents = {name: declaration.graph.parents(name) for name in names}
    families = {name: Family(variables[name], tuple(variables[each] for each in parents[name])) for name in names}
    empty = schema.empty(next(iter(read_in.values())).shape[:1])
    origins = {name: declaration.origin(name, known.variables) for name in names}
    declared = [name for name, origin in origins.items() if origin == "declared"]
    data = Data(families, chosen, columns, read_in, declared)
    summaries = summarize_columns(data, origins)
    if plan.on_columns:
        plan.on_columns(summaries)

    open_names = [name for name in names if name not in declaration.chosen]
    rivals = {name: rival for name in open_names if (rival := rival_mechanism(kinds.get(name, Kind())))}
    groups = read_groups(plan.groups, table, known_names, len(empty))
    mechanisms, report = fit_mechanisms(chosen, families, rows, empty, replace(plan, groups=groups), rivals)
    entries = [replace(each, column=_judged(each, data, summaries[each.name])) for each in report]

    return variables, mechanisms, FitReport(tuple(entries))


def _judged(entry: VariableFit, data: Data, column: ColumnSummary) -> ColumnSummary:
    """What was said of a column, with what shows only once its law is learned."""
    late = () if column.warnings else law_warnings(data, entry.name, entry.nll)

    return replace(column, warnings=(*column.warnings, *late))


def fit_mechanisms(
    mechanisms: Mapping[str, Mechanism],
    families: Mapping[str, Family],
    rows: Mapping[str, Tensor],
    empty: Tensor,
    plan: FitPlan,
    rivals: Mapping[str, Mechanism],
) -> tuple[dict[str, Mechanism], FitReport]:
    """Fits a fresh copy of each mechanism.

    Args:
        mechanisms: The mechanisms to fit, by variable; they are not changed.
        families: The family of each of these variables.
        rows: The data of every variable, with shape `(rows, dim)`.
        empty: The parents of a variable that has none, in the precision of the model, with shape `(rows, 0)`.
        plan: How to go about it.
        rivals: Mechanisms that take the place of these where rows are many and held-out likelihood clearly pays.

    Returns:
        The fitted copies and the report.
    """
    for name, mechanism in mechanisms.items():
        kept = 1 - plan.training.get(name, mechanism.default_training).validation
        needed = math.ceil(mechanism.rows_needed(families[name]) / kept)
        check_rows(len(rows[name]), needed, f"Variable {name!r}")

    share = shared()
    settings = {
        "seed": plan.seed,
        "mechanisms": {name: repr(mechanism) for name, mechanism in mechanisms.items()},
        "families": {name: asdict(family) for name, family in families.items()},
        "training": {name: asdict(plan.training.get(name, mechanisms[name].default_training)) for name in mechanisms},
    }
    hanging = [] if plan.groups is None else [plan.groups]
    key = "" if plan.checkpoint is None else fingerprint(settings, [*rows.values(), *hanging])
    checkpoint = Checkpoint(plan.checkpoint, key, writes=share.first)
    with progress("fit", len(mechanisms), plan.progress if share.first else False, lines=True) as shown:
        work = _Work(plan, rows, empty, share, checkpoint, shown)
        results = {
            name: work.fit(mechanism, families[name], rivals.get(name)) for name, mechanism in mechanisms.items()
        }

    fitted = {name: mechanism for name, (mechanism, _) in results.items()}

    return fitted, FitReport(tuple(entry for _, entry in results.values()))


@dataclass(frozen=True, slots=True)
class _Work:
    """What the fits of all variables share."""

    plan: FitPlan
    rows: Mapping[str, Tensor]
    empty: Tensor
    share: Share
    checkpoint: Checkpoint
    shown: Progress

    def fit(self, mechanism: Mechanism, family: Family, rival: Mechanism | None) -> tuple[Mechanism, VariableFit]:
        start = time.monotonic()
        training = self.plan.training.get(family.child.name, mechanism.default_training)
        split = self._split(family, training.validation)
        fresh, outcome, curves = self._learn(mechanism, family, split, training)
        if rival is not None and family.parents and len(split.kept) >= RACE_ROWS and _leaves_something(fresh, split):
            other = self._learn(rival, family, split, training)
            gain, error = held_out_gain(outcome.held_out, other[1].held_out)
            wins = gain > max(LEAST_GAIN, error)
            note = f"{rival!r} {'kept' if wins else 'left out'}: held-out gain {gain:.4f} ± {error:.4f} nats"
            fresh, outcome, curves = other if wins else (fresh, outcome, {**other[2], **curves})
            outcome = replace(outcome, notes=(*outcome.notes, note))

        self.shown.advance()
        misfits, skill = self._misfits(fresh, split), measure_skill(fresh, split)
        entry = VariableFit(
            name=family.child.name,
            type=family.child.kind,
            mechanism=type(fresh).__name__,
            nll=outcome.held_out.mean().item(),
            rows=len(split.held),
            curves=curves,
            seconds=sum(curve.seconds for curve in curves.values()) or time.monotonic() - start,
            notes=(*outcome.notes, *(each.remark for each in misfits)),
            learned=len(split.kept),
            misfits=tuple(each.clause for each in misfits),
            r2=skill.r2,
            auc=skill.auc,
        )

        return fresh, entry

    def _learn(
        self, mechanism: Mechanism, family: Family, split: Split, training: Training
    ) -> tuple[Mechanism, FitOutcome, Mapping[str, Curve]]:
        """Fits a fresh copy of a mechanism."""
        name = family.child.name
        # The precision is that of the model, whatever the values and the parents have: images may be bytes.
        fresh = mechanism.bind(family, generator(self.plan.seed, name, "weights"))
        fresh = fresh.to(device=split.context.device, dtype=fresh.precision or self.empty.dtype)

        clock = _Epochs(training.epochs)

        def on_epoch(stage: str, epoch: int, loss: float) -> None:
            self.shown.describe(f"{name}: {stage}, {clock.tell(stage, epoch)}, held-out {loss:.4f}")

        loop = Trainer(training, split, name, self.plan.seed, self.share, self.checkpoint, on_epoch)
        outcome = fresh.fit(split, loop)
        if fresh.has_density:
            check_possible(outcome.held_out[:, None], "held-out value", "density", f"Variable {name!r}")

        return fresh, outcome, loop.curves

    def _misfits(self, mechanism: Mechanism, split: Split) -> "tuple[_Misfit, ...]":
        """What a law cannot fit in the data of its variable, and how its held-out noise is odd."""
        ties = () if mechanism.discrete else _ties(split.column, mechanism.bound.child)
        if mechanism.given or not mechanism.exact:
            return ties

        # Of a class, a whole number, a floor or a ceiling, any of the noises that lead there.
        shape = (len(split.held), mechanism.noise_dim)
        uniform = torch.rand(shape, generator=generator(self.plan.seed, "held out"), dtype=torch.float64)
        u = mechanism.draw(split.held_x, split.held_parents, uniform.to(split.context))

        return (*ties, *_misfit(u))

    def _split(self, family: Family, validation: float) -> Split:
        """Splits the rows, the same way for every variable, into those to learn from and those held out."""
        x = self.rows[family.child.name]
        parents = family.join(self.rows, self.empty)
        kept, held = split_rows(len(x), validation, self.plan.groups, generator(self.plan.seed, "split"))

        return Split(x, parents, kept.to(x.device), held.to(x.device))


@torch.no_grad()
def _leaves_something(mechanism: Mechanism, split: Split) -> bool:
    """Whether a richer law may gain."""
    if not mechanism.exact or mechanism.noise_dim > 1:
        return True
    x, parents = split.of(split.kept[:RACE_ROWS])
    uniform = torch.rand(len(x), 1, generator=generator(0, "remaining"), dtype=torch.float64)

    return remaining_gain(mechanism.draw(x, parents, uniform.to(parents)).squeeze(-1), parents) > LEAST_REMAINING


@dataclass(frozen=True, slots=True)
class _Misfit:
    """How a law misfits its data: a remark for the report, and a clause for an answer in which it takes part."""

    remark: str
    clause: str


@dataclass(slots=True)
class _Epochs:
    """How far a stage of a training is, and how long an epoch takes: how many there will be nobody knows."""

    most: int
    stage: str = ""
    first: int = 0
    start: float = 0.0

    def tell(self, stage: str, epoch: int) -> str:
        now = time.monotonic()
        if stage != self.stage:
            self.stage, self.first, self.start = stage, epoch, now
        each = f" of {(now - self.start) / (epoch - self.first):.2g} s" if epoch > self.first else ""

        return f"epoch {epoch}{each}, of at most {self.most:,}"


def _ties(rows: Tensor, variable: Variable) -> tuple[_Misfit, ...]:
    """Names a value that many rows share: a density has no true height there."""
    if rows.shape[-1] > 1:
        return ()

    values, counts = rows[(rows > variable.floor) & (rows < variable.ceiling)].unique(return_counts=True)
    if not len(values):
        return ()
    most = counts.argmax()
    share = counts[most].item() / len(rows)
    if share < LARGEST_TIE:
        return ()

    value = values[most].item()

    return (
        _Misfit(
            f"{share:.0%} of the rows share the value {value:g}: its density there is a spike",
            f"{percent(share)} of its rows share the value {write_exact(value)}",
        ),
    )


def _misfit(u: Tensor) -> tuple[_Misfit, ...]:
    """Names noise `(rows, noise)` that is not standard normal, as the laws of a model take it to be."""
    gap = ks_statistic(u).amax().item()
    spread = max(u.std(0, correction=0).tolist(), key=lambda sd: abs(math.log(max(sd, 1e-300))))
    if gap < max(LARGEST_GAP, RARE_GAP / math.sqrt(len(u))) and abs(math.log(spread)) < LARGEST_LOG_SPREAD:
        return ()

    return (
        _Misfit(
            f"held-out noise is not standard normal (standard deviation {spread:.2g}, largest gap of the distribution "
            f"functions {gap:.2f}): declare bounds, transform the column or choose a richer mechanism",
            "the noise of rows that it did not learn from is not standard normal",
        ),
    )
