"""Backfilling: the worked examples, and agreement with the definitions written out naively."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.entries import (
    Action,
    Finished,
    JournalEntry,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeUp,
    Start,
    Started,
    Submitted,
    Wake,
)
from dovetail.core.inventory import Pool
from dovetail.core.loop import Policy, run
from dovetail.core.model import Interruption, Job, JobId, Node, Placement, Tenant
from dovetail.core.plan import Plan
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.core.view import View
from dovetail.models.workload import Arrival
from dovetail.policies.backfill.backlog import Tournament
from dovetail.policies.backfill.policies import Conservative, Easy
from dovetail.policies.placement import consolidated
from dovetail.predict.duration import Oracle
from dovetail.testing import told_to
from dovetail.worlds.simulated import SimulatedCluster

BOTH = pytest.mark.parametrize("kind", [Easy, Conservative])
FOUR = [("P", 3, 10, 0), ("Q", 4, 5, 1), ("R", 1, 4, 2), ("S", 1, 20, 3)]


# ---------------------------------------------------------------------------------------- builders


def arrivals(*rows: tuple[str, int, float, float], **fields: Any) -> list[Arrival]:
    """Rows of name, GPUs, seconds and time of submission."""
    return [Arrival(at, Job(JobId(name), gpus=gpus, **fields), s) for name, gpus, s, at in rows]


def nodes(*gpus: int, kind: str = "gpu") -> list[Node]:
    return [Node(f"{kind}{i}", count, kind) for i, count in enumerate(gpus)]


def truth(trace: Iterable[Arrival]) -> Oracle:
    return Oracle({arrival.job.id: arrival.work_s for arrival in trace})


def guess(**seconds: float) -> Oracle:
    return Oracle({JobId(name): s for name, s in seconds.items()})


@dataclass
class Ran:
    """What became of the jobs, by name."""

    state: State
    starts: dict[str, float] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    placements: dict[str, Placement] = field(default_factory=dict)

    def note(self, entry: JournalEntry, at: float) -> None:
        if isinstance(entry, Start):
            self.starts[entry.job_id] = at
            self.placements[entry.job_id] = entry.placement
        elif isinstance(entry, Finished):
            self.ends[entry.job_id] = at


def simulate(policy: Policy, trace: Sequence[Arrival], where: list[Node], **world: Any) -> Ran:
    ran = Ran(State())
    run(SimulatedCluster(where, trace, **world), [policy], ran.state, told_to(ran.note))
    return ran


def at_work(policy: Policy, where: list[Node], *submitted: Job, at: float = 0.0) -> State:
    """A state in which the policy has decided once."""
    state = State()
    for node in where:
        state.record(NodeJoined(at, node))
    for job in submitted:
        state.record(Submitted(at, job))
    decide_and_record(policy, state)
    return state


def decide_and_record(policy: Policy, state: State) -> list[str]:
    started = [action for action in policy.decide(state) if isinstance(action, Start)]
    for action in started:
        state.record(action)
        state.record(Started(state.now, action.job_id))
    state.settle()
    return [action.job_id for action in started]


# -------------------------------------------------------------------------------- worked examples


def test_easy_lets_a_short_job_by_and_holds_a_long_one_back() -> None:
    trace = arrivals(*FOUR)
    ran = simulate(Easy(predictor=truth(trace)), trace, nodes(4))
    assert ran.ends == {"P": 10, "Q": 15, "R": 6, "S": 35}
    assert ran.starts["R"] == 2


def test_conservative_does_the_same_on_the_four_jobs() -> None:
    trace = arrivals(*FOUR)
    ran = simulate(Conservative(predictor=truth(trace)), trace, nodes(4))
    assert ran.ends == {"P": 10, "Q": 15, "R": 6, "S": 35}


def test_conservative_keeps_a_promise_to_the_second_in_line_that_easy_breaks() -> None:
    # B is first in line and starts at 10, C at 15. D would end at 18: EASY lets it take one of the
    # two GPUs that B leaves over, and C, which needs all four, waits for it.
    rows = [("A", 3, 10, 0), ("B", 2, 5, 1), ("C", 4, 5, 2), ("D", 1, 15, 3)]
    trace = arrivals(*rows)
    easy = simulate(Easy(predictor=truth(trace)), trace, nodes(4))
    assert easy.starts == {"A": 0, "B": 10, "C": 18, "D": 3}
    conservative = simulate(Conservative(predictor=truth(trace)), trace, nodes(4))
    assert conservative.starts == {"A": 0, "B": 10, "C": 15, "D": 20}


def test_easy_lets_a_long_job_take_what_the_head_leaves_over_but_no_more() -> None:
    rows = [("A", 2, 10, 0), ("B", 3, 5, 1), ("C", 1, 100, 2), ("D", 1, 100, 3)]
    trace = arrivals(*rows)
    ran = simulate(Easy(predictor=truth(trace)), trace, nodes(4))
    assert ran.starts == {"A": 0, "C": 2, "B": 10, "D": 15}


def test_conservative_says_what_it_has_promised() -> None:
    jobs = [Job(JobId(name), gpus=gpus) for name, gpus in (("A", 3), ("B", 4), ("C", 1), ("D", 1))]
    policy = Conservative(predictor=guess(A=10, B=5, C=10, D=11))
    state = at_work(policy, nodes(4), *jobs)
    assert list(state.running) == ["A", "C"]
    assert policy.promised(state) == {"B": 10, "D": 15}


# ---------------------------------------------------------------------- where, and for whom it counts


def on_one_node(room: Room, shape: Shape) -> Placement | None:
    """A rule that never splits a gang."""
    placement = consolidated(room, shape)
    return placement if placement is None or len(placement.slices) == 1 else None


def test_the_shadow_time_is_when_the_placement_rule_finds_room_for_the_head() -> None:
    # At 10 seven GPUs would be free, but four and three; at 20 there are seven on the first node.
    policy = Easy(place=on_one_node, predictor=guess(Y=10, A=20, head=5, twenty=20, longer=21))
    state = at_work(policy, nodes(7, 3), Job(JobId("Y"), gpus=3), Job(JobId("A"), gpus=3))
    for name, gpus in (("head", 7), ("longer", 4), ("twenty", 4)):
        state.record(Submitted(0.0, Job(JobId(name), gpus=gpus)))
    assert decide_and_record(policy, state) == ["twenty"]


def test_gpus_of_another_kind_do_not_help_the_head_nor_get_in_its_way() -> None:
    where = nodes(2, kind="V100") + nodes(2, kind="T4")
    trace = [
        Arrival(0, Job(JobId("A"), gpus=1, kinds=("V100",)), 10),
        Arrival(1, Job(JobId("head"), gpus=2, kinds=("V100",)), 5),
        Arrival(2, Job(JobId("elsewhere"), gpus=2, kinds=("T4",)), 100),
        Arrival(3, Job(JobId("in its way"), gpus=1, kinds=("V100",)), 100),
    ]
    for policy in (Easy(predictor=truth(trace)), Conservative(predictor=truth(trace))):
        ran = simulate(policy, trace, where)
        assert ran.starts == {"A": 0, "head": 10, "elsewhere": 2, "in its way": 15}


def test_a_reserved_job_goes_to_the_kind_it_was_reserved_on() -> None:
    # At 2 one V100 is free, but only until the head takes both at 10: the long job belongs on the T4.
    where = nodes(2, kind="V100") + nodes(1, kind="T4")
    trace = [
        Arrival(0, Job(JobId("A"), gpus=1, kinds=("V100",)), 10),
        Arrival(1, Job(JobId("head"), gpus=2, kinds=("V100",)), 5),
        Arrival(2, Job(JobId("any"), gpus=1), 100),
    ]
    ran = simulate(Conservative(predictor=truth(trace)), trace, where)
    assert ran.starts == {"A": 0, "head": 10, "any": 2}
    assert ran.placements["any"].slices[0].node == 1


@BOTH
def test_a_head_that_waits_for_its_quota_is_not_delayed_by_its_own_tenant(kind: Any) -> None:
    trace = [
        Arrival(0, Job(JobId("A"), gpus=2, tenant="t"), 10),
        Arrival(1, Job(JobId("head"), gpus=3, tenant="t"), 5),
        Arrival(2, Job(JobId("own"), gpus=1, tenant="t"), 100),
        Arrival(3, Job(JobId("other"), gpus=1, tenant="u"), 100),
    ]
    policy = kind(predictor=truth(trace))
    ran = simulate(policy, trace, nodes(8), tenants=[Tenant("t", 3), Tenant("u", 8)])
    assert ran.starts == {"A": 0, "head": 10, "own": 15, "other": 3}


@BOTH
def test_jobs_with_cpus_shares_and_no_gpu_all_end(kind: Any) -> None:
    where = [Node("a", 2, cpus=8), Node("b", 2, cpus=8), Node("c", 2, "T4", cpus=8)]
    shapes: list[dict[str, Any]] = [
        {"gpus": 1, "cpus": 6},
        {"gpus": 2, "cpus": 4},
        {"gpus": 1, "share": 400},
        {"gpus": 0, "cpus": 5},
        {"gpus": 4},
        {"gpus": 2, "kinds": ("T4",), "cpus": 8},
    ]
    trace = [
        Arrival(float(i), Job(JobId(str(i)), **shapes[i * 5 % 6]), 3.0 + i % 4) for i in range(40)
    ]
    assert len(simulate(kind(predictor=truth(trace)), trace, where).ends) == 40


# ------------------------------------------------------------------------ estimates that prove wrong


def test_an_expired_estimate_is_extended_by_half_until_it_lies_in_the_future() -> None:
    # A was to end at 10. At 16 it is believed to end at 22.5, so 6 seconds fit before and 7 do not.
    policy = Easy(predictor=guess(A=10, head=5, six=6, seven=7))
    state = at_work(policy, nodes(2), Job(JobId("A")))
    for name, gpus in (("head", 2), ("seven", 1), ("six", 1)):
        state.record(Submitted(16.0, Job(JobId(name), gpus=gpus)))
    assert decide_and_record(policy, state) == ["six"]


def test_conservative_looks_again_when_a_job_does_not_end_as_expected() -> None:
    trace = arrivals(("A", 1, 14, 0), ("B", 2, 5, 1), ("C", 1, 3, 3))
    ran = simulate(Conservative(predictor=guess(A=5, B=5, C=3)), trace, nodes(2))
    # C would have ended after B's reservation at 5; at 5 A is believed to end at 7.5, at 7.5 at
    # 11.25, and before that there is time enough for C, though nothing happens at 5 nor at 7.5.
    assert ran.starts == {"A": 0, "C": 7.5, "B": 14}


def test_conservative_moves_everyone_up_when_a_job_ends_early() -> None:
    trace = arrivals(("A", 4, 3, 0), ("B", 3, 5, 1), ("C", 4, 5, 1), ("D", 1, 5, 1))
    ran = simulate(Conservative(predictor=guess(A=100, B=5, C=5, D=5)), trace, nodes(4))
    assert ran.starts == {"A": 0, "B": 3, "C": 8, "D": 3}


@BOTH
def test_a_resumed_job_is_expected_to_need_what_is_left_and_its_restoring(kind: Any) -> None:
    # X is interrupted at 6 with 4 of 10 seconds left and 3 to restore: 7 seconds, from 8 on.
    keeps = Interruption(restore_s=3, lost_s=0)
    trace = [
        Arrival(0, Job(JobId("X"), gpus=1, interruption=keeps), 10),
        Arrival(9, Job(JobId("head"), gpus=2), 5),
        Arrival(9, Job(JobId("too long"), gpus=1), 6.5),
        Arrival(9, Job(JobId("fits"), gpus=1), 6),
    ]
    events = [NodeDown(6.0, "gpu0"), NodeUp(8.0, "gpu0")]
    ran = simulate(kind(predictor=truth(trace)), trace, nodes(2), node_events=events)
    assert ran.ends["X"] == 15
    assert ran.starts == {"X": 8, "head": 15, "too long": 20, "fits": 9}


def test_a_cancelled_job_gives_its_reservation_up() -> None:
    trace = [
        Arrival(0, Job(JobId("A"), gpus=1), 10),
        Arrival(1, Job(JobId("wide"), gpus=2), 50, cancel_at=4),
        Arrival(2, Job(JobId("long"), gpus=1), 50),
    ]
    ran = simulate(Conservative(predictor=truth(trace)), trace, nodes(2))
    assert ran.starts == {"A": 0, "long": 4}


@BOTH
def test_a_job_too_wide_for_the_open_nodes_blocks_nobody(kind: Any) -> None:
    trace = arrivals(("wide", 4, 5, 1), ("long", 2, 50, 2))
    events = [NodeDraining(0.0, "gpu0"), NodeUp(20.0, "gpu0")]
    ran = simulate(kind(predictor=truth(trace)), trace, nodes(2, 2), node_events=events)
    assert ran.starts == {"wide": 52, "long": 2}


# ------------------------------------------------------------------- the definitions, written out


@dataclass(frozen=True)
class NaiveEasy:
    """EASY as the textbook has it: everything is looked at, at every event."""

    predictor: Oracle

    def decide(self, view: View) -> Sequence[Action]:
        plan = Plan(view, consolidated)
        queue = waiting(view)
        while queue and plan.start(queue[0]):
            queue.pop(0)
        if queue:
            shadow, extra = self.shadow(view, plan, queue.pop(0))
            self.fill(view, plan, queue, shadow, extra)
        return plan.actions

    def shadow(self, view: View, plan: Plan, head: Track) -> tuple[float, list[int]]:
        now, pools = view.now, view.room.pools
        releases = [
            (believed_end(track, self.predictor, view), pool, on_open_nodes(track, view))
            for track in view.running.values()
            for pool in [pool_held(view, track.placement)]
        ]
        for track, action in zip(plan.started, plan.actions, strict=True):
            assert isinstance(action, Start)
            end = now + left(track, self.predictor, view)
            releases.append((end, pool_held(view, action.placement), track.shape.gpus))
        for at in sorted({end for end, _, _ in releases}):
            free = [
                pool.free + sum(gpus for end, p, gpus in releases if p == pool.index and end <= at)
                for pool in pools
            ]
            for pool in view.room.eligible(head.shape):
                if free[pool.index] >= head.shape.gpus:
                    free[pool.index] -= head.shape.gpus
                    return at, free
        return inf, [0 for _ in pools]

    def fill(
        self, view: View, plan: Plan, queue: list[Track], shadow: float, extra: list[int]
    ) -> None:
        for track in queue:
            placement = plan.place(track)
            if placement is not None:
                pool, gpus = pool_held(view, placement), track.shape.gpus
                in_time = view.now + left(track, self.predictor, view) <= shadow
                if in_time or gpus <= extra[pool]:
                    plan.start_at(track, placement)
                    extra[pool] -= 0 if in_time else gpus


@dataclass(frozen=True)
class NaiveConservative:
    """Every reservation made from scratch at every event, each by trying every possible start."""

    predictor: Oracle

    def reservations(self, view: View) -> dict[JobId, tuple[float, Pool]]:
        now, room = view.now, view.room
        used: list[list[tuple[float, float, int]]] = [[] for _ in room.pools]
        for track in view.running.values():
            end = believed_end(track, self.predictor, view)
            used[pool_held(view, track.placement)].append((now, end, on_open_nodes(track, view)))
        found = {}
        for track in waiting(view):
            length, gpus = left(track, self.predictor, view), track.shape.gpus
            start, pool = min(
                (
                    (first_gap(used[pool.index], total(room, pool), gpus, length, now), pool)
                    for pool in room.eligible(track.shape)
                ),
                key=lambda option: option[0],
            )
            found[track.job.id] = (start, pool)
            if start < inf:
                used[pool.index].append((start, start + length, gpus))
        return found

    def decide(self, view: View) -> Sequence[Action]:
        plan = Plan(view, consolidated)
        for job_id, (start, pool) in self.reservations(view).items():
            if start <= view.now:
                track = view.tracks[job_id]
                only_there = Shape(0, replace(track.job, kinds=(pool.kind,)), "")
                placement = consolidated(view.room, only_there)
                assert placement is not None
                plan.start_at(track, placement)
        ends = [believed_end(track, self.predictor, view) for track in view.running.values()]
        ends += [view.now + left(track, self.predictor, view) for track in plan.started]
        if ends and view.waiting_count > len(plan.started):
            return [*plan.actions, Wake(min(ends))]
        return plan.actions


def first_gap(
    used: list[tuple[float, float, int]], total: int, gpus: int, length: float, now: float
) -> float:
    possible = [now, *sorted({end for _, end, _ in used if end > now})]
    return next((t for t in possible if room_for(used, total, gpus, t, t + length)), inf)


def total(room: Room, pool: Pool) -> int:
    return sum(room.nodes[n].gpus for n in pool.members if room.open[n])


def pool_held(view: View, placement: Placement | None) -> int:
    assert placement is not None
    return view.room.pool_of[placement.slices[0].node].index


def waiting(view: View) -> list[Track]:
    return [track for track in view.tracks.values() if track.placement is None]


def on_open_nodes(track: Track, view: View) -> int:
    """The GPUs it holds that others may have after it."""
    assert track.placement is not None
    return sum(mask.bit_count() for n, mask in track.placement.slices if view.room.open[n])


def left(track: Track, predictor: Oracle, view: View) -> float:
    duration = predictor.duration_s(track.job, view)
    while track.executed_s and duration <= track.executed_s:
        duration = max(duration, 1.0) * 1.5
    return duration - track.executed_s


def believed_end(track: Track, predictor: Oracle, view: View) -> float:
    duration = predictor.duration_s(track.job, view)
    while track.started_at + (duration - track.executed_s) <= view.now:
        duration = max(duration, 1.0) * 1.5
    return track.started_at + (duration - track.executed_s)


def room_for(
    used: list[tuple[float, float, int]], total: int, gpus: int, start: float, end: float
) -> bool:
    instants = [start, *(begin for begin, _, _ in used if start < begin < end)]
    return all(
        sum(held for begin, stop, held in used if begin <= t < stop) + gpus <= total
        for t in instants
    )


@dataclass
class Agreeing:
    """Runs the first policy, and fails when the second would have decided otherwise."""

    policy: Policy
    reference: Policy

    def decide(self, view: View) -> Sequence[Action]:
        expected = list(self.reference.decide(view))
        view.settle()
        assert list(self.policy.decide(view)) == expected
        view.settle()
        return expected


# ------------------------------------------------------------------------------------- properties


@dataclass(frozen=True)
class Workload:
    trace: list[Arrival]
    guesses: Mapping[JobId, float]

    @property
    def exact(self) -> Oracle:
        return truth(self.trace)

    @property
    def noisy(self) -> Oracle:
        return Oracle(self.guesses)


@st.composite
def workloads(draw: Callable[..., Any]) -> Workload:
    """Up to 25 jobs on 6 GPUs: integer times make for many ties, and some jobs are given up."""
    number = draw(st.integers(1, 25))
    row = st.tuples(
        st.integers(0, 4),
        st.integers(1, 6),
        st.integers(1, 20),
        st.integers(1, 30),
        st.one_of(st.none(), st.none(), st.integers(0, 30)),
    )
    at, trace, guesses = 0, [], {}
    for i, (gap, gpus, work, believed, gives_up) in enumerate(
        draw(st.lists(row, min_size=number, max_size=number))
    ):
        at += gap
        job = Job(JobId(f"j{i}"), gpus=gpus)
        cancel_at = None if gives_up is None else float(at + gives_up)
        trace.append(Arrival(float(at), job, float(work), cancel_at=cancel_at))
        guesses[job.id] = float(believed)
    return Workload(trace, guesses)


def without_cancelling(trace: list[Arrival]) -> list[Arrival]:
    return [Arrival(arrival.at, arrival.job, arrival.work_s) for arrival in trace]


SMALL = [4, 2]
NODE_EVENTS = [
    NodeDown(9.0, "gpu1"),
    NodeUp(14.0, "gpu1"),
    NodeDraining(25.0, "gpu0"),
    NodeUp(33.0, "gpu0"),
]
MORE = settings(max_examples=80, deadline=None)


@MORE
@given(workload=workloads(), exact=st.booleans())
def test_easy_agrees_with_its_definition(workload: Workload, exact: bool) -> None:
    belief = workload.exact if exact else workload.noisy
    policy = Agreeing(Easy(predictor=belief), NaiveEasy(belief))
    simulate(policy, workload.trace, nodes(*SMALL))


@MORE
@given(workload=workloads(), exact=st.booleans())
def test_conservative_agrees_with_its_definition(workload: Workload, exact: bool) -> None:
    belief = workload.exact if exact else workload.noisy
    policy = Agreeing(Conservative(predictor=belief), NaiveConservative(belief))
    simulate(policy, workload.trace, nodes(*SMALL))


@MORE
@given(
    workload=workloads(),
    exact=st.booleans(),
    kinds=st.lists(st.sampled_from([(), ("V",), ("T",), ("T", "V")]), min_size=25, max_size=25),
)
def test_both_agree_with_their_definitions_on_two_kinds_of_gpu(
    workload: Workload, exact: bool, kinds: list[tuple[str, ...]]
) -> None:
    belief = workload.exact if exact else workload.noisy
    trace = [
        replace(arrival, job=replace(arrival.job, kinds=wanted, gpus=(arrival.job.gpus + 1) // 2))
        for arrival, wanted in zip(workload.trace, kinds, strict=False)
    ]
    for policy in (
        Agreeing(Easy(predictor=belief), NaiveEasy(belief)),
        Agreeing(Conservative(predictor=belief), NaiveConservative(belief)),
    ):
        simulate(policy, trace, nodes(2, 1, kind="V") + nodes(4, kind="T"))


@MORE
@given(workload=workloads())
def test_both_agree_with_their_definitions_while_nodes_come_and_go(workload: Workload) -> None:
    belief = workload.noisy
    for policy in (
        Agreeing(Easy(predictor=belief), NaiveEasy(belief)),
        Agreeing(Conservative(predictor=belief), NaiveConservative(belief)),
    ):
        ran = simulate(policy, workload.trace, nodes(*SMALL), node_events=NODE_EVENTS)
        assert set(ran.state.ended.values()) <= {Phase.FINISHED, Phase.CANCELLED}
        assert len(ran.state.ended) == len(workload.trace)


@MORE
@given(workload=workloads())
def test_with_exact_estimates_conservative_keeps_every_first_promise(workload: Workload) -> None:
    trace = without_cancelling(workload.trace)
    policy = Conservative(predictor=workload.exact)
    promised: dict[str, float] = {}

    class Promising:
        def decide(self, view: View) -> Sequence[Action]:
            for job_id, start in policy.promised(view).items():
                promised.setdefault(job_id, start)
            return policy.decide(view)

    assert simulate(Promising(), trace, nodes(*SMALL)).starts == promised


@MORE
@given(workload=workloads())
def test_with_exact_estimates_easy_never_delays_the_head(workload: Workload) -> None:
    trace = without_cancelling(workload.trace)
    policy = Easy(predictor=workload.exact)
    shadows: dict[str, float] = {}

    class Watching:
        def decide(self, view: View) -> Sequence[Action]:
            actions = list(policy.decide(view))
            started = {action.job_id for action in actions if isinstance(action, Start)}
            still = [track for track in waiting(view) if track.job.id not in started]
            ahead = [t for t in waiting(view) if still and t.sequence < still[0].sequence]
            if still and still[0].job.id not in shadows:
                ends = sorted(
                    (view.now + left(t, workload.exact, view), t.shape.gpus) for t in ahead
                )
                ends += [
                    (believed_end(t, workload.exact, view), t.shape.gpus)
                    for t in view.running.values()
                ]
                free = 6 - sum(gpus for _, gpus in ends)
                for end, gpus in sorted(ends):
                    free += gpus
                    if free >= still[0].shape.gpus:
                        shadows[still[0].job.id] = end
                        break
            return actions

    ran = simulate(Watching(), trace, nodes(*SMALL))
    assert all(ran.starts[job_id] <= shadow for job_id, shadow in shadows.items())


@BOTH
@settings(max_examples=60, deadline=None)
@given(workload=workloads(), exact=st.booleans())
def test_deciding_twice_gives_the_same_and_a_new_index_too(
    kind: Any, workload: Workload, exact: bool
) -> None:
    belief = workload.exact if exact else workload.noisy
    policy = kind(predictor=belief)

    class Twice:
        def decide(self, view: View) -> Sequence[Action]:
            before = list(view.room.free)
            first = list(policy.decide(view))
            view.settle()
            assert list(view.room.free) == before
            assert list(policy.decide(view)) == first
            view.settle()
            assert list(kind(predictor=belief).decide(view)) == first
            view.settle()
            return first

    simulate(Twice(), workload.trace[:12], nodes(*SMALL), node_events=NODE_EVENTS)


@given(
    values=st.lists(st.integers(0, 9), max_size=40),
    changes=st.lists(st.tuples(st.integers(0, 39), st.one_of(st.just(inf), st.integers(0, 9)))),
    place=st.integers(0, 200),
    most=st.one_of(st.just(inf), st.integers(0, 9)),
)
def test_a_tournament_finds_the_first_that_is_small_enough(
    values: list[float], changes: list[tuple[int, float]], place: int, most: float
) -> None:
    tree = Tournament(values)
    for at, value in changes:
        if at < len(values):
            values[at] = value
            tree.set(at, value)
    fitting = [i for i, value in enumerate(values) if i >= place and value <= most and value < inf]
    assert tree.first(place, 0.0, most) == (fitting[0] if fitting else -1)
