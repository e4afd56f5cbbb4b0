"""The experiments, run quickly: what they write, that their findings hold, and that a finding can fail."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

import deepbc as bc
from deepbc.datasets import digits
from deepbc.errors import DataError
from deepbc.experiments import NAMES, given, reproduce, title
from deepbc.experiments.judge import train_judge

PROGRAM = Path(sys.executable).parent / "deepbc"


@pytest.fixture(scope="module")
def made(data_folder, tmp_path_factory):
    """What `deepbc reproduce all --quick` wrote, and said."""
    out = tmp_path_factory.mktemp("results")
    words = [PROGRAM, "reproduce", "all", "--quick", "--out", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return out, done


@pytest.mark.slow(minutes=2)
def test_quick_runs_bear_out_the_findings(made):
    out, done = made
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILS" not in done.stdout
    for name in NAMES:
        assert f"{name}: " in done.stdout
        files = {path.name for path in (out / name).iterdir()}
        assert files == {"rows.csv", "figure.png", "figure.pdf", "provenance.json"}
        record = json.loads((out / name / "provenance.json").read_text())
        assert record["title"] == title(name)
        assert record["config"]["seed"] == 0
        assert record["findings"]
        assert "digits" in record["data"] if name == "truth-digits" else record["data"] == "Morpho-MNIST"


# How the rows of each experiment would look if its first claims were false.
SPOILT = {
    "figure-4": lambda rows: rows.assign(thickness=rows.thickness + 0.1 * (rows.kind == "interventional")),
    "figure-5": lambda rows: rows.assign(thickness=rows.thickness.where(rows.kind != "backtracking", 2.0)),
    "figure-9": lambda rows: rows.assign(loss=rows.loss + 1e6 * (rows.iteration == 100)),
    "figure-10": lambda rows: rows.assign(thickness=rows.thickness + 0.2 * (rows.kind == "ours")),
    "figure-11": lambda rows: rows.assign(thickness=rows.thickness + 0.1 * (rows.weight == 1000)),
    "truth-digits": lambda rows: rows.assign(thickness=rows.thickness + 0.2),
    "image-quality": lambda rows: rows.assign(**{"null error": rows["null error"] + 0.1}),
}


@pytest.mark.slow(minutes=2)
def test_findings_can_fail_and_rows_are_drawn_again(made):
    out, _ = made
    for name, file in NAMES.items():
        experiment = importlib.import_module(f"deepbc.experiments.{file}")
        rows = pd.read_csv(out / name / "rows.csv")
        assert all(each.holds for each in experiment.findings(rows)), name
        assert not all(each.holds for each in experiment.findings(SPOILT[name](rows))), name
        assert experiment.render(rows).axes, name


def test_an_unknown_experiment_is_named(tmp_path):
    with pytest.raises(bc.UnknownNameError, match="figure-4"):
        reproduce("figure4", tmp_path)


def test_without_the_set_rows_are_drawn(monkeypatch):
    def none(split):
        raise DataError("no network")

    monkeypatch.setattr(given.morphomnist, "load", none)
    monkeypatch.delenv("DEEPBC_DATA", raising=False)
    columns, source = given.numbers(50, 0)
    assert {name: len(column) for name, column in columns.items()} == {"thickness": 50, "intensity": 50}
    assert "equations" in source
    columns, source = given.images("test", 20, 0)
    assert columns["image"].shape == (20, 28, 28)
    assert "strokes" in source

    # A set that is named and cannot be read is never passed over.
    monkeypatch.setenv("DEEPBC_DATA", "nowhere")
    with pytest.raises(DataError, match="no network"):
        given.numbers(50, 0)


def test_other_values_are_observed_ones_of_another_bin():
    values = torch.rand(3000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 2
    drawn = given.others(values, 0)
    low, width = values.min(), (values.max() - values.min()) / 9
    bins = [((each - low) / width).floor().clamp_max(8) for each in (values, drawn)]
    assert (bins[0] != bins[1]).all()
    assert torch.isin(drawn, values).all()
    # Uniform over the observed values, not over bins: most are small.
    assert abs(drawn.median() - values.median()) < 0.1


def test_pixels_come_back_as_pictures():
    image = digits.sample(3, seed=0).values["image"]
    torch.testing.assert_close(given.pictures(given.pixels(image)).float(), image, atol=0.051, rtol=0)


def test_a_judge_reads_what_it_learned(tmp_path):
    data = digits.sample(1500, seed=0).values
    training = bc.Training(epochs=12, batch=64, learning_rate=2e-3, average=50, pull=0.0, validation=0.1)
    read = train_judge(data, ["intensity"], training, 0, tmp_path)
    test = digits.sample(200, seed=1).values
    error = (read(test) - test["intensity"]).abs().mean()
    assert error < 0.25 * (test["intensity"] - test["intensity"].mean()).abs().mean()
    again = train_judge(data, ["intensity"], training, 0, tmp_path)
    torch.testing.assert_close(again(test), read(test), atol=0, rtol=0)
