"""A graph while it is read: variables in the order in which they come, and the causes of each."""

__all__ = ["Parents", "Sketch", "refusal"]

from dataclasses import dataclass, field

from deepbc.notation.names import quote

Parents = dict[str, list[str]]


@dataclass(slots=True)
class Sketch:
    """Creates an empty sketch.

    Args:
        merge: Whether an edge that comes twice is one edge.
    """

    merge: bool = False
    parents: Parents = field(default_factory=dict)
    known: set[tuple[str, str]] = field(default_factory=set)

    def add(self, name: str) -> None:
        """Adds a variable, unless it is there."""
        self.parents.setdefault(name, [])

    def connect(self, cause: str, effect: str) -> None:
        """Adds an edge, and its ends."""
        self.add(cause)
        self.add(effect)
        if not self.merge or (cause, effect) not in self.known:
            self.parents[effect].append(cause)
        self.known.add((cause, effect))


def refusal(left: str, sign: str, right: str) -> str:
    """Says why an edge that is no arrow has no place in a causal graph, and what to do."""
    # In quotes wherever one of the languages wants them.
    a, b = (quote(name, always=not name.isidentifier()) for name in (left, right))
    edge = f"the edge {a} {sign} {b}"
    if sign == "<->":
        return (
            f"{edge} stands for a common cause that is not measured, and the model has no place for one. Leave the "
            f"edge out, or add the cause as a variable of its own: u -> {a}; u -> {b}."
        )
    if sign == "--":
        return f"{edge} has no direction. Write {a} -> {b} or {b} -> {a}, or leave it out."

    if sign == "<-":
        return f"{edge} is drawn backwards. Write {b} -> {a} if {b} is the cause, or {a} -> {b} drawn forwards."

    return f"{edge} leaves open what is cause and what is effect. Write {a} -> {b} or {b} -> {a}, or leave it out."
