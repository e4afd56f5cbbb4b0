"""What people ask of the six public tables: a question, what cannot change, and an action to compare with.

Each study has the graph of `deepbc.datasets.tables.GRAPHS`; whose graph it is stands there. Backtracking asks of an
outcome what else would have been different; the action forces a cause, and shows what follows from it.
"""

__all__ = ["STUDIES", "Study"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deepbc.data.frames import DataFrame
from deepbc.datasets import tables
from deepbc.graph import CausalGraph
from deepbc.queries.antecedents import Interval, at_least, at_most
from deepbc.scm.model import SCM


@dataclass(frozen=True, slots=True)
class Study:
    """A public table with its graph and the questions that are asked of it.

    Args:
        name: The name of the table.
        read: Reads it.
        question: The question in words.
        outcome: What is asked of backtracking: one variable, with a label or an interval.
        action: What an intervention forces.
        constraints: What cannot change, or one way only, as in `backtrack`.
        bounds: Where values end, as in `SCM`.
        types: What a column is that does not show it, as in `SCM`.
    """

    name: str
    read: Callable[[], DataFrame]
    question: str
    outcome: Mapping[str, Any]
    action: Mapping[str, Any]
    constraints: Mapping[str, Any]
    bounds: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def graph(self) -> CausalGraph:
        """The graph of the table."""
        return tables.GRAPHS[self.name]

    @property
    def asked(self) -> str:
        """The outcome in signs, such as `mpg >= 30`."""
        ((name, asked),) = self.outcome.items()
        if not isinstance(asked, Interval):
            return f"{name} = {asked}"
        return f"{name} <= {asked.upper:,}" if asked.lower is None else f"{name} >= {asked.lower:,}"

    def model(self) -> SCM:
        """Creates a model that is yet to be fitted, with the constraints of the study."""
        return SCM(self.graph, bounds=self.bounds, types=self.types, constraints=self.constraints)

    def simulate(self, rows: int, *, seed: int = 0) -> DataFrame:
        """Draws rows of the simulated counterpart."""
        return tables.simulate(self.name, rows, seed=seed)

    def holds(self, rows: Any) -> np.ndarray[Any, np.dtype[np.bool]]:
        """Says for each row whether it has the outcome that is asked.

        Args:
            rows: A mapping or a frame that has the column of the outcome.
        """
        ((name, asked),) = self.outcome.items()
        column = np.asarray(rows[name])
        if not isinstance(asked, Interval):
            return np.asarray(column == asked, dtype=bool)
        above = asked.lower is None or column >= asked.lower
        below = asked.upper is None or column <= asked.upper

        return np.broadcast_to(np.logical_and(above, below), column.shape)


STUDIES: Mapping[str, Study] = {
    each.name: each
    for each in (
        Study(
            "adult",
            tables.adult,
            "Had the person earned more than 50,000 dollars a year, what else would have been different?",
            outcome={"income": ">50K"},
            action={"education_num": 13},
            constraints={"age": "fixed", "sex": "fixed", "race": "fixed", "education_num": "up"},
            bounds={"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99)},
        ),
        Study(
            "compas",
            tables.compas,
            "Had the risk been scored as low, what else would have been different?",
            outcome={"decile_score": at_most(4)},
            action={"priors_count": 0},
            constraints={"age": "up", "sex": "fixed", "race": "fixed"},
            bounds={"age": (18, None), "priors_count": (0, None)},
        ),
        Study(
            "insurance",
            tables.insurance,
            "Had the charges been at most 8,000 dollars a year, what else would have been different?",
            outcome={"charges": at_most(8_000)},
            action={"smoker": "no"},
            constraints={"age": "up", "sex": "fixed", "region": "fixed"},
            bounds={"age": (18, None), "children": (0, None), "bmi": (0, None), "charges": (0, None)},
        ),
        Study(
            "law_school",
            tables.law_school,
            "Had the student passed the bar, what else would have been different?",
            outcome={"pass_bar": True},
            action={"lsat": 40},
            constraints={"race": "fixed", "sex": "fixed", "fam_inc": "fixed"},
            bounds={"ugpa": (0, 4.05), "lsat": (10, 48.5)},
        ),
        Study(
            "mpg",
            tables.mpg,
            "Had the car done 30 miles per gallon, what else would have been different?",
            outcome={"mpg": at_least(30)},
            action={"weight": 2_200},
            constraints={"origin": "fixed", "model_year": "fixed"},
            bounds=dict.fromkeys(("displacement", "weight", "horsepower", "acceleration", "mpg"), (0, None)),
            # Pounds and cubic inches are whole numbers only because somebody rounded them, and not all of them.
            types={"weight": "real", "displacement": "real"},
        ),
        Study(
            "titanic",
            tables.titanic,
            "Had the passenger survived, what else would have been different?",
            outcome={"survived": True},
            action={"sex": "female"},
            constraints={"age": "fixed", "sex": "fixed"},
            # Some travelled for nothing, and a law of numbers never attains its bound.
            bounds={"age": (0, None), "sibsp": (0, None), "parch": (0, None), "fare": (-1, None)},
        ),
    )
}
