"""How much is left of a job, by what it tells of itself."""

from dovetail.core.entries import NodeJoined, Reported, Start, Started, Submitted
from dovetail.core.model import Estimate, JobId, Node
from dovetail.core.state import State
from dovetail.predict.duration import UserEstimate
from dovetail.predict.left import ByReports
from dovetail.testing import job, placement


def left_after(step: float, amount: float) -> float:
    """Of a job that its user thinks takes 600 s, a minute after it began."""
    state = State()
    own = job("j", amount=amount, estimate=Estimate(600.0))
    for entry in (NodeJoined(0.0, Node("n", 1)), Submitted(0.0, own)):
        state.record(entry)
    state.record(Start(JobId("j"), placement((0, 1))))
    state.record(Started(0.0, JobId("j")))
    state.record(Reported(60.0, JobId("j"), step, {}))
    return ByReports(UserEstimate()).left_s(state.tracks[JobId("j")], state)


def test_what_is_left_follows_from_the_steps_that_it_has_told_of() -> None:
    assert left_after(step=10, amount=40) == 180.0


def test_a_job_that_counts_otherwise_than_its_command_is_not_believed_to_be_done() -> None:
    assert left_after(step=400, amount=60) == 540.0


def test_a_job_of_the_same_command_is_known_by_the_steps_of_another() -> None:
    state = State()
    first = job("first", amount=40.0, alike=("a", "same", "f", "s"))
    second = job("second", amount=100.0, alike=("b", "same", "f", "s"))
    for entry in (NodeJoined(0.0, Node("n", 1)), Submitted(0.0, first), Submitted(0.0, second)):
        state.record(entry)
    left = ByReports(UserEstimate())
    assert left.left_s(state.tracks[JobId("second")], state) == 3600.0
    state.record(Start(JobId("first"), placement((0, 1))))
    state.record(Started(0.0, JobId("first")))
    state.record(Reported(60.0, JobId("first"), 10.0, {}))
    assert left.left_s(state.tracks[JobId("second")], state) == 600.0


def test_time_since_the_last_report_counts() -> None:
    state = State()
    own = job("j", amount=40.0)
    for entry in (NodeJoined(0.0, Node("n", 1)), Submitted(0.0, own)):
        state.record(entry)
    state.record(Start(JobId("j"), placement((0, 1))))
    state.record(Started(0.0, JobId("j")))
    state.record(Reported(60.0, JobId("j"), 10.0, {}))
    state.record(NodeJoined(120.0, Node("later", 1)))
    assert ByReports(UserEstimate()).left_s(state.tracks[JobId("j")], state) == 120.0
