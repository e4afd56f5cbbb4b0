import pytest

from deepbc.datasets.attribute_lists import read_listing
from deepbc.errors import DataError

SIGNS = {"1": 1, "-1": -1, "0": 0}


def listing(tmp_path, text, name="list.txt"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.txt", "2\nOld Tall Glad\na.jpg  1 -1  1\nb.jpg -1 -1 -1\n"),
        ("list.txt", "2\r\nOld Tall Glad \r\na.jpg 1 -1 1 \r\n\r\nb.jpg -1\t-1 -1"),
        ("list.csv", "image_id,Old,Tall,Glad\na.jpg,1,-1,1\nb.jpg,-1,-1,-1\n"),
        ("list.csv", '\ufefffile, Old ,Tall,Glad\r\n"a.jpg", 1,-1,1\r\n\r\nb.jpg,-1,-1,-1'),
    ],
    ids=["blanks", "blanks of Windows", "csv", "csv of a spreadsheet"],
)
def test_columns_are_found_by_name(name, text, tmp_path):
    path = listing(tmp_path, text, name)
    assert read_listing(path, ["Glad", "Tall"], SIGNS) == {"a.jpg": (1, -1), "b.jpg": (-1, -1)}


def test_listing_without_names_has_those_asked_for(tmp_path):
    path = listing(tmp_path, "a.jpg 0\nb.jpg 1\n")
    assert read_listing(path, ["partition"], SIGNS) == {"a.jpg": (0,), "b.jpg": (1,)}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("list.txt", "", "expected files, at least 1 got 0"),
        ("list.txt", "3\nOld Tall\na 1 1\n", "expected files, 3, as its first line says, got 1.* whole copy"),
        ("list.txt", "1\n", "expected one column 'Old', got none among no names"),
        ("list.txt", "1\nold Tall\na 1 1\n", "column 'Old', got none among old, Tall. Did you mean 'old'?"),
        ("list.txt", "1\nOld Tall Old\na 1 1 1\n", "column 'Old', got several among Old, Tall, Old"),
        ("list.txt", "1\nOld Tall\n\na 1\n", "line 4: .* as many values as there are columns, 2, got 2 fields"),
        ("list.txt", "2\nOld Tall\na 1 1\na 1 0\n", "line 4: expected each file once, got a again"),
        ("list.txt", "1\nOld Tall\na 1 2\n", "line 3, 'Tall': expected 1 or -1 or 0, got '2'"),
        ("list.csv", "", "expected one column 'Old', got none"),
        ("list.csv", "file,Old,Tall\n", "expected files, at least 1 got 0"),
        ("list.csv", "file,Old,Tall\n,1,1\n", "line 2: expected a file name"),
        ("list.csv", "file,Old,Tall\na,1,1,1\n", "line 2: .* got 4 fields"),
        ("list.csv", "file,Old,Tall\na,yes,1\n", "line 2, 'Old': expected 1 or -1 or 0, got 'yes'"),
        ("list.csv", "file,Old,Tall\na,1,1\n" + "b" * 200_000, "line 3: is no line of CSV"),
    ],
)
def test_bad_listing_is_named_to_the_line(name, text, message, tmp_path):
    path = listing(tmp_path, text, name)
    with pytest.raises(DataError, match=message) as caught:
        read_listing(path, ["Old", "Tall"], SIGNS)
    assert str(caught.value).startswith(str(path))
