"""How far long work is, off a terminal: a line now and then with the time that is left."""

import pytest

from deepbc import progress as module
from deepbc.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is told to go on."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_short_work_says_nothing(clock, capsys):
    with progress("fit", 2, None, lines=True) as shown:
        shown.describe("age: epoch 1")
        clock(5)
        shown.advance()
        shown.advance()
    assert capsys.readouterr().err == ""


def test_long_work_says_now_and_then_how_far_it_is(clock, capsys):
    with progress("fit", 4, None, lines=True) as shown:
        clock(21)
        shown.describe("age: epoch 1")
        assert capsys.readouterr().err == "fit: 0 of 4 done after 21 s; age: epoch 1\n"
        clock(29)
        shown.advance()
        assert capsys.readouterr().err == ""
        clock(10)
        shown.describe("income: epoch 7")
        # Each of the four takes 50 s; one of them has run for 10.
        assert capsys.readouterr().err == "fit: 1 of 4 done after 60 s, about 2 min left; income: epoch 7\n"
        clock(60)
        shown.describe("income: epoch 9")
        # It takes longer than the first did: nobody knows how much.
        assert capsys.readouterr().err == "fit: 1 of 4 done after 2 min; income: epoch 9\n"
        clock(540)
        shown.advance()
        assert capsys.readouterr().err.startswith("fit: 2 of 4 done after 11 min, about 11 min left")


@pytest.mark.parametrize("settings", [{"show": False, "lines": True}, {"show": None}])
def test_who_asks_for_nothing_is_told_nothing(settings, clock, capsys):
    with progress("fit", 2, **settings) as shown:
        clock(1000)
        shown.describe("age: epoch 1")
        shown.advance()
    assert capsys.readouterr().err == ""


def test_a_bar_tells_the_time_that_is_left(clock, capsys):
    with progress("fit", 3, True) as shown:
        clock(30)
        shown.advance()
        shown.describe("income: epoch 7")
    said = capsys.readouterr().err
    assert "about 60 s left" in said
    assert "income: epoch 7" in said
