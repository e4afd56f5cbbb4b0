"""What comes back: the answer to a counterfactual question, with its evidence."""

__all__ = ["Counterfactual", "Diagnostics"]

import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from deepbc.data.categories import Levels
from deepbc.data.frames import frame
from deepbc.data.variables import Variable
from deepbc.data.wording import write_label
from deepbc.data.world import World
from deepbc.graph import CausalGraph
from deepbc.plots import Drawing, plot_counterfactual, plot_samples
from deepbc.queries.description import describe

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

FAR = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Diagnostics:
    """Whether the samples of a row are to be trusted.

    Args:
        r_hat: How much the chains of a row disagree (the rank-normalised split R-hat), with shape `(*rows,)`; near 1
            where they tell of one density, and 1 of samples by importance weights, which need no chains.
        effective: How many independent samples those of a row are worth, with shape `(*rows,)`.
        acceptance: The part of the proposals that was taken, with shape `(*rows,)`; of importance sampling, what a
            weighted draw is worth on average.
    """

    r_hat: Tensor
    effective: Tensor
    acceptance: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Counterfactual:
    r"""The answer to a counterfactual question, with its evidence.

    Args:
        graph: The causal graph.
        values: Counterfactual values :math:`x^*` by variable, in the data's own units, with shape `(*batch, *shape)`;
            labels of text as an array of objects.
        noise: Counterfactual noise :math:`u^*` by variable.
        factual: The factual world.
        antecedent: What was asked for, by variable: values, or an interval.
        moved: The distance that each variable's noise carries, with shape `(*batch,)`: the explanation.
        distance: The total distance, with shape `(*batch,)`.
        error: How far a fresh prediction from the noise misses the antecedent, in standard deviations of the variable,
            with shape `(*batch,)`.
        farthest: The largest noise among those that moved, in standard deviations, with shape `(*batch,)`.
        unseen: Whether each number lies outside the range that the fit saw, by variable, with shape `(*batch,)`.
        probabilities: The probability of each label of a category, by variable, with shape `(*batch, labels)`: over all
            noise that leads to the factual labels, given the other values of the answer. The likeliest is the value;
            where the label was asked for or chosen by the search it is 1. None of samples, whose labels vary.
        clipped: The number of pixels that a law cut to their range by more than a grey level, with shape `(*batch,)`;
            0 but for an image that keeps what its decoder misses.
        certainty: One minus the chance that a nearer world was missed, with shape `(*rows,)`: 1 where no choice of
            classes and whole numbers was left out.
        status: The status of each row; a single one for a single row.
        batch: The batch shape. Samples have an axis in front, which `factual`, `antecedent`, `status` and `diagnostics`
            lack.
        diagnostics: What a sampler says of each row; None where there are no samples.
        index: The labels of the rows, where they came in a data frame.
        forced: Whether the antecedent was forced, its law broken.
        variables: What each variable is: its spread in the data of the fit, its bounds, its levels.
        misfits: How laws that take part in the answer are known to misfit their data, by variable, each a clause.
    """

    graph: CausalGraph
    values: Mapping[str, Any]
    noise: Mapping[str, Tensor]
    factual: World
    antecedent: Mapping[str, Any]
    moved: Mapping[str, Tensor]
    distance: Tensor
    error: Tensor
    farthest: Tensor
    unseen: Mapping[str, Tensor]
    probabilities: Mapping[str, Tensor]
    clipped: Tensor
    certainty: Tensor
    status: Any
    batch: torch.Size
    diagnostics: Diagnostics | None = None
    index: Any = None
    forced: bool = False
    variables: Mapping[str, Variable] = field(default_factory=dict)
    misfits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def extrapolates(self) -> Tensor:
        """Whether a row rests on noise beyond 4 standard deviations, of which data show next to nothing."""
        return self.farthest > FAR

    def describe(self, row: int | None = None) -> str:
        """Says the answer in plain sentences: what would have changed, what it traces back to, and what to doubt.

        Of many rows it is a summary. Numbers have as many digits as their change and their spread in the data need;
        what moves by less than a thousandth of its standard deviation is said to stay.

        Args:
            row: The row to tell of, counted from 0; None tells of all.
        """
        return describe(self, row)

    def to_frame(self, *, tidy: bool = False) -> "pandas.DataFrame":
        """Writes the answer as a data frame: values, factual values, what moved, and the evidence.

        Rows keep the index of a factual data frame. Images are left out. Samples have an index of sample and row, and
        the columns of `diagnostics` as well. Where a variable has the name of one of the other columns, that column
        gets the prefix `answer`.

        Args:
            tidy: Whether to write the counterfactual values alone, a line for each row, or for each draw and row of
                samples: the columns `row` (the label of the row, or its number from 0), `draw` (of samples, from 0),
                and the variables.
        """
        if tidy:
            return self._tidy()
        columns: dict[str, Any] = dict(self.values)
        kinds = dict(self.factual.kinds)
        for name, column in self._evidence().items():
            kind = self.factual.kinds.get(name.removeprefix("factual ")) if name.startswith("factual ") else None
            name = _free_name(name, columns)
            columns[name] = column
            kinds |= {name: kind} if kind else {}
        names = ("sample", "row") if self.diagnostics and len(self.batch) == 2 else None

        return frame(columns, self.batch, names, kinds, self.index)

    def _tidy(self) -> "pandas.DataFrame":
        """Counterfactual values alone, with the row and the draw in columns of their own."""
        queries = self.batch[1:] if self.diagnostics else self.batch
        places: dict[str, Any] = {"row": np.arange(queries.numel()).reshape(tuple(queries))}
        if self.diagnostics:
            places["draw"] = np.arange(self.batch[0]).reshape(-1, *(1 for _ in queries))
        named = {_free_name(name, self.values): np.broadcast_to(each, self.batch) for name, each in places.items()}
        table = frame({**named, **self.values}, self.batch, kinds=self.factual.kinds).reset_index(drop=True)
        if self.index is not None:
            row = next(iter(named))
            table[row] = self.index.to_flat_index().take(table[row])

        return table

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Draws factual against counterfactual values, which noise carried the change, and the graph coloured by it.

        What was asked about has a star and a ring; a row that does not hold has crosses. Samples are drawn as the
        marginals of each variable: of the first rows, beside the factual value. Axes of a single row span what is
        usual in the data, so that what is little there looks like little.

        Args:
            path: The file to write, if any.
        """
        queries = self.batch[1:] if self.diagnostics else self.batch
        rows, samples = queries.numel(), self.batch[: len(self.batch) - len(queries)]
        before = {name: _flat(each, rows, tuple(each.shape[len(queries) :])) for name, each in self._numbers("before")}
        caption = f"{rows:,} {'row' if rows == 1 else 'rows'}: {self._ends()}{self._far()}"
        drawing = Drawing(
            graph=self.graph,
            before=before,
            after={name: each.reshape(*samples, *before[name].shape) for name, each in self._numbers("after")},
            labels={name: [write_label(item) for item in each.items] for name, each in self._levels().items()},
            moved={name: each.reshape(*samples, rows) for name, each in self.moved.items()},
            asked=tuple(self.antecedent),
            held=torch.from_numpy(np.asarray(np.asarray(self.status).reshape(rows) == "converged", dtype=bool)),
            caption=f"{self.batch[0]:,} samples, {caption}" if self.diagnostics else caption,
            spread={name: each.sd for name, each in self.variables.items() if not each.levels and len(each.shape) < 2},
            whole=[name for name, each in self.variables.items() if each.whole],
        )

        return plot_samples(drawing, path) if self.diagnostics else plot_counterfactual(drawing, path)

    def _levels(self) -> dict[str, Levels]:
        return {name: kind.levels for name, kind in self.factual.kinds.items() if kind.levels}

    def _numbers(self, when: str) -> Iterator[tuple[str, Tensor]]:
        """The values before or after, labels as codes."""
        levels = self._levels()
        for name, each in (self.factual.values if when == "before" else self.values).items():
            yield name, levels[name].codes(each, name) if name in levels else each

    def _evidence(self) -> dict[str, Any]:
        # Each sample has the factual values of its row.
        columns: dict[str, Any] = {
            f"factual {name}": np.broadcast_to(np.asarray(each), tuple(self.values[name].shape))
            for name, each in self.factual.values.items()
        }
        columns |= {f"moved {name}": column for name, column in self.moved.items()}
        columns |= {"distance": self.distance, "error": self.error, "farthest": self.farthest}
        columns["certainty"] = np.broadcast_to(np.asarray(self.certainty), tuple(self.batch))
        columns["unseen"] = self._unseen()
        if self.diagnostics:
            said = {"r_hat": self.diagnostics.r_hat, "effective": self.diagnostics.effective}
            columns |= {name: each.expand(self.batch) for name, each in said.items()}

        return columns | {"status": self._statuses()}

    def _unseen(self) -> "np.ndarray[Any, Any]":
        """The variables outside what the fit saw, with commas between."""
        said = np.full(tuple(self.batch), "", dtype=object)
        for name, there in self.unseen.items():
            mask = np.asarray(there)
            said[mask] = [f"{before}, {name}" if before else name for before in said[mask]]

        return said

    def _statuses(self) -> "np.ndarray[Any, Any]":
        return np.broadcast_to(np.asarray(self.status, dtype=object), tuple(self.batch))

    def _ends(self) -> str:
        words, counts = np.unique(np.asarray(self.status, dtype=str), return_counts=True)

        return ", ".join(f"{count:,} {word}" for word, count in zip(words, counts, strict=True)) or "no rows"

    def _far(self) -> str:
        count = int(self.extrapolates.sum())

        return f"; {count:,} beyond {FAR:g} sd of noise" if count else ""

    def __repr__(self) -> str:
        asked = ", ".join(self.antecedent)
        samples = f"samples: {self.batch[0]}; " if self.diagnostics else ""
        rows = tuple(self.batch[1:] if self.diagnostics else self.batch)
        return f"Counterfactual(antecedent: {asked}; {samples}rows: {rows}; {self._ends()})"


def _free_name(name: str, taken: Collection[str]) -> str:
    """A name for a column of ours that no other column has."""
    while name in taken:
        name = f"answer {name}"

    return name


def _flat(values: Tensor, rows: int, shape: tuple[int, ...]) -> Tensor:
    """Brings values to the shape `(rows, components)`; images stay images."""
    return values.reshape(rows, *(shape if len(shape) > 1 else (math.prod(shape),)))
