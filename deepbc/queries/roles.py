"""Which part each variable has in a question: asked, upstream, movable, fixed, discrete. Modes and samples share it."""

__all__ = ["Roles"]

from collections.abc import Collection
from dataclasses import dataclass

from deepbc.scm import SCM


@dataclass(frozen=True, slots=True)
class Roles:
    """The parts of the variables in a question, each tuple in topological order.

    Args:
        names: The antecedent and its ancestors; no other variable takes part in a solve.
        scope: The variables whose noise may move.
        met: The variables of the antecedent whose value is given and whose noise is implied.
        movable: The variables of the whole graph that have noise to move, in scope.
        fixed: Those of `names` that cannot change, because neither they nor any cause of theirs does.
        discrete: The discrete variables of the whole graph.
        atomic: Those, and the censored variables: some value of theirs does not tell its noise.
        kept: Those of `met` that are atomic and out of scope: their noise has to lead to the value as it is.
        pinned: The others of `met`.
        settled: Those of `pinned` none of whose parents can move, so that the noise they imply is known.
        free: Those of `names` whose noise is sought.
    """

    names: tuple[str, ...]
    scope: frozenset[str]
    met: tuple[str, ...]
    movable: tuple[str, ...]
    fixed: tuple[str, ...]
    discrete: tuple[str, ...]
    atomic: tuple[str, ...]
    kept: tuple[str, ...]
    pinned: tuple[str, ...]
    settled: tuple[str, ...]
    free: tuple[str, ...]

    @classmethod
    def of(cls, scm: SCM, asked: Collection[str], scope: Collection[str], met: Collection[str] = ()) -> "Roles":
        """Derives the parts of all variables.

        Args:
            scm: The model.
            asked: The variables of the antecedent.
            scope: The variables whose noise may move.
            met: Those of the antecedent that their own noise is to meet.
        """
        order = scm.graph.order
        upstream = {*asked, *scm.graph.ancestors(*asked)}
        names = tuple(name for name in order if name in upstream)
        movable = tuple(name for name in order if name in scope and scm.mechanisms[name].free_noise_dim)
        fixed: list[str] = []
        for name in names:
            if name not in movable and name not in met and all(each in fixed for each in scm.graph.parents(name)):
                fixed.append(name)

        discrete = tuple(name for name in order if scm.variables[name].discrete)
        atomic = tuple(name for name in order if scm.mechanisms[name].has_atoms)
        met = tuple(name for name in names if name in met)
        kept = tuple(name for name in met if name in atomic and name not in scope)

        pinned = tuple(name for name in met if name not in kept)
        still = {*fixed, *met}

        return cls(
            names,
            frozenset(scope),
            met,
            movable,
            tuple(fixed),
            discrete,
            atomic,
            kept,
            pinned,
            settled=tuple(name for name in pinned if still.issuperset(scm.graph.parents(name))),
            free=tuple(name for name in names if name in movable and name not in met),
        )
