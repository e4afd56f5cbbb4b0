"""m-separation against networkx, with latent causes made explicit, and against all paths of small graphs."""

import itertools
import random

import networkx
import pytest

from deepbc.evaluation.check.separation import m_separated


def drawn(names: str, seed: int) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """A random graph in the order of the names, and random pairs with a common cause."""
    draw = random.Random(seed)
    parents = {name: [cause for cause in names[:k] if draw.random() < 0.35] for k, name in enumerate(names)}
    return parents, [pair for pair in itertools.combinations(names, 2) if draw.random() < 0.2]


def triples(names: str):
    """All pairs of variables, with all sets of others that may be given."""
    for a, b in itertools.combinations(names, 2):
        others = [name for name in names if name not in (a, b)]
        for size in range(len(others) + 1):
            for given in itertools.combinations(others, size):
                yield a, b, set(given)


def open_path(parents, confounded, a, b, given) -> bool:
    """Goes along every path without repetition; a collider is open where it, or a descendant, is given."""
    marks = {}  # (x, y) -> all edges between, as pairs: head at x, head at y
    for name, causes in parents.items():
        for cause in causes:
            marks.setdefault((cause, name), []).append((False, True))
            marks.setdefault((name, cause), []).append((True, False))
    for x, y in confounded:
        marks.setdefault((x, y), []).append((True, True))
        marks.setdefault((y, x), []).append((True, True))
    graph = networkx.DiGraph([(cause, name) for name, causes in parents.items() for cause in causes])
    graph.add_nodes_from(parents)

    def walk(path, head):
        if path[-1] == b:
            return True
        for following in parents:
            for here, there in marks.get((path[-1], following), []):
                if following in path:
                    continue
                if len(path) > 1:
                    reached = networkx.descendants(graph, path[-1]) | {path[-1]}
                    if not (reached & given if head and here else path[-1] not in given):
                        continue
                if walk([*path, following], there):
                    return True
        return False

    return walk([a], False)


@pytest.mark.parametrize("seed", range(25))
def test_separation_is_that_of_networkx_with_latent_causes(seed):
    names = "abcdef"
    parents, confounded = drawn(names, seed)
    graph = networkx.DiGraph([(cause, name) for name, causes in parents.items() for cause in causes])
    graph.add_nodes_from(names)
    for x, y in confounded:
        graph.add_edges_from([(f"{x}{y}", x), (f"{x}{y}", y)])
    for a, b, given in triples(names):
        truth = networkx.is_d_separator(graph, {a}, {b}, given)
        assert m_separated(parents, confounded, a, b, given) == truth, (parents, confounded, a, b, given)


@pytest.mark.parametrize("seed", range(25))
def test_separation_is_that_no_path_is_open(seed):
    names = "abcde"
    parents, confounded = drawn(names, 100 + seed)
    for a, b, given in triples(names):
        blocked = not open_path(parents, confounded, a, b, given)
        assert m_separated(parents, confounded, a, b, given) == blocked, (parents, confounded, a, b, given)


def test_sets_are_separated_where_all_pairs_are():
    # a -> c <- b, c -> d, b <-> d
    parents, confounded = {"a": [], "b": [], "c": ["a", "b"], "d": ["c"]}, [("b", "d")]
    assert m_separated(parents, confounded, ["a"], ["b"])
    assert not m_separated(parents, confounded, ["a"], ["b", "d"])
    assert not m_separated(parents, confounded, "a", "d", "c")  # c is a collider between a and b <-> d
    assert m_separated(parents, confounded, "a", "d", "bc")
