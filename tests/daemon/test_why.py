"""Why a job waits: the reason, who is ahead, what would help, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dovetail.api.forecast_row import Span
from dovetail.api.wire import plain
from dovetail.core import snapshot
from dovetail.core.entries import (
    Failed,
    Finished,
    Held,
    NodeDraining,
    NodeJoined,
    Occupied,
    Pinned,
    Preempt,
    Reported,
    Saved,
    Start,
    Submitted,
    TenantSet,
)
from dovetail.core.model import Job, JobId, Node, Tenant
from dovetail.core.state import State
from dovetail.daemon.active_policy import make
from dovetail.daemon.foresight.forecast import forecast
from dovetail.daemon.foresight.why import why
from dovetail.daemon.foresight.wording import MOST_LINES, WIDTH, span_text
from dovetail.daemon.refusals import NotFound
from dovetail.policies.housekeeping import Housekeeping
from dovetail.policies.registry import BUILTIN
from dovetail.testing import job
from dovetail.text.times import clock_near
from live_box import ME, Box
from live_state import EPOCH, PAST, FakeService, lasting, live, start


def asked(state: State, job_id: str, policy: str = "fifo") -> dict[str, Any]:
    return told(FakeService(state, policy), job_id)


def told(service: Any, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = plain(why(service, job_id))
    lines = found["text"].splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= WIDTH
    return found


def changes(found: dict[str, Any]) -> list[str]:
    return [change["change"] for change in found["would_start"]]


def busy_box(*waiting: Job) -> State:
    """Four GPUs: job 40 has two of them, job 41 one; the others wait."""
    state = live(
        lasting("40", 600, 2, user="bob", name="eval.py"),
        lasting("41", 300, user="ana", name="train.py"),
        *waiting,
        cluster=[Node("box", 4, "A100"), Node("old", 2, "T4")],
    )
    start(state, "40", 3)
    start(state, "41", 4)
    return state


# ------------------------------------------------------------------------------ reasons, in their order


def test_a_paused_job_waits_for_its_user() -> None:
    state = busy_box(lasting("42", 10))
    state.record(Held(9.0, JobId("42"), "paused by its user"))
    found = asked(state, "42")
    assert (found["reason"], found["because"]) == ("held", "paused by its user")
    assert changes(found) == ["if it were resumed"]
    assert found["start"] is None
    assert "not before it is let go" in found["text"]


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (
            "its service does not need it now",
            "as soon as its service needs it; see `dovetail services`",
        ),
        ("its service is paused", "not before its service goes on; see `dovetail services resume`"),
    ],
)
def test_a_replica_that_its_service_holds_waits_for_the_service(held: str, said: str) -> None:
    state = busy_box(lasting("42", 10))
    state.record(Held(9.0, JobId("42"), held))
    found = asked(state, "42")
    assert said in " ".join(found["text"].split())
    assert changes(found) == []


def test_a_job_that_comes_after_another_waits_for_its_end() -> None:
    state = busy_box(lasting("42", 10, after=(JobId("41"),)))
    found = asked(state, "42")
    assert found["reason"] == "depends"
    assert "it comes after job 41" in found["because"]
    assert found["start"]["expected"] == EPOCH + 302.0


def test_a_tenant_that_has_used_up_its_quota_waits_for_itself() -> None:
    state = live(lasting("1", 60, tenant="lab"), lasting("2", 10, tenant="lab"))
    state.record(TenantSet(1.0, Tenant("lab", gpu_quota=1.0)))
    start(state, "1", 1)
    found = asked(state, "2")
    assert found["reason"] == "quota"
    assert "tenant 'lab' holds 1 of the 1 GPUs of its quota" in found["because"]
    assert changes(found) == ["if job 1 were paused"]


def test_gpus_that_others_use_are_said_to_be_in_the_way() -> None:
    state = live(lasting("1", 60, 2))
    state.record(Occupied(1.0, "box", 1))
    found = asked(state, "1")
    assert found["reason"] == "cluster"
    assert "1 in use by processes that are not ours" in found["free"]
    assert found["start"] is None
    assert changes(found) == ["with 1 GPU instead of 2"]


def test_cpus_and_memory_that_others_use_are_said_to_be_in_the_way() -> None:
    state = live(
        lasting("1", 60, cpus=8.0, memory_gb=4.0),
        cluster=[Node("box", 1, cpus=8.0, memory_gb=16.0)],
    )
    state.record(Occupied(1.0, "box", 0, 0.25, 2.0))
    found = asked(state, "1")
    assert found["reason"] == "host"
    assert "0.25 CPUs and 2 GB of memory in use by others" in found["free"]
    assert "1 of 1 GPUs" in found["free"]


def test_a_closed_node_is_told() -> None:
    state = live(lasting("1", 60))
    state.record(NodeDraining(1.0, "box"))
    found = asked(state, "1")
    assert found["reason"] == "cluster"
    assert "2 on closed nodes" in found["text"]


def test_a_job_larger_than_what_is_free_waits_for_room() -> None:
    state = busy_box(lasting("42", 100, 2, kinds=("A100",), user="cyd"))
    found = asked(state, "42")
    assert (found["reason"], found["because"]) == ("room", "it needs 2 GPUs, and 1 is free")
    assert found["needs"] == "2 GPUs of kind A100"
    assert found["free"] == "1 of 4 GPUs of kind A100"
    assert changes(found) == [
        "with 1 GPU instead of 2",
        "with GPUs of kind T4 allowed",
        "if job 41 (train.py, ana) were paused",
    ]
    assert found["waits_for"]["job"] == "41"
    assert found["start"]["expected"] == EPOCH + 302.0
    assert "when job 41 (train.py, ana) ends" in found["text"]
    assert "that rests on its user's estimate" in found["text"]


def test_host_memory_may_be_what_is_lacking() -> None:
    box = Node("box", 2, cpus=8, memory_gb=64)
    state = live(lasting("1", 60, memory_gb=48.0), lasting("2", 10, memory_gb=32.0), cluster=[box])
    start(state, "1", 1)
    found = asked(state, "2")
    assert found["reason"] == "host"
    assert "with 16 GB of memory" in changes(found)


def test_a_share_needs_what_is_left_of_a_gpu() -> None:
    state = live(lasting("1", 60, share=700), lasting("2", 10, share=500), cluster=[Node("box", 1)])
    start(state, "1", 1, share=700)
    found = asked(state, "2")
    assert found["because"] == "it needs 500/1000 of a GPU, and no GPU has as much left"
    assert changes(found) == ["with a share of 0.25 of a GPU", "if job 1 were paused"]


def test_behind_a_large_head_a_small_job_waits_though_there_is_room() -> None:
    state = busy_box(lasting("42", 10, 4, kinds=("A100",)), lasting("43", 10, kinds=("A100",)))
    found = asked(state, "43")
    assert found["reason"] == "behind"
    assert "job 42 goes first and does not fit" in found["because"]
    assert found["ahead"]["first"] == ["42"]
    assert "if job 42 were paused" in changes(found)
    assert asked(state, "43", "fifo-skip")["reason"] == "soon"


# -------------------------------------------------------------------------- who is ahead, in its terms


def _ahead(policy: str, *waiting: Job, of: str, used: str = "") -> dict[str, Any]:
    """One GPU, busy for long with a job that nobody can displace."""
    first = lasting("1", 5.0, user=used or "zed", preemptible=False)
    state = live(first, *waiting, cluster=[Node("box", 1)])
    start(state, "1", 1)
    ahead: dict[str, Any] = asked(state, of, policy)["ahead"]
    return ahead


def test_under_fifo_those_who_came_earlier_are_ahead() -> None:
    found = _ahead("fifo", job("2"), job("3"), job("4"), of="4")
    told = {"number": 2, "first": ["2", "3"], "why": "2 jobs submitted earlier"}
    assert found == {**told, "at_least": False}


def test_under_priority_the_higher_ones_are_ahead() -> None:
    jobs = [job("2"), job("3", priority=5.0), job("4")]
    found = _ahead("priority", *jobs, of="4")
    assert found["first"] == ["3", "2"]
    assert found["why"] == (
        "1 job with a higher priority, 1 job with the same priority that came earlier"
    )


def test_under_srtf_those_with_less_time_left_are_ahead() -> None:
    jobs = [lasting("2", 600), lasting("3", 60), lasting("4", 3600)]
    found = _ahead("srtf:predictor=user-estimate", *jobs, of="4")
    assert found["first"] == ["3", "2"]
    assert found["why"] == ("2 jobs with less time left (1 min against 1 h, by what users said)")


def test_under_fair_share_users_who_have_had_less_are_ahead() -> None:
    state = live(
        lasting("1", 7200, user="ana"), job("2", user="ana"), job("3", user="bob"),
        cluster=[Node("box", 1)],
    )  # fmt: skip
    start(state, "1", 1)
    state.record(Finished(7202.0, JobId("1")))
    state.record(Submitted(7202.0, job("4", user="cyd", preemptible=False)))
    start(state, "4", 1)
    found = asked(state, "2", "fair-share")["ahead"]
    assert found["first"] == ["3"]
    assert "bob has used 0 GPU-s lately, ana has used 2 GPU-h lately" in found["why"]


@pytest.mark.parametrize("policy", sorted(BUILTIN))
def test_every_policy_can_be_explained(policy: str) -> None:
    state = _random_state(Random(3))
    service = FakeService(state, policy)
    for job_id in list(state.tracks):
        assert told(service, job_id)["text"]


def test_the_number_ahead_counts_all_even_if_few_are_looked_at() -> None:
    state = live(job("first"), *(job(str(i)) for i in range(3_000)), cluster=[Node("box", 1)])
    start(state, "first", 1)
    service = FakeService(state, "fifo-skip")
    list(service.chosen.decide(state))
    state.settle()
    found = plain(why(service, "2999"))
    assert found["ahead"]["number"] == 2_999
    assert "waiting jobs further behind are left out" in found["limited"]


# ------------------------------------------------------------------------------- what is claimed holds


def _random_state(chance: Random) -> State:
    """Some jobs run, some wait; of all kinds."""
    state = live(cluster=[Node("a", 4, "A100"), Node("b", 2, "T4", cpus=8, memory_gb=64)])
    policy = make("fifo-skip")
    for i in range(14):
        own = job(
            f"{i}",
            chance.choice([1, 1, 2, 3, 4]),
            user=chance.choice(["ana", "bob", "cyd"]),
            name=chance.choice(["x.py", "y.py"]),
            kinds=chance.choice([(), ("A100",), ("T4",)]) if chance.random() < 0.5 else (),
            priority=float(chance.randrange(3)),
            preemptible=chance.random() < 0.8,
        )
        if own.kinds == ("T4",):
            own = replace(own, gpus=min(own.gpus, 2), memory_gb=chance.choice([0.0, 16.0]))
        state.record(Submitted(float(i), own))
        for action in list(policy.decide(state)):
            if isinstance(action, Start) and i < 9:
                state.record(action)
        state.settle()
    return state


POLICIES = ("fifo", "fifo-skip", "srtf", "priority", "fair-share", "drf", "easy", "las", "tiresias")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(4))
def test_every_change_that_is_said_to_help_does(policy: str, seed: int) -> None:
    service = FakeService(_random_state(Random(seed)), policy)
    for job_id in [k for k, t in service.state.tracks.items() if t.placement is None]:
        for change in told(service, job_id)["would_start"]:
            assert job_id in _started_after(change, job_id, Random(seed), policy), change


def _started_after(change: Any, job_id: JobId, chance: Random, policy: str) -> set[JobId]:
    """The same again, but for the change, from the beginning: whom does the policy start?"""
    state = _random_state(chance)
    own = state.tracks[job_id].job
    field, value = change["field"], change["value"]
    if field != "pause":
        state = _with(state, job_id, _changed(own, field, value))
    policies = [Housekeeping(), make(policy)]
    if field == "pause":
        list(policies[1].decide(state))  # it has decided before, without starting the job
        state.settle()
        state.record(Held(state.now, JobId(value), "paused by its user"))
    started = set()
    for each in policies:
        for action in list(each.decide(state)):
            if isinstance(action, Start):
                started.add(action.job_id)
            if isinstance(action, Start | Preempt):
                state.record(action)
        state.settle()
    return started


def _changed(own: Job, field: str, value: Any) -> Job:
    if field == "gpus":
        part = value / own.gpus
        return replace(own, gpus=value, cpus=own.cpus * part, memory_gb=own.memory_gb * part)
    if field == "share":
        return replace(own, share=int(value * 1000))
    changed: dict[str, Any] = {field: tuple(value) if field == "kinds" else value}
    return replace(own, **changed)


def _with(state: State, job_id: JobId, changed: Job) -> State:
    """A state to which the job was submitted as it should have been."""
    other = State(PAST)
    for node in state.room.nodes:
        other.record(NodeJoined(0.0, node))
    for track in state.tracks.values():
        own = changed if track.job.id == job_id else track.job
        other.record(Submitted(track.submitted_at, own))
    for track in state.running.values():
        assert track.placement is not None
        other.record(Start(track.job.id, track.placement))
    return other


def test_asking_leaves_the_state_as_it_is() -> None:
    for policy in ("fifo", "srtf", "fair-share", "gandiva"):
        state = _random_state(Random(5))
        before = snapshot.take(state)
        service = FakeService(state, policy)
        for job_id in list(state.tracks):
            told(service, job_id)
        assert snapshot.take(state) == before
        assert not state.room.drafted


# ---------------------------------------------------------------------------------- suspended, running


def test_a_suspended_job_is_told_for_whom_it_gave_way_and_at_what_cost() -> None:
    state = live(
        lasting("1", 600, name="long.py"), lasting("2", 60, user="bob", name="short.py"),
        cluster=[Node("box", 1)],
    )  # fmt: skip
    start(state, "1", 1)
    state.record(Preempt(JobId("1")))
    start(state, "2", 1)
    state.record(Saved(2.0, JobId("1"), "freeze", 0.4, 2_500_000_000, parked=True))
    found = asked(state, "1", "srtf:predictor=user-estimate")
    assert found["phase"] == "suspended"
    assert found["gave_way"]["to"] == "2"
    assert "to job 2 (short.py, bob)" in found["text"]
    folded = " ".join(found["text"].split())
    assert "it was frozen where it stood (freeze), which took 0.4 s" in folded
    assert "2.5 GB wait in host memory" in folded
    assert "goes on    expected" in found["text"]
    assert found["start"]["expected"] == EPOCH + 61.0


def test_a_job_that_can_go_on_only_where_it_is_suspended_is_told_so() -> None:
    state = live(
        lasting("1", 600), lasting("2", 60), cluster=[Node("here", 1), Node("there", 1)]
    )  # fmt: skip
    start(state, "1", 1)
    state.record(Preempt(JobId("1")))
    start(state, "2", 1)
    state.record(Saved(2.0, JobId("1"), "freeze", 0.4, 0, parked=True, tied=True))
    said = "it is suspended on here and can go on only there"
    assert f"{said}; of its 1 GPU none is free" in " ".join(asked(state, "1")["text"].split())
    state.record(NodeDraining(3.0, "here"))
    shut = " ".join(asked(state, "1")["text"].split())
    assert f"{said}; here is closed for what is to start" in shut


def test_a_running_job_is_told_where_it_is_how_far_and_until_when() -> None:
    state = busy_box()
    state.record(Pinned(10.0, JobId("41"), "it holds memory that cannot be saved"))
    state.record(Reported(60.0, JobId("41"), 30.0, {"loss": 0.25, "total": 100.0}, 10))
    found = asked(state, "41")
    assert found["where"] == "GPU 2 of box"
    assert found["progress"] == "step 30 of 100, loss 0.25 (0 s ago)"
    assert found["rests_on"] == "its own reports: step 30 of 100"
    assert "cannot be made to give way: it holds memory that cannot be saved" in found["text"]


def test_a_running_job_that_will_give_way_is_told_so() -> None:
    state = live(
        lasting("1", 600, preemptible=True), lasting("2", 60), cluster=[Node("box", 1)]
    )  # fmt: skip
    start(state, "1", 1)
    found = asked(state, "1", "srtf:predictor=user-estimate")
    assert found["gives_way"]["to"] == "2"
    assert "gives way  expected" in found["text"]


def test_a_place_beyond_those_that_were_looked_at_is_told_as_such() -> None:
    state = live(*(job(str(i), user=f"u{i % 5}") for i in range(5_000)))
    start(state, "0", 1)
    exact, unsure = (asked(state, "4999", policy) for policy in ("fifo", "fair-share"))
    assert "place 4,999 in line;" in exact["text"]
    assert not exact["ahead"]["at_least"]
    assert unsure["ahead"]["at_least"]
    assert "place 401 or later in line" in unsure["text"]
    assert "ahead      at least 400 jobs" in unsure["text"]
    assert not asked(live(job("0"), job("1")), "1", "fair-share")["ahead"]["at_least"]


def test_an_ended_job_is_told_how_and_why() -> None:
    state = busy_box()
    state.record(Failed(100.0, JobId("41"), "it exited with code 3", 0.0, exit_code=3))
    found = asked(state, "41")
    assert (found["phase"], found["exit_code"]) == ("failed", 3)
    assert "job 41 (train.py, ana) has failed." in found["text"]
    assert "it exited with code 3" in found["text"]


def test_a_job_that_never_was_is_not_found() -> None:
    with pytest.raises(NotFound):
        asked(live(), "99")


def test_names_of_any_length_fit_the_screen() -> None:
    long = "x" * 300
    jobs: Sequence[Job] = [job(str(i), user=long, name=long, group=long) for i in range(9)]
    state = live(*jobs, cluster=[Node(long, 1)])
    start(state, "0", 1)
    for job_id in ("0", "8"):
        for policy in ("fifo", "fair-share", "priority"):
            asked(state, job_id, policy)


# --------------------------------------------------------------------------------------------- speed


@pytest.mark.parametrize("policy", ["fifo", "srtf", "fair-share"])
def test_ten_thousand_waiting_jobs_do_not_hold_up_the_loop(policy: str) -> None:
    state = live(*(job(str(i), 1 + i % 3, user=f"u{i % 5}") for i in range(10_000)))
    service = FakeService(state, policy)
    list(service.chosen.decide(state))
    state.settle()
    for job_id in ("5", "9999"):
        assert why(service, job_id).text
    assert max(service.looks) < 0.02  # measured: 4 ms


# -------------------------------------------------------------------------------------------- wording


def test_an_interval_is_told_as_plus_or_minus_unless_it_is_lopsided() -> None:
    at = 1_760_000_000.0
    clock = clock_near(at, at - 7200)
    assert span_text(Span(at, at - 720, at + 600), at - 7200) == f"{clock} ± 12 min"
    assert " to " in span_text(Span(at, at - 60, at + 6000), at - 7200)
    assert span_text(Span(at, at, at), at - 7200) == clock
    assert "perhaps far later" in span_text(Span(at, at, None), at - 7200)


# ------------------------------------------------------------------------------------------ a real one


def test_a_real_daemon_says_why_a_real_job_waits(tmp_path: Path) -> None:
    box = Box(tmp_path, slots=1, policy="fifo")
    try:
        for _ in range(2):
            box.wait(box.submit("sleep 0.1", name="short"))
        first = box.submit("sleep 60", name="long")
        box.wait_until(first, "running")
        second = box.submit("sleep 1", name="short", resources={"gpus": 1})
        found = plain(why(box.service, second))
        assert found["reason"] == "room"
        assert found["waits_for"]["job"] == first
        assert found["rests_on"] == f"2 runs of this program by {ME.name} with other values"
        assert changes(found)[-1] == f"if job {first} (long, {ME.name}) were paused"
        span = forecast(box.service).start(second)
        assert span is not None
        assert span.low <= span.expected
        assert "runs on slot 0" in why(box.service, first).text
        assert "has finished" in why(box.service, "1").text
        box.service.pause([first], ME)  # as was said
        box.wait_until(second, "running")
        assert why(box.service, first).reason == "held"
    finally:
        box.close()


def test_a_job_over_nodes_is_told_which_nodes_are_missing() -> None:
    state = live(
        lasting("40", 600, 1),
        lasting("41", 600, 8, nodes=2),
        cluster=[Node("a", 4), Node("b", 4), Node("c", 4)],
    )
    start(state, "40", 1)
    state.record(NodeDraining(state.now, "c"))
    found = asked(state, "41")
    assert found["reason"] == "room"
    assert found["because"] == (
        "it needs 2 nodes with 4 free GPUs each; 1 node has as many, of 7 free in all"
    )
    assert found["needs"] == "2 nodes, each with 4 GPUs"
    assert "on 1 node instead of 2" in changes(found)
    state.record(NodeDraining(state.now, "b"))
    assert asked(state, "41")["reason"] == "cluster"


# ------------------------------------------------------------------------------------ elastic jobs


def elastic_box() -> State:
    """Four GPUs: job 40 has two of the up to four that it can use, job 41 the others."""
    state = live(
        lasting("40", 600, 2, min_gpus=1, max_gpus=4),
        lasting("41", 600, 2),
        cluster=[Node("box", 4)],
    )
    start(state, "40", 0b0011)
    start(state, "41", 0b1100)
    return state


def test_an_elastic_job_is_told_why_it_has_no_more_gpus() -> None:
    size = asked(elastic_box(), "40", "optimus")["size"]
    assert size.startswith("2 of up to 4 GPUs because others make more of theirs; 3 would end it")
    asked_for = asked(elastic_box(), "40", "fifo")["size"]
    assert asked_for == "2 of up to 4 GPUs because policy fifo gives a job what it asked for"
    assert asked(elastic_box(), "41", "optimus")["size"] == ""
