"""Explanations without a causal model, against closed forms and what a causal model says of them."""

import numpy as np
import pytest
import torch
from scipy import optimize

import deepbc as bc
from deepbc.evaluation.baselines import Latent, Tabular

NAMES = ("a", "b", "y")


def linear_rows(rows=4000, seed=0):
    """a -> b; a, b -> y, all linear, so that regressors are too."""
    draw = np.random.default_rng(seed)
    a = draw.normal(size=rows)
    b = 0.5 * a + draw.normal(size=rows)
    return {"a": torch.tensor(a), "b": torch.tensor(b), "y": torch.tensor(a + 2 * b + draw.normal(size=rows))}


@pytest.fixture(scope="module")
def fitted():
    data = linear_rows()
    scm = bc.SCM(bc.CausalGraph.parse("a -> b; a, b -> y"), {name: bc.Linear() for name in NAMES})
    scm.fit(data, progress=False)
    return scm, data, Tabular.fit(data, NAMES, training=bc.Training(epochs=30), progress=False)


def test_tabular_explanation_is_the_nearest_row_of_a_regressor(fitted):
    """Least squares of y on a and b, and the closed form of the nearest point of a line."""
    scm, data, table = fitted
    rows = {name: column[:50] for name, column in data.items()}

    cf = table.explain(scm, rows, {"y": 3.0})

    known = torch.stack([torch.ones(4000, dtype=torch.float64), data["a"], data["b"]], -1)
    shift, *slopes = torch.linalg.lstsq(known, data["y"].unsqueeze(-1)).solution.squeeze(-1)
    sd = torch.stack([data["a"].std(correction=0), data["b"].std(correction=0)])
    x = torch.stack([rows["a"], rows["b"]], -1) / sd
    normal = torch.stack(slopes) * sd
    moved = x + normal * ((3.0 - shift - x @ normal) / (normal @ normal)).unsqueeze(-1)
    assert torch.allclose(torch.stack([cf.values["a"], cf.values["b"]], -1), moved * sd, atol=0.15)
    assert (cf.values["y"] == 3.0).all()
    assert (cf.status == "converged").all()
    assert set(cf.antecedent) == {"y"}


def test_tabular_explanation_minimises_its_own_distance(fitted):
    """Against a general solver of the same problem, with the same regressor."""
    scm, data, table = fitted
    rows = {name: column[:5] for name, column in data.items()}
    cf, own = table.explain(scm, rows, {"y": 2.0}), table.models["y"]
    rest = {name: own.abduct({"a": rows["a"], "b": rows["b"]})[name].numpy() for name in ("a", "b")}
    after = own.abduct({"a": cf.values["a"], "b": cf.values["b"]})
    for k in range(5):
        u = np.array([rest["a"][k], rest["b"][k]])
        best = optimize.minimize(
            lambda z, u=u: ((z - u) ** 2).sum(),
            u,
            constraints={"type": "eq", "fun": lambda z: own.predict({"a": [z[0]], "b": [z[1]]})["y"].item() - 2.0},
            tol=1e-10,
        )
        found = np.array([after["a"][k].item(), after["b"][k].item()])
        assert ((found - u) ** 2).sum() <= best.fun + 1e-4


def test_sparse_explanation_moves_one_column_and_no_effect_follows(fitted):
    scm, data, table = fitted
    rows = {name: column[:40] for name, column in data.items()}
    cf = table.explain(scm, rows, {"y": 4.0}, solver=bc.Sparse(keep=1))
    moved = torch.stack([(cf.values[name] - rows[name]).abs() > 1e-9 for name in ("a", "b")])
    assert (moved.sum(0) == 1).all()


def test_backtracking_is_never_dearer_by_the_causal_laws(fitted):
    scm, data, table = fitted
    rows = {name: column[:100] for name, column in data.items()}
    ours, other = bc.backtrack(scm, rows, {"y": 2.5}), table.explain(scm, rows, {"y": 2.5})
    assert (ours.distance <= other.distance + 1e-9).all()
    assert torch.allclose(other.noise["a"], scm.abduct(other.values)["a"])


def spots(rows, seed=0):
    """Images of a spot at a place of its own, more or less bright."""
    draw = np.random.default_rng(seed)
    light, place = draw.uniform(80, 250, rows), draw.uniform(4, 11, (rows, 2))
    y, x = np.mgrid[:16, :16]
    spot = np.exp(-((x - place[:, :1, None]) ** 2 + (y - place[:, 1:, None]) ** 2) / 8)
    return torch.tensor(light[:, None, None] * spot, dtype=torch.float32)


class Brightness(torch.nn.Module):
    """How much light there is, in thousands of grey levels."""

    def forward(self, rows):
        return rows.sum(-1, keepdim=True) / 1000


def test_latent_explanation_reads_what_was_asked():
    images = spots(1500)
    training = bc.Training(epochs=12, batch=64, learning_rate=3e-3, average=30, pull=0.0, clip=1e4)
    law = bc.ConvVAE(noise=4, width=8)
    latent = Latent.fit(images, {"light": Brightness()}, law=law, training=training, progress=False)
    light = images.flatten(1).sum(-1).double() / 1000
    scm = bc.SCM(bc.CausalGraph.parse("light -> image"), {"light": bc.Linear(), "image": bc.ConvVAE(noise=4, width=8)})
    scm.fit({"light": light, "image": images}, training={"image": training}, progress=False)

    cf = latent.explain(scm, {"light": light[:20], "image": images[:20]}, {"light": 4.0})

    assert (cf.status == "converged").all()
    assert cf.values["light"].tolist() == pytest.approx([4.0] * 20, abs=1e-3)
    assert (cf.values["image"].flatten(1).sum(-1) / 1000).tolist() == pytest.approx([4.0] * 20, abs=1e-2)
    assert cf.error.max() < 1e-4


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda s, d, t: t.explain(s, d, {"a": 1.0, "y": 2.0}), bc.DataError, "expected one variable, got 2"),
        (lambda s, d, t: t.explain(s, d, {"z": 1.0}), bc.UnknownNameError, "unknown name 'z'"),
        (lambda s, d, t: Tabular.fit(d, ["a"]), bc.SettingError, "Tabular names"),
        (lambda s, d, t: Tabular.fit(d, ["a", "z"]), bc.UnknownNameError, "unknown name 'z'"),
        (lambda s, d, t: Latent.fit(torch.zeros(40, 8, 8), {}), bc.SettingError, "Latent readers"),
    ],
)
def test_mistakes_are_named(fitted, call, error, part):
    with pytest.raises(error, match=part):
        call(*fitted)
