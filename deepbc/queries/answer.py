"""What the questions share: reading the antecedent, and putting together the answer with its evidence."""

__all__ = ["answer", "read_antecedent"]

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepbc._checks import check_finite, check_type, pick
from deepbc.data import read
from deepbc.distances import Distance
from deepbc.errors import DataError
from deepbc.results import CONVERGED, Counterfactual, infeasible
from deepbc.scm import SCM
from deepbc.variables import common_batch, flatten

Rows = tuple[Mapping[str, Tensor], Mapping[str, Tensor]]

LARGEST_ERROR = 1e-6
UNREACHED = infeasible(
    "No noise leads to these values: the antecedent lies outside the support or bounds of its variable, the variable "
    "is a deterministic prediction, or a law downstream yields no number. The values are those of the force.",
    "Ask for a value that the laws can give.",
)


def read_antecedent(scm: SCM, antecedent: Any) -> dict[str, Tensor]:
    """Reads and checks an antecedent, as rows of shape `(*batch, value)`.

    A value outside the bounds of its variable is no error here: the answer says that it cannot be reached.
    """
    columns = read(antecedent, "antecedent")
    if not columns:
        raise DataError("antecedent: expected at least one variable, got none. Write for example {'x': 3.0}.")

    rows: dict[str, Tensor] = {}
    for name, column in columns.items():
        where = f"antecedent {name!r}"
        variable = scm.variables[pick(name, tuple(scm.graph), "antecedent")]
        rows[name] = flatten(column, variable.shape, where)
        check_finite(rows[name], where)

    return {name: each.to(device=scm.device, dtype=scm.dtype) for name, each in rows.items()}


def answer(
    scm: SCM, factual: Rows, antecedent: Mapping[str, Tensor], counterfactual: Rows, distance: Distance
) -> Counterfactual:
    """Puts together the answer: what moved, what it cost, and whether the antecedent holds.

    Args:
        scm: The model.
        factual: Factual values and noise, as rows.
        antecedent: What was asked for, with shape `(*batch, value)`.
        counterfactual: Counterfactual values and noise, as rows.
        distance: How far two noises are apart.
    """
    check_type(distance, Distance, "distance")
    distance.check(tuple(scm.graph))
    batch = common_batch(counterfactual[0])
    world = scm.world(*counterfactual)
    before = scm.world(*({name: rows.expand(*batch, -1) for name, rows in part.items()} for part in factual))
    moved = {name: distance.moved(name, counterfactual[1][name], factual[1][name]) for name in scm.graph}
    error = _error(scm, antecedent, counterfactual[1]).double().cpu()
    possible = _possible(scm, *counterfactual).cpu()

    return Counterfactual(
        values=world.values,
        noise=world.noise,
        factual=before,
        antecedent={name: scm.show(name, rows.expand(*batch, -1)) for name, rows in antecedent.items()},
        moved={name: each.double().cpu() for name, each in moved.items()},
        distance=torch.stack(list(moved.values())).sum(0).double().cpu(),
        error=error,
        status=_status(error, possible, scm.dtype),
        batch=batch,
    )


def _error(scm: SCM, antecedent: Mapping[str, Tensor], u: Mapping[str, Tensor]) -> Tensor:
    """Predicts afresh from the noise and measures the largest miss, in standard deviations of the variable."""
    fresh, _ = scm.complete_rows({}, u)
    misses = [
        ((fresh[name] - wanted) / _spread(scm, name).to(wanted)).abs().amax(-1) for name, wanted in antecedent.items()
    ]

    return torch.stack(torch.broadcast_tensors(*misses)).amax(0)


def _spread(scm: SCM, name: str) -> Tensor:
    return torch.tensor(scm.variables[name].sd or (1.0,), dtype=torch.float64)


def _possible(scm: SCM, x: Mapping[str, Tensor], u: Mapping[str, Tensor]) -> Tensor:
    """Whether a row is a world: every value and noise a number, every value inside its bounds."""
    rows = [u[name].isfinite().all(-1) for name in scm.graph]
    for name, variable in scm.variables.items():
        rows.append((x[name].isfinite() & (x[name] >= variable.lower) & (x[name] <= variable.upper)).all(-1))

    return torch.stack(rows).all(0)


def _status(error: Tensor, possible: Tensor, dtype: torch.dtype) -> Any:
    """Gives each row its status; a single row a single one. A NaN is a miss."""
    largest = max(LARGEST_ERROR, 1e3 * torch.finfo(dtype).eps)
    reached = ((error <= largest) & possible).numpy()
    status = np.where(reached, np.array(CONVERGED, dtype=object), np.array(UNREACHED, dtype=object))

    return status[()]
