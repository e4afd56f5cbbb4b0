"""One fit shared by several processes, as `torchrun` starts them.

Each process takes its share of every batch; gradients and held-out losses are summed over the processes. All processes
draw the same order of rows, so the fit is that of one process up to rounding.
"""

__all__ = ["Share", "shared"]

import atexit
import os
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Share:
    """The place of this process among all: `rank` of `size`."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that shows progress and writes files."""
        return self.rank == 0

    def of(self, rows: Tensor) -> Tensor:
        """Takes this process's part of the rows."""
        return rows if self.size == 1 else rows[self.rank :: self.size]

    def sum(self, tensor: Tensor) -> Tensor:
        """Sums a tensor over all processes, in place."""
        if self.size > 1:
            torch.distributed.all_reduce(tensor)

        return tensor


def shared() -> Share:
    """Joins the processes that `torchrun` started, once and until this one ends; alone, there is one process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Share()

    # Loaded only here: most fits run alone.
    from torch import distributed

    if not distributed.is_initialized():
        distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        atexit.register(distributed.destroy_process_group)

    return Share(distributed.get_rank(), distributed.get_world_size())
