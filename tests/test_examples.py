"""The examples: their answers against what is known, by the functions of the examples themselves."""

import re
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


@pytest.fixture(scope="module")
def refused():
    """The example of a loan that three methods explain, with its table, its classifier, its model and its applicant."""
    code = example("refused_three_ways")
    code.table = code.simulate(3000, seed=0)
    code.card = code.Scorecard().fit(code.table, code.table["repaid"])
    code.scm = code.causal_model(code.table)
    code.row = code.table[code.card.predict_proba(code.table)[:, 1] < 0.3].iloc[[0]]
    return code


def test_recorded_shapley_values_are_those_of_a_linear_score(refused):
    # Of a linear function: weight times deviation from the mean, summed over the indicators of a class.
    card, table = refused.card, refused.table
    permanent, self_employed, *numbers = ((card.design(refused.row) - card.design(table).mean(0)) * card.weights)[0, 1:]
    expected = dict(zip(refused.INPUTS, [permanent + self_employed, *numbers], strict=True))
    said = refused.SHAP_SAID
    assert said == pytest.approx(expected, abs=1e-6)


def test_recorded_answers_of_dice_are_accepted(refused):
    for changes in [each for several in refused.DICE_SAID.values() for each in several]:
        assert refused.card.predict(refused.row.assign(**changes)) == ["yes"]


def test_refused_loan_has_the_least_distance_over_its_jobs(refused):
    # From outside: laws by least squares, and for each job the nearest noises on a plane, of which oracle O1 tells.
    table, weights = refused.table, refused.card.weights
    one, income, amount, duration = np.ones(len(table)), *(table[name] for name in refused.INPUTS[1:])
    jobs = [table["job"] == job for job in refused.JOBS[1:]]

    def law(child, *parents):
        x = np.column_stack(parents).astype(float)
        found, *_ = np.linalg.lstsq(x, child, rcond=None)
        return found, np.std(child.to_numpy() - x @ found)

    of_income, sd_income = law(income, one, table["age"], *jobs)
    of_amount, sd_amount = law(amount, one, income)
    of_duration, sd_duration = law(duration, one, income, amount)
    by_amount = weights[4] + of_duration[2] * weights[5]
    by_income = weights[3] + of_amount[1] * by_amount + of_duration[1] * weights[5]
    effects = np.array([by_income * sd_income, by_amount * sd_amount, weights[5] * sd_duration])

    def gains(job):
        """What a job brings in log-odds, by itself and through the income."""
        k = refused.JOBS.index(job)
        return [0, *weights[1:3]][k] + by_income * [0, *of_income[2:]][k]

    score, was = refused.card.log_odds(refused.row)[0], refused.row["job"].item()
    costs = {}
    for job in refused.JOBS:
        missing = max(0.0, -(score + gains(job) - gains(was)))
        chosen = bc.backtrack(refused.scm, refused.row, {"job": job}).distance.item()
        costs[job] = chosen + missing**2 / (effects @ effects)

    free = refused.ask_deepbc(refused.scm, refused.card, refused.row)
    same = refused.ask_deepbc(refused.scm, refused.card, refused.row, scope=["income", "amount", "duration"])

    assert free.values["job"] == ["permanent"]
    assert free.distance.item() == pytest.approx(min(costs.values()), rel=1e-4)
    assert same.distance.item() == pytest.approx(costs[was], rel=1e-4)
    assert free.values["age"] == refused.row["age"].item()


def test_guide_shows_the_lines_and_the_output_of_the_example(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (EXAMPLES.parent / "docs" / "explaining_classifiers.md").read_text()
    shown = re.findall(r"^```(py|text)\n(.*?)^```", page, flags=re.M | re.S)

    refused = example("refused_three_ways")
    # What SHAP and DiCE say is shown as recorded, wherever this runs.
    monkeypatch.setitem(refused.main.__globals__, "find_spec", lambda name: None)

    refused.main()

    code, printed = (EXAMPLES / "refused_three_ways.py").read_text(), capsys.readouterr().out
    assert [kind for kind, _ in shown] == ["text", "py", "py", "py"]
    for kind, text in shown:
        assert " ".join(text.split()) in " ".join((code if kind == "py" else printed).split())


@pytest.mark.parametrize("name", ["german_credit", "river_floods", "proteins"])
def test_example_without_data_says_what_to_do(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEEPBC_DATA", str(tmp_path))
    monkeypatch.setattr("deepbc.datasets.download.cache_folder", lambda: tmp_path)
    example(name).main()
    said = capsys.readouterr().out
    assert "Put the file into" in said
    assert len(said.splitlines()) == 1
