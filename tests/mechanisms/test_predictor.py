"""Predictors of other libraries: how their derivatives come about, and what they are never asked."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit

import deepbc as bc


class Score:
    """A model of numpy arrays, as scikit-learn has them, that accepts rows of its support alone."""

    def predict(self, rows):
        assert isinstance(rows, np.ndarray)
        assert np.isfinite(rows).all()
        assert np.isin(rows[:, 1], [0.0, 1.0]).all()
        assert (rows[:, 2] == rows[:, 2].round()).all()
        assert (rows[:, 2] >= 0).all()
        return 1.5 * rows[:, 0] + 2 * rows[:, 1] + 0.3 * rows[:, 2] + 0.2 * rows[:, 0] ** 2


@pytest.fixture(scope="module")
def model():
    """a -> c; a -> n; a, c, n -> score, the last a model of numpy."""
    draw, score = np.random.default_rng(0), Score()
    a = draw.normal(size=500)
    c = a + draw.normal(size=500) > 0
    n = np.maximum(0, np.round(2 + a + draw.normal(size=500))).astype(int)

    def predict(parents):
        columns = [np.asarray(parents[name])[:, 0] for name in ("a", "c", "n")]
        return score.predict(np.stack(columns, axis=1))[:, None]

    laws = {"a": bc.Linear(), "n": bc.Integer(bc.Linear()), "score": bc.Predictor(predict)}
    scm = bc.SCM(bc.CausalGraph.parse("a -> c; a -> n; a, c, n -> score"), laws, bounds={"n": (0, None)})
    frame = pd.DataFrame({"a": a, "c": c, "n": n})
    scm.fit(frame, progress=False)
    return scm, frame


@pytest.mark.parametrize("scope", [None, ["a"], ["a", "n"], ["c"]])
@pytest.mark.parametrize("solver", [bc.Exact(), bc.Sparse(keep=1), bc.Sparse(keep=1, search="exhaustive")])
def test_models_of_numpy_are_asked_about_their_support_alone(model, scope, solver):
    scm, frame = model
    rows = frame.iloc[:6]
    cf = bc.backtrack(scm, rows, {"score": bc.at_least(4.0)}, scope=scope, solver=solver)
    held = torch.from_numpy(np.asarray(cf.status) == "converged")
    predicted = torch.as_tensor(np.asarray(cf.values["score"]))
    assert (predicted[held] >= 4.0 - 1e-6).all()
    if scope is None:
        assert held.all()


def test_differences_are_the_derivatives_of_torch(model):
    scm, frame = model
    torch_score = bc.Predictor(lambda p: 1.5 * p["a"] + 2 * p["c"] + 0.3 * p["n"] + 0.2 * p["a"] ** 2)
    rows = frame.iloc[:20]
    ours = bc.backtrack(scm, rows, {"score": 3.0})
    known = bc.backtrack(scm.replace("score", torch_score), rows, {"score": 3.0})
    assert (ours.status == known.status).all()
    assert torch.allclose(ours.distance, known.distance, atol=1e-5)


def test_rows_without_numbers_come_back_without(model):
    scm, _ = model
    law = scm.mechanisms["score"]
    rows = torch.tensor([[0.0, 1.0, 2.0], [torch.nan, 0.0, 1.0]], dtype=torch.float64)
    predicted = law.predict(rows[:, :0], rows)
    assert predicted[0].item() == pytest.approx(2.6)
    assert predicted[1].isnan().all()
    assert law.predict(rows[1:, :0], rows[1:]).isnan().all()


class Columns:
    """A classifier with the methods of scikit-learn that was fitted to a data frame."""

    feature_names_in_ = np.array(["n", "c", "a"])
    classes_ = np.array(["no", "yes"])

    def predict(self, table):
        return self.classes_[(self.predict_proba(table)[:, 1] > 0.5).astype(int)]

    def predict_proba(self, table):
        assert list(table.columns) == ["n", "c", "a"]
        assert table["c"].dtype == bool
        assert table["n"].dtype == np.int64
        score = 1.5 * table["a"].to_numpy() + 2 * table["c"].to_numpy() + 0.3 * table["n"].to_numpy() - 3.0
        chance = expit(score)
        return np.stack([1 - chance, chance], axis=1)


def test_estimators_explain_themselves_on_a_fitted_model(model):
    scm, frame = model
    extended = scm.part(["a", "c", "n"]).extend("chance", bc.Predictor(Columns()), parents=["a", "c", "n"])
    rows = frame.iloc[:20]
    found = extended.predict(extended.abduct(rows))["chance"]
    assert found.numpy() == pytest.approx(Columns().predict_proba(rows[["n", "c", "a"]])[:, 1])
    cf = bc.backtrack(extended, rows, {"chance": bc.at_least(0.5)})
    assert (cf.status == "converged").all()
    after = pd.DataFrame(
        {"n": cf.values["n"].numpy().astype(int), "c": cf.values["c"].numpy().astype(bool), "a": cf.values["a"]}
    )
    assert (Columns().predict_proba(after)[:, 1] >= 0.5 - 1e-9).all()
    assert "chance" not in scm.graph


def test_estimators_of_arrays_get_the_parents_in_order():
    class Sum:
        def predict(self, rows):
            return rows.sum(1)

    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"a": draw.normal(size=50), "b": draw.normal(size=50)})
    scm = bc.SCM(bc.CausalGraph.parse("a; b"), {"a": bc.Linear(), "b": bc.Linear()})
    scm.fit(frame, progress=False)
    extended = scm.extend("sum", bc.Predictor(Sum()), parents=["a", "b"])
    cf = bc.backtrack(extended, frame.iloc[0], {"sum": 3.0})
    assert (cf.values["a"] + cf.values["b"]).item() == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("name", "law", "message"),
    [("a", bc.Predictor(lambda p: p["a"]), "which is there"), ("y", bc.Linear(), "a law that is given")],
)
def test_bad_extensions_are_named(model, name, law, message):
    with pytest.raises(bc.SettingError, match=message):
        model[0].extend(name, law, parents=["a"])


class Booster:
    """As XGBoost's own: it predicts a matrix of its own kind, and frames by another method; text is a category."""

    feature_names = ("c", "a")

    def predict(self, matrix):
        raise TypeError("Expecting data to be a DMatrix object")

    def inplace_predict(self, table):
        assert list(table.columns) == ["c", "a"]
        assert isinstance(table["c"].dtype, pd.CategoricalDtype)
        assert list(table["c"].cat.categories) == ["x", "y", "z"]
        return expit(table["a"].to_numpy() + table["c"].cat.codes.to_numpy()).astype(np.float32)


class LightBooster:
    """As LightGBM's own, fitted to a frame: the names come from a method."""

    def feature_name(self):
        return ["c", "a"]

    def predict(self, table):
        return Booster().inplace_predict(table)


class LightArrays:
    """As LightGBM's classifier, fitted to an array: it names the columns itself."""

    feature_names_in_ = np.array(["Column_0", "Column_1"])
    classes_ = np.array([0, 1])

    def predict(self, rows):
        return (self.predict_proba(rows)[:, 1] > 0.5).astype(int)

    def predict_proba(self, rows):
        assert isinstance(rows, np.ndarray)
        chance = expit(rows[:, 0] + rows[:, 1])
        return np.stack([1 - chance, chance], axis=1)


class Labels:
    """As a linear support-vector machine: labels without probabilities."""

    classes_ = np.array(["no", "yes"])

    def predict(self, rows):
        return self.classes_[(rows.sum(1) > 0.5).astype(int)]


class Three(Labels):
    """A classifier of three labels."""

    classes_ = np.array(["low", "middle", "up"])

    def predict_proba(self, rows):
        scores = np.exp(np.stack([-rows[:, 0], 0 * rows[:, 0], rows[:, 1]], axis=1))
        return scores / scores.sum(1, keepdims=True)


@pytest.fixture(scope="module")
def labelled():
    """a -> c, a class of three labels of text, and its rows."""
    draw = np.random.default_rng(1)
    a = draw.normal(size=400)
    frame = pd.DataFrame({"a": a, "c": np.array(["x", "y", "z"])[np.digitize(a + draw.normal(size=400), [-0.5, 0.5])]})
    scm = bc.SCM(bc.CausalGraph.parse("a -> c"), {"a": bc.Linear()})
    scm.fit(frame, progress=False)
    return scm, frame


class Sums:
    """A model of numbers."""

    def predict(self, rows):
        return rows.sum(1)


CODES = {"x": 0, "y": 1, "z": 2}


@pytest.mark.parametrize(
    ("model", "options", "truth"),
    [
        (Booster(), {}, lambda a, c: expit(a + c)),
        (LightBooster(), {}, lambda a, c: expit(a + c)),
        (LightArrays(), {}, lambda a, c: expit(a + c)),
        (LightArrays(), {"label": 0}, lambda a, c: 1 - expit(a + c)),
        (Labels(), {"label": "yes"}, lambda a, c: (a + c > 0.5).astype(float)),
        (Labels(), {"label": "no"}, lambda a, c: (a + c <= 0.5).astype(float)),
        (Three(), {"label": "up"}, lambda a, c: np.exp(c) / (np.exp(-a) + 1 + np.exp(c))),
    ],
)
def test_models_of_other_libraries_are_taken_as_they_are(labelled, model, options, truth):
    scm, frame = labelled
    judged = scm.extend("score", bc.Predictor(model, **options), parents=["a", "c"])
    expected = truth(frame["a"].to_numpy(), frame["c"].map(CODES).to_numpy())
    found = judged.complete(values=frame).values["score"].numpy()
    assert found == pytest.approx(expected, abs=1e-6)
    low = frame[expected < 0.4].iloc[:5]
    cf = bc.backtrack(judged, low, {"score": bc.at_least(0.5)})
    assert (cf.status == "converged").all()
    reached = truth(np.asarray(cf.values["a"]), pd.Series(cf.values["c"]).map(CODES).to_numpy())
    assert (reached >= 0.5 - 1e-6).all()


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (Labels(), {}, "label='no'"),
        (Labels(), {"label": "perhaps"}, "one of 'no', 'yes'"),
        (Sums(), {"label": "yes"}, "no classifier"),
    ],
)
def test_labels_that_are_missing_or_unknown_are_named(labelled, model, options, message):
    scm, frame = labelled
    judged = scm.extend("score", bc.Predictor(model, **options), parents=["c", "a"])
    with pytest.raises(bc.DataError, match=message):
        judged.complete(values=frame.assign(a=-5.0).iloc[:3].assign(c="x"))


def test_label_of_what_has_none_is_refused():
    with pytest.raises(bc.SettingError, match="Predictor label"):
        bc.Predictor(lambda parents: parents["a"], label="yes")
    with pytest.raises(bc.SettingError, match="Predictor label"):
        bc.Predictor(Three(), value=3, label="up")


@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_real_boosters_get_the_columns_that_they_were_fitted_to(labelled, package):
    library = pytest.importorskip(package, reason=f"{package} is not installed: stand-ins are tested alone")
    scm, frame = labelled
    table, y = frame.astype({"c": "category"}), (frame["a"] > 0).astype(int)
    options = {"enable_categorical": True} if package == "xgboost" else {"verbose": -1}
    kind = "XGBClassifier" if package == "xgboost" else "LGBMClassifier"
    model = getattr(library, kind)(n_estimators=10, **options).fit(table, y)
    judged = scm.extend("score", bc.Predictor(model), parents=["a", "c"])
    found = judged.complete(values=frame).values["score"].numpy()
    assert found == pytest.approx(model.predict_proba(table)[:, 1], abs=1e-6)
