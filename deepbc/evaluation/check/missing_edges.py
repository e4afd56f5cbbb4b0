r"""Edges to try: which missing causes would explain the dependences of noises that the graph rules out.

For a variable :math:`j` whose noise depends on what it should not, every earlier variable :math:`i` that is no parent
is a candidate. Its strength is the dependence of the noise :math:`u_j` on the value :math:`x_i`, given the parents of
:math:`j`. The strongest is taken as a parent, and so on, until no dependence is left that is clearer than chance:
forward selection. So a cause of a cause, whose dependence the cause explains, is not listed, and nothing is listed for
a law that is too simple in its parents.

References:
    The elements of statistical learning (Hastie, Tibshirani and Friedman, 2009), section 3.3.2: forward selection.
    CAM: causal additive models, high-dimensional order search and penalized regression (Buhlmann, Peters and Ernest,
    2014): parents are selected among the variables that come before, given an order.
"""

__all__ = ["MissingEdge", "edges_to_try", "partial_strengths"]

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deepbc.evaluation.check.distance_covariance import Ranked, independence
from deepbc.evaluation.check.grades import CORRELATION, nats
from deepbc.evaluation.check.observations import MOST_COMPONENTS, Evidence
from deepbc.evaluation.check.setting import Setting

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class MissingEdge:
    """An edge that would explain dependences that the graph rules out; a common cause of the two may do so, too.

    Args:
        cause: Where it begins. It comes before the effect in the order of the graph, so that no cycle arises.
        effect: Where it ends.
        strength: How strongly the noise of the effect depends on the cause, given the parents, from 0 to 1.
        nats: How many nats a row it would explain, if both were normal.
        p: The p-value, corrected for the number of pairs without an edge.
        grade: `negligible`, `some` or `strong`.
        mends: The pairs of dependent noises without an edge, the later first, that would no longer be clearer than
            chance.
        matters: Whether the answer to the question depends on it, or may if it points the other way.
    """

    cause: str
    effect: str
    strength: float
    nats: float
    p: float
    grade: str
    mends: tuple[Pair, ...]
    matters: bool

    def __str__(self) -> str:
        return f"{self.cause!r} -> {self.effect!r}"


def edges_to_try(
    evidence: Sequence[Evidence],
    noises: Mapping[str, Ranked],
    violated: Collection[Pair],
    setting: Setting,
    level: float,
) -> tuple[MissingEdge, ...]:
    """Lists the edges that would explain dependences, those that explain most first.

    Args:
        evidence: What is known of each variable, causes before effects.
        noises: Their ranked noises.
        violated: The pairs of variables of which the first depends on the second by its noise, and should not.
        setting: The common causes that are known of, and the question.
        level: What counts as chance.
    """
    absent = sum(other.name not in each.parents for k, each in enumerate(evidence) for other in evidence[:k])
    values = {each.name: _ranked(each, noises) for each in evidence}
    earlier = list[Evidence]()
    found = list[MissingEdge]()
    for each in evidence:
        pairs = [pair for pair in dict.fromkeys(violated) if pair[0] == each.name]
        candidates = [other.name for other in earlier if _may_cause(other, each, setting)]
        selection = _Selection(each, noises, values, absent, level)
        if pairs:
            found += selection.run([pair for pair in pairs if pair[1] not in each.parents], candidates, setting)
        earlier.append(each)

    return tuple(sorted(found, key=lambda edge: -edge.strength))


def partial_strengths(
    evidence: Sequence[Evidence], noises: Mapping[str, Ranked], violated: Iterable[Pair]
) -> dict[Pair, float]:
    """Measures how strongly noises depend on the values of others, given the parents.

    Args:
        evidence: What is known of each variable.
        noises: Their ranked noises.
        violated: The pairs of dependent noises without an edge, the one whose noise is meant first.
    """
    known = {each.name: each for each in evidence}
    strengths = dict[Pair, float]()
    for effect, cause in violated:
        conditions = [_ranked(known[name], noises) for name in known[effect].parents]
        value = _ranked(known[cause], noises).given(conditions)
        strengths[effect, cause] = independence(noises[effect].given(conditions), value)[1]

    return strengths


def _ranked(each: Evidence, noises: Mapping[str, Ranked]) -> Ranked:
    """The values of a variable; of an image its noise, which is shorter."""
    return noises[each.name] if each.is_image else Ranked.of(each.values[:, :MOST_COMPONENTS])


def _may_cause(other: Evidence, each: Evidence, setting: Setting) -> bool:
    return other.noisy and other.name not in each.parents and not setting.expects(each, other, noise=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Selection:
    """Creates a forward selection of further causes of one variable."""

    effect: Evidence
    noises: Mapping[str, Ranked]
    values: Mapping[str, Ranked]
    tests: int
    level: float

    def run(self, pairs: Sequence[Pair], candidates: Sequence[str], setting: Setting) -> Iterator[MissingEdge]:
        """Adds the strongest candidate that is clearer than chance, until there is none."""
        causes, left = list(self.effect.parents), list(pairs)
        open_candidates = list(candidates)
        while open_candidates:
            tested = [(*self._test(self.values[name], causes), name) for name in open_candidates]
            clear = [(strength, p, name) for p, strength, name in tested if p < self.level]
            if not clear:
                return
            strength, p, name = max(clear)
            causes.append(name)
            open_candidates.remove(name)
            still = [pair for pair in left if self._test(self.noises[pair[1]], causes)[0] < self.level]
            yield MissingEdge(
                cause=name,
                effect=self.effect.name,
                strength=strength,
                nats=nats(strength),
                p=p,
                grade=CORRELATION.grade(strength),
                mends=tuple(pair for pair in left if pair not in still),
                matters=setting.matters(self.effect.name, name),
            )
            left = still

    def _test(self, other: Ranked, causes: Sequence[str]) -> tuple[float, float]:
        """The corrected p-value and the strength of a dependence of the noise, given some causes."""
        conditions = [self.values[name] for name in causes]
        noise = self.noises[self.effect.name].given(conditions)
        p, strength = independence(noise, other.given(conditions), self.effect.learned)

        return min(1.0, p * self.tests), strength
