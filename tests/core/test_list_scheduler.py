"""The list scheduler and its indices against a naive greedy that sorts everything every time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.entries import Finished, NodeJoined, Paced, Start, Started, Submitted, Woke
from dovetail.core.model import Estimate, Interruption, JobId, Node, Tenant
from dovetail.core.orders import KeyOrder, OrderBy
from dovetail.core.state import State
from dovetail.models.speed import by_kind_and_placement
from dovetail.policies.keys import ByRemaining, BySubmission
from dovetail.policies.listing import ListScheduler
from dovetail.policies.placement import consolidated
from dovetail.predict.duration import UserEstimate
from dovetail.testing import arrival, job, nodes, placement, run_trace

JOBS = st.lists(
    st.tuples(st.integers(0, 40).map(float), st.integers(1, 50).map(float), st.integers(1, 6)),
    min_size=1,
    max_size=14,
)


@dataclass
class Task:
    number: int
    at: float
    work_s: float
    gpus: int
    done_s: float = 0.0
    running: bool = False
    ends_at: float = inf
    starts: list[float] = field(default_factory=list)

    def left_in_quantum(self, quantum: float) -> float:
        if quantum == inf:
            return inf
        service = self.done_s * self.gpus
        return ((int(service / quantum + 1e-9) + 1) * quantum - service) / self.gpus


def naive(
    jobs: list[tuple[float, float, int]],
    total: int,
    key: Callable[[Task], Any],
    quantum: float = inf,
) -> dict[str, tuple[float, float]]:
    """Preemptive list scheduling by counting GPUs. At every event go through all jobs in the order
    of their keys and run those that fit. One that does not fit stops nobody behind it."""
    tasks = [Task(i, *rest) for i, rest in enumerate(jobs)]
    tasks.sort(key=lambda task: (task.at, task.number))
    for rank, task in enumerate(tasks):
        task.number = rank
    names = {
        task.number: f"j{i}"
        for task, i in zip(
            tasks, sorted(range(len(jobs)), key=lambda i: (jobs[i][0], i)), strict=True
        )
    }
    now, left, result = 0.0, list(tasks), {}
    while left:
        here = [task for task in left if task.at <= now]
        free = total
        for task in sorted(here, key=lambda task: (key(task), task.number)):
            fits = task.gpus <= free
            if fits and not task.running:
                task.starts.append(now)
            task.running = fits
            free -= task.gpus if fits else 0
        following = [task.at for task in left if task.at > now]
        following += [now + task.work_s - task.done_s for task in here if task.running]
        following += [now + task.left_in_quantum(quantum) for task in here if task.running]
        after = min(following)
        for task in here:
            if task.running:
                task.done_s += after - now
        now = after
        for task in [task for task in here if task.done_s >= task.work_s - 1e-9]:
            left.remove(task)
            result[names[task.number]] = (task.starts[0], now)
    return result


def ours(text: str, jobs: list[tuple[float, float, int]], gpus: int) -> dict[Any, Any]:
    arrivals = [arrival(f"j{i}", *rest) for i, rest in enumerate(jobs)]
    arrivals.sort(key=lambda came: came.at)
    run = run_trace(text, arrivals, nodes(gpus // 2, 2), place="count")
    return {name: (track.first_start_at, track.ended_at) for name, track in run.ended.items()}


KEYS: dict[str, Callable[[Task], Any]] = {
    "srtf": lambda task: task.work_s - task.done_s,
    "srsf": lambda task: (task.work_s - task.done_s) * task.gpus,
    "psjf": lambda task: task.work_s,
}


@pytest.mark.parametrize("text", KEYS)
@settings(max_examples=100)
@given(jobs=JOBS)
def test_the_list_scheduler_equals_a_naive_greedy(text: str, jobs: Any) -> None:
    assert ours(text, jobs, 6) == naive(jobs, 6, KEYS[text])


@settings(max_examples=100)
@given(jobs=JOBS)
def test_fifo_skip_equals_a_naive_greedy_that_never_stops_a_job(jobs: Any) -> None:
    def key(task: Task) -> float:
        return -1.0 if task.running else task.at

    assert ours("fifo-skip", jobs, 6) == naive(jobs, 6, key)


@settings(max_examples=100)
@given(jobs=JOBS)
def test_las_equals_a_naive_greedy_in_quanta(jobs: Any) -> None:
    """At equal rank whoever runs stays, then the first submitted goes first."""
    jobs = [(at, work_s, 2 ** (gpus % 3)) for at, work_s, gpus in jobs]

    def key(task: Task) -> tuple[int, bool]:
        return int(task.done_s * task.gpus / 8 + 1e-9), not task.running

    assert ours("las:quantum=8", jobs, 6) == naive(jobs, 6, key, quantum=8)


def test_a_large_head_is_skipped_by_the_list_but_blocks_strict_fifo() -> None:
    jobs = [(0.0, 10.0, 2), (1.0, 10.0, 4), (2.0, 1.0, 2)]
    assert ours("fifo-skip", jobs, 4)["j2"] == (2.0, 3.0)
    assert ours("fifo", jobs, 4)["j2"] == (20.0, 21.0)


def test_srtf_preempts_for_a_shorter_job_and_resumes_where_it_stopped() -> None:
    jobs = [(0.0, 100.0, 2), (10.0, 5.0, 2)]
    assert ours("srtf", jobs, 2) == {"j1": (10.0, 15.0), "j0": (0.0, 105.0)}


def test_srtf_stops_as_few_jobs_as_it_must() -> None:
    arrivals = [arrival(f"j{i}", 0.0, 100.0 + i) for i in range(4)]
    run = run_trace("srtf", [*arrivals, arrival("short", 1.0, 5.0)], nodes(1, 4))
    assert [entry.preemptions for entry in run.ended.values()] == [0, 0, 0, 0, 1]
    assert run.ends_at["j3"] == 108.0


def test_a_job_stopped_for_its_cpus_does_not_stay_when_they_are_taken() -> None:
    """The one GPU it had (the second) is still free, but the CPUs that go with it are not."""
    arrivals = [
        arrival("first", 0.0, 0.5),
        arrival("long", 0.0, 100.0, cpus=8.0),
        arrival("short", 1.0, 10.0, cpus=8.0),
    ]
    run = run_trace("srtf", arrivals, nodes(1, 8, cpus=10.0))
    assert run.ends_at == {"first": 0.5, "short": 11.0, "long": 110.0}


def test_a_job_that_makes_way_is_not_kept_beyond_its_tenants_quota() -> None:
    arrivals = [
        arrival("ours", 0.0, 100.0, 2, tenant="us"),
        arrival("theirs", 1.0, 10.0, 8, tenant="them"),
        arrival("ours too", 1.0, 10.0, 2, tenant="us"),
    ]
    run = run_trace("srtf", arrivals, nodes(1, 8), tenants=[Tenant("us", 2.0)])
    assert run.ends_at == {"theirs": 11.0, "ours too": 21.0, "ours": 120.0}


def test_two_jobs_on_slow_gpus_do_not_displace_each_other_for_ever() -> None:
    """Slower than predicted and costly to restore: still each runs to its end."""
    arrivals = [
        arrival(f"j{i}", float(i), 20.0 + i, interruption=Interruption(1.0, 5.0)) for i in range(3)
    ]
    for text in ("srtf", "srsf"):
        run = run_trace(text, arrivals, nodes(1, 1), speed=by_kind_and_placement({"gpu": 0.5}))
        assert sum(track.preemptions for track in run.ended.values()) == 0


def test_what_was_decided_stays_as_it_was_when_the_next_is_decided_also_on_another_view() -> None:
    policy = ListScheduler(BySubmission(), consolidated)
    worlds = [State(), State()]
    for number, state in enumerate(worlds):
        state.record(NodeJoined(0.0, Node("n0", 1 + number)))
        state.record(Submitted(0.0, job("a")))
        state.record(Submitted(0.0, job("b")))
    decided = []
    for state in (*worlds, *worlds):
        decided.append(policy.decide(state))
        state.settle()
    starts = [Start(JobId("a"), placement((0, 1))), Start(JobId("b"), placement((0, 2)))]
    assert [list(actions) for actions in decided] == [starts[:1], starts] * 2
    for action in policy.decide(worlds[1]):
        worlds[1].record(action)
    assert policy.decide(worlds[1]) == ()
    assert list(decided[1]) == starts


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9), st.booleans()), max_size=12),
    st.integers(0, 30),
)
def test_all_running_jobs_in_order_are_those_that_give_way_one_by_one(
    jobs: list[tuple[int, int, bool]], later: int
) -> None:
    """Some go at half speed: their keys fall more slowly. Some have ended meanwhile."""
    state, spec = State(), OrderBy(ByRemaining(UserEstimate()), preemptive=True)
    order = state.index(spec)
    assert isinstance(order, KeyOrder)
    state.record(NodeJoined(0.0, Node("n0", 16)))
    for number, (seconds, at, slow) in enumerate(sorted(jobs, key=lambda row: row[1])):
        name = JobId(f"j{number}")
        state.record(Submitted(float(at), job(name, estimate=Estimate(float(seconds)))))
        state.record(Start(name, placement((0, 1 << number))))
        state.record(Started(float(at), name))
        if slow:
            state.record(Paced(float(at), name, 0.5))
    for name in list(state.running)[::4]:
        state.record(Finished(10.0, name))
    state.record(Woke(10.0 + later))
    (pool,) = state.room.pools
    at_once = order.all_from_worst(pool)
    one_by_one = []
    while (row := order.worst(pool)) is not None:
        one_by_one.append(row)
        order.lend(pool, row)
    assert [row[4].job.id for row in at_once] == [row[4].job.id for row in one_by_one]
    assert {row[4].job.id for row in at_once} == set(state.running)
    assert order.all_from_worst(pool) == []
    order.settle()
    assert order.all_from_worst(pool) == at_once
