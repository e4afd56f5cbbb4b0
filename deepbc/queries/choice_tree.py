r"""The tree of choices of discrete variables, with lower bounds that prune it.

A level of the tree chooses the value of one variable, causes before effects, for all rows of a question at once. Where
no parent of it can move any more, its implied noise is known, and with it what that costs. The sum of such costs is a
lower bound of the cost of every world with these values,

.. math:: L(k) = \sum_{i \text{ settled}} w_i \, d_i\bigl(\Pi_{R_{k_i}(x_{pa(i)})} u_i, u_i\bigr) \le d(u^*(k), u),

with :math:`\Pi` the nearest noise in the region of a value. A choice whose bound reaches the best cost found so far is
never extended. A law is asked once for each combination of its parents' values, however many rows have it.

References:
    An Automatic Method of Solving Discrete Programming Problems (Land and Doig, 1960): branch and bound.
"""

__all__ = ["ChoiceTree", "Choices"]

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.data.variables import Variable
from deepbc.distances import Distances
from deepbc.mechanisms import Discrete
from deepbc.numerics.batched import concat_last, select
from deepbc.queries.question import Asked, Question
from deepbc.queries.roles import Roles
from deepbc.queries.worlds import Columns
from deepbc.scm import SCM

# Whole numbers are enumerated within so many standard deviations of the factual one, and no more than so many of them;
# others are wide.
REACH_SD, MAX_WHOLE = 5.0, 128


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of values, one each.

    Args:
        row: The row of the question, with shape `(choices,)`.
        bound: A lower bound of the cost.
        index: The number of the value of each enumerated variable.
        values: Values of all variables that follow from the choice, with shape `(choices, value)`.
        complete: Whether no choice below its limit was left out, with shape `(rows,)`.
    """

    row: Tensor
    bound: Tensor
    index: Mapping[str, Tensor]
    values: Mapping[str, Tensor]
    complete: Tensor

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Tensor) -> "Choices":
        """Takes the given choices."""
        return replace(
            self,
            row=self.row[chosen],
            bound=self.bound[chosen],
            index=select(self.index, chosen),
            values=select(self.values, chosen),
        )

    def rank(self, key: Tensor) -> Tensor:
        """The place of each choice among those of its row by ascending key, both with shape `(choices,)`."""
        order = key.argsort(stable=True)
        order = order[self.row[order].argsort(stable=True)]
        rows = self.row[order]
        counts = torch.bincount(rows, minlength=len(self.complete))
        first = counts.cumsum(0) - counts
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device) - first[rows]

        return rank


class ChoiceTree:
    """Creates the tree of a question.

    Args:
        scm: The model.
        question: The question.
        aims: What is sought of each variable of the antecedent.
        roles: The part of each variable, with the variables to choose among those whose value is met.
        allowed: The variables to choose, causes first, and what they are asked to lie in, if they are.
        distance: How far two noises are apart.
    """

    def __init__(
        self,
        scm: SCM,
        question: Question,
        aims: Mapping[str, Asked],
        roles: Roles,
        allowed: Mapping[str, Asked | None],
        distance: Distances,
    ) -> None:
        self.scm, self.question, self.aims, self.roles, self.distance = scm, question, aims, roles, distance
        self.allowed = allowed
        self.values: Columns = {}
        self.legal: Columns = {}
        self.edges: Columns = {}
        for name, asked in allowed.items():
            variable, x = scm.variables[name], question.x[name]
            candidates = _candidates(variable, x)
            if candidates is None:
                continue
            self.values[name] = candidates
            self.legal[name] = _legal(variable, candidates, x, asked)
            self.edges[name] = _edges(variable, self.legal[name], candidates)

    @property
    def wide(self) -> tuple[str, ...]:
        """The variables to choose that have too many values to enumerate."""
        return tuple(name for name in self.allowed if name not in self.values)

    def grow(self, limit: Tensor, most: int) -> Choices:
        """Enumerates the choices whose bound is below a limit.

        Args:
            limit: The limit, with shape `(rows,)`; infinite where nothing is found yet.
            most: How many choices of a row are kept at each level, those of the lowest bounds.
        """
        every = torch.arange(self.question.rows, device=self.scm.device)
        zero = self.question.x[next(iter(self.question.x))].new_zeros(len(every))
        choices = Choices(every, zero, {}, {}, torch.ones_like(every, dtype=torch.bool))
        still = {*self.roles.fixed, *(name for name in self.roles.met if name not in self.allowed)}
        for name in self.roles.names:
            if name in still:
                continue
            settled = all(each in still or each in choices.values for each in self.scm.graph.parents(name))
            if name in self.values:
                choices = self._choose(choices, name, limit, settled=settled)
                choices = _keep_lowest(choices, most)
            elif settled and name not in self.roles.movable and name not in self.wide:
                parents = self._parents(choices, name)
                x = self.scm.mechanisms[name].predict(self.question.u[name][choices.row], parents)
                choices = replace(choices, values={**choices.values, name: x})

        return choices

    def _choose(self, choices: Choices, name: str, limit: Tensor, *, settled: bool) -> Choices:
        """Extends each choice by every value of one variable that its bound allows."""
        count, values = len(self.values[name]), self.values[name]
        cost = choices.bound.new_zeros(count, len(choices))
        if settled and len(choices):
            cost = self._settled_cost(choices, name)
        bound = choices.bound + cost
        kept = self.legal[name][choices.row].T & (bound < limit[choices.row])
        value, parent = kept.nonzero().unbind(-1)
        taken = choices.take(parent)
        beyond = choices.row[parent[self.edges[name][choices.row[parent], value]]]
        complete = choices.complete.index_fill(0, beyond, False)

        return replace(
            taken,
            bound=bound[value, parent],
            index={**taken.index, name: value},
            values={**taken.values, name: values[value]},
            complete=complete,
        )

    def _settled_cost(self, choices: Choices, name: str) -> Tensor:
        """What the noises of all values of a settled variable cost, with shape `(values, choices)`."""
        law, x = self.scm.mechanisms[name], self.values[name].unsqueeze(1)
        assert isinstance(law, Discrete)  # noqa: S101 # its variable is
        first, inverse = self._alike(choices, name)
        parents = self._parents(choices.take(first), name).expand(len(x), -1, -1)
        regions = law.region(x.expand(-1, len(first), -1), x.expand(-1, len(first), -1), parents).take(inverse)
        u = self.question.u[name][choices.row].expand(len(x), -1, -1)
        if name not in self.roles.scope:
            outside = regions.excess(u).amax(-1) > 0
            return torch.where(outside, torch.inf, torch.zeros_like(u[..., 0]))

        return self.distance.moved(name, regions.nearest(u), u)

    def _alike(self, choices: Choices, name: str) -> tuple[Tensor, Tensor]:
        """The first choice of each combination of a variable's parents, and the combination of each choice."""
        parents = self.scm.graph.parents(name)
        key, size = torch.zeros_like(choices.row), 1
        for each in parents:
            if each in choices.index:
                key, size = key + size * choices.index[each], size * len(self.values[each])
        if any(each in choices.values and each not in choices.index for each in parents):
            every = torch.arange(len(choices), device=key.device)
            return every, every
        if any(each not in choices.values for each in parents):
            key = key + size * choices.row
        unique, inverse = key.unique(return_inverse=True)
        first = torch.zeros_like(unique).scatter_(0, inverse, torch.arange(len(key), device=key.device))

        return first, inverse

    def _parents(self, choices: Choices, name: str) -> Tensor:
        """The parents of a settled variable side by side, with shape `(choices, parents)`."""
        parts = []
        for each in self.scm.graph.parents(name):
            if each in choices.values:
                parts.append(choices.values[each])
            else:
                given = self.aims[each].lower if each in self.roles.met else self.question.x[each]
                parts.append(given[choices.row])

        return concat_last(parts, self.question.x[name][choices.row][:, :0])


def _candidates(variable: Variable, x: Tensor) -> Tensor | None:
    """The values that are enumerated, with shape `(values, value)`: all classes, or whole numbers near factual ones."""
    if variable.levels:
        return variable.levels.rows(torch.arange(len(variable.levels), device=x.device).to(x))

    reach = _reach(variable)
    if (2 * reach + 1 > MAX_WHOLE and variable.upper - variable.lower >= MAX_WHOLE) or not len(x):
        return None if len(x) else x
    low = max(variable.lower, x.min().item() - reach)
    high = min(variable.upper, x.max().item() + reach)

    return None if high - low >= 8 * MAX_WHOLE else torch.arange(low, high + 1).to(x).unsqueeze(-1)


def _legal(variable: Variable, candidates: Tensor, x: Tensor, asked: Asked | None) -> Tensor:
    """Which values are enumerated for each row, with shape `(rows, values)`."""
    legal = torch.ones(len(x), len(candidates), dtype=torch.bool, device=x.device)
    if variable.whole and variable.upper - variable.lower >= MAX_WHOLE:
        legal &= (candidates.T - x).abs() <= _reach(variable)
    if asked is not None:
        wide = candidates.unsqueeze(0)
        inside = (wide >= asked.lower.unsqueeze(1)) & (wide <= asked.upper.unsqueeze(1))
        legal &= inside.all(-1)

    return legal


def _edges(variable: Variable, legal: Tensor, candidates: Tensor) -> Tensor:
    """Which values have others beyond them that are not enumerated, with shape `(rows, values)`."""
    if variable.levels or not legal.shape[-1]:
        return torch.zeros_like(legal)

    column = candidates.squeeze(-1)
    inner = torch.zeros_like(legal[:, :1])
    first = legal & ~torch.cat([inner, legal[:, :-1]], dim=-1) & (column > variable.lower)
    last = legal & ~torch.cat([legal[:, 1:], inner], dim=-1) & (column < variable.upper)

    return first | last


def _reach(variable: Variable) -> int:
    return math.ceil(REACH_SD * (variable.sd or (1.0,))[0])


def _keep_lowest(choices: Choices, most: int) -> Choices:
    """Drops choices of rows that have too many, those of the highest bounds."""
    counts = torch.bincount(choices.row, minlength=len(choices.complete))
    if not len(choices) or counts.max() <= most:
        return choices

    kept = choices.rank(choices.bound) < most

    return replace(choices.take(kept.nonzero().squeeze(-1)), complete=choices.complete & (counts <= most))
