"""The nearest world in which two noises move, by brute force: every pair, every value, grids and bisection.

It knows nothing of searches, solvers and derivatives: it asks each law for values and noises, and nothing else. With
two noises and one number that is asked, at most two numbers are left to seek, and with the antecedent one.
"""

import itertools
import math

import torch

# Points of grids of one and of two unknowns, how often they are refined around how many of the best, and bisections.
POINTS, COARSE, FINE, REFINED, BEST, HALVINGS = 1201, 121, 41, 4, 4, 60
# No noise moves farther; a root is one to this gap.
FARTHEST, GAP = 10.0, 1e-7


def best_pair(scm, row, target, asked, pair=None):
    """The least squared distance at which a number is as asked while the noises of any two variables, or a pair, move.

    A distance above the square of `FARTHEST` is infinite.
    """
    best = torch.inf
    names = [name for name in scm.graph.order if name in {target, *scm.graph.ancestors(target)}]
    pairs = [pair] if pair else itertools.combinations(names, min(2, len(names)))
    for pair in sorted(pairs, key=lambda pair: target not in pair):
        best = min(best, _Pair(scm, row, target, asked, names, pair).least(min(FARTHEST, math.sqrt(best))))
    return best


class _Pair:
    """The worlds of one row in which the noises of some variables move."""

    def __init__(self, scm, row, target, asked, names, pair):
        self.scm, self.target, self.asked, self.names, self.pair = scm, target, asked, names, pair
        self.x = scm.schema.read_values(row)
        self.u = {name: scm.mechanisms[name].abduct(self.x[name], self._parents(name, self.x)) for name in names}
        self.numbers = [name for name in pair if name != target and not scm.variables[name].discrete]
        discrete = [name for name in pair if scm.variables[name].discrete]
        self.choices = {}
        combinations = list(itertools.product(*(self._values(name) for name in discrete)))
        for k, name in enumerate(discrete):
            self.choices[name] = torch.stack([each[k] for each in combinations])
        self.count = len(combinations)

    def least(self, reach):
        """The least cost, of moves up to a reach; infinite where there is none."""
        grid = torch.linspace(-reach, reach, POINTS, dtype=torch.float64)
        choice = torch.arange(self.count)
        if not self.numbers:
            gap, cost = self.ask(choice, [])
            return self._met(gap, cost)
        if len(self.numbers) == 2:
            return self._least_of_two(reach)
        choice, v = choice.repeat_interleave(POINTS), grid.repeat(self.count)
        if self.target not in self.pair:
            return self._roots(choice, [], v, POINTS).min().item()

        step = grid[1] - grid[0]
        gap, cost = self.ask(choice, [v])
        for _ in range(REFINED):
            order = cost.argsort()[:BEST]
            fine = torch.linspace(-1, 1, FINE, dtype=torch.float64) * step
            choice, v = choice[order].repeat_interleave(FINE), (v[order].unsqueeze(-1) + fine).flatten()
            step = fine[1] - fine[0]
            gap, cost = self.ask(choice, [v])
        return self._met(gap, cost)

    def _least_of_two(self, reach):
        """For each move of the first the roots in the second; grids of the first are refined around the best."""
        inner = torch.linspace(-reach, reach, COARSE, dtype=torch.float64)
        outer, step, best = inner, inner[1] - inner[0], torch.inf
        for _ in range(REFINED):
            first, second = outer.repeat_interleave(COARSE), inner.repeat(len(outer))
            cost = self._roots(torch.zeros(len(first), dtype=torch.long), [first], second, COARSE)
            best = min(best, cost.min().item())
            order = cost.argsort()[:BEST]
            fine = torch.linspace(-1, 1, FINE, dtype=torch.float64) * step
            outer, step = (outer[order].unsqueeze(-1) + fine).flatten(), fine[1] - fine[0]
        return best

    def _roots(self, choice, fixed, v, points):
        """The least cost of each run of points among the places between two of them where the antecedent holds."""
        runs = len(v) // points
        gap, _ = self.ask(choice, [*fixed, v])
        left = ((gap[:-1] > 0) != (gap[1:] > 0)).nonzero().squeeze(-1)
        left = left[left % points != points - 1]
        low, high, choice, fixed = v[left], v[left + 1], choice[left], [each[left] for each in fixed]
        above = gap[left] > 0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            same = (self.ask(choice, [*fixed, middle])[0] > 0) == above
            low, high = torch.where(same, middle, low), torch.where(same, high, middle)
        gap, cost = self.ask(choice, [*fixed, low])
        cost = torch.where(gap.abs() < GAP, cost, torch.inf)
        return torch.full((runs,), torch.inf, dtype=torch.float64).scatter_reduce(0, left // points, cost, "amin")

    def ask(self, choice, moves):
        """How far the target is from what is asked, and what the noises cost, at some choices and moves of numbers."""
        n = len(choice)
        x, cost = {}, torch.zeros(n, dtype=torch.float64)
        moved = dict(zip(self.numbers, moves, strict=True))
        for name in self.names:
            law, rest, parents = self.scm.mechanisms[name], self.u[name].expand(n, -1), self._parents(name, x, n)
            if name in self.choices:
                x[name] = self.choices[name][choice]
                cost = cost + (law.nearest(x[name], parents, rest) - rest).square().sum(-1)
            elif name == self.target and name in self.pair:
                x[name] = torch.full((n, 1), self.asked, dtype=torch.float64)
                cost = cost + (law.abduct(x[name], parents) - rest).square().sum(-1)
            elif name in moved:
                x[name] = law.predict(rest + moved[name].unsqueeze(-1), parents)
                cost = cost + moved[name].square()
            else:
                x[name] = law.predict(rest, parents)
        return x[self.target].squeeze(-1) - self.asked, cost

    def _met(self, gap, cost):
        return torch.where(gap.abs() < GAP, cost, torch.inf).min().item()

    def _parents(self, name, x, rows=1):
        parts = [x[each] for each in self.scm.graph.parents(name)]
        return torch.cat(parts, -1) if parts else torch.zeros(rows, 0, dtype=torch.float64)

    def _values(self, name):
        variable = self.scm.variables[name]
        if variable.levels:
            return variable.levels.rows(torch.arange(len(variable.levels)).double())
        return torch.arange(variable.lower, variable.upper + 1, dtype=torch.float64).unsqueeze(-1)
