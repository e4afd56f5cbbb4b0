"""The nearest choice of classes and whole numbers, against brute force over all combinations of random models."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from simulated_tables import draw_mixed

import deepbc as bc


def combinations(scm, target):
    """Every combination of the values of the discrete causes of a variable."""
    causes = scm.graph.ancestors(target)
    names = [name for name in scm.graph.order if name in causes and scm.variables[name].discrete]
    values = []
    for name in names:
        variable = scm.variables[name]
        levels = variable.levels
        values.append(levels.items if levels else range(int(variable.lower), int(variable.upper) + 1))
    return names, list(itertools.product(*values))


def brute_force(scm, rows, target, asked):
    """The least distance of each row over all combinations, each pinned; a plain local solver finds the rest."""
    names, choices = combinations(scm, target)
    least = torch.full((len(rows),), torch.inf, dtype=torch.float64)
    for start in range(0, len(choices), 200):
        part = choices[start : start + 200]
        antecedent = {
            name: np.repeat(np.array([choice[k] for choice in part]), len(rows)) for k, name in enumerate(names)
        }
        antecedent[target] = np.tile(asked, len(part))
        cf = bc.backtrack(scm, pd.concat([rows] * len(part)), antecedent, solver=bc.Exact(starts=0))
        held = torch.from_numpy(np.asarray(cf.status) == "converged")
        least = torch.minimum(least, torch.where(held, cf.distance, torch.inf).reshape(len(part), -1).amin(0))
    return least


# The last two have classes that upstream numbers free of one face of their region long before the other.
@pytest.mark.parametrize("seed", [*range(24), 141, 149])
def test_certain_answers_are_as_near_as_brute_force(seed):
    scm, frame, target = draw_mixed(seed)
    rows, asked = frame.iloc[:15], frame[target].to_numpy()[15:30] + 0.3

    cf = bc.backtrack(scm, rows, {target: asked})

    assert (cf.status == "converged").all()
    assert (cf.certainty >= 0.99).double().mean() >= 0.9
    truth = brute_force(scm, rows, target, asked)
    certain = cf.certainty >= 0.99
    assert (cf.distance <= 1.01 * truth + 1e-9)[certain].all()
    assert (cf.distance >= 0.99 * truth - 1e-6).all()


@pytest.mark.parametrize("seed", range(12))
def test_wider_scope_is_never_farther(seed):
    scm, frame, target = draw_mixed(seed)
    rows, asked = frame.iloc[:15], frame[target].to_numpy()[15:30]
    names = [name for name in scm.graph if name in scm.graph.ancestors(target)]
    narrow = bc.backtrack(scm, rows, {target: asked}, scope=[target, *names[: len(names) // 2]])
    wide = bc.backtrack(scm, rows, {target: asked})
    held = torch.from_numpy(np.asarray(narrow.status) == "converged")
    assert (wide.distance <= narrow.distance + 1e-6)[held].all()


def test_wide_whole_numbers_are_rounded_well():
    """amount -> y with hundreds of whole numbers: no neighbour is nearer."""
    draw = np.random.default_rng(0)
    amount = np.round(1000 + 300 * draw.normal(size=800)).astype(int)
    y = 0.01 * amount + draw.normal(size=800)
    scm = bc.SCM(bc.CausalGraph.parse("amount -> y"), {"amount": bc.Integer(bc.Linear()), "y": bc.Linear()})
    frame = pd.DataFrame({"amount": amount, "y": y})
    scm.fit(frame, progress=False)
    rows, asked = frame.iloc[:10], y[10:20]
    cf = bc.backtrack(scm, rows, {"y": asked})
    assert (cf.status == "converged").all()
    assert (cf.values["amount"] == cf.values["amount"].round()).all()
    for step in (-5, -1, 1, 5):
        beside = bc.backtrack(scm, rows, {"y": asked, "amount": cf.values["amount"] + step})
        assert (cf.distance <= beside.distance + 1e-9).all()


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_any_number_of_rows_is_answered(rows):
    scm, frame, target = draw_mixed(3)
    few = frame.iloc[:rows]
    cf = bc.backtrack(scm, few, {target: 1.0})
    assert cf.distance.shape == cf.certainty.shape == (rows,)
    assert len(cf.to_frame()) == rows


def test_answers_do_not_depend_on_other_rows():
    scm, frame, target = draw_mixed(5)
    rows, asked = frame.iloc[:40], frame[target].to_numpy()[40:80]
    together = bc.backtrack(scm, rows, {target: asked})
    for k in (0, 17, 39):
        alone = bc.backtrack(scm, rows.iloc[k], {target: asked[k]})
        assert alone.distance.item() == pytest.approx(together.distance[k].item(), abs=1e-9)
        assert alone.status == together.status[k]
        assert alone.certainty.item() == pytest.approx(together.certainty[k].item(), abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_exhaustive_supports_are_the_best_scopes(seed):
    scm, frame, target = draw_mixed(seed)
    rows, asked = frame.iloc[:12], frame[target].to_numpy()[12:24]
    causes = [name for name in scm.graph.order if name in {target, *scm.graph.ancestors(target)}]
    alone = [bc.backtrack(scm, rows, {target: asked}, scope=[name]) for name in causes]
    held = [torch.from_numpy(np.asarray(cf.status) == "converged") for cf in alone]
    best = torch.stack([torch.where(h, cf.distance, torch.inf) for h, cf in zip(held, alone, strict=True)]).amin(0)

    for search in ("exhaustive", "greedy"):
        cf = bc.backtrack(scm, rows, {target: asked}, solver=bc.Sparse(keep=1, by="variable", search=search))
        moved = torch.stack([each > 0 for each in cf.moved.values()]).sum(0)
        there = torch.from_numpy(np.asarray(cf.status) == "converged")
        assert (there == best.isfinite()).all()
        assert (moved <= 1)[there].all()
        assert torch.allclose(cf.distance[there], best[there], rtol=1e-6, atol=1e-9)


def test_sparse_answers_about_a_class_hold():
    """a -> b; a, b -> y with y a truth value: one noise is enough for every row."""
    draw = np.random.default_rng(0)
    a = draw.normal(size=400)
    b = 0.7 * a + draw.normal(size=400)
    frame = pd.DataFrame({"a": a, "b": b, "y": a + b + 0.5 * draw.normal(size=400) > 0})
    scm = bc.SCM(bc.CausalGraph.parse("a -> b; a, b -> y"), {"a": bc.Linear(), "b": bc.Linear()})
    scm.fit(frame, progress=False)
    rows = frame[~frame["y"]].iloc[:40]
    scope = bc.backtrack(scm, rows, {"y": True}, scope=["a"])
    for solver in (bc.Sparse(keep=1), bc.Sparse(keep=1, by="variable", search="exhaustive")):
        cf = bc.backtrack(scm, rows, {"y": True}, solver=solver)
        assert (cf.status == "converged").all()
        assert (cf.distance <= scope.distance + 1e-6).all()
