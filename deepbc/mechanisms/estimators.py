"""Fitted estimators with the methods of scikit-learn, asked about rows as laws see them."""

__all__ = ["ask_estimator"]

from typing import Any

import numpy as np
from torch import Tensor

from deepbc.data.variables import Family, Variable
from deepbc.errors import DataError


def ask_estimator(model: Any, family: Family, rows: Tensor) -> "np.ndarray[Any, Any]":
    """Predicts parents `(rows, dim)`: probabilities of a classifier, values of any other; `(rows, value)`."""
    parts = family.split(rows)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        table: Any = np.concatenate([_numbers(each, parts[each.name]) for each in family.parents], axis=1)
    else:
        import pandas

        known = {each.name: each for each in family.parents}
        missing = [str(name) for name in names if name not in known]
        if missing:
            raise DataError(
                f"Variable {family.child.name!r}, its Predictor: the estimator was fitted to the column "
                f"{missing[0]!r}, which is no parent. Its parents are {', '.join(map(repr, known))}: add an edge."
            )
        table = pandas.DataFrame({name: _column(known[name], parts[name]) for name in map(str, names)})
    if not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(table), dtype=float).reshape(len(rows), -1)

    chances = np.asarray(model.predict_proba(table), dtype=float)

    return chances[:, 1:] if chances.shape[1] == 2 else chances


def _column(variable: Variable, rows: Tensor) -> "np.ndarray[Any, Any]":
    """A column as the data has it: labels, whole numbers or numbers."""
    if variable.levels:
        labels = variable.levels.labels(variable.levels.of_rows(rows))
        return np.asarray(labels, dtype=bool) if variable.levels.truths else np.asarray(labels)

    column: np.ndarray[Any, Any] = rows.squeeze(-1).numpy()

    return column.astype(np.int64) if variable.whole else column


def _numbers(variable: Variable, rows: Tensor) -> "np.ndarray[Any, Any]":
    """Numbers as an array has them: codes of labels, one column each."""
    made: np.ndarray[Any, Any] = variable.levels.of_rows(rows).numpy()[:, None] if variable.levels else rows.numpy()

    return made
