"""The simulated world, checked by hand: what interruption, failure, speed and sharing cost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import pytest

from dovetail.core.entries import (
    Action,
    Interrupted,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    Paced,
    Preempt,
    Refuse,
    Reported,
    Start,
    Submitted,
    Wake,
    Woke,
)
from dovetail.core.errors import DovetailError, UnfinishedRun
from dovetail.core.loop import run
from dovetail.core.model import Interruption, Job, JobId, Node, Tenant
from dovetail.core.state import State
from dovetail.core.track import Phase
from dovetail.core.view import View
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.counted import counting
from dovetail.models.failures import NodeFailures
from dovetail.models.speed import by_kind_and_placement, same_for_all_pairs
from dovetail.testing import arrival, nodes, placement, run_trace
from dovetail.worlds.simulated import SimulatedCluster

COSTLY = Interruption(save_s=3.0, restore_s=5.0, lost_s=4.0)


def test_preemption_costs_saving_and_every_later_start_costs_restoring() -> None:
    run = run_trace(
        "priority",
        [
            arrival("low", 0.0, 100.0, interruption=COSTLY),
            arrival("high", 10.0, 20.0, priority=1.0),
        ],
        nodes(1, 1),
    )
    # low works 0..10 and is saved 10..13; high works 13..33; low restores 33..38, works 38..128
    assert run.ends_at == {"high": 33.0, "low": 128.0}
    low, high = run.ended[JobId("low")], run.ended[JobId("high")]
    assert (low.held_gpu_s, low.lost_gpu_s, low.preemptions) == (10.0 + 95.0, 5.0, 1)
    assert (high.held_gpu_s, high.lost_gpu_s) == (23.0, 3.0)


def test_a_job_may_be_preempted_before_it_has_begun_to_work() -> None:
    run = run_trace(
        "priority",
        [
            arrival("low", 0.0, 100.0, interruption=COSTLY),
            arrival("mid", 10.0, 20.0, priority=1.0),
            arrival("high", 11.0, 20.0, priority=2.0),
        ],
        nodes(1, 1),
    )
    # high gets the GPU at 11, while low is still being saved until 13: it works 13..33
    assert run.ends_at == {"high": 33.0, "mid": 53.0, "low": 148.0}
    mid = run.ended[JobId("mid")]
    assert (mid.executed_s, mid.held_gpu_s, mid.lost_gpu_s) == (20.0, 21.0, 1.0)


def test_saving_that_is_over_delays_nobody() -> None:
    run = run_trace(
        "priority",
        [
            arrival("low", 0.0, 10.0, interruption=COSTLY),
            arrival("high", 5.0, 1.0, priority=1.0),
            arrival("later", 50.0, 1.0),
        ],
        nodes(1, 1),
    )
    assert run.ends_at == {"high": 9.0, "low": 19.0, "later": 51.0}


@pytest.mark.parametrize(("lost_s", "ends"), [(inf, 116.0), (4.0, 110.0), (0.0, 106.0)])
def test_a_node_failure_loses_the_work_since_the_last_checkpoint(
    lost_s: float, ends: float
) -> None:
    run = run_trace(
        "fifo",
        [arrival("j", 0.0, 100.0, 2, interruption=Interruption(lost_s=lost_s))],
        nodes(1, 2),
        node_events=[NodeDown(10.0, "n0"), NodeUp(16.0, "n0")],
    )
    assert run.ends_at == {"j": ends}
    lost = min(lost_s, 10.0)
    assert run.of(Interrupted) == [Interrupted(10.0, JobId("j"), "node n0 failed", lost)]
    assert run.ended[JobId("j")].lost_gpu_s == 2 * lost


def test_work_is_lost_at_most_once() -> None:
    """Two failures in a row: what the first took, the second cannot take again."""
    run = run_trace(
        "fifo",
        [arrival("j", 0.0, 20.0)],
        nodes(1, 1),
        node_events=[
            NodeDown(5.0, "n0"),
            NodeUp(5.0, "n0"),
            NodeDown(8.0, "n0"),
            NodeUp(8.0, "n0"),
        ],
    )
    assert [entry.lost_s for entry in run.of(Interrupted)] == [5.0, 3.0]
    assert run.ends_at == {"j": 28.0}
    assert run.ended[JobId("j")].lost_gpu_s == 8.0


def test_a_failed_gang_member_stops_the_whole_gang_and_nobody_else() -> None:
    run = run_trace(
        "fifo",
        [arrival("gang", 0.0, 50.0, 4), arrival("other", 0.0, 50.0, 1)],
        nodes(3, 2),
        node_events=[NodeDown(10.0, "n1"), NodeUp(20.0, "n1")],
    )
    assert run.ends_at["other"] == 50.0
    assert run.ends_at["gang"] == 70.0


def test_retries_start_from_what_was_kept() -> None:
    run = run_trace(
        "fifo",
        [
            arrival(
                "j",
                0.0,
                30.0,
                failures=(10.0, 5.0),
                retries=2,
                interruption=Interruption(lost_s=2.0),
            )
        ],
        nodes(1, 1),
    )
    # 10 s, keeps 8; 5 s, keeps 11; then the last 19 s
    assert run.ends_at == {"j": 10.0 + 5.0 + 19.0}
    assert (run.ended[JobId("j")].attempts, run.ended[JobId("j")].lost_gpu_s) == (2, 4.0)


def test_a_job_without_retries_left_has_failed() -> None:
    run = run_trace("fifo", [arrival("j", 0.0, 30.0, failures=(10.0,))], nodes(1, 1))
    assert (run.phase("j"), run.ends_at["j"]) == (Phase.FAILED, 10.0)


def test_a_failure_after_the_end_never_happens() -> None:
    run = run_trace("fifo", [arrival("j", 0.0, 30.0, failures=(31.0,))], nodes(1, 1))
    assert (run.phase("j"), run.ends_at["j"]) == (Phase.FINISHED, 30.0)


def test_a_job_may_be_cancelled_while_it_waits_runs_or_after_it_ended() -> None:
    run = run_trace(
        "fifo",
        [
            arrival("running", 0.0, 100.0, cancel_at=40.0),
            arrival("waiting", 0.0, 100.0, cancel_at=10.0),
            arrival("at once", 5.0, 100.0, cancel_at=1.0),
            arrival("done", 6.0, 10.0, cancel_at=60.0),
        ],
        nodes(1, 1),
    )
    assert run.ends_at == {"at once": 5.0, "waiting": 10.0, "running": 40.0, "done": 50.0}
    assert run.phase("done") is Phase.FINISHED
    assert run.phase("running") is run.phase("waiting") is Phase.CANCELLED
    assert run.ended[JobId("waiting")].held_gpu_s == 0.0
    assert run.ended[JobId("running")].held_gpu_s == 40.0


def test_a_job_may_be_cancelled_when_it_has_got_so_far_however_often_it_is_stopped() -> None:
    run = run_trace(
        "fifo",
        [
            arrival("far", 0.0, 100.0, cancel_after_s=40.0),
            arrival("dies", 0.0, 100.0, cancel_after_s=40.0, failures=(30.0,), retries=1),
            arrival("done", 0.0, 10.0, cancel_after_s=10.0),
        ],
        nodes(1, 3),
        speed=lambda job, placement, nodes: 2.0 if job.id == "far" else 1.0,
    )
    assert run.ends_at == {"done": 10.0, "far": 20.0, "dies": 70.0}
    assert run.phase("done") is Phase.FINISHED
    assert run.phase("far") is run.phase("dies") is Phase.CANCELLED


# --------------------------------------------------------------------------------------------- speed


def test_speed_follows_the_gpu_kind_and_is_reported() -> None:
    run = run_trace(
        "fifo",
        [arrival("j", 0.0, 60.0, kinds=("fast",))],
        [Node("slow", 1, kind="slow"), Node("fast", 1, kind="fast")],
        speed=by_kind_and_placement({"fast": 3.0}),
    )
    assert run.ends_at == {"j": 20.0}
    assert run.of(Paced) == [Paced(0.0, JobId("j"), 3.0)]
    assert run.ended[JobId("j")].executed_s == pytest.approx(60.0)


def test_a_gang_across_nodes_and_racks_is_slower() -> None:
    speed = by_kind_and_placement({}, across_nodes=0.5, across_racks=0.5)
    one_rack = run_trace("fifo", [arrival("j", 0.0, 10.0, 4)], nodes(2, 2), speed=speed)
    two_racks = run_trace(
        "fifo",
        [arrival("j", 0.0, 10.0, 4)],
        [Node("a", 2, rack="r0"), Node("b", 2, rack="r1")],
        speed=speed,
    )
    one_node = run_trace("fifo", [arrival("j", 0.0, 10.0, 4)], nodes(1, 4), speed=speed)
    assert [r.ends_at["j"] for r in (one_node, one_rack, two_racks)] == [10.0, 20.0, 40.0]


def test_speed_scales_what_is_lost_and_when_a_job_dies() -> None:
    run = run_trace(
        "fifo",
        [arrival("j", 0.0, 40.0, failures=(10.0,), retries=1)],
        nodes(1, 1),
        speed=by_kind_and_placement({"gpu": 0.5}),
    )
    # dies after 10 s of work, which takes 20 s; all of it is lost; 40 s of work take 80 s
    assert run.ends_at == {"j": 100.0}
    assert run.ended[JobId("j")].lost_gpu_s == 20.0


def test_a_share_of_a_gpu_runs_as_the_trace_says_whoever_is_beside_it() -> None:
    run = run_trace(
        "fifo",
        [arrival("a", 0.0, 10.0, share=500), arrival("b", 0.0, 20.0, share=500)],
        nodes(1, 1),
    )
    assert run.ends_at == {"a": 10.0, "b": 20.0}
    assert run.ended[JobId("b")].held_gpu_s == 10.0


# -------------------------------------------------------------------------------- what cannot be run


def test_a_job_that_can_never_fit_is_refused_at_once_with_what_it_needs_and_what_there_is() -> None:
    run = run_trace(
        "fifo",
        [arrival("whale", 5.0, 10.0, 32), arrival("fish", 5.0, 10.0, 2)],
        [*nodes(2, 8), Node("other", 4, kind="other")],
    )
    assert run.phase("whale") is Phase.REFUSED
    assert run.ends_at == {"whale": 5.0, "fish": 15.0}
    assert run.of(Refuse) == [
        Refuse(JobId("whale"), "it needs 32 GPUs, and the largest possible placement is 16 GPUs")
    ]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kinds": ("tpu",)}, "1 GPU of kind tpu"),
        ({"gpus": 2, "cpus": 1000.0}, "2 GPUs, 1000 CPUs"),
        ({"memory_gb": 1e6}, "1e+06 GB of memory"),
        ({"gpus": 0, "cpus": 1000.0}, "no node that it may use has as much"),
        ({"gpus": 8, "tenant": "us"}, "the tenant's quota is 4 GPUs"),
    ],
)
def test_a_refusal_says_what_was_needed(fields: dict[str, Any], says: str) -> None:
    run = run_trace(
        "fifo",
        [arrival("j", **fields)],
        nodes(2, 8, cpus=64.0, memory_gb=512.0),
        tenants=[Tenant("us", 4.0)],
    )
    assert says in run.of(Refuse)[0].reason


def test_nobody_may_use_the_nodes_of_another_tenant() -> None:
    run = run_trace(
        "fifo-skip",
        [arrival("guest", 0.0, 5.0, 2), arrival("owner", 0.0, 5.0, 2, tenant="us")],
        [Node("ours", 2, tenant="us")],
    )
    assert run.phase("guest") is Phase.REFUSED
    assert run.phase("owner") is Phase.FINISHED


def test_a_quota_makes_a_tenants_jobs_wait_for_each_other() -> None:
    run = run_trace(
        "fifo-skip",
        [arrival(f"j{i}", 0.0, 10.0, 2, tenant="us") for i in range(3)],
        nodes(1, 8),
        tenants=[Tenant("us", 4.0)],
    )
    assert run.ends_at == {"j0": 10.0, "j1": 10.0, "j2": 20.0}


def test_a_draining_node_lets_running_jobs_end_and_takes_no_new_ones() -> None:
    run = run_trace(
        "fifo",
        [arrival("before", 0.0, 50.0), arrival("after", 20.0, 5.0)],
        nodes(1, 2),
        node_events=[NodeDraining(10.0, "n0"), NodeUp(100.0, "n0")],
    )
    assert run.ends_at == {"before": 50.0, "after": 105.0}


def test_when_a_node_leaves_those_that_fit_nowhere_else_are_refused() -> None:
    run = run_trace(
        "fifo",
        [
            arrival("gang", 0.0, 50.0, 4),
            arrival("waiting gang", 0.0, 50.0, 4),
            arrival("small", 0.0, 50.0),
        ],
        nodes(2, 2),
        node_events=[NodeLeft(10.0, "n1")],
    )
    assert run.phase("gang") is run.phase("waiting gang") is Phase.REFUSED
    assert run.ends_at == {"gang": 10.0, "waiting gang": 10.0, "small": 60.0}
    assert all("largest possible placement is 2" in entry.reason for entry in run.of(Refuse))


def test_a_node_that_joins_is_used_at_once() -> None:
    run = run_trace(
        "fifo",
        [arrival("a", 0.0, 50.0), arrival("b", 0.0, 5.0)],
        nodes(1, 1),
        node_events=[NodeJoined(10.0, Node("new", 1))],
    )
    assert run.ends_at == {"a": 50.0, "b": 15.0}


def test_what_happens_at_the_same_instant_is_known_before_anyone_decides() -> None:
    """One ends as two come: the shorter of the two gets the GPU, though it is told of later."""
    run = run_trace(
        "sjf",
        [arrival("a", 0.0, 10.0), arrival("long", 10.0, 9.0), arrival("short", 10.0, 1.0)],
        nodes(1, 1),
    )
    assert run.ends_at == {"a": 10.0, "short": 11.0, "long": 20.0}


def test_jobs_of_no_length_end_when_they_start() -> None:
    run = run_trace("srtf", [arrival(f"j{i}", 1.0, 0.0) for i in range(5)], nodes(1, 1))
    assert set(run.ends_at.values()) == {1.0}


# ---------------------------------------------------------------------------------- loud, not silent


@dataclass(frozen=True)
class Idle:
    """Starts nothing, and asks to be woken so much later, for ever."""

    every_s: float = inf

    def decide(self, view: View) -> Sequence[Action]:
        return [Wake(view.now + self.every_s)] if self.every_s < inf else []


def test_an_experiment_whose_policy_starts_nothing_fails_and_says_how_many_jobs_are_left() -> None:
    experiment = IdleExperiment([arrival("a"), arrival("b", 2.0, 1.0, 3)], nodes(1, 4))
    with pytest.raises(UnfinishedRun, match=r"left 2 of 2 jobs.*job 'a' asks for 1 GPU"):
        simulate(experiment, "idle")


class IdleExperiment(Experiment):
    def policy(self, text: str, view: View | None = None) -> Idle:
        return Idle()


@pytest.mark.parametrize("every_s", [0.0, 1.0])
def test_a_policy_that_wakes_for_ever_is_stopped(every_s: float) -> None:
    with pytest.raises(UnfinishedRun, match="1 jobs have not ended"):
        run_trace(Idle(every_s), [arrival("j")], nodes(1, 1))


def test_a_policy_that_wakes_for_ever_at_one_instant_is_stopped_though_the_world_goes_on() -> None:
    with pytest.raises(UnfinishedRun, match="t=0"):
        run_trace(Idle(0.0), [arrival("j"), arrival("later", 100.0)], nodes(1, 1))


def test_a_policy_may_look_at_a_long_job_as_often_as_it_likes() -> None:
    arrivals = [arrival("long", 0.0, 200_000.0), arrival("waits", 0.0, 1.0, deadline=0.0)]
    run = run_trace("least-laxity:quantum_s=1e9", arrivals, nodes(1, 1))
    assert len(run.ended) == 2


def test_a_wake_up_nobody_needs_any_more_is_forgotten() -> None:
    """It was asked for while a job waited; all ended before it came, and then others arrive."""
    run = run_trace(
        "least-laxity:quantum_s=100",
        [arrival("a", 0.0, 1.0), arrival("b", 0.0, 1.0), arrival("c", 500.0, 1.0)],
        nodes(1, 1),
    )
    assert run.ends_at["c"] == 501.0
    assert Woke(inf) not in run.of(Woke)


@dataclass(frozen=True)
class Sleepy:
    """Starts what waits, and asks each time to be woken at the end of time."""

    def decide(self, view: View) -> list[Action]:
        waiting = [own for own in view.tracks.values() if own.placement is None]
        return [*(Start(own.job.id, placement((0, 1))) for own in waiting), Wake(inf)]


def test_who_asks_to_be_woken_at_the_end_of_time_is_not_woken() -> None:
    state = State()
    run(SimulatedCluster(nodes(1, 1), [arrival("a", 3.0, 4.0)]), [Sleepy()], state)
    assert (state.now, state.ended) == (7.0, {"a": Phase.FINISHED})


def test_the_world_holds_what_happened_until_it_is_asked() -> None:
    world = SimulatedCluster(nodes(1, 2), [arrival("a", 3.0, 4.0)])
    told = world.observe()
    assert [type(event).__name__ for event in told] == ["NodeJoined", "Submitted"]
    assert [event.at for event in told] == [0.0, 3.0]
    world.act(Start(JobId("a"), placement((0, 1))))
    assert [event.at for event in world.observe()] == [7.0]
    assert list(world.observe()) == []


def test_an_empty_world_is_over_at_once() -> None:
    state = State()
    run(SimulatedCluster((), ()), [Idle()], state)
    assert (state.now, len(state.tracks)) == (0.0, 0)


def test_a_trace_on_a_cluster_without_nodes_is_refused_job_by_job() -> None:
    run = run_trace("fifo", [arrival("j", 2.0)], ())
    assert run.phase("j") is Phase.REFUSED


# ------------------------------------------------------------------------------------- pairs of jobs


@dataclass(frozen=True)
class Pair:
    """Puts whatever comes on half of GPU 0."""

    def decide(self, view: View) -> Sequence[Action]:
        here = placement((0, 1), share=500)
        waiting = [track for track in view.tracks.values() if track.placement is None]
        return [Start(track.job.id, here) for track in waiting][: 2 - len(view.running)]


def test_a_pair_runs_at_its_measured_speed_and_the_one_left_at_full_speed() -> None:
    run = run_trace(
        Pair(),
        [arrival("a", 0.0, 6.0), arrival("b", 0.0, 12.0)],
        nodes(1, 1),
        interference=same_for_all_pairs(0.6),
    )
    # both at 0.6 until a ends at 10; b has done 6 of 12 by then and is alone
    assert run.ends_at == {"a": 10.0, "b": 16.0}
    assert [(entry.at, entry.job_id, entry.speed) for entry in run.of(Paced)][-1] == (
        10.0,
        "b",
        1.0,
    )


def test_jobs_that_count_their_steps_share_a_gpu_as_others_do() -> None:
    plain = [arrival("a", 0.0, 6.0), arrival("b", 0.0, 120.0)]
    named = [replace(own, job=replace(own.job, amount=10.0)) for own in plain]
    told = [
        run_trace(Pair(), jobs, nodes(1, 1), interference=same_for_all_pairs(0.6))
        for jobs in (plain, counting(named, lambda job, here, there: 1.0))
    ]
    assert told[0].ends_at == {"a": 10.0, "b": 124.0}
    assert told[1].ends_at == told[0].ends_at
    assert [entry.job_id for entry in told[1].of(Reported)] == ["b"]


def test_the_speed_of_a_pair_may_differ_for_the_two() -> None:
    def interference(job: Job, other: Job, kind: str) -> float:
        return {"a": 0.5, "b": 0.8}[job.id]

    run = run_trace(
        Pair(),
        [arrival("a", 0.0, 10.0), arrival("b", 0.0, 10.0)],
        nodes(1, 1),
        interference=interference,
    )
    # b ends at 12.5; a has done 6.25 by then and does the rest alone
    assert run.ends_at == {"b": 12.5, "a": 16.25}


def test_without_measured_speeds_half_a_gpu_is_half_as_fast() -> None:
    run = run_trace(Pair(), [arrival("a", 0.0, 10.0)], nodes(1, 1))
    assert run.ends_at == {"a": 20.0}
    assert run.ended[JobId("a")].held_gpu_s == 10.0


def test_the_backend_refuses_to_start_what_it_does_not_know() -> None:
    world = SimulatedCluster(nodes(1, 1), [])
    with pytest.raises((DovetailError, KeyError)):
        world.act(Preempt(JobId("who")))


@pytest.mark.parametrize("cost", [Interruption(0.0, 20.0), Interruption(20.0, 0.0)])
@pytest.mark.parametrize(
    "policy",
    [
        *("round-robin:slice_s=10", "las:quantum=10", "multilevel-feedback:levels=2:slice_s=10"),
        *("least-laxity:quantum_s=5", "gandiva:slice_s=10:pack=false", "gittins:quantum=10"),
    ],
)
def test_a_turn_begins_with_its_work_however_long_saving_and_restoring_take(
    policy: str, cost: Interruption
) -> None:
    jobs = [arrival(name, 0.0, 100.0, interruption=cost, deadline=150.0) for name in ("a", "b")]
    run = run_trace(policy, jobs, [Node("n0", 1)])
    assert {run.phase("a"), run.phase("b")} == {Phase.FINISHED}


def test_preempting_whatever_has_not_begun_to_work_fails_loudly() -> None:
    class Restless:
        """Gives the GPU to the other one, whenever it is asked."""

        def decide(self, view: View) -> Sequence[Action]:
            waiting = [track for track in view.tracks.values() if track.placement is None]
            stops = [Preempt(job_id) for job_id in view.running]
            return [*stops, Start(waiting[0].job.id, placement((0, 1))), Wake(view.now + 10)]

    jobs = [
        arrival(name, 0.0, 100.0, interruption=Interruption(restore_s=20.0)) for name in ("a", "b")
    ]
    with pytest.raises(UnfinishedRun, match="no job makes progress"):
        run_trace(Restless(), jobs, [Node("n0", 1)])


def test_nodes_go_on_failing_for_as_long_as_jobs_run() -> None:
    experiment = Experiment(
        [arrival("long", 0.0, 1e5, interruption=Interruption(lost_s=0.0))],
        nodes(1, 8),
        failures=NodeFailures(mtbf_s=1000.0, repair_s=10.0),
    )
    (row,) = simulate(experiment, "fifo", rows=True).jobs
    repairs = row.end_s - 1e5
    assert 500 < repairs < 2000  # about a hundred failures of ten seconds each


def test_failures_that_come_too_often_for_any_job_to_end_are_told() -> None:
    experiment = Experiment(
        [arrival("j", 0.0, 7200.0)], nodes(1, 1), failures=NodeFailures(mtbf_s=1.0, repair_s=1.0)
    )
    with pytest.raises(UnfinishedRun, match="failures of nodes"):
        simulate(experiment, "fifo")


def test_failures_between_jobs_keep_nobody_from_an_end() -> None:
    failures = NodeFailures(mtbf_s=8.0, repair_s=0.001)
    world = SimulatedCluster(nodes(1, 1), [arrival("last", 1e6, 1.0)], failures=failures)
    failed, events = 0, world.observe()
    while not any(isinstance(event, Submitted) for event in events):
        events = world.observe()
        failed += any(isinstance(event, NodeDown) for event in events)
    assert failed > 110_000


def test_a_dead_node_takes_only_the_work_since_the_last_save() -> None:
    run = run_trace(
        "priority",
        [arrival("low", 0.0, 100.0), arrival("high", 10.0, 20.0, priority=1.0)],
        nodes(1, 1),
        node_events=[NodeDown(50.0, "n0"), NodeUp(60.0, "n0")],
    )
    # low works 0..10 and is saved; 30..50 is lost with the node; 90 s are left at 60
    assert run.ends_at["low"] == 150.0


def test_jobs_that_change_places_at_one_instant_are_not_suspended_together() -> None:
    jobs = [arrival(name, 0.0, 90.0) for name in "abc"]
    assert run_trace("round-robin:slice_s=30", jobs, nodes(1, 1)).state.peak_suspended == 2


def test_a_wake_up_is_not_passed_over_for_the_failure_of_a_node_that_has_left() -> None:
    failures = NodeFailures(60.0, 1.0, 77)
    assert 10.0 < NodeFailures(60.0, 1.0, 77).next_failure("n1", 0.0) < 18.0
    left = [NodeLeft(5.0, "n1")]
    world = SimulatedCluster(
        nodes(2, 1), [arrival("a", 0.0, 40.0)], node_events=left, failures=failures
    )
    times: list[float] = []
    while (events := world.observe()) and len(times) < 9:
        times += [event.at for event in events if isinstance(event, Woke)]
        if any(isinstance(event, Submitted) for event in events):
            world.act(Start(JobId("a"), placement((0, 1))))
        if events[-1].at < 20.0:
            world.act(Wake(20.0))
    assert times == [20.0]


def test_a_wake_up_that_was_asked_for_does_not_keep_failures_going_after_the_last_job() -> None:
    world = SimulatedCluster(
        nodes(1, 1), [arrival("a", 0.0, 5.0)], failures=NodeFailures(1e6, 1.0, 1)
    )
    seen = 0
    while (events := world.observe()) and seen < 20:
        seen += 1
        if any(isinstance(event, Submitted) for event in events):
            world.act(Start(JobId("a"), placement((0, 1))))
            world.act(Wake(1e9))
    assert seen < 20
