"""Which rows of a fit are held out: any, or whole groups of rows that hang together."""

__all__ = ["read_groups", "split_rows"]

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from deepbc._validation import check_known
from deepbc.data.columns import align, index_of, left_out, select_columns
from deepbc.errors import DataError, SettingError


def read_groups(groups: Any, table: Any, names: Sequence[str], rows: int) -> Tensor | None:
    """Reads the group of each row, with shape `(rows,)`; none where rows are on their own.

    Args:
        groups: The name of a column of the table, or a label a row.
        table: The table.
        names: The variables, which are columns too.
        rows: The number of rows.
    """
    if groups is None:
        return None
    column = groups
    if isinstance(groups, str):
        known = (*names, *left_out(table, names, "data"))
        check_known(groups, known, "groups")
        column = select_columns(table, (groups, *names), "data")[groups]
    labels = np.asarray(align(column, index_of(table), "groups"))
    if labels.shape != (rows,):
        raise DataError(f"groups: expected a label for each of {rows} rows, got shape {labels.shape}.")
    if any(each is None or each != each for each in labels.tolist()):
        raise DataError(
            "groups: expected a label for each row, and some are missing. Give these rows one of their own."
        )
    found, codes = np.unique(labels.astype(str), return_inverse=True)
    if len(found) < 2:
        raise SettingError(f"groups: expected at least two groups, got {found[0]!r} alone. Leave groups= out.")

    return torch.as_tensor(codes)


def split_rows(rows: int, share: float, groups: Tensor | None, stream: Generator) -> tuple[Tensor, Tensor]:
    """Splits rows at random into those to learn from and those held out, which are at least two or one group.

    Args:
        rows: The number of rows.
        share: The share of the rows to hold out.
        groups: The group of each row, if they hang together.
        stream: The source of the order.
    """
    if groups is None:
        held, kept = torch.randperm(rows, generator=stream).tensor_split([max(2, round(share * rows))])
        return kept, held

    sizes = groups.bincount()
    order = torch.randperm(len(sizes), generator=stream)
    # As many groups as come nearest to that share, all but one at most.
    reached = sizes[order].cumsum(0)
    count = int((reached - math.ceil(share * rows)).abs()[:-1].argmin()) + 1
    taken = torch.isin(groups, order[:count])
    shuffled = torch.randperm(rows, generator=stream)

    return shuffled[~taken[shuffled]], shuffled[taken[shuffled]]
