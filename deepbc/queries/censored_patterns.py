r"""Censored variables in the nearest world: each at its floor, at its ceiling, or inside.

Where a censored variable that may change is at its floor, its value is given and its noise the nearest that leads
there; where it is inside, its law is the smooth latent one. So for a *pattern*, which says of each such variable where
it is, the search is one over ordinary laws.

The best of all patterns is the nearest world, and inside need not be enforced: say a world :math:`w` is nearest, and
take the pattern that has at an end every variable whose latent value is there or beyond. All others lie strictly
inside, so that :math:`w` is a local minimum of the problem of this pattern, in which nothing keeps them there; where
that has one minimum, it is found. A solution that does leave the inside is no world and is dropped: on the straight way
to it from any world inside, it crosses a floor, where the pattern with that floor goes on at no higher cost. Rows that
are left with no world at all are solved again with their variables confined to the inside.

References:
    Numerical Optimization (Nocedal and Wright, 2006), section 16.5: active sets, here all of them.
"""

__all__ = ["Pattern", "censored_of", "drop_outside", "find_patterns"]

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deepbc.data.variables import Variable
from deepbc.mechanisms import Censored
from deepbc.numerics.batched import select
from deepbc.queries.asked import Asked
from deepbc.queries.question import Question
from deepbc.queries.roles import Roles
from deepbc.queries.search_model import substitute
from deepbc.queries.worlds import Worlds
from deepbc.scm import SCM

# So many patterns of a row are tried: those that differ from the factual one in the fewest variables.
MOST_PATTERNS = 32
# Where a variable is.
FLOOR, INSIDE, CEILING = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Pattern:
    """Where the censored variables are.

    Args:
        rows: The rows of the question of which it is tried, with shape `(rows,)`.
        states: For each variable whether it is at its floor, inside or at its ceiling.
    """

    rows: Tensor
    states: Mapping[str, int]

    def model(self, scm: SCM) -> SCM:
        """The model in which those inside have their latent law."""
        laws = {name: scm.mechanisms[name] for name, state in self.states.items() if state == INSIDE}

        return substitute(scm, {name: law.law for name, law in laws.items() if isinstance(law, Censored)})

    def aims(
        self, scm: SCM, question: Question, aims: Mapping[str, Asked], *, confined: bool = False
    ) -> dict[str, Asked]:
        """What is sought in its rows.

        Args:
            scm: The model.
            question: The question, with all rows.
            aims: What is sought of the antecedent.
            confined: Whether those inside are asked to be, in which no interval is asked of them.
        """
        sought = {name: select(each, self.rows) for name, each in aims.items()}
        for name, state in self.states.items():
            variable, like = scm.variables[name], question.x[name][self.rows]
            ends = torch.full_like(like, variable.floor), torch.full_like(like, variable.ceiling)
            if state != INSIDE:
                sought[name] = Asked.value(ends[0] if state == FLOOR else ends[1])
            elif confined and name not in sought:
                sought[name] = Asked(*ends, True)

        return sought


def censored_of(scm: SCM, aims: Mapping[str, Asked], scope: Collection[str]) -> tuple[str, ...]:
    """The censored variables that are asked for, or upstream of what is and may change."""
    roles = Roles.of(scm, aims, scope)

    return tuple(
        name
        for name in roles.names
        if isinstance(scm.mechanisms[name], Censored) and (name in aims or name not in roles.fixed)
    )


def find_patterns(
    scm: SCM, question: Question, aims: Mapping[str, Asked], names: Sequence[str]
) -> tuple[Iterator[Pattern], bool]:
    """Finds the patterns to try, those of the fewest changes first, and says whether these are all."""
    options, base, allowed = [], [], []
    for name in names:
        variable, aim, x = scm.variables[name], aims.get(name), question.x[name]
        start = _states(variable, x if aim is None else aim.nearest(x))
        lone = aim is not None and not aim.interval
        options.append([0] if lone else [0, *range(1, 1 + sum(map(_is_finite, (variable.floor, variable.ceiling))))])
        base.append(start)
        allowed.append(_allowed(variable, x, aim))

    moves = sorted(itertools.product(*options), key=lambda move: sum(map(bool, move)))
    most = len(moves)
    while most > MOST_PATTERNS:
        # As many changes at once as few enough patterns have.
        changes = sum(map(bool, moves[most - 1]))
        most = sum(sum(map(bool, move)) < changes for move in moves)
    kept = moves[: max(most, 1)]

    return _patterns(scm, names, base, allowed, kept), len(kept) == len(moves)


def _patterns(
    scm: SCM, names: Sequence[str], base: Sequence[Tensor], allowed: Sequence[Tensor], moves: Sequence[tuple[int, ...]]
) -> Iterator[Pattern]:
    for move in moves:
        states = torch.stack(
            [_moved(scm.variables[name], start, step) for name, start, step in zip(names, base, move, strict=True)], -1
        )
        will_do = torch.stack([mask.gather(-1, states[:, k : k + 1]) for k, mask in enumerate(allowed)]).all(0)
        rows = will_do.squeeze(-1).nonzero().squeeze(-1)
        if not len(rows):
            continue
        found, which = states[rows].unique(dim=0, return_inverse=True)
        for number, each in enumerate(found.tolist()):
            yield Pattern(rows[which == number], dict(zip(names, each, strict=True)))


def _leaves_inside(scm: SCM, worlds: Worlds) -> Tensor:
    """The rows in which a variable with its latent law in the place of a censored one left the inside."""
    outside = torch.zeros_like(worlds.status, dtype=torch.bool)
    for name, variable in scm.variables.items():
        if variable.censored and not scm.mechanisms[name].bound.child.censored:
            x = worlds.x[name]
            outside |= ((x < variable.floor) | (x > variable.ceiling)).any(-1)

    return outside


def drop_outside(scm: SCM, worlds: Worlds, status: int) -> Worlds:
    """Gives rows that left the inside another status."""
    return replace(worlds, status=torch.where(_leaves_inside(scm, worlds), status, worlds.status))


def _is_finite(end: float) -> bool:
    return abs(end) < float("inf")


def _states(variable: Variable, x: Tensor) -> Tensor:
    """Where values are, with shape `(rows,)`."""
    states = torch.where(x <= variable.floor, FLOOR, torch.where(x >= variable.ceiling, CEILING, INSIDE))

    return states.squeeze(-1)


def _moved(variable: Variable, states: Tensor, step: int) -> Tensor:
    """The state that so many steps lead to, round those that a variable has."""
    there = [FLOOR] * _is_finite(variable.floor) + [INSIDE] + [CEILING] * _is_finite(variable.ceiling)
    known = states.new_tensor(there)
    places = (states.unsqueeze(-1) == known).long().argmax(-1)

    return known[(places + step) % len(there)]


def _allowed(variable: Variable, x: Tensor, aim: Asked | None) -> Tensor:
    """Which states may be what is asked for, with shape `(rows, 3)`."""
    if aim is None:
        return torch.ones(len(x), 3, dtype=torch.bool, device=x.device)
    ends = [aim.missed(torch.full_like(x, end)) == 0 for end in (variable.floor, variable.ceiling)]
    inside = (aim.upper > variable.floor) & (aim.lower < variable.ceiling)

    return torch.cat([ends[0], inside, ends[1]], dim=-1)
