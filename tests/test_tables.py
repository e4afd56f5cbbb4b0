"""Tables on disk."""

import numpy as np
import pandas as pd
import pytest

import deepbc as bc
from deepbc.tables import read_table, write_table

TABLE = pd.DataFrame({"a": [1.0, 2.5, -3e10], "b": [1, 2, 3], "c": ["x", "y", "z"]})


@pytest.mark.parametrize("ending", ["csv", "parquet", "CSV"])
def test_what_is_written_is_read_again(tmp_path, ending):
    write_table(TABLE, tmp_path / f"t.{ending}")
    assert {path.name for path in tmp_path.iterdir()} == {f"t.{ending}"}
    again = read_table(tmp_path / f"t.{ending}")
    assert again.columns.tolist() == ["a", "b", "c"]
    assert np.array_equal(again["a"], TABLE["a"])
    assert read_table(tmp_path / f"t.{ending}", ["b", "a"]).columns.tolist() == ["b", "a"]


def test_gaps_count_in_the_columns_that_are_read_alone(tmp_path):
    TABLE.assign(a=[1.0, np.nan, 3.0]).to_csv(tmp_path / "t.csv", index=False)
    assert len(read_table(tmp_path / "t.csv", ["b"])) == 3
    assert read_table(tmp_path / "t.csv", ["a", "b"], drop_missing=True)["b"].tolist() == [1, 3]
    with pytest.raises(bc.DataError, match="1 of 3 rows have gaps, most in 'a'"):
        read_table(tmp_path / "t.csv", ["a", "b"])


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("none.csv", None, "no such file"),
        ("t.txt", b"a,b\n1,2\n", ".csv or .parquet"),
        ("t", b"a,b\n1,2\n", "no ending"),
        ("empty.csv", b"", "cannot be read as CSV"),
        ("torn.csv", b"a,b\n1,2\n1,2,3,4\n", "cannot be read as CSV"),
        ("no.parquet", b"a,b\n1,2\n", "cannot be read as Parquet"),
        ("latin.csv", "a,b\n1,ä\n".encode("latin-1"), "cannot be read as CSV"),
    ],
)
def test_what_is_no_table_is_said(tmp_path, name, content, part):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(bc.DataError, match=part):
        read_table(tmp_path / name)


def test_a_missing_column_names_those_that_are_there(tmp_path):
    write_table(TABLE, tmp_path / "t.csv")
    with pytest.raises(bc.UnknownNameError, match="unknown name 'd'"):
        read_table(tmp_path / "t.csv", ["a", "d"])


def test_a_table_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(bc.StorageError, match="cannot be written"):
        write_table(TABLE, tmp_path / "none" / "t.csv")
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(bc.StorageError, match="cannot be written"):
        write_table(TABLE, tmp_path / "t.csv")
    assert {path.name for path in tmp_path.iterdir()} == {"t.csv"}
