import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import deepbc as bc
from deepbc.numerics.seeding import generator
from deepbc.recipes import morphomnist
from deepbc.storage import read_folder, write_folder

GRAPH = bc.CausalGraph.parse("thickness -> intensity")
QUICK = bc.Training(epochs=4)


def flows(graph=GRAPH, laws=None, **settings):
    """A model whose laws are trained, epoch by epoch."""
    return bc.SCM(graph, {name: bc.Flow() for name in graph} | (laws or {}), **settings)


def table(rows=300, seed=0) -> pd.DataFrame:
    return morphomnist.truth().sample(rows, seed=seed).to_frame()


def weights(scm) -> dict[str, torch.Tensor]:
    return {f"{n}/{k}": t for n in scm.graph for k, t in scm.mechanisms[n].state_dict().items()}


def same(one, two) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one).values(), weights(two).values(), strict=True))


def test_linear_fit_is_least_squares_on_all_rows():
    stream = np.random.default_rng(0)
    a, b = stream.normal(3, 2, 500), stream.normal(-1, 0.1, 500)
    c = 1 + 2 * a - 30 * b + stream.normal(0, 5, 500)
    scm = bc.SCM(bc.CausalGraph.parse("a, b -> c"), {name: bc.Linear() for name in "abc"})

    report = scm.fit({"a": a, "b": b, "c": c})

    design = np.stack([np.ones(500), a, b], axis=-1)
    solution = np.linalg.lstsq(design, c, rcond=None)[0]
    residual = c - design @ solution
    noise = scm.abduct({"a": a, "b": b, "c": c})["c"]
    assert np.allclose(noise, residual / residual.std(), rtol=0, atol=1e-9)
    mean = scm.predict({"a": 0.0, "b": 0.0, "c": 0.0})
    assert mean["c"].item() == pytest.approx(solution @ [1, a.mean(), b.mean()])
    # In expectation the held-out score is the entropy of the noise.
    assert report["c"].nll == pytest.approx(stats.norm(0, 5).entropy(), abs=0.15)


def test_linear_fit_of_a_vector_is_gaussian():
    stream = np.random.default_rng(1)
    factor = np.array([[1.0, 0.0], [0.8, 0.5]])
    v = stream.normal(size=(4000, 2)) @ factor.T + [5.0, -3.0]
    scm = bc.SCM(bc.CausalGraph({"v": []}), {"v": bc.Linear()})
    scm.fit({"v": v})
    expected = stats.multivariate_normal(v.mean(0), np.cov(v.T, ddof=0)).logpdf(v[:20])
    assert np.allclose(scm.log_prob({"v": v[:20]}), expected, rtol=0, atol=1e-8)


def test_same_seed_gives_the_same_weights_and_another_does_not():
    models = []
    for seed in (0, 0, 1):
        scm = flows()
        scm.fit(table(), seed=seed, training=QUICK)
        models.append(scm)
    assert same(models[0], models[1])
    assert not same(models[0], models[2])


def test_refitting_one_variable_leaves_the_others():
    scm = flows()
    scm.fit(table(), training=QUICK)
    before = weights(scm)
    other = scm.replace("intensity", bc.Linear())
    report = other.fit(table(seed=5), only=["intensity"])
    assert [each.name for each in report] == ["intensity"]
    assert other.mechanisms["thickness"] is scm.mechanisms["thickness"]
    assert all(torch.equal(before[key], tensor) for key, tensor in weights(scm).items())
    again = flows()
    again.fit(table(), training=QUICK)
    again.fit(table(), only=["intensity"], training=QUICK)
    assert same(scm, again)


def test_best_weights_are_kept_not_the_last():
    scm = flows(bc.CausalGraph({"thickness": []}))
    # A learning rate this high ends far from where it was best.
    report = scm.fit(table()[["thickness"]], training=bc.Training(epochs=30, patience=30, learning_rate=0.3, average=1))
    curve = report["thickness"].curves["flow"]
    train, held_out = curve.train, curve.held_out
    assert len(train) == 30
    assert report["thickness"].nll == pytest.approx(min(held_out), abs=1e-4)
    assert held_out[-1] > min(held_out)


def test_training_stops_when_patience_ends():
    scm = flows(bc.CausalGraph({"thickness": []}))
    report = scm.fit(table()[["thickness"]], training=bc.Training(patience=3, learning_rate=0.3, average=1))
    held_out = report["thickness"].curves["flow"].held_out
    assert len(held_out) < 500
    best = int(np.argmin(held_out))
    assert len(held_out) - 1 - best >= 3


def test_report_tells_what_the_fit_decided():
    data = table(800)
    scm = flows(bounds={"intensity": (64, 255)})
    report = scm.fit(data, training=QUICK)
    frame = report.to_frame()
    assert list(frame["variable"]) == ["thickness", "intensity"]
    assert list(frame["rows"]) == [160, 160]
    assert "correction" in frame["notes"][1]
    assert report.nll == pytest.approx(frame["nll"].sum())
    assert report["intensity"].epochs == sum(len(curve.train) for curve in report["intensity"].curves.values())
    assert "intensity" in repr(report)
    with pytest.raises(bc.UnknownNameError, match="Did you mean 'thickness'"):
        report["thicknes"]


def test_correction_is_kept_where_it_pays_and_left_out_where_not():
    stream = np.random.default_rng(0)
    a = stream.normal(size=2000)
    # Given a, y is skewed one way or the other: no backbone can say that.
    y = np.sign(a) * stream.exponential(size=2000)
    scm = flows(bc.CausalGraph.parse("a -> y; a -> z"), {"a": bc.Linear()})
    report = scm.fit({"a": a, "y": y, "z": a + stream.normal(size=2000)})
    assert report["y"].notes[0].startswith("correction kept")
    assert report["z"].notes[0].startswith("correction left out")
    # The user decides, if he will.
    other = scm.replace("y", bc.Flow(correction=False))
    assert other.fit({"a": a, "y": y, "z": y}, only=["y"])["y"].notes == ()
    assert not other.mechanisms["y"].corrected


def test_values_that_many_rows_share_are_remarked():
    data = table()
    data.loc[:30, "thickness"] = 2.0
    report = flows().fit(data, training=QUICK)
    assert "10% of the rows share the value 2" in report["thickness"].notes[-1]


def test_predictor_joins_the_fit_without_data():
    graph = bc.CausalGraph.parse("thickness -> intensity -> double -> last")
    scm = bc.SCM(graph, {"double": bc.Predictor(lambda p: 2 * p["intensity"]), "last": bc.Linear()})
    data = table()
    data["last"] = 4 * data["intensity"] + np.random.default_rng(0).normal(size=300)
    scm.fit(data, training=QUICK)
    world = scm.complete(noise={"thickness": 0.0, "intensity": 0.0, "last": 0.0})
    assert world.values["double"] == 2 * world.values["intensity"]
    assert world.values["last"].item() == pytest.approx(4 * world.values["intensity"].item(), rel=0.02)
    with pytest.raises(bc.DataError, match="contradicts its Predictor in 300 of 300 rows"):
        scm.fit(data.assign(double=data["intensity"]))
    scm.fit(data.assign(double=2 * data["intensity"]), training=QUICK)


def bad(change):
    data = table(60)
    return change(data)


def with_cell(row, name, value):
    def change(data):
        data = data.astype({name: object}) if isinstance(value, str) else data
        data.loc[row, name] = value
        return data

    return change


@pytest.mark.parametrize(
    ("change", "error", "part"),
    [
        (with_cell(7, "intensity", math.nan), bc.DataError, "'intensity': expected finite numbers, got a missing"),
        (with_cell(3, "thickness", math.inf), bc.DataError, "'thickness': expected finite numbers, got an inf"),
        (with_cell(5, "thickness", "thin"), bc.DataError, "'thickness': expected numbers, got the text 'thin'"),
        (with_cell(7, "intensity", math.nan), bc.DataError, "(NaN) in row 7"),
        (with_cell(5, "thickness", "thin"), bc.DataError, "in row 5. Convert"),
        (with_cell(9, "intensity", 255.0), bc.DataError, "row 9 on a bound"),
        (with_cell(9, "intensity", 256.0), bc.DataError, "got [256.0] in row 9"),
        (lambda data: data.drop(columns="intensity"), bc.DataError, "variable 'intensity' is missing"),
        (lambda data: dict(data.assign(index=1.0)), bc.DataError, "'index' is not a variable of the graph"),
        (lambda data: data.rename(columns={"intensity": "intensty"}), bc.DataError, "Did you mean 'intensty'?"),
        (lambda data: data.assign(thickness=2.0), bc.DataError, "'thickness': every row has the value 2"),
        (lambda data: data.assign(thickness=pd.to_datetime("2020")), bc.DataError, "got dates such as 2020-01-01"),
        (lambda data: data.assign(thickness=pd.Series([1, None] * 30, dtype="Int64")), bc.DataError, "NaN"),
        (lambda data: pd.concat([data, data], axis=1), bc.DataError, "comes twice"),
        (lambda data: data.head(5), bc.FitError, "'thickness': a fit needs at least 15 rows, got 5"),
        (lambda data: data.head(1), bc.FitError, "at least 2 rows, got 1"),
        (lambda data: data.head(0), bc.FitError, "got 0"),
        (lambda data: {"thickness": 1.0, "intensity": 100.0}, bc.DataError, "got a single number"),
        (lambda data: {"thickness": [1, 2, 3], "intensity": [70, 80]}, bc.DataError, "columns of one length"),
        (lambda data: {"thickness": np.ones((60, 0)), "intensity": np.ones(60)}, bc.DataError, "got shape (60, 0)"),
        (lambda data: {"thickness": [[1], [2, 3]], "intensity": [70, 80]}, bc.DataError, "different lengths"),
        (lambda data: data.to_numpy(), bc.DataError, "got ndarray"),
    ],
)  # fmt: skip
def test_bad_data_names_variable_row_and_remedy(change, error, part):
    scm = bc.SCM(GRAPH, bounds={"intensity": (64, 255)})
    with pytest.raises(error) as caught:
        scm.fit(bad(change))
    assert part in str(caught.value)
    assert not scm.fitted


def test_exact_function_of_the_parents_leaves_no_noise():
    a = np.linspace(0, 1, 50)
    with pytest.raises(bc.FitError, match="'b': in the rows to learn from, it is constant or an exact linear function"):
        bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": bc.Linear(), "b": bc.Linear()}).fit({"a": a, "b": 2 * a})


def test_loss_that_turns_nan_stops_with_a_remedy(monkeypatch):
    scm = flows()
    monkeypatch.setattr(bc.Flow, "loss", lambda self, x, parents: -self.log_prob(x, parents) * math.nan)
    with pytest.raises(bc.FitError, match=r"'thickness': the loss of epoch 1 turned nan. Lower the learning rate"):
        scm.fit(table())
    assert not scm.fitted


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"epochs": 0}, "epochs"),
        ({"batch": 0}, "batch"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"validation": 1.0}, "validation"),
        ({"patience": 2.5}, "patience"),
        ({"average": 0}, "average"),
    ],
)
def test_bad_training_is_refused(settings, part):
    with pytest.raises(bc.SettingError, match=part):
        bc.Training(**settings)


def test_unknown_names_in_the_call_are_refused():
    with pytest.raises(bc.UnknownNameError, match="only"):
        flows().fit(table(), only=["thick"])
    with pytest.raises(bc.UnknownNameError, match="training"):
        flows().fit(table(), training={"thick": QUICK})


def test_progress_is_for_terminals(capfd):
    bc.SCM(GRAPH, {name: bc.Linear() for name in GRAPH}).fit(table())
    assert capfd.readouterr().err == ""
    bc.SCM(GRAPH, {name: bc.Linear() for name in GRAPH}).fit(table(), progress=True)
    assert "fit" in capfd.readouterr().err


def test_finished_checkpoint_gives_the_same_model_at_once(tmp_path):
    plain, kept, again = flows(), flows(), flows()
    plain.fit(table(), training=QUICK)
    report = kept.fit(table(), training=QUICK, checkpoint=tmp_path / "c")
    repeated = again.fit(table(), training=QUICK, checkpoint=tmp_path / "c")
    assert same(plain, kept)
    assert same(plain, again)
    assert [each.curves for each in repeated] == [each.curves for each in report]
    assert repeated.seconds == report.seconds


def test_checkpoint_of_another_fit_is_refused(tmp_path):
    flows().fit(table(), training=QUICK, checkpoint=tmp_path / "c")
    for call in (
        lambda: flows().fit(table(seed=1), training=QUICK, checkpoint=tmp_path / "c"),
        lambda: flows().fit(table(), seed=1, training=QUICK, checkpoint=tmp_path / "c"),
        lambda: flows(laws={"intensity": bc.Flow(bins=4)}).fit(table(), training=QUICK, checkpoint=tmp_path / "c"),
        lambda: flows().fit(table(), training=bc.Training(epochs=5), checkpoint=tmp_path / "c"),
    ):
        with pytest.raises(bc.FitError, match="belongs to another fit"):
            call()


def test_checkpoint_fills_an_empty_folder(tmp_path):
    flows().fit(table(), training=QUICK, checkpoint=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["manifest.json", "weights.safetensors"]


def without(key):
    return lambda content, tensors: content["stages"]["thickness/flow"].pop(key)


def in_words(content, tensors):
    content["stages"]["thickness/flow"]["epoch"] = "four"


def reshaped(content, tensors):
    tensors["thickness/flow/weights"] = tensors["thickness/flow/weights"][:1]


@pytest.mark.parametrize(
    ("change", "error", "part"),
    [
        (lambda content, tensors: content.pop("fit"), bc.StorageError, "is not a checkpoint of ours"),
        (lambda content, tensors: content.update(stages=[1]), bc.StorageError, "is not a checkpoint of ours"),
        (without("epoch"), bc.FitError, "'thickness': the checkpoint does not hold the state of its stage 'flow'"),
        (without("steps"), bc.FitError, "Remove the folder to start anew"),
        (in_words, bc.FitError, "does not hold the state"),
        (reshaped, bc.FitError, "does not hold the state"),
    ],
)
def test_malformed_checkpoint_is_refused(tmp_path, change, error, part):
    scm = flows(bc.CausalGraph({"thickness": []}))
    scm.fit(table()[["thickness"]], training=QUICK, checkpoint=tmp_path / "c")
    content, tensors = read_folder(tmp_path / "c", "checkpoint")
    change(content, tensors)
    write_folder(tmp_path / "c", "checkpoint", content, tensors)
    with pytest.raises(error) as caught:
        scm.fit(table()[["thickness"]], training=QUICK, checkpoint=tmp_path / "c")
    assert part in str(caught.value)


def test_checkpoint_that_is_no_folder_of_ours_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(bc.StorageError, match=r"is a file, not a folder. Give the folder of a checkpoint"):
        flows().fit(table(), checkpoint=tmp_path / "file")
    with pytest.raises(bc.StorageError, match=r"holds no manifest.json, so it is no checkpoint of ours"):
        flows().fit(table(), checkpoint=tmp_path)


KILLED = """
import sys, torch, deepbc as bc, deepbc.training.trainer
from deepbc.recipes import morphomnist
torch.set_num_threads(1)
deepbc.training.trainer.SECONDS_BETWEEN_SAVES = 0.0
data = morphomnist.truth().sample(2000, seed=0).values
scm = bc.SCM(bc.CausalGraph.parse("thickness -> intensity"), {"thickness": bc.Flow(), "intensity": bc.Flow()})
scm.fit(data, training=bc.Training(epochs=40, patience=40), checkpoint=sys.argv[1] if len(sys.argv) > 2 else None)
scm.save(sys.argv[-1])
"""


def stamp(path):
    """What changes when a file is written anew; None where there is none, even if it went while we looked."""
    try:
        seen = os.stat(path)
    except FileNotFoundError:
        return None
    return seen.st_ino, seen.st_mtime_ns


@pytest.mark.slow
def test_killed_fit_resumes_and_ends_where_it_would_have(tmp_path):
    checkpoint = tmp_path / "checkpoint"
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    subprocess.run([sys.executable, "-c", KILLED, str(straight)], check=True)

    kills = 0
    while not resumed.exists():
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(checkpoint), str(resumed)])
        seen = None
        while process.poll() is None and kills < 3:
            # By its time as well: the number of a file may be given again.
            now = stamp(checkpoint / "manifest.json")
            if seen is not None and now not in (seen, None):
                time.sleep(0.3)
                process.send_signal(signal.SIGKILL)
                kills += 1
            seen = now or seen
            time.sleep(0.02)
        process.wait()

    assert kills == 3
    # A kill in the middle of a write leaves what was being written, under a hidden name of its own.
    left = sorted(name for name in os.listdir(tmp_path) if not name.endswith(".new"))
    assert left == ["checkpoint", "resumed", "straight"]
    assert same(bc.SCM.load(straight), bc.SCM.load(resumed))


SHARED = """
import sys, torch, deepbc as bc
from deepbc.recipes import morphomnist
torch.set_num_threads(1)
data = morphomnist.truth().sample(1001, seed=0).values
scm = bc.SCM(bc.CausalGraph.parse("thickness -> intensity"), {"thickness": bc.Flow(), "intensity": bc.Flow()})
scm.fit(data, training=bc.Training(epochs=1, batch=100))
report = scm.fit(data, training=bc.Training(epochs=5, batch=100), checkpoint=sys.argv[2])
import os
scm.save(sys.argv[1] + os.environ.get("RANK", ""))
"""


@pytest.mark.slow
def test_two_processes_fit_what_one_does(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(SHARED)
    subprocess.run([sys.executable, script, tmp_path / "one", tmp_path / "c1"], check=True)
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    subprocess.run([*run, tmp_path / "two", tmp_path / "c2"], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    one, first, second = (bc.SCM.load(Path(tmp_path / name)) for name in ("one", "two0", "two1"))

    assert same(first, second)
    for key, tensor in weights(one).items():
        assert torch.allclose(tensor.double(), weights(first)[key].double(), rtol=0, atol=1e-6), key


DYING = """
import os, signal, sys, torch, deepbc as bc, deepbc.training.trainer
from deepbc.training.checkpoint import Checkpoint
from deepbc.recipes import morphomnist
torch.set_num_threads(1)
deepbc.training.trainer.SECONDS_BETWEEN_SAVES = 0.0
model, checkpoint, saves = sys.argv[1], sys.argv[2], int(sys.argv[3])
save, rank = Checkpoint.save, os.environ["RANK"]

def save_and_die(self, *given):
    global saves
    save(self, *given)
    saves -= 1
    if saves == 0 and rank == "1":
        os.kill(os.getpid(), signal.SIGKILL)

Checkpoint.save = save_and_die
data = morphomnist.truth().sample(1001, seed=0).values
scm = bc.SCM(bc.CausalGraph.parse("thickness -> intensity"), {"thickness": bc.Flow(), "intensity": bc.Flow()})
scm.fit(data, training=bc.Training(epochs=5, batch=100), checkpoint=checkpoint)
scm.save(model + rank)
"""


@pytest.mark.slow
def test_two_processes_of_which_one_was_killed_resume(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(DYING)
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    ends = []
    for model, checkpoint, saves in (("straight", "c1", 0), ("resumed", "c2", 7), ("resumed", "c2", 0)):
        call = [*run, tmp_path / model, tmp_path / checkpoint, str(saves)]
        done = subprocess.run(call, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
        ends.append(done.returncode == 0)

    assert ends == [True, False, True]
    straight, resumed = (bc.SCM.load(tmp_path / name) for name in ("straight0", "resumed0"))
    assert same(straight, resumed)


@pytest.mark.parametrize("mechanism", [bc.Flow(), bc.Linear(), bc.Additive()], ids=["flow", "linear", "additive"])
def test_parent_that_is_constant_is_left_alone(mechanism):
    y = np.random.default_rng(0).normal(size=100)
    laws = {"x": bc.Linear(), "flag": bc.Predictor(lambda parents: 0 * parents["x"] + 3), "y": mechanism}
    scm = bc.SCM(bc.CausalGraph.parse("x -> flag -> y"), laws)
    scm.fit({"x": y[::-1].copy(), "y": y}, training=QUICK)
    assert torch.isfinite(scm.log_prob({"x": y, "y": y})).all()
    assert bc.intervene(scm, {"x": 0.0, "y": 0.0}, {"flag": 3.0}).status == "converged"


def test_variable_that_varies_only_in_held_out_rows_is_named():
    rare = np.zeros(100)
    rare[int(torch.randperm(100, generator=generator(0, "split"))[0])] = 1.0  # the first row is held out
    with pytest.raises(bc.FitError, match="'rare': in the rows to learn from, it is constant"):
        bc.SCM(bc.CausalGraph({"rare": []}), {"rare": bc.Flow()}).fit({"rare": rare})


def test_linear_law_of_a_rare_value_is_that_of_all_rows():
    rare = np.zeros(100)
    rare[int(torch.randperm(100, generator=generator(0, "split"))[0])] = 1.0  # held out with seed 0
    models = []
    for seed in (0, 1):
        models.append(bc.SCM(bc.CausalGraph({"rare": []}), {"rare": bc.Linear()}))
        report = models[-1].fit({"rare": rare}, seed=seed)
        assert ("fit to all rows" in "; ".join(report["rare"].notes)) == (seed == 0)
    values = {"rare": rare}
    assert torch.allclose(models[0].log_prob(values), models[1].log_prob(values))
    assert np.allclose(models[0].log_prob(values), stats.norm(rare.mean(), rare.std()).logpdf(rare))


def test_refit_needs_only_the_family_and_its_causes():
    graph = bc.CausalGraph.parse("a -> b -> c")
    data = {name: np.random.default_rng(i).normal(size=50) for i, name in enumerate("abc")}
    scm = bc.SCM(graph, {name: bc.Linear() for name in "abc"})
    scm.fit(data)
    scm.fit({"a": data["a"], "b": data["b"]}, only=["b"])
    with pytest.raises(bc.DataError, match="'a' is missing"):
        scm.fit({"b": data["b"], "c": data["c"]}, only=["c"])


def test_refit_takes_the_spread_of_the_new_data():
    data = {name: np.random.default_rng(i).normal(size=50) for i, name in enumerate("ab")}
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {name: bc.Linear() for name in "ab"})
    scm.fit(data)
    scm.fit({"a": 10 * data["a"], "b": 10 * data["b"]}, only=["b"])
    assert scm.variables["a"].sd == pytest.approx([data["a"].std()])
    assert scm.variables["b"].sd == pytest.approx([10 * data["b"].std()])
    for name in "ab":
        with pytest.raises(bc.DataError, match=rf"{name!r}: expected values of shape \(\) as before, got \(2,\)"):
            scm.fit({**data, name: np.random.default_rng(2).normal(size=(50, 2))}, only=["b"])


def test_first_fit_of_some_variables_binds_the_given_laws():
    graph = bc.CausalGraph.parse("a -> y")
    scm = bc.SCM(graph, {"a": bc.Linear(), "y": bc.Predictor(lambda parents: 2 * parents["a"])})
    scm.fit({"a": np.random.default_rng(0).normal(size=50)}, only=["a"])
    assert scm.fitted
    assert scm.sample(3).values["y"].shape == (3,)


def rows_of_two(effect, rows=500) -> dict[str, np.ndarray]:
    """Draws a cause `a` and its effect `b = effect(a, e)` from standard normal noise."""
    a, e = np.random.default_rng(0).normal(size=(2, rows))
    return {"a": a, "b": effect(a, e)}


@pytest.mark.parametrize("mechanism", [bc.Linear(), bc.Additive(), bc.Flow()], ids=repr)
@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6])
def test_small_noise_is_learned_as_well_as_large(mechanism, spread):
    data = rows_of_two(lambda a, e: 3 * a + spread * e)
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": bc.Linear(), "b": mechanism})
    report = scm.fit(data)
    assert report["b"].nll == pytest.approx(stats.norm(0, spread).entropy(), abs=0.15)
    assert scm.abduct(data)["b"].std().item() == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("mechanism", [bc.Linear(), bc.Additive(), bc.Flow()], ids=repr)
def test_exact_function_of_the_parents_is_refused(mechanism):
    scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": bc.Linear(), "b": mechanism})
    with pytest.raises(bc.FitError, match=r"'b'.*no noise is left.*Predictor"):
        scm.fit(rows_of_two(lambda a, e: 3 * a + 1))


@pytest.mark.parametrize(
    "effect", [lambda a, e: a + e > 0, lambda a, e: np.exp(3 * e), lambda a, e: np.where(e > 2, 1e6, e)]
)
def test_flow_is_no_worse_than_the_linear_law_and_says_what_it_cannot_fit(effect):
    data = rows_of_two(lambda a, e: effect(a, e).astype(float))
    reports = {}
    for mechanism in (bc.Linear(), bc.Flow()):
        scm = bc.SCM(bc.CausalGraph.parse("a -> b"), {"a": bc.Linear(), "b": mechanism})
        reports[type(mechanism)] = scm.fit(data, training=bc.Training(epochs=30))
    assert reports[bc.Flow]["b"].nll < reports[bc.Linear]["b"].nll + 0.05
    assert "not standard normal" in "; ".join(reports[bc.Flow]["b"].notes)


def test_flow_that_a_linear_law_beats_gives_way_to_it():
    # Steps far too long to end near the start.
    report = flows(bc.CausalGraph.parse("a -> b")).fit(
        rows_of_two(lambda a, e: a + 1e-3 * e), training=bc.Training(epochs=1, learning_rate=0.1, pull=0)
    )
    assert "a linear law with Gaussian noise is kept" in "; ".join(report["b"].notes)
    assert report["b"].nll == pytest.approx(stats.norm(0, 1e-3).entropy(), abs=0.15)
