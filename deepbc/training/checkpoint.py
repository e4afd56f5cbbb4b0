"""Where a fit keeps its state, so that a killed run goes on where it was and ends where it would have."""

__all__ = ["Checkpoint", "fingerprint"]

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from deepbc.errors import FitError, StorageError
from deepbc.storage import folder_exists, read_folder, write_folder

KIND = "checkpoint"


class Checkpoint:
    """Creates the record of a fit in a folder, or nowhere.

    Args:
        folder: The folder; None keeps nothing.
        fit: The fingerprint of the fit. A folder that holds another fit is refused.
        writes: Whether this process is the one that writes.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, fit: str, *, writes: bool = True) -> None:
        self._folder = None if folder is None else Path(folder)
        self._writes = writes
        self._fit = fit
        self._numbers: dict[str, dict[str, Any]] = {}
        self._tensors: dict[str, Tensor] = {}

        if self._folder is not None and folder_exists(self._folder, KIND):
            content, self._tensors = read_folder(self._folder, KIND)
            if not _complete(content):
                raise StorageError(f"{folder}: is not a checkpoint of ours. Remove it to start anew.")
            if content["fit"] != fit:
                raise FitError(
                    f"checkpoint {str(self._folder)!r}: it belongs to another fit (other data, graph, mechanisms, "
                    f"training or seed). Choose another folder, or remove it to start anew."
                )
            self._numbers = content["stages"]

    def load(self, stage: str) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """Returns the numbers and tensors kept for a stage, if any."""
        if stage not in self._numbers:
            return None

        prefix = f"{stage}/"
        tensors = {key.removeprefix(prefix): value for key, value in self._tensors.items() if key.startswith(prefix)}

        return dict(self._numbers[stage]), tensors

    def save(self, stage: str, numbers: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Keeps the numbers and tensors of a stage beside those of the stages before."""
        if self._folder is None:
            return

        self._numbers[stage] = numbers
        self._tensors |= {f"{stage}/{key}": value.detach().clone() for key, value in tensors.items()}
        if self._writes:
            write_folder(self._folder, KIND, {"fit": self._fit, "stages": self._numbers}, self._tensors)


def _complete(content: Any) -> bool:
    """Whether a manifest's content says what `Checkpoint.save` writes."""
    if not isinstance(content, dict) or content.keys() != {"fit", "stages"}:
        return False

    return isinstance(content["stages"], dict) and all(isinstance(each, dict) for each in content["stages"].values())


def fingerprint(settings: Any, tensors: Iterable[Tensor]) -> str:
    """Computes a checksum of settings (as text) and data, equal only for equal fits."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode())
    for tensor in tensors:
        digest.update(repr(tuple(tensor.shape)).encode())
        digest.update(tensor.cpu().contiguous().numpy().reshape(-1).view(np.uint8).data)

    return digest.hexdigest()
