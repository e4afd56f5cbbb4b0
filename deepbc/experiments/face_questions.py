"""The questions of the tables of faces: an attribute is asked to be another, and every method answers."""

__all__ = ["ATTRIBUTES", "Answers", "Method", "Questions", "answers", "draw_questions", "of_attributes"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.numerics.seeding import generator
from deepbc.queries.results import Counterfactual

ATTRIBUTES = ("age", "gender", "beard", "bald")
Columns = dict[str, Tensor]
# Answers what rows would have been, had one attribute been another.
Method = Callable[[Columns, Columns], Counterfactual]


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Factual rows, and for each an attribute and the value that it is asked to have.

    Args:
        factual: The values of all variables, with shape `(rows, ...)`.
        asked: The place of the attribute among the four, with shape `(rows,)`.
        value: The value.
    """

    factual: Mapping[str, Tensor]
    asked: Tensor
    value: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers of one method.

    Args:
        values: The attributes, with shape `(rows,)`, and the images where the method draws them.
        error: How far the method misses in its own eyes what was asked, in standard deviations.
        converged: Whether each is converged.
    """

    values: Columns
    error: Tensor
    converged: Tensor


def draw_questions(factual: Mapping[str, Tensor], seed: int) -> Questions:
    """Draws an attribute for each row, all alike, and a standard normal value for it."""
    rows = len(factual[ATTRIBUTES[0]])
    asked = torch.randint(len(ATTRIBUTES), (rows,), generator=generator(seed, "asked"))
    value = torch.randn(rows, generator=generator(seed, "value"), dtype=torch.float64)

    return Questions(factual, asked, value)


def answers(questions: Questions, method: Method) -> Answers:
    """Puts all questions to a method, those about one attribute together."""
    values: Columns = {}
    error = torch.full_like(questions.value, torch.nan)
    converged = torch.zeros_like(questions.asked, dtype=torch.bool)
    for place, name in enumerate(ATTRIBUTES):
        rows = (questions.asked == place).nonzero().squeeze(-1)
        if not len(rows):
            continue
        factual = {each: column[rows] for each, column in questions.factual.items()}
        cf = method(factual, {name: questions.value[rows]})
        for each, column in cf.values.items():
            whole = values.setdefault(each, column.new_zeros(len(error), *column.shape[1:]))
            whole[rows] = column
        error[rows] = cf.error
        converged[rows] = torch.from_numpy(cf.status == "converged")

    return Answers(values, error, converged)


def of_attributes(method: Method) -> Method:
    """The method, which sees no image."""
    return lambda rows, asked: method({name: rows[name] for name in ATTRIBUTES}, asked)
