r"""Implied noises with their Jacobian by the noises that are sought, by the chain rule along the graph.

This is forward-mode differentiation over the variables. With :math:`D_i = dx_i / dv` the derivatives of a variable by
all noises :math:`v` that are sought,

.. math:: D_i = \frac{\partial f_i}{\partial u_i} \frac{du_i}{dv} + \sum_{j \in pa(i)} \frac{\partial f_i}{\partial x_j}
          D_j, \qquad \frac{dg_i}{dv} = \sum_{j \in pa(i)} \frac{\partial f_i^{-1}}{\partial x_j} D_j,

for a variable whose noise is given and for one whose value is. Where all variables are numbers, each law need then
differentiate nothing but itself.

References:
    Evaluating Derivatives (Griewank and Walther, 2008), chapter 3: the forward mode.
"""

__all__ = ["has_chain_rule", "implied_and_jacobian"]

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from deepbc.mechanisms import Atomic, Mechanism
from deepbc.numerics.batched import concat_last
from deepbc.queries.roles import Roles
from deepbc.queries.worlds import Columns
from deepbc.scm import SCM
from deepbc.scm.completion import Known, Nearest, Noise, Reduced, Source


def has_chain_rule(scm: SCM, roles: Roles) -> bool:
    """Whether each variable that moves is one number of one noise at most, or one of atoms whose value is met."""
    still = {*roles.fixed, *roles.settled}

    return all(
        _has_derivatives(scm.mechanisms[name], met=name in roles.met) for name in roles.names if name not in still
    )


def _has_derivatives(law: Mechanism, *, met: bool) -> bool:
    if isinstance(law, Atomic) and (met or not (law.soft or law.guided)):
        return met

    return law.value_dim == 1 and law.noise_dim <= 1 and not law.fixed_noise_dim


def implied_and_jacobian(
    scm: SCM, roles: Roles, given: Mapping[str, Source], empty: Tensor, constant: Collection[str] = ()
) -> tuple[Tensor, Tensor]:
    """Computes implied noises and their derivatives.

    Args:
        scm: The model.
        roles: The variables that take part, and those whose noise is sought.
        given: What is given of each: value and noise (the implied one, where it is settled), a reduced value, or noise;
            each tensor `(rows, dim)`.
        empty: A tensor of shape `(rows, 0)`.
        constant: Those of the settled variables that are left out.

    Returns:
        The implied noises, with shape `(rows, implied)`, and their derivatives, `(rows, implied, free)`.
    """
    x: Columns = {}
    jacobians: Columns = {}
    implied, rows = [], []
    zero = empty.new_zeros(len(empty), len(roles.free))
    unit = dict(zip(roles.free, torch.eye(len(roles.free), dtype=empty.dtype, device=empty.device), strict=True))

    for name in roles.names:
        law, parents, source = scm.mechanisms[name], scm.graph.parents(name), given[name]
        if isinstance(source, Known):
            x[name] = source.x
            if name in roles.settled and name not in constant:
                implied.append(source.u)
                rows.append(zero.unsqueeze(-2).expand(-1, source.u.shape[-1], -1))
            continue
        joined = concat_last([x[each] for each in parents], empty)
        moving = [k for k, each in enumerate(_components(parents, x)) if each in jacobians]
        through = [jacobians[each].unsqueeze(-2) for each in parents if each in jacobians]
        if isinstance(source, Reduced):
            x[name] = source.x
            u, by_moving = law.abduct_and_jacobian(source.z, joined, moving)
            implied.append(u)
            rows.append(sum(_products(by_moving.unsqueeze(-2), through), zero.unsqueeze(-2)))
            continue
        if isinstance(source, Nearest):
            assert isinstance(law, Atomic)  # noqa: S101 # of no other is the nearest noise asked
            x[name] = source.x
            u, by_moving = law.nearest_and_jacobian(source.x, joined, source.rest, moving)
            implied.append(u)
            none = zero.unsqueeze(-2).expand(-1, u.shape[-1], -1)
            rows.append(sum(_products(by_moving, through), none))
            continue
        assert isinstance(source, Noise)  # noqa: S101 # `has_chain_rule` leaves no other
        x[name], by_noise, by_moving = law.predict_and_jacobian(source.u, joined, moving)
        jacobian = sum(_products(by_moving.unsqueeze(-2), through), zero.unsqueeze(-2)).squeeze(-2)
        # However steep it is by its own noise, by the others it is not.
        jacobians[name] = jacobian + torch.where(unit[name] > 0, by_noise, 0.0) if name in unit else jacobian

    return concat_last(implied, empty), torch.cat([zero.unsqueeze(-2)[:, :0], *rows], dim=-2)


def _components(parents: Sequence[str], x: Columns) -> list[str]:
    """The parent of each component that a law sees."""
    return [name for name in parents for _ in range(x[name].shape[-1])]


def _products(by_moving: Tensor, through: Sequence[Tensor]) -> list[Tensor]:
    """The derivatives by what is sought, `(rows, outputs, free)`, that come through each parent that moves."""
    pairs = zip(by_moving.split(1, dim=-1), through, strict=True) if through else ()

    # A derivative of zero stays zero, however steep the law is there.
    return [torch.where(jacobian == 0, 0.0, part * jacobian) for part, jacobian in pairs]
