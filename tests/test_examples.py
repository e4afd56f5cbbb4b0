"""The examples on real tables: their answers against what is known, by the functions of the examples themselves."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize

import deepbc as bc
from deepbc.datasets import tables

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str) -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="example"))


def check_answer(scm, cf):
    """The antecedent is met by a fresh prediction, moves add up, and what is not upstream keeps its noise."""
    assert (np.asarray(cf.status) == "converged").all()
    fresh = scm.predict(cf.noise)
    upstream = set(cf.antecedent).union(*(scm.graph.ancestors(name) for name in cf.antecedent))
    for name, asked in cf.antecedent.items():
        assert np.allclose(fresh[name], asked, rtol=1e-8)
    assert np.allclose(sum(cf.moved.values()), cf.distance, rtol=1e-9)
    for name in set(scm.graph) - upstream:
        assert np.allclose(cf.noise[name], cf.factual.noise[name], rtol=0, atol=1e-12)
        assert np.all(np.asarray(cf.moved[name]) == 0)


@pytest.fixture(scope="module")
def credit(data_folder):
    """The example of German credit with its data, its classifier and its model."""
    code = example("german_credit")
    code.data = tables.german_credit()
    code.predictor = code.classifier(code.data)
    code.scm = code.causal_model(code.data, code.predictor)
    code.unrelated = code.wachter(code.predictor, code.data)
    return code


def test_refused_loan_has_the_published_explanation(credit):
    # Oracle O3.
    weights = {"age": 1.0, "amount": 0.9909, "duration": 0.6094}
    assert credit.weights(credit.scm, credit.data) == pytest.approx(weights, abs=1e-4)

    cf = credit.backtracking(credit.scm, credit.data)

    assert cf.values["age"].item() == pytest.approx(27.19, abs=0.01)
    assert cf.values["amount"].item() == pytest.approx(2717, abs=2)
    assert cf.values["duration"].item() == pytest.approx(35.65, abs=0.01)
    assert cf.values["male"].item() == 0
    check_answer(credit.scm, cf)


def test_wachter_moves_the_duration_alone(credit):
    # Oracle O3.
    cf = credit.unrelated
    assert cf.values["duration"].item() == pytest.approx(32.69, abs=0.01)
    assert [cf.values[name].item() for name in ("male", "age", "amount")] == [0, 24, 4308]


@pytest.mark.parametrize("kind", ["absolute", "squared"])
def test_identity_laws_give_the_explanation_of_wachter(credit, kind):
    # Oracle O6: the level set of the classifier is a plane, so the nearest row has a closed form.
    names, sd = credit.SCOPE, credit.data[credit.SCOPE].std(ddof=0).to_numpy()
    row, scm = credit.data[credit.NAMES].iloc[credit.APPLICANT], credit.unrelated_model(credit.predictor)
    start = row[names].to_numpy(float)

    def logit(values):
        return float(scm.complete(values={**row, **dict(zip(names, values, strict=True))}).values["bad"].logit())

    slopes = np.array([logit(start + step) - logit(start) for step in np.diag(sd)])
    if kind == "squared":
        weights = dict(zip(names, sd**-2, strict=True))
        cf = bc.backtrack(scm, row, {"bad": 0.5}, distance=bc.Squared(weights), scope=names)
        moves = -slopes * logit(start) / (slopes @ slopes)
    else:
        cf = credit.unrelated
        moves = np.where(np.abs(slopes) == np.abs(slopes).max(), -logit(start) / slopes, 0)

    found = np.array([cf.values[name].item() for name in names])
    assert (found - start) / sd == pytest.approx(moves, abs=1e-6)
    check_answer(scm, cf)


def test_flood_came_from_all_three_rivers(data_folder):
    code = example("river_floods")
    flows = code.aligned(tables.rivers())
    early = flows.iloc[: code.LEARNED]
    scm, row, ordinary = code.model(early), code.flood(flows), float(early[code.END].median())

    cf = bc.backtrack(scm, row, {code.END: ordinary})

    assert row[code.END] == flows[code.END].max()
    check_answer(scm, cf)
    shares = {name: (cf.moved[name] / cf.distance).item() for name in scm.graph}
    assert sum(shares[name] for name in code.HEADS) > 0.9
    assert max(shares.values()) < 0.5
    # Flows add up: what the other two bring is too much, whatever the third does.
    for name in code.HEADS:
        alone = bc.backtrack(scm, row, {code.END: ordinary}, scope=[name])
        assert alone.status == "infeasible"
        assert alone.error > 1
    # From outside: the least distance over the noises of the three and of the meeting, with the end pinned.
    u = np.array([cf.factual.noise[name].item() for name in scm.graph])

    def cost(free):
        noise = dict(zip([*code.HEADS, code.MEETING], free, strict=True))
        implied = scm.complete(values={code.END: ordinary}, noise=noise).noise[code.END].item()
        return ((np.append(free, implied) - u) ** 2).sum()

    found = optimize.minimize(cost, u[:-1], method="Nelder-Mead", options={"maxiter": 1500, "fatol": 1e-9})
    assert cf.distance.item() == pytest.approx(found.fun, rel=1e-4)


def test_laws_of_the_rivers_hold_on_later_rows(data_folder):
    code = example("river_floods")
    raw = tables.rivers()
    flows = code.aligned(raw)
    scm = code.model(flows.iloc[: code.LEARNED])
    late = flows.iloc[code.LEARNED :]
    assert 8 <= code.delay(raw) <= 20
    noise = scm.abduct(late)
    again = scm.predict(noise)
    for name in scm.graph:
        assert np.allclose(again[name], late[name], rtol=1e-9)
    # What the page of the example says: the graph has no rain.
    assert np.corrcoef([noise[name].numpy() for name in code.HEADS])[0, 1] > 0.8


def test_proteins_keep_their_noise_downstream(data_folder):
    code = example("proteins")
    cells, graph = tables.proteins(), tables.protein_graph()
    scm = code.linear_model(graph, cells)
    rows = cells[cells[code.ASKED] > cells[code.ASKED].quantile(0.99)]
    ordinary = float(cells[code.ASKED].median())

    cf = bc.backtrack(scm, rows, {code.ASKED: ordinary})

    check_answer(scm, cf)
    assert len(rows) == len(cf.distance) > 50
    # The laws are linear in logarithms, so the answer has a closed form: oracle O1 with one row of J.
    base = scm.predict({name: [0.0] * 12 for name in graph})[code.ASKED].log()[0]
    unit = {name: np.eye(12)[k] for k, name in enumerate(graph)}
    effect = (scm.predict(unit)[code.ASKED].log() - base).numpy()[: len(graph)]
    u = np.stack([cf.factual.noise[name] for name in graph], axis=-1)
    expected = u + np.outer(np.log(ordinary) - base.item() - u @ effect, effect / (effect @ effect))
    found = np.stack([cf.noise[name] for name in graph], axis=-1)
    assert found == pytest.approx(expected, abs=1e-6)
    for name in graph:
        assert (cf.values[name] > 0).all()


@pytest.mark.parametrize("name", ["german_credit", "river_floods", "proteins"])
def test_example_without_data_says_what_to_do(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEEPBC_DATA", str(tmp_path))
    monkeypatch.setattr("deepbc.datasets.download.cache_folder", lambda: tmp_path)
    example(name).main()
    said = capsys.readouterr().out
    assert "Put the file into" in said
    assert len(said.splitlines()) == 1
