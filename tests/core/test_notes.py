"""What a policy notes is folded like everything else, and is there after a restart."""

import pytest

from dovetail.core import still
from dovetail.core.entries import Cancelled, NodeJoined, Note, Submitted
from dovetail.core.errors import IllegalEntry
from dovetail.core.model import JobId, Node
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.testing import fingerprint, job


def with_notes() -> State:
    state = State(past=10)
    for entry in (NodeJoined(0.0, Node("n0", 4)), Submitted(0.0, job("j"))):
        state.record(entry)
    state.record(Note("plan", {"order": ["j"]}))
    state.record(Note("tried", 1, JobId("j")))
    state.record(Note("tried", 2, JobId("j")))
    return state


def test_notes_are_kept_in_snapshots_and_stills() -> None:
    state = with_notes()
    assert (state.notes, state.tracks[JobId("j")].notes) == (
        {"plan": {"order": ["j"]}},
        {"tried": 2},
    )
    again = restore(take(state), 10)
    assert fingerprint(again) == fingerprint(state)
    revived = still.revive(still.take(state, state.now, state.tracks.values()))
    assert (revived.notes, revived.tracks[JobId("j")].notes) == (state.notes, {"tried": 2})


def test_a_note_without_a_value_is_forgotten() -> None:
    state = with_notes()
    state.record(Note("plan", None))
    state.record(Note("plan", None))
    state.record(Note("tried", None, JobId("j")))
    assert not state.notes
    assert not state.tracks[JobId("j")].notes


def test_nothing_is_noted_of_a_job_that_has_ended() -> None:
    state = with_notes()
    state.record(Cancelled(1.0, JobId("j"), "by its user"))
    with pytest.raises(IllegalEntry, match="has ended"):
        state.record(Note("tried", 3, JobId("j")))
