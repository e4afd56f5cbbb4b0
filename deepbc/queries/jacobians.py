r"""Implied noises with their derivatives by the noises that are sought, by the chain rule along the graph.

With :math:`D_i = dx_i / dv` the derivatives of a variable by all noises :math:`v` that are sought,

.. math:: D_i = \frac{\partial f_i}{\partial u_i} \frac{du_i}{dv} + \sum_{j \in pa(i)} \frac{\partial f_i}{\partial x_j}
          D_j, \qquad \frac{dg_i}{dv} = \sum_{j \in pa(i)} \frac{\partial f_i^{-1}}{\partial x_j} D_j,

for a variable whose noise is given and for one whose value is. Where all variables are numbers, each law need then
derive nothing but itself.
"""

__all__ = ["chainable", "derive"]

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from deepbc.data.variables import concat_last
from deepbc.scm.model import SCM

Rows = Mapping[str, Tensor]


def chainable(scm: SCM, names: Collection[str]) -> bool:
    """Whether each of these variables is one number that is no class and not whole, of one noise at most."""
    return all(
        not scm.variables[name].discrete
        and scm.mechanisms[name].value_dim == 1
        and scm.mechanisms[name].noise_dim <= 1
        and not scm.mechanisms[name].fixed_noise_dim
        for name in names
    )


def derive(
    scm: SCM, names: Sequence[str], given: tuple[Rows, Rows, Rows], free: Sequence[str]
) -> tuple[Tensor, Tensor]:
    """Computes implied noises and their derivatives.

    Args:
        scm: The model.
        names: The variables to walk, with all causes of each, in topological order.
        given: Values by variable; what `Mechanism.reduce` made of those whose noise is implied; noise by variable. All
            have shape `(rows, dim)`.
        free: The variables whose noise is sought.

    Returns:
        The implied noises, with shape `(rows, implied)`, and their derivatives, `(rows, implied, free)`.
    """
    values, reduced, noise = given
    x = dict(values)
    slopes: dict[str, Tensor] = {}
    implied, rows = [], []
    first = next(iter(noise.values()))
    empty, still = first[:, :0], first.new_zeros(len(first), len(free))
    unit = dict(zip(free, torch.eye(len(free), dtype=first.dtype, device=first.device), strict=True))

    for name in names:
        if name in values and name not in reduced:
            continue
        mechanism, parents = scm.mechanisms[name], scm.graph.parents(name)
        joined = concat_last([x[each] for each in parents], empty)
        if name in reduced:
            u, by_parents = mechanism.abduct_and_jacobian(reduced[name], joined)
            implied.append(u)
            rows.append(sum(_pulls(by_parents, parents, x, slopes), still))
            continue
        x[name], by_noise, by_parents = mechanism.predict_and_jacobian(noise[name], joined)
        slope = sum(_pulls(by_parents, parents, x, slopes), still)
        # However steep it is by its own noise, by the others it is not.
        slopes[name] = slope + torch.where(unit[name] > 0, by_noise, 0.0) if name in unit else slope

    return concat_last(implied, empty), torch.stack(rows, dim=-2)


def _pulls(by_parents: Tensor, parents: Sequence[str], x: Rows, slopes: Rows) -> list[Tensor]:
    """The derivatives by what is sought, `(rows, free)`, that come through each parent that does not stand still."""
    parts = by_parents.split([x[name].shape[-1] for name in parents], dim=-1) if parents else ()
    pairs = [(slopes[name], part) for name, part in zip(parents, parts, strict=True) if name in slopes]

    # Where one stands still it pulls nothing, however steep the law is there.
    return [torch.where(slope == 0, 0.0, part * slope) for slope, part in pairs]
