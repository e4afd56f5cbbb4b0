r"""The structural causal model: a mechanism for every variable of a graph, and the one pass that completes a world.

Variable :math:`i` obeys :math:`x_i = f_i(x_{pa(i)}, u_i)`, and :math:`f_i` is invertible in :math:`u_i`. So for each
variable one of value and noise is enough: given the parents, its mechanism yields the other. `SCM.complete` walks the
graph once; abduction, prediction, sampling and every counterfactual are that pass with other things given.
"""

__all__ = ["SCM"]

import copy
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from deepbc._validation import (
    check_between,
    check_contradiction,
    check_count,
    check_finite,
    check_graph,
    check_names,
    check_possible,
    check_type,
    name_rows,
    pick,
)
from deepbc.data.categories import Label, Levels
from deepbc.data.reading import columns_in, read
from deepbc.data.variables import OPEN, Family, Kind, Variable, common_batch, flatten, read_bounds, unflatten
from deepbc.data.world import World
from deepbc.errors import DataError, GraphError, NotFittedError, SettingError
from deepbc.evaluation.check import ENOUGH, MOST_ROWS, SAMPLES, CheckReport, Evidence, Rows, judge
from deepbc.graph import CausalGraph
from deepbc.mechanisms import Discrete, Flow, Mechanism
from deepbc.numerics.seeding import generator
from deepbc.scm.fit import Plan, fit_mechanisms, read_rows
from deepbc.scm.type_inference import find_kinds, read_types, suited
from deepbc.training.report import FitReport
from deepbc.training.trainer import Training

KIND = "model"


class SCM:
    r"""Creates a structural causal model.

    Args:
        graph: The causal graph.
        mechanisms: Mechanisms by variable, of which the settings are taken; a variable that is not named gets one by
            its type: a `Flow`, `Integer` or `Categorical`.
        bounds: Bounds by variable, `(lower, upper)`, None for an open side. No learned law ever leaves them; a given
            law that does is an error.
        types: Types by variable: `"real"`, `"integer"`, `"category"`, or the ordered levels of one, lowest first. One
            that is not named shows in the data: text, truth values and columns of two values are categories, and
            columns of integers whole numbers.

    `report` has what the last fit of each variable said; it is saved with the model.

    Example:
        >>> graph = CausalGraph.parse("cause -> effect")
        >>> scm = SCM(graph, {"effect": Flow(hidden=[])}, bounds={"effect": (0, None)})
        >>> scm
        SCM(cause: Flow, effect: Flow; not fitted)
    """

    graph: CausalGraph
    mechanisms: Mapping[str, Mechanism]
    variables: Mapping[str, Variable]
    bounds: Mapping[str, tuple[float, float]]
    types: Mapping[str, str | tuple[Label, ...]]
    report: FitReport
    device: torch.device
    dtype: torch.dtype

    def __init__(
        self,
        graph: CausalGraph,
        mechanisms: Mapping[str, Mechanism] | None = None,
        *,
        bounds: Mapping[str, Sequence[float | None]] | None = None,
        types: Mapping[str, str | Sequence[Label]] | None = None,
    ) -> None:
        check_graph(graph, CausalGraph)
        mechanisms, bounds = mechanisms or {}, bounds or {}
        for name in (*mechanisms, *bounds):
            pick(name, tuple(graph), "SCM")
        for name, mechanism in mechanisms.items():
            check_type(mechanism, Mechanism, f"Mechanism of {name!r}")

        self.graph = graph
        self.bounds = {name: read_bounds(pair, f"bounds of {name!r}") for name, pair in bounds.items()}
        self.types = read_types(types or {}, tuple(graph))
        self.mechanisms = {name: _settings_of(mechanisms[name]) if name in mechanisms else Flow() for name in graph}
        # The others get the default mechanism of their type at each fit.
        self._chosen = frozenset(mechanisms)
        self.variables = {}
        self.report = FitReport(())
        self.device, self.dtype = torch.device("cpu"), torch.float64
        self._bind_given()

    @property
    def fitted(self) -> bool:
        """Whether every mechanism is ready; laws that are given need no fit."""
        return all(mechanism.family is not None for mechanism in self.mechanisms.values())

    def fit(
        self,
        data: Any,
        *,
        seed: int = 0,
        only: Sequence[str] | None = None,
        training: Training | Mapping[str, Training] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> FitReport:
        r"""Learns the mechanisms from data. The model changes only once the whole fit has succeeded.

        Args:
            data: A data frame, or a mapping from each variable to an array with shape `(rows, *shape)`.
            seed: Same seed, same machine, same data: same model.
            only: The variables to fit; the others stay as they are. None fits all.
            training: How to train, for all or by variable; by default each mechanism knows.
            checkpoint: A folder in which the state is kept. A killed fit that is started again goes on from there and
                ends where it would have.
            progress: Whether to show a progress bar; None shows it on a terminal.

        Returns:
            The report: held-out likelihood, learning curves, decisions.
        """
        names = self.names(only, "only")
        plan = Plan(seed, self._training(training), checkpoint, progress)
        known = {} if only is None else self.variables
        kinds = self._kinds(data, known)
        laws = {name: self._suited(name, kinds.get(name, Kind())) for name in names}
        laws = {**self.mechanisms, **laws}
        variables, columns = read_rows(data, self.graph, laws, self.bounds, known, names, kinds)
        rows = {name: self._laid(variables[name], column) for name, column in columns.items()}
        families = {name: self._family(name, variables) for name in names}
        chosen = {name: laws[name] for name in names}
        empty = self._place(next(iter(columns.values()))[:, :0])

        fitted, report = fit_mechanisms(chosen, families, rows, empty, plan)
        self.variables = variables
        self.mechanisms = {**self.mechanisms, **fitted}
        entries = {each.name: each for each in (*self.report, *report)}
        self.report = FitReport(tuple(entries[name] for name in self.graph.order if name in entries))
        for name, mechanism in self.mechanisms.items():
            if mechanism.given and mechanism.family is None:
                self.mechanisms[name] = self._bind(name)

        return report

    def _kinds(self, data: Any, known: Mapping[str, Variable]) -> dict[str, Kind]:
        """What the values of each variable are: as before where it is known, or as declared, chosen or seen."""
        columns = {name: column for name, column in columns_in(data, "data").items() if name in self.graph}
        seen = {
            name: column
            for name, column in columns.items()
            if name not in known and not self.mechanisms[name].precision and not self.mechanisms[name].given
        }
        chosen = {name: self.mechanisms[name] for name in self._chosen}
        before = {name: Kind(each.levels, each.whole) for name, each in known.items()}

        return {**find_kinds(seen, self.types, chosen, self.bounds), **before}

    def _suited(self, name: str, kind: Kind) -> Mechanism:
        return suited(kind, self.mechanisms[name] if name in self._chosen else None, f"Variable {name!r}")

    @torch.no_grad()
    def complete(self, values: Any = None, noise: Any = None) -> World:
        r"""Completes a world: for each variable one of value and noise is given, its mechanism yields the other.

        Args:
            values: Values :math:`x` by variable, in the data's own units, with shape `(*batch, *shape)`.
            noise: Noise :math:`u` of the other variables, with shape `(*batch,)` or `(*batch, noise)`.

        Returns:
            The world. A `Predictor` needs neither value nor noise.
        """
        return self.world(*self._complete_checked(values, noise))

    def abduct(self, values: Any) -> Mapping[str, Tensor]:
        """Computes the noise of every variable from the values of all (a `Predictor`'s may be left out)."""
        return self.complete(values=values).noise

    def predict(self, noise: Any) -> Mapping[str, Tensor]:
        """Computes the values of every variable from the noise of all (a `Predictor` has none)."""
        return self.complete(noise=noise).values

    @torch.no_grad()
    def sample(self, rows: int, *, seed: int | None = None) -> World:
        """Draws worlds from the model.

        Args:
            rows: The number of worlds.
            seed: Same seed, same worlds; None draws fresh ones.
        """
        check_count(rows, "sample rows")
        self._check_fitted()
        x, u = self.complete_rows({}, {name: self._draw(name, rows, seed) for name in self.graph})
        self._check_laws(x, u)

        return self.world(x, u)

    @torch.no_grad()
    def log_prob(self, values: Any, *, of: Sequence[str] | None = None) -> Tensor:
        """Computes the log-density of each row, in the data's own units.

        Args:
            values: Values of every variable (a `Predictor`'s may be left out, and adds nothing).
            of: The variables whose densities, each given its parents, are added; None adds all.

        Returns:
            The log-density, with shape `(*batch,)`.
        """
        x, _ = self._complete_checked(values, None, abduct=False)
        names = self.names(of, "of")
        terms = [self.mechanisms[name].log_prob(x[name], self._joined(name, x, x[name][..., :0])) for name in names]
        if not all(term.isfinite().all() for term in terms):
            self.factual_rows(values)  # names the value that no noise gives

        return torch.stack(terms).sum(0).double().cpu()

    @torch.no_grad()
    def check(self, data: Any, *, seed: int = 0, level: float = 0.01) -> CheckReport:
        """Tests what the model claims of data: its laws, and the independences that its graph says hold.

        Rows that the fit did not see are the better judges; those of the fit are taken too, and are milder.

        Args:
            data: Values of every variable (a `Predictor`'s may be left out), at least 20 rows, each drawn on its own.
                Of more than 5,000 rows so many are drawn: with more, every law that was learned is found wrong.
            seed: Same seed, same data: same report.
            level: The probability with which a right model may be rejected.

        Returns:
            The report: the verdict, why, and how each variable fared.
        """
        check_between(level, 0.0, 1.0, "check level")
        given = self.read_values(data)
        followed = [name for name, mechanism in self.mechanisms.items() if mechanism.deterministic]
        check_names(given, tuple(self.graph), "check data", optional=followed)
        batch = common_batch(given)
        _check_enough(batch.numel(), ENOUGH, "check data")

        chosen = torch.randperm(batch.numel(), generator=generator(seed, "check rows"))[:MOST_ROWS]
        rows = {name: each.expand(*batch, -1).flatten(0, -2)[chosen] for name, each in given.items()}
        try:
            x, u = self._complete_read(rows, {})
        except DataError:
            self.factual_rows(data)  # names the row as it was handed in
            raise
        drawn = self._drawn(seed)
        learned = {each.name: each.learned for each in self.report}
        evidence = [
            Evidence.of(
                self.mechanisms[name],
                Rows(x[name], u[name], self._joined(name, x, x[name][..., :0])),
                drawn.get(name, x[name][:0]),
                learned.get(name) or len(x[name]),
                seed,
            )
            for name in self.graph.order
        ]

        return judge(evidence, given=batch.numel(), level=level, seed=seed)

    def _drawn(self, seed: int) -> dict[str, Tensor]:
        """Draws rows to be held against data; not those of `sample` for the seed, which may be the data."""
        plain = [name for name in self.graph if name not in self._images]
        other = int(torch.randint(2**62, (), generator=generator(seed, "check samples")))
        noise = {name: self._draw(name, SAMPLES, other) for name in self.graph}
        x, _ = self.complete_rows({}, noise, names={*plain, *self.graph.ancestors(*plain)})
        for name, each in x.items():
            check_possible(each, "noise", "value", f"Variable {name!r}")

        return x

    def replace(self, name: str, mechanism: Mechanism) -> "SCM":
        """Creates a model with one other mechanism that shares all the rest.

        A law that is given, or a mechanism that was fitted to the same variable and parents, works at once; any other
        needs `fit(data, only=[name])`, which leaves this model and the shared mechanisms as they are.
        """
        pick(name, tuple(self.graph), "replace")
        check_type(mechanism, Mechanism, f"Mechanism of {name!r}")
        other = copy.copy(self)
        other.report = FitReport(tuple(each for each in self.report if each.name != name))
        other.mechanisms = {**self.mechanisms, name: mechanism}
        other._chosen = self._chosen | {name}
        if not self.variables or mechanism.given:
            other.mechanisms[name] = _settings_of(mechanism)
        elif mechanism.family is not None:
            family = self._family(name, self.variables)
            _check_fits(mechanism.family.fits(family), mechanism.family, family)
        if self.variables and mechanism.given:
            other.mechanisms[name] = other._bind(name)
        elif not self.variables:
            other._bind_given()

        return other

    def part(self, names: Iterable[str]) -> "SCM":
        """Creates the model of some variables alone, which shares their mechanisms; effects of theirs are left out.

        Args:
            names: The variables, with all causes of each.
        """
        kept = {pick(name, tuple(self.graph), "part") for name in names}
        _check_causes({name: self.graph.parents(name) for name in self.graph if name in kept}, kept)
        other = copy.copy(self)
        other.graph = CausalGraph({name: self.graph.parents(name) for name in self.graph if name in kept})
        other.report = FitReport(tuple(each for each in self.report if each.name in kept))
        other._chosen = self._chosen & kept
        for field in ("bounds", "types", "mechanisms", "variables"):
            setattr(other, field, {name: each for name, each in getattr(self, field).items() if name in kept})

        return other

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "SCM":
        """Creates a copy of the model on another device or with another precision; answers stay float64 on the CPU."""
        _check_move(device, dtype or self.dtype, self.bounds)
        other = copy.copy(self)
        other.device = torch.device(device) if device is not None else self.device
        other.dtype = dtype or self.dtype
        other.mechanisms = {
            name: mechanism.copy().to(device=other.device, dtype=mechanism.precision or other.dtype)
            for name, mechanism in self.mechanisms.items()
        }

        return other

    def precise(self, names: Collection[str]) -> "SCM":
        """The model with the precision of its noise in all of these variables, for a search through their laws."""
        images = [name for name in self._images if name in names]
        other = copy.copy(self)
        made = {name: self.mechanisms[name].copy().to(device=self.device, dtype=self.dtype) for name in images}
        other.mechanisms = {**self.mechanisms, **made}

        return other if images else self

    def softened(self, names: Collection[str], *, hard: bool = False) -> "SCM":
        """The model with smooth stand-ins for the laws of these discrete variables, for a search through them.

        Args:
            names: The variables.
            hard: Whether their values stay as they are, and only derivatives are those of the stand-ins.
        """
        other = copy.copy(self)
        laws = {name: law for name, law in self.mechanisms.items() if isinstance(law, Discrete) and name in names}
        other.mechanisms = {**self.mechanisms, **{name: law.softened(hard=hard) for name, law in laws.items()}}

        return other

    def rounding(self, names: Collection[str]) -> float:
        """The least step of numbers next to 1 in the laws of these variables."""
        return max(torch.finfo(self.mechanisms[name].precision or self.dtype).eps for name in names)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Saves the model as a folder of a manifest and weights; an older model of that name is replaced."""
        # Loaded here and in `load` alone: the validation of manifests takes as long to load as all the rest of deepbc.
        from deepbc.scm.serialization import describe
        from deepbc.storage import write_folder

        self._check_fitted()
        write_folder(folder, KIND, *describe(self.graph, self.variables, self.mechanisms, self.report))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Loads a model that was saved. Nothing in the folder is executed."""
        from deepbc.scm.serialization import rebuild
        from deepbc.storage import read_folder

        graph, variables, mechanisms, report = rebuild(*read_folder(folder, KIND), where=str(folder))
        scm = cls(graph)
        scm.variables, scm.mechanisms, scm.report = variables, mechanisms, report
        scm._chosen = frozenset(mechanisms)
        scm.bounds = {name: (each.lower, each.upper) for name, each in variables.items() if each.bounded}

        return scm

    def complete_rows(
        self,
        values: Mapping[str, Tensor],
        noise: Mapping[str, Tensor],
        *,
        names: Collection[str] | None = None,
        reduced: Mapping[str, Tensor] | None = None,
        volumes: dict[str, Tensor] | None = None,
        rest: Mapping[str, Tensor] | None = None,
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        r"""Walks the graph once and fills in what is missing; the pass that everything else is made of.

        Args:
            values: Values :math:`x`, with shape `(*batch, value)`. They hold, whatever the law says.
            noise: Noise :math:`u`, with shape `(*batch, noise)`; a variable of which both are given is left as it is.
            names: The variables to walk, with all causes of each; None walks all.
            reduced: What `Mechanism.reduce` made of some of the values, where a pass is made again and again.
            volumes: Takes up the log-volume of each abduction, `(*batch,)`, where one is given; that of a reduced value
                but for a part that the parents do not change.
            rest: Noise by variable. Where many noises lead to a value, the nearest to that one is taken.

        Returns:
            Values and noise of every variable that was walked.
        """
        names, reduced, rest = self.graph if names is None else names, reduced or {}, rest or {}
        batch = common_batch({**noise, **values})
        empty = torch.empty(*batch, 0, device=self.device, dtype=self.dtype)
        x: dict[str, Tensor] = {}
        u: dict[str, Tensor] = {}

        for name in self.graph.order:
            if name not in names:
                continue
            mechanism = self.mechanisms[name]
            if name in values and name in noise:
                x[name], u[name] = values[name].expand(*batch, -1), noise[name]
            elif name in values:
                x[name] = values[name].expand(*batch, -1)
                parents = self._joined(name, x, empty)
                if mechanism.discrete and name in rest:
                    u[name] = mechanism.nearest(x[name], parents, rest[name].expand(*batch, -1))
                elif name not in reduced and volumes is None:
                    u[name] = mechanism.abduct(x[name], parents)
                elif volumes is None:
                    u[name] = mechanism.abduct_reduced(reduced[name], parents)
                elif name not in reduced:
                    u[name], volumes[name] = mechanism.invert(x[name], parents)
                else:
                    u[name], volumes[name] = mechanism.invert_reduced(reduced[name], parents)
            else:
                u[name] = noise.get(name, empty)
                x[name] = mechanism.predict(u[name], self._joined(name, x, empty))
            u[name] = u[name].expand(*batch, -1)

        return x, u

    def excess_rows(self, name: str, x: Mapping[str, Tensor], u: Tensor) -> Tensor:
        """How far noise is outside the region that leads to the value of a discrete variable, side by side.

        Args:
            name: The variable.
            x: Values of it and of its parents, with shape `(*batch, value)`.
            u: Its noise, with shape `(*batch, noise)`.
        """
        mechanism = self.mechanisms[name]
        assert isinstance(mechanism, Discrete)  # noqa: S101 # its variable is

        return mechanism.region(x[name], x[name], self._joined(name, x, x[name][..., :0])).excess(u)

    @torch.no_grad()
    def factual_rows(self, values: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Reads the values of a factual world and abducts its noise, both as rows."""
        return self._complete_checked(values, None)

    def read_values(self, data: Any) -> dict[str, Tensor]:
        """Reads and checks values by variable, as rows of shape `(*batch, value)` on the model's device."""
        self._check_fitted()
        columns = read({} if data is None else data, "values", tuple(self.graph), self._images, self.levels)
        check_names(columns, tuple(self.graph), "values", optional=tuple(self.graph))

        rows = {name: self.variables[name].rows(columns[name], f"Variable {name!r}") for name in columns}

        return {name: self._set(name, each) for name, each in rows.items()}

    def read_noise(self, data: Any) -> dict[str, Tensor]:
        """Reads and checks noise by variable, as rows of shape `(*batch, noise)` on the model's device."""
        self._check_fitted()
        columns = read({} if data is None else data, "noise", tuple(self.graph))
        check_names(columns, tuple(self.graph), "noise", optional=tuple(self.graph))

        rows = {name: flatten(columns[name], self._noise_shape(name), f"noise of {name!r}") for name in columns}
        for name, each in rows.items():
            check_finite(each, f"noise of {name!r}")

        return {name: self._place(each) for name, each in rows.items()}

    def world(self, x: Mapping[str, Tensor], u: Mapping[str, Tensor]) -> World:
        """Brings values and noise of every variable, as rows, to the shapes and units in which people see them."""
        values = {name: self.show(name, x[name]) for name in self.graph}
        noise = {name: self._show(u[name], self._noise_shape(name)) for name in self.graph}

        kinds = {name: Kind(each.levels, each.whole) for name, each in self.variables.items() if each.discrete}

        return World(values, noise, common_batch(x), kinds)

    def _complete_checked(
        self, values: Any, noise: Any, *, abduct: bool = True
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Reads, completes and checks; without abduction, what has a value gets noise of no components."""
        return self._complete_read(self.read_values(values), self.read_noise(noise), abduct=abduct)

    def _complete_read(
        self, given_values: Mapping[str, Tensor], given_noise: Mapping[str, Tensor], *, abduct: bool = True
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Completes rows as they were read, and checks them."""
        deterministic = {name for name, mechanism in self.mechanisms.items() if mechanism.deterministic}
        free = {name: rows for name, rows in given_values.items() if name not in deterministic}
        _check_one_source(free, given_noise, [name for name in self.graph if name not in deterministic])

        if not abduct:
            given_noise = {name: rows[..., :0] for name, rows in free.items()}
        x, u = self.complete_rows(free, given_noise)
        self._check_laws(x, u)
        for name in deterministic & given_values.keys():
            check_contradiction(given_values[name].expand_as(x[name]), x[name], f"Variable {name!r}")

        return x, u

    def _check_laws(self, x: Mapping[str, Tensor], u: Mapping[str, Tensor]) -> None:
        """Every law yielded a number, and given laws kept the declared bounds."""
        for name, variable in self.variables.items():
            check_possible(u[name], "value", "noise", f"Variable {name!r}")
            check_possible(x[name], "noise", "value", f"Variable {name!r}")
            if self.mechanisms[name].given:
                _check_kept(x[name], variable.lower, variable.upper, f"Variable {name!r}")

    def clipped_rows(self, x: Mapping[str, Tensor], u: Mapping[str, Tensor]) -> Tensor:
        """Counts, for each row of a world, the components of values that a law cut to their range: `(*batch,)`."""
        counts = [
            self.mechanisms[name].clipped(u[name], self._joined(name, x, x[name][..., :0])) for name in self.graph
        ]

        return torch.stack(counts).sum(0)

    def _joined(self, name: str, x: Mapping[str, Tensor], empty: Tensor) -> Tensor:
        return self._family(name, self.variables).join(x, empty)

    def _place(self, rows: Tensor, precision: torch.dtype | None = None) -> Tensor:
        return rows.to(device=self.device, dtype=precision or self.dtype)

    def _set(self, name: str, rows: Tensor) -> Tensor:
        """Lays out values; images may attain their bounds, and stay as they are."""
        precision = self.mechanisms[name].precision
        placed = self._place(rows, precision)

        return placed if precision else self.variables[name].inside(placed)

    def _laid(self, variable: Variable, rows: Tensor) -> Tensor:
        """Lays out the rows of a fit; images stay as they came, because other types take several times as much."""
        if variable.name in self._images:
            return rows.to(self.device)

        return variable.inside(self._place(rows))

    @property
    def levels(self) -> dict[str, Levels]:
        """The levels of each variable that is a category."""
        return {name: each.levels for name, each in self.variables.items() if each.levels}

    @property
    def _images(self) -> tuple[str, ...]:
        """The variables whose mechanisms have a precision of their own."""
        return tuple(name for name, mechanism in self.mechanisms.items() if mechanism.precision)

    def spread(self, name: str) -> Tensor:
        """The standard deviation of each component of a variable in the data of its fit; 1 where a law is given."""
        sd = torch.tensor(self.variables[name].sd or (1.0,), dtype=self.dtype, device=self.device)

        return sd.expand(self.variables[name].dim)

    def show(self, name: str, rows: Tensor) -> Any:
        """Brings values of a variable, as rows, to the shape in which people see them; those of a category as labels.

        Labels of text come as an array of objects, all else as a tensor.
        """
        levels = self.variables[name].levels
        if levels:
            return levels.labels(levels.of_rows(rows.detach().nan_to_num()))

        return self._show(rows, self.variables[name].shape, self.mechanisms[name].precision)

    def _show(self, rows: Tensor, shape: tuple[int, ...], precision: torch.dtype | None = None) -> Tensor:
        shown = unflatten(rows.detach(), shape).to(device="cpu", dtype=precision or torch.float64)

        # A copy, so that a result can be written to without touching the input, or another result.
        return shown.clone(memory_format=torch.contiguous_format)

    def _noise_shape(self, name: str) -> tuple[int, ...]:
        dim = self.mechanisms[name].noise_dim
        return () if dim == 1 else (dim,)

    def _draw(self, name: str, rows: int, seed: int | None) -> Tensor:
        dim = self.mechanisms[name].noise_dim
        noise = torch.randn(rows, dim, generator=generator(seed, name, "noise"), dtype=torch.float64)
        noise[:, dim - self.mechanisms[name].fixed_noise_dim :] = 0.0

        return self._place(noise)

    def _family(self, name: str, variables: Mapping[str, Variable]) -> Family:
        return Family(variables[name], tuple(variables[parent] for parent in self.graph.parents(name)))

    def _bind(self, name: str) -> Mechanism:
        bound = self.mechanisms[name].bind(self._family(name, self.variables), generator(0, name, "weights"))
        return bound.to(device=self.device, dtype=bound.precision or self.dtype)

    def _bind_given(self) -> None:
        """Makes a model whose laws are all given ready: they say themselves what their variables are."""
        if all(mechanism.given for mechanism in self.mechanisms.values()):
            dims = {name: mechanism.value or 1 for name, mechanism in self.mechanisms.items()}
            limits = {name: self.bounds.get(name, OPEN) for name in self.graph}
            self.variables = {name: Variable.of_dim(name, dims[name], limits[name]) for name in self.graph}
            self.mechanisms = {name: self._bind(name) for name in self.graph}

    def names(self, chosen: Sequence[str] | None, where: str) -> tuple[str, ...]:
        """The chosen variables, or all; a lone name is one."""
        if chosen is None:
            return tuple(self.graph)

        listed = (chosen,) if isinstance(chosen, str) else tuple(chosen)
        check_count(len(listed), f"number of variables in {where}", least=1)

        return tuple(pick(name, tuple(self.graph), where) for name in listed)

    def _training(self, training: Training | Mapping[str, Training] | None) -> Mapping[str, Training]:
        if training is None:
            return {}
        if isinstance(training, Training):
            return dict.fromkeys(self.graph, training)

        check_type(training, Mapping, "training")
        for each in training.values():
            check_type(each, Training, "training")

        return {pick(name, tuple(self.graph), "training"): each for name, each in training.items()}

    def _check_fitted(self) -> None:
        waiting = [name for name, mechanism in self.mechanisms.items() if mechanism.family is None]
        if waiting:
            names = ", ".join(map(repr, waiting))
            raise NotFittedError(f"The model has no fitted mechanism for {names}. Call scm.fit(data) first.")

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name}: {type(mechanism).__name__}" for name, mechanism in self.mechanisms.items())
        return f"SCM({kinds}{'' if self.fitted else '; not fitted'})"


def _settings_of(mechanism: Mechanism) -> Mechanism:
    """A mechanism with the same settings that no variable or data has touched."""
    return type(mechanism)(**mechanism.settings())


def _check_causes(parents: Mapping[str, Collection[str]], kept: Collection[str]) -> None:
    """Every cause of what is kept is kept."""
    for name, causes in parents.items():
        for cause in causes:
            if cause not in kept:
                raise GraphError(f"part: {cause!r} is a cause of {name!r} and left out. Name it too.")


def _check_one_source(values: Collection[str], noise: Collection[str], expected: Iterable[str]) -> None:
    """Every variable is given by its value or by its noise, not by both and not by none."""
    for name in expected:
        if name in values and name in noise:
            raise DataError(f"Variable {name!r}: expected its value or its noise, got both. Leave out one.")
        if name not in values and name not in noise:
            raise DataError(f"Variable {name!r}: expected its value or its noise, got neither. Give one.")


def _check_enough(rows: int, needed: int, where: str) -> None:
    if rows < needed:
        raise DataError(f"{where}: expected at least {needed} rows, got {rows}. So few tell nothing; give more.")


def _check_move(
    device: torch.device | str | None, dtype: torch.dtype, bounds: Mapping[str, tuple[float, float]]
) -> None:
    """The device is there, and the precision can tell the bounds of every variable apart."""
    if isinstance(device, torch.dtype):
        raise SettingError(f"to: expected a device such as 'cuda', got {device}. Write to(dtype={device}).")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise SettingError(f"to: the device {device!r} cannot be used ({reason}). Choose another.") from error

    if dtype not in (torch.float32, torch.float64):
        raise SettingError(f"to: expected the dtype torch.float32 or torch.float64, got {dtype!r}.")
    for name, pair in bounds.items():
        low, high = torch.tensor(pair, dtype=dtype)
        if not torch.nextafter(low, high) < high or [low.isinf(), high.isinf()] != [math.isinf(each) for each in pair]:
            raise SettingError(
                f"to: expected a precision that tells the bounds {pair} of {name!r} apart, got {dtype}. Keep "
                f"torch.float64, or measure the variable in other units."
            )


def _check_fits(fits: bool, came: object, expected: object) -> None:
    if not fits:
        raise SettingError(
            f"replace: expected a mechanism of the family {expected}, got one of {came}. Give an unfitted mechanism "
            f"and call fit(data, only=[...])."
        )


def _check_kept(rows: Tensor, lower: float, upper: float, where: str) -> None:
    """A given law kept the bounds that were declared for its variable; rows have shape `(*batch, dim)`."""
    outside = ((rows < lower) | (rows > upper)).any(-1)
    if outside.any():
        raise DataError(
            f"{where}: its law left the declared bounds ({lower:g}, {upper:g}) in {name_rows(outside)}, with "
            f"{rows[outside][0].tolist()}. Mend the law or the bounds."
        )
