"""The journal as text: what is written is read back, and damage is named."""

import dataclasses
import json
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core import entries
from dovetail.core.entries import (
    Amended,
    Branch,
    Cancelled,
    Displaced,
    Entry,
    Failed,
    Finished,
    GpusClosed,
    GpusOpened,
    Held,
    Interrupted,
    JournalEntry,
    LimitSet,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    NoMoreNodes,
    Note,
    Occupied,
    Paced,
    Pinned,
    PolicySet,
    Preempt,
    Promote,
    Refuse,
    Released,
    Reported,
    Requeued,
    Resize,
    Restored,
    Saved,
    Start,
    Started,
    Stayed,
    Stop,
    Submitted,
    TenantSet,
    Unpinned,
    Wake,
    Woke,
)
from dovetail.core.errors import BadInput
from dovetail.core.journal import Journal, decode, encode, read
from dovetail.core.journal import lines as lines_of
from dovetail.core.model import Estimate, Interruption, Job, JobId, Limit, Node, Tenant
from dovetail.core.track import Phase
from dovetail.testing import Audit, fingerprint, job, placement, replay
from dovetail.workloads.study import entries as study_entries
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.entries import (
    CloseStudy,
    StudyCancelled,
    StudyExtended,
    StudyOpened,
    StudyResumed,
    StudyStopped,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "journal.jsonl"

FULL_JOB = Job(
    JobId("full"), 2, 1000, ("a100", "h100"), 3.5, 7.25, "user", "tenant", "name", "group", "model",
    -1.5, 2.0, 99.5, 1, 4, Interruption(1.0, 2.0, 3.0), Estimate(5.0, 1.0, 9.0), 3,
    3600.0, (JobId("j"), JobId("k")), False, True, 40.0, 3,
    (("lr", 0.1), ("optimizer", "sgd"), ("bias", True)),
)  # fmt: skip
FULL_DESIGN = Design(
    "s1", "digits", "val_acc", 27, 9, "user", "max", 3, "asha-promote:eta=3", 4, 0.98, True,
    7200.0, 3600.0, 36000.0, 7, '{"space":{"lr":{"log":[1e-4,1e-1]}}}',
)  # fmt: skip
FULL_NODE = Node(
    "full", 8, "h100", 80.0, 96.0, 512.0, "r1", 4, "tenant", 300.0, 700.0,
    labels=(("zone", "a"), ("disk", "nvme")),
)  # fmt: skip
HOSTILE = (
    '"',
    "\\",
    "a\nb",
    "a\r\u2028b",
    "naïve 🦉",
    "\udc80",
    "\x00\x1f",
    "",
    "inf",
    "null",
    "]}",
)

EVERY_KIND: list[tuple[float, JournalEntry]] = [
    (0.1, Submitted(0.1, job("j"))),
    (0.1, Submitted(0.1, FULL_JOB)),
    (0.1, Submitted(0.1, job("part", share=250))),
    (0.1, Submitted(0.1, job("cpu", 0, cpus=1.0))),
    (1e-9, Started(1e-9, JobId("j"))),
    (1e15, Finished(1e15, JobId("j"))),
    (2.5, Failed(2.5, JobId("j"), "out of memory", 1.25)),
    (2.5, Failed(2.5, JobId("j"), "exit code 3", 0.0, 3)),
    (2.5, Reported(2.5, JobId("j"), 12, {"loss": 0.5, "best": "NaN"}, 160)),
    (2.5, Reported(2.5, JobId("j"), None, {}, 16)),
    (2.5, Reported(2.5, JobId("j"), 7, {"loss": 0.5}, 16, 12)),
    (2.5, Saved(2.5, JobId("j"), "freeze", 0.004, 1 << 40, True)),
    (2.5, Saved(2.5, JobId("j"), "freeze", 0.004, 1 << 40, True, 0.0, True)),
    (2.5, Restored(2.5, JobId("j"), "freeze", 0.001)),
    (2.5, Pinned(2.5, JobId("j"), "it holds more than host memory has room for")),
    (2.5, Unpinned(2.5, JobId("j"))),
    (2.5, Stayed(2.5, JobId("j"), placement((0, 3)), "the driver refused")),
    (2.5, Displaced(2.5, JobId("j"), "job k could not give way")),
    (2.5, Stop(JobId("j"), "its time limit of 60 s is over", 124)),
    (2.5, Held(2.5, JobId("j"), "paused by its user")),
    (2.5, Released(2.5, JobId("j"))),
    (2.5, Requeued(2.5, JobId("j"), "requeued by ada")),
    (2.5, Amended(2.5, job("j", priority=5.0))),
    (2.5, Occupied(2.5, "n0", 5)),
    (2.5, Occupied(2.5, "n0", 5, 1.5, 12.0)),
    (2.5, GpusClosed(2.5, "n0", 5, "by root: its fan", True)),
    (2.5, GpusOpened(2.5, "n0", 4)),
    (2.5, PolicySet(2.5, "tiresias:queues=2:limits=18000")),
    (2.5, Stop(JobId("j"), "it has run for its time limit of 1 h")),
    (2.5, Interrupted(2.5, JobId("j"), "node n0 failed", 0.1 + 0.2)),
    (2.5, Cancelled(2.5, JobId("j"), "no more money")),
    (2.5, Paced(2.5, JobId("j"), 0.6)),
    (0.0, NodeJoined(0.0, Node("n0", 8))),
    (0.0, NodeJoined(0.0, FULL_NODE)),
    (0.0, NodeDown(0.0, "n0")),
    (0.0, NodeUp(0.0, "n0")),
    (0.0, NodeDraining(0.0, "n0")),
    (0.0, NodeLeft(0.0, "n0")),
    (1.0, NoMoreNodes(1.0)),
    (0.0, TenantSet(0.0, Tenant("us"))),
    (0.0, TenantSet(0.0, Tenant("us", 12.0, 2.0, (("unit", "physics"),)))),
    (0.0, TenantSet(0.0, Tenant("us", users=("ann", "bob"), groups=("physics",)))),
    (0.0, LimitSet(0.0, Limit("*", queued=100.0, priority=inf))),
    (0.0, LimitSet(0.0, Limit("inf", 1.0, 2.0, 3.0, 4.0, -5.0, 6.0))),
    (7.0, Woke(7.0)),
    (7.0, Start(JobId("j"), placement((0, 3), (700, 1 << 15)))),
    (7.0, Start(JobId("j"), placement((0, 1), share=250))),
    (7.0, Start(JobId("j"), placement((3, 0)))),
    (7.0, Preempt(JobId("j"))),
    (7.0, Resize(JobId("j"), placement((1, 7)))),
    (7.0, Promote(JobId("j"))),
    (7.0, Note("plan", {"until": 12.5, "order": ["j", "k"]})),
    (7.0, Note("gandiva: pairs in vain", 1, JobId("j"))),
    (7.0, Note("plan", None)),
    (7.0, Refuse(JobId("j"), "it needs 9 GPUs")),
    (7.0, StudyOpened(7.0, Design("s1", "digits", "loss", 10, 5))),
    (7.0, StudyOpened(7.0, FULL_DESIGN)),
    (7.0, StudyStopped(7.0, "s1")),
    (7.0, StudyResumed(7.0, "s1")),
    (7.0, StudyExtended(7.0, "s1", 8)),
    (7.0, StudyCancelled(7.0, "s1", "cancelled by ann")),
    (7.0, Stop(JobId("j"), "its study has reached its target", None, True)),
    (7.0, Branch(JobId("j"), JobId("k"), (("lr", 0.3), ("layers", 2)))),
    (7.0, CloseStudy("s1", "all trials are done")),
]


def written(entry: JournalEntry, at: float) -> str:
    pieces: list[str] = []
    journal = Journal(lambda entries, times: pieces.append(lines_of(entries, times)))
    journal.note(entry, at)
    assert not pieces, "many lines are written at once"
    journal.flush()
    journal.flush()
    return "".join(pieces)


@pytest.mark.parametrize(("at", "entry"), EVERY_KIND, ids=lambda value: str(value)[:40])
def test_every_entry_comes_back_as_it_was(at: float, entry: JournalEntry) -> None:
    line = written(entry, at)
    assert decode(line) == entry
    assert line.count("\n") == 1
    assert line.endswith("\n")
    assert decode(encode(entry, at)) == entry
    assert line.isascii()


def test_every_kind_of_entry_is_tried_but_wake_which_is_not_journaled() -> None:
    classes = {
        found
        for module in (entries, study_entries)
        for found in vars(module).values()
        if isinstance(found, type)
    }
    journaled = {found for found in classes if issubclass(found, Entry) and found.tag} - {Wake}
    assert {type(entry) for _, entry in EVERY_KIND} == journaled


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_names_come_back_as_they_were(text: str) -> None:
    for entry in (
        Submitted(1.0, Job(JobId(text), 1, user=text, tenant=text)),
        Submitted(1.0, Job(JobId(text), 1, name=text, group=text, model=text, kinds=(text, "x"))),
        NodeJoined(1.0, Node(text, 1, kind=text, rack=text, tenant=text, labels=((text, text),))),
        TenantSet(1.0, Tenant(text)),
        Start(JobId(text), placement((0, 1))),
        Preempt(JobId(text)),
        Finished(1.0, JobId(text)),
        Failed(1.0, JobId(text), text),
        Refuse(JobId(text), text),
    ):
        line = written(entry, 1.0)
        assert decode(line) == entry
        assert len(line.splitlines()) == 1


@pytest.mark.parametrize(
    "entry",
    [
        Submitted(0.0, job("j", deadline=inf)),
        Submitted(0.0, job("j", deadline=-inf)),
        Submitted(0.0, job("j", priority=-inf)),
        Submitted(0.0, job("j", priority=inf)),
        Submitted(0.0, job("j", interruption=Interruption(0.0, inf, inf))),
        Submitted(0.0, job("j", interruption=Interruption(1.0, 1.0, 1.0))),
        Submitted(0.0, job("j", estimate=Estimate(inf))),
        Submitted(0.0, job("j", estimate=Estimate(1.0, 0.0, inf))),
        NodeJoined(0.0, Node("n", 1, cpus=8.0, memory_gb=inf)),
        TenantSet(0.0, Tenant("us", inf, 2.0)),
        Failed(0.0, JobId("j"), "died", inf),
        Interrupted(0.0, JobId("j"), "died", inf),
    ],
    ids=str,
)
def test_infinity_comes_back(entry: JournalEntry) -> None:
    assert decode(written(entry, 0.0)) == entry


JOBS = st.builds(
    Job,
    id=st.text(),
    gpus=st.integers(1, 10**6),
    kinds=st.lists(st.text()).map(tuple),
    cpus=st.floats(0, 1e300),
    memory_gb=st.floats(0, 1e300),
    user=st.text(),
    tenant=st.text(),
    name=st.text(),
    group=st.text(),
    model=st.text(),
    priority=st.floats(allow_nan=False),
    weight=st.floats(min_value=1e-300, allow_nan=False, allow_infinity=False),
    deadline=st.none() | st.floats(allow_nan=False),
    retries=st.integers(0, 99),
    interruption=st.builds(
        Interruption, st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, allow_nan=False)
    ),
    estimate=st.none() | st.builds(Estimate, st.floats(allow_nan=False)),
)


@given(asked=JOBS, at=st.floats(0, 1e300))
def test_any_job_comes_back_as_it_was(asked: Job, at: float) -> None:
    entry = Submitted(at, asked)
    back = decode(written(entry, at))
    assert isinstance(back, Submitted)
    assert back == entry
    assert dataclasses.astuple(back.job) == dataclasses.astuple(asked)


@pytest.mark.parametrize(
    "entry",
    [
        Submitted(1.5, job("é", 64)),
        Submitted(1.5, job("j", 65)),
        Submitted(1.5, job("j", user="u", tenant="t")),
        Submitted(1.5, job("j", 1, cpus=2.0)),
        Started(1.5, JobId('"')),
        Finished(1.5, JobId("é")),
        Start(JobId("j"), placement((0, 1), (300, 0b11))),
        Start(JobId("j"), placement((0, 1), share=250)),
        Preempt(JobId("j")),
    ],
    ids=repr,
)
def test_a_line_that_is_written_out_says_what_json_would(entry: Entry) -> None:
    line = lines_of([entry], [1.5])
    assert line == json.dumps(json.loads(line), separators=(",", ":")) + "\n"
    assert decode(line) == entry
    assert next(iter(json.loads(line))) == "at"


def test_the_writer_says_the_same_as_encode() -> None:
    for at, entry in EVERY_KIND:
        assert written(entry, at).rstrip("\n") == encode(entry, at).rstrip("\n")


DAMAGED: dict[str, Any] = {
    "cut off": '{"at":1.0,"start":"j","on":[10',
    "not json": "hello",
    "empty": "",
    "a number": "5",
    "nothing": "null",
    "a list": "[1, 2]",
    "without a time": '{"woke":true}',
    "a time in words": '{"at":"noon","woke":true}',
    "a time that is not a number": '{"at":NaN,"woke":true}',
    "without an entry": '{"at":1.0}',
    "an unknown entry": '{"at":1.0,"exploded":"j"}',
    "a start nowhere": '{"at":1.0,"start":"j"}',
    "a start on words": '{"at":1.0,"start":"j","on":[1000,["a","b"]]}',
    "a job that is a number": '{"at":1.0,"submitted":7}',
    "a job with a strange field": '{"at":1.0,"submitted":{"id":"j","gpus":1,"colour":"red"}}',
    "a job of no size": '{"at":1.0,"submitted":{"id":"j","gpus":-1}}',
    "a node without GPUs": '{"at":1.0,"node-joined":{"id":"n"}}',
    "a failure without a reason": '{"at":1.0,"failed":"j"}',
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_line_is_named_by_its_number(what: str) -> None:
    with pytest.raises(BadInput, match="line 2 "):
        list(read(['{"at":0.0,"woke":true}', DAMAGED[what]]))


def test_the_golden_journal_can_be_replayed_for_ever() -> None:
    lines = GOLDEN.read_text("utf-8").splitlines()
    state = replay(lines)
    assert {job_id: phase.value for job_id, phase in state.ended.items()} == {
        "quote\"'": "finished",
        "gang": "finished",
        "half": "finished",
        "unlucky": "failed",
        "impatient": "cancelled",
        "too big": "refused",
        "naïve 🦉": "finished",
        "big": "finished",
    }
    assert state.now == pytest.approx(68.5333333)
    assert not state.tracks


def test_the_golden_journal_is_written_as_it_was_read() -> None:
    lines = GOLDEN.read_text("utf-8").splitlines()
    state, pieces = fingerprint_of_each_line(lines)
    assert "".join(pieces).splitlines() == lines
    assert state["now"] == pytest.approx(68.5333333)


def fingerprint_of_each_line(lines: list[str]) -> tuple[dict[str, Any], list[str]]:
    from dovetail.core.state import State

    state, pieces, audit = State(), [], []
    journal = Journal(lambda entries, times: pieces.append(lines_of(entries, times)))
    for entry in read(lines):
        state.record(entry)
        journal.note(entry, state.now)
        audit.append((state.now, entry))
    journal.flush()
    assert Audit().read(audit).ended.keys() == state.ended.keys()
    assert all(phase in Phase for phase in state.ended.values())
    return fingerprint(state), pieces
