"""Parts of work side by side: in order, with the errors they raise, and no process left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

import deepbc as bc
from deepbc.batches.workers import FORKS, cores, side_by_side

needs_forks = pytest.mark.skipif(not FORKS, reason="parts are done one by one where forking is not safe")


def wait_and_square(number: int) -> tuple[int, int]:
    # Later parts end before earlier ones.
    time.sleep(0.02 * (number % 3))
    if number == 13:
        raise bc.DataError("13 is a bad number")
    return number * number, os.getpid()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_order(workers):
    with side_by_side(wait_and_square, workers) as run:
        found = list(run((number,) for number in range(10)))
    assert [square for square, _ in found] == [number**2 for number in range(10)]
    if FORKS:
        assert (os.getpid() in {process for _, process in found}) == (workers == 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_of_parts_are_raised(workers):
    with side_by_side(wait_and_square, workers) as run, pytest.raises(bc.DataError, match="13 is a bad number"):
        list(run((number,) for number in range(20)))


def test_arguments_are_drawn_as_results_come():
    drawn = []

    def arguments():
        for number in range(50, 100):
            drawn.append(number)
            yield (number,)

    with side_by_side(wait_and_square, 2) as run:
        found = iter(run(arguments()))
        next(found)
        assert len(drawn) <= 4


@needs_forks
def test_a_process_that_is_killed_is_an_error_that_says_what_to_do():
    with side_by_side(wait_and_die, 2) as run, pytest.raises(bc.WorkerError, match="Run the same command again"):
        list(run((number,) for number in range(9)))


def wait_and_die(number: int) -> None:
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)


def squares_of_ten() -> list[int]:
    with side_by_side(wait_and_square, 2) as run:
        return [square for square, _ in run((number,) for number in range(10))]


@needs_forks
def test_a_process_of_a_pool_does_the_parts_itself():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(squares_of_ten) == [number**2 for number in range(10)]


@needs_forks
def test_processes_die_with_the_program():
    program = """
import multiprocessing, time
from deepbc.batches.workers import side_by_side
with side_by_side(time.sleep, 2) as run:
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    list(run((60,) for _ in range(2)))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        children = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(children) == 2
        parent.kill()
    end = time.monotonic() + 10
    while any(_lives(pid) for pid in children) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(_lives(pid) for pid in children)


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().split(")")[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_cores_are_those_of_this_process():
    assert 1 <= cores() <= os.cpu_count()
