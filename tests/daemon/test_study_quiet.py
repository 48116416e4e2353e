"""Which trials have said nothing for too long."""

from __future__ import annotations

from dovetail.api.study_row import QuietTrials
from dovetail.core.entries import Preempt
from dovetail.core.model import JobId
from dovetail.daemon.studies.rows import quiet_in
from dovetail.workloads.study.kind import studies_of
from dovetail.workloads.study.track import StudyTrack
from study_state import Lived, design


def two_running(step_s: float = 2.0, start_s: float = 5.0, reports: int = 4) -> Lived:
    """Trial 0 reports, trial 1 does not."""
    lived = Lived(gpus=2)
    lived.open(design(trials=3))
    lived.start("s1.0", gpu=0)
    lived.start("s1.1", gpu=1)
    for step in range(1, reports + 1):
        lived.report("s1.0", step, 1 / step, start_s + step_s * step)
    return lived


def study(lived: Lived) -> StudyTrack:
    return studies_of(lived.state).open["s1"]


def trials_at(lived: Lived, now: float) -> list[int]:
    quiet = quiet_in(study(lived), now, {})
    return quiet.trials if quiet else []


def test_one_that_is_far_slower_than_the_others_is_told() -> None:
    lived = two_running()
    assert trials_at(lived, 35.0) == []
    assert trials_at(lived, 39.9) == []  # 20 steps of 2 s
    assert trials_at(lived, 40.0) == [1]
    found = quiet_in(study(lived), 60.0, {1: ["loss"]})
    assert found == QuietTrials(trials=[1, 0], job="s1.1", seconds=60.0, usual_s=2.0, told=["loss"])


def test_short_steps_are_no_reason_to_warn_at_once() -> None:
    assert trials_at(two_running(step_s=0.01, start_s=0.1), 29.0) == []
    assert trials_at(two_running(step_s=0.01, start_s=0.1), 31.0) == [1, 0]


def test_a_start_that_takes_long_for_all_is_no_reason() -> None:
    lived = two_running(start_s=50.0)
    assert trials_at(lived, 100.0) == []
    assert trials_at(lived, 110.0) == [1]


def test_before_anybody_has_reported_a_minute_is_waited() -> None:
    lived = two_running(reports=0)
    assert trials_at(lived, 59.0) == []
    assert trials_at(lived, 60.0) == [0, 1]
    found = quiet_in(study(lived), 60.0, {0: ["accuracy"]})
    assert found is not None
    assert (found.usual_s, found.told) == (None, ["accuracy"])


def test_pauses_are_not_silence() -> None:
    lived = two_running()
    lived.record(Preempt(JobId("s1.1")))
    assert trials_at(lived, 41.0) == []
    assert trials_at(lived, 54.0) == [0]
