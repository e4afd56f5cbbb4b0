"""Where data sets lie and how they get there.

A published data set is a few files with known SHA-256 sums. They are looked for in the folder that `DEEPBC_DATA` names,
which is only ever read, then in the user's cache folder, and are else downloaded into the cache. pooch, an extra, does
the download: into a temporary file beside its place, which gets its name when its sum is right. A data set without an
address is not downloaded: an error says which file to put where.
"""

__all__ = ["Source", "cache_folder", "fetch", "given_folder", "read_bytes"]

import hashlib
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepbc.errors import DataError, SettingError
from deepbc.progress import progress

VARIABLE = "DEEPBC_DATA"
# Seconds without an answer, and how often a download is tried again.
PATIENCE, RETRIES = 30, 2


@dataclass(frozen=True, slots=True)
class Source:
    """A published data set.

    Args:
        name: Its name, which is that of its folder.
        url: The address of the folder that holds its files, with a slash at the end; None where there is none.
        checksums: For each file its SHA-256 sum.
        origins: For each file without an address, what it is and who published it.
    """

    name: str
    url: str | None
    checksums: Mapping[str, str]
    origins: Mapping[str, str] = field(default_factory=dict)

    def origin(self, name: str) -> str:
        """Says where a file comes from: its address, or who published it."""
        return self.origins[name] if self.url is None else f"{self.url}{name}"


def fetch(source: Source, names: Collection[str], *, show: bool | None = None) -> dict[str, Path]:
    """Finds files of a data set, each with the published content, and downloads those that are nowhere.

    Args:
        source: The data set.
        names: The names of the files.
        show: Whether to show the progress of downloads; None shows it where standard error is a terminal.

    Raises:
        DataError: A file is not the published one, or is nowhere and cannot be downloaded.
    """
    found = {name: _found(source, name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    paths = {name: path for name, path in found.items() if path is not None}
    if not missing:
        return paths

    with progress(f"Downloading {source.name}", len(missing), show) as bar:
        for name in missing:
            bar.describe(name)
            paths[name] = _downloaded(source, name)
            bar.advance()

    return paths


def cache_folder() -> Path:
    """Names the folder for downloads: `deepbc` in the place where the system keeps what can be had again."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        named = os.environ.get("XDG_CACHE_HOME", "")
        base = named if os.path.isabs(named) else Path.home() / ".cache"

    return Path(base) / "deepbc"


def given_folder(name: str) -> Path | None:
    """Names the folder of a data set in the one that `DEEPBC_DATA` names, whether it is there or not."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    if not os.path.isdir(folder):
        raise DataError(
            f"{VARIABLE}: expected a folder that holds {name}/, got {folder!r}, which is none. Mend the path, or unset "
            f"{VARIABLE} to use the cache."
        )

    return Path(folder) / name


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Reads a file whole."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({_reason(error)}). Give the path of a file that is there.") from error


def _found(source: Source, name: str) -> Path | None:
    folder = given_folder(source.name)
    if folder is not None and os.path.exists(folder / name):
        given = folder / name
        _check_sum(given, source.checksums[name], str(given), f"Replace it by {source.origin(name)}.")
        return given

    cached = cache_folder() / source.name / name
    if source.url is None and os.path.isfile(cached):
        _check_sum(cached, source.checksums[name], str(cached), f"Replace it by {source.origin(name)}.")
    # A cached file that went bad is one that is missing: what can be had again is not worth an error.
    return cached if os.path.isfile(cached) and _sum(cached) == source.checksums[name] else None


def _downloaded(source: Source, name: str) -> Path:
    folder, expected = cache_folder() / source.name, source.checksums[name]
    remedy = (
        f"Put the file into {folder}, or set {VARIABLE} to a folder that holds {source.name}/{name}; it is "
        f"{'' if source.url is None else 'published at '}{source.origin(name)}."
    )
    if source.url is None:
        raise DataError(f"{name}: is not in {folder}, and there is no address to download it from. {remedy}")
    try:
        import pooch
    except ModuleNotFoundError as error:
        raise SettingError(
            f"{name}: is not in {folder}, and downloading it needs pooch. Install it with: pip install 'deepbc[data]'. "
            f"Or: {remedy}"
        ) from error

    def download(url: str, output: str, keeper: object) -> None:
        with _closing_responses() as hooks:
            pooch.HTTPDownloader(timeout=PATIENCE, hooks=hooks)(url, output, keeper)
        _check_sum(Path(output), expected, url, f"Try again later. Or: {remedy}")

    keeper = pooch.create(folder, source.url, registry={name: f"sha256:{expected}"}, retry_if_failed=RETRIES)
    try:
        with _quiet(pooch.get_logger()):
            return Path(keeper.fetch(name, downloader=download))
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise DataError(
            f"{name}: is not in {folder} and cannot be downloaded ({_reason(error)}). Check the network. Or: {remedy}"
        ) from error


def _check_sum(path: Path, expected: str, where: str, remedy: str) -> None:
    came = _sum(path)
    if came != expected:
        raise DataError(
            f"{where}: expected a file with the SHA-256 sum {expected}, got {came} and {path.stat().st_size:,} bytes: "
            f"it was changed or cut short. {remedy}"
        )


def _sum(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()


@contextmanager
def _closing_responses() -> Iterator[dict[str, Callable[..., None]]]:
    """Hooks for requests that close what it opened; a response of failure would stay open."""
    with ExitStack() as opened:

        def close_at_exit(response: Any, **_: Any) -> None:
            opened.callback(response.close)

        yield {"response": close_at_exit}


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keeps pooch from telling on standard error what it does."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
