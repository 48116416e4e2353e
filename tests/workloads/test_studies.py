"""Studies as the journal tells them: curves, stints, who may line up, and what is remembered."""

from dataclasses import replace
from math import isnan
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chances import CHANCES
from dovetail.core import still
from dovetail.core.entries import (
    Branch,
    Cancelled,
    Finished,
    Held,
    JournalEntry,
    Preempt,
    Released,
    Reported,
    Saved,
    Start,
    Stop,
    Submitted,
    Woke,
)
from dovetail.core.errors import IllegalEntry
from dovetail.core.journal import decode, encode
from dovetail.core.model import JobId
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.core.track import Phase
from dovetail.core.view import CLOSES, REPORTS, View
from dovetail.testing import fingerprint, job, placement
from dovetail.workloads.study.entries import (
    CloseStudy,
    StudyExtended,
    StudyOpened,
    StudyResumed,
    StudyStopped,
)
from dovetail.workloads.study.kind import studies_of
from dovetail.workloads.study.track import DONE, FAILED, NEW, PAUSED, RUNNING, STOPPED, StudyTrack
from study_state import Lived, design, live_by_chance, trial

LIVES = CHANCES.map(live_by_chance)
FORGOTTEN = ("ended", "shapes", "capacity")  # of long ago, or numbered anew


def remembered(state: State) -> dict[str, object]:
    return {name: value for name, value in fingerprint(state).items() if name not in FORGOTTEN}


def study_of(lived: Lived) -> StudyTrack:
    return studies_of(lived.state).open["s1"]


@given(lived=LIVES)
def test_replaying_the_journal_rebuilds_the_studies(lived: Lived) -> None:
    copy = State(1000)
    for entry in lived.entries:
        at = getattr(entry, "at", copy.now)
        copy.record(decode(encode(entry, at)))
    assert fingerprint(copy) == fingerprint(lived.state)


@given(lived=LIVES, seed=st.integers())
def test_a_snapshot_and_what_came_after_give_the_same_studies(lived: Lived, seed: int) -> None:
    cut = Random(seed).randint(0, len(lived.entries))
    state = State(1000)
    for entry in lived.entries[:cut]:
        state.record(entry)
    copy = restore(take(state), past=1000)
    assert remembered(copy) == remembered(state)
    for entry in lived.entries[cut:]:
        copy.record(entry)
    assert remembered(copy) == remembered(lived.state)


@given(lived=LIVES, seed=st.integers())
def test_a_still_goes_on_as_the_state_does_and_leaves_it_alone(lived: Lived, seed: int) -> None:
    cut = Random(seed).randint(0, len(lived.entries))
    state = State(1000)
    for entry in lived.entries[:cut]:
        state.record(entry)
    taken, before = still.take(state, state.now, state.tracks.values()), fingerprint(state)
    for _ in range(2):  # it may be set going more than once
        copy = still.revive(taken)
        for entry in lived.entries[cut:]:
            copy.record(entry)
        assert fingerprint(copy).get("studies") == fingerprint(lived.state).get("studies")
    assert fingerprint(state) == before


# ------------------------------------------------------------------------------------------- curves


def test_a_trial_has_a_point_for_every_report_of_the_metric_that_is_further_than_before() -> None:
    lived = Lived()
    lived.open(design())
    lived.start("s1.0")
    lived.report("s1.0", 1, 0.9, 1.0)
    lived.record(Reported(1.5, JobId("s1.0"), 2, {"accuracy": 0.5}))
    lived.report("s1.0", 2, "NaN", 2.0)
    lived.report("s1.0", 2, 0.1, 2.5)  # told twice
    lived.report("s1.0", None, 0.7, 3.0)
    points = study_of(lived).trials[0].points
    assert [point.step for point in points] == [1, 2, 3]
    assert [point.at for point in points] == [1.0, 2.0, 3.0]
    assert isnan(points[1].value)


def test_the_best_is_the_lowest_or_the_highest_and_the_target_has_its_time() -> None:
    for direction, values in (("min", (0.9, 0.3, 0.5)), ("max", (0.1, 0.7, 0.5))):
        lived = Lived()
        target = 0.4 if direction == "min" else 0.6
        lived.open(design(direction=direction, target=target))
        lived.start("s1.1")
        for step, value in enumerate(values, 1):
            lived.report("s1.1", step, value, float(step))
        best = study_of(lived).best
        assert best is not None
        assert (best[0].number, best[1].step) == (1, 2)
        assert study_of(lived).reached_at == 2.0


def test_stints_seconds_and_standing_are_kept_also_of_trials_that_ended() -> None:
    lived = Lived()
    lived.open(design(trials=2))
    lived.start("s1.0")
    lived.report("s1.0", 1, 0.5, 2.0)
    lived.record(Preempt(JobId("s1.0")), Saved(3.0, JobId("s1.0"), "freeze", 0.25, 7, True))
    first, second = study_of(lived).trials.values()
    assert (first.standing, second.standing) == (PAUSED, NEW)
    lived.start("s1.0", 1)
    assert first.standing == RUNNING
    lived.record(Finished(5.0, JobId("s1.0")))
    assert [(s.since, s.until) for s in first.stints] == [(0.0, 2.0), (3.0, 5.0)]
    assert (first.standing, first.held_s, first.held_gpu_s) == (DONE, 4.0, 4.0)
    assert first.saved_in_s == 0.25
    assert study_of(lived).switches == 2


def test_a_trial_that_ends_without_the_metric_has_failed_and_says_what_it_did_report() -> None:
    lived = Lived()
    lived.open(design())
    lived.start("s1.0")
    lived.record(
        Reported(1.0, JobId("s1.0"), 1, {"acc": 0.5, "f1": 0.1}), Finished(2.0, JobId("s1.0"))
    )
    found = study_of(lived).trials[0]
    assert found.standing == FAILED
    assert found.reason == "it ended without reporting 'loss'; it reported acc, f1"


def test_a_trial_that_its_study_or_its_user_ends_was_stopped_not_failed() -> None:
    lived = Lived(past=10)
    lived.open(design())
    lived.record(
        Stop(JobId("s1.0"), "not promising", None, True), Cancelled(1.0, JobId("s1.1"), "by ann")
    )
    assert [study_of(lived).trials[n].standing for n in (0, 1)] == [STOPPED, STOPPED]
    assert study_of(lived).trials[0].reason == "not promising"
    assert [track.phase for track in lived.state.past] == [Phase.CANCELLED, Phase.CANCELLED]


def test_trials_that_share_a_stage_go_on_from_its_curve() -> None:
    lived = Lived()
    lived.record(
        StudyOpened(0.0, design(trials=2)),
        Submitted(0.0, trial(0, job_id="stage")),
        Submitted(0.0, trial(0, job_id="first", after=("stage",))),
        Submitted(0.0, trial(1, job_id="second", after=("stage",))),
    )
    lived.start("stage")
    lived.report("stage", 1, 0.9, 1.0)
    lived.report("stage", 2, 0.8, 2.0)
    lived.record(Finished(3.0, JobId("stage")))
    first, second = study_of(lived).trials.values()
    assert first.points == second.points
    assert (first.standing, second.standing) == (PAUSED, PAUSED)
    lived.start("second")
    lived.report("second", 3, 0.7, 4.0)
    assert (len(first.points), len(second.points)) == (2, 3)
    assert first.jobs == ["stage", "first"]


@pytest.mark.parametrize("first", [0, 1])
def test_a_stage_that_goes_past_its_end_gives_others_neither_points_nor_a_beginning(
    first: int,
) -> None:
    lived = Lived()
    lived.record(
        StudyOpened(0.0, design(trials=2)),
        Submitted(0.0, trial(0, job_id="stage", last_step=2)),
        Submitted(0.0, trial(0, job_id="first", after=("stage",))),
        Submitted(0.0, trial(1, job_id="second", after=("stage",))),
    )
    lived.start("stage")
    for step in range(3):
        lived.report("stage", step + first, 0.9, 1.0 + step)
    lived.record(Finished(4.0, JobId("stage")))
    second = study_of(lived).trials[1]
    assert [point.step for point in second.points] == [first, first + 1]
    for job_id in ("first", "second"):
        assert (
            "must end after DOVETAIL_STEPS steps, there 2" in lived.state.unplaceable[JobId(job_id)]
        )
    again = restore(take(lived.state), 1000)
    assert fingerprint(again) == fingerprint(lived.state)


def test_a_trial_that_branches_off_another_goes_on_as_a_new_job() -> None:
    lived = Lived()
    lived.open(design(trials=2))
    lived.start("s1.0")
    lived.report("s1.0", 1, 0.9, 1.0)
    lived.record(Branch(JobId("s1.0"), JobId("s1.1"), (("lr", 0.5),)))
    found = study_of(lived).trials[0]
    assert found.standing == PAUSED
    branching = found.branching
    assert branching is not None
    assert branching.source == "s1.1"
    lived.record(Submitted(2.0, trial(0, job_id="new")))
    assert study_of(lived).trials[0].branching is None
    assert found.jobs == ["s1.0", "new"]
    lived.start("new")
    lived.report("new", 2, 0.4, 3.0)
    assert [point.step for point in found.points] == [1, 2]


# --------------------------------------------------------------------------- so many trials at once


def in_line(state: State) -> list[str]:
    return [track.job.id for track in state.tracks.values() if not track.barred]


def test_only_so_many_trials_line_up_at_once_and_the_next_when_one_ends_or_is_held() -> None:
    lived = Lived(gpus=4)
    lived.open(design(trials=5, at_once=2))
    state = lived.state
    assert in_line(state) == ["s1.0", "s1.1"]
    lived.start("s1.0")
    lived.record(Finished(1.0, JobId("s1.0")))
    assert in_line(state) == ["s1.1", "s1.2"]
    lived.record(Held(2.0, JobId("s1.1"), "paused"))
    assert in_line(state) == ["s1.2", "s1.3"]
    lived.record(Released(3.0, JobId("s1.1")))
    assert in_line(state) == ["s1.2", "s1.3"]
    assert state.waiting_count == 2


def test_a_trial_on_the_bench_that_is_started_takes_the_place_of_the_last_in_line() -> None:
    lived = Lived(gpus=4)
    lived.open(design(trials=4, at_once=2))
    lived.start("s1.0")
    lived.record(Woke(1.0), Preempt(JobId("s1.0")), Start(JobId("s1.3"), placement((0, 1))))
    assert in_line(lived.state) == ["s1.1", "s1.3"]  # the one that gave way waits longest
    lived.start("s1.1", 1)
    with pytest.raises(IllegalEntry, match="as many of its jobs at once as it may"):
        lived.record(Start(JobId("s1.2"), placement((0, 4))))
    assert in_line(lived.state) == ["s1.1", "s1.3"]


def test_a_start_from_the_bench_that_is_refused_changes_nothing() -> None:
    lived = Lived(gpus=1)
    lived.open(design(trials=3, at_once=2))
    lived.start("s1.0")
    before = fingerprint(lived.state)["studies"]
    with pytest.raises(IllegalEntry):
        lived.record(Start(JobId("s1.2"), placement((0, 1))))
    assert fingerprint(lived.state)["studies"] == before
    assert in_line(lived.state) == ["s1.0", "s1.1"]
    assert lived.state.waiting_count == 1


def test_other_jobs_that_are_held_cannot_be_started() -> None:
    lived = Lived()
    lived.record(Submitted(0.0, job("j")), Held(0.0, JobId("j"), "paused"))
    with pytest.raises(IllegalEntry, match="does not stand in line"):
        lived.record(Start(JobId("j"), placement((0, 1))))


# --------------------------------------------------------------------------------- opening, closing


class Told:
    """An index that follows reports and ends of studies."""

    def __init__(self) -> None:
        self.watches = REPORTS | CLOSES
        self.heard: list[object] = []

    def build(self, view: View) -> "Told":
        return self

    def reports(self, track: object, entry: Reported) -> None:
        self.heard.append(entry.step)

    def closes(self, study: StudyTrack, reason: str) -> None:
        self.heard.append((study.id, reason))


def test_an_index_may_follow_reports_and_the_ends_of_studies() -> None:
    lived, told = Lived(), Told()
    lived.state.index(told)
    lived.open(design(trials=1))
    lived.start("s1.0")
    lived.report("s1.0", 1, 0.5, 1.0)
    lived.record(Finished(2.0, JobId("s1.0")), CloseStudy("s1", "all done"))
    assert told.heard == [1, ("s1", "all done")]
    lived.state.forget_indexes()
    lived.open(design("s2", trials=1))
    lived.start("s2.0")
    lived.report("s2.0", 1, 0.5, 3.0)
    assert len(told.heard) == 2
    assert studies_of(lived.state).open["s2"].trials[0].points  # the state itself still listens


def test_a_study_closes_only_when_its_jobs_have_ended_and_is_remembered_in_brief() -> None:
    lived = Lived()
    lived.open(design(trials=1))
    with pytest.raises(IllegalEntry, match="have not ended"):
        lived.record(CloseStudy("s1", "enough"))
    lived.record(Stop(JobId("s1.0"), "enough", None, True), CloseStudy("s1", "enough"))
    assert not studies_of(lived.state).open
    (closed,) = studies_of(lived.state).closed
    assert (closed.id, closed.name, closed.reason) == ("s1", "digits", "enough")


def test_only_the_last_hundred_closed_studies_are_remembered() -> None:
    lived = Lived()
    for number in range(105):
        lived.record(StudyOpened(lived.now, design(f"s{number}")), CloseStudy(f"s{number}", "done"))
    assert studies_of(lived.state).closed[0].id == "s5"


def test_time_while_a_study_is_stopped_does_not_count() -> None:
    lived = Lived()
    lived.open(design())
    lived.record(StudyStopped(10.0, "s1"), Woke(20.0))
    assert study_of(lived).age_s(lived.now) == 10.0
    lived.record(StudyResumed(30.0, "s1"), Woke(35.0))
    assert study_of(lived).age_s(lived.now) == 15.0


def test_an_extended_study_has_more_trials_and_nothing_else_changes() -> None:
    lived = Lived()
    lived.open(design())
    before = study_of(lived).design
    lived.record(StudyExtended(5.0, "s1", before.planned + 3))
    assert study_of(lived).design == replace(before, planned=before.planned + 3)


IMPOSSIBLE: list[JournalEntry] = [
    StudyExtended(0.0, "s9", 100),
    StudyExtended(0.0, "s1", 1),
    StudyOpened(0.0, design()),
    StudyStopped(0.0, "s9"),
    CloseStudy("s9", "done"),
    Branch(JobId("plain"), JobId("s1.0"), ()),
]


@pytest.mark.parametrize("entry", IMPOSSIBLE, ids=str)
def test_what_cannot_be_is_refused(entry: JournalEntry) -> None:
    lived = Lived()
    lived.open(design(trials=1))
    lived.record(Submitted(0.0, job("plain")))
    with pytest.raises(IllegalEntry):
        lived.record(entry)


def test_a_job_that_only_says_it_is_a_trial_of_no_open_study_is_a_plain_job() -> None:
    lived = Lived()
    lived.record(Submitted(0.0, trial(0, "nowhere")))
    lived.start("nowhere.0")
    lived.record(Finished(1.0, JobId("nowhere.0")))
    assert lived.state.ended == {"nowhere.0": Phase.FINISHED}
