r"""Simulated counterparts of the six public tables: the same columns and graphs, and none of their rows.

The scores :math:`z` of the variables follow the graph linearly, and each value is the quantile of its column at
:math:`\Phi(z)`, which is a Gaussian copula along the graph:

.. math:: z_i = r \bar{s}_i + \sqrt{1 - r^2} \, e_i, \qquad x_i = F_i^{-1}(\Phi(z_i)), \qquad e_i \sim N(0, 1),

with :math:`\bar{s}_i` the sum of the scores of the causes of i, some with a minus, divided by its standard deviation,
and r = 0 where there are none. Of the tables only quantiles and shares are known here, rounded. What else holds in
them, such as the leap of charges for smokers, does not hold here.

References:
    The Nonparanormal: Semiparametric Estimation of High Dimensional Undirected Graphs (Liu et al., 2009).
"""

__all__ = ["COUNTERPARTS", "simulate"]

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from deepbc._validation import check_count, pick
from deepbc.data.frames import DataFrame
from deepbc.datasets.tables.graphs import GRAPHS
from deepbc.graph import CausalGraph

# How much of a score its causes bring, as a correlation.
STRENGTH = 0.6
# The places of the quantiles of a column of numbers.
PLACES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of numbers: its quantiles at `PLACES`, between which it is linear, and how many decimals it has."""

    quantiles: tuple[float, ...]
    decimals: int = 0

    def at(self, p: NDArray[np.float64]) -> Any:
        """The quantiles at some probabilities."""
        column = np.interp(p, PLACES, self.quantiles).round(self.decimals)

        return column if self.decimals else column.astype(int)


@dataclass(frozen=True, slots=True)
class Labels:
    """A column of labels, by rising score, each with its share; `ordered` where the order is that of the levels."""

    shares: Mapping[Any, float]
    ordered: bool = False

    def at(self, p: NDArray[np.float64]) -> Any:
        """The labels at some probabilities."""
        import pandas

        labels, ends = list(self.shares), np.cumsum(list(self.shares.values()))
        codes = np.searchsorted(ends[:-1] / ends[-1], p, side="right")
        if self.ordered:
            return pandas.Categorical(pandas.Index(labels).take(codes), labels, ordered=True)

        return pandas.Index(labels).take(codes)


Column = Numbers | Labels
TRUTH = {False: 0.5, True: 0.5}
RACES = {"Other": 0.01, "Amer-Indian-Eskimo": 0.01, "Black": 0.09, "White": 0.86, "Asian-Pac-Islander": 0.03}

COUNTERPARTS: Mapping[str, Mapping[str, Column]] = {
    "adult": {
        "age": Numbers((17, 20, 28, 37, 47, 63, 90)),
        "sex": Labels({"Female": 0.32, "Male": 0.68}),
        "race": Labels(RACES),
        "marital_status": Labels(
            {"Never-married": 0.32, "Separated": 0.03, "Divorced": 0.14, "Widowed": 0.03, "Married-civ-spouse": 0.48}
        ),
        "education_num": Numbers((1, 5, 9, 10, 13, 14, 16)),
        "workclass": Labels({"Private": 0.74, "Local-gov": 0.07, "Self-emp-not-inc": 0.08, "Federal-gov": 0.11}),
        "occupation": Labels(
            {"Other-service": 0.2, "Adm-clerical": 0.16, "Craft-repair": 0.2, "Sales": 0.14, "Exec-managerial": 0.3}
        ),
        "hours_per_week": Numbers((1, 18, 40, 40, 45, 60, 99)),
        "income": Labels({"<=50K": 0.75, ">50K": 0.25}),
    },
    "compas": {
        "age": Numbers((18, 21, 25, 31, 42, 57, 96)),
        "sex": Labels({"Female": 0.19, "Male": 0.81}),
        "race": Labels({"Other": 0.06, "Caucasian": 0.34, "Hispanic": 0.08, "African-American": 0.52}),
        "priors_count": Numbers((0, 0, 0, 1, 4, 14, 38)),
        "charge_degree": Labels({"M": 0.36, "F": 0.64}),
        "decile_score": Labels(dict.fromkeys(range(1, 11), 0.1), ordered=True),
        "recidivist": Labels(TRUTH),
    },
    "insurance": {
        "age": Numbers((18, 18, 27, 39, 51, 62, 64)),
        "sex": Labels({"female": 0.5, "male": 0.5}),
        "region": Labels({"northwest": 0.25, "northeast": 0.25, "southwest": 0.25, "southeast": 0.25}),
        "bmi": Numbers((16, 21.3, 26.3, 30.4, 34.7, 41.1, 53.1), decimals=2),
        "smoker": Labels({"no": 0.8, "yes": 0.2}),
        "children": Numbers((0, 0, 0, 1, 2, 3, 5)),
        "charges": Numbers((1_122, 1_760, 4_740, 9_380, 16_640, 41_180, 63_770), decimals=2),
    },
    "law_school": {
        "race": Labels({"Non-White": 0.16, "White": 0.84}),
        "sex": Labels({"female": 0.44, "male": 0.56}),
        "fam_inc": Labels({1: 0.03, 2: 0.1, 3: 0.35, 4: 0.44, 5: 0.08}, ordered=True),
        "ugpa": Numbers((1.5, 2.5, 3.0, 3.3, 3.5, 3.9, 4.0), decimals=1),
        "lsat": Numbers((11, 27.5, 33, 37, 41, 45, 48), decimals=1),
        "tier": Labels({1: 0.03, 2: 0.08, 3: 0.36, 4: 0.28, 5: 0.18, 6: 0.07}, ordered=True),
        "zfygpa": Numbers((-3.4, -1.4, -0.55, 0.1, 0.75, 1.65, 3.5), decimals=2),
        "pass_bar": Labels({False: 0.11, True: 0.89}),
    },
    "mpg": {
        "origin": Labels({"japan": 0.2, "europe": 0.17, "usa": 0.63}),
        "model_year": Numbers((70, 70, 73, 76, 79, 82, 82)),
        "cylinders": Labels({4: 0.53, 6: 0.21, 8: 0.26}, ordered=True),
        "displacement": Numbers((68, 85, 105, 148, 262, 400, 455), decimals=1),
        "weight": Numbers((1_613, 1_920, 2_220, 2_800, 3_610, 4_460, 5_140)),
        "horsepower": Numbers((46, 60, 75, 94, 126, 180, 230)),
        "acceleration": Numbers((8, 11.3, 13.8, 15.5, 17.2, 20.4, 24.8), decimals=1),
        "mpg": Numbers((9, 13, 17.5, 23, 29, 37, 46.6), decimals=1),
    },
    "titanic": {
        "pclass": Labels({"third": 0.5, "second": 0.24, "first": 0.26}, ordered=True),
        "sex": Labels({"male": 0.64, "female": 0.36}),
        "age": Numbers((1, 4, 20, 28, 38, 56, 80), decimals=1),
        "sibsp": Numbers((0, 0, 0, 0, 1, 2, 5)),
        "parch": Numbers((0, 0, 0, 0, 1, 2, 6)),
        "fare": Numbers((4, 7, 8, 15.6, 33, 112, 512), decimals=2),
        "embarked": Labels({"Queenstown": 0.04, "Southampton": 0.78, "Cherbourg": 0.18}),
        "survived": Labels({False: 0.6, True: 0.4}),
    },
}
# Causes whose score counts with a minus, as (cause, effect).
FALLING = {
    ("age", "decile_score"), ("age", "recidivist"), ("age", "survived"), ("model_year", "cylinders"),
    ("model_year", "weight"), ("horsepower", "acceleration"), ("weight", "mpg"), ("horsepower", "mpg"),
    ("sibsp", "survived"), ("age", "sibsp"), ("age", "parch"),
}  # fmt: skip


def simulate(name: str, rows: int, *, seed: int = 0) -> DataFrame:
    """Draws rows that have the columns of a public table and follow its graph.

    Args:
        name: The table, such as `"adult"`; `COUNTERPARTS` has their names.
        rows: How many rows.
        seed: The same seed draws the same rows.

    Example:
        >>> simulate("mpg", 2, seed=0).columns.tolist()[:3]
        ['origin', 'model_year', 'cylinders']
    """
    import pandas

    columns = COUNTERPARTS[pick(name, tuple(COUNTERPARTS), "simulated table")]
    check_count(rows, "rows")
    mixing = _mixing(GRAPHS[name])
    noise = np.random.default_rng(seed).normal(size=(rows, len(mixing)))
    below = {each: torch.special.ndtr(torch.from_numpy(noise @ weights)).numpy() for each, weights in mixing.items()}

    return pandas.DataFrame({each: column.at(below[each]) for each, column in columns.items()})


def _mixing(graph: CausalGraph) -> dict[str, NDArray[np.float64]]:
    """The weights of the noises e in each score, of norm 1: so that a score is standard normal."""
    mixing: dict[str, NDArray[np.float64]] = {}
    for own, name in zip(np.eye(len(graph)), graph.order, strict=True):
        causes = [-mixing[cause] if (cause, name) in FALLING else mixing[cause] for cause in graph.parents(name)]
        brought = np.sum(causes, axis=0) if causes else own
        strength = STRENGTH if causes else 0.0
        mixing[name] = strength * brought / np.linalg.norm(brought) + (1 - strength**2) ** 0.5 * own

    return mixing
