r"""What a check is told beside model and data: common causes that are known of, and the question that is to be asked.

A learned law gives :math:`x_j` given its parents, so its noise is independent of :math:`x_i` and its parents where
:math:`j` is m-separated from these given the parents of :math:`j`. The noise of a law that was handed in is the true
one, so it is independent of what is m-separated from that noise. Two noises may depend on each other where neither is
separated from what the other is worked out from; that dependence is expected.

The answer to a backtracking question depends on the laws of the antecedent and its ancestors: these noises change, and
carry the change. The law of a variable further down gives its own value alone; the others play no part.
"""

__all__ = ["ANSWER", "NO_PART", "OWN_VALUE", "Setting"]

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from deepbc._validation import pick
from deepbc.errors import SettingError
from deepbc.evaluation.check.observations import Evidence
from deepbc.evaluation.check.separation import Vertex, d_separated, noise_vertex, with_noises
from deepbc.graph import CausalGraph

ANSWER, OWN_VALUE, NO_PART = "matters", "own value only", "does not matter"


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Creates what a check is told beside model and data.

    Args:
        graph: The graph.
        confounded: The pairs that have a common cause beside the graph.
        antecedent: The variables of the question; none where the whole model is judged.
    """

    graph: CausalGraph
    confounded: tuple[tuple[str, str], ...] = ()
    antecedent: tuple[str, ...] = ()

    @classmethod
    def read(cls, graph: CausalGraph, confounded: Any, antecedent: Any) -> "Setting":
        """Checks and keeps what was handed in."""
        pairs = tuple(_pair(each, graph) for each in _listed(confounded, "confounded", "[('a', 'b')]"))
        names = tuple(_listed(antecedent, "antecedent", "['a']"))

        return cls(graph, pairs, tuple(pick(name, tuple(graph), "check antecedent") for name in names))

    def expects(self, later: Evidence, earlier: Evidence, *, noise: bool) -> bool:
        """Whether a common cause makes the noise of a variable depend on the noise, or the value, of an earlier one."""
        if not self.confounded:
            return False
        if not noise:
            return not self._separated(later, [earlier.name])

        return not (self._separated(later, _origin(earlier)) or self._separated(earlier, _origin(later)))

    def role(self, name: str) -> str:
        """What the law of a variable is for the question: `matters`, `own value only` or `does not matter`."""
        causes = self._causes()
        if not self.antecedent or name in causes:
            return ANSWER

        return OWN_VALUE if name in self.graph.descendants(*causes) else NO_PART

    def matters(self, later: str, earlier: str = "") -> bool:
        """Whether the answer depends on a law; or, with two names, on an edge that may be missing between the two.

        The edge may point to the earlier where the graph does not say that this is a cause of the later.
        """
        return self.role(later) == ANSWER or (
            bool(earlier) and self.role(earlier) == ANSWER and later not in self.graph.descendants(earlier)
        )

    def _separated(self, each: Evidence, others: Sequence[Vertex]) -> bool:
        """Whether the noise of a variable is independent of others."""
        source, given = ([noise_vertex(each.name)], ()) if _is_given(each) else ([each.name], each.parents)

        return d_separated(with_noises(self.graph.to_dict(), self.confounded), source, others, given)

    def _causes(self) -> set[str]:
        return {*self.antecedent, *self.graph.ancestors(*self.antecedent)}


def _origin(each: Evidence) -> list[Vertex]:
    """What the noise of a variable is worked out from."""
    return [noise_vertex(each.name)] if _is_given(each) else [each.name, *each.parents]


def _is_given(each: Evidence) -> bool:
    return math.isinf(each.learned)


def _listed(given: Any, where: str, example: str) -> Sequence[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise SettingError(f"check {where}: expected a list, got {given!r}. Write {where}={example}.")

    return list(given)


def _pair(given: Any, graph: CausalGraph) -> tuple[str, str]:
    pair = () if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if len(pair) != 2 or pair[0] == pair[1]:
        raise SettingError(f"check confounded: expected pairs of two variables, got {given!r}. Write [('a', 'b')].")
    first, second = (pick(name, tuple(graph), "check confounded") for name in pair)

    return first, second
