"""The one folder format of deepbc: `manifest.json` and `weights.safetensors`, with checksums, and nothing executable.

A folder is written under another name and renamed. Where a process is killed between the two renames, the old folder is
still there and is read. Reading runs no code: the manifest is JSON, the weights are safetensors, and both must be what
their checksums say.
"""

__all__ = [
    "check_place",
    "folder_exists",
    "locked",
    "make_folder",
    "read_folder",
    "replacing",
    "write_bytes",
    "write_folder",
]

import glob
import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from deepbc.errors import StorageError

# Format 1 had networks of other units.
FORMAT = 2
TRIES = 50
MANIFEST, WEIGHTS = "manifest.json", "weights.safetensors"


def write_folder(
    folder: str | os.PathLike[str], kind: str, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Writes a folder of the given kind; an older folder of ours under that name, or an empty one, is replaced.

    Args:
        folder: The folder's path.
        kind: What it holds, such as `"model"`.
        content: What goes into the manifest; JSON.
        tensors: What goes into the weights.
    """
    folder = check_place(folder, kind)
    # Clones, because safetensors takes no two tensors that share memory, as tied weights do.
    weights = save_tensors(
        {name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    )
    manifest = {
        "format": FORMAT,
        "kind": kind,
        "content": content,
        "checksums": {"content": _checksum(_canonical(content)), WEIGHTS: _checksum(weights)},
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    fresh = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.new")
    try:
        fresh.mkdir(parents=True)
        _write(fresh / WEIGHTS, weights)
        _write(fresh / MANIFEST, text.encode())
        _replace(fresh, folder)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error.strerror or error}).") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def check_place(folder: str | os.PathLike[str], kind: str) -> Path:
    """Checks that nothing else stands there; worth doing before the work whose result it is to hold."""
    folder = _path(folder)
    if not _vacant(folder) and not _replaceable(folder, kind):
        raise StorageError(
            f"{folder}: expected no such path, an empty folder or an older {kind} of ours, got something else. "
            "Choose another name or remove it."
        )

    return folder


def make_folder(folder: str | os.PathLike[str]) -> Path:
    """Makes a folder where there is none, and checks that files can be written there."""
    folder = _path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StorageError(f"{folder}: cannot be a folder to write in ({error.strerror}). Choose another.") from error

    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes out while it lasts; a process that is killed gives way at once.

    Args:
        path: What is written. The lock is a hidden file beside it; where the system knows no locks there is none.
    """
    place = path.with_name(f".{path.name}.lock")
    try:
        opened = place.open("a")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error.strerror}). Choose another folder.") from error
    with opened as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(f"{path}: another run is writing it. Wait for that, or choose another name.") from error
        try:
            yield
        finally:
            with suppress(OSError):
                place.unlink()


def folder_exists(folder: str | os.PathLike[str], kind: str) -> bool:
    """Whether there is anything at that path, or an older folder whose replacement was interrupted."""
    return not _vacant(_standing(folder, kind))


def read_folder(folder: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Reads a folder of the given kind: the manifest's content and the tensors.

    Raises:
        StorageError: The folder is missing, truncated, tampered with, foreign or of a newer version.
    """
    folder = _standing(folder, kind)
    manifest = _manifest(folder, kind)
    weights = _read(folder / WEIGHTS)

    sums = manifest["checksums"]
    if sums["content"] != _checksum(_canonical(manifest["content"])):
        raise StorageError(
            f"{folder / MANIFEST}: its content does not match its checksum: it was changed or damaged. "
            "Save it again from the original."
        )
    if sums[WEIGHTS] != _checksum(weights):
        raise StorageError(
            f"{folder / WEIGHTS}: does not match its checksum: it was changed, truncated or belongs to "
            "another folder. Save it again from the original."
        )
    try:
        return manifest["content"], load_tensors(weights)
    except SafetensorError as error:
        raise StorageError(f"{folder / WEIGHTS}: is not a safetensors file ({error}).") from error


def _manifest(folder: Path, kind: str) -> dict[str, Any]:
    if not folder.is_dir():
        came = "is a file, not a folder" if folder.exists() else "no such folder"
        raise StorageError(f"{folder}: {came}. Give the folder of a {kind}.")
    if not (folder / MANIFEST).exists():
        raise StorageError(f"{folder}: holds no {MANIFEST}, so it is no {kind} of ours. Give another folder.")
    text = _read(folder / MANIFEST)
    try:
        manifest = json.loads(text, parse_constant=_refuse)
        _canonical(manifest)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{folder / MANIFEST}: is not JSON ({error}): it was truncated or is not ours.") from error

    if not isinstance(manifest, dict) or not {"format", "kind", "content", "checksums"} <= manifest.keys():
        raise StorageError(f"{folder / MANIFEST}: is not a deepbc manifest.")
    if type(manifest["format"]) is not int or manifest["format"] != FORMAT:
        raise StorageError(
            f"{folder}: has format {manifest['format']!r}, this deepbc reads {FORMAT}. Update deepbc if it is older "
            f"than the folder; fit again if it is newer."
        )
    if manifest["kind"] != kind:
        raise StorageError(f"{folder}: expected a {kind}, got a {manifest['kind']!r}.")
    if not isinstance(manifest["checksums"], dict) or manifest["checksums"].keys() != {"content", WEIGHTS}:
        raise StorageError(f"{folder / MANIFEST}: names files other than {WEIGHTS}. deepbc reads no other file.")

    return manifest


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Hands out another name to write a file to, which takes its place at the end: whole, or not at all."""
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
    try:
        yield fresh
        fresh.replace(path)
    finally:
        with suppress(OSError, ValueError):
            fresh.unlink()


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file whole or not at all, and its folder where there is none."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as fresh:
            fresh.write_bytes(content)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise StorageError(f"{path}: cannot be written ({reason}). Choose another folder.") from error


def _read(path: Path) -> bytes:
    if path.is_symlink():
        raise StorageError(f"{path}: is a link. deepbc reads no file outside the folder.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}).") from error


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _replace(fresh: Path, folder: Path) -> None:
    """Puts the fresh folder in the place of the old one, which exists until the new one stands."""
    old = fresh.with_suffix(".old")
    for attempt in range(TRIES):
        try:
            if folder.exists():
                folder.rename(old)
            fresh.rename(folder)
            break
        except OSError:  # another process is replacing it too: the last one wins
            shutil.rmtree(old, ignore_errors=True)
            if attempt == TRIES - 1:
                raise
    for left in (old, *_left_behind(folder)):
        shutil.rmtree(left, ignore_errors=True)


def _left_behind(folder: Path) -> list[Path]:
    """What stood at that path before a replacement that was killed half way."""
    return sorted(folder.parent.glob(f".{glob.escape(folder.name)}.{'?' * 32}.old"))


def _standing(folder: str | os.PathLike[str], kind: str) -> Path:
    """Follows links to the folder itself, or to the old one where its replacement was killed half way."""
    folder = _path(folder)
    if folder.exists():
        return folder

    return next((old for old in _left_behind(folder) if _replaceable(old, kind)), folder)


def _path(folder: str | os.PathLike[str]) -> Path:
    """Follows links to the path itself."""
    try:
        path = Path(os.path.realpath(folder))
        path.exists()
    except (OSError, TypeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StorageError(f"{folder!r}: expected the path of a folder ({reason}). Choose another.") from error

    return path


def _vacant(folder: Path) -> bool:
    """Whether nothing is there, or an empty folder."""
    try:
        return not any(folder.iterdir())
    except OSError:
        return not folder.exists()


def _replaceable(folder: Path, kind: str) -> bool:
    """Whether the folder holds what we wrote, of that kind, and nothing else."""
    try:
        names = {path.name for path in folder.iterdir()}
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False

    ours = isinstance(manifest, dict) and manifest.get("kind") == kind and "checksums" in manifest

    return ours and names <= {MANIFEST, WEIGHTS}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
