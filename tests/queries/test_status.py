"""One table of statuses."""

import pickle

import torch

from deepbc.queries.status import TABLE, Outcome, RowStatuses, Status, status_of
from deepbc.solvers.problem import SolverStatus

WORDS = {each: status_of(each, solver="S", names="'y'", name="y", lower=0.0, upper=1.0, sampler="H") for each in TABLE}


def test_every_outcome_has_a_word_a_reason_and_a_remedy():
    assert set(TABLE) == set(Outcome)
    assert {str(status) for status in WORDS.values()} == {"converged", "infeasible", "not converged"}
    assert all(status.reason.endswith(".") for status in WORDS.values())
    assert all(status.remedy or status == "converged" for status in WORDS.values())


def test_outcomes_of_solvers_have_their_numbers():
    assert all(Outcome[each.name] == each for each in SolverStatus)


def test_row_that_misses_is_never_a_success():
    ended = torch.tensor([Outcome.CONVERGED, Outcome.CONVERGED, Outcome.MAX_STEPS])
    said = RowStatuses(ended, WORDS).say(torch.tensor([True, False, False]))
    assert [str(each) for each in said] == ["converged", "not converged", "not converged"]
    assert said[1].reason == TABLE[Outcome.MISSED][1]


def test_rows_that_leave_bounds_say_so():
    ended = torch.tensor([Outcome.CONVERGED, Outcome.OUT_OF_BOUNDS])
    outside = ((torch.tensor([False, True]), WORDS[Outcome.OUT_OF_BOUNDS]),)
    statuses = RowStatuses(ended, WORDS, outside)
    assert statuses.say(torch.tensor([True, True]))[1].reason.startswith("'y' is asked to leave its bounds (0, 1)")
    moved = RowStatuses(torch.zeros(3, dtype=torch.long), WORDS).put(torch.tensor([2, 1]), statuses)
    assert [str(each) for each in moved.say(torch.ones(3, dtype=torch.bool))] == [
        "converged",
        "infeasible",
        "converged",
    ]


def test_status_survives_a_pickle():
    status = pickle.loads(pickle.dumps(status_of(Outcome.MISSED)))
    assert isinstance(status, Status)
    assert status.explain() == status_of(Outcome.MISSED).explain()
