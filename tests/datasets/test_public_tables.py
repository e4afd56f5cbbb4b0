"""The public tables: small files of their form are downloaded and read, and counterparts are drawn."""

import hashlib
import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from file_server import serve

from deepbc.datasets import download, tables
from deepbc.datasets.download import Source
from deepbc.errors import DataError, UnknownNameError
from deepbc.graph import CausalGraph
from deepbc.recipes.tables import STUDIES

READERS = {name: getattr(tables, name) for name in tables.SOURCES}
COMPAS = "days_b_screening_arrest,is_recid,c_charge_degree,two_year_recid,age,sex,race,juv_fel_count,juv_misd_count,\
juv_other_count,priors_count,decile_score,priors_count,name"
# Rows of the form of each file, made up; the last has a gap, or is one that the reader leaves out.
FILES = {
    "adult": [
        "30, Private, 100000, Masters, 14, Divorced, Sales, Unmarried, Black, Female, 0, 0, 45, United-States, >50K",
        "20, ?, 100000, 10th, 6, Never-married, ?, Own-child, White, Male, 0, 0, 20, United-States, <=50K",
        "",
    ],
    "compas": [
        COMPAS,
        "-1,0,F,0,30,Male,Other,0,0,0,2,7,2,made up",
        "5,1,M,1,40,Female,Other,0,0,0,1,10,1,made up",
        "31,1,M,1,40,Female,Other,0,0,0,1,10,1,made up",
        "3,-1,M,1,40,Female,Other,0,0,0,1,10,1,made up",
        ",1,M,1,40,Female,Other,0,0,0,1,10,1,made up",
    ],
    "insurance": ["age,sex,bmi,children,smoker,region,charges", "50,male,25.5,2,no,northwest,1234.56"],
    "law_school": [
        "decile1b,decile3,lsat,ugpa,zfygpa,zgpa,fulltime,fam_inc,male,tier,race,pass_bar",
        "1.0,2.0,40.5,3.1,0.2,0.3,2.0,4.0,1.0,3.0,White,0.0",
        "1.0,2.0,35.5,3.1,0.2,0.3,1.0,2.0,0.0,5.0,Non-White,1.0",
    ],
    "mpg": [
        "mpg,cylinders,displacement,horsepower,weight,acceleration,model_year,origin,name",
        "20.5,6,200.0,90.0,3000,15.5,75,usa,made up",
        "30.5,4,100.0,70.0,2000,17.5,80,japan,made up",
        "20.5,6,200.0,,3000,15.5,75,usa,made up",
    ],
    "titanic": [
        "survived,pclass,sex,age,sibsp,parch,fare,embarked,class,who,adult_male,deck,embark_town,alive,alone",
        "1,1,female,33.5,1,0,80.0,C,First,woman,False,C,Cherbourg,yes,False",
        "0,3,male,21.0,0,0,8.0,S,Third,man,True,,Southampton,no,True",
        "0,2,male,41.0,0,0,8.0,S,Second,man,True,,Southampton,no,True",
        "0,3,male,,0,0,8.0,S,Third,man,True,,Southampton,no,True",
    ],
}
CONTENT = {name: "\n".join(lines).encode() for name, lines in FILES.items()}


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The made-up files on a server, an empty cache, and no folder of data."""
    monkeypatch.setattr(download, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(download, "RETRIES", 0)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("DEEPBC_DATA", raising=False)
    files = {name: next(iter(source.checksums)) for name, source in tables.SOURCES.items()}
    with serve({files[name]: content for name, content in CONTENT.items()}) as server:
        for name, content in CONTENT.items():
            sums = {files[name]: hashlib.sha256(content).hexdigest()}
            source = Source("tables", f"http://127.0.0.1:{server.server_port}/set/", sums)
            monkeypatch.setitem(tables.SOURCES, name, source)
        yield server


def test_every_public_table_is_pinned_to_a_commit():
    for source in tables.SOURCES.values():
        host, *place = source.url.removeprefix("https://").split("/")
        assert host == "raw.githubusercontent.com"
        assert len(place[2]) == 40
        assert set(place[2]) <= set("0123456789abcdef")
        assert all(len(each) == 64 for each in source.checksums.values())


@pytest.mark.parametrize("name", READERS)
def test_public_table_is_downloaded_once_and_has_its_columns(name, served):
    for _ in range(2):
        table = READERS[name]()
    assert len(served.asked) == 1
    assert set(tables.GRAPHS[name]) <= set(table)
    assert not table.isna().any(axis=None)


def test_adult_has_names_and_no_gaps(served):
    table = tables.adult()
    assert table.loc[0, ["age", "sex", "hours_per_week", "income"]].tolist() == [30, "Female", 45, ">50K"]
    assert len(table) == 1


def test_compas_keeps_what_was_screened_near_the_arrest(served):
    table = tables.compas()
    assert table["age"].tolist() == [30, 40]
    assert table["recidivist"].tolist() == [False, True]
    assert table["decile_score"].cat.ordered
    assert table["decile_score"].tolist() == [7, 10]


def test_law_school_has_readable_columns(served):
    table = tables.law_school()
    assert table["sex"].tolist() == ["male", "female"]
    assert table["part_time"].tolist() == [True, False]
    assert table["pass_bar"].tolist() == [False, True]
    assert table["tier"].cat.categories.tolist() == [3, 5]


def test_cars_and_passengers_have_ordered_levels(served):
    assert tables.mpg()["cylinders"].cat.categories.tolist() == [4, 6]
    table = tables.titanic()
    assert table["pclass"].cat.categories.tolist() == ["third", "second", "first"]
    assert table["pclass"].tolist() == ["first", "third", "second"]
    assert table["survived"].tolist() == [True, False, False]
    assert table["embarked"].tolist() == ["Cherbourg", "Southampton", "Southampton"]


@pytest.mark.parametrize("name", READERS)
def test_without_a_network_the_file_and_its_address_are_named(name, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(download, "RETRIES", 0)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("DEEPBC_DATA", raising=False)
    (file,) = tables.SOURCES[name].checksums
    monkeypatch.setitem(tables.SOURCES, name, Source("tables", "http://127.0.0.1:9/", {file: "0"}))
    with pytest.raises(DataError, match=rf"{file}: is not in .* Check the network\. Or: .*tables/{file}"):
        READERS[name]()


@pytest.mark.parametrize("name", READERS)
def test_given_file_that_is_another_is_refused(name, tmp_path, monkeypatch):
    (file,) = tables.SOURCES[name].checksums
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / file).write_bytes(CONTENT[name])
    monkeypatch.setenv("DEEPBC_DATA", str(tmp_path))
    with pytest.raises(DataError, match=f"{file}: expected a file with the SHA-256 sum"):
        READERS[name]()


@pytest.mark.parametrize("name", tables.COUNTERPARTS)
def test_counterpart_has_the_shares_and_quantiles_it_names(name):
    table, rows = tables.simulate(name, 20_000, seed=1), 20_000
    assert list(table) == list(tables.COUNTERPARTS[name])
    assert set(table) == set(tables.GRAPHS[name])
    for label, column in tables.COUNTERPARTS[name].items():
        if hasattr(column, "shares"):
            whole = sum(column.shares.values())
            for level, share in column.shares.items():
                came, share = (table[label] == level).mean(), share / whole
                assert abs(came - share) < 5 * (share * (1 - share) / rows) ** 0.5, (label, level)
        else:
            # Rounding moves a value by half a digit, across which the share of rows below it may leap.
            half = 0.5 * 10.0**-column.decimals
            for place, quantile in zip((0.25, 0.5, 0.75), column.quantiles[2:5], strict=True):
                assert (table[label] < quantile - half).mean() < place + 0.02, label
                assert (table[label] <= quantile + half).mean() > place - 0.02, label


def test_single_cause_has_the_correlation_of_the_copula(monkeypatch):
    # Of normal scores with correlation r, Spearman's is 6 / pi asin(r / 2).
    monkeypatch.setitem(tables.counterparts.GRAPHS, "pair", CausalGraph.parse("a -> b"))
    column = tables.counterparts.Numbers((0, 1, 2, 3, 4, 5, 6), decimals=6)
    monkeypatch.setitem(tables.counterparts.COUNTERPARTS, "pair", {"a": column, "b": column})
    drawn = tables.simulate("pair", 50_000, seed=0)
    expected = 6 / np.pi * np.arcsin(tables.counterparts.STRENGTH / 2)
    assert drawn.corr("spearman").loc["a", "b"] == pytest.approx(expected, abs=4 / 50_000**0.5)


def test_counterpart_is_the_same_for_the_same_seed():
    first, again, other = (tables.simulate("titanic", 50, seed=seed) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)
    assert len(tables.simulate("titanic", 0)) == 0
    assert len(tables.simulate("titanic", 1)) == 1
    with pytest.raises(UnknownNameError, match="titanic"):
        tables.simulate("titanik", 5)


@pytest.mark.parametrize("name", STUDIES)
def test_study_names_columns_of_its_graph(name):
    study = STUDIES[name]
    assert study.name == name
    for each in itertools.chain(study.outcome, study.action, study.constraints, study.bounds, study.types):
        assert each in study.graph
    (asked,) = study.outcome
    assert not set(study.action) & set(study.outcome)
    assert all(each in study.graph.ancestors(asked) for each in study.action)
    assert not set(study.constraints) & set(study.outcome)
    assert study.asked.startswith(asked)


def test_study_knows_who_has_the_outcome():
    scores = pd.DataFrame({"decile_score": pd.Categorical([4, 5, 1], range(1, 11), ordered=True)})
    assert STUDIES["compas"].holds(scores).tolist() == [True, False, True]
    assert STUDIES["mpg"].holds({"mpg": torch.tensor([29.9, 30.0])}).tolist() == [False, True]
    assert STUDIES["adult"].holds({"income": np.array([">50K", "<=50K"], dtype=object)}).tolist() == [True, False]
    assert STUDIES["titanic"].holds({"survived": torch.tensor([1.0, 0.0])}).tolist() == [True, False]
