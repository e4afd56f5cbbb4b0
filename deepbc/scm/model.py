r"""The structural causal model: a mechanism for every variable of a graph, and the one pass that completes a world.

Variable :math:`i` obeys :math:`x_i = f_i(x_{pa(i)}, u_i)`, and :math:`f_i` is invertible in :math:`u_i`. So for each
variable one of value and noise is enough: given the parents, its mechanism yields the other. `SCM.complete` passes
through the graph once; abduction, prediction, sampling and every counterfactual are that pass with other things given.
"""

__all__ = ["SCM"]

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from deepbc._validation import check_count, check_graph, check_type, pick
from deepbc.data.categories import Label
from deepbc.data.constraints import Constraint, read_constraints
from deepbc.data.variables import OPEN, Family, Variable, read_bounds
from deepbc.data.world import World
from deepbc.errors import SettingError
from deepbc.graph import CausalGraph
from deepbc.mechanisms import GaussianProcess, Mechanism
from deepbc.numerics.seeding import generator
from deepbc.scm.completion import (
    check_laws,
    complete_read,
    complete_rows,
    draw_noise,
    join_parents,
    read_forced,
    sources,
)
from deepbc.scm.fit import FitPlan, OnColumns, fit_model, read_training
from deepbc.scm.schema import Schema, check_move, read_names
from deepbc.scm.type_inference import Declaration, read_types
from deepbc.training.report import FitReport
from deepbc.training.trainer import Training

KIND = "model"


class SCM:
    r"""Creates a structural causal model.

    Args:
        graph: The causal graph.
        mechanisms: Mechanisms by variable, of which the settings are taken; a variable that is not named gets one by
            its type: a `GaussianProcess`, `Integer`, `Censored` or `Categorical`.
        bounds: Bounds by variable, `(lower, upper)`, None for an open side. No learned law ever leaves them; a given
            law that does is an error.
        types: Types by variable: `"real"`, `"integer"`, `"grid"`, `"category"`, `"censored"`, or the ordered levels of
            a category, lowest first. One that is not named shows in the data: text, truth values and columns of two
            values are categories, numbers whose least or largest value many rows share are censored, columns of
            numbers that are all whole (3.0 is) whole numbers, and those a coarse step apart are on a grid.
        constraints: What may not change in answers, by variable: `"fixed"`, `"up"`, `"down"`, a range such as
            `(18, None)`, or the labels that will do. A factual value is always allowed.

    `report` has what the last fit of each variable said; it is saved with the model.

    Example:
        >>> graph = CausalGraph.parse("cause -> effect")
        >>> scm = SCM(graph, {"effect": GaussianProcess(points=64)}, bounds={"effect": (0, None)})
        >>> scm
        SCM(cause: GaussianProcess, effect: GaussianProcess; not fitted)
    """

    graph: CausalGraph
    mechanisms: Mapping[str, Mechanism]
    variables: Mapping[str, Variable]
    bounds: Mapping[str, tuple[float, float]]
    types: Mapping[str, str | tuple[Label, ...]]
    constraints: Mapping[str, Constraint]
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
        constraints: Mapping[str, Any] | None = None,
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
        self.constraints = read_constraints(constraints or {}, tuple(graph))
        self.mechanisms = {
            name: _settings_of(mechanisms[name]) if name in mechanisms else GaussianProcess() for name in graph
        }
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

    @property
    def schema(self) -> Schema:
        """How values become rows, and back."""
        return Schema(self.variables, self.mechanisms, self.device, self.dtype)

    def fit(
        self,
        data: Any,
        *,
        seed: int = 0,
        only: Sequence[str] | None = None,
        training: Training | Mapping[str, Training] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
        on_columns: OnColumns | None = None,
        groups: Any = None,
    ) -> FitReport:
        r"""Learns the mechanisms from data. The model changes only once the whole fit has succeeded.

        Args:
            data: A data frame (of pandas, polars or pyarrow; columns that the graph does not name are left out), or a
                mapping from each variable to an array with shape `(rows, *shape)`.
            seed: Same seed, same machine, same data: same model.
            only: The variables to fit; the others stay as they are. None fits all.
            training: How to train, for all or by variable; by default each mechanism knows.
            checkpoint: A folder in which the state is kept. A killed fit that is started again goes on from there and
                ends where it would have.
            progress: Whether to show a progress bar; None shows it on a terminal, and elsewhere says now and then how
                far a long fit is.
            on_columns: Called with what each column is taken for, by variable, before anything is learned.
            groups: Where rows hang together, such as those of a place or a month: the name of a column, or a label a
                row. The rows of a group are held out together, so that none tells of the others.

        Returns:
            The report, with held-out likelihood, learning curves, decisions, and warnings of what is odd in the data.
        """
        names = read_names(only, tuple(self.graph), "only")
        plan = FitPlan(seed, read_training(training, tuple(self.graph)), checkpoint, progress, on_columns, groups)
        known = Schema({} if only is None else self.variables, self.mechanisms, self.device, self.dtype)
        declaration = Declaration(self.graph, self.mechanisms, self._chosen, self.bounds, self.types)

        variables, fitted, report = fit_model(declaration, data, names, known, plan)
        self.variables = variables
        self.mechanisms = {**self.mechanisms, **fitted}
        entries = {each.name: each for each in (*self.report, *report)}
        self.report = FitReport(tuple(entries[name] for name in self.graph.order if name in entries))
        for name, mechanism in self.mechanisms.items():
            if mechanism.given and mechanism.family is None:
                self.mechanisms[name] = self._bind(name)

        return report

    @torch.no_grad()
    def complete(self, values: Any = None, noise: Any = None) -> World:
        r"""Completes a world: for each variable one of value and noise is given, its mechanism yields the other.

        Args:
            values: Values :math:`x` by variable, in the data's own units, with shape `(*batch, *shape)`.
            noise: Noise :math:`u` of the other variables, with shape `(*batch,)` or `(*batch, noise)`.

        Returns:
            The world. A `Predictor` needs neither value nor noise.
        """
        done = complete_read(self, values, noise)

        return self.schema.show_world(done.x, done.u)

    def abduct(self, values: Any) -> Mapping[str, Tensor]:
        """Computes the noise of every variable from the values of all (a `Predictor`'s may be left out)."""
        return self.complete(values=values).noise

    def predict(self, noise: Any) -> Mapping[str, Tensor]:
        """Computes the values of every variable from the noise of all (a `Predictor` has none)."""
        return self.complete(noise=noise).values

    @torch.no_grad()
    def sample(self, rows: int, *, do: Any = None, seed: int | None = None) -> World:
        """Draws worlds from the model, or from the one in which variables are forced, their laws broken.

        Args:
            rows: The number of worlds.
            do: Values by variable to which they are forced, one for all rows or one a row.
            seed: Same seed, same worlds; None draws fresh ones. An intervention leaves all other noise as it is.
        """
        check_count(rows, "sample rows")
        self.schema.check_fitted()
        forced = read_forced(self, do, rows)
        noise = {name: draw_noise(self, name, rows, seed) for name in self.graph if name not in forced}
        done = complete_rows(self, sources(forced, noise), self.schema.empty([rows]))
        check_laws(self, done)

        return self.schema.show_world(done.x, done.u)

    @torch.no_grad()
    def log_prob(self, values: Any, *, of: Sequence[str] | None = None) -> Tensor:
        """Computes the log-density of each row, in the data's own units.

        Args:
            values: Values of every variable (a `Predictor`'s may be left out, and adds nothing).
            of: The variables whose densities, each given its parents, are added; None adds all.

        Returns:
            The log-density, with shape `(*batch,)`.
        """
        x = complete_read(self, values, abduct=False).x
        names = read_names(of, tuple(self.graph), "of")
        terms = [self.mechanisms[name].log_prob(x[name], join_parents(self, name, x)) for name in names]
        if not all(term.isfinite().all() for term in terms):
            complete_read(self, values)  # names the value that no noise gives

        return torch.stack(terms).sum(0).double().cpu()

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
            family = self._family(name)
            mechanism.family.check_fits(family)
        if self.variables and mechanism.given:
            other.mechanisms[name] = other._bind(name)
        elif not self.variables:
            other._bind_given()

        return other

    def extend(self, name: str, mechanism: Mechanism, parents: Sequence[str]) -> "SCM":
        """Creates a model with one more effect, whose law is given: a `Predictor` on top of a fitted model.

        Args:
            name: The new variable.
            mechanism: Its law, a `Predictor` or an `Equation`.
            parents: Its causes, in the order in which a torch module gets them.
        """
        check_type(mechanism, Mechanism, f"Mechanism of {name!r}")
        if name in self.graph:
            raise SettingError(f"extend: expected a new variable, got {name!r}, which is there. Write replace().")
        if not mechanism.given:
            raise SettingError(f"extend: expected a law that is given, such as Predictor(model), got {mechanism!r}.")
        other = copy.copy(self)
        other.graph = CausalGraph({**{each: self.graph.parents(each) for each in self.graph}, name: tuple(parents)})
        other.mechanisms = {**self.mechanisms, name: _settings_of(mechanism)}
        other._chosen = self._chosen | {name}
        if self.variables:
            other.variables = {**self.variables, name: Variable.of_dim(name, mechanism.value or 1, OPEN)}
            other.mechanisms[name] = other._bind(name)

        return other

    def part(self, names: Iterable[str]) -> "SCM":
        """Creates the model of some variables alone, which shares their mechanisms; effects of theirs are left out.

        Args:
            names: The variables, with all causes of each.
        """
        other = copy.copy(self)
        other.graph = self.graph.part(names)
        kept = frozenset(other.graph)
        other.report = FitReport(tuple(each for each in self.report if each.name in kept))
        other._chosen = self._chosen & kept
        for field in ("bounds", "types", "constraints", "mechanisms", "variables"):
            setattr(other, field, {name: each for name, each in getattr(self, field).items() if name in kept})

        return other

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "SCM":
        """Creates a copy of the model on another device or with another precision; answers stay float64 on the CPU."""
        check_move(device, dtype or self.dtype, self.bounds)
        other = copy.copy(self)
        other.device = torch.device(device) if device is not None else self.device
        other.dtype = dtype or self.dtype
        other.mechanisms = {
            name: mechanism.copy().to(device=other.device, dtype=mechanism.precision or other.dtype)
            for name, mechanism in self.mechanisms.items()
        }

        return other

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Saves the model as a folder of a manifest and weights; an older model of that name is replaced."""
        # Loaded here and in `load` alone: the validation of manifests takes as long to load as all the rest of deepbc.
        from deepbc.scm.serialization import describe
        from deepbc.storage import write_folder

        self.schema.check_fitted()
        write_folder(
            folder, KIND, *describe(self.graph, self.variables, self.mechanisms, self.report, self.constraints)
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Loads a model that was saved. Nothing in the folder is executed."""
        from deepbc.scm.serialization import rebuild
        from deepbc.storage import read_folder

        graph, variables, mechanisms, report, constraints = rebuild(*read_folder(folder, KIND), where=str(folder))
        scm = cls(graph, constraints=constraints)
        scm.variables, scm.mechanisms, scm.report = variables, mechanisms, report
        scm._chosen = frozenset(mechanisms)
        # Floor and ceiling were seen, not declared.
        known = {name: each.latent if each.censored else each for name, each in variables.items()}
        scm.bounds = {name: (each.lower, each.upper) for name, each in known.items() if each.bounded}

        return scm

    def _family(self, name: str) -> Family:
        return Family(self.variables[name], tuple(self.variables[parent] for parent in self.graph.parents(name)))

    def _bind(self, name: str) -> Mechanism:
        bound = self.mechanisms[name].bind(self._family(name), generator(0, name, "weights"))
        return bound.to(device=self.device, dtype=bound.precision or self.dtype)

    def _bind_given(self) -> None:
        """Makes a model whose laws are all given ready: they say themselves what their variables are."""
        if all(mechanism.given for mechanism in self.mechanisms.values()):
            dims = {name: mechanism.value or 1 for name, mechanism in self.mechanisms.items()}
            limits = {name: self.bounds.get(name, OPEN) for name in self.graph}
            self.variables = {name: Variable.of_dim(name, dims[name], limits[name]) for name in self.graph}
            self.mechanisms = {name: self._bind(name) for name in self.graph}

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name}: {type(mechanism).__name__}" for name, mechanism in self.mechanisms.items())
        return f"SCM({kinds}{'' if self.fitted else '; not fitted'})"


def _settings_of(mechanism: Mechanism) -> Mechanism:
    """A mechanism with the same settings that no variable or data has touched."""
    return type(mechanism)(**mechanism.settings())
