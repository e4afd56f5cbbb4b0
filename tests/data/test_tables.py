"""Tables on disk."""

import datetime

import numpy as np
import pandas as pd
import pytest

import deepbc as bc
from deepbc.data.tables import check_whole, column_names, join_tables, read_chunks, read_table, with_types, write_table

TABLE = pd.DataFrame({"a": [1.0, 2.5, -3e10], "b": [1, 2, 3], "c": ["x", "y", "z"]})


@pytest.mark.parametrize("ending", ["csv", "parquet", "CSV"])
def test_what_is_written_is_read_again(tmp_path, ending):
    write_table(TABLE, tmp_path / f"t.{ending}")
    assert {path.name for path in tmp_path.iterdir()} == {f"t.{ending}"}
    again = read_table(tmp_path / f"t.{ending}", ["b", "a"])
    assert again.columns.tolist() == ["b", "a"]
    assert np.array_equal(again["a"], TABLE["a"])
    chunks = list(read_chunks(tmp_path / f"t.{ending}", ["b", "a"], 2))
    assert [len(chunk) for chunk in chunks] == [2, 1]
    assert pd.concat(chunks).reset_index(drop=True).equals(again)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_names_of_columns_are_read_alone(tmp_path, ending):
    write_table(TABLE, tmp_path / f"t.{ending}")
    assert column_names(tmp_path / f"t.{ending}") == ("a", "b", "c")


def test_numbers_are_read_to_the_last_digit(tmp_path):
    numbers = np.random.default_rng(0).normal(size=500) * 10.0 ** np.arange(-250, 250)
    pd.DataFrame({"a": numbers}).to_csv(tmp_path / "t.csv", index=False)
    assert np.array_equal(read_table(tmp_path / "t.csv", ["a"])["a"], numbers)


def test_gaps_and_words_are_counted_or_dropped(tmp_path):
    TABLE.assign(a=["1.0", "old", ""]).to_csv(tmp_path / "t.csv", index=False)
    assert len(check_whole(read_table(tmp_path / "t.csv", ["b"]), "t")) == 3
    table = read_table(tmp_path / "t.csv", ["a", "b"])
    assert check_whole(table, "t", drop=True)["b"].tolist() == [1]
    with pytest.raises(bc.DataError, match=r"2 of 3 rows have gaps or words, most in 'a' \(2\), the first is row 1"):
        check_whole(table, "t")


def test_parts_are_joined_whatever_their_names_hold(tmp_path):
    frame = pd.DataFrame({'a\n"1",': [1.5, 2.5, 3.5], "b": [1, 2, 3]})
    for ending in ("csv", "parquet"):
        parts = [tmp_path / f"{k}.{ending}" for k in range(3)]
        for k, part in enumerate(parts):
            write_table(frame.iloc[[k]], part)
        join_tables(parts, tmp_path / f"whole.{ending}")
        names = list(frame.columns)
        assert read_table(tmp_path / f"whole.{ending}", names).equals(frame.astype(float))


def as_numbers(path, names):
    return read_table(path, names, dict.fromkeys(names, False))


def test_truth_values_are_no_numbers(tmp_path):
    TABLE.assign(a=[True, False, True]).to_parquet(tmp_path / "t.parquet")
    for read in (as_numbers, lambda *words: next(read_chunks(*words, 2))):
        with pytest.raises(bc.DataError, match="'a': expected numbers"):
            read(tmp_path / "t.parquet", ["a"])


DATES = {
    "datetimes": pd.to_datetime(["2020-01-31"] * 3),
    "with a zone": pd.to_datetime(["2020-01-31"] * 3).tz_localize("UTC"),
    "days": [datetime.date(2020, 1, 31)] * 3,
    "times": [datetime.time(3)] * 3,
    "durations": pd.to_timedelta([1, 2, 3], unit="D"),
}


@pytest.mark.parametrize("case", DATES)
def test_dates_are_refused_with_a_remedy(tmp_path, case):
    TABLE.assign(a=DATES[case]).to_parquet(tmp_path / "t.parquet")
    for read in (as_numbers, read_table, lambda *words: next(read_chunks(*words, 2))):
        with pytest.raises(bc.DataError, match=r"'a': expected numbers or labels, got .* Make a number of each"):
            read(tmp_path / "t.parquet", ["a"])


def test_dates_as_text_are_no_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("a\n2020-01-31\n2020-02-29\n")
    with pytest.raises(bc.DataError, match="got dates such as 2020-01-31"):
        as_numbers(tmp_path / "t.csv", ["a"])


def test_rows_are_those_of_the_file_whatever_its_index(tmp_path):
    TABLE.set_axis([7, 3, 5]).to_parquet(tmp_path / "t.parquet")
    TABLE.set_index("c").to_parquet(tmp_path / "named.parquet")
    assert read_table(tmp_path / "t.parquet", ["a"]).index.tolist() == [0, 1, 2]
    assert read_table(tmp_path / "named.parquet", ["a", "c"])["c"].tolist() == ["x", "y", "z"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_labels_are_told_from_numbers(tmp_path, ending):
    words = pd.DataFrame(
        {
            "word": ["b", None, "a", "1"],
            "flag": [True, False, True, True],
            "few": [1.0, 2.0, 3.0, np.nan],
            "kind": pd.Categorical(["x", "y", "x", "x"]),
        }
    )
    write_table(words, tmp_path / f"t.{ending}")
    table = read_table(tmp_path / f"t.{ending}", list(words))
    assert table["word"].tolist() == ["b", None, "a", "1"]
    assert with_types(table)["flag"].tolist() == [True, False, True, True]
    assert table["kind"].tolist() == ["x", "y", "x", "x"]
    assert table["few"].dtype == float


def test_a_category_keeps_its_order(tmp_path):
    grades = pd.Categorical(["low", "high", "low"], ["low", "high"], ordered=True)
    write_table(pd.DataFrame({"grade": grades}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", ["grade"])["grade"].dtype.ordered


def test_words_for_gaps_are_labels_where_that_is_declared(tmp_path):
    (tmp_path / "t.csv").write_text("a\nNA\nx\nNone\n")
    assert read_table(tmp_path / "t.csv", ["a"])["a"].tolist() == [None, "x", None]
    assert read_table(tmp_path / "t.csv", ["a"], {"a": True})["a"].tolist() == ["NA", "x", "None"]


def test_a_word_among_numbers_is_a_gap(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n2\nmany\n3\n")
    assert read_table(tmp_path / "t.csv", ["a"])["a"].isna().tolist() == [False, False, True, False]
    assert read_table(tmp_path / "t.csv", ["a"], {"a": True})["a"].tolist() == ["1", "2", "many", "3"]


def test_a_comma_at_the_end_of_lines_does_no_harm(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2,\n4,5,\n")
    for table in (read_table(tmp_path / "t.csv", ["a", "b"]), next(read_chunks(tmp_path / "t.csv", ["a", "b"], 9))):
        assert table.to_numpy().tolist() == [[1, 2], [4, 5]]


def test_whole_numbers_may_name_columns(tmp_path):
    TABLE[["a", "b"]].set_axis([0, 1], axis=1).to_parquet(tmp_path / "t.parquet")
    assert next(read_chunks(tmp_path / "t.parquet", ["1"], 3))["1"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("none.csv", None, "no such file"),
        ("more.csv", b"a,b\n1,2,3\n4,5,6\n", "cannot be read as CSV"),
        ("twice.csv", b"a,a\n1,2\n", "comes twice"),
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
    for read in (as_numbers, lambda *words: list(read_chunks(*words, 2))):
        with pytest.raises(bc.DataError, match=part):
            read(tmp_path / name, ["a"])


def test_words_in_place_of_numbers_are_refused_or_gaps(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\nx,2\ny,3\n")
    with pytest.raises(bc.DataError, match="got the text 'x'"):
        as_numbers(tmp_path / "t.csv", ["a"])
    assert next(read_chunks(tmp_path / "t.csv", ["a"], 2))["a"].isna().all()


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
