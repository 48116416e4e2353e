"""A snapshot stands for all that came before it."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chances import CHANCES
from dovetail.core.entries import (
    Amended,
    Finished,
    Held,
    JournalEntry,
    NodeJoined,
    Occupied,
    Pinned,
    Preempt,
    Released,
    Reported,
    Saved,
    Start,
    Started,
    Submitted,
    Unpinned,
)
from dovetail.core.errors import BadInput
from dovetail.core.model import JobId, Node
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.testing import (
    World,
    fingerprint,
    job,
    placement,
    policy_for,
    random_world,
    run_world,
)

WORLDS = CHANCES.map(random_world)
FORGOTTEN = ("ended", "shapes", "capacity")  # of long ago, or numbered anew


def remembered(state: State) -> dict[str, object]:
    return {name: value for name, value in fingerprint(state).items() if name not in FORGOTTEN}


@given(world=WORLDS, policy=st.sampled_from(["fifo", "srtf", "gandiva", "drf"]), seed=st.integers())
def test_a_snapshot_and_what_came_after_give_the_same_state(
    world: World, policy: str, seed: int
) -> None:
    entries = [entry for _, entry in run_world(world, policy_for(world, policy)).entries]
    cut = Random(seed).randint(0, len(entries))
    state = State(past=1000)
    for entry in entries[:cut]:
        state.record(entry)
    copy = restore(take(state), past=1000)
    assert remembered(copy) == remembered(state)
    for entry in entries[cut:]:
        state.record(entry)
        copy.record(entry)
    assert remembered(copy) == remembered(state)
    assert [track.job.id for track in copy.past] == [track.job.id for track in state.past]


def test_what_users_wanted_and_processes_did_is_kept() -> None:
    state = State(past=10)
    entries: list[JournalEntry] = [
        *(Submitted(0.0, job(name)) for name in "abc"),
        Submitted(0.0, job("later", after=("a",))),
        Held(0.0, JobId("b"), "paused"),
        Amended(0.0, job("c", priority=3.0)),
    ]
    for entry in entries:
        state.record(entry)
    copy = restore(take(state), past=10)
    assert copy.tracks[JobId("b")].held == "paused"
    assert copy.tracks[JobId("later")].awaits == ("a",)
    assert copy.waiting_count == state.waiting_count == 2
    assert copy.tracks[JobId("c")].job.priority == 3.0


def test_a_parked_job_and_its_reports_are_kept() -> None:
    state = State(past=10)
    entries: list[JournalEntry] = [
        NodeJoined(0.0, Node("box", 4)),
        Occupied(0.0, "box", 0b1000, 1.5, 3.0),
        Submitted(0.0, job("a")),
        Submitted(0.0, job("later", after=("a",))),
        Start(JobId("a"), placement((0, 1))),
        Started(1.0, JobId("a")),
        Reported(2.0, JobId("a"), 7, {"loss": 0.5, "best": "NaN"}, 40),
        Pinned(2.0, JobId("a"), "too large"),
    ]
    for entry in entries:
        state.record(entry)
    copy = restore(take(state), past=10)
    assert copy.tracks[JobId("a")].pinned == "too large"
    for one in (state, copy):
        one.record(Unpinned(3.0, JobId("a")))
        one.record(Preempt(JobId("a")))
        one.record(Saved(4.0, JobId("a"), "freeze", 0.5, 1 << 30, True))
    copy = restore(take(copy), past=10)
    assert remembered(copy) == remembered(state)
    for one in (state, copy):
        track = one.tracks[JobId("a")]
        assert (track.rung, track.parked_bytes, track.process, track.run) == (
            "freeze", 1 << 30, True, 1,
        )  # fmt: skip
        assert (track.step, track.metrics, track.reported_upto) == (
            7, {"loss": 0.5, "best": "NaN"}, 40,
        )  # fmt: skip
        assert one.room.free[0] == 0b0111
        one.record(Finished(5.0, JobId("a")))
        assert not one.tracks[JobId("later")].awaits
        one.record(Occupied(5.0, "box", 0))
        assert one.room.free[0] == 0b1111
        one.record(Held(6.0, JobId("later"), "paused"))
        one.record(Released(7.0, JobId("later")))
        assert one.waiting_count == 1


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format":99}', '{"format":1}', "null"])
def test_a_damaged_snapshot_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"snapshot cannot be read|snapshot"):
        restore(text, past=10)
