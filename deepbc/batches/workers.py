"""Parts of long work done side by side, by processes that share what stood in memory when they began.

They are forked, so that a model is loaded once; where a system cannot do that safely, the parts are done one by one by
all cores together. A process dies with the program that began it, so that a killed batch leaves none behind.
"""

__all__ = ["cores", "side_by_side"]

import ctypes
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from deepbc.errors import WorkerError

Result = TypeVar("Result")
#: How parts are run: from the arguments of each to its result, in order.
Run = Callable[[Iterable[tuple[Any, ...]]], Iterator[Result]]

# On other systems libraries hold threads that a fork loses.
FORKS = sys.platform == "linux"
# The signal of `prctl` that asks for the death of a process with its parent's.
PR_SET_PDEATHSIG = 1
# What a process does, put there when it begins.
_work: list[Callable[..., Any]] = []


def cores() -> int:
    """The number of cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)

    return len(allowed(0)) if allowed else os.cpu_count() or 1


@contextmanager
def side_by_side(function: Callable[..., Result], workers: int) -> Iterator[Run[Result]]:
    """Begins processes that call a function, and ends them.

    Args:
        function: What is done; only its arguments and results are sent between processes.
        workers: How many processes there are; with one, all is done in this one.
    """
    # A process of a pool may begin none of its own.
    if workers == 1 or not FORKS or multiprocessing.current_process().daemon:
        yield lambda arguments: (function(*each) for each in arguments)
        return

    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(function, os.getpid())) as executor:
        # All begin with the first call, before any thread of this process does that a fork would lose.
        executor.submit(os.getpid).result()
        try:
            yield lambda arguments: _in_order(executor, arguments, workers)
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


def _in_order(executor: ProcessPoolExecutor, arguments: Iterable[tuple[Any, ...]], workers: int) -> Iterator[Any]:
    """Sends arguments as results come, so that few are in memory at once."""
    waiting: deque[Future[Any]] = deque()
    try:
        for each in arguments:
            waiting.append(executor.submit(_call, *each))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise WorkerError(
            "A process that answers parts of the batch was ended from outside, perhaps for want of memory. Run the "
            "same command again: it goes on where it was. Fewer --workers or a smaller --chunk need less memory."
        ) from error


def _begin(function: Callable[..., Any], parent: int) -> None:
    """Makes a new process ready: one thread, no traceback when the user interrupts, dead when its parent is."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    _work[:] = [function]


def _call(*arguments: Any) -> Any:  # whatever the function takes and gives
    return _work[0](*arguments)
