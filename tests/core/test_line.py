"""A line in which a job that does not fit blocks all behind it, against the same written out naively."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.entries import (
    Action,
    Cancelled,
    Finished,
    Held,
    JournalEntry,
    NodeJoined,
    Released,
    Start,
    Submitted,
)
from dovetail.core.model import JobId
from dovetail.core.state import State
from dovetail.policies.keys import ByPriority
from dovetail.policies.listing import LineScheduler
from dovetail.policies.placement import consolidated
from dovetail.testing import job, nodes

GPUS = 8


@dataclass
class Box:
    """A state with one scheduler, driven by hand."""

    state: State = field(default_factory=State)
    scheduler: LineScheduler = field(
        default_factory=lambda: LineScheduler(ByPriority(), consolidated)
    )
    at: float = 0.0
    made: int = 0

    def __post_init__(self) -> None:
        for node in nodes(2, GPUS // 2):
            self.state.record(NodeJoined(0.0, node))

    def submit(self, gpus: int, priority: float) -> None:
        self.at += 1.0
        asked = job(f"j{self.made}", gpus, priority=priority)
        self.made += 1
        self.state.record(Submitted(self.at, asked))

    def asked(self) -> list[Action]:
        """What would be decided; nothing is recorded, and all is put back."""
        actions = list(self.scheduler.decide(self.state))
        self.state.settle()
        return actions

    def carried_out(self) -> list[Action]:
        actions = []
        for action in self.scheduler.decide(self.state):
            self.state.record(action)
            actions.append(action)
        self.state.settle()
        return actions

    def expected(self) -> list[JobId]:
        """The highest priority first, then in order of submission, until one does not fit."""
        waiting = [t for t in self.state.tracks.values() if t.placement is None and not t.barred]
        free = GPUS - sum(int(track.holds) for track in self.state.running.values())
        chosen = []
        for track in sorted(waiting, key=lambda t: (-t.job.priority, t.sequence)):
            if track.job.gpus > free:
                break
            free -= track.job.gpus
            chosen.append(track.job.id)
        return chosen


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, GPUS), st.integers(0, 2)),
        st.tuples(
            st.sampled_from(["end", "cancel", "hold", "release"]), st.integers(0, 99), st.just(0)
        ),
        st.tuples(st.sampled_from(["ask", "decide"]), st.just(0), st.just(0)),
    ),
    max_size=40,
)


def names(actions: list[Action]) -> list[JobId]:
    assert all(isinstance(action, Start) for action in actions)
    return [action.job_id for action in actions if isinstance(action, Start)]


def meddle(box: Box, what: str, which: int) -> None:
    """End, cancel, hold or release one of the jobs that this may happen to."""
    tracks = list(box.state.tracks.values())
    suited = {
        "end": [t for t in tracks if t.placement is not None],
        "cancel": tracks,
        "hold": [t for t in tracks if not t.held and t.placement is None],
        "release": [t for t in tracks if t.held],
    }[what]
    if not suited:
        return
    box.at += 1.0
    job_id = suited[which % len(suited)].job.id
    kinds: dict[str, Callable[[], JournalEntry]] = {
        "end": lambda: Finished(box.at, job_id),
        "cancel": lambda: Cancelled(box.at, job_id, "no longer wanted"),
        "hold": lambda: Held(box.at, job_id, "later"),
        "release": lambda: Released(box.at, job_id),
    }
    box.state.record(kinds[what]())


@given(steps=STEPS)
def test_asked_or_carried_out_they_start_in_order_until_one_does_not_fit(
    steps: list[tuple[str, int, int]],
) -> None:
    box = Box()
    for what, number, priority in [*steps, ("ask", 0, 0), ("decide", 0, 0)]:
        if what == "submit":
            box.submit(number, float(priority))
        elif what in ("ask", "decide"):
            expected = box.expected()
            asked = box.asked()
            assert names(asked) == expected
            assert box.asked() == asked, "asking changes nothing"
            if what == "decide":
                assert box.carried_out() == asked
        else:
            meddle(box, what, number)


def test_what_was_asked_for_can_be_recorded_afterwards() -> None:
    box = Box()
    for gpus in (2, 3, 1, 4):
        box.submit(gpus, 0.0)
    actions = list(box.scheduler.decide(box.state))
    for action in actions:
        box.state.record(action)
    box.state.settle()
    assert list(box.state.running) == names(actions) == ["j0", "j1", "j2"]
    assert box.state.room.most_free() == 2
    assert not box.asked()
