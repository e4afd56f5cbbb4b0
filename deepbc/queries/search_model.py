"""The model as a search passes through it: in the precision of its noise, with smooth laws for discrete variables."""

__all__ = ["excess", "in_noise_precision", "relaxed", "substitute"]

import copy
from collections.abc import Collection, Mapping

from torch import Tensor

from deepbc.mechanisms import Atomic, Discrete, Mechanism
from deepbc.scm import SCM
from deepbc.scm.completion import join_parents


def in_noise_precision(scm: SCM, names: Collection[str]) -> SCM:
    """The model whose laws of these variables all have the precision of the noise."""
    images = [name for name in scm.schema.images if name in names]
    made = {name: scm.mechanisms[name].copy().to(device=scm.device, dtype=scm.dtype) for name in images}

    return substitute(scm, made) if images else scm


def relaxed(scm: SCM, names: Collection[str], *, straight_through: bool = False) -> SCM:
    """The model with continuous relaxations of the laws of these discrete variables.

    Args:
        scm: The model.
        names: The variables.
        straight_through: Whether their values stay discrete, and only derivatives are those of the relaxation.
    """
    laws = {name: law for name, law in scm.mechanisms.items() if isinstance(law, Discrete) and name in names}

    return substitute(scm, {name: law.softened(hard=straight_through) for name, law in laws.items()})


def excess(scm: SCM, name: str, x: Mapping[str, Tensor], u: Tensor) -> Tensor:
    """How far noise is outside the region that leads to a value, side by side.

    Args:
        scm: The model.
        name: The variable, discrete or censored.
        x: Values of it and of its parents, with shape `(*batch, value)`.
        u: Its noise, with shape `(*batch, noise)`.
    """
    law = scm.mechanisms[name]
    assert isinstance(law, Atomic)  # noqa: S101 # its value is a region

    return law.region(x[name], x[name], join_parents(scm, name, x)).excess(u)


def substitute(scm: SCM, laws: Mapping[str, Mechanism]) -> SCM:
    """The model with other laws of some variables."""
    other = copy.copy(scm)
    other.mechanisms = {**scm.mechanisms, **laws}

    return other
