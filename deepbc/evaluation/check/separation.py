r"""Which independences a graph claims where some variables have common causes that it does not show.

A bidirected edge :math:`a \leftrightarrow b` stands for an unobserved common cause of the two. m-separation in such a
graph is d-separation where each bidirected edge is replaced by a latent variable, :math:`a \leftarrow l \rightarrow b`.
Here the noise of each variable is a vertex of its own, and the latent variables are causes of noises.

References:
    Probabilistic graphical models (Koller and Friedman, 2009), algorithm 3.1: reachable vertices.
    Markov properties for acyclic directed mixed graphs (Richardson, 2003), section 2.
"""

__all__ = ["Vertex", "d_separated", "m_separated", "noise_vertex", "with_noises"]

from collections.abc import Collection, Hashable, Iterable, Mapping

Vertex = Hashable
Parents = Mapping[Vertex, Collection[Vertex]]
Confounded = Collection[tuple[str, str]]


def noise_vertex(name: str) -> Vertex:
    """The vertex of the noise of a variable."""
    return ("noise", name)


def with_noises(parents: Mapping[str, Collection[str]], confounded: Confounded) -> dict[Vertex, tuple[Vertex, ...]]:
    """Adds a vertex for the noise of each variable, and a cause of both noises for each pair with a common cause."""
    explicit: dict[Vertex, tuple[Vertex, ...]] = {}
    for name, listed in parents.items():
        causes = {("latent", frozenset(pair)): None for pair in confounded if name in pair}
        explicit |= dict.fromkeys(causes, ())
        explicit[noise_vertex(name)] = tuple(causes)
        explicit[name] = (*listed, noise_vertex(name))

    return explicit


def m_separated(
    parents: Mapping[str, Collection[str]],
    confounded: Confounded,
    a: Iterable[str],
    b: Iterable[str],
    given: Iterable[str] = (),
) -> bool:
    """Whether all paths between two sets are blocked, in a graph with directed and bidirected edges.

    Args:
        parents: The parents of every variable.
        confounded: The pairs with a bidirected edge.
        a: The one set.
        b: The other.
        given: What is conditioned on.

    Example:
        >>> parents = {"a": [], "b": ["a"], "c": ["b"]}
        >>> m_separated(parents, [], "a", "c", "b"), m_separated(parents, [("b", "c")], "a", "c", "b")
        (True, False)
    """
    return d_separated(with_noises(parents, confounded), a, b, given)


def d_separated(parents: Parents, a: Iterable[Vertex], b: Iterable[Vertex], given: Iterable[Vertex] = ()) -> bool:
    """Whether all paths between two sets are blocked, in a directed acyclic graph."""
    given = set(given)

    return not (set(b) - given) & _reachable(parents, set(a) - given, given)


def _reachable(parents: Parents, sources: set[Vertex], given: set[Vertex]) -> set[Vertex]:
    """The vertices at the ends of paths that are not blocked, the sources among them."""
    children: dict[Vertex, list[Vertex]] = {name: [] for name in parents}
    for name, listed in parents.items():
        for parent in listed:
            children[parent].append(name)

    opened = given | _ancestors(parents, given)
    frontier = [(source, True) for source in sources]
    visited, reached = set[tuple[Vertex, bool]](), set[Vertex]()
    while frontier:
        vertex, upwards = step = frontier.pop()
        if step in visited:
            continue
        visited.add(step)
        blocked = vertex in given
        if not blocked:
            reached.add(vertex)
        # A path that came from a child goes on both ways; one that came from a parent goes down, and up at a collider
        # that is given or has a descendant that is.
        if upwards and not blocked:
            frontier += [(parent, True) for parent in parents[vertex]]
        if not blocked:
            frontier += [(child, False) for child in children[vertex]]
        if not upwards and vertex in opened:
            frontier += [(parent, True) for parent in parents[vertex]]

    return reached


def _ancestors(parents: Parents, vertices: Iterable[Vertex]) -> set[Vertex]:
    found, frontier = set[Vertex](), [parent for vertex in vertices for parent in parents[vertex]]
    while frontier:
        vertex = frontier.pop()
        if vertex not in found:
            found.add(vertex)
            frontier += parents[vertex]

    return found
