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
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.data.variables import Variable
from deepbc.distances import Distances
from deepbc.mechanisms import Discrete
from deepbc.numerics.batched import concat_last, join, repeat, select
from deepbc.queries.asked import Asked
from deepbc.queries.question import Question
from deepbc.queries.rest_model import Normal, RestModel, Sides, Tangent
from deepbc.queries.roles import Roles
from deepbc.queries.worlds import Columns
from deepbc.scm import SCM

# Whole numbers are enumerated within so many standard deviations of the factual one, and no more than so many of them;
# others are wide.
REACH_SD, MAX_WHOLE = 5.0, 512
# A choice is left out if its model costs more than the best by this factor. Of 19,000 choices solved under flows and
# networks none cost less than its model over 1.5. An exact model is one to this rounding.
MODEL_FACTOR, EXACT_MARGIN = 2.0, 1e-9
# About so many numbers are in memory at once, for more and more rows by this factor. Numbers of combinations are below
# the last.
MOST_NUMBERS, GROWTH, LARGEST_KEY = 16_000_000, 8, 2**62
# Keys are counted, not sorted, where no more than this many times their number are possible.
MOST_COUNTED = 8


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of values, one each.

    Args:
        row: The row of the question, with shape `(choices,)`.
        bound: A lower bound of the cost.
        cost: The least cost by the model at rest; the bound where there is no model.
        index: The number of the value of each enumerated variable.
        complete: Whether no choice below its limit was left out, with shape `(rows,)`.
    """

    row: Tensor
    bound: Tensor
    cost: Tensor
    index: Mapping[str, Tensor]
    complete: Tensor

    def __len__(self) -> int:
        return len(self.row)

    def rank(self) -> Tensor:
        """The place of each choice among those of its row by ascending cost, with shape `(choices,)`."""
        return _rank(self.cost, self.row, len(self.complete))


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The choices so far, on the way down the tree.

    Args:
        row: The row of the question, with shape `(nodes,)`.
        bound: A lower bound of the cost: what the variables cost none of whose parents can move.
        cost: The least cost by the model at rest.
        normal: The normal equations of what the others cost; None while there are none.
        sides: The sides of regions that noises which may not move must stay in; None while there are none.
        ids: For each variable so far the place of its value and derivative among its tangents.
    """

    row: Tensor
    bound: Tensor
    cost: Tensor
    normal: Normal | None
    sides: Sides | None
    ids: Mapping[str, Tensor]

    def charge(self, cost: Tensor) -> "_Nodes":
        """Adds a cost that is known."""
        return replace(self, bound=self.bound + cost, cost=self.cost + cost)


class ChoiceTree:
    """Creates the tree of a question.

    Args:
        scm: The model.
        question: The question.
        aims: What is sought of each variable of the antecedent.
        scope: The variables whose noise may move.
        met: The other variables of the antecedent whose value their own noise meets.
        allowed: The variables to choose, causes first, and what they are asked to lie in, if they are.
        distance: How far two noises are apart.
    """

    def __init__(
        self,
        scm: SCM,
        question: Question,
        aims: Mapping[str, Asked],
        *,
        scope: Collection[str],
        met: Collection[str],
        allowed: Mapping[str, Asked | None],
        distance: Distances,
    ) -> None:
        self.scm, self.question, self.aims, self.distance = scm, question, aims, distance
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
            legal = _legal(variable, candidates, x, asked)
            self.legal[name] = legal.T.contiguous()
            self.edges[name] = _edges(variable, legal, candidates, asked).T
        self.roles = Roles.of(scm, aims, scope, [*self.values, *met])
        self.model = RestModel(scm, question, self.roles, distance, self.wide)
        #: Which part of the model's cost, if any, the true cost never falls below.
        self.factor = (1 - EXACT_MARGIN if self.model.exact else 1 / MODEL_FACTOR) if distance.squared else 0.0

    @property
    def wide(self) -> tuple[str, ...]:
        """The variables to choose that have too many values to enumerate."""
        return tuple(name for name in self.allowed if name not in self.values)

    def grow(self, limit: Tensor, most: int) -> Choices:
        """Enumerates the choices whose bound is below a limit.

        Args:
            limit: The limit, with shape `(rows,)`; infinite where nothing is found yet.
            most: How many choices of a row are kept at each level, those of the lowest cost.
        """
        every = torch.arange(self.question.rows, device=self.scm.device)
        complete = torch.ones_like(every, dtype=torch.bool)
        sizes = [len(values) for values in self.values.values()]
        widest = self._size(min(math.prod(sizes), most * max(sizes, default=1)), settled=False)
        parts: list[_Nodes] = []
        start, rows = 0, max(1, MOST_NUMBERS // max(widest, 1))
        while start < len(every) or not parts:
            part, peak = self._grow(every[start : start + rows], limit, most, complete)
            parts.append(part)
            start += rows
            # What the last rows needed tells how many may be next.
            rows = max(1, rows // 2, min(GROWTH * rows, rows * MOST_NUMBERS // max(peak, 1)))
        nodes = join(parts)
        bound = torch.maximum(nodes.bound, nodes.cost * self.factor) if self.model.exact else nodes.bound

        return Choices(nodes.row, bound, nodes.cost, nodes.ids, complete)

    def least(self, bound: Tensor, cost: Tensor) -> Tensor:
        """What the true cost of choices is taken to exceed, from a bound and the model's cost."""
        return torch.maximum(bound, cost * self.factor)

    def _size(self, nodes: int, *, settled: bool) -> int:
        """The numbers that are in memory at once for so many nodes, about."""
        return nodes if settled else nodes * (1 + self.model.free) ** 2

    def _grow(self, rows: Tensor, limit: Tensor, most: int, complete: Tensor) -> tuple[_Nodes, int]:
        """Goes down the tree for some rows, and marks those that lose choices; the numbers in memory come second."""
        roles, nothing, peak = self.roles, limit.new_zeros(len(rows)), 0
        tangents: dict[str, Tangent] = {}
        nodes = _Nodes(rows, nothing, nothing, None, None, {})
        for name in roles.names:
            if name in self.values:
                tangents[name] = Tangent(self.values[name], None)
                extended = len(self.values[name]) * len(nodes.row)
                peak = max(peak, self._size(extended, settled=self._settled(tangents, name)))
                nodes = self._choose(nodes, tangents, name, limit, complete)
                nodes = self._keep_lowest(nodes, most, complete)
            elif name in roles.fixed or name in roles.met:
                x = self.question.x[name] if name in roles.fixed else self.aims[name].lower
                tangents[name] = Tangent(x, None)
                if name in roles.met:
                    nodes = self._charge(nodes, tangents, name, limit)
                nodes = replace(nodes, ids={**nodes.ids, name: nodes.row})
            else:
                first, inverse = self._alike(nodes, tangents, name, by_row=True)
                parents = self._parents(nodes, tangents, name, first)
                tangents[name] = self.model.predict(name, nodes.row[first], parents)
                nodes = replace(nodes, ids={**nodes.ids, name: inverse})

        return replace(nodes, ids={name: nodes.ids[name] for name in self.values}), peak

    def _choose(
        self, nodes: _Nodes, tangents: Mapping[str, Tangent], name: str, limit: Tensor, complete: Tensor
    ) -> _Nodes:
        """Extends each node by every value of one variable that its bound and its model allow."""
        if self._settled(tangents, name):
            cost, which = self._settled_cost(nodes, tangents, name)
            allowance = limit[nodes.row]
            allowance = torch.minimum(allowance - nodes.bound, allowance / self.factor - nodes.cost)
            cheap = cost.index_select(1, which) < allowance
            value, parent = (cheap & self.legal[name].index_select(1, nodes.row)).nonzero().unbind(-1)
            grown = select(nodes, parent).charge(cost[value, which[parent]])
        else:
            value, parent = self.legal[name].index_select(1, nodes.row).nonzero().unbind(-1)
            if self._frozen(name):
                grown = self._confine(select(nodes, parent), tangents, name, self.values[name][value])
                normal = None
            else:
                grown = select(nodes, parent)
                normal = self._implied(nodes, tangents, name, self.values[name], value, parent)
            grown, kept = self._add(grown, normal, limit)
            value = value[kept]
        complete[grown.row[self.edges[name][value, grown.row]]] = False

        return replace(grown, ids={**grown.ids, name: value})

    def _charge(self, nodes: _Nodes, tangents: Mapping[str, Tangent], name: str, limit: Tensor) -> _Nodes:
        """Adds what the noise costs that is implied by the value that is asked of a variable."""
        every = torch.arange(len(nodes.row), device=nodes.row.device)
        if not self._settled(tangents, name) and self._frozen(name):
            nodes = self._confine(nodes, tangents, name, self.aims[name].lower[nodes.row])
            return self._add(nodes, None, limit)[0]
        if not self._settled(tangents, name):
            normal = self._implied(nodes, tangents, name, None, torch.zeros_like(every), every)
            return self._add(nodes, normal, limit)[0]

        first, inverse = self._alike(nodes, tangents, name, by_row=True)
        row, parents = nodes.row[first], self._parents(nodes, tangents, name, first)
        nodes = nodes.charge(self.model.settle(name, self.aims[name].lower[row], row, parents)[inverse])

        return select(nodes, (self.least(nodes.bound, nodes.cost) < limit[nodes.row]).nonzero().squeeze(-1))

    def _frozen(self, name: str) -> bool:
        """Whether a variable is a discrete one whose noise may not move."""
        return name in self.roles.discrete and name not in self.roles.scope

    def _confine(self, nodes: _Nodes, tangents: Mapping[str, Tangent], name: str, x: Tensor) -> _Nodes:
        """Adds the sides of the regions of a variable whose noise may not move, at a value of each node."""
        if not self.model.takes_part(name):
            return nodes
        every = torch.arange(len(nodes.row), device=nodes.row.device)
        sides = self.model.confine(name, x, nodes.row, self._parents(nodes, tangents, name, every))

        return replace(nodes, sides=sides.and_others(nodes.sides))

    def _add(self, nodes: _Nodes, normal: Normal | None, limit: Tensor) -> tuple[_Nodes, Tensor]:
        """Adds normal equations to nodes, and keeps those that may lie below the limit, whose numbers come second."""
        if self.distance.squared and (normal is not None or nodes.sides is not None):
            total = nodes.normal or self.model.empty()
            normal = total if normal is None else total.plus(normal)
            least = normal.minimum() if nodes.sides is None else normal.minimum_within(nodes.sides)
            cost = nodes.bound + least.clamp_min(0)
            # Where the model is no number the bound alone counts.
            cost = torch.where(cost.isnan(), nodes.bound, cost)
            nodes = replace(nodes, normal=normal.expand(len(cost)), cost=cost)
        kept = (self.least(nodes.bound, nodes.cost) < limit[nodes.row]).nonzero().squeeze(-1)

        return select(nodes, kept), kept

    def _settled(self, tangents: Mapping[str, Tangent], name: str) -> bool:
        """Whether no parent of a variable can move."""
        return all(tangents[each].jacobian is None for each in self.scm.graph.parents(name))

    def _implied(
        self,
        nodes: _Nodes,
        tangents: Mapping[str, Tangent],
        name: str,
        values: Tensor | None,
        value: Tensor,
        parent: Tensor,
    ) -> Normal | None:
        """What the noises cost that are implied by values of a variable, one for each pair of value and node.

        Without values it is the one that is asked. None where that noise may not move, and nothing is known.
        """
        if not self.model.takes_part(name):
            return None
        first, inverse = self._alike(nodes, tangents, name, by_row=True)
        row, parents = nodes.row[first], self._parents(nodes, tangents, name, first)
        if values is None:
            return select(
                self.model.imply(name, self.model.reduce(name, self.aims[name].lower)[row], row, parents), inverse
            )

        z = self.model.reduce(name, values).repeat_interleave(len(row), 0)
        normal = self.model.imply(name, z, row.repeat(len(values)), repeat(parents, len(values)))

        return select(normal, value * len(row) + inverse[parent])

    def _settled_cost(self, nodes: _Nodes, tangents: Mapping[str, Tangent], name: str) -> tuple[Tensor, Tensor]:
        """What the noises of all values of a settled variable cost.

        Returns:
            The costs of each row and combination of parents that occurs, with shape `(values, occurring)`, and which of
            these each node has.
        """
        law, x = self.scm.mechanisms[name], self.values[name].unsqueeze(1)
        assert isinstance(law, Discrete)  # noqa: S101 # its variable is
        occurring, which = self._alike(nodes, tangents, name, by_row=True)
        first, inverse = self._alike(select(nodes, occurring), tangents, name, by_row=False)
        parents = self._parents(nodes, tangents, name, occurring[first])
        joined = concat_last([each.x for each in parents.values()], x.new_zeros(len(first), 0))
        joined, x = joined.expand(len(x), -1, -1), x.expand(-1, len(first), -1)
        regions = law.region(x, x, joined).take(inverse)
        u = self.question.u[name][nodes.row[occurring]].expand(len(x), -1, -1)
        if name not in self.roles.scope:
            outside = regions.excess(u).amax(-1) > 0
            return torch.where(outside, torch.inf, torch.zeros_like(u[..., 0])), which

        return self.distance.moved(name, regions.nearest(u), u), which

    def _alike(
        self, nodes: _Nodes, tangents: Mapping[str, Tangent], name: str, *, by_row: bool
    ) -> tuple[Tensor, Tensor]:
        """The first node of each combination of a variable's parents, and the combination of each node.

        Args:
            nodes: The nodes.
            tangents: The tangents of all variables so far.
            name: The variable.
            by_row: Whether nodes of different rows differ.
        """
        every, parents = torch.arange(len(nodes.row), device=nodes.row.device), self.scm.graph.parents(name)
        if by_row and all(each in parents for each in self.values if each in nodes.ids):
            return every, every

        key, size = (nodes.row, self.question.rows) if by_row else (torch.zeros_like(nodes.row), 1)
        for each in parents:
            count = len(tangents[each].x)
            if size * count >= LARGEST_KEY:
                key, size = _number(key, size)
            key, size = key + size * nodes.ids[each], size * count
        inverse, count = _number(key, size)

        return torch.zeros_like(key[:count]).scatter_(0, inverse, every), inverse

    def _parents(self, nodes: _Nodes, tangents: Mapping[str, Tangent], name: str, chosen: Tensor) -> dict[str, Tangent]:
        """The tangents of a variable's parents at some nodes."""
        return {each: select(tangents[each], nodes.ids[each][chosen]) for each in self.scm.graph.parents(name)}

    def _keep_lowest(self, nodes: _Nodes, most: int, complete: Tensor) -> _Nodes:
        """Drops nodes of rows that have too many, those of the highest costs."""
        counts = torch.bincount(nodes.row, minlength=len(complete))
        if not len(nodes.row) or counts.max() <= most:
            return nodes

        few = counts <= most
        complete &= few
        kept = few[nodes.row]
        many = (~kept).nonzero().squeeze(-1)
        kept[many] = _rank(nodes.cost[many], nodes.row[many], len(complete)) < most

        return select(nodes, kept.nonzero().squeeze(-1))


def _number(key: Tensor, size: int) -> tuple[Tensor, int]:
    """Numbers the keys that occur, of those below a size; the number of each key, and how many there are."""
    if size > MOST_COUNTED * len(key):
        unique, inverse = key.unique(return_inverse=True)
        return inverse, len(unique)

    number = torch.zeros(size, dtype=torch.long, device=key.device).scatter_(0, key, 1).cumsum_(0)

    return number[key] - 1, int(number[-1]) if size else 0


def _rank(key: Tensor, row: Tensor, rows: int) -> Tensor:
    """The place of each choice among those of its row by ascending key, at least 0, all with shape `(choices,)`."""
    # Bits of positive floats ascend as they do. One sort of whole numbers is a seventh of two of floats.
    order = ((row << 32) + key.float().view(torch.int32)).argsort(stable=True)
    counts = torch.bincount(row, minlength=rows)
    first = counts.cumsum(0) - counts
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - first[row[order]]

    return rank


def _candidates(variable: Variable, x: Tensor) -> Tensor | None:
    """The values that are enumerated, with shape `(values, value)`: all classes, or whole numbers near factual ones."""
    if variable.levels:
        return variable.levels.rows(torch.arange(len(variable.levels), device=x.device).to(x))

    grid, reach = variable.grid, _reach(variable)
    if (2 * reach + 1 > MAX_WHOLE and _is_long(variable)) or not len(x):
        return None if len(x) else x
    seen = grid.count(torch.stack([x.min(), x.max()])).round()
    low, high = grid.count(torch.tensor([variable.lower, variable.upper])).round().tolist()
    low, high = max(low, seen[0].item() - reach), min(high, seen[1].item() + reach)

    return None if high - low >= 8 * MAX_WHOLE else grid.at(torch.arange(low, high + 1).to(x)).unsqueeze(-1)


def _legal(variable: Variable, candidates: Tensor, x: Tensor, asked: Asked | None) -> Tensor:
    """Which values are enumerated for each row, with shape `(rows, values)`."""
    legal = torch.ones(len(x), len(candidates), dtype=torch.bool, device=x.device)
    if variable.whole and _is_long(variable):
        legal &= variable.grid.count(candidates.T - x + variable.grid.offset).round().abs() <= _reach(variable)
    if asked is not None and asked.labels is not None:
        legal &= asked.labels
    elif asked is not None:
        wide = candidates.unsqueeze(0)
        inside = (wide >= asked.lower.unsqueeze(1)) & (wide <= asked.upper.unsqueeze(1))
        legal &= inside.all(-1)

    return legal


def _edges(variable: Variable, legal: Tensor, candidates: Tensor, asked: Asked | None) -> Tensor:
    """Which values have others beyond them that would do and are not enumerated, with shape `(rows, values)`."""
    if variable.levels or not legal.shape[-1]:
        return torch.zeros_like(legal)

    column = candidates.squeeze(-1)
    inner = torch.zeros_like(legal[:, :1])
    lower, upper = (-torch.inf, torch.inf) if asked is None else (asked.lower, asked.upper)
    first = legal & ~torch.cat([inner, legal[:, :-1]], dim=-1) & (column > variable.lower) & (column > lower)
    last = legal & ~torch.cat([legal[:, 1:], inner], dim=-1) & (column < variable.upper) & (column < upper)

    return first | last


def _reach(variable: Variable) -> int:
    """How many steps from a number others are enumerated."""
    return math.ceil(REACH_SD * (variable.sd or (1.0,))[0] / variable.grid.step)


def _is_long(variable: Variable) -> bool:
    """Whether there are too many numbers between the bounds to try them all."""
    return variable.upper - variable.lower >= MAX_WHOLE * variable.grid.step
