"""Answers in plain sentences: what is written by hand is what is said."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import deepbc as bc
from deepbc.data.categories import Levels
from deepbc.data.variables import Kind, Variable
from deepbc.data.world import World
from deepbc.queries.results import Counterfactual, Diagnostics
from deepbc.queries.status import Outcome, status_of

CONVERGED = status_of(Outcome.CONVERGED)
GRADE, SMOKER = Levels(("low", "middle", "high"), ordered=True), Levels((False, True))
KNOWN = {
    "age": Variable("age", sd=(10.0,), whole=True),
    "children": Variable("children", sd=(1.5,), whole=True),
    "income": Variable("income", sd=(5.8,)),
    "amount": Variable("amount", lower=0.0, sd=(500.0,)),
    "tiny": Variable("tiny", sd=(3e-10,)),
    "huge": Variable("huge", sd=(1e11,)),
    "grade": Variable("grade", sd=(0.8,), levels=GRADE),
    "smoker": Variable("smoker", levels=SMOKER),
    "job": Variable("job", levels=Levels(("baker", "clerk"))),
    "v": Variable("v", (2,), sd=(1.0, 1.0)),
    "long": Variable("long", (5,), sd=(1.0,) * 5),
    "face": Variable("face", (2, 2), sd=(0.3,)),
}


def column(name, rows):
    """Values of a variable as an answer has them: text as objects, all else as a tensor."""
    levels = KNOWN[name].levels if name in KNOWN else None
    if levels and levels.words:
        return np.asarray(rows, dtype=object)
    return torch.tensor(np.asarray(rows, dtype=float))


def made(changes, asked, moved, status=CONVERGED, samples=None, **settings):
    """An answer made by hand: for each variable its values before and after."""
    names = list(changes)
    before, after = ({name: column(name, pair[k]) for name, pair in changes.items()} for k in (0, 1))
    known = {name: KNOWN.get(name, Variable(name)) for name in names}
    kinds = {name: Kind(each.levels, each.whole) for name, each in known.items() if each.discrete}
    queries = torch.Size(np.shape(status))
    batch = torch.Size([samples, *queries]) if samples else queries
    share = {name: torch.as_tensor(moved.get(name, 0.0), dtype=torch.float64).expand(batch) for name in names}
    zeros = torch.zeros(batch, dtype=torch.float64)
    fields = {"error": zeros, "farthest": zeros + 1.0, "clipped": zeros, "certainty": torch.ones(queries)}
    fields |= {"unseen": {}, "probabilities": {}}
    diagnostics = Diagnostics(*[torch.ones(queries)] * 3) if samples else None
    fields |= {"graph": bc.CausalGraph({name: [] for name in names}), "noise": {}, "status": status, "batch": batch}
    fields |= {"values": after, "factual": World(before, {}, queries, kinds), "moved": share, "variables": known}
    fields |= {"antecedent": asked, "distance": sum(share.values()), "diagnostics": diagnostics}
    return Counterfactual(**fields | settings)


def number(value):
    return torch.tensor(float(value))


SENTENCES = {
    "numbers, whole ones and labels": (
        made(
            {"age": (41, 43), "income": (24.3, 26.1), "grade": ("low", "low"), "amount": (1512.3, 2000.0)},
            {"amount": number(2000)},
            {"age": 0.72, "income": 0.28},
        ),
        "Had amount been 2,000 instead of 1,512, age would have been 43 instead of 41 and income 26.1 instead of "
        "24.3; grade would have stayed at low. The change traces back to age (72 % of the distance) and income "
        "(28 %).",
    ),
    "a forced value": (
        made({"age": (41, 41), "income": (24.3, 30.0)}, {"income": number(30)}, {"income": 2.0}, forced=True),
        "Had income been forced to 30 instead of 24.3, nothing else would have changed. The law of income is "
        "broken, and only its effects follow.",
    ),
    "two forced values, one a label": (
        made(
            {"job": ("baker", "clerk"), "children": (3, 2), "income": (24.3, 22.0)},
            {"job": np.array("clerk", dtype=object), "children": number(2)},
            {"job": 1.0},
            forced=True,
        ),
        "Had job been forced to clerk instead of baker and children to 2 instead of 3, income would have been 22 "
        "instead of 24.3. The laws of job and children are broken, and only their effects follow.",
    ),
    "at least": (
        made(
            {"income": (24.3, 26.1), "amount": (1512.3, 2000.0)}, {"amount": bc.at_least(number(2000))}, {"income": 1}
        ),
        "Had amount been at least 2,000 instead of 1,512, income would have been 26.1 instead of 24.3 and amount "
        "2,000. The change traces back to income alone.",
    ),
    "between, and a label at most": (
        made(
            {"amount": (1512.3, 900.0), "grade": ("high", "middle")},
            {
                "amount": bc.between(number(500), number(900)),
                "grade": bc.at_most(np.array("middle", dtype=object)),
            },
            {"amount": 1.0, "grade": 3.0},
        ),
        "Had amount been between 500 and 900 instead of 1,512 and grade at most middle instead of high, amount "
        "would have been 900 and grade middle. The change traces back to grade itself (75 % of the distance) and "
        "amount itself (25 %).",
    ),
    "one of some labels": (
        made({"age": (41, 43), "grade": ("low", "high")}, {"grade": bc.one_of("middle", "high")}, {"grade": 1.0}),
        "Had grade been middle or high instead of low, age would have been 43 instead of 41 and grade high. The change "
        "traces back to grade itself.",
    ),
    "nothing has to change": (
        made({"age": (41, 41), "amount": (1512.3, 1512.3)}, {"amount": bc.at_least(number(1000))}, {}),
        "Had amount been at least 1,000 (it is 1,512), nothing would have changed.",
    ),
    "a value that is there already": (
        made({"age": (41, 41), "smoker": (True, True)}, {"smoker": number(1)}, {}),
        "Had smoker been True (as it is), nothing would have changed.",
    ),
    "truth values": (
        made({"smoker": (False, True), "children": (2, 0)}, {"smoker": number(1)}, {"smoker": 0.4}),
        "Had smoker been True instead of False, children would have been 0 instead of 2. The change traces back "
        "to smoker itself.",
    ),
    "vectors and images": (
        made(
            {
                "v": ([0.5, -0.001], [1.0, 0.0004]),
                "long": ([0, 0, 0, 0, 0], [0, 1, 2, 0, 0]),
                "face": ([[0, 0], [0, 0]], [[0, 1], [0, 0]]),
                "age": (41, 43),
            },
            {"age": number(43)},
            {"v": 1.0},
        ),
        "Had age been 43 instead of 41, v would have been (1, 0.0004) instead of (0.5, -0.001); long would have "
        "changed in 2 of its 5 numbers; the image face would have changed. The change traces back to v alone.",
    ),
    "an image that was asked for, and one that stays": (
        made(
            {"face": ([[0, 0], [0, 0]], [[0, 1], [0, 0]]), "long": ([0] * 5, [0] * 5), "age": (41, 43)},
            {"face": torch.tensor([[0.0, 1.0], [0.0, 0.0]])},
            {"face": 1.0},
        ),
        "Had the image face been what was asked, age would have been 43 instead of 41; long would have stayed as "
        "it is. The change traces back to the image face itself.",
    ),
    "magnitudes far apart": (
        made({"tiny": (1e-9, 2.5e-9), "huge": (1e12, 1.25e12)}, {"tiny": number(2.5e-9)}, {"tiny": 9.0, "huge": 1e-9}),
        "Had tiny been 2.5e-9 instead of 1e-9, huge would have been 1,250,000,000,000 instead of "
        "1,000,000,000,000. The change traces back to tiny itself (more than 99 % of the distance).",
    ),
    "odd names": (
        made({"a, b": (1.0, 2.0), "x\n%": (3.0, 4.0)}, {"x\n%": number(4)}, {"a, b": 1.0}),
        "Had 'x %' been 4 instead of 3, 'a, b' would have been 2 instead of 1. The change traces back to 'a, b' alone.",
    ),
    "a change too small to tell": (
        made({"income": (24.3, 24.3001), "age": (41, 41)}, {"income": number(24.3001)}, {"income": 1e-9}),
        "Had income been 24.3001 instead of 24.3, hardly anything would have changed. The change traces back to "
        "income itself.",
    ),
    "a small change": (
        made({"income": (24.3, 24.34), "age": (41, 41)}, {"age": number(41)}, {"income": 1e-9}),
        "Had age been 41 (as it is), income would have been 24.34 instead of 24.3. The change traces back to "
        "income alone.",
    ),
    "doubts": (
        made(
            {"income": (24.3, 60.0), "age": (41, 41)},
            {"age": number(41)},
            {"income": 1.0},
            certainty=torch.tensor(0.97),
            farthest=torch.tensor(5.04),
            error=torch.tensor(0.05),
        ),
        "Had age been 41 (as it is), income would have been 60 instead of 24.3. The change traces back to income "
        "alone. What was asked is met up to 0.05 standard deviations. With a chance of 3 % a nearer world was "
        "missed. It rests on noise 5 standard deviations out, of which data show next to nothing.",
    ),
    "ends with many digits": (
        made(
            {"income": (24.3, 30.1234567890), "amount": (9.0, 10.123456789), "tiny": (1e-9, 2.5e-9)},
            {
                "income": bc.at_least(number(30.1234567890)),
                "amount": number(10.123456789),
                "tiny": bc.at_most(number(2.6e-9)),
            },
            {"income": 1.0},
        ),
        "Had income been at least 30.1235 instead of 24.3, amount 10.1235 instead of 9 and tiny at most 2.6e-9 (it is "
        "1e-9), income would have been 30.1235 and tiny 2.5e-9. The change traces back to income itself.",
    ),
    "no answer": (
        made(
            {"amount": (9.0, 9.0)},
            {"amount": number(-3)},
            {},
            status_of(Outcome.OUT_OF_BOUNDS, name="amount", lower=0.0, upper=10.0),
        ),
        "What would have been, had amount been -3 instead of 9, has no answer that holds (infeasible). 'amount' "
        "is asked to leave its bounds (0, 10). The row is left as it was. Ask for a value inside the bounds.",
    ),
    "many variables": (
        made({f"x{k}": (1.0, 1.0 + (k > 4)) for k in range(20)}, {"x19": number(2)}, {f"x{k}": 1.0 for k in range(10)}),
        "Had x19 been 2 instead of 1, x5 would have been 2 instead of 1, x6 2 instead of 1, x7 2 instead of 1, "
        "x8 2 instead of 1, x9 2 instead of 1, x10 2 instead of 1, x11 2 instead of 1, x12 2 instead of 1, x13 2 "
        "instead of 1, x14 2 instead of 1, x15 2 instead of 1 and x16 2 instead of 1; 2 more would have changed, "
        "by less; the other 5 variables would have stayed as they are. The change traces back to x0 (10 % of the "
        "distance), x1 (10 %), x2 (10 %), x3 (10 %) and 6 more.",
    ),
    "values that are no numbers": (
        made({"income": (24.3, np.nan), "amount": (1.0, np.inf)}, {"income": number(2)}, {"income": np.nan}),
        "Had income been 2 instead of 24.3, amount would have been inf instead of 1.",
    ),
    "samples": (
        made(
            {
                "income": (24.0, np.linspace(20, 40, 201)),
                "age": (41, [40] * 100 + [44] * 101),
                "grade": ("low", ["low"] * 41 + ["middle"] * 160),
                "job": ("baker", ["baker"] * 201),
            },
            {"grade": bc.at_most(np.array("middle", dtype=object))},
            {},
            samples=201,
        ),
        "Had grade been at most middle (it is low), then over 201 worlds drawn income is 30 in the middle and 21 "
        "to 39 in 90 %, instead of 24; age is 44 in the middle and 40 to 44 in 90 %, instead of 41; grade is "
        "middle in 80 % and low in 20 %, instead of low; job stays at baker.",
    ),
    "samples that hardly vary": (
        made({"age": (41, [41] * 199 + [43] * 2)}, {"age": bc.at_least(number(30))}, {}, samples=201),
        "Had age been at least 30 (it is 41), then over 201 worlds drawn age stays at 41 in 90 %.",
    ),
    "no rows": (
        made({"age": ([], [])}, {"age": torch.zeros(0)}, {}, np.array([], dtype=object)),
        "No row was asked about.",
    ),
    "many rows": (
        made(
            {
                "age": ([41, 50, 20, 30], [43, 50, 21, 30]),
                "grade": (["low"] * 4, ["middle", "low", "low", "low"]),
                "job": (["baker"] * 4, ["baker"] * 4),
                "amount": ([1.0, 2000.0, 3.0, 4.0], [2000.0, 2000.0, 2000.0, 4.0]),
            },
            {"amount": torch.full((4,), 2000.0)},
            {"age": [3.0, 0.0, 1.0, 0.0], "grade": [1.0, 0.0, 2.0, 0.0]},
            np.array([CONVERGED] * 3 + [status_of(Outcome.FROZEN, names="'amount'")], dtype=object),
            farthest=torch.tensor([1.0, 1.0, 6.0, 9.0]),
            certainty=torch.tensor([1.0, 1.0, 0.9, 0.2]),
        ),
        "Had amount been 2,000: of 4 rows, 3 converged and 1 infeasible. In 1 of them nothing changes. In the "
        "middle of the rows (and in 90 % of them) age changes by +1 (0 to +2). In 1 of 3 rows grade changes, "
        "from low to middle. In every row job stays as it is. Most of the change traces back to age in 1 row and "
        "grade in 1. In 1 row a nearer world was missed with a chance of up to 10 %. 1 row rests on noise beyond "
        "4 standard deviations, of which data show next to nothing. 1 row is infeasible: No noise in scope can "
        "reach the antecedent ('amount'): neither its own nor that of a cause may move. Widen the scope.",
    ),
    "many rows that ask for different things": (
        made(
            {"age": ([41, 50], [43, 52]), "amount": ([1.0, 2.0], [5.0, 6.0])},
            {"amount": torch.tensor([5.0, 6.0])},
            {"age": [1.0, 1.0]},
            np.array([CONVERGED] * 2, dtype=object),
        ),
        "Had amount been what is asked of each row: of 2 rows, all converged. In the middle of the rows (and in "
        "90 % of them) age changes by +2 (+2 to +2). Most of the change traces back to age in every row that "
        "changes.",
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_sentence_is_that_written_by_hand(case):
    answer, sentence = SENTENCES[case]
    assert answer.describe() == sentence


def test_a_row_of_many_is_told_in_full():
    answer, _ = SENTENCES["many rows"]
    said = answer.describe(2)
    assert said.startswith("Had amount been 2,000 instead of 3, age would have been 21 instead of 20; grade")
    assert answer.describe(3).startswith("What would have been, had amount been 2,000 instead of 4, has no answer")
    with pytest.raises(bc.DataError, match=r"expected a row from 0 to 3, got 4"):
        answer.describe(4)


@pytest.fixture(scope="module")
def fitted():
    """age -> income -> score, where age is whole; score follows from income. And three rows."""
    draw = np.random.default_rng(0)
    age = np.round(draw.normal(40, 10, 300)).astype(int)
    income = 0.5 * age + draw.normal(0, 3, 300)
    scm = bc.SCM(bc.CausalGraph.parse("age -> income"), {"age": bc.Integer(bc.Linear()), "income": bc.Linear()})
    scm.fit({"age": age, "income": income})
    scm = scm.extend("score", bc.Predictor(lambda p: 2 * p["income"] + 1), ["income"])
    return scm, {"age": age[:3], "income": income[:3]}


def test_predictors_and_forced_questions_are_told(fitted):
    scm, rows = fitted
    one = {name: each[0] for name, each in rows.items()}
    said = bc.backtrack(scm, one, {"score": 61.0}).describe()
    assert said.startswith("Had score been 61 instead of ")
    assert "income would have been 30 instead of" in said or "and income 30 instead of" in said
    assert "traces back to score" not in said
    forced = bc.intervene(scm, one, {"income": 30.0})
    assert forced.forced
    assert "score would have been 61 instead of" in forced.describe()
    assert "age would have stayed at 41" in forced.describe()
    drawn = bc.backtrack_samples(scm, rows, {"income": 30.0}, samples=20, seed=0).describe()
    assert drawn.startswith("Had income been 30: of 3 rows with 20 worlds drawn for each, all converged.")


def test_spread_is_that_of_the_fit(fitted):
    scm, rows = fitted
    cf = bc.backtrack(scm, rows, {"income": 30.0})
    assert cf.variables["income"].sd == scm.variables["income"].sd
    assert replace(cf, variables={}).describe()


def misfitting():
    """a -> x -> y and z apart: x has a value in between that many rows share."""
    draw = np.random.default_rng(0)
    a = draw.normal(size=400)
    x = np.where(draw.random(400) < 0.2, 0.5, a + draw.normal(size=400))
    data = {"a": a, "x": x, "y": x + 0.3 * draw.normal(size=400), "z": draw.normal(size=400)}
    scm = bc.SCM(bc.CausalGraph.parse("a -> x -> y; z"), dict.fromkeys("axyz", bc.Linear()))
    scm.fit(data, progress=False)
    return scm, {name: column[0] for name, column in data.items()}, {name: column[:5] for name, column in data.items()}


def test_laws_that_misfit_are_named_where_they_take_part(tmp_path):
    scm, row, rows = misfitting()
    said = (
        r"The law of x \(19 % of its rows share the value 0\.5.*\) misfits its data, so that this answer may mislead\."
    )
    for cf in (
        bc.backtrack(scm, row, {"y": 2.0}),
        bc.backtrack(scm, rows, {"x": 1.0}),
        bc.backtrack_samples(scm, row, {"y": 2.0}, samples=20, seed=0),
        bc.backtrack(scm, row, {"a": 2.0}),
        bc.intervene(scm, row, {"a": 2.0}),
    ):
        assert re.search(said, cf.describe())
    for cf in (
        bc.backtrack(scm, row, {"z": 2.0}),
        bc.intervene(scm, row, {"x": 2.0}),
        bc.intervene(scm, rows, {"y": 2.0}),
        bc.backtrack(scm.replace("x", bc.Equation(predict=lambda u, p: u, abduct=lambda x, p: x)), row, {"x": 1.0}),
    ):
        assert "misfits" not in cf.describe()
    scm.save(tmp_path / "model")
    assert re.search(said, bc.backtrack(bc.SCM.load(tmp_path / "model"), row, {"y": 2.0}).describe())
