"""Every question crossed with every kind of variable, antecedent, setting and number of rows, drawn at random.

A case is answered, or refused with an error of ours. Of what is `converged` the antecedent, bounds, levels, whole
numbers and scope are computed again from the noise alone, and each answer is told in plain sentences. `DRAWN_CASES`
sets how many are drawn (`make fuzz`).
"""

import os
import re
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

import deepbc as bc
from deepbc.batches.conditions import parse_conditions
from deepbc.batches.request import Request, columns_of
from deepbc.batches.run import run_batch
from deepbc.errors import DeepBCError
from deepbc.queries.antecedents import Interval, LabelSet

CASES = int(os.environ.get("DRAWN_CASES", "500"))
# So many questions are asked of each model.
CHUNKS, ASKED = 21, 12
QUESTIONS, SHARES = ("mode", "intervene", "samples", "batch", "check"), (0.56, 0.18, 0.2, 0.03, 0.03)
KINDS = ("real", "bounded", "whole", "grid", "censored", "class", "ordered", "truth", "vector")


class Logistic:
    """A classifier with the methods of scikit-learn, on plain arrays."""

    def __init__(self, weights):
        self.weights = weights

    def predict(self, rows):
        assert isinstance(rows, np.ndarray)
        assert np.isfinite(rows).all()
        return rows @ self.weights


def draw_model(seed):
    """A model of three to five variables of all kinds, with a score on top in every second one, and its rows."""
    draw = np.random.default_rng(seed)
    names = [f"v{k}" for k in range(draw.integers(3, 6))]
    kinds = dict(zip(names, draw.choice(KINDS, size=len(names)), strict=True))
    parents = {name: [each for each in names[:k] if draw.uniform() < 0.6] for k, name in enumerate(names)}
    rows, seen, data, types, laws, bounds = 160, {}, {}, {}, {}, {}
    for name, kind in kinds.items():
        dim = 2 if kind == "vector" else 1
        z = sum((seen[each] @ draw.uniform(-1, 1, size=(seen[each].shape[1], dim)) for each in parents[name]), 0.0)
        z = z + draw.normal(size=(rows, dim))
        seen[name], laws[name] = z, bc.Linear()
        if kind in ("real", "vector"):
            data[name] = z if kind == "vector" else z[:, 0]
        elif kind == "bounded":
            data[name], bounds[name] = np.exp(z[:, 0]), (0, None)
        elif kind == "censored":
            ends = np.quantile(z, [draw.uniform(0.1, 0.6), draw.uniform(0.7, 0.9)])
            low, high = [(ends[0], np.inf), (-np.inf, ends[1]), ends][draw.integers(0, 3)]
            data[name], types[name] = z[:, 0].clip(low, high), "censored"
            seen[name] = data[name][:, None]
        elif kind == "grid":
            step = draw.choice([0.5, 0.3, 2.5])
            data[name], types[name], laws[name] = (
                (np.round(z[:, 0] / step) * step + 0.1).round(1),
                "grid",
                bc.Integer(bc.Linear()),
            )
        elif kind == "whole":
            data[name], types[name], laws[name] = np.round(2 * z[:, 0]).astype(int), "integer", bc.Integer(bc.Linear())
        else:
            laws[name] = bc.Categorical(points=0, hidden=[])
            codes = np.digitize(z[:, 0], np.quantile(z[:, 0], [0.4, 0.75]))
            labels = np.array(["k", "l", "m"], dtype=object)
            data[name] = z[:, 0] > 0 if kind == "truth" else labels[codes]
            types |= {name: list(labels)} if kind == "ordered" else {}
    if draw.uniform() < 0.5:
        causes = [name for name in names if draw.uniform() < 0.7] or names[:1]
        parents["score"], laws["score"] = causes, draw_score(draw, causes, kinds)
    scm = bc.SCM(bc.CausalGraph(parents), laws, types=types, bounds=bounds)
    scm.fit(data, progress=False, seed=0)
    return scm, data, kinds


def draw_score(draw, causes, kinds):
    """A score of torch, or of a model of numpy arrays behind a function."""
    dims = [2 if kinds[name] in ("vector", "class") else 1 for name in causes]
    weights = draw.uniform(-1, 1, size=sum(dims))
    if draw.uniform() < 0.5:
        tensor = torch.from_numpy(weights)
        return bc.Predictor(lambda p: torch.cat([p[name] for name in causes], -1) @ tensor.unsqueeze(-1))
    model = Logistic(weights)
    return bc.Predictor(lambda p: model.predict(np.concatenate([p[name].numpy() for name in causes], -1))[:, None])


def draw_antecedent(draw, scm, data, kinds, rows):
    """One or two variables, each to be a value, one a row, or in an interval."""
    names = draw.permutation(list(scm.graph))[: draw.integers(1, 3)]
    asked = {}
    for name in names:
        column = np.asarray(data[name]) if name in data else draw.normal(size=160)
        values = column[draw.integers(0, len(column), size=max(rows, 1))]
        form = draw.integers(0, 4)
        sortable = kinds.get(name, "real") not in ("class", "truth", "vector")
        if kinds.get(name) in ("class", "ordered", "truth") and draw.uniform() < 0.3:
            asked[name] = draw.choice([bc.one_of, bc.other_than])(values[0])
        elif form == 0 and rows != 1 and rows:
            asked[name] = values
        elif form in (2, 3) and sortable:
            asked[name] = bc.at_least(values[0]) if form == 2 else bc.at_most(values[0])
        else:
            asked[name] = values[0]
    return asked


def draw_setting(draw, scm):
    """A scope, weights, distance, constraints and solver."""
    names, setting = list(scm.graph), {}
    if draw.uniform() < 0.4:
        setting["scope"] = list(draw.permutation(names)[: draw.integers(1, len(names) + 1)])
    pick = draw.integers(0, 6)
    if pick == 1:
        setting["distance"] = bc.Squared({str(draw.choice(names)): float(draw.choice([0.0, 0.3, 5.0]))})
    elif pick == 2:
        setting["distance"] = draw.choice([bc.Absolute(), bc.Power(4), {str(draw.choice(names)): bc.Absolute()}])
    if draw.uniform() < 0.3:
        limited = draw.permutation(names)[: draw.integers(1, 3)]
        setting["constraints"] = {str(name): draw_constraint(draw, scm.variables[name]) for name in limited}
    if draw.uniform() < 0.1:
        setting["inside"] = "seen"
    if draw.uniform() < 0.1:
        setting["answers"] = int(draw.integers(1, 4))
    if draw.uniform() < 0.3:
        setting["solver"] = draw.choice(
            [bc.Sparse(keep=1), bc.Sparse(keep=2, search="exhaustive"), bc.Linearized(), bc.Gradient(steps=20)]
        )
    return setting


def draw_constraint(draw, variable):
    """What may not change of one variable; some have no meaning for it, and are to be refused."""
    word = str(draw.choice(["fixed", "up", "down", "some"]))
    if word != "some":
        return word
    return list(variable.levels.items[:2]) if variable.levels else (float(draw.normal()), None)


def check_limits(scm, cf, setting, held):
    """What converged keeps its constraints, to rounding."""
    for name, limit in setting.get("constraints", {}).items():
        variable = scm.variables[name]
        codes = variable.levels.codes if variable.levels else (lambda x, _: torch.as_tensor(x))
        before, after = (np.asarray(codes(np.asarray(each[name]), name)) for each in (cf.factual.values, cf.values))
        before = np.broadcast_to(before, after.shape)
        slack = 1e-5 * np.asarray(variable.sd or 1.0)
        if isinstance(limit, str):
            kept = {"fixed": np.abs(after - before) <= slack, "up": after >= before - slack}.get(
                limit, after <= before + slack
            )
        elif variable.levels:
            kept = np.isin(after, np.asarray(codes(limit, name))) | (after == before)
        else:
            kept = after >= np.minimum(limit[0], before) - slack
        assert kept.reshape(*held.shape, -1).all(-1)[held].all(), f"{name} breaks {limit}"
    for name, variable in scm.variables.items() if setting.get("inside") else ():
        if variable.span and not variable.shape and not variable.levels:
            low, high = variable.span
            before, after = np.asarray(cf.factual.values[name]), np.asarray(cf.values[name])
            slack = 1e-5 * variable.sd[0]
            inside = (after >= np.minimum(low, before) - slack) & (after <= np.maximum(high, before) + slack)
            assert inside[held].all(), f"{name} leaves what was seen"


def check_converged(scm, cf, asked, setting, samples):
    """What is converged is a world of the model in which the antecedent holds, by a fresh prediction from the noise."""
    held = np.asarray(cf.status) == "converged"
    held = np.broadcast_to(held, tuple(cf.batch))
    if not held.any():
        return
    world = scm.complete(noise={name: u for name, u in cf.noise.items() if scm.mechanisms[name].noise_dim})
    slack = 0.11 if isinstance(setting.get("solver"), bc.Linearized | bc.Gradient) else 1e-5
    for name, variable in scm.variables.items():
        after, again = np.asarray(cf.values[name]), np.asarray(world.values[name])
        if variable.discrete:
            assert (after == again)[held].all(), f"{name} is not what its noise leads to"
        else:
            sd = np.asarray(variable.sd or 1.0)
            gap = (np.abs(after - again) / sd).reshape(*held.shape, -1).max(-1)
            assert (gap[held] <= slack).all(), f"{name} is not what its noise leads to"
        if variable.whole:
            steps = (after[held] - variable.grid.offset) / variable.grid.step
            assert np.allclose(steps, np.round(steps), rtol=0, atol=1e-6)
        if not variable.levels:
            assert ((after >= variable.lower) & (after <= variable.upper)).reshape(*held.shape, -1).all(-1)[held].all()
        want = asked.get(name)
        if want is None:
            continue
        if isinstance(want, LabelSet):
            there = np.isin(
                after.astype(str), np.asarray([str(x) for x in np.atleast_1d(show(variable, want.labels[0]))])
            )
            assert (there ^ want.excluded)[held].all(), f"{name} is not {want}"
            continue
        if isinstance(want, Interval):
            codes = variable.levels.codes if variable.levels else (lambda x, _: torch.as_tensor(x))
            reached = np.asarray(codes(after, name), dtype=float)
            low = -np.inf if want.lower is None else float(codes(want.lower, name))
            high = np.inf if want.upper is None else float(codes(want.upper, name))
            margin = slack * (variable.sd or (1.0,))[0] + 1e-6 * np.abs(reached)
            assert ((reached >= low - margin) & (reached <= high + margin))[held].all(), f"{name} is outside"
        elif variable.discrete:
            assert (after == np.broadcast_to(want, after.shape))[held].all(), f"{name} is not {want}"
        else:
            gap = np.abs(after - np.asarray(want)) / np.asarray(variable.sd or 1.0)
            assert (gap.reshape(*held.shape, -1).max(-1)[held] <= slack).all(), f"{name} is not {want}"
    for name in set(scm.graph) - set(setting.get("scope", scm.graph)):
        moved = np.broadcast_to(np.asarray(cf.moved[name]), held.shape)
        assert (moved[held] == 0).all() or samples, f"{name} moved out of scope"
    if not isinstance(setting.get("solver"), bc.Linearized | bc.Gradient):
        check_limits(scm, cf, setting, held)
    certainty = np.asarray(cf.certainty)
    assert ((certainty >= 0) & (certainty <= 1)).all()


def show(variable, label):
    """A label as values of its variable show it."""
    return np.asarray(variable.levels.labels(variable.levels.codes(label, "label")))


def check_words(cf):
    """Sentences have no minus before a zero, no whole number with a point, no word for a gap that is not there."""
    some_nan = any(np.isnan(np.asarray(each, dtype=float)).any() for each in cf.values.values() if each.dtype != object)
    said = [cf.describe(), *(cf.describe(row) for row in range(min(2, np.asarray(cf.status).size)))]
    for sentence in said:
        assert sentence.endswith("."), sentence
        assert not re.search(r"(?<![\w.])-0(?![\d.])|\d\.0+(?!\d)", sentence), sentence
        assert some_nan or not re.search(r"\bnan\b", sentence), sentence
        assert "  " not in sentence


def check_batch(scm, factual, rows, draw):
    """A table of rows, asked in parts by the program, says what one question says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scm.save(folder / "model")
        table = scm.complete(values=factual).to_frame()[list(columns_of(scm))]
        table.to_csv(folder / "rows.csv", index=False)
        target = str(draw.choice([each for each in scm.graph if not scm.variables[each].shape]))
        column = table[target].to_numpy() if rows else np.array([0.5])
        asked = f'"{target}"={column[0]}' if scm.variables[target].levels else f"{target}>={column[0]}"
        made = run_batch(folder / "model", folder / "rows.csv", Request((asked,)), folder / "a.csv", rows=2, workers=1)
        assert made.rows == len(table)
        value = parse_conditions([asked], tuple(scm.graph), scm.schema.levels)[target]
        alone = bc.backtrack(scm, table, {target: value})
        came = pd.read_csv(folder / "a.csv")
        assert (came["status"] == alone.status).all()
        assert np.allclose(came["distance"], alone.distance, rtol=1e-4, atol=1e-6)
    return


def run_case(model, draw):
    """Asks one question."""
    scm, data, kinds = model
    rows = int(draw.choice([0, 1, 3]))
    start = draw.integers(0, 100)
    factual = {name: column[start : start + rows] for name, column in data.items()}
    if rows == 1 and draw.uniform() < 0.5:
        factual = {name: column[0] for name, column in factual.items()}
    asked, setting = draw_antecedent(draw, scm, data, kinds, rows), draw_setting(draw, scm)
    question = draw.choice(QUESTIONS, p=SHARES)
    try:
        if question == "batch":
            return check_batch(scm, factual, rows, draw)
        if question == "check":
            assert isinstance(bc.check(scm, {name: column[:80] for name, column in data.items()}).explain(), str)
            return None
        if question == "mode":
            cf = bc.backtrack(scm, factual, asked, **setting)
            check_converged(scm, cf, asked, setting, samples=False)
        elif question == "intervene":
            cf = bc.intervene(scm, factual, asked, samples=draw.choice([None, 4]), seed=0)
        else:
            setting.pop("solver", None), setting.pop("answers", None)
            cf = bc.backtrack_samples(scm, factual, asked, samples=8, seed=0, **setting)
            check_converged(scm, cf, asked, setting, samples=True)
        assert len(cf.to_frame()) == cf.batch.numel()
        repr(cf)
        check_words(cf)
        if draw.uniform() < 0.03:
            plt.close(cf.plot())
    except DeepBCError as error:
        return str(error)

    return None


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_question_is_answered_or_refused(chunk):
    for seed in range(chunk, -(-CASES // ASKED), CHUNKS):
        model = draw_model(seed)
        for case in range(ASKED):
            try:
                run_case(model, np.random.default_rng([seed, case]))
            except Exception as error:
                raise AssertionError(f"model {seed}, case {case}: {type(error).__name__}: {error}") from error
