"""What a fit takes columns for, and what it finds odd about them."""

import re
import time

import numpy as np
import pandas as pd
import pytest
import torch

import deepbc as bc
from deepbc.data.grid import Grid
from deepbc.data.variables import OPEN, Family, Kind, Variable
from deepbc.scm.column_warnings import Data, column_warnings, law_warnings
from deepbc.scm.determined import how_determined
from deepbc.scm.steps import find_grid

QUICK = bc.Training(epochs=2)
ROWS = 400


def table(**columns):
    """A column x of numbers, and others that are made from a generator of their own."""
    draw = np.random.default_rng(0)
    x = draw.normal(5.0, 1.0, ROWS)
    return pd.DataFrame({"x": x, **{name: make(draw, x) for name, make in columns.items()}})


def found(data, graph="x", **settings):
    """What a fit says of columns before it starts to learn."""

    class Enough(Exception):  # noqa: N818 # it is no error
        pass

    def stop(columns):
        raise Enough(columns)

    scm = bc.SCM(bc.CausalGraph.parse(graph), **settings)
    data = {name: data[name] for name in scm.graph}
    with pytest.raises(Enough) as stopped:
        scm.fit(data, on_columns=stop)
    return stopped.value.args[0]


def test_types_values_and_where_they_come_from_are_told():
    data = table(
        visits=lambda draw, x: draw.poisson(3, ROWS),
        grade=lambda draw, x: np.array(["low", "high"], dtype=object)[(draw.random(ROWS) < 0.25).astype(int)],
        law=lambda draw, x: draw.normal(size=ROWS),
    )
    data = {**data, "v": np.random.default_rng(0).normal(size=(ROWS, 2))}
    types = {"grade": ["low", "high"]}
    columns = found(data, "x; visits; grade; law; v", types=types, mechanisms={"law": bc.Linear()})
    assert {name: (each.type, each.origin) for name, each in columns.items()} == {
        "x": ("real", "inferred"),
        "visits": ("integer", "inferred"),
        "grade": ("ordered", "declared"),
        "law": ("real", "its law"),
        "v": ("vector", "inferred"),
    }
    assert re.fullmatch(r"1\.\d+ to 8\.\d+, such as [\d.]+; [\d.]+; [\d.]+", columns["x"].values)
    assert re.fullmatch(r"0 to \d+, such as \d; \d; \d", columns["visits"].values)
    assert re.fullmatch(r"2 levels: low 7\d %, high 2\d %", columns["grade"].values)
    assert columns["v"].values.startswith("2 numbers each, ")
    assert {each.rows for each in columns.values()} == {ROWS}


ODD = {
    "the number of a row": (lambda draw, x: np.arange(ROWS), "go one way from row to row"),
    "a number of persons": (lambda draw, x: draw.permutation(ROWS) + 1000, "looks like an identifier"),
    "a number drawn for each": (lambda draw, x: draw.permutation(10**6)[:ROWS], "looks like an identifier"),
    "a scaled copy": (lambda draw, x: (1.8 * x + 32).round(2), r"the same as 'x' \(1.8 times it plus 32\)"),
    "a copy": (lambda draw, x: x.copy(), "the same as 'x': neither"),
    "a negative copy": (lambda draw, x: -x, r"the same as 'x' \(-1 times it\)"),
    "a value in between": (lambda draw, x: np.where(draw.random(ROWS) < 0.1, 5.5, x), "are exactly 5.5, where"),
    "few values": (lambda draw, x: draw.choice([0.5, 1.1234567, 1.5, 2.5], ROWS), "only 4 different values"),
    "many levels": (lambda draw, x: np.array([f"l{k}" for k in draw.integers(0, 60, ROWS)]), "has 6?[05][0-9]? levels"),
    "rare levels": (
        lambda draw, x: np.array(["a"] * 200 + ["b"] * 194 + ["c"] * 4 + ["d"] * 2),
        "the levels 'c' and 'd' have fewer than 5 rows",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_columns_are_warned_of(case):
    make, part = ODD[case]
    columns = found(table(y=make), "x; y")
    assert columns["x"].warnings == ()
    assert re.search(part, columns["y"].warnings[0])
    assert columns["y"].warnings[0].startswith("Variable 'y': ")


LUMPS = {
    "zeros": (
        lambda draw, x: np.where(draw.random(ROWS) < 0.3, 0.0, x),
        r"; 0 in (29|30|31|3\d) % of the rows, a floor$",
    ),
    "a cap": (lambda draw, x: x.clip(max=6.0), r"; 6 in \d+ % of the rows, a ceiling$"),
    "both": (
        lambda draw, x: x.clip(3.5, 6.0),
        r"; 3.5 in \d+ % of the rows, a floor; 6 in \d+ % of the rows, a ceiling$",
    ),
    "whole numbers that spread": (
        lambda draw, x: np.where(draw.random(ROWS) < 0.8, 0, draw.integers(1000, 9000, ROWS)),
        r"; 0 in \d+ % of the rows, a floor$",
    ),
}


@pytest.mark.parametrize("case", LUMPS)
def test_a_lump_at_an_end_is_recognised(case):
    make, part = LUMPS[case]
    column = found(table(y=make), "x; y")["y"]
    assert (column.type, column.origin) == ("censored", "inferred")
    assert re.search(part, column.values)
    assert "its least value" not in " ".join(column.warnings)


NO_LUMPS = {
    "a count with many zeros": (lambda draw, x: draw.poisson(draw.gamma(0.3, 5, ROWS)), "integer"),
    "a number": (lambda draw, x: draw.normal(size=ROWS), "real"),
    "cents": (lambda draw, x: np.exp(draw.normal(size=ROWS)).round(2), "real"),
    "tenths that end": (lambda draw, x: draw.uniform(0, 5, ROWS).round(1), "real"),
    "a few at the end": (lambda draw, x: np.where(np.arange(ROWS) < 4, 0.0, x), "real"),
    "grades": (lambda draw, x: np.clip(draw.integers(0, 12, ROWS), 3, 9) + 0.25, "grid"),
}


@pytest.mark.parametrize("case", NO_LUMPS)
def test_what_is_no_lump_is_left_alone(case):
    make, kind = NO_LUMPS[case]
    assert found(table(y=make), "x; y")["y"].type == kind


GRIDS = {
    "half units": (lambda draw, x: (2 * x).round() / 2, (0.5, 0.0)),
    "tens": (lambda draw, x: draw.integers(1, 12, ROWS) * 10, (10.0, 0.0)),
    "quarter points": (lambda draw, x: (4 * x).round() / 4, (0.25, 0.0)),
    "single precision": (lambda draw, x: (5 * x).round().astype(np.float32) / np.float32(5), (0.2, 0.0)),
    "odd numbers": (lambda draw, x: draw.poisson(4, ROWS) * 2 + 1, (2.0, 1.0)),
    "whole numbers and a half": (lambda draw, x: draw.poisson(4, ROWS) + 0.5, (1.0, 0.5)),
}


@pytest.mark.parametrize("case", GRIDS)
def test_coarse_steps_are_recognised(case):
    make, (step, offset) = GRIDS[case]
    data = table(y=make)
    column = found(data, "y")["y"]
    assert (column.type, column.origin) == ("grid", "inferred")
    assert f"in steps of {step:g}" in column.values
    assert find_grid(data["y"].to_numpy()) == Grid(step, offset)


NO_GRIDS = {
    "any numbers": (lambda draw, x: draw.normal(size=ROWS), "real"),
    "cents": (lambda draw, x: np.exp(draw.normal(size=ROWS)).round(2), "real"),
    "ages of which some are halves": (lambda draw, x: draw.integers(1, 160, ROWS) / 2, "real"),
    "whole numbers": (lambda draw, x: draw.poisson(4, ROWS), "integer"),
    "whole numbers as decimals": (lambda draw, x: draw.poisson(4, ROWS).astype(float), "integer"),
    "wide whole numbers": (lambda draw, x: draw.integers(0, 9000, ROWS), "integer"),
    "thirds": (lambda draw, x: (3 * x).round() / 3, "real"),
    "any numbers of single precision": (lambda draw, x: draw.normal(1e6, 1e5, ROWS).astype(np.float32), "real"),
}


@pytest.mark.parametrize("case", NO_GRIDS)
def test_what_is_on_no_coarse_grid_is_left_alone(case):
    make, kind = NO_GRIDS[case]
    assert found(table(y=make), "y")["y"].type == kind


@pytest.mark.parametrize("seed", range(20))
def test_few_rows_of_any_numbers_are_on_no_grid(seed):
    draw = np.random.default_rng(seed)
    for rows, decimals in ((25, 3), (40, 4), (30, 16)):
        assert find_grid(draw.normal(size=rows).round(decimals)) is None


def test_a_grid_can_be_declared_and_denied():
    data = table(y=lambda draw, x: (2 * x).round() / 2, z=lambda draw, x: (50 * x).round() / 50)
    columns = found(data, "y; z", types={"y": "real", "z": "grid"})
    assert [columns[name].type for name in "yz"] == ["real", "grid"]
    with pytest.raises(bc.DataError, match="expected numbers that are equal steps"):
        bc.SCM(bc.CausalGraph({"x": []}), types={"x": "grid"}).fit(data[["x"]])


def test_a_lump_can_be_declared_and_denied():
    data = table(y=lambda draw, x: x.clip(4.0).round(1), z=lambda draw, x: np.where(draw.random(ROWS) < 0.3, 0.0, x))
    columns = found(data, "x; y; z", types={"y": "censored", "z": "real"})
    assert [columns[name].type for name in "yz"] == ["censored", "real"]
    assert "types={'z': 'censored'}" in columns["z"].warnings[0]
    assert found(data, "z", mechanisms={"z": bc.Linear()})["z"].type == "real"
    with pytest.raises(bc.DataError, match="neither comes twice"):
        bc.SCM(bc.CausalGraph({"x": []}), types={"x": "censored"}).fit(data[["x"]])
    with pytest.raises(bc.SettingError, match="expected a learned law of numbers"):
        bc.Censored(bc.Integer())


def test_whole_numbers_under_a_law_of_any_numbers_are_warned_of():
    data = table(y=lambda draw, x: draw.poisson(3, ROWS).astype(float))
    scm, seen = bc.SCM(bc.CausalGraph({"y": []}), {"y": bc.Linear()}), {}
    scm.fit(data[["y"]], on_columns=seen.update, progress=False)
    assert "types={'y': 'integer'}" in seen["y"].warnings[0]


def test_levels_by_other_names_are_the_same():
    data = table(a=lambda draw, x: draw.choice(["r", "s", "t"], ROWS))
    data["b"] = data["a"].map({"r": "z", "s": "x", "t": "y"})
    assert "the same as 'a'" in found(data, "a -> b")["b"].warnings[0]


def test_what_is_usual_is_not_warned_of():
    data = table(
        income=lambda draw, x: draw.integers(20_000, 60_000, ROWS),
        count=lambda draw, x: draw.poisson(2, ROWS),
        truth=lambda draw, x: draw.random(ROWS) < 0.1,
        y=lambda draw, x: x + 0.1 * draw.normal(size=ROWS),
        label=lambda draw, x: draw.choice(["a", "b", "c"], ROWS),
    )
    columns = found(data, "x -> y; count -> label; truth, income, y -> count", bounds={"income": (0, None)})
    assert [each.warnings for each in columns.values()] == [()] * len(columns)


def test_who_declares_a_type_knows_it():
    data = table(y=lambda draw, x: np.arange(ROWS))
    assert found(data, "y", types={"y": "integer"})["y"].warnings == ()
    data["y"] = np.random.default_rng(0).poisson(3, ROWS).astype(float)
    assert "category" in found(data, "y", types={"y": "real"})["y"].warnings[0]


DETERMINED = {
    "a class of a number": lambda x, k: k > 2,
    "a formula of a count": lambda x, k: np.sqrt(k + 1.0) * 7,
    "a product": lambda x, k: x * k,
    "a ratio": lambda x, k: k / x**2,
    "a square": lambda x, k: 3 + x**2 - k * x,
}


@pytest.mark.parametrize("case", DETERMINED)
def test_functions_of_parents_are_warned_of(case):
    data = table(k=lambda draw, x: draw.integers(1, 7, ROWS))
    data["y"] = DETERMINED[case](data["x"], data["k"])
    graph = "x, k -> y" if case not in ("a class of a number", "a formula of a count") else "k -> y"
    warning = found(data, graph)["y"].warnings
    assert "without any noise" in warning[-1]
    assert "Predictor" in warning[-1]
    data["y"] = data["y"].astype(float) + np.random.default_rng(1).normal(size=ROWS)
    assert found(data, graph)["y"].warnings == ()


def test_a_rare_exception_is_no_law():
    k = torch.arange(300.0) % 5
    y = (k > 2).double()
    child = Variable("y")
    assert how_determined(child, y, k.double().unsqueeze(-1))
    y[17] = 1 - y[17]
    assert not how_determined(child, y, k.double().unsqueeze(-1))
    # What hardly ever changes agrees by chance.
    assert not how_determined(
        child, torch.cat([y.new_ones(1), y.new_zeros(299)]), torch.arange(300.0).double()[:, None]
    )


def test_a_function_that_no_formula_finds_is_warned_of_once_learned():
    data = table()
    data["y"] = np.sin(data["x"]) + 1e-5 * np.random.default_rng(1).normal(size=ROWS)
    scm = bc.SCM(
        bc.CausalGraph.parse("x -> y"),
        {"x": bc.Linear(), "y": bc.Equation(predict=lambda u, p: u, abduct=lambda x, p: x)},
    )
    variables = {name: Variable(name, sd=(float(data[name].std()),)) for name in data}
    families = {"y": Family(variables["y"], (variables["x"],))}
    known = Data(families, {"y": bc.Flow()}, {}, {}, ())
    entropy = 0.5 * np.log(2 * np.pi * np.e)
    assert "almost without noise" in law_warnings(known, "y", entropy + np.log(1e-5))[0]
    assert law_warnings(known, "y", entropy + np.log(0.01)) == ()
    assert scm.fit(data, training=QUICK).warnings == ()  # the law is given


def test_warnings_stand_in_the_report_and_are_saved(tmp_path):
    data = table(y=lambda draw, x: np.where(draw.random(ROWS) < 0.3, 5.5, x))
    scm = bc.SCM(bc.CausalGraph.parse("x; y"))
    report = scm.fit(data, training=QUICK)
    assert len(report.warnings) == 1
    assert report.warnings == report["y"].warnings
    assert "share the value 5.5" in " ".join(report["y"].notes)
    frame = report.to_frame()
    assert list(frame["origin"]) == ["inferred", "inferred"]
    assert list(frame["warnings"]) == ["", report.warnings[0]]
    scm.save(tmp_path / "model")
    loaded = bc.SCM.load(tmp_path / "model").report
    assert loaded.warnings == report.warnings
    assert loaded["y"].column == report["y"].column


def test_a_million_rows_are_looked_at_in_two_seconds():
    draw, rows = np.random.default_rng(0), 1_000_000
    makers = (
        (lambda: draw.normal(size=rows), Kind()),
        (lambda: draw.permutation(rows), Kind(whole=True)),
        (lambda: draw.poisson(3, rows), Kind(whole=True)),
        (lambda: draw.normal(size=rows).round(1), Kind()),
    )
    columns, variables = {}, {}
    for k in range(20):
        make, kind = makers[k % 4]
        columns[f"v{k}"] = torch.from_numpy(np.asarray(make(), dtype=float))
        variables[f"v{k}"] = Variable.seen(f"v{k}", columns[f"v{k}"], OPEN, kind)
    names = list(variables)
    families = {
        name: Family(variables[name], tuple(variables[each] for each in names[:k])) for k, name in enumerate(names)
    }
    rows_of = {name: column.unsqueeze(-1) for name, column in columns.items()}
    start = time.thread_time()
    warnings = column_warnings(Data(families, dict.fromkeys(names, bc.Flow()), columns, rows_of, ()))
    assert time.thread_time() - start < 2
    assert sum(map(len, warnings.values())) >= 5
