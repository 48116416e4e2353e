"""One table says what becomes of every field when a state is kept; none is left out."""

import ast
from dataclasses import fields, replace
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chances import CHANCES
from dovetail import core
from dovetail.core import kept, still
from dovetail.core.entries import (
    Held,
    JournalEntry,
    NodeJoined,
    Preempt,
    Released,
    Start,
    Started,
    Submitted,
)
from dovetail.core.journal import job_from
from dovetail.core.model import Estimate, Interruption, Job, JobId, Node, Option
from dovetail.core.paces import Pace, heard
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.core.track import KeptHost, Phase
from dovetail.testing import (
    World,
    fingerprint,
    job,
    placement,
    policy_for,
    random_world,
    run_world,
    wild_world,
    world_of_options,
)
from dovetail.workloads.service import keeping as service_keeping
from dovetail.workloads.study import keeping

SOURCES = Path(core.__file__).parent
STUDY, SERVICE = "../workloads/study", "../workloads/service"
OF_LONG_AGO = ("ended", "shapes", "capacity")  # forgotten in part, or numbered anew


BASES = {"Room": ("closings.py", "Closings"), "Closings": ("inventory.py", "Inventory")}


def attributes(file: str, name: str) -> set[str]:
    """What objects of a class hold, by its source: so that it is known of compiled ones too."""
    inherited = attributes(*BASES[name]) if name in BASES else set()
    tree = ast.parse((SOURCES / file).read_text("utf-8"))
    found = next(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name)
    defaults = {n.target.id for n in found.body if isinstance(n, ast.AnnAssign)}  # type: ignore[union-attr]
    begins = next(n for n in found.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    given = {
        n.attr
        for n in ast.walk(begins)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
    }
    return inherited | defaults | given


@pytest.mark.parametrize(
    ("file", "name", "decided"),
    [
        ("track.py", "Track", (*kept.TRACK, *kept.TRACK_DERIVED)),
        (
            *(f"{SERVICE}/track.py", "ServiceTrack"),
            (
                *(*service_keeping.MADE_OF, *service_keeping.KEPT),
                *(*service_keeping.PARTS, *service_keeping.DERIVED),
            ),
        ),
        (f"{STUDY}/track.py", "TrialTrack", (*keeping.TRIAL_MADE_OF, *keeping.TRIAL_KEPT)),
        (
            *(f"{STUDY}/track.py", "StudyTrack"),
            (
                *(*keeping.STUDY_MADE_OF, *keeping.STUDY_KEPT),
                *(*keeping.STUDY_PARTS, *keeping.STUDY_DERIVED),
            ),
        ),
        ("room.py", "Room", (*kept.ROOM_KEPT, *kept.ROOM_DERIVED, *kept.ROOM_PASSING)),
        (
            *("view.py", "View"),
            (
                *(*kept.STATE_KEPT, *kept.STATE_PARTS, *kept.STATE_DERIVED),
                *(*kept.STATE_OF_LONG_AGO, *kept.STATE_INDEXES),
            ),
        ),
    ],
)
def test_of_every_field_it_is_decided_what_becomes_of_it(
    file: str, name: str, decided: tuple[str, ...]
) -> None:
    assert len(set(decided)) == len(decided)
    assert attributes(file, name) == set(decided), (
        f"decide in its table of kept fields about {name}"
    )


# A value for every field, other than the one it begins with.
OTHER: dict[str, Any] = {
    "phase": Phase.SUSPENDED, "placement": placement((0, 1)), "left": placement((0, 2), share=500),
    "awaits": ("x",), "metrics": {"loss": 0.5, "best": "NaN"}, "step": 3.5, "exit_code": 9,
    "parked_at": placement((0, 4)), "moves_from": placement((0, 8)),
    "paces": (Pace("A", 2, 1, 3.5, 9.0),),
    "window": heard(None, "1 [1000]", 9.0, 3.0),
    "keeps": KeptHost(placement((0, 4)), 2.0, 3.0),
}  # fmt: skip


def test_every_field_of_a_track_is_in_snapshots_stills_and_fingerprints() -> None:
    for name, new in zip(kept.TRACK_KEPT, kept.NEW_TRACK, strict=True):
        state = State(past=10)
        state.record(NodeJoined(0.0, Node("n0", 4)))
        state.record(Submitted(0.0, job("j")))
        before = fingerprint(state)["tracks"]
        value = OTHER.get(name, new + 1 if isinstance(new, int | float) else f"{new}x")
        value = not new if isinstance(new, bool) else value
        track = state.tracks[JobId("j")]
        setattr(track, name, value)
        track.bar()
        changed = fingerprint(state)["tracks"]
        assert changed != before, f"{name} is not in the fingerprint"
        assert fingerprint(restore(take(state), 10))["tracks"] == changed, name
        again = still.revive(still.take(state, state.now, state.tracks.values()))
        assert fingerprint(again)["tracks"] == changed, name


VALUES: dict[str, Any] = {
    "kinds": ("A",), "interruption": Interruption(1.0), "estimate": Estimate(1.0),
    "deadline": 5.0, "min_gpus": 1, "max_gpus": 4, "nodes": 1, "time_limit_s": 9.0, "after": ("x",),
    "preemptible": False, "restartable": True, "member": 0, "settings": (("lr", 0.1),),
    "late_cost_per_s": 0.5, "options": (Option("A", 1, 2.0),), "settles": True, "last_step": 3,
    "share": 500,
}  # fmt: skip


def test_a_job_that_sets_any_field_is_told_with_it() -> None:
    for item in fields(Job):
        if not item.init or item.name in ("id", "gpus", "user", "tenant"):
            continue
        kinds: dict[Any, Any] = {str: "x", tuple: ("x",)}
        usual = kinds.get(type(item.default), 2)
        value = VALUES.get(item.name, usual)
        extra = {"kinds": ("A",)} if item.name == "options" else {}
        asked = Job(JobId("j"), **{item.name: value, **extra})
        assert asked != Job(JobId("j")), item.name
        assert not asked.simple, f"a job with {item.name} is not simple"
    assert Job(JobId("j"), 3, user="u", tenant="t").simple
    assert replace(Job(JobId("j")), interruption=Interruption(0.0, 0.0, inf)).simple
    assert job_from({"id": "j", "gpus": 3}).simple


def test_a_job_that_moves_after_a_restart_is_seen_to_move() -> None:
    state = State(past=10)
    entries: list[JournalEntry] = [
        *(NodeJoined(0.0, Node(f"n{i}", 1)) for i in range(2)),
        Submitted(0.0, job("j")),
        Start(JobId("j"), placement((0, 1))),
        Started(1.0, JobId("j")),
        Preempt(JobId("j")),
    ]
    for entry in entries:
        state.record(entry)
    copy = restore(take(state), 10)
    for one in (state, copy):
        one.record(Start(JobId("j"), placement((1, 1))))
        assert one.tracks[JobId("j")].migrations == 1


def test_a_job_that_keeps_its_option_keeps_it_after_a_restart() -> None:
    ways = (Option("A", 1, 10.0), Option("B", 1, 20.0))
    state = State(past=10)
    entries: list[JournalEntry] = [
        *(NodeJoined(0.0, Node(kind.lower(), 1, kind)) for kind in "AB"),
        Submitted(0.0, job("j", kinds=("A",), options=ways, settles=True)),
        Start(JobId("j"), placement((1, 1))),
        Preempt(JobId("j")),
    ]
    for entry in entries:
        state.record(entry)
    for one in (state, restore(take(state), 10)):
        assert one.tracks[JobId("j")].shape.options == (("B", 1),)


# ----------------------------------------------------------------------------- generated histories

HISTORIES = st.tuples(
    CHANCES,
    st.sampled_from([random_world, wild_world, world_of_options]),
    st.sampled_from(["fifo", "srtf", "gandiva:slice_s=6", "drf", "easy", "andreas-greedy"]),
)


def remembered(state: State) -> dict[str, Any]:
    return {name: value for name, value in fingerprint(state).items() if name not in OF_LONG_AGO}


def history(drawn: tuple[Random, Any, str]) -> list[Any]:
    chance, make_world, policy = drawn
    world: World = make_world(chance)
    entries = [entry for _, entry in run_world(world, policy_for(world, policy)).entries]
    return [entry for told in entries for entry in (told, *_wishes(chance, told))]


def _wishes(chance: Random, told: Any) -> list[Any]:
    """A user who pauses a job that has just been submitted, and lets it go."""
    if not isinstance(told, Submitted) or chance.random() < 0.7:
        return []
    return [Held(told.at, told.job.id, "paused"), Released(told.at, told.job.id)]


@settings(max_examples=15)
@given(drawn=HISTORIES)
def test_a_snapshot_at_every_entry_goes_on_as_if_nothing_had_happened(drawn: Any) -> None:
    entries = history(drawn)
    state = State(past=1000)
    copy = State(past=1000)
    for entry in entries:
        copy.record(entry)
        copy = restore(take(copy), past=1000)
        state.record(entry)
        assert remembered(copy) == remembered(state), f"after {entry!r}"


@given(drawn=HISTORIES, part=st.floats(0, 1))
def test_a_still_goes_on_as_if_nothing_had_happened(drawn: Any, part: float) -> None:
    entries = history(drawn)
    cut = int(part * len(entries))
    state = State(past=1000)
    for entry in entries[:cut]:
        state.record(entry)
    taken = still.take(state, state.now, state.tracks.values())
    copy = still.revive(taken)
    copy.room.prompt = state.room.prompt
    for entry in (None, *entries[cut:]):
        if entry is not None:
            state.record(entry)
            copy.record(entry)
        assert moving(copy) == moving(state), f"after {entry!r}"


def moving(state: State) -> dict[str, Any]:
    """What a still has: it does not tell how prompt nodes are, nor how many were ever suspended."""
    left_out = ("nodes", "counts", "closed")
    return {name: value for name, value in remembered(state).items() if name not in left_out}
