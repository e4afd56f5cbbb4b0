"""The real tables: what is known of them, and what is said where they are missing."""

import networkx as nx
import pytest

from deepbc.datasets import download, tables
from deepbc.errors import DataError

READERS = {
    "german.data": tables.german_credit,
    "river.csv": tables.rivers,
    "sachs.csv": tables.proteins,
    "sachs.gml": tables.protein_graph,
}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and no folder of data."""
    monkeypatch.setattr(download, "cache_folder", lambda: tmp_path)
    monkeypatch.delenv("DEEPBC_DATA", raising=False)
    return tmp_path / "tables"


@pytest.mark.parametrize("name", READERS)
def test_missing_file_is_named_with_its_place(cache, name):
    with pytest.raises(DataError) as said:
        READERS[name]()
    for part in (f"{name}: is not in {cache}", "DEEPBC_DATA", f"tables/{name}", tables.SOURCE.origins[name]):
        assert part in str(said.value)


def test_other_file_of_that_name_is_refused(cache):
    cache.mkdir()
    (cache / "river.csv").write_text("Henthorn\n1\n")
    with pytest.raises(DataError, match="SHA-256"):
        tables.rivers()


def test_credits_have_readable_columns(data_folder):
    table = tables.german_credit()
    assert len(table) == 1000
    assert table.loc[11, ["male", "age", "amount", "duration", "bad"]].tolist() == [0, 24, 4308, 48, 1]
    assert table["bad"].sum() == 300
    assert table["male"].sum() == 690
    assert set(table["housing"]) == {"A151", "A152", "A153"}


def test_rivers_and_proteins_fit_their_graphs(data_folder):
    assert tables.rivers().shape == (32_574, 5)
    assert set(tables.rivers()) == set(tables.RIVER_GRAPH)
    assert tables.proteins().shape == (7466, 11)
    assert set(tables.proteins()) == set(tables.protein_graph())


def test_protein_graph_is_that_of_networkx(data_folder):
    whole = nx.read_gml(data_folder / "tables" / "sachs.gml")
    assert set(tables.protein_graph().edges) == set(whole.edges)
    assert len(whole.edges) == 19
