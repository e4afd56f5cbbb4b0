"""Which sentences an answer has."""

__all__ = ["describe"]

from typing import TYPE_CHECKING

import numpy as np

from deepbc.errors import DataError
from deepbc.queries.description.asked import conditions_of
from deepbc.queries.description.columns import columns_of
from deepbc.queries.description.row import tell_row
from deepbc.queries.description.rows import tell_rows
from deepbc.queries.description.samples import tell_samples
from deepbc.queries.description.told import Told

if TYPE_CHECKING:
    from deepbc.queries.results import Counterfactual


def describe(cf: "Counterfactual", row: int | None = None) -> str:
    """Says an answer in plain sentences.

    Args:
        cf: The answer.
        row: The row to tell of, counted from 0; None tells of all.
    """
    statuses = np.asarray(cf.status, dtype=object).reshape(-1).tolist()
    if row is not None and not 0 <= row < len(statuses):
        raise DataError(
            f"describe: expected a row from 0 to {len(statuses) - 1}, got {row}. Leave it out to tell of all."
        )
    if not statuses:
        return "No row was asked about."
    columns = columns_of(cf)
    told = Told(cf, columns, conditions_of(cf, columns), statuses)
    if row is None and len(statuses) > 1:
        return tell_rows(told)

    return (tell_samples if cf.diagnostics else tell_row)(told, row or 0)
