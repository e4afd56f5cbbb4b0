"""Fitted estimators with the methods of scikit-learn, and boosters of XGBoost and LightGBM, asked about rows."""

__all__ = ["ask_estimator"]

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from deepbc.data.categories import Label
from deepbc.data.variables import Family, Variable
from deepbc.errors import DataError


def ask_estimator(model: Any, family: Family, rows: Tensor, label: Label | None = None) -> "np.ndarray[Any, Any]":
    """Predicts parents `(rows, dim)`, with shape `(rows, value)`.

    Args:
        model: The estimator.
        family: The variable and its parents.
        rows: The parents.
        label: The label whose probability is asked, or of a classifier without probabilities whether it is predicted.
            None asks for all of them but the first of two, or for the values of a model that is no classifier.
    """
    parts = family.split(rows)
    names = _names(model)
    table: Any = _array(family, parts) if names is None else _frame(family, parts, names)
    if hasattr(model, "predict_proba"):
        chances: np.ndarray[Any, Any] = np.asarray(model.predict_proba(table), dtype=float)
        if label is not None:
            return chances[:, [_place(model, label, family)]]
        return chances[:, 1:] if chances.shape[1] == 2 else chances

    # A booster of XGBoost predicts frames and arrays by another name.
    predicted = np.asarray(getattr(model, "inplace_predict", model.predict)(table))
    if label is not None:
        _place(model, label, family)
        return np.asarray(predicted == label, dtype=float)[:, None]
    if predicted.dtype.kind not in "fiub":
        shown = predicted.tolist()[0]
        raise DataError(
            f"Variable {family.child.name!r}, its Predictor: expected numbers, and the estimator predicts labels such "
            f"as {shown!r}. Say which is asked for: Predictor(model, label={shown!r})."
        )

    return predicted.astype(float).reshape(len(rows), -1)


def _names(model: Any) -> list[str] | None:
    """The columns that an estimator was fitted to; None where it was fitted to an array."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = getattr(model, "feature_names", None)
    if names is None and callable(getattr(model, "feature_name", None)):
        names = model.feature_name()
    # LightGBM gives the columns of arrays names of its own.
    if names is None or [str(name) for name in names] == [f"Column_{k}" for k in range(len(names))]:
        return None

    return [str(name) for name in names]


def _place(model: Any, label: Label, family: Family) -> int:
    """The place of a label among those of a classifier."""
    # As Python's own values, which read well in a message.
    labels: list[Label] = np.asarray(getattr(model, "classes_", ()), dtype=object).tolist()
    if label not in labels:
        raise DataError(
            f"Variable {family.child.name!r}, its Predictor: expected a label of the estimator, one of "
            f"{', '.join(map(repr, labels)) or 'none, for it is no classifier'}; got {label!r}."
        )

    return labels.index(label)


def _frame(family: Family, parts: Mapping[str, Tensor], names: list[str]) -> Any:
    import pandas

    known = {each.name: each for each in family.parents}
    missing = [name for name in names if name not in known]
    if missing:
        raise DataError(
            f"Variable {family.child.name!r}, its Predictor: the estimator was fitted to the column "
            f"{missing[0]!r}, which is no parent. Its parents are {', '.join(map(repr, known))}: add an edge."
        )

    return pandas.DataFrame({name: _column(known[name], parts[name]) for name in names})


def _column(variable: Variable, rows: Tensor) -> Any:
    """A column as the data has it: labels, whole numbers or numbers; text as a category, which boosters ask for."""
    levels = variable.levels
    if levels is None:
        column: np.ndarray[Any, Any] = rows.squeeze(-1).numpy()
        return column.astype(np.int64) if variable.whole else column

    codes = levels.of_rows(rows)
    if not levels.words:
        labels = np.asarray(levels.labels(codes))
        return labels.astype(bool) if levels.truths else labels

    import pandas

    items = pandas.Index([str(each) for each in levels.items])
    whole: np.ndarray[Any, np.dtype[np.int64]] = codes.long().numpy()

    return pandas.Categorical.from_codes(whole, items, ordered=levels.ordered)


def _array(family: Family, parts: Mapping[str, Tensor]) -> "np.ndarray[Any, Any]":
    """Numbers as an array has them, in the order of the parents: codes of labels, one column each."""
    return np.concatenate([_numbers(each, parts[each.name]) for each in family.parents], axis=1)


def _numbers(variable: Variable, rows: Tensor) -> "np.ndarray[Any, Any]":
    made: np.ndarray[Any, Any] = variable.levels.of_rows(rows).numpy()[:, None] if variable.levels else rows.numpy()

    return made
