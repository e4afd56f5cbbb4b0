import hashlib
import os
import socket
import sys
from pathlib import Path

import pytest
from file_server import serve

from deepbc.datasets import download
from deepbc.datasets.download import Source, cache_folder, fetch, read_bytes
from deepbc.errors import DataError, SettingError, StorageError
from deepbc.storage import write_bytes

CONTENT = {"a.bin": bytes(range(256)) * 40, "b.csv": b"index,x\n0,1\n"}
SUMS = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


@pytest.fixture
def server(monkeypatch):
    """A server on this machine, tried once a file."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "RETRIES", 0)
    with serve(CONTENT) as serving:
        yield serving


@pytest.fixture
def source(server):
    return Source("set", f"http://127.0.0.1:{server.server_port}/set/", SUMS)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and no folder of data."""
    monkeypatch.setattr(download, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("DEEPBC_DATA", raising=False)
    return tmp_path / "cache" / "set"


@pytest.fixture
def given(tmp_path, monkeypatch):
    """A folder of data with all files."""
    folder = tmp_path / "data"
    for name, content in CONTENT.items():
        write_bytes(folder / "set" / name, content)
    monkeypatch.setenv("DEEPBC_DATA", str(folder))
    return folder / "set"


def test_missing_files_are_downloaded_once(server, source, cache):
    for _ in range(2):
        paths = fetch(source, CONTENT)
        assert {name: path.read_bytes() for name, path in paths.items()} == CONTENT
        assert sorted(server.asked) == ["/set/a.bin", "/set/b.csv"]
    assert sorted(os.listdir(cache)) == ["a.bin", "b.csv"]


def test_files_of_the_data_folder_come_first(server, source, cache, given):
    assert fetch(source, CONTENT) == {name: given / name for name in CONTENT}
    assert server.asked == []
    assert not cache.exists()


def test_data_folder_is_never_written(source, cache, given):
    (given / "a.bin").unlink()
    assert fetch(source, CONTENT) == {"a.bin": cache / "a.bin", "b.csv": given / "b.csv"}
    assert os.listdir(given) == ["b.csv"]


def test_damaged_file_in_the_cache_is_downloaded_again(source, cache):
    write_bytes(cache / "a.bin", CONTENT["a.bin"][:100])
    assert fetch(source, ["a.bin"])["a.bin"].read_bytes() == CONTENT["a.bin"]


def test_changed_file_in_the_data_folder_is_named(source, cache, given):
    (given / "a.bin").write_bytes(b"short")
    came = hashlib.sha256(b"short").hexdigest()
    with pytest.raises(DataError, match=f"{SUMS['a.bin']}, got {came} and 5 bytes.* Replace it by {source.url}a.bin"):
        fetch(source, ["a.bin"])


def test_data_folder_that_is_none_is_named(source, cache, monkeypatch, tmp_path):
    monkeypatch.setenv("DEEPBC_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"DEEPBC_DATA: expected a folder that holds set/, got '.*nowhere'"):
        fetch(source, ["a.bin"])


@pytest.mark.parametrize(
    ("content", "withheld", "message"),
    [
        ({}, 0, "a.bin: is not in .* and cannot be downloaded .*404"),
        ({"a.bin": b"other"}, 0, f"a.bin: expected a file with the SHA-256 sum {SUMS['a.bin']}, got .* and 5 bytes"),
        ({"a.bin": CONTENT["a.bin"][:-1]}, 1, "a.bin: is not in .* and cannot be downloaded .*IncompleteRead"),
    ],
    ids=["missing", "changed", "interrupted"],
)
def test_failed_download_is_told_and_leaves_nothing(content, withheld, message, server, source, cache):
    server.content, server.withheld = content, withheld
    with pytest.raises(DataError, match=message) as caught:
        fetch(source, ["a.bin"])
    assert "set DEEPBC_DATA to a folder that holds set/a.bin" in str(caught.value)
    assert list(cache.iterdir()) == []


def test_download_stopped_by_hand_leaves_nothing(source, cache, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "_check_sum", stop)
    with pytest.raises(KeyboardInterrupt):
        fetch(source, ["a.bin"])
    assert list(cache.iterdir()) == []


def test_no_network_is_told_with_two_remedies(cache, monkeypatch):
    monkeypatch.setattr(download, "RETRIES", 0)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        source = Source("set", f"http://127.0.0.1:{taken.getsockname()[1]}/set/", SUMS)
        with pytest.raises(DataError, match=r"Check the network\. Or: Put the file into .*, or set DEEPBC_DATA"):
            fetch(source, ["a.bin"])


def test_download_without_pooch_says_what_to_install(source, cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(SettingError, match=r"pip install 'deepbc\[data\]'"):
        fetch(source, ["a.bin"])


def test_download_writes_nothing_to_the_screen(source, cache, capfd):
    fetch(source, ["a.bin"])
    assert capfd.readouterr() == ("", "")


def test_progress_is_shown_when_asked_for(source, cache, capfd):
    fetch(source, CONTENT, show=True)
    assert "Downloading set" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {"XDG_CACHE_HOME": "/far"}, Path("/far/deepbc")),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, Path("/home/me/.cache/deepbc")),
        ("linux", {}, Path("/home/me/.cache/deepbc")),
        ("darwin", {}, Path("/home/me/Library/Caches/deepbc")),
        ("win32", {"LOCALAPPDATA": "/local"}, Path("/local/deepbc")),
        ("win32", {}, Path("/home/me/AppData/Local/deepbc")),
    ],
)
def test_cache_lies_where_the_system_keeps_caches(platform, variables, folder, monkeypatch):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", "USERPROFILE": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", platform)
        assert cache_folder() == folder


def test_files_that_cannot_be_used_are_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing: cannot be read \(No such file"):
        read_bytes(tmp_path / "nothing")
    with pytest.raises(DataError, match="cannot be read"):
        read_bytes(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="folder: cannot be written"):
        write_bytes(tmp_path / "folder", b"x")
    assert os.listdir(tmp_path) == ["folder"]
