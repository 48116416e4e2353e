"""The state refuses what cannot be, says why, and is left as it was."""

from typing import Any

import pytest

from dovetail.core.entries import (
    Amended,
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    JournalEntry,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    NoMoreNodes,
    Occupied,
    Paced,
    Preempt,
    Promote,
    Refuse,
    Resize,
    Start,
    Started,
    Submitted,
    TenantSet,
    Woke,
)
from dovetail.core.errors import IllegalEntry
from dovetail.core.model import JobId, Node, Tenant
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.core.view import ENDS, RUNS, WAITS, View
from dovetail.policies.placement import consolidated
from dovetail.testing import fingerprint, job, nodes, placement


def state_after(*entries: JournalEntry) -> State:
    state = State()
    for entry in entries:
        state.record(entry)
    return state


def busy_state() -> State:
    """Two nodes of 4 GPUs and one of another kind; `runs` has 2 GPUs of n0, `waits` wants 4, `part`
    wants half of one, `host` wants CPUs, `ours` belongs to a tenant with a quota of 1; n1 drains."""
    return state_after(
        *(NodeJoined(0.0, node) for node in nodes(2, 4, cpus=8.0, memory_gb=64.0)),
        NodeJoined(0.0, Node("old", 4, kind="old")),
        NodeJoined(0.0, Node("theirs", 4, tenant="them")),
        TenantSet(0.0, Tenant("us", 2.0)),
        Submitted(1.0, job("runs", 2)),
        Submitted(1.0, job("waits", 4, kinds=("gpu",))),
        Submitted(1.0, job("part", share=500)),
        Submitted(1.0, job("host", 1, cpus=6.0)),
        Submitted(1.0, job("ours", 2, tenant="us")),
        Submitted(1.0, job("over")),
        Start(JobId("runs"), placement((0, 0b0011))),
        Started(2.0, JobId("runs")),
        Cancelled(3.0, JobId("over")),
        Submitted(4.0, job("again", 2)),
        Start(JobId("again"), placement((1, 0b0011))),
        Preempt(JobId("again")),
        Submitted(4.0, job("elastic", 2, min_gpus=1, max_gpus=3)),
        Submitted(4.0, job("hungry", 1, cpus=6.0)),
        NodeDraining(5.0, "n1"),
    )


ILLEGAL: dict[str, tuple[JournalEntry, list[str]]] = {
    "starting a job nobody knows": (
        Start(JobId("who"), placement((0, 4))),
        ["'who'", "not known", "5"],
    ),
    "starting a job that runs": (
        Start(JobId("runs"), placement((0, 12))),
        ["'runs'", "t=5", "runs"],
    ),
    "starting a job that has ended": (
        Start(JobId("over"), placement((0, 4))),
        ["'over'", "cancelled"],
    ),
    "starting with too few GPUs": (
        Start(JobId("waits"), placement((0, 4))),
        ["'waits'", "1 GPUs", "4"],
    ),
    "starting with too many GPUs": (Start(JobId("host"), placement((0, 12))), ["'host'", "2 GPUs"]),
    "starting on GPUs of another": (
        Start(JobId("again"), placement((0, 0b0110))),
        ["'again'", "t=5", "2 GPUs", "'n0'", "2 free"],
    ),
    "a share of a GPU of another": (
        Start(JobId("part"), placement((0, 1), share=500)),
        ["'part'", "500/1000", "'n0'"],
    ),
    "starting on a draining node": (
        Start(JobId("again"), placement((1, 0b0011))),
        ["'again'", "'n1'", "draining"],
    ),
    "starting on a node that is not": (Start(JobId("again"), placement((9, 3))), ["'again'", "9"]),
    "starting on GPUs that are not": (
        Start(JobId("again"), placement((0, 0b110000))),
        ["'again'", "'n0'", "only 4"],
    ),
    "naming a GPU twice": (Start(JobId("again"), placement((0, 4), (0, 4))), ["'again'", "twice"]),
    "a GPU kind that was not asked for": (
        Start(JobId("waits"), placement((2, 15))),
        ["'waits'", "kind", "'old'"],
    ),
    "the node of another tenant": (
        Start(JobId("again"), placement((3, 3))),
        ["'again'", "'theirs'", "'them'"],
    ),
    "preempting a job that waits": (Preempt(JobId("waits")), ["'waits'", "holds no GPUs", "t=5"]),
    "preempting a job nobody knows": (Preempt(JobId("who")), ["'who'"]),
    "finishing a job that waits": (Finished(6.0, JobId("waits")), ["'waits'"]),
    "finishing a job that has ended": (Finished(6.0, JobId("over")), ["'over'", "ended"]),
    "failing a job that waits": (Failed(6.0, JobId("waits"), "oops"), ["'waits'"]),
    "interrupting a job that waits": (Interrupted(6.0, JobId("waits"), "oops"), ["'waits'"]),
    "cancelling a job twice": (Cancelled(6.0, JobId("over")), ["'over'"]),
    "starting up twice": (Started(6.0, JobId("runs")), ["'runs'", "second"]),
    "starting up a job that waits": (Started(6.0, JobId("waits")), ["'waits'"]),
    "a speed of nothing": (Paced(6.0, JobId("runs"), 0.0), ["'runs'", "0"]),
    "the speed of a job that waits": (Paced(6.0, JobId("waits"), 1.0), ["'waits'"]),
    "refusing a job that runs": (Refuse(JobId("runs"), "no"), ["'runs'", "runs"]),
    "refusing a job that has ended": (Refuse(JobId("over"), "no"), ["'over'"]),
    "promoting a job that runs": (Promote(JobId("runs")), ["'runs'"]),
    "resizing a job that waits": (Resize(JobId("waits"), placement((0, 15))), ["'waits'"]),
    "a job that joins a group later": (
        Amended(6.0, job("waits", 4, group="s1", member=0)),
        ["'waits'", "group", "t=6"],
    ),
    "a rigid job on other numbers of GPUs": (
        Resize(JobId("runs"), placement((0, 7))),
        ["'runs'", "3 GPUs"],
    ),
    "time that runs backwards": (Woke(4.0), ["4.0", "5.0"]),
    "a job submitted twice": (Submitted(6.0, job("runs")), ["'runs'", "twice"]),
    "a job submitted after its end": (Submitted(6.0, job("over")), ["'over'", "twice"]),
    "a node that joins twice": (NodeJoined(6.0, Node("n0", 4)), ["'n0'", "twice"]),
    "an unknown node that fails": (NodeDown(6.0, "n7"), ["'n7'"]),
    "an unknown node that comes back": (NodeUp(6.0, "n7"), ["'n7'"]),
    "an unknown node that leaves": (NodeLeft(6.0, "n7"), ["'n7'"]),
}


@pytest.mark.parametrize("what", ILLEGAL)
def test_the_state_refuses(what: str) -> None:
    entry, says = ILLEGAL[what]
    state = busy_state()
    before = fingerprint(state)
    with pytest.raises(IllegalEntry) as caught:
        state.record(entry)
    for words in says:
        assert words in str(caught.value)
    assert fingerprint(state) == before, "a refused entry must leave the state as it was"


def test_the_state_refuses_cpus_that_are_gone() -> None:
    state = busy_state()
    state.record(Start(JobId("host"), placement((0, 4))))
    with pytest.raises(IllegalEntry, match=r"'hungry'.*'n0'.*CPUs"):
        state.record(Start(JobId("hungry"), placement((0, 8))))


@pytest.mark.parametrize(
    ("where", "says"),
    {
        "another kind": (((2, 0b11),), "'old'.*of kind 'old'"),
        "another tenant's": (((3, 0b11),), "'theirs'.*for tenant 'them' alone"),
        "a node twice": (((0, 1), (0, 2)), "one twice"),
        "taken on the second node": (((0, 1), (1, 1)), "cannot start job 'gang'"),
    }.values(),
)
def test_the_quick_way_refuses_what_the_long_way_does(
    where: tuple[tuple[int, int], ...], says: str
) -> None:
    """Without quotas, CPUs or shares in play, where most starts are waved through."""
    state = state_after(
        *(NodeJoined(0.0, node) for node in nodes(2, 4)),
        NodeJoined(0.0, Node("old", 4, kind="old")),
        NodeJoined(0.0, Node("theirs", 4, tenant="them" if "theirs" in says else "")),
        Submitted(1.0, job("first", 1)),
        Submitted(1.0, job("gang", 2, kinds=("gpu",) if "old" in says else ())),
        Start(JobId("first"), placement((1, 1))),
    )
    before = fingerprint(state)
    with pytest.raises(IllegalEntry, match=says):
        state.record(Start(JobId("gang"), placement(*where)))
    assert fingerprint(state) == before
    state.record(Start(JobId("gang"), placement((0, 1), (1, 2))))


def test_the_state_refuses_more_than_a_tenants_quota() -> None:
    state = busy_state()
    state.record(Start(JobId("ours"), placement((0, 0b1100))))
    state.record(Submitted(6.0, job("more", tenant="us")))
    with pytest.raises(IllegalEntry, match=r"'more'.*holds 2.*quota of 2"):
        state.record(Start(JobId("more"), placement((2, 1))))


def test_gpus_that_a_tenant_had_before_its_quota_count_in_it() -> None:
    state = busy_state()  # another tenant has a quota already
    state.record(Submitted(6.0, job("early", 2, tenant="later")))
    state.record(Start(JobId("early"), placement((0, 0b1100))))
    state.record(TenantSet(7.0, Tenant("later", 2.0)))
    state.record(Submitted(8.0, job("late", 1, tenant="later")))
    with pytest.raises(IllegalEntry, match=r"'late'.*holds 2.*quota of 2"):
        state.record(Start(JobId("late"), placement((2, 1))))
    state.record(Finished(9.0, JobId("early")))
    assert state.room.held["later"] == 0.0


def test_a_job_without_gpus_must_be_on_a_node() -> None:
    state = busy_state()
    state.record(Submitted(6.0, job("plain", 0, cpus=1.0)))
    with pytest.raises(IllegalEntry, match="'plain'"):
        state.record(Start(JobId("plain"), placement()))
    state.record(Start(JobId("plain"), placement((0, 0))))


def test_a_refused_resize_gives_the_old_gpus_back() -> None:
    state = busy_state()
    half = placement((0, 0b1100), share=500)
    state.record(Start(JobId("elastic"), half))
    state.record(Submitted(6.0, job("guest", 2)))
    state.record(Start(JobId("guest"), half))
    before = fingerprint(state)
    with pytest.raises(IllegalEntry, match="'elastic'"):
        state.record(Resize(JobId("elastic"), placement((0, 0b1100))))
    assert fingerprint(state) == before
    state.record(Finished(7.0, JobId("guest")))
    state.record(Resize(JobId("elastic"), placement((0, 0b1100))))
    assert state.running[JobId("elastic")].placement == placement((0, 0b1100))


def test_shares_of_one_gpu_add_up_to_a_whole_one_and_no_more() -> None:
    state = state_after(
        NodeJoined(0.0, Node("n0", 1)), *(Submitted(0.0, job(f"j{i}", share=400)) for i in range(3))
    )
    here = placement((0, 1), share=400)
    state.record(Start(JobId("j0"), here))
    state.record(Start(JobId("j1"), here))
    with pytest.raises(IllegalEntry, match="'j2'"):
        state.record(Start(JobId("j2"), here))
    state.record(Finished(1.0, JobId("j0")))
    state.record(Start(JobId("j2"), here))


def track_of(state: State, job_id: str) -> Any:
    return state.tracks[JobId(job_id)]


def test_held_executed_and_lost_time_are_kept_apart() -> None:
    state = state_after(
        NodeJoined(0.0, Node("n0", 4)),
        Submitted(0.0, job("j", 2)),
        Start(JobId("j"), placement((0, 3))),
        Started(10.0, JobId("j")),
        Paced(10.0, JobId("j"), 0.5),
    )
    state.record(Woke(30.0))
    track = track_of(state, "j")
    assert (track.executed_by(30.0), track.service_by(30.0)) == (10.0, 60.0)
    state.record(Interrupted(30.0, JobId("j"), "node n0 failed", 4.0))
    # 30 s held; 10 s starting and 8 s of running (4 s of work at half speed) came to nothing
    assert (track.held_s, track.held_gpu_s, track.executed_s) == (30.0, 60.0, 6.0)
    assert track.lost_gpu_s == 2 * (10.0 + 8.0)
    assert track.phase is Phase.SUSPENDED


def test_a_job_is_tried_again_while_it_has_retries() -> None:
    state = state_after(NodeJoined(0.0, Node("n0", 1)), Submitted(0.0, job("j", retries=1)))
    for attempt, phase in ((1, Phase.QUEUED), (2, Phase.FAILED)):
        state.record(Start(JobId("j"), placement((0, 1))))
        track = track_of(state, "j")
        state.record(Failed(float(attempt), JobId("j"), "out of memory"))
        assert (track.phase, track.attempts) == (phase, attempt)
    assert state.ended == {"j": Phase.FAILED}


def test_waiting_and_suspended_jobs_are_counted() -> None:
    state = busy_state()
    waiting = [track for track in state.tracks.values() if track.placement is None]
    suspended = [track for track in waiting if track.phase is Phase.SUSPENDED]
    assert state.waiting_count == len(waiting) == 7
    assert state.suspended_count == len(suspended) == 1
    state.record(Cancelled(6.0, JobId("again")))
    assert (state.waiting_count, state.suspended_count, state.peak_suspended) == (6, 0, 1)


def test_capacity_follows_the_nodes_that_are_up() -> None:
    state = state_after(
        NodeJoined(0.0, Node("a", 4)),
        NodeJoined(0.0, Node("b", 2)),
        NodeDown(1.0, "a"),
        NodeDraining(2.0, "b"),
        NodeUp(3.0, "a"),
        NodeLeft(4.0, "b"),
    )
    assert state.capacity == [(0.0, 4), (0.0, 6), (1.0, 2), (2.0, 2), (3.0, 6), (4.0, 4)]


def test_what_fits_nowhere_is_known_and_judged_again_when_the_cluster_changes() -> None:
    state = state_after(NodeJoined(0.0, Node("a", 4)), Submitted(0.0, job("big", 6)))
    assert "6 GPUs" in state.unplaceable[JobId("big")]
    assert "largest possible placement is 4" in state.unplaceable[JobId("big")]
    state.record(NodeJoined(1.0, Node("b", 4)))
    assert not state.unplaceable
    state.record(NodeLeft(2.0, "b"))
    assert not state.unplaceable, "it was let in: it waits for a node to come"
    assert "largest possible placement is 4" in state.tracks[JobId("big")].stranded
    state.record(NoMoreNodes(3.0))
    assert list(state.unplaceable) == ["big"]


def test_a_job_that_waits_may_use_a_node_that_joins_for_its_tenant() -> None:
    state = state_after(
        NodeJoined(0.0, Node("n0", 1)),
        Submitted(0.0, job("first", tenant="us")),
        Start(JobId("first"), placement((0, 1))),
        Submitted(0.0, job("second", tenant="us")),
        NodeJoined(1.0, Node("ours", 1, tenant="us")),
    )
    state.record(Start(JobId("second"), placement((1, 1))))
    assert state.running[JobId("second")].placement == placement((1, 1))


def test_a_gpu_that_a_stranger_shares_with_our_job_is_not_free_when_the_job_ends() -> None:
    state = State()
    for entry in (
        NodeJoined(0.0, Node("box", 2)),
        Submitted(0.0, job("a")),
        Start(JobId("a"), placement((0, 0b01))),
        Occupied(1.0, "box", 0b11),
    ):
        state.record(entry)
    assert state.room.free[0] == 0
    state.record(Finished(2.0, JobId("a")))
    assert state.room.free[0] == 0
    state.record(Occupied(3.0, "box", 0b10))
    assert state.room.free[0] == 0b01
    state.record(Occupied(4.0, "box", 0))
    assert state.room.free[0] == 0b11


def test_cpus_and_memory_of_strangers_are_not_given_away_and_come_back() -> None:
    state = State()
    state.record(NodeJoined(0.0, Node("box", 2, cpus=8.0, memory_gb=32.0)))
    for name in ("a", "b"):
        state.record(Submitted(0.0, job(name, cpus=4.0, memory_gb=8.0)))
    state.record(Start(JobId("a"), placement((0, 0b01))))
    state.record(Occupied(1.0, "box", 0, 1.0, 20.0))
    with pytest.raises(IllegalEntry, match="lacks the CPUs or memory"):
        state.record(Start(JobId("b"), placement((0, 0b10))))
    state.record(Occupied(2.0, "box", 0))
    state.record(Start(JobId("b"), placement((0, 0b10))))
    assert (state.room.cpus[0], state.room.memory_gb[0]) == (0.0, 16.0)


def test_strangers_may_take_cpus_that_our_jobs_have_and_nobody_else_starts_there() -> None:
    state = State()
    state.record(NodeJoined(0.0, Node("box", 2, cpus=8.0, memory_gb=32.0)))
    for name in ("a", "b"):
        state.record(Submitted(0.0, job(name, cpus=4.0, memory_gb=8.0)))
    state.record(Start(JobId("a"), placement((0, 0b01))))
    state.record(Occupied(1.0, "box", 0, 8.0, 1.0))
    assert consolidated(state.room, state.tracks[JobId("b")].shape) is None
    state.record(Finished(2.0, JobId("a")))
    assert consolidated(state.room, state.tracks[JobId("b")].shape) is None
    state.record(Occupied(3.0, "box", 0, 4.0, 1.0))
    assert consolidated(state.room, state.tracks[JobId("b")].shape) is not None


class Seen:
    """An index that notes what a track says of its starts when it is told of them."""

    def __init__(self) -> None:
        self.watches = RUNS
        self.starts: list[tuple[float, float]] = []

    def build(self, view: View) -> "Seen":
        return self

    def runs(self, track: Track) -> None:
        self.starts.append((track.first_start_at, track.started_at))


def test_who_is_told_of_a_start_finds_it_in_the_track_the_first_as_any_other() -> None:
    state, seen = state_after(NodeJoined(0.0, Node("n0", 1)), Submitted(0.0, job("j"))), Seen()
    state.index(seen)
    for at in (1.0, 5.0):
        state.record(Woke(at))
        state.record(Start(JobId("j"), placement((0, 1))))
        state.record(Started(at + 1, JobId("j")))
        state.record(Preempt(JobId("j")))
    assert list(dict.fromkeys(seen.starts)) == [(1.0, 1.0), (1.0, 5.0)]


class Noting:
    """An index that notes by its own name which jobs it is told of."""

    def __init__(self, name: str, noted: list[str]) -> None:
        self.watches = WAITS | RUNS | ENDS
        self._name = name
        self._noted = noted

    def build(self, view: View) -> "Noting":
        return self

    def waits(self, track: Track) -> None:
        self._noted.append(f"{self._name}: {track.job.id} waits")

    def runs(self, track: Track) -> None:
        self._noted.append(f"{self._name}: {track.job.id} runs")

    def ends(self, track: Track) -> None:
        self._noted.append(f"{self._name}: {track.job.id} ends")


def test_indexes_are_told_in_the_order_in_which_they_were_asked_for_until_they_are_forgotten() -> (
    None
):
    state, noted = state_after(NodeJoined(0.0, Node("n0", 1))), list[str]()
    first, second = Noting("first", noted), Noting("second", noted)
    state.index(first)
    state.record(Submitted(0.0, job("a")))
    assert noted == ["first: a waits"]
    state.index(second)
    noted.clear()
    state.record(Start(JobId("a"), placement((0, 1))))
    state.record(Started(1.0, JobId("a")))
    state.record(Finished(2.0, JobId("a")))
    assert noted == ["first: a runs", "second: a runs"] * 2 + ["first: a ends", "second: a ends"]
    state.forget_indexes(but=[second])
    noted.clear()
    state.record(Submitted(3.0, job("b")))
    state.forget_indexes()
    state.record(Cancelled(4.0, JobId("b")))
    assert noted == ["second: b waits"]


def test_jobs_that_are_suspended_for_no_time_are_not_in_the_peak() -> None:
    state = state_after(
        NodeJoined(0.0, Node("n0", 1)), Submitted(0.0, job("j")), Start(JobId("j"), placement((0, 1))),
        Started(1.0, JobId("j")), Woke(2.0), Preempt(JobId("j")), Start(JobId("j"), placement((0, 1))),
    )  # fmt: skip
    assert (state.suspended_count, state.peak_suspended) == (0, 0)
    state.record(Woke(3.0))
    state.record(Started(3.0, JobId("j")))
    state.record(Preempt(JobId("j")))
    assert state.peak_suspended == 0
    state.record(Woke(4.0))
    assert state.peak_suspended == 1
