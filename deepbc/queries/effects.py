r"""Classes downstream of a change: which label they take, and how likely each is.

A label does not tell its noise. Under other parents the noises that lead to the factual label lead to several labels,
each with a probability; the likeliest is taken, one effect after the other, given the values of its causes in the
answer. The noise that goes with it is the mean of the factual region cut with that of the label, so that the value is
what the noise predicts; it is compatible with the facts, and nothing has moved.
"""

__all__ = ["choose_labels"]

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from deepbc.data.categories import Levels
from deepbc.mechanisms import Discrete
from deepbc.mechanisms.overlaps import overlap
from deepbc.queries.question import Question
from deepbc.queries.worlds import Worlds
from deepbc.scm import SCM
from deepbc.scm.completion import join_parents

# So many rows are integrated at once.
CHUNK = 512


@torch.no_grad()
def choose_labels(scm: SCM, question: Question, worlds: Worlds, decided: Collection[str], rows: Tensor) -> Worlds:
    """Gives effects their likeliest labels, and every category the probability of each label.

    Args:
        scm: The model.
        question: The question.
        worlds: The answers, whose effects have the labels of the factual noise.
        decided: The variables that were asked for, or that the search chose.
        rows: A mask of the answers that hold, with shape `(rows,)`.
    """
    x, u, drawn, chances = dict(worlds.x), dict(worlds.u), dict[str, Tensor](), dict[str, Tensor]()
    for name in scm.graph.order:
        levels = scm.variables[name].levels
        parents = join_parents(scm, name, x)
        relabelled = (parents != join_parents(scm, name, worlds.x)).any(-1)
        if name not in decided and relabelled.any():
            x[name] = torch.where(relabelled.unsqueeze(-1), scm.mechanisms[name].predict(u[name], parents), x[name])
        if levels is None:
            continue
        chances[name] = _certain(levels, x[name])
        drawn[name] = question.u[name]
        changed = rows & (parents != join_parents(scm, name, question.x)).any(-1)
        if name in decided or not changed.any():
            continue
        some = changed.nonzero().squeeze(-1)
        x[name], u[name] = x[name].clone(), u[name].clone()
        for part in some.split(CHUNK):
            chances[name][part], codes, noise = _weigh(scm, name, question.select(part), parents[part])
            x[name][part], u[name][part] = levels.rows(codes.to(parents)), noise
        drawn[name] = torch.where(changed.unsqueeze(-1), u[name], question.u[name])

    return replace(worlds, x=x, u=u, drawn=drawn, chances=chances)


def _weigh(scm: SCM, name: str, question: Question, parents: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The probability of each label `(rows, labels)`, the code of the likeliest `(rows,)`, and its noise."""
    law, levels, x = scm.mechanisms[name], scm.variables[name].levels, question.x[name]
    assert isinstance(law, Discrete) and levels is not None  # noqa: S101, PT018 # its variable is a category
    facts = law.region(x, x, join_parents(scm, name, question.x))
    masses, means = [], []
    for code in range(len(levels)):
        label = levels.rows(torch.full_like(x[:, 0], code))
        mass, mean = overlap(facts, law.region(label, label, parents))
        masses.append(mass)
        means.append(mean)
    mass = torch.stack(masses, dim=-1)
    total = mass.sum(-1, keepdim=True)
    # Of facts that the model holds impossible nothing is known: the label of the factual noise stays.
    lost = ~(total > 0).squeeze(-1)
    stays = levels.of_rows(law.predict(question.u[name], parents)).long()
    codes = torch.where(lost, stays, mass.argmax(-1))
    chance = torch.where(lost.unsqueeze(-1), _certain(levels, levels.rows(codes.to(x))), mass / total)
    noise = torch.stack(means, dim=1)[torch.arange(len(codes)), codes]

    return chance, codes, torch.where(lost.unsqueeze(-1), question.u[name], noise)


def _certain(levels: Levels, x: Tensor) -> Tensor:
    """A probability of 1 for the labels of rows, with shape `(rows, labels)`."""
    codes = levels.of_rows(x).long().clamp(0, len(levels) - 1)

    return torch.nn.functional.one_hot(codes, len(levels)).to(torch.double)
