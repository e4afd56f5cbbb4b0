"""Every experiment, run quickly: what it writes, and that its findings hold."""

import json

import pandas as pd
import pytest

import deepbc as bc
from deepbc.experiments import NAMES, reproduce, title


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_quick_runs_bear_out_the_findings(name, data_folder, tmp_path):
    made = reproduce(name, tmp_path / name, quick=True)
    assert [each.sentence for each in made.findings if not each.holds] == []
    assert {path.name for path in made.folder.iterdir()} == {"rows.csv", "figure.png", "figure.pdf", "provenance.json"}
    record = json.loads((made.folder / "provenance.json").read_text())
    assert record["title"] == title(name)
    assert record["config"]["seed"] == 0
    assert "Morpho-MNIST" in record["data"]
    assert len(pd.read_csv(made.folder / "rows.csv")) > 0


def test_an_unknown_experiment_is_named(tmp_path):
    with pytest.raises(bc.UnknownNameError, match="figure-4"):
        reproduce("figure4", tmp_path)
